package pyjson

import (
	"math"
	"math/bits"
)

// number parses the number at start, which must begin with a minus sign or a digit, and returns the
// position after it.
func (d *Document) number(start int) (int, error) {
	var t token
	end, ok := t.scan(d.src, start)
	if !ok {
		return 0, fail(end, "malformed number")
	}
	n := node{start: uint32(start), end: uint32(end), kind: Float}
	switch {
	case t.fraction == 0 && !t.exponent:
		if t.integer > MaxIntegerDigits {
			return 0, d.failWithin(start, "integer has more than 4300 digits")
		}
		n.kind = Integer
		if !t.negative || t.mantissa != 0 || t.integer > 1 {
			n.flags = verbatim
		}
	case t.shortest():
		n.flags = verbatim
	case t.integer > 200 || t.exponent && isDigit(d.src[end-3]): // any other number is below 10^299, which is in the range of a double
		if _, ok := parseFloat(d.src[start:end]); !ok {
			return 0, d.failWithin(start, "number out of range for a double")
		}
	}
	d.nodes = append(d.nodes, n)
	return end, nil
}

// token describes a number after one pass over its bytes.
type token struct {
	negative bool
	integer  int    // number of digits before the point
	fraction int    // number of digits after the point
	mantissa uint64 // all digits as one number, modulo 2^64
	exponent bool   // whether the number has an exponent
}

// scan scans the number at pos and returns the position after the number. If the bytes are not a
// JSON number, it returns false and the position of the error.
func (t *token) scan(src []byte, pos int) (int, bool) {
	if src[pos] == '-' {
		t.negative = true
		pos++
	}
	first := pos
	for ; pos < len(src) && isDigit(src[pos]); pos++ {
		t.mantissa = t.mantissa*10 + uint64(src[pos]-'0')
	}
	if t.integer = pos - first; t.integer == 0 || t.integer > 1 && src[first] == '0' {
		return first, false
	}
	if pos < len(src) && src[pos] == '.' {
		pos++
		first = pos
		for ; pos < len(src) && isDigit(src[pos]); pos++ {
			t.mantissa = t.mantissa*10 + uint64(src[pos]-'0')
		}
		if t.fraction = pos - first; t.fraction == 0 {
			return pos, false
		}
	}
	if pos < len(src) && src[pos]|0x20 == 'e' {
		t.exponent = true
		return scanExponent(src, pos+1)
	}
	return pos, true
}

// scanExponent scans the part of a number after the "e" and returns the position after the number.
// It returns false if the exponent has no digits.
func scanExponent(src []byte, pos int) (int, bool) {
	if pos < len(src) && (src[pos] == '+' || src[pos] == '-') {
		pos++
	}
	first := pos
	for pos < len(src) && isDigit(src[pos]) {
		pos++
	}
	return pos, pos > first
}

// shortest reports whether the token is known to be the repr of the nearest double and can be
// copied unchanged. It returns false for a few tokens that could be copied, and leaves them to
// strconv.
func (t *token) shortest() bool {
	if t.exponent || t.integer+t.fraction > 19 {
		return false // the token has an exponent, or its mantissa may have overflowed
	}
	const exact = 1e15 // below this, any two different decimals parse as different doubles
	if t.mantissa%10 == 0 {
		return t.fraction == 1 && t.mantissa < exact // accepts "0.0" and "120.0", but not "1.10"
	}
	if t.fraction > 4 && t.mantissa < powersOfTen[t.fraction-4] {
		return false // below 1e-4, where repr uses an exponent
	}
	return t.mantissa < exact || t.mantissa < 1e17 && nearest(t.mantissa, t.fraction)
}

// nearest reports whether m×10^-k is the repr of x, the double nearest to it. The repr is the
// shortest decimal that parses as x and, among the decimals of that length, the nearest to x. If
// the result is uncertain, nearest returns false and strconv decides. nearest requires that 1e15 <=
// m < 1e17, that m is not a multiple of 10, and that 1 <= k <= 19.
//
// It divides m by 5^k to 64 bits and rounds the quotient to the 53 bits of a double. In units of
// 10^-k, delta is the distance of x from m, and half is the distance from x to each end of the
// interval that parses as x. A shorter decimal would be a multiple of ten in this interval. The
// errors of this computation are below 1e-12 units, so a case within margin of an edge counts as
// uncertain. If x is a power of two, its distances to the two ends differ. But powers of two from
// 1e-4 to 1e16 are multiples of ten units, so delta is at least one and nearest returns false.
func nearest(m uint64, k int) bool {
	const margin = 1e-6
	divisor := powersOfFive[k] << bits.LeadingZeros64(powersOfFive[k])
	high, low := m<<bits.LeadingZeros64(m), uint64(0)
	if high >= divisor {
		high, low = high>>1, high<<63
	}
	quotient, rest := bits.Div64(high, low, divisor) // the quotient is at least 2^63

	const dropped = 1 << 11 // weight of the lowest bit that is kept when 64 bits are rounded to 53
	// rounding and offset are in units of the quotient's last bit.
	rounding := float64(int64(dropped/2) - int64((quotient+dropped/2)%dropped))
	offset := rounding - float64(rest)/float64(divisor)

	unit := float64(m) / float64(quotient)
	delta, half := offset*unit, dropped/2*unit
	digit := float64(m % 10)
	return math.Abs(delta) < 0.5-margin && math.Abs(delta) < half-margin &&
		half-delta < digit-margin && half+delta < 10-digit-margin
}
