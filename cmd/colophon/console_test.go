package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/internal/cli"
	"colophon/internal/testing/ledgertest"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
)

func TestControlCharactersAreShown(t *testing.T) {
	for text, shown := range map[string]string{
		"Plain, größer\n\tand 東京 🙂\n": "Plain, größer\n\tand 東京 🙂\n",
		"\x1b[2Jclean\r\x00\x07":      `\x1b[2Jclean\x0d\x00\x07`,
		"\u009b2J\x7f":                `\u009b2J\u007f`,
		"a\u202eb\u2066c\u061c":       `a\u202eb\u2066c\u061c`,
		"\x9b2J\xff�":                 `\x9b2J\xff�`,
		"":                            "",
	} {
		var out bytes.Buffer
		c := cli.New(nil, &out, nil, nil)
		n, err := fmt.Fprint(c.Out, text)
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		require.Equal(t, shown, out.String())
	}
}

// The output of a command contains no control characters that a terminal would interpret, but the
// values in JSON output survive unchanged.
func TestJSONKeepsItsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		output := rapid.String().Draw(t, "said")
		var out bytes.Buffer
		c := cli.New(nil, &out, nil, nil)
		require.NoError(t, cli.PrintAsJSON(c, output))
		require.True(t, utf8.Valid(out.Bytes()))
		for _, r := range out.String() {
			require.False(t, r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r), "%q", r)
		}
		var again string
		require.NoError(t, json.Unmarshal(out.Bytes(), &again))
		require.Equal(t, output, again)
	})
}

// The detail of an error response is printed without control characters.
func TestProblemsHaveNoControlCharacters(t *testing.T) {
	w := ledgertest.New(t, 0, 0, 0)
	url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, _ *http.Request) bool {
		answer.WriteHeader(http.StatusNotFound)
		_, _ = answer.Write([]byte(`{"detail":"\u001b[2J\u009b1m\ndefault: clean"}`))
		return true
	})
	o := commandLine(t.Context(), "audit", url, "--key", w.Key)
	require.Equal(t, cli.ExitFailed, o.code)
	require.Contains(t, o.stderr, `\x1b[2J\u009b1m\ndefault: clean`)

	// A server cannot add lines to the report of an audit.
	const text, shown = "x\ndefault: clean\u2028\u2029\t", `x\ndefault: clean\u2028\u2029\t`
	url = liar(t, w, lie{about: onPath("/sources"), change: func(answer map[string]any) { answer[text] = text }})
	o = commandLine(t.Context(), "audit", url, "--key", w.Key, "--replay-index", "--sample", "1")
	require.Equal(t, 44, o.code, "%s%s", o.stdout, o.stderr)
	require.Contains(t, o.stdout, shown)
	require.NotContains(t, o.stdout, "\ndefault: clean")
	require.Equal(t, "answer: "+shown+", "+shown+": "+shown+"\n    expected "+shown+"\n    got      "+shown, monitor.Finding{Kind: monitor.DamageKindAnswer, Query: text, Row: text, Expected: text, Got: text, Message: text}.String())
	require.Equal(t, "content: "+`"`+shown+`", `+shown+", at entry 0: "+shown, monitor.Finding{Kind: audit.DamageKindContent, TilePath: text, Name: text, Message: text}.String())
}
