package cpython

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Generator generates random inputs, with an emphasis on cases in which CPython and Go could
// differ.
type Generator struct {
	*rand.Rand
	assigned []rune // code points that are assigned in the Unicode versions of both CPython and Go
}

// NewGenerator returns a Generator seeded by Rand, with the code points from AssignedCodePoints.
func NewGenerator(t testing.TB, oracle *Oracle) *Generator {
	t.Helper()
	return &Generator{Rand(t), AssignedCodePoints(t, oracle)}
}

// AssignedCodePoints returns the code points, including surrogates, that are assigned in the Unicode versions
// of both CPython and Go.
func AssignedCodePoints(t testing.TB, oracle *Oracle) []rune {
	t.Helper()
	blocks := make([]int, (unicode.MaxRune+1)/256)
	for i := range blocks {
		blocks[i] = i
	}
	var assigned []rune
	for _, block := range Ask[int, []rune](t, oracle, "assigned", blocks) {
		for _, r := range block {
			if unicode.In(r, unicode.C, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) {
				assigned = append(assigned, r)
			}
		}
	}
	return assigned
}

// pools holds sets of code points that are subject to special rules, such as those for whitespace
// or case mapping.
var pools = []string{
	"abcXYZ019 .,;:?!'\"\\/<>&_-",
	"\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000",                                         // whitespace and line breaks
	"\x00\x01\x08\x7f\u180e\u200b\u200c\u200d\u2060\ufeff\ufffd\uffff",                                                                // code points that look like whitespace or a line break but are neither
	"aσςΣAΑİIıßẞǅǄǆﬁ'.:·’\u00ad\u0301\u0345ªⅠⓐᶜʰ^`",                                                                                   // case mapping
	"eêệAÅΩ\u212a\u2126\u0300\u0301\u0302\u0304\u0308\u0323\u0327\u0328\u031b\u0338\u0340\u0341\u0344\u0345\u037e",                    // composition and decomposition
	"\u0958\u0915\u093c\u0f73\u0f71\u0f72\u0f80\u09c7\u09be\u2adc\u2add\u0338\U0001d15e\U0001d157\U0001d165\u034f\u05b0\u3099か\u302a", // composition exclusions and unusual combining classes
	"\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2가각힣한",                                                                                  // Hangul
	"？！。、…“”日本語🎵😀👩\u200d🚀\u20e3\ufe0f",
}

// Rune returns a random code point. It often comes from one of the pools, and is occasionally a
// lone surrogate.
func (g *Generator) Rune() rune {
	switch g.IntN(12) {
	case 0:
		return g.assigned[g.IntN(len(g.assigned))]
	case 1:
		return rune(g.IntN(0x250))
	case 2:
		if g.IntN(2) == 0 {
			return 0xD800 + rune(g.IntN(0x800))
		}
	}
	pool := []rune(pools[g.IntN(len(pools))])
	return pool[g.IntN(len(pool))]
}

// Runes returns up to limit random code points, most of them from one of the pools, such as the one
// for whitespace.
func (g *Generator) Runes(limit int) []rune {
	runes := make([]rune, 0, limit)
	pool := []rune(pools[g.IntN(len(pools))])
	for range g.IntN(limit + 1) {
		if g.IntN(3) > 0 {
			runes = append(runes, pool[g.IntN(len(pool))])
		} else {
			runes = append(runes, g.Rune())
		}
	}
	return runes
}

// Text returns random text of up to limit code points, encoded as WTF-8.
func (g *Generator) Text(limit int) []byte { return EncodeWTF8(g.Runes(limit)) }

// EncodeWTF8 encodes code points as WTF-8, in which a surrogate takes three bytes.
func EncodeWTF8(runes []rune) []byte {
	var text []byte
	for _, r := range runes {
		if r >= 0xD800 && r <= 0xDFFF {
			text = append(text, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
		} else {
			text = utf8.AppendRune(text, r)
		}
	}
	return text
}

func (g *Generator) oneOf(choices ...string) string { return choices[g.IntN(len(choices))] }

// digits returns n random decimal digits that do not begin with zero.
func (g *Generator) digits(n int) string {
	var b strings.Builder
	for i := range n {
		low := 0
		if i == 0 {
			low = 1
		}
		b.WriteByte(byte('0' + low + g.IntN(10-low)))
	}
	return b.String()
}
