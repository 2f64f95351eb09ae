package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
)

func fill(t *testing.T, l *client.Ledger, n int) {
	t.Helper()
	for result, err := range l.Records.PostBatch(t.Context(), numbered(n), nil) {
		require.NoError(t, err)
		require.NoError(t, result.Err)
	}
}

// If the connection breaks in the middle of a page, All continues with the next event.
func TestAllEventsInOrder(t *testing.T) {
	s := serve(t)
	fill(t, connect(t, s.URL).Ledger("default"), 2100)
	cut := &cutter{after: func(attempt int) int { return []int{0, 5000, 100_000, -1, -1, 70_000, -1}[min(attempt, 6)] }}
	all := connect(t, s.URL, cut.option()).Ledger("default").Events.All(t.Context(), 3)
	for range 2 { // the iterator can be used again
		next := uint64(3)
		for line, err := range all {
			require.NoError(t, err)
			require.Equal(t, next, line.Seq)
			next++
		}
		require.Equal(t, uint64(2101), next)
	}
}

// Even if the connection breaks, Follow yields every event exactly once. It stops when the ledger
// is frozen.
func TestFollowResumes(t *testing.T) {
	for name, from := range map[string]uint64{"from the start": 0, "from the head": client.FromHead} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			l := connect(t, s.URL).Ledger("default")
			fill(t, l, 2)
			first := uint64(0)
			if from == client.FromHead {
				first = 3
			}
			cut := &cutter{after: func(attempt int) int {
				if attempt > 6 {
					return -1
				}
				return 4000 * attempt // the first connection delivers no event
			}}
			next := first
			begun := make(chan bool)
			go func() {
				<-begun
				for i := range 30 {
					_, err := l.Records.Post(t.Context(), generation(fmt.Sprint("Text ", i)), nil)
					require.NoError(t, err)
				}
				_, err := l.Freeze(t.Context())
				require.NoError(t, err)
			}()
			cut.begun = func() { close(begun) }
			for line, err := range connect(t, s.URL, cut.option()).Ledger("default").Events.Follow(t.Context(), from) {
				require.NoError(t, err)
				require.Equal(t, next, line.Seq)
				next++
			}
			require.Equal(t, uint64(33), next)
		})
	}
}

func TestFollowEndsWithItsLoopOrContext(t *testing.T) {
	l := connect(t, serve(t).URL).Ledger("default")
	for line, err := range l.Events.Follow(t.Context(), 0) {
		require.NoError(t, err)
		require.Zero(t, line.Seq)
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range l.Events.Follow(ctx, 0) {
		last = err
		cancel()
	}
	require.ErrorIs(t, last, context.Canceled)
}

// All detects a server that hides, repeats, or changes events.
func TestEventsAreChecked(t *testing.T) {
	s := serve(t)
	fill(t, connect(t, s.URL).Ledger("default"), 3)
	var lines []string
	for line, err := range connect(t, s.URL).Ledger("default").Events.All(t.Context(), 0) {
		require.NoError(t, err)
		text, err := json.Marshal(line)
		require.NoError(t, err)
		lines = append(lines, string(text))
	}
	changed := func(i int, f func(*wire.EventLine)) []string {
		var line wire.EventLine
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &line))
		f(&line)
		text, err := json.Marshal(line)
		require.NoError(t, err)
		list := append([]string(nil), lines...)
		list[i] = string(text)
		return list
	}
	for name, test := range map[string]struct {
		lines []string
		says  string
	}{
		"missing":       {[]string{lines[0], lines[2]}, "event 2 instead of event 1"},
		"repeated":      {[]string{lines[0], lines[0]}, "event 0 instead of event 1"},
		"another event": {changed(1, func(l *wire.EventLine) { l.Event = json.RawMessage(`{}`) }), "does not match the event_hash or the event"},
		"another entry": {changed(1, func(l *wire.EventLine) { l.Entry[40]++ }), "does not match the event_hash or the event"},
		"short entry":   {changed(1, func(l *wire.EventLine) { l.Entry = l.Entry[:4] }), "event 1"},
		"another log":   {[]string{lines[0], strings.Replace(lines[2], `"seq":2,`, `"seq":1,`, 1)}, "does not link"},
		"not JSON":      {[]string{lines[0], "x"}, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") == "text/event-stream" {
					text("data: "+strings.Join(test.lines, "\n\ndata: "), "")(w, r)
					return
				}
				text(test.lines...)(w, r)
			})
			l := connect(t, server.URL).Ledger("default")
			for range 2 {
				var last error
				n := 0
				for _, err := range l.Events.All(t.Context(), 0) {
					last = err
					n++
				}
				require.ErrorIs(t, last, client.ErrUnexpectedResponse)
				require.ErrorContains(t, last, test.says)
				require.Equal(t, 2, n)
				n = 0
				for _, err := range l.Events.Follow(t.Context(), 0) {
					last = err
					n++
				}
				require.ErrorIs(t, last, client.ErrUnexpectedResponse)
				require.Equal(t, 2, n)
			}
		})
	}
}

func TestFollowFailures(t *testing.T) {
	for name, test := range map[string]struct {
		handler  http.HandlerFunc
		requests int32
		err      error
	}{
		"closing":        {text("event: closing", `data: {"detail":"the server is shutting down","next":0}`, ""), 5, client.ErrUnavailable},
		"refused":        {text("event: refused", `data: {"detail":"revoked","next":0}`, ""), 1, client.ErrUnauthorized},
		"frozen":         {text("event: frozen", `data: {"detail":"frozen","next":0}`, ""), 1, nil},
		"a newer event":  {text("event: other", `data: {}`, "", "event: frozen", ""), 1, nil},
		"silence":        {text(":", ""), 5, client.ErrUnreachable},
		"an idle ledger": {inTurn(text(": events from 0 on", "", ":", ""), 20, text("event: frozen", "")), 21, nil},
		"endless event":  {text(strings.Repeat("data: xxxxxxxxxxxx\n", 10_000)), 1, client.ErrUnexpectedResponse},
		"endless line":   {text("data: " + strings.Repeat("x", 1<<16)), 1, client.ErrUnexpectedResponse},
		"endless pages":  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Link", "</>; rel=next") }, 1, client.ErrUnexpectedResponse},
	} {
		t.Run(name, func(t *testing.T) {
			server, requests := answering(t, test.handler)
			l := connect(t, server.URL, client.WithMaxResponseBytes(1<<14)).Ledger("default")
			events := l.Events.Follow(t.Context(), 0)
			if name == "endless pages" {
				events = l.Events.All(t.Context(), 0)
			}
			var last error
			for _, last = range events {
			}
			require.ErrorIs(t, last, test.err)
			require.Equal(t, test.requests, requests.Load())
		})
	}
}

// inTurn returns a handler that passes the given number of requests to first, and all later ones to
// then.
func inTurn(first http.HandlerFunc, times int32, then http.HandlerFunc) http.HandlerFunc {
	n := new(atomic.Int32)
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > times {
			then(w, r)
			return
		}
		first(w, r)
	}
}
