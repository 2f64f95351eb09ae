// Package faults_test injects faults into everything that a ledger depends on, and compares the
// data that survives with the responses that clients received. Each kind of fault has a test:
//
//	go test ./e2e/faults                             a few faults of each kind
//	FAULTS=1000 go test ./e2e/faults -v -timeout 2h  at least this many of each kind
//	FAULTS_SEED=7 go test ./e2e/faults -v            the faults that this seed selects
//
// A failure is reported with its kind, seed, and round. If FAULTS_ROUND=n is set, only round n
// runs. The same seed always selects the same faults, but concurrent steps can happen in a
// different order, so a failure may not be reproducible. docs/faults.md describes the faults.
package faults_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"colophon/storage/postgres/postgrestest"
)

// settings configures a run of the tests. Only TestMain writes it.
var settings struct {
	faults int // minimum number of faults of each kind
	seed   uint64
	round  int    // the only round to run; a negative number means all rounds
	binary string // path of the colophon binary
}

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(childMain())
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	settings.faults = number("FAULTS", 4)
	settings.seed = uint64(number("FAULTS_SEED", int(time.Now().UnixNano()%1_000_000)))
	settings.round = number("FAULTS_ROUND", -1)
	dir, err := os.MkdirTemp("", "colophon-faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	settings.binary = filepath.Join(dir, "colophon")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", settings.binary, "../../cmd/colophon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the server: %v\n%s", err, out)
		return 1
	}
	fmt.Printf("FAULTS_SEED=%d, at least %d faults of each kind\n", settings.seed, settings.faults)
	return postgrestest.Main(m)
}

// number returns the value of an environment variable as an integer, or fallback if the variable is
// not set. It panics if the value is not an integer.
func number(name string, fallback int) int {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is not a number", name, text))
	}
	return n
}
