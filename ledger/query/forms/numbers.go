package forms

import (
	"math/big"
	"regexp"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// MaxNumber limits the length of a number in a parameter, in bytes. strconv parses numbers of
// this length exactly.
const MaxNumber = 64

var (
	integerForm = regexp.MustCompile(`^-?[0-9]+$`)
	doubleForm  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// CanonicalDouble returns a number in the form that events use, so that 0.70 equals 0.7. ok is
// false if the value is not a number of at most MaxNumber bytes.
func CanonicalDouble(value string) (canonical string, ok bool) {
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || len(value) > MaxNumber || !doubleForm.MatchString(value) {
		return "", false
	}
	return string(pyjson.AppendFloat(nil, number)), true
}

// CanonicalInteger is like CanonicalDouble, for an integer.
func CanonicalInteger(value string) (canonical string, ok bool) {
	if len(value) > MaxNumber || !integerForm.MatchString(value) {
		return "", false
	}
	number, ok := new(big.Int).SetString(value, 10)
	if !ok {
		return "", false
	}
	return number.String(), true
}
