package forms

import (
	"math/big"
	"regexp"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// maxNumber is the maximum length of a number in a parameter, in bytes. strconv rounds numbers of
// up to this length correctly.
const maxNumber = 64

var (
	integerForm = regexp.MustCompile(`^-?[0-9]+$`)
	doubleForm  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// canonicalDouble returns a number in the form that events use, so that 0.70 equals 0.7. ok is
// false if the value is not a number of at most maxNumber bytes.
func canonicalDouble(value string) (canonical string, ok bool) {
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || len(value) > maxNumber || !doubleForm.MatchString(value) {
		return "", false
	}
	return string(pyjson.AppendFloat(nil, number)), true
}

// canonicalInteger is like canonicalDouble, but for integers.
func canonicalInteger(value string) (canonical string, ok bool) {
	if len(value) > maxNumber || !integerForm.MatchString(value) {
		return "", false
	}
	number, ok := new(big.Int).SetString(value, 10)
	if !ok {
		return "", false
	}
	return number.String(), true
}
