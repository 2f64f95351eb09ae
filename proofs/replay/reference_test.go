package replay

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/ledger/event"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
)

// transport is a function that implements http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// When askAll returns no question is under way: the reference is closed next.
func TestNoQuestionOutlivesTheAuditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asking atomic.Int64
		slow, err := fetch.New(fetch.Server{URL: "http://server.invalid", Transport: transport(func(r *http.Request) (*http.Response, error) {
			asking.Add(1)
			defer asking.Add(-1)
			<-r.Context().Done()
			if strings.HasSuffix(r.URL.Path, "/later") {
				time.Sleep(time.Second) // of the bubble: it does not take notice at once
			}
			return nil, r.Context().Err()
		})}, "", time.Hour, 4)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			assert.Equal(t, int64(4), asking.Load(), "as many at once as it may")
			cancel()
		}()
		c := newComparer(slow, nil, 2)
		questions := append([]question{{path: "/first", values: url.Values{}, form: indexForm}}, slices.Repeat([]question{{path: "/later", values: url.Values{}, form: indexForm}}, 9)...)
		c.askAll(ctx, questions, 4, func(_ int, r comparison) bool {
			require.ErrorIs(t, r.err, context.Canceled)
			return false
		})
		require.Zero(t, asking.Load())
	})
}

// The reference is not closed while a request may read its index.
func TestReferenceOutlivesItsRequests(t *testing.T) {
	l := ledgertest.New(t, 300, 0, 0)
	k := &check{dir: t.TempDir()}
	var err error
	k.copy, err = newLogCopy(k.dir, "default")
	require.NoError(t, err)
	defer k.copy.Close()
	log := l.Read(t, l.Data)
	var document pyjson.Document
	for seq, entry := range log.All {
		require.NoError(t, document.Parse(entry[proofs.HashSize:]))
		require.NoError(t, k.copy.add(audit.Walked{Seq: uint64(seq), Entry: entry, Event: document.Root(), Body: &event.Body{}}))
	}
	var r *serverReference
	var free []bool // whether the reference could be closed when a tile was read
	k.copy.tile = func(level uint8, index uint64) ([]byte, error) {
		if r.requests != nil {
			could := r.requests.TryLock()
			if could {
				r.requests.Unlock()
			}
			free = append(free, could)
		}
		return log.Tile(t.Context(), level, index)
	}
	opened, err := openReference(k.copy, k.dir, monitor.Options{Timeout: time.Minute, Parallel: 1, Log: slog.New(slog.DiscardHandler), Progress: func(string, uint64, uint64) {}})
	require.NoError(t, err)
	r = opened.(*serverReference)
	require.NoError(t, r.show(t.Context(), uint64(len(log.All))))
	free = nil
	answer, err := r.Do(t.Context(), fetch.Request{Path: "/log/tile/0/000", MaxBytes: fetch.MaxNote})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.Status)
	require.Len(t, answer.Body, proofs.FullTile*proofs.HashSize)
	require.Equal(t, []bool{false}, free)
	requests := r.requests
	require.NoError(t, r.Close())
	require.False(t, requests.TryRLock(), "no request may begin once it is closed")
}
