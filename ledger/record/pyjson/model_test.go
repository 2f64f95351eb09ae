package pyjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is a naive implementation of the canonical form. It uses encoding/json and follows the
// wording of the specification (spec: Canonical JSON). It is correct for documents without lone
// surrogates whose numbers strconv parses correctly.
type model struct {
	t            require.TestingT
	comma, colon string
}

func (m model) canonical(source []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(source))
	decoder.UseNumber()
	var value any
	require.NoError(m.t, decoder.Decode(&value))
	return m.value(value)
}

func (m model) value(value any) string {
	var parts []string
	switch value := value.(type) {
	case string:
		return modelString(value)
	case json.Number:
		return m.number(value.String())
	case []any:
		for _, element := range value {
			parts = append(parts, m.value(element))
		}
		return "[" + strings.Join(parts, m.comma) + "]"
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, modelString(name)+m.colon+m.value(value[name]))
		}
		return "{" + strings.Join(parts, m.comma) + "}"
	case nil:
		return "null"
	}
	return fmt.Sprint(value)
}

func (m model) number(token string) string {
	if token == "-0" {
		return "0"
	}
	if !strings.ContainsAny(token, ".eE") {
		return token
	}
	f, err := strconv.ParseFloat(token, 64)
	require.NoError(m.t, err)
	return modelRepr(f)
}

func modelString(text string) string {
	var b strings.Builder
	short := strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	for _, r := range short.Replace(text) {
		if r < ' ' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// modelRepr returns Python's repr of f. It formats f with the fewest digits that identify it, and
// places the decimal point according to the exponent.
func modelRepr(f float64) string {
	shortest := strconv.FormatFloat(math.Abs(f), 'e', -1, 64)
	mantissa, exponentText, _ := strings.Cut(shortest, "e")
	exponent, _ := strconv.Atoi(exponentText)
	digits := strings.Replace(mantissa, ".", "", 1)
	sign := ""
	if math.Signbit(f) {
		sign = "-"
	}
	switch {
	case exponent < -4 || exponent >= 16:
		return sign + shortest
	case exponent < 0:
		return sign + "0." + strings.Repeat("0", -exponent-1) + digits
	case len(digits) <= exponent+1:
		return sign + digits + strings.Repeat("0", exponent+1-len(digits)) + ".0"
	}
	return sign + digits[:exponent+1] + "." + digits[exponent+1:]
}

func TestAppendFloatAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(
			rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64),
			rapid.Float64Range(-1e17, 1e17),
			rapid.Float64Range(-1e-3, 1e-3),
			rapid.Map(rapid.Int64(), func(i int64) float64 { return float64(i) }),
		).Draw(t, "f")
		require.Equal(t, modelRepr(f), string(AppendFloat(nil, f)))
	})
}

func TestAppendStringAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("\"\\/\b\f\n\r\t\x00\x1f\x7f a")))).Draw(t, "text")
		require.Equal(t, modelString(text), string(AppendString(nil, []byte(text))))
	})
}

// TestShortestTokens checks that token.shortest returns true only for the repr of a double, and
// that it does so for most of them.
func TestShortestTokens(t *testing.T) {
	checked, taken := 0, 0
	check := func(t *rapid.T, text string) {
		var k token
		end, ok := k.scan([]byte(text), 0)
		require.True(t, ok)
		require.Equal(t, len(text), end)
		f, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		checked++
		if k.shortest() {
			taken++
			require.Equal(t, text, modelRepr(f))
		}
	}
	t.Run("any", func(t *testing.T) {
		integer := rapid.Uint64Range(0, 1e10)
		fraction := rapid.StringMatching(`0{0,3}[0-9]{1,19}`)
		rapid.Check(t, func(t *rapid.T) {
			check(t, fmt.Sprint(integer.Draw(t, "integer"))+"."+fraction.Draw(t, "fraction"))
		})
	})
	t.Run("next to a double", func(t *testing.T) {
		// Format a double with 16 or 17 significant digits and replace the last digit. The result
		// is parsed as the same double or as a nearby one.
		rapid.Check(t, func(t *rapid.T) {
			f := math.Ldexp(1+rapid.Float64Range(0, 1).Draw(t, "f"), rapid.IntRange(-13, 50).Draw(t, "exponent"))
			if rapid.Bool().Draw(t, "power") {
				f = math.Ldexp(1, rapid.IntRange(-13, 50).Draw(t, "exponent"))
			}
			shift := max(0, 16-int(math.Floor(math.Log10(f)))-rapid.IntRange(0, 1).Draw(t, "short"))
			digits := strconv.FormatFloat(f, 'f', shift, 64)
			last := byte('0' + rapid.IntRange(0, 9).Draw(t, "last"))
			if point := strings.IndexByte(digits, '.'); point > 0 && point < len(digits)-2 {
				digits = digits[:len(digits)-1] + string(last)
				check(t, digits)
			}
		})
	})
	checked, taken = 0, 0
	random := rapid.Float64Range(0.01, 1)
	rapid.Check(t, func(t *rapid.T) {
		check(t, modelRepr(1/(1+random.Draw(t, "f")))) // like many values of Python's random.random()
	})
	require.Greater(t, taken, checked*3/4)
}
