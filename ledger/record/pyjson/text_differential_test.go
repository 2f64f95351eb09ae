package pyjson

import (
	"iter"
	"slices"
	"testing"

	"golang.org/x/text/unicode/norm"

	"colophon/ledger/record/cpython"
)

// collect returns the parts as a slice. The slice is never nil, because JSON distinguishes an empty
// list from null.
func collect(parts iter.Seq[[]byte]) [][]byte {
	return slices.AppendSeq([][]byte{}, parts)
}

func lower(text []byte) []byte { return AppendLower([]byte{}, text) }
func nfc(text []byte) []byte   { return AppendNFC([]byte{}, text) }

func compareText(t *testing.T, oracle *cpython.Oracle, texts [][]byte) {
	t.Helper()
	strip := func(text []byte) []byte { return append([]byte{}, Strip(text)...) }
	cpython.Compare(t, oracle, "strip", texts, strip)
	cpython.Compare(t, oracle, "splitlines", texts, func(text []byte) [][]byte { return collect(Lines(text)) })
	cpython.Compare(t, oracle, "split", texts, func(text []byte) [][]byte { return collect(Fields(text)) })
	cpython.Compare(t, oracle, "lower", texts, lower)
	cpython.Compare(t, oracle, "nfc", texts, nfc)
}

func TestTextAgainstCPython(t *testing.T) {
	oracle := cpython.Start(t)
	g := cpython.NewGenerator(t, oracle)
	texts := make([][]byte, 3000)
	for i := range texts {
		texts[i] = g.Text(1 + g.IntN(120))
	}
	compareText(t, oracle, texts)
}

// TestCodePointsAgainstCPython puts every code point that is assigned in the Unicode versions of both
// CPython and Go into every position that matters to a rule. The pieces are separated by line feeds,
// because a line feed is a starter and is neither Cased nor Case_Ignorable.
func TestCodePointsAgainstCPython(t *testing.T) {
	oracle := cpython.Start(t)
	blocks := make([]int, 0x1100)
	for i := range blocks {
		blocks[i] = i
	}
	cpython.Compare(t, oracle, "spaces", blocks, func(block int) []rune {
		spaces := []rune{}
		for r := rune(block * 256); r < rune(block*256+256); r++ {
			if IsSpace(r) {
				spaces = append(spaces, r)
			}
		}
		return spaces
	})
	var texts [][]byte
	for chunk := range slices.Chunk(cpython.AssignedCodePoints(t, oracle), 64) {
		var runes []rune
		for _, c := range chunk {
			for _, piece := range [][]rune{
				{c}, {'A', 'Σ', c}, {c, 'Σ'}, {'A', c, 'Σ'}, {'A', 'Σ', c, 'B'}, // for lower-casing
				{'e', 0x301, c, 0x301, 0x316}, {c, 0x323, 0x302}, {0x1100, c, 0x11A8}, {0xAC00, c}, {0x915, c}, // for NFC
			} {
				runes = append(append(runes, piece...), '\n')
			}
		}
		texts = append(texts, cpython.EncodeWTF8(runes))
	}
	cpython.Compare(t, oracle, "lower", texts, lower)
	cpython.Compare(t, oracle, "nfc", texts, nfc)
	compareText(t, oracle, texts[:40])
}

// TestLongCombiningRuns compares AppendNFC with CPython for texts with long runs of combining
// characters. On its own, x/text would insert U+034F into these runs.
func TestLongCombiningRuns(t *testing.T) {
	oracle := cpython.Start(t)
	g := cpython.NewGenerator(t, oracle)
	var marks, starters []rune
	for _, c := range cpython.AssignedCodePoints(t, oracle) {
		text := cpython.EncodeWTF8([]rune{c})
		if norm.NFC.Properties(text).CCC() != 0 {
			marks = append(marks, c)
		} else if len(nfc(append(text, "\u0301\u0323\u0327"...))) != len(text)+6 {
			starters = append(starters, c) // c composes with U+0301, U+0323, or U+0327, or it decomposes
		}
	}
	texts := make([][]byte, 1500)
	for i := range texts {
		var runes []rune
		for range 1 + g.IntN(4) {
			runes = append(runes, starters[g.IntN(len(starters))])
			for range g.IntN(70) {
				if g.IntN(2) == 0 {
					runes = append(runes, marks[g.IntN(len(marks))])
				} else {
					runes = append(runes, g.Rune())
				}
				if g.IntN(3) > 0 {
					runes = append(runes, []rune("\u0300\u0301\u0302\u0308\u0323\u0327\u0345\u11a8\u1161\u3099")[g.IntN(10)])
				}
			}
		}
		texts[i] = cpython.EncodeWTF8(runes)
	}
	cpython.Compare(t, oracle, "nfc", texts, nfc)
}

// TestNFCNextToLoneSurrogates checks that a lone surrogate does not combine with other code points,
// and that the text next to it is still normalised.
func TestNFCNextToLoneSurrogates(t *testing.T) {
	oracle := cpython.Start(t)
	var texts [][]byte
	for _, c := range cpython.AssignedCodePoints(t, oracle) {
		text := cpython.EncodeWTF8([]rune{c})
		if p := norm.NFC.Properties(text); p.CCC() != 0 || p.Decomposition() != nil || !p.BoundaryBefore() {
			texts = append(texts, cpython.EncodeWTF8([]rune{0xDC00, c}), cpython.EncodeWTF8([]rune{c, 0xD800, c}))
		}
	}
	cpython.Compare(t, oracle, "nfc", texts, nfc)
}
