package story

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func folder(files map[string]string) fstest.MapFS {
	m := make(fstest.MapFS)
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const oneList = `{"paths":[{"id":"0a1b2c3d","route":["Start","Cave"],"content":{"Start":"It rained. [[Cave]]\n\n","Cave":" Dark."}}]}`

func TestReadTakesEitherFormOfABuild(t *testing.T) {
	listed := []Path{{Route: []string{"Start", "Cave"}, Content: "It rained. [[Cave]]\n\nDark."}}
	texts := []Path{{Route: []string{"Start", "Cave"}, Content: "It rained.\n\nDark."}}
	const cache = `{"0a1b2c3d":{"route":"Start → Cave","validated":true},"ffffffff":{"route":"Start"},"last_updated":"2025"}`
	for name, c := range map[string]struct {
		files map[string]string
		want  []Path
	}{
		"list in dist":        {map[string]string{"dist/allpaths-intermediate/paths.json": oneList}, listed},
		"list in the folder":  {map[string]string{"allpaths-intermediate/paths_categorized.json": oneList}, listed},
		"list before texts":   {map[string]string{"allpaths-intermediate/paths.json": oneList, "allpaths-clean/path-0a1b2c3d.txt": "Other."}, listed},
		"texts":               {map[string]string{"dist/allpaths-clean/path-0a1b2c3d.txt": "It rained.\n\nDark.\n", "allpaths-validation-status.json": cache}, texts},
		"texts of old builds": {map[string]string{"dist/allpaths-text/path-001-0a1b2c3d.txt": "It rained.\n\nDark.\n", "dist/allpaths-text/README.md": "", "dist/allpaths-validation-cache.json": cache}, texts},
		"no paths":            {map[string]string{"allpaths-intermediate/paths.json": `{"paths":[]}`}, []Path{}},
	} {
		found, err := ReadPaths(folder(c.files))
		require.NoError(t, err, name)
		for i := range found {
			require.NotEmpty(t, found[i].file)
			found[i].file = ""
		}
		require.Equal(t, c.want, found, name)
	}
}

func TestReadSaysWhatIsMissing(t *testing.T) {
	const text = "allpaths-clean/path-0a1b2c3d.txt"
	for want, files := range map[string]map[string]string{
		"build the story first": {"README.md": ""},
		"the folder allpaths-clean contains texts, but the file allpaths-validation-status.json, which defines the routes of the texts, was not found": {text: "It rained."},
		`has no route for the path "0a1b2c3d"`:             {text: "It rained.", "allpaths-validation-status.json": `{"ffffffff":{"route":"Start"}}`},
		"allpaths-validation-status.json: unexpected":      {text: "It rained.", "allpaths-validation-status.json": `{"`},
		`status.json: path "a": json`:                      {text: "It rained.", "allpaths-validation-status.json": `{"a":{"route":7}}`},
		"paths.json: invalid":                              {"allpaths-intermediate/paths.json": `x`},
		"paths.json: path 1 has no route":                  {"allpaths-intermediate/paths.json": `{"paths":[{}]}`},
		`path 1 has no text for the passage "Start"`:       {"allpaths-intermediate/paths.json": `{"paths":[{"route":["Start"]}]}`},
		"have the same route":                              {"allpaths-intermediate/paths.json": `{"paths":[{"route":["a"],"content":{"a":""}},{"route":["a"],"content":{"a":"b"}}]}`},
		"path-0a1b2c3d.txt and allpaths-clean/path-1b.txt": {text: "x", "allpaths-clean/path-1b.txt": "y", "allpaths-validation-status.json": `{"0a1b2c3d":{"route":"a"},"1b":{"route":"a"}}`},
	} {
		_, err := ReadPaths(folder(files))
		require.ErrorContains(t, err, want)
	}
}

func TestDiffShowsTheWords(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"It rained.", "It snowed.", "> It <del>rained.</del><ins>snowed.</ins>\n"},
		{"Go [[north]] now.", "Go [[south]] soon.", "> Go <del>now.</del><ins>soon.</ins>\n"},
		{"One.\n\nTwo.\n\nThree.\n\nFour.", "One.\n\nTwo.\n\n3.\n\nFour.", "> …\n>\n> <del>Three.</del><ins>3\\.</ins>\n>\n> …\n"},
		{"", "# A *new* <b>", "> <ins>\\# A \\*new\\* &lt;b&gt;</ins>\n"},
		{"One.\n\nTwo.", "One. Two.", "> One. <del>¶</del> <ins> </ins>Two.\n"},
		{"Gone.", "", "> <del>Gone.</del>\n"},
	} {
		require.Equal(t, c.want, MarkdownDiff(c.before, c.after))
	}
}

var tagged = regexp.MustCompile(`<del>.*?</del>`)

// If a diff shows every paragraph, removing its deletions leaves the later text.
func TestDiffEndsWithTheLaterText(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c", "door", "wall", "é"})
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string {
			return strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, name), " ")
		}
		before, after := text("before"), text("after")
		if before == after {
			return
		}
		shown := tagged.ReplaceAllString(strings.TrimPrefix(strings.TrimSuffix(MarkdownDiff(before, after), "\n"), "> "), "")
		shown = strings.NewReplacer("<ins>", "", "</ins>", "").Replace(shown)
		require.Equal(t, after, strings.TrimSpace(shown))
	})
}

// MarkdownDiff encodes each distinct word as a rune. It also works if there are more words than
// runes below the surrogates.
func TestDiffOfManyWords(t *testing.T) {
	var words []string
	for i := range 0xD900 {
		words = append(words, fmt.Sprint(i, "x"))
	}
	before := strings.Join(words, " ")
	require.Contains(t, MarkdownDiff(before, before+" more"), "<ins> more</ins>")
	require.NotContains(t, MarkdownDiff(before, before+" more"), "<del>")
}

func TestReportCountsWhatIsNotValidated(t *testing.T) {
	r := &Report{Project: "vale_1", Build: "b", BaseBuild: "a", Paths: []ComparedPath{
		{PathID: "1", Route: []string{"Start"}, Status: "modified", PriorValidationSeq: 7, Diff: "> …\n"},
		{PathID: "2", Route: []string{"Start", "*"}, Status: "unchanged", LinksChanged: true},
		{PathID: "3", Route: []string{"End"}, Status: "new", Validated: true},
		{PathID: "4", Route: []string{"Old"}, Status: "gone", SameTextRoutes: [][]string{{"End"}}},
		{PathID: "5", Route: []string{"Lost"}, Status: "modified", NoDiffReason: "No text."},
		{PathID: "6", Route: []string{"Moved"}, Status: "incomparable"},
	}}
	require.Equal(t, 4, r.CountUnvalidated())
	var w strings.Builder
	require.NoError(t, r.WriteMarkdown(&w))
	for _, want := range []string{
		"# Paths of vale\\_1, build b\n", "| 1 | 2 | 1 | 1 | 4 |\n", "\nThe ledger cannot compare 1 of the paths: ", "## Incomparable, not validated\n\n### Moved\n",
		"## Modified, not validated\n\n### Start\n\nPath `1`. Event 7 validated the same text earlier.\n\n> …\n",
		"\n*No text.*\n", "## Unchanged, not validated\n\n### Start → \\*\n\nPath `2`. Only its links changed.\n", "## Gone\n\n### Old\n\nPath `4`. Perhaps renamed: the same text is at End.\n",
	} {
		require.Contains(t, w.String(), want)
	}
	require.NotContains(t, w.String(), "### End")
}
