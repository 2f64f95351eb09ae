package pyjson

import (
	"math"
	"strconv"
)

// AppendFloat appends Python's repr of f, which is the shortest decimal that parses as f. Zero and
// numbers with 1e-4 <= |f| < 1e16 have no exponent, and all other numbers have one.
func AppendFloat(dst []byte, f float64) []byte {
	switch magnitude := math.Abs(f); {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case magnitude != 0 && magnitude < 1e-4 || magnitude >= 1e16:
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	case f == math.Trunc(f):
		return append(strconv.AppendFloat(dst, f, 'f', -1, 64), ".0"...)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// parseFloat returns the double that is nearest to a JSON number, or false if the number is too
// large for a double. Numbers that are too small become zero.
func parseFloat(number []byte) (float64, bool) {
	const short = 32 // numbers of up to 32 bytes need no normalising
	if len(number) > short {
		var buffer [maxDigits + 32]byte
		number = normalise(buffer[:0], number)
	}
	f, err := strconv.ParseFloat(string(number), 64)
	return f, err == nil // the only possible error is "out of range"
}

// maxDigits is the number of leading digits that determine which double a decimal rounds to: 767,
// plus one to spare. All that matters about later digits is whether any of them is nonzero.
const maxDigits = 768

// normalise appends a number that rounds to the same double as number, in a form that
// strconv.ParseFloat parses correctly. ParseFloat limits exponents and ignores the digits of an
// integer part beyond the first 800. The result has the form 0.<digits>e<x>, with at most
// maxDigits+1 digits and a small x. If any digit of number after the first maxDigits is nonzero, a
// final digit 1 replaces these digits.
func normalise(dst, number []byte) []byte {
	if number[0] == '-' {
		dst, number = append(dst, '-'), number[1:]
	}
	dst = append(dst, '0', '.')
	digits := len(dst)
	var exponent int64 // the number is 0.<digits>×10^exponent
	point, rest := false, false
	for ; len(number) > 0 && number[0]|0x20 != 'e'; number = number[1:] {
		c := number[0]
		if c == '.' {
			point = true
			continue
		}
		leading := c == '0' && len(dst) == digits
		if point && leading {
			exponent--
		} else if !point && !leading {
			exponent++
		}
		if len(dst)-digits == maxDigits {
			rest = rest || c != '0'
		} else if !leading {
			dst = append(dst, c)
		}
	}
	if rest {
		dst = append(dst, '1')
	}
	if len(dst) == digits {
		return append(dst, '0')
	}
	if len(number) > 0 {
		exponent += parseExponent(number[1:])
	}
	const beyond = 1000 // far outside the range of a double
	return strconv.AppendInt(append(dst, 'e'), max(-beyond, min(exponent, beyond)), 10)
}

// parseExponent parses an exponent with an optional sign. To avoid an overflow, it caps the
// magnitude at 4*MaxSourceBytes. No document has enough digits to offset such an exponent.
func parseExponent(text []byte) int64 {
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	var value int64
	for _, c := range text {
		value = min(value*10+int64(c-'0'), 4*MaxSourceBytes)
	}
	if negative {
		return -value
	}
	return value
}

// powersOfTen and powersOfFive contain the powers with exponents from 0 to 19, which fit in 64
// bits.
var (
	powersOfTen  = powers(10)
	powersOfFive = powers(5)
)

func powers(base uint64) (table [20]uint64) {
	table[0] = 1
	for i := 1; i < len(table); i++ {
		table[i] = table[i-1] * base
	}
	return table
}

// IsCanonicalFloat reports whether text is a number in the form that AppendFloat writes.
func IsCanonicalFloat(text []byte) bool {
	if len(text) == 0 || text[0] != '-' && !isDigit(text[0]) {
		return false
	}
	var t token
	if end, ok := t.scan(text, 0); !ok || end != len(text) || t.fraction == 0 && !t.exponent {
		return false
	}
	if t.shortest() {
		return true
	}
	f, ok := parseFloat(text)
	return ok && string(AppendFloat(nil, f)) == string(text)
}
