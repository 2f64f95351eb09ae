package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptStatic serves a folder over HTTP until the script ends, and sets STATIC to the URL:
//
//	static FOLDER
func scriptStatic(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: static FOLDER")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Defer(server.Close)
	ts.Setenv("STATIC", server.URL)
}

// scriptWaitFile waits for up to a minute until the content of a file matches a regular expression.
// Usage: wait-file FILE PATTERN.
func scriptWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: wait-file FILE PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	for range 6000 {
		if text, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && pattern.Match(text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s does not match %s", args[0], args[1])
}
