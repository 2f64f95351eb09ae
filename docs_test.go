package colophon_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([a-z-]+))?`")
	definedTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
)

// Every test that a document names as evidence exists.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	listed, err := exec.Command("go", "list", "-f", `{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`, "./...").Output()
	require.NoError(t, err)
	defined := make(map[string]bool)
	for file := range strings.FieldsSeq(string(listed)) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range definedTest.FindAllSubmatch(text, -1) {
			defined[string(found[1])] = true
		}
	}
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	named := 0
	for _, document := range append(documents, "README.md") {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, found := range namedTest.FindAllSubmatch(text, -1) {
			named++
			require.True(t, defined[string(found[1])], "%s names the test %s, which does not exist", document, found[1])
			if script := string(found[2]); script != "" {
				require.FileExists(t, "cmd/colophon/testdata/script/"+script+".txtar", document)
			}
		}
	}
	require.Positive(t, named)
}

var (
	fencedBlock  = regexp.MustCompile("(?ms)^```.*?^```$")
	documentLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	linkedTitle  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors that GitHub generates for the headings of a document. If a heading
// occurs several times, a number is appended to each anchor after the first.
func anchors(text []byte) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fencedBlock.ReplaceAllString(string(text), ""), -1) {
		title := strings.ToLower(linkedTitle.ReplaceAllString(m[1], "$1"))
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(title, ""), " ", "-")
		numbered := anchor
		for n := 1; slices.Contains(all, numbered); n++ {
			numbered = fmt.Sprintf("%s-%d", anchor, n)
		}
		all = append(all, numbered)
	}
	return all
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	require.Equal(t, []string{"the-log-a-b", "run_id-in-a-link", "twice", "twice-1"},
		anchors([]byte("# The log: `a`, b\n## `run_id` in a [link](x.md)\n## Twice\n```sh\n# a comment\n```\n## Twice\n")))
}

// Every relative link in a document points to an existing file or heading.
func TestDocumentLinksResolve(t *testing.T) {
	documents := []string{"README.md", "NEWS.md", "CONTRIBUTING.md", "deploy/README.md"}
	require.NoError(t, filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			documents = append(documents, path)
		}
		return err
	}))
	checked := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, m := range documentLink.FindAllStringSubmatch(withoutCode(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			path, fragment, _ := strings.Cut(m[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), filepath.FromSlash(path))
			}
			_, err := os.Stat(target)
			if !assert.NoError(t, err, "%s links to %s", document, m[1]) || fragment == "" {
				continue
			}
			linked, err := os.ReadFile(target)
			require.NoError(t, err)
			assert.Contains(t, anchors(linked), fragment, "%s links to %s", document, m[1])
		}
	}
	require.Positive(t, checked)
}
