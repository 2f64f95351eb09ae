package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this program as the command colophon, each time in a
// process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"colophon": main})
}

// sharedData is real input that is not part of the repository; the scripts that
// want it skip where it is absent.
var sharedData = filepath.Join("..", "..", "..", "shared", "data")

func TestScripts(t *testing.T) {
	shared, err := filepath.Abs(sharedData)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("SHARED", shared)
			// Built with the race detector, each process would sleep a second
			// before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			processes := newProcesses()
			env.Values[processesKey{}] = processes
			env.Defer(processes.killAll)
			return nil
		},
		Condition: func(condition string) (bool, error) {
			if condition != "shared" {
				return false, fmt.Errorf("unknown condition %q", condition)
			}
			_, err := os.Stat(shared)
			return err == nil, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":       scriptExits,
			"server":      scriptServer,
			"feed":        scriptFeed,
			"follow":      scriptFollow,
			"http":        scriptHTTP,
			"wait-size":   scriptWaitSize,
			"wait-mark":   scriptWaitMark,
			"variable":    scriptVariable,
			"size":        scriptSize,
			"scrape":      scriptScrape,
			"generate":    scriptGenerate,
			"edit":        scriptEdit,
			"compress":    scriptCompress,
			"head":        scriptHead,
			"long-line":   scriptLongLine,
			"damage":      scriptDamage,
			"flip":        scriptFlip,
			"forge":       scriptForge,
			"mismatches":  scriptMismatches,
			"mode":        scriptMode,
			"secret":      scriptSecret,
			"search":      scriptSearch,
			"wait-erased": scriptWaitErased,
		},
	})
}

// scriptExits runs a program that must end with the exit code given:
//
//	exits CODE PROGRAM ARGUMENT...
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
