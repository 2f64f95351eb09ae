package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/internal/cli"
	"colophon/internal/server"
)

// doctorNow is when the doctor of tests looks.
var doctorNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// someDoctor knows the default settings, and nothing else; changes are applied.
func someDoctor(t testing.TB, changes ...func(*doctor)) *doctor {
	t.Helper()
	nothing := func(string) (string, bool) { return "", false }
	d := &doctor{Console: &cli.Console{Out: io.Discard, Err: io.Discard, Env: nothing}, now: doctorNow}
	d.settings.config = server.Config{}.WithDefaults()
	d.settings.config.Data = t.TempDir()
	require.NoError(t, os.Chmod(d.data(), 0o700))
	for _, change := range changes {
		change(d)
	}
	return d
}

// configured changes the settings.
func configured(change func(*server.Config)) func(*doctor) {
	return func(d *doctor) { change(&d.settings.config) }
}

// requireVerdict checks how a check comes out, and that what it has found says so.
func requireVerdict(t testing.TB, list []diagnosis, verdict grade, words string) {
	t.Helper()
	require.NotEmpty(t, list)
	for _, d := range list {
		require.NotEmpty(t, d.Found)
		if d.Verdict == verdict && strings.Contains(d.Found, words) {
			require.True(t, d.Do != "" || verdict == fine || verdict == unchecked, "nothing is said to do about %q", d.Found)
			return
		}
	}
	require.Failf(t, "not found", "%s %q in %v", verdict, words, list)
}

// checkCase is a check of what is known.
type checkCase struct {
	name    string
	change  func(*doctor)
	verdict grade
	words   string
}

func runCheckCases(t *testing.T, check func(*doctor) []diagnosis, cases []checkCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requireVerdict(t, check(someDoctor(t, c.change)), c.verdict, c.words)
		})
	}
}

func TestDoctorJudgesWhatItDoesNotKnow(t *testing.T) {
	names := make(map[string]bool)
	for _, check := range doctorChecks() {
		require.False(t, names[check.name], check.name)
		names[check.name] = true
	}
	for _, d := range someDoctor(t).judge() {
		require.True(t, names[d.Check])
		require.NotEmpty(t, d.Found)
		require.NotEqual(t, wrong, d.Verdict, "%v", d)
	}
}

func TestDoctorReportHasTheWorstVerdict(t *testing.T) {
	of := func(grades ...grade) grade {
		var list []diagnosis
		for _, g := range grades {
			list = append(list, diagnosis{Verdict: g})
		}
		return newDoctorReport(list).Verdict
	}
	require.Equal(t, fine, of())
	require.Equal(t, fine, of(fine, unchecked))
	require.Equal(t, advice, of(fine, advice, unchecked))
	require.Equal(t, wrong, of(advice, wrong, advice))
}

func TestDoctorReportIsATableOrJSON(t *testing.T) {
	report := newDoctorReport([]diagnosis{
		{Check: "clock", Verdict: fine, Found: "it goes"},
		{Check: "signing keys", Verdict: wrong, Found: "one is \x1b[31mgone", Do: "find it"},
	})
	require.Equal(t, `ok           clock         it goes
wrong        signing keys  "one is \x1b[31mgone"
                           → find it

1 wrong, 0 advice, 1 ok, 0 not checked
`, report.text(0))
	var out bytes.Buffer
	require.NoError(t, report.print(&cli.Console{Out: &out}, true))
	var read doctorReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
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
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimLeft(line, " ")), max(width-indent, leastColumn))
		}
		require.Equal(t, text, fold(text, 0, indent))
	})
}

func TestStrangersAreVariablesThatNothingReads(t *testing.T) {
	require.Equal(t, []string{"COLOPHON_", "COLOPHON_LISTN", "COLOPHON_PORTAL"}, strangers([]string{
		"COLOPHON_PORTAL=x", "COLOPHON_LISTN=127.0.0.1:1", "COLOPHON_LISTEN=127.0.0.1:1", "COLOPHON_MAX_PAGE=2", "PATH=/bin", "COLOPHON_=",
		"COLOPHON_TOKEN=secret", "COLOPHON_TOKEN_FILE=f", "COLOPHON_CA_FILE=f", "COLOPHON_SERVER=s", "COLOPHON_CONFIG=c", "COLOPHON_KEY=k",
		"COLOPHON_PORT=tcp://10.0.0.1:8080", "COLOPHON_PORT_8080_TCP=tcp://10.0.0.1:8080", "COLOPHON_SERVICE_HOST=10.0.0.1",
	}))
}

func TestDoctorAsksWhereTheSettingsListen(t *testing.T) {
	for _, c := range []struct{ listen, certificate, want string }{
		{"127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"0.0.0.0:8443", "c.pem", "https://127.0.0.1:8443"},
		{":80", "", "http://127.0.0.1:80"},
		{"[::]:80", "", "http://127.0.0.1:80"},
		{"[fd00::1]:80", "", "http://[fd00::1]:80"},
		{"ledger.example.org:443", "c.pem", "https://ledger.example.org:443"},
		{"127.0.0.1:0", "", ""},
		{"nonsense", "", ""},
	} {
		s := settings{config: server.Config{Listen: c.listen, TLSCert: c.certificate}}
		require.Equal(t, c.want, s.server(), c.listen)
	}
}
