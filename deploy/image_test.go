package deploy_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The image's build context has every file that the server is built from.
func TestImageHasAllSources(t *testing.T) {
	rules, err := os.ReadFile("Dockerfile.dockerignore")
	require.NoError(t, err)
	sent := make(map[string]bool) // what is sent of the top folder
	var dropped []string          // patterns of names that are sent from no folder
	for line := range strings.Lines(string(rules)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "!"):
			sent[line[1:]] = true
		case strings.HasPrefix(line, "**/"):
			dropped = append(dropped, line[3:])
		default:
			require.True(t, line == "*" || strings.HasPrefix(line, "#"), "this test does not know the rule %q", line)
		}
	}
	isSent := func(name string) bool {
		for _, pattern := range dropped {
			matches, err := filepath.Match(pattern, filepath.Base(name))
			require.NoError(t, err)
			if matches {
				return false
			}
		}
		first, _, _ := strings.Cut(filepath.ToSlash(name), "/")
		return sent[first]
	}
	folder := t.TempDir()
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel("..", path)
		if err != nil || name == "." {
			return err
		}
		to := filepath.Join(folder, name)
		switch {
		case !isSent(name) && entry.IsDir():
			return fs.SkipDir
		case !isSent(name):
			return nil
		case entry.IsDir():
			return os.Mkdir(to, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	}))
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(t.TempDir(), "colophon"), "./cmd/colophon")
	build.Dir, build.Env = folder, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
