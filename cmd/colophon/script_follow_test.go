package main

import (
	"context"
	"io"
	"net/http"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"colophon/internal/remote"
)

// scriptFollow follows the events of a ledger in the background:
//
//	follow start LEDGER FILE   returns once the server has responded with 200
//	follow end FILE            waits until the server ends the stream; FILE contains what it sent
func scriptFollow(ts *testscript.TestScript, neg bool, args []string) {
	all := processesOf(ts)
	switch {
	case !neg && len(args) == 3 && args[0] == "start":
		all.followed[args[2]] = follow(ts, args[1], ts.MkAbs(args[2]))
	case !neg && len(args) == 2 && args[0] == "end" && all.followed[args[1]] != nil:
		ts.Check(<-all.followed[args[1]])
	default:
		ts.Fatalf("usage: follow start LEDGER FILE, then follow end FILE")
	}
}

// follow writes the events of a ledger to a file in the background. The channel receives nil when
// the stream ends, or the error that stopped follow.
func follow(ts *testscript.TestScript, ledger, path string) <-chan error {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, ts.Getenv("COLOPHON_SERVER")+remote.LedgerPath(ledger)+"/events?from=0", nil)
	ts.Check(err)
	r.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	ts.Defer(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		ts.Fatalf("status %d", response.StatusCode)
	}
	out, err := os.Create(path)
	ts.Check(err)
	ended := make(chan error, 1)
	go func() {
		defer out.Close()
		_, err := io.Copy(out, response.Body)
		ended <- err
	}()
	return ended
}
