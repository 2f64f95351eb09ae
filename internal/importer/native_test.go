package importer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/formats"
)

// long is a JSON member that is too long for a field or a label.
var long = `"remark":"` + strings.Repeat("word ", 1000) + `"`

// imported runs an import of files in dry-run mode and returns the tally and the report. files maps
// the name of each file to its content.
func imported(t *testing.T, f formats.Format, files map[string]string) (*Tally, []reportLine) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var report bytes.Buffer
	o := Options{MaxLineBytes: 1 << 20, Native: &NativeOptions{Format: f, Project: "story", Subject: "song", DryRun: true, ReportWriter: &report}}
	from := dir
	if !AcceptsFolders(f) {
		from = filepath.Join(dir, "file")
	}
	tally, err := Run(t.Context(), nil, o, []string{from})
	require.NoError(t, err)
	var lines []reportLine
	for line := range bytes.Lines(report.Bytes()) {
		var l reportLine
		require.NoError(t, json.Unmarshal(line, &l))
		lines = append(lines, l)
	}
	return tally, lines
}

// In every format, a long member either becomes content or is reported with its file, line, and
// name.
func TestLongMembersAreKeptOrNamed(t *testing.T) {
	const dag = `"dag":{"root":"f894810c462d44131493a86edc662b5f863c56f6dd420b525ad3d4da306a27e7","nodes":[{"stage":"question","hash":"94e1ed59d38e2b2f5ef8b4ed5a0ca3b7bcda0b5d2a3bd3a3c2a1ed9c0bde2a11"}]}`
	const generation = `"payload":{"seed":1},"model":"m"`
	for f, c := range map[formats.Format]struct {
		files map[string]string
		left  string // position and member that the report must name; empty if the member becomes content
	}{
		formats.AxisLabLog:      {map[string]string{"file": "{" + generation + "," + long + "}"}, ""},
		formats.AxisLabSave:     {map[string]string{"metadata.json": "{" + generation + "," + long + "}"}, ""},
		formats.CitationsFile:   {map[string]string{"citations.json": `{"all_citations":[],` + long + `}`}, "citations.json:1: /remark"},
		formats.ValidationCache: {map[string]string{"file": `{"a6122a65":{"route":"Start",` + long + `,"none":null}}`}, "file:1: a6122a65: /a6122a65/remark"},
		formats.ProvidenceCache: {map[string]string{"file": `{"id":1,` + dag + `}` + "\n" + `{"id":2,` + dag + "," + long + `}`}, "file:2: /remark"},
	} {
		tally, report := imported(t, f, c.files)
		require.Zero(t, tally.Total().Refused, "%s: %s", f, tally.Failures)
		require.Len(t, report, tally.Total().Accepted)
		member := report[len(report)-1].Members
		found := false
		for _, m := range member {
			if strings.HasSuffix(m.Pointer, "/remark") {
				found = true
				require.Equal(t, c.left != "", m.Outcome == formats.OutcomeLeftOut, f)
			}
		}
		require.True(t, found, f)
		if c.left == "" {
			require.Empty(t, tally.LeftOutMemberNotes, f)
			continue
		}
		require.Equal(t, 1, tally.LeftOutMemberCount, f)
		require.Contains(t, tally.LeftOutMemberNotes[0], c.left+" was left out: the value does not fit in a label", f)
	}
}

// The report has a line for each line of a file, even for one that cannot be read.
func TestReportsOfUnreadableLines(t *testing.T) {
	for f, files := range map[formats.Format]map[string]string{
		formats.AxisLabLog:      {"file": `{"payload":{"seed":1},"model":"m"}` + "\n{broken\n[]\n\n" + strings.Repeat("x", 1<<20+1)},
		formats.ProvidenceCache: {"file": "{}\n{broken\n[]\n" + strings.Repeat("x", 1<<20+1)},
		formats.CitationsFile:   {"a/citations.json": "{", "b/citations.json": "[]", "c/citations.json": `{"all_citations":[]}`, "d/citations.json": ""},
		formats.AxisLabSave:     {"a/metadata.json": "{", "b/metadata.json": "[]", "c/metadata.json": `{"payload":{},"model":"m"}`, "d/metadata.json": "\xff"},
		formats.ValidationCache: {"file": "{"},
	} {
		tally, report := imported(t, f, files)
		var left, taken int
		for _, l := range report {
			require.NotEmpty(t, l.File, f)
			require.NotZero(t, l.Line, f)
			if l.Left != "" {
				left++
			} else {
				taken++
			}
		}
		require.Equal(t, tally.Total().Refused, left, f)
		require.Equal(t, tally.Total().Accepted, taken, f)
		if f != formats.ValidationCache {
			require.Len(t, report, 4, f)
		}
	}
}

// A byte order mark at the beginning of a file of JSON is not part of it. In a text, it is content.
func TestByteOrderMarks(t *testing.T) {
	const mark = "\ufeff"
	for f, files := range map[formats.Format]map[string]string{
		formats.AxisLabLog:      {"file": mark + `{"payload":{"seed":1},"model":"m"}`},
		formats.ProvidenceCache: {"file": mark + `{"dag":{"root":"f894810c462d44131493a86edc662b5f863c56f6dd420b525ad3d4da306a27e7","nodes":[{"stage":"question","hash":"94e1ed59d38e2b2f5ef8b4ed5a0ca3b7bcda0b5d2a3bd3a3c2a1ed9c0bde2a11"}]}}`},
		formats.CitationsFile:   {"citations.json": mark + `{"all_citations":[]}`},
		formats.ValidationCache: {"file": mark + `{"a6122a65":{"route":"Start","content":"A"}}`},
		formats.AxisLabSave:     {"metadata.json": mark + `{"payload":{},"model":"m"}`, "output.md": mark + "Once."},
	} {
		tally, _ := imported(t, f, files)
		require.Equal(t, 1, tally.Total().Accepted, "%s: %s", f, tally.Failures)
	}
	n := native{line: line{file: t.TempDir()}}
	require.NoError(t, os.WriteFile(filepath.Join(n.file, "output.md"), []byte(mark+"Once."), 0o600))
	require.NoError(t, Options{}.readSave(&n))
	require.Equal(t, `{"output.md":"`+mark+`Once."}`, string(n.text))
}

// Only the first few members that are left out are named, but all of them are counted.
func TestLeftMembersAreBounded(t *testing.T) {
	var lines strings.Builder
	for range 25 {
		lines.WriteString(`{"payload":{"seed":1},"model":"m","x":"\ud800"}` + "\n")
	}
	tally, _ := imported(t, formats.AxisLabLog, map[string]string{"file": lines.String()})
	require.Len(t, tally.LeftOutMemberNotes, maxDescribed)
	require.Equal(t, 25, tally.LeftOutMemberCount)
	require.Contains(t, tally.LeftOutMemberNotes[9], "file:10: /x was left out: the name or the value contains a lone surrogate")
}
