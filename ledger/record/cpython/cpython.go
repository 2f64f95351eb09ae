// Package cpython runs CPython as the oracle of differential tests. Only tests
// import it.
//
// Environment of a test run:
//
//	COLOPHON_REQUIRE_CPYTHON=1   a machine without python3 fails the tests instead of skipping them
//	COLOPHON_MIN_COMPARISONS=n   fewer comparisons than n fail a test binary
//	COLOPHON_SEED=n              seed of the random inputs, as printed by an earlier run
package cpython

import (
	"bufio"
	_ "embed" // embeds oracle.py
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed oracle.py
var script string

// comparisons counts CPython's results that this process has compared with its own.
var comparisons atomic.Int64

// Oracle is a running python3 process. It belongs to the goroutine of one test.
type Oracle struct {
	stdin  io.Writer
	stdout *bufio.Reader
}

// Start starts python3 for the duration of a test. It skips the test on a machine without
// python3.
func Start(t testing.TB) *Oracle {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("COLOPHON_REQUIRE_CPYTHON") == "1" {
			t.Fatalf("python3 is required: %v", err)
		}
		t.Skip("no python3 on this machine")
	}
	command := exec.Command(path, "-I", "-c", script) // #nosec G204 -- the interpreter with whose results tests compare
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, command.Wait())
	})
	return &Oracle{stdin, bufio.NewReader(stdout)}
}

// Ask returns CPython's result of an operation of oracle.py for each input, in order. Inputs
// and results are sent as JSON, so a []byte reaches Python as base64.
func Ask[Input, Result any](t testing.TB, oracle *Oracle, operation string, batch []Input) []Result {
	t.Helper()
	request, err := json.Marshal([]any{operation, batch})
	require.NoError(t, err)
	_, err = oracle.stdin.Write(append(request, '\n'))
	require.NoError(t, err)
	answer, err := oracle.stdout.ReadBytes('\n')
	require.NoError(t, err, "python3 exited during %s", operation)
	var results []Result
	require.NoError(t, json.Unmarshal(answer, &results))
	require.Len(t, results, len(batch))
	return results
}

// Compare requires that compute returns CPython's result of an operation for each input.
func Compare[Input, Result any](t testing.TB, oracle *Oracle, operation string, batch []Input, compute func(Input) Result) {
	t.Helper()
	for i, want := range Ask[Input, Result](t, oracle, operation, batch) {
		if got := compute(batch[i]); !reflect.DeepEqual(want, got) {
			t.Fatalf("%s(%q)\nCPython:  %q\ncolophon: %q", operation, any(batch[i]), any(want), any(got))
		}
		comparisons.Add(1)
	}
}

// Rand returns a source of random inputs and logs its seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64() // #nosec G404 -- test cases
	if text := os.Getenv("COLOPHON_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "COLOPHON_SEED")
	}
	t.Logf("COLOPHON_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- test cases
}

// Main runs the tests of a package for its TestMain, prints how many
// comparisons were made, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	count := comparisons.Load()
	if count > 0 {
		fmt.Printf("cpython comparisons: %d\n", count)
	}
	text := os.Getenv("COLOPHON_MIN_COMPARISONS")
	if text == "" {
		return code
	}
	least, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count < least {
		fmt.Printf("COLOPHON_MIN_COMPARISONS=%s, but %d comparisons\n", text, count)
		return 1
	}
	return code
}
