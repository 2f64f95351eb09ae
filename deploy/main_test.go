// Package deploy_test checks the Prometheus rules, the dashboards, the manifests, and the
// documentation of the metrics against a real server.
package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"colophon/storage/postgres/postgrestest"
)

// colophon is the path of the server's binary. It is set only by TestMain.
var colophon string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "colophon-deploy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	colophon = filepath.Join(dir, "colophon")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", colophon, "../cmd/colophon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the server: %v\n%s", err, out)
		return 1
	}
	return postgrestest.Main(m)
}
