package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
)

// withRecordedPauses returns a ledger whose client appends the lengths of its pauses to the returned slice
// instead of sleeping.
func withRecordedPauses(t *testing.T, url string, options ...client.Option) (*client.Ledger, *[]time.Duration) {
	t.Helper()
	c, err := client.New(url, options...)
	require.NoError(t, err)
	pauses := new([]time.Duration)
	client.OnSleep(c, func(d time.Duration) { *pauses = append(*pauses, d) })
	return c.Ledger("default"), pauses
}

func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"ledger":`)
	panic(http.ErrAbortHandler)
}

var ok = text(minimalReceipt)

func TestRepeatedRequests(t *testing.T) {
	keyed := generation("x")
	named := generation("x")
	named.RunID = "run"
	for name, test := range map[string]struct {
		call    func(context.Context, *client.Ledger) error
		repeats bool
	}{
		"read": {func(ctx context.Context, l *client.Ledger) error { _, err := l.Describe(ctx); return err }, true},
		"random key": {func(ctx context.Context, l *client.Ledger) error {
			_, err := l.Records.Post(ctx, keyed, nil)
			return err
		}, true},
		"named run": {func(ctx context.Context, l *client.Ledger) error {
			_, err := l.Records.Post(ctx, named, nil)
			return err
		}, true},
		"raw named run": {func(ctx context.Context, l *client.Ledger) error {
			_, err := l.Records.Post(ctx, wire.RawRecord{Kind: wire.KindRunDAG, JSON: []byte(`{"run_id":"r"}`)}, nil)
			return err
		}, true},
		"change": {func(ctx context.Context, l *client.Ledger) error {
			_, err := l.Records.SetState(ctx, 1, wire.StateChange{State: wire.StateFailed}, nil)
			return err
		}, true},
		"question with a body": {func(ctx context.Context, l *client.Ledger) error {
			_, err := l.Drift.CompareRerun(ctx, wire.Rerun{}, nil)
			return err
		}, true},
		"freeze": {func(ctx context.Context, l *client.Ledger) error { _, err := l.Freeze(ctx); return err }, false},
		"keys": {func(ctx context.Context, l *client.Ledger) error {
			_, err := l.AdvanceKeyRotation(ctx, "rotate")
			return err
		}, false},
		"redaction": {func(ctx context.Context, l *client.Ledger) error {
			_, err := l.Records.RedactMany(ctx, wire.RedactionRequest{})
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, failure := range []http.HandlerFunc{problem(503), problem(429), problem(502), cutOff} {
				server, requests := answering(t, failure, failure, ok)
				l, pauses := withRecordedPauses(t, server.URL)
				err := test.call(t.Context(), l)
				if test.repeats {
					require.NoError(t, err)
					require.Equal(t, int32(3), requests.Load())
					require.Len(t, *pauses, 2)
				} else {
					require.Error(t, err)
					require.Equal(t, int32(1), requests.Load())
				}
			}
			for _, status := range []int{400, 401, 403, 404, 409, 410, 413, 422, 500} {
				server, requests := answering(t, problem(status))
				l, _ := withRecordedPauses(t, server.URL)
				failed := (*client.Error)(nil)
				require.ErrorAs(t, test.call(t.Context(), l), &failed)
				require.Equal(t, status, failed.Status)
				require.Equal(t, int32(1), requests.Load())
			}
		})
	}
}

// A write without an idempotency key is not retried, because the server could record it twice.
func TestWritesWithoutKeysAreNotRepeated(t *testing.T) {
	server, requests := answering(t, cutOff, ok)
	l, _ := withRecordedPauses(t, server.URL, client.WithoutIdempotencyKeys())
	_, err := l.Records.Post(t.Context(), generation("x"), nil)
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.Equal(t, int32(1), requests.Load())
}

// If the caller gives no idempotency key, the client sends the same random key with every attempt.
func TestKeysStayTheSame(t *testing.T) {
	var seen collected[string]
	server, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if seen.add(r.Header.Get("Idempotency-Key"))%2 == 1 {
			cutOff(w, r)
		}
		ok(w, r)
	})
	l, _ := withRecordedPauses(t, server.URL)
	for range 2 {
		_, err := l.Records.Post(t.Context(), generation("x"), nil)
		require.NoError(t, err)
	}
	_, err := l.Records.Post(t.Context(), generation("x"), &client.PostOptions{IdempotencyKey: "mine"})
	require.NoError(t, err)
	keys := seen.all()
	require.Len(t, keys, 6)
	require.Equal(t, keys[0], keys[1])
	require.Len(t, keys[0], 26)
	require.Equal(t, keys[2], keys[3])
	require.NotEqual(t, keys[0], keys[2])
	require.Equal(t, []string{"mine", "mine"}, keys[4:])
}

// The maximum pause doubles up to LongestPause. Each pause is shortened at random by up to half.
func TestPausesGrow(t *testing.T) {
	server, requests := answering(t, problem(503))
	var noticed []time.Duration
	notify := func(err error, failures int, pause time.Duration) {
		require.ErrorIs(t, err, client.ErrUnavailable)
		noticed = append(noticed, pause)
		require.Len(t, noticed, failures)
	}
	l, pauses := withRecordedPauses(t, server.URL, client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 8, FirstPause: time.Second, LongestPause: 10 * time.Second, Notify: notify}))
	_, err := l.Describe(t.Context())
	require.Equal(t, *pauses, noticed)
	require.ErrorIs(t, err, client.ErrUnavailable)
	require.Equal(t, int32(8), requests.Load())
	require.Len(t, *pauses, 7)
	for i, most := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
		require.LessOrEqual(t, (*pauses)[i], most*time.Second)
		require.GreaterOrEqual(t, (*pauses)[i], most*time.Second/2)
	}
}

func TestRetryAfter(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // the client's clock
	for header, wait := range map[string]time.Duration{
		"20": 20 * time.Second,
		at.Add(15 * time.Second).Format(http.TimeFormat):  15 * time.Second,
		at.Add(-15 * time.Second).Format(http.TimeFormat): 0,
		"soon": 0,
		"-3":   0,
	} {
		server, _ := answering(t, problem(429, "Retry-After", header), ok)
		l, pauses := withRecordedPauses(t, server.URL)
		_, err := l.Describe(t.Context())
		require.NoError(t, err)
		require.Len(t, *pauses, 1)
		if wait > 0 {
			require.Equal(t, wait, (*pauses)[0], header)
		} else {
			require.LessOrEqual(t, (*pauses)[0], 250*time.Millisecond, header)
		}
	}
	server, requests := answering(t, problem(503, "Retry-After", "86400"))
	l, _ := withRecordedPauses(t, server.URL)
	_, err := l.Describe(t.Context())
	failed := (*client.Error)(nil)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 24*time.Hour, failed.RetryAfter)
	require.Equal(t, int32(1), requests.Load(), "the client must not wait for a Retry-After longer than LongestPause")
}

// A call does not begin a pause that would outlast its context's deadline.
func TestNoPauseBeyondTheDeadline(t *testing.T) {
	server, requests := answering(t, problem(503, "Retry-After", "20"))
	c, err := client.New(server.URL)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = c.Ledger("default").Describe(ctx)
	require.ErrorIs(t, err, client.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, int32(1), requests.Load())
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(ok)
	server.Close()
	l, pauses := withRecordedPauses(t, server.URL, client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 2}))
	_, err := l.Describe(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.Len(t, *pauses, 1)
	require.True(t, strings.HasPrefix(err.Error(), "client: no response from the server at "+server.URL), err.Error())
}
