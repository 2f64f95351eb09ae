package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// bundleAgain makes s serve the first entry bundle unchanged for the first goodRequests requests.
// It passes every later request for that bundle to next.
func bundleAgain(s *rawServer, goodRequests int32, next func(http.ResponseWriter, []byte)) {
	var times atomic.Int32
	s.instead = func(answer http.ResponseWriter, r *http.Request) bool {
		const first = "/log/tile/entries/000"
		if !strings.Contains(r.URL.Path, first) || times.Add(1) <= goodRequests {
			return false
		}
		path, err := proofs.ParseTilePath(r.URL.Path[strings.Index(r.URL.Path, "tile/"):])
		if err != nil {
			return false
		}
		bundle, _ := s.tile(r.Context(), path)
		next(answer, bundle)
		return true
	}
}

// shortened returns a copy of bundle in which each entry is cut to its first kept bytes and
// followed by end.
func shortened(bundle []byte, kept int, end string) (short []byte) {
	entries, _ := proofs.ParseBundle(bundle)
	for _, entry := range entries {
		short, _ = proofs.AppendBundleEntry(short, append(entry[:kept:kept], end...))
	}
	return short
}

// wrongSecondResponses returns handlers that send a wrong response to the second request for a bundle. Each
// element states the exit code and the position that the audit must report.
func wrongSecondResponses(seq uint64) map[string]struct {
	answer func(http.ResponseWriter, []byte)
	code   int
	seq    uint64
} {
	type way = struct {
		answer func(http.ResponseWriter, []byte)
		code   int
		seq    uint64
	}
	return map[string]way{
		"not there": {func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) }, 34, seq},
		"busy":      {func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusServiceUnavailable) }, cli.ExitUnreachable, 0},
		"empty events": {func(w http.ResponseWriter, bundle []byte) {
			_, _ = w.Write(shortened(bundle, proofs.HashSize, "{}"))
		}, 35, seq},
		"entries of a byte": {func(w http.ResponseWriter, bundle []byte) { _, _ = w.Write(shortened(bundle, 1, "")) }, 35, seq},
		"nothing":           {func(http.ResponseWriter, []byte) {}, 35, 0},
	}
}

// The audit reads an event again if a later event refers to it. If the second read fails or does
// not match the tree, the audit does not accept the later event.
func TestEventsReadAgainMustMatchTheTree(t *testing.T) {
	w := ledgertest.New(t, 5, 300, 5)
	data := w.Copy(t)
	f := newForge(t, w, data)
	f.reword(f.seq("validation"), `"project":"p"`, `"project":"q"`)
	f.done()
	store := openRaw(t, data)
	report, _ := audited(t, (&rawServer{store: store}).serve(t), w.Key)
	require.Equal(t, 36, report.Code)
	require.Equal(t, w.EventSeqs["validation"], *report.Findings[0].Seq)
	for name, way := range wrongSecondResponses(w.EventSeqs["path"]) {
		t.Run(name, func(t *testing.T) {
			s := &rawServer{store: store}
			bundleAgain(s, 1, way.answer)
			report, o := audited(t, s.serve(t), w.Key, "--timeout", "200ms")
			requireNamed(t, way.code, way.seq, report, o)
		})
	}
}

// requireNamed requires the given exit code. If code is the exit code of a finding, requireNamed
// also requires exactly one finding, at seq.
func requireNamed(t *testing.T, code int, seq uint64, report auditReport, o commandResult) {
	t.Helper()
	require.Equal(t, code, o.code, "%s%s", o.stdout, o.stderr)
	if code >= 30 {
		require.Len(t, report.Findings, 1)
		require.Equal(t, seq, *report.Findings[0].Seq, "%s", o.stdout)
	}
}

// Once the audit has checked an event that redacts content, it expects the content to be gone, whatever
// the server returns when the event is read again.
func TestRedactionsFollowTheWalkedEvent(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	store := openRaw(t, w.DataDir)
	served := func(answer http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/records/"+cli.FormatUint(w.EventSeqs["secret"])+"/content/") {
			return false
		}
		content := `{"q":"A secret?"}`
		if strings.HasSuffix(r.URL.Path, "/output") {
			content = "A secret."
		}
		_, _ = answer.Write([]byte(content))
		return true
	}
	report, _ := audited(t, (&rawServer{store, served}).serve(t), w.Key, "--content")
	require.Equal(t, audit.DamageKindContent, report.Findings[0].Kind)
	for name, way := range wrongSecondResponses(w.EventSeqs["secret"]) {
		t.Run(name, func(t *testing.T) {
			s := &rawServer{store: store}
			bundleAgain(s, 2, way.answer)
			bundles := s.instead
			s.instead = func(answer http.ResponseWriter, r *http.Request) bool { return served(answer, r) || bundles(answer, r) }
			report, o := audited(t, s.serve(t), w.Key, "--content", "--timeout", "200ms")
			requireNamed(t, way.code, way.seq, report, o)
		})
	}
}

// If the token loses the right to read content during the audit, the audit cannot know whether
// redacted content is gone, and reports no finding about it.
func TestContentThatBecomesForbidden(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	var asked atomic.Int32
	url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/records/"+cli.FormatUint(w.EventSeqs["secret"])+"/content/") {
			return false
		}
		switch asked.Add(1) {
		case 1:
			_, _ = answer.Write([]byte("A secret."))
		case 2:
			_, _ = answer.Write([]byte(`{"q":"A secret?"}`))
		default:
			answer.WriteHeader(http.StatusForbidden)
		}
		return true
	})
	report, o := audited(t, url, w.Key, "--content")
	require.Equal(t, cli.ExitFailed, o.code, "%s%s", o.stdout, o.stderr)
	require.Empty(t, report.Findings)
	require.Contains(t, o.stderr, "the content cannot be audited")
}

// For each piece of content, the audit reads at most as many bytes as the event states.
func TestContentIsReadUpToItsSize(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	const maxContent = 64 << 20 // maximum size of a piece of content
	var sent atomic.Int64
	url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/records/"+cli.FormatUint(w.EventSeqs["other"])+"/content/") {
			return false
		}
		for piece := make([]byte, 1<<20); sent.Load() < 2*maxContent; {
			n, err := answer.Write(piece)
			if sent.Add(int64(n)); err != nil {
				break
			}
		}
		return true
	})
	report, o := audited(t, url, w.Key, "--content")
	require.Equal(t, 43, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, w.EventSeqs["other"], *report.Findings[0].Seq)
	require.Less(t, sent.Load(), int64(maxContent)/2)
}

// A redaction during an audit causes no findings about the log or its receipts.
func TestReceiptsMatchTheWalkedLog(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	ledgerURL, stop := ledgertest.Serve(t, w.Copy(t))
	defer stop()
	server, err := url.Parse(strings.TrimSuffix(ledgerURL, remote.LedgerPath("default")))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(server)
	path := "/records/" + cli.FormatUint(w.EventSeqs["other"]) + "/content"
	var redacted sync.Once
	front := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, path) {
			redacted.Do(func() {
				status, _ := ledgertest.Send(t, "DELETE", ledgerURL+path, `{"reason":"Asked for."}`, "application/json")
				require.Equal(t, http.StatusCreated, status)
			})
		}
		proxy.ServeHTTP(answer, r)
	}))
	defer front.Close()
	report, o := audited(t, front.URL+remote.LedgerPath("default"), w.Key, "--content", "--receipts", "5")
	require.Equal(t, cli.ExitOK, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, []uint64{w.Size + 1, 5}, []uint64{report.Size, report.Receipts})
}
