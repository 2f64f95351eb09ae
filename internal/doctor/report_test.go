package doctor

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReportHasTheWorstVerdict(t *testing.T) {
	of := func(verdicts ...Verdict) Verdict {
		var list []Finding
		for _, v := range verdicts {
			list = append(list, Finding{Verdict: v})
		}
		return newReport(list).Verdict
	}
	require.Equal(t, VerdictOK, of())
	require.Equal(t, VerdictOK, of(VerdictOK, VerdictNotChecked))
	require.Equal(t, VerdictAdvice, of(VerdictOK, VerdictAdvice, VerdictNotChecked))
	require.Equal(t, VerdictWrong, of(VerdictAdvice, VerdictWrong, VerdictAdvice))
}

func TestReportIsComplete(t *testing.T) {
	require.True(t, newReport([]Finding{{Verdict: VerdictOK}, {Verdict: VerdictWrong}}).AllChecked())
	require.False(t, newReport([]Finding{{Verdict: VerdictOK}, {Verdict: VerdictNotChecked}}).AllChecked())
}

func TestReportIsATableOrJSON(t *testing.T) {
	report := newReport([]Finding{
		{Check: "clock", Verdict: VerdictOK, Message: "it is right"},
		{Check: "signing keys", Verdict: VerdictWrong, Message: "one is \x1b[31mgone", Advice: "find it"},
	})
	require.Equal(t, `ok           clock         it is right
wrong        signing keys  "one is \x1b[31mgone"
                           → find it

1 wrong, 0 advice, 1 ok, 0 not checked
`, report.FormatTable(0))
	encoded, err := json.Marshal(report)
	require.NoError(t, err)
	var read Report
	require.NoError(t, json.Unmarshal(encoded, &read))
	require.Equal(t, report, read)
}

func TestFoldKeepsTheWordsAndTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zé]{1,12}( [a-zé]{1,12}){0,30}`).Draw(t, "text")
		width := rapid.IntRange(1, 120).Draw(t, "width")
		indent := rapid.IntRange(0, 40).Draw(t, "indent")
		folded := fold(text, width, indent)
		require.Equal(t, strings.Fields(text), strings.Fields(folded))
		for i, line := range strings.Split(folded, "\n") {
			if i > 0 {
				require.True(t, strings.HasPrefix(line, strings.Repeat(" ", indent)))
			}
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimLeft(line, " ")), max(width-indent, minColumn))
		}
		require.Equal(t, text, fold(text, 0, indent))
	})
}
