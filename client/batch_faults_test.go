package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
)

// cutter is an http.RoundTripper that cuts off each response after a number of bytes.
type cutter struct {
	after func(attempt int) int // returns the number of bytes, or a negative number to return the whole response
	begun func()                // called when the first request has been answered
	n     atomic.Int32
}

type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("the connection was cut")
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (c *cutter) RoundTrip(q *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(q)
	attempt := int(c.n.Add(1)) - 1
	if c.begun != nil && attempt == 0 {
		c.begun()
	}
	if after := c.after(attempt); err == nil && after >= 0 {
		response.Body = &cutBody{response.Body, after}
	}
	return response, err
}

func (c *cutter) option() client.Option { return client.WithHTTPClient(&http.Client{Transport: c}) }

// After a response is cut off, PostBatch sends the unanswered lines again, and each is recorded only
// once.
func TestBatchResumesAfterBrokenAnswers(t *testing.T) {
	s := serve(t)
	cut := &cutter{after: func(attempt int) int {
		if attempt >= 12 {
			return -1
		}
		return attempt * 1500
	}}
	c := connect(t, s.URL, cut.option())
	var results []*client.BatchLineResult
	for result, err := range c.Ledger("default").Records.PostBatch(t.Context(), numbered(300), &client.BatchOptions{MaxPendingLines: 50}) {
		require.NoError(t, err)
		require.NoError(t, result.Err)
		results = append(results, result)
	}
	require.Len(t, results, 300)
	require.Greater(t, cut.n.Load(), int32(12))
	seqs := make(map[uint64]bool)
	for _, result := range results {
		seqs[result.Receipt.Seq] = true
	}
	require.Len(t, seqs, 300)
	outputs(t, connect(t, s.URL).Ledger("default"), 300)
}

// With WithoutIdempotencyKeys, PostBatch does not resend a line that was sent but not answered.
func TestBatchWithoutKeysSendsOnce(t *testing.T) {
	s := serve(t)
	cut := &cutter{after: func(attempt int) int {
		if attempt == 0 {
			return 2000
		}
		return -1
	}}
	c := connect(t, s.URL, cut.option(), client.WithoutIdempotencyKeys())
	var unanswered, receipts int
	for result, err := range c.Ledger("default").Records.PostBatch(t.Context(), numbered(40), &client.BatchOptions{MaxPendingLines: 10}) {
		require.NoError(t, err)
		switch {
		case errors.Is(result.Err, client.ErrLineUnanswered):
			unanswered++
		default:
			require.NoError(t, result.Err)
			receipts++
		}
	}
	require.NotZero(t, unanswered)
	require.Equal(t, 40, unanswered+receipts)
	require.LessOrEqual(t, unanswered, 10)
	seen := make(map[string]bool)
	for line, err := range connect(t, s.URL).Ledger("default").Events.All(t.Context(), 1) {
		require.NoError(t, err)
		var event struct{ Record wire.IPCRecordEvent }
		require.NoError(t, json.Unmarshal(line.Event, &event))
		require.False(t, seen[event.Record.Hashes.Get("output_hash")], "recorded twice")
		seen[event.Record.Hashes.Get("output_hash")] = true
	}
}

func TestBatchFailures(t *testing.T) {
	for name, test := range map[string]struct {
		handlers []http.HandlerFunc
		receipts int
		requests int32
		err      error
	}{
		"no room for a line":        {[]http.HandlerFunc{text(minimalReceipt, busyLine), text(minimalReceipt, minimalReceipt)}, 3, 2, nil},
		"no room for a long time":   {[]http.HandlerFunc{text(busyLine)}, 0, 5, client.ErrUnavailable},
		"too many batches":          {[]http.HandlerFunc{problem(503), problem(429), text(minimalReceipt, minimalReceipt, minimalReceipt)}, 3, 3, nil},
		"unauthorized":              {[]http.HandlerFunc{problem(401)}, 0, 1, client.ErrUnauthorized},
		"token revoked":             {[]http.HandlerFunc{text(minimalReceipt), problem(401)}, 1, 2, client.ErrUnauthorized},
		"answers end early":         {[]http.HandlerFunc{text(minimalReceipt)}, 3, 3, nil},
		"no answers":                {[]http.HandlerFunc{text()}, 0, 5, client.ErrUnreachable},
		"too many answers":          {[]http.HandlerFunc{text(minimalReceipt, minimalReceipt, minimalReceipt, minimalReceipt)}, 3, 1, client.ErrUnexpectedResponse},
		"not JSON":                  {[]http.HandlerFunc{text("hello")}, 0, 1, client.ErrUnexpectedResponse},
		"another type":              {[]http.HandlerFunc{text(`{"seq":"1"}`)}, 0, 1, client.ErrUnexpectedResponse},
		"an endless line":           {[]http.HandlerFunc{text(strings.Repeat("x", 1<<16))}, 0, 1, client.ErrUnexpectedResponse},
		"a redirect":                {[]http.HandlerFunc{problem(307, "Location", "/elsewhere")}, 0, 1, nil},
		"a refusal of the body":     {[]http.HandlerFunc{text(minimalReceipt, minimalReceipt, minimalReceipt, busyLine)}, 3, 1, nil},
		"a pause that was too long": {[]http.HandlerFunc{text(minimalReceipt, minimalReceipt, minimalReceipt, strings.Replace(busyLine, "503", "408", 1))}, 3, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server, requests := answering(t, test.handlers...)
			receipts := 0
			var last error
			l := connect(t, server.URL, client.WithMaxResponseBytes(1<<14)).Ledger("default")
			for result, err := range l.Records.PostBatch(t.Context(), numbered(3), nil) {
				if last = err; err == nil {
					require.NoError(t, result.Err)
					receipts++
				}
			}
			require.Equal(t, test.receipts, receipts)
			if name != "a redirect" {
				require.ErrorIs(t, last, test.err)
				require.Equal(t, test.requests, requests.Load())
			} else {
				require.ErrorContains(t, last, "307 the server redirects to")
			}
		})
	}
}

// If a server always ends its response before it receives a line, PostBatch gives up after the same
// number of requests as for an unreachable server.
func TestBatchWhenAnswersEndBeforeTheLines(t *testing.T) {
	for name, answer := range map[string]string{"nothing": "", "a timeout": strings.Replace(busyLine, "503", "408", 1)} {
		t.Run(name, func(t *testing.T) {
			for range 200 { // repeated because the answer and the first line race
				requests := 0
				server := &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
					requests++
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), Request: q}, nil
				})}
				l := connect(t, "http://ledger.example", client.WithHTTPClient(server)).Ledger("default")
				for result, err := range l.Records.PostBatch(t.Context(), numbered(3), nil) {
					require.Nil(t, result)
					require.Error(t, err)
				}
				require.Equal(t, 5, requests)
			}
		})
	}
}

// answersLines returns a client for a fake server that answers up to most lines of each request. The
// server ends its response only if it has answered all lines.
func answersLines(most int) (server *http.Client, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	return &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
		requests.Add(1)
		answer, out := io.Pipe()
		context.AfterFunc(q.Context(), func() { _ = out.CloseWithError(context.Canceled) })
		go func() {
			lines := bufio.NewScanner(q.Body)
			n := 0
			for ; lines.Scan(); n++ {
				if n < most {
					_, _ = io.WriteString(out, minimalReceipt+"\n")
				}
			}
			if n <= most {
				_ = out.Close()
			}
		}()
		return &http.Response{StatusCode: http.StatusOK, Body: answer, Request: q}, nil
	})}, requests
}

// PostBatch stops with an error if the server accepts lines but stops answering.
func TestBatchEndsIfTheServerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, requests := answersLines(1)
		l := connect(t, "http://ledger.example", client.WithHTTPClient(server), client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 1})).Ledger("default")
		receipts := 0
		var last error
		for result, err := range l.Records.PostBatch(t.Context(), numbered(3), nil) {
			if last = err; err == nil {
				require.NoError(t, result.Err)
				receipts++
			}
		}
		require.Equal(t, 1, receipts)
		require.EqualValues(t, 1, requests.Load())
		require.ErrorIs(t, last, client.ErrUnreachable)
		require.ErrorContains(t, last, "neither read nor answered a line for 1m0s")
	})
}

// PostBatch reconnects if the connection breaks before the first answer, while there is nothing to
// send.
func TestBatchResumesIfTheConnectionBreaksBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connections atomic.Int32
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			broken := connections.Add(1) == 1
			go func() {
				defer far.Close()
				q, err := http.ReadRequest(bufio.NewReader(far))
				if err != nil {
					return
				}
				body := bufio.NewReader(q.Body)
				if _, err := body.ReadString('\n'); err != nil || broken {
					return
				}
				_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+minimalReceipt+"\n")
				_, _ = io.Copy(io.Discard, body)
			}()
			return near, nil
		}}
		l := connect(t, "http://ledger.example", client.WithHTTPClient(&http.Client{Transport: transport})).Ledger("default")
		answered := make(chan struct{})
		lines := func(yield func(client.BatchLine) bool) {
			if yield(client.BatchLine{Record: generation("only")}) {
				<-answered
			}
		}
		for result, err := range l.Records.PostBatch(t.Context(), lines, nil) {
			require.NoError(t, err)
			require.NoError(t, result.Err)
			close(answered)
		}
		require.EqualValues(t, 2, connections.Load())
	})
}
