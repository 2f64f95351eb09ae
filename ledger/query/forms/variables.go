package forms

import (
	"fmt"
	"strings"

	"colophon/ledger/index/records"
	"colophon/ledger/record/members"
)

// CanonicalValue converts a value of a /drift/effects variable to the form that events use, so that
// 0.70 equals 0.7. If the value is invalid, expected completes the error message "must be …".
func CanonicalValue(variable, value string) (canonical, expected string) {
	ok := true
	switch {
	case variable[0] == '/':
		canonical, ok, expected = value, members.IsDigest([]byte(value)), "the digest of the member in the form that events use: 32 lower-case hexadecimal digits"
	case variable == records.NameModel || variable == records.NameOllamaBuildHash || strings.HasPrefix(variable, records.LabelPrefix):
		canonical = value
	case variable == "temperature":
		canonical, ok = canonicalDouble(value)
		expected = fmt.Sprintf("a number of at most %d characters", maxNumber)
	case variable == "max_tokens" || variable == "seed":
		canonical, ok = canonicalInteger(value)
		expected = fmt.Sprintf("an integer of at most %d digits", maxNumber)
	default:
		canonical, ok, expected = value, Hash.Accepts(value), Hash.Description
	}
	if ok {
		return canonical, ""
	}
	return "", expected
}
