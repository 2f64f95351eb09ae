package cpython

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Document returns a random JSON document. It is usually valid. Occasionally, a number is out of
// range or a member name is repeated.
func (g *Generator) Document() []byte {
	var b strings.Builder
	g.space(&b)
	g.value(&b, 1+g.IntN(6))
	g.space(&b)
	return []byte(b.String())
}

// NestedDocument returns a document with arrays and objects nested n levels deep.
func (g *Generator) NestedDocument(n int) []byte {
	var b, closing strings.Builder
	for range n {
		if g.IntN(2) == 0 {
			b.WriteString("[")
			closing.WriteString("]")
		} else {
			b.WriteString(g.oneOf(`{"a":`, `{"b":1,"a":`))
			closing.WriteString("}")
		}
	}
	b.WriteString(g.oneOf("0", `"[[{{"`, "[]"))
	ends := []byte(closing.String())
	for i := len(ends) - 1; i >= 0; i-- {
		b.WriteByte(ends[i])
	}
	return []byte(b.String())
}

func (g *Generator) value(b *strings.Builder, depth int) {
	kind := g.IntN(9)
	if depth == 0 {
		kind = g.IntN(5)
	}
	switch kind {
	case 0:
		b.WriteString(g.oneOf("null", "true", "false"))
	case 1, 2:
		b.WriteString(g.Number())
	case 3, 4:
		g.string(b, g.Runes(12))
	case 5, 6:
		g.list(b, "[", "]", func() { g.value(b, depth-1) })
	default:
		g.list(b, "{", "}", func() {
			g.name(b)
			g.space(b)
			b.WriteByte(':')
			g.space(b)
			g.value(b, depth-1)
		})
	}
}

func (g *Generator) list(b *strings.Builder, open, end string, item func()) {
	b.WriteString(open)
	g.space(b)
	for i := range g.IntN(6) {
		if i > 0 {
			b.WriteByte(',')
			g.space(b)
		}
		item()
		g.space(b)
	}
	b.WriteString(end)
}

// name writes a random member name. Occasionally it picks one of a few names that are likely to be
// repeated or to be sorted differently by CPython.
func (g *Generator) name(b *strings.Builder) {
	if g.IntN(10) == 0 {
		g.string(b, []rune(g.oneOf("", "a", "é", "\ue000", "🎵", "\ud7ff", "/~")))
		return
	}
	g.string(b, append(g.Runes(10), rune('a'+g.IntN(26))))
}

func (g *Generator) space(b *strings.Builder) {
	if g.IntN(3) == 0 {
		for range g.IntN(4) {
			b.WriteString(g.oneOf(" ", "\t", "\n", "\r"))
		}
	}
}

// string writes a JSON string. Each code point is written either literally or in one of its escaped
// forms.
func (g *Generator) string(b *strings.Builder, runes []rune) {
	b.WriteByte('"')
	raw := g.IntN(2) == 0
	for _, r := range runes {
		surrogate := r >= 0xD800 && r <= 0xDFFF
		if short := strings.IndexRune("\"\\/\b\f\n\r\t", r); short >= 0 && g.IntN(2) == 0 {
			b.WriteByte('\\')
			b.WriteByte(`"\/bfnrt`[short])
		} else if raw && !surrogate && r >= ' ' && r != '"' && r != '\\' {
			b.WriteRune(r)
		} else if r > 0xFFFF {
			r -= 0x10000
			fmt.Fprintf(b, g.oneOf(`\u%04x\u%04x`, `\u%04X\u%04X`), 0xD800+r>>10, 0xDC00+r&0x3FF)
		} else {
			fmt.Fprintf(b, g.oneOf(`\u%04x`, `\u%04X`), r)
		}
	}
	b.WriteByte('"')
}

// Number returns a random JSON number in one of many notations.
func (g *Generator) Number() string {
	sign := g.oneOf("", "", "-")
	switch g.IntN(12) {
	case 0:
		return g.oneOf("0", "-0", "0.0", "-0.0", "0e999999999999", "-0.00e-7", "0E5", "1e16", "1e15", "9999999999999998.0",
			"9999999999999999.0", "1e-4", "0.0001", "1e-5", "9.999e-5", "1.7976931348623157e308", "5e-324", "2e-324", "1e22", "1e23")
	case 1:
		return sign + strconv.Itoa(g.IntN(100000))
	case 2:
		return sign + g.digits(1+g.IntN(40))
	case 3:
		return sign + strconv.FormatFloat(g.Float64(), 'f', -1, 64)
	case 4:
		return sign + strconv.FormatFloat(g.Float64()*math.Pow10(g.IntN(20)), 'f', g.IntN(12)+1, 64)
	case 5:
		return sign + strconv.FormatFloat(g.double(), 'e', g.IntN(20)-1, 64)
	case 6:
		return sign + g.oneOf("0", g.digits(1+g.IntN(18))) + "." + strings.Repeat("0", g.IntN(6)) + g.digits(1+g.IntN(20)) + g.oneOf("", "", "0")
	case 7:
		return sign + g.digits(1+g.IntN(20)) + g.oneOf("e", "E") + g.oneOf("", "+", "-") + g.oneOf("", "0", "000") + strconv.Itoa(g.IntN(340))
	case 8:
		return sign + g.halfway()
	case 9:
		return sign + g.longMantissa()
	default:
		return sign + g.digits(1) + "." + g.digits(1+g.IntN(3))
	}
}

// double returns a random nonnegative finite double. All orders of magnitude are equally likely.
func (g *Generator) double() float64 {
	return math.Float64frombits(g.Uint64() % math.Float64bits(math.Inf(1)))
}

// halfway returns a decimal number that is exactly or almost exactly halfway between two adjacent
// doubles. The number is written with all of its significant digits.
func (g *Generator) halfway() string {
	low := g.double()
	if g.IntN(2) == 0 {
		low = math.Ldexp(1+g.Float64(), g.IntN(120)-60)
	}
	high := math.Nextafter(low, math.Inf(1))
	if math.IsInf(high, 1) {
		return "1.7976931348623158e308"
	}
	middle := new(big.Float).SetPrec(1200).Add(big.NewFloat(low), big.NewFloat(high))
	text := middle.Quo(middle, big.NewFloat(2)).Text('e', 1100)
	mantissa, exponent, _ := strings.Cut(text, "e")
	mantissa = strings.TrimRight(mantissa, "0")
	mantissa += g.oneOf("", "0", "0000001", strings.Repeat("0", g.IntN(900))+"1")
	if g.IntN(4) == 0 { // make the number slightly smaller
		last := len(mantissa) - 1
		for mantissa[last] == '0' || mantissa[last] == '.' {
			last--
		}
		mantissa = mantissa[:last] + string(mantissa[last]-1) + "9" + mantissa[last+1:]
	}
	if strings.HasSuffix(mantissa, ".") {
		mantissa += "0"
	}
	return mantissa + "e" + exponent
}

// longMantissa returns a number with hundreds of digits and an exponent that brings it back to an
// ordinary magnitude.
func (g *Generator) longMantissa() string {
	n := 700 + g.IntN(400)
	switch g.IntN(3) {
	case 0:
		return g.digits(n) + "e-" + strconv.Itoa(n+g.IntN(20))
	case 1:
		return g.digits(1) + strings.Repeat("0", n) + g.oneOf("", "1") + "E-" + strconv.Itoa(n-g.IntN(20))
	}
	return "0." + strings.Repeat("0", n) + g.digits(1+g.IntN(900)) + "e" + strconv.Itoa(n+g.IntN(20))
}

// fragments lists the texts that Mutate can insert into a document.
var fragments = []string{
	"{", "}", "[", "]", ",", ":", `"`, `\`, `\u`, `\ud83d`, `\udfb5`, `\u00e9`, `\x`, `\'`, `\/`, "NaN", "Infinity", "-Infinity", "-", "+", ".", "e",
	"1e999", "1e-999", "-1.8e308", "0x1", "01", "1.", ".5", "1e", "1e+", "--1", "\ufeff", "\x00", "\x1f", "\xff", "\xed\xa0\x80", "\xc3", "\u00a0",
	"//", "/**/", "'", "True", "None", "nul", "null", "truex", `"a":1,"\u0061":2`, `,"a":0`, "\v", "\f", " ", "\n", "0", "9",
	strings.Repeat("1", 4301), strings.Repeat("1", 4300), "0." + strings.Repeat("1", 4400), strings.Repeat("[", 513),
}

// Mutate returns a copy of source with one to three small changes, which usually make it invalid.
func (g *Generator) Mutate(source []byte) []byte {
	mutated := append([]byte(nil), source...)
	for range 1 + g.IntN(3) {
		from := g.IntN(len(mutated) + 1)
		to := min(from+g.IntN(4), len(mutated))
		var piece []byte
		switch g.IntN(4) {
		case 0: // cut
		case 1: // repeat
			piece = append(append(piece, mutated[from:to]...), mutated[from:to]...)
		case 2: // replace
			piece = []byte(g.oneOf(fragments...))
		default: // insert
			piece = []byte(g.oneOf(fragments...))
			to = from
		}
		mutated = append(append(append([]byte(nil), mutated[:from]...), piece...), mutated[to:]...)
	}
	return mutated
}
