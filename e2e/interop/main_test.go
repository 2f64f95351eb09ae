// Package interop_test has other people's tools use a real server: those of
// transparency logs mirror, check and verify its log, those of OpenAPI watch its
// answers. Nothing here is written against what the server's own code believes.
package interop_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// tools are the paths of what TestMain has built, once.
var tools struct{ colophon, mirror string }

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard) // Tessera tells it what tests are told anyway
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "colophon-interop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tools.colophon, tools.mirror = filepath.Join(dir, "colophon"), filepath.Join(dir, "mirror")
	for _, build := range []struct{ in, pkg, to string }{
		{filepath.Join("..", ".."), "./cmd/colophon", tools.colophon},
		{".", "github.com/transparency-dev/tessera/cmd/experimental/mirror/posix", tools.mirror},
	} {
		command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", build.to, build.pkg)
		command.Dir = build.in
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", build.pkg, err, out)
			return 1
		}
	}
	return m.Run()
}

// wantTools skips a test where a program that it wants is absent, unless all are
// to be there.
func wantTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := exec.LookPath(name)
		if os.Getenv("COLOPHON_REQUIRE_INTEROP") != "" {
			require.NoError(t, err)
		}
		if err != nil {
			t.Skipf("there is no %s here", name)
		}
	}
}
