// Package cpython runs CPython, the reference implementation against which differential tests check
// our results. Only tests import it.
//
// These environment variables affect a test run:
//
//	COLOPHON_REQUIRE_CPYTHON=1   fail the tests, instead of skipping them, if python3 is not installed
//	COLOPHON_MIN_COMPARISONS=n   fail a test binary that makes fewer than n comparisons
//	COLOPHON_SEED=n              use the seed that an earlier run printed for the random inputs
package cpython

import (
	"bufio"
	_ "embed" // for oracle.py
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

// comparisons counts the results that this process has compared with those of CPython.
var comparisons atomic.Int64

// Oracle is a running python3 process. It is not safe for concurrent use.
type Oracle struct {
	stdin  io.Writer
	stdout *bufio.Reader
}

// Start starts a python3 process that runs until the end of the test. If python3 is not installed,
// Start skips the test, or fails it if COLOPHON_REQUIRE_CPYTHON is 1.
func Start(t testing.TB) *Oracle {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("COLOPHON_REQUIRE_CPYTHON") == "1" {
			t.Fatalf("COLOPHON_REQUIRE_CPYTHON is 1, but python3 is not installed: %v", err)
		}
		t.Skip("python3 is not installed on this machine")
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

// Ask has CPython apply an operation to each input in batch and returns the results in the same
// order. operation is the name of a function in oracle.py. Inputs and results are sent as JSON, so
// a []byte reaches Python as base64.
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

// Compare fails the test unless compute returns the same result as CPython's operation for each
// input in batch.
func Compare[Input, Result any](t testing.TB, oracle *Oracle, operation string, batch []Input, compute func(Input) Result) {
	t.Helper()
	for i, want := range Ask[Input, Result](t, oracle, operation, batch) {
		if got := compute(batch[i]); !reflect.DeepEqual(want, got) {
			t.Fatalf("%s(%q)\nCPython:  %q\ncolophon: %q", operation, any(batch[i]), any(want), any(got))
		}
		comparisons.Add(1)
	}
}

// Rand returns a random number generator for test inputs and logs its seed. If COLOPHON_SEED is
// set, it is used as the seed.
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

// Main runs the tests of a package and is meant to be called from TestMain. It prints the number of
// comparisons made and returns the exit code, which is 1 if there were fewer than
// COLOPHON_MIN_COMPARISONS.
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
		fmt.Printf("COLOPHON_MIN_COMPARISONS=%s, but only %d comparisons were made\n", text, count)
		return 1
	}
	return code
}
