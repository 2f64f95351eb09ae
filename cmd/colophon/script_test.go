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

	"colophon/internal/testing/llm"
	"colophon/storage/postgres/postgrestest"
)

// TestMain lets scripts and tests run this program as the command colophon, each time in a new
// process.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"colophon": main})
}

// sharedData is a folder outside the repository that contains real input. If it does not exist,
// scripts that need it are skipped.
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
			// Without this setting, each process built with the race detector would sleep for a
			// second before it exits.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			processes := newProcesses()
			env.Values[processesKey{}] = processes
			env.Values[llmsKey{}] = make(map[string]*llm.Server)
			env.Values[postgresKey{}] = new(*postgrestest.Server)
			env.Defer(processes.killAll)
			env.Defer(func() { closePostgres(env) })
			return nil
		},
		Condition: func(condition string) (bool, error) {
			switch condition {
			case "postgres":
				return postgrestest.IsInstalled()
			case "shared":
			default:
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
			"llm":         scriptLLM,
			"postgres":    scriptPostgres,
			"variable":    scriptVariable,
			"size":        scriptSize,
			"scrape":      scriptScrape,
			"static":      scriptStatic,
			"wait-file":   scriptWaitFile,
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

// scriptExits runs a program and requires that it exits with the given code:
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
