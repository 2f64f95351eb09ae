// Package interop_test tests a real server with third-party tools. Transparency log tools mirror,
// check, and verify its log; OpenAPI tools check its responses. No test relies on the server's own
// code.
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

// tools holds the paths of the programs that TestMain has built.
var tools struct{ colophon, mirror string }

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard) // Tessera logs errors that it also returns
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

// wantTools skips a test if one of the named programs is missing. If COLOPHON_REQUIRE_INTEROP is
// set, the test fails instead.
func wantTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := exec.LookPath(name)
		if os.Getenv("COLOPHON_REQUIRE_INTEROP") != "" {
			require.NoError(t, err)
		}
		if err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
}
