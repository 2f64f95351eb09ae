package pyjson

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/cpython"
)

// forms contains the compact and the spaced canonical form of a document.
type forms [2][]byte

// canonicalForms returns the canonical forms of source, or nil if the parser refuses source.
func canonicalForms(d *Document, source []byte) *forms {
	if d.Parse(source) != nil {
		return nil
	}
	return &forms{d.Root().AppendCanonical(nil, CompactForm), d.Root().AppendCanonical(nil, SpacedForm)}
}

func compareForms(t *testing.T, oracle *cpython.Oracle, count int, source func() []byte) {
	t.Helper()
	batch := make([][]byte, count)
	for i := range batch {
		batch[i] = source()
	}
	var d Document
	accepted := 0
	cpython.Compare(t, oracle, "canonical", batch, func(source []byte) *forms {
		result := canonicalForms(&d, source)
		if result != nil {
			accepted++
		}
		return result
	})
	t.Logf("%d of %d accepted", accepted, count)
}

func TestCanonicalAgainstCPython(t *testing.T) {
	oracle := cpython.Start(t)
	g := cpython.NewGenerator(t, oracle)
	t.Run("documents", func(t *testing.T) { compareForms(t, oracle, 4000, g.Document) })
	t.Run("mutations", func(t *testing.T) {
		compareForms(t, oracle, 8000, func() []byte { return g.Mutate(g.Document()) })
	})
	t.Run("numbers", func(t *testing.T) {
		compareForms(t, oracle, 8000, func() []byte { return []byte(g.Number()) })
	})
	t.Run("nesting", func(t *testing.T) {
		compareForms(t, oracle, 60, func() []byte { return g.NestedDocument(505 + g.IntN(15)) })
	})
}

// TestNumbersBeyondStrconv compares parsed numbers with CPython. strconv.ParseFloat alone would
// parse some of them wrongly. Others have an exponent at a limit.
func TestNumbersBeyondStrconv(t *testing.T) {
	oracle := cpython.Start(t)
	zeros := func(n int) string { return string(slices.Repeat([]byte{'0'}, n)) }
	var tokens []string
	for _, n := range []int{790, 800, 801, 1200, 5000, 99990, 120000} {
		for _, shift := range []int{-330, -310, -1, 0, 1, 5, 308, 309} {
			exponent := strconv.Itoa(shift - n)
			tokens = append(tokens, "1"+zeros(n)+"e"+exponent, "1"+zeros(n)+"1e"+exponent, "12345"+zeros(n)+".5e"+exponent,
				"0."+zeros(n)+"17976931348623157e"+strconv.Itoa(n+shift))
		}
	}
	tokens = append(tokens, "1e99999999999999999999", "1e-99999999999999999999", "0."+zeros(900)+"e99999999999999999999", "-0e-99999999999999999999")
	cpython.Compare(t, oracle, "float_repr", tokens, func(token string) *string {
		f, ok := parseFloat([]byte(token))
		if !ok {
			return nil
		}
		text := string(AppendFloat(nil, f))
		return &text
	})
}

// TestPowersOfTwo covers powers of two and their neighbours. A power of two is not in the middle of
// the interval of decimals that are parsed as that power, and it can lie between two decimals that
// are equally short.
func TestPowersOfTwo(t *testing.T) {
	oracle := cpython.Start(t)
	var tokens []string
	for exponent := -1074; exponent < 1024; exponent++ {
		power := math.Ldexp(1, exponent)
		for _, f := range []float64{math.Nextafter(power, 0), power, math.Nextafter(power, 2*power)} {
			tokens = append(tokens, strconv.FormatFloat(f, 'e', 20, 64))
		}
	}
	cpython.Compare(t, oracle, "float_repr", tokens, func(token string) string {
		f, ok := parseFloat([]byte(token))
		require.True(t, ok)
		return string(AppendFloat(nil, f))
	})
}
