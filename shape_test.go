package colophon_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These limits apply to every package that is not listed in larger. A package that exceeds them
// should usually be split.
const (
	maxFiles   = 20
	maxLines   = 3000
	maxMethods = 40 // per receiver type
)

// bounds holds the limits that apply to one package.
type bounds struct{ files, lines, methods int }

// larger maps each package that may exceed the common limits to its own limits. Limits here may
// only be lowered. Remove an entry once its package is within the common limits.
var larger = map[string]bounds{
	// There is one file per command.
	"cmd/colophon": {files: 60, lines: 5500, methods: maxMethods},
	// There is one method per operation of the API.
	"client": {files: maxFiles, lines: 3400, methods: maxMethods},
}

var receiver = regexp.MustCompile(`^func \((?:\w+ )?\*?(\w+)(?:\[[^\]]*\])?\) `)

// TestShape prints the size of each package and checks that it is within the package's limits.
func TestShape(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles", "./...").Output()
	require.NoError(t, err)
	seen := make(map[string]bool)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir         string
			GoFiles, IgnoredGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		name, _ := relativePath(p.ImportPath)
		seen[name] = true
		bound, is := larger[name]
		if !is {
			bound = bounds{maxFiles, maxLines, maxMethods}
		}
		files := append(p.GoFiles, p.IgnoredGoFiles...) // includes files for other operating systems
		lines, methods := 0, make(map[string]int)
		for _, file := range files {
			f, err := os.Open(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			s := bufio.NewScanner(f)
			s.Buffer(nil, 1<<20)
			for s.Scan() {
				lines++
				if m := receiver.FindStringSubmatch(s.Text()); m != nil {
					methods[m[1]]++
				}
			}
			require.NoError(t, errors.Join(s.Err(), f.Close()))
		}
		most, of := 0, ""
		for receiver, n := range methods {
			if n > most {
				most, of = n, receiver
			}
		}
		t.Logf("%-32s %3d files %6d lines %4d methods of %s", name, len(files), lines, most, of)
		require.LessOrEqual(t, len(files), bound.files, "%s: source files", name)
		require.LessOrEqual(t, lines, bound.lines, "%s: lines", name)
		require.LessOrEqual(t, most, bound.methods, "%s: methods of %s", name, of)
		if is && name != "cmd/colophon" {
			require.True(t, len(files) > maxFiles || lines > maxLines || most > maxMethods, "%s is within the common limits: remove it from larger", name)
		}
	}
	for name := range larger {
		require.True(t, seen[name], "there is no package %s", name)
	}
}
