package record

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"

	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// FuzzRecord checks that every input is either refused or results in a canonical event body, and
// that parsing the input again produces the same body.
func FuzzRecord(f *testing.F) {
	for i, body := range []string{goodIPC, goodDAG, goodSet, goodPath, `{"reject_inputs":{}}`, `{"dag":{"root":"` + zeros + `","nodes":[]}}`,
		`{"producer":{"id":"p","seq":7},` + goodSet[1:]} {
		f.Add(uint8(i), []byte(body))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		k := RecordKinds[int(kind)%len(RecordKinds)]
		r, err := Parse(k, body)
		if err != nil {
			var problem *strict.Error
			require.ErrorAs(t, err, &problem)
			require.NotEmpty(t, problem.Problems)
			for _, p := range problem.Problems {
				require.True(t, utf8.ValidString(p.Pointer) && utf8.ValidString(p.Detail))
			}
			return
		}
		event := EventContext{Actor: "a", Ledger: "l"}
		first := AppendBodySuffix(r.AppendBodyPrefix(nil, event), 1, time.Unix(0, 0))
		var d pyjson.Document
		require.NoError(t, d.Parse(first))
		require.Equal(t, string(first), string(d.Root().AppendCanonical(nil, pyjson.CompactForm)))
		r.Release()
		again, err := Parse(k, body)
		require.NoError(t, err)
		require.Equal(t, string(first), string(AppendBodySuffix(again.AppendBodyPrefix(nil, event), 1, time.Unix(0, 0))))
		again.Release()
	})
}

// FuzzLine checks that a line of a batch is either decoded to a record or an action, or refused
// with an error.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"kind":"ipc_record","record":` + goodIPC + `,"idempotency_key":"k"}`))
	f.Add([]byte(`{"kind":null}`))
	f.Add([]byte(`{"kind":"note","record":{"record_seq":1,"topic":"review","text":"t"}}`))
	f.Add([]byte(`{"kind":"record_state_changed","record":{"record_seq":1,"state":"stale","reason":"r","timestamp":"2025-11-30T12:00:00Z"}}`))
	f.Add([]byte(`{"kind":"path_validated","record":{"project":"p","path_id":"a6122a65","validated":true,"original_actor":"ana"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := ParseBatchLine(line)
		if err != nil {
			var problem *strict.Error
			require.ErrorAs(t, err, &problem)
			return
		}
		if l.Action != nil {
			require.Nil(t, l.Record)
			body := AppendBodySuffix(l.Action.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"}), 1, time.Unix(0, 0))
			require.NoError(t, l.Action.CheckEntrySize(body))
			require.NoError(t, new(pyjson.Document).Parse(body))
			return
		}
		if l.Validation != nil {
			body := l.Validation.ActionFor(LatestPathRecord{Project: l.Validation.Project, PathID: l.Validation.PathID}).AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"})
			require.NoError(t, new(pyjson.Document).Parse(AppendBodySuffix(body, 1, time.Unix(0, 0))))
			return
		}
		require.NotEmpty(t, l.Record.Kind)
		l.Record.Release()
	})
}

// FuzzTextRules checks properties of the rules for texts (spec: Text and JSON; Hashes). It compares
// some of the rules with naive implementations.
func FuzzTextRules(f *testing.F) {
	for _, text := range []string{"", " a  b \r\n c\x1c", "[[a]] [b](c)", "[a] text [b](c)", "[[a\n]]", "The  end? !", "a\n\n\n\nb", "\xed\xa0\x80"} {
		f.Add([]byte(text))
	}
	wiki, markdown := regexp.MustCompile(`\[\[.*?\]\]`), regexp.MustCompile(`\[.*?\]\(.*?\)`)
	spaces, lines := regexp.MustCompile(` +`), regexp.MustCompile(`\n{2,}`)
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, rule := range map[string]func(dst, text []byte) []byte{
			"system prompt": rules.AppendNormalisedSystemPrompt, "output": rules.AppendNormalisedOutput, "words": rules.AppendWords, "whitespace": rules.AppendCollapsedText,
			"strict question": func(dst, text []byte) []byte { return rules.AppendCanonicalQuestion(dst, text, true) },
		} {
			once := rule(nil, text)
			require.Equal(t, string(once), string(rule(nil, once)), "%s is idempotent", name)
			require.Equal(t, "x"+string(once), string(rule([]byte("x"), text)), "%s keeps the prefix", name)
		}
		rules.AppendCanonicalQuestion(nil, text, false)
		if !utf8.Valid(text) {
			return
		}
		naive := markdown.ReplaceAllString(wiki.ReplaceAllString(string(text), ""), "")
		require.Equal(t, naive, string(rules.AppendWithoutLinks(nil, text)))
		naive = lines.ReplaceAllString(spaces.ReplaceAllString(string(text), " "), "\n\n")
		require.Equal(t, string(pyjson.Strip([]byte(naive))), string(rules.AppendCollapsedText(nil, text)))
		require.False(t, strings.Contains(string(rules.AppendNormalisedOutput(nil, text)), "  "))
	})
}
