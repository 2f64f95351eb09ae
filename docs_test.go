package colophon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([a-z-]+))?`")
	definedTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
)

// A test that a document names as evidence is there.
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
			require.True(t, defined[string(found[1])], "%s names %s", document, found[1])
			if script := string(found[2]); script != "" {
				require.FileExists(t, "cmd/colophon/testdata/script/"+script+".txtar", document)
			}
		}
	}
	require.Positive(t, named)
}
