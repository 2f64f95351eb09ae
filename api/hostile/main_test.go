// Package hostile_test attacks a real server from several clients at once. The requests are
// generated from the contract, openapi.yaml, and are valid, nearly valid, or hostile. Every answer
// must be documented by the contract, and no answer may reveal internals of the server. Afterwards,
// the server must hold no more resources than before, and the ledgers must be intact.
//
//	go test ./api/hostile -v                               1,500 requests without and 1,500 with tokens
//	COLOPHON_HOSTILE=100000 go test ./api/hostile -v -timeout 2h
//	COLOPHON_HOSTILE_SEED=7 go test ./api/hostile -v       repeats the random choices of a seed
//
// Clients share what they learn from answers. A seed therefore reproduces the random choices but not
// the order of requests, so each finding is printed with the complete request.
package hostile_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the path of the server's binary. It is set only by TestMain.
var binary string

func TestMain(m *testing.M) {
	if address := os.Getenv(writersEnv); address != "" {
		writeOnly(address, os.Stdin, os.Stdout)
		return
	}
	if os.Getenv(refuserEnv) != "" {
		refuseAll(os.Stdout)
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "colophon-hostile")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "colophon")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "../../cmd/colophon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the server: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
