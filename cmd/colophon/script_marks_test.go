package main

import (
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"colophon/internal/datadir"
)

// scriptWaitMark waits until the high-water mark of a ledger states the given number of events:
//
//	wait-mark DATA LEDGER EVENTS
func scriptWaitMark(ts *testscript.TestScript, _ bool, args []string) {
	path := datadir.HighWaterMarkFiles(ts.MkAbs(args[0])).Path(args[1])
	for {
		mark, err := os.ReadFile(path)
		ts.Check(err)
		if strings.Split(string(mark), "\n")[1] == args[2] {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// scriptVariable sets an environment variable to the contents of the given files, separated by
// spaces:
//
//	variable NAME FILE...
func scriptVariable(ts *testscript.TestScript, _ bool, args []string) {
	var values []string
	for _, file := range args[1:] {
		values = append(values, strings.TrimSpace(ts.ReadFile(file)))
	}
	ts.Setenv(args[0], strings.Join(values, " "))
}
