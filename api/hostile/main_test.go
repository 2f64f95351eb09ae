// Package hostile_test attacks a real server: requests drawn from the contract,
// openapi.yaml, that are valid, nearly valid or hostile, from several clients at
// once. Whatever they send, every answer must be one that the contract documents,
// nothing of the server's inside may show, nothing may grow, and the ledgers must
// hold afterwards.
//
//	go test ./api/hostile -v                               a thousand or two
//	COLOPHON_HOSTILE=100000 go test ./api/hostile -v -timeout 60m
//	COLOPHON_HOSTILE_SEED=7 go test ./api/hostile -v       the draws of that seed
//
// Clients share what they learn from answers, so that a seed gives the same draws
// but not the same order: a finding is printed with its whole request.
package hostile_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the path of the server's binary. TestMain sets it, once.
var binary string

func TestMain(m *testing.M) {
	if address := os.Getenv(writersOf); address != "" {
		writeOnly(address, os.Stdin, os.Stdout)
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
