package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
)

// transport is a function as an http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Who has heard enough has nobody asking any more: what answers is closed next.
func TestNoQuestionOutlivesTheAuditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asking atomic.Int64
		slow, err := monitor.NewFetcher(monitor.RemoteServer{Url: "http://server.invalid", Transport: transport(func(r *http.Request) (*http.Response, error) {
			asking.Add(1)
			defer asking.Add(-1)
			<-r.Context().Done()
			if r.URL.Path == "/later" {
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
		c := monitor.NewComparer(slow, slow, 2)
		questions := append([]monitor.Question{{Path: "/first", Values: url.Values{}, Form: monitor.OfIndex}}, slices.Repeat([]monitor.Question{{Path: "/later", Values: url.Values{}, Form: monitor.OfIndex}}, 9)...)
		c.AskAll(ctx, questions, 4, func(_ int, answer monitor.ComparedAnswer) bool {
			require.ErrorIs(t, answer.Err, context.Canceled)
			return false
		})
		require.Zero(t, asking.Load())
	})
}

// lockedPast is a Past that says, whenever a tile of it is read, whether the oracle
// could be closed at that moment.
type lockedPast struct {
	audit.Past
	oracle *monitor.Oracle // nil while it is opened
	free   []bool
}

// Tile implements audit.Past.
func (p *lockedPast) Tile(level uint8, index uint64) ([]byte, error) {
	if p.oracle != nil {
		free := p.oracle.UnderWay.TryLock()
		if free {
			p.oracle.UnderWay.Unlock()
		}
		p.free = append(p.free, free)
	}
	return p.Past.Tile(level, index)
}

// The oracle's index is not closed while a request may read it.
func TestOracleOutlivesItsRequests(t *testing.T) {
	w := newAuditWorld(t, 300, 0, 0)
	dir := t.TempDir()
	past, err := monitor.NewPast(dir)
	require.NoError(t, err)
	defer past.Close()
	r, err := monitor.NewReplica(dir, ledger.Default, nil)
	require.NoError(t, err)
	defer r.Close()
	log := w.read(t, w.data)
	keys, err := cli.ParseKeys(w.key, "the key")
	require.NoError(t, err)
	report, _, err := audit.Extend(t.Context(), log, audit.Options{Verifiers: keys.Keys}, audit.Extension{Past: past, Each: r.Add})
	require.NoError(t, err)
	require.Nil(t, report.Damage)
	watched := &lockedPast{Past: past}
	require.NoError(t, r.Seal(report.Size, watched))

	c := &cli.Console{Env: func(string) (string, bool) { return "", false }}
	signer, err := proofs.GenerateKey().Signer(monitor.ReplicaOrigin)
	require.NoError(t, err)
	o, err := monitor.NewOracle(t.Context(), c, r, dir, signer)
	require.NoError(t, err)
	watched.oracle = o
	fetch, err := monitor.NewFetcher(o.Source, remote.LedgerPath(r.Name), time.Minute, 1)
	require.NoError(t, err)
	answer, err := fetch.Get(t.Context(), "/log/tile/0/000", monitor.MaxNote)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.Status)
	require.Len(t, answer.Body, proofs.FullTile*proofs.HashSize)
	require.Equal(t, []bool{false}, watched.free)
	require.NoError(t, o.Close())
	require.False(t, o.UnderWay.TryRLock(), "no request may begin once it is closed")
}
