package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// endless writes piece repeatedly until the client closes the connection.
func endless(w http.ResponseWriter, piece []byte) {
	for {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// bomb writes an endless gzip stream that decompresses to a thousand times its size.
func bomb(w http.ResponseWriter) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(make([]byte, 16<<20))
	_ = z.Close()
	w.Header().Set("Content-Encoding", "gzip")
	endless(w, packed.Bytes()) // the stream consists of many gzip members
}

// The audit terminates, uses bounded memory, and reports what is wrong, whatever a server sends.
func TestHostileServersEndTheAudit(t *testing.T) {
	w := ledgertest.New(t, 300, 0, 0)
	store := openRaw(t, w.DataDir)
	zeros := make([]byte, 64<<10)
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	slowly := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // sends one byte at a time
			_, _ = w.Write([]byte{0})
			_ = http.NewResponseController(w).Flush()
		}
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	text := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	const checkpoint, tile, upper, bundle = "/log/checkpoint", "/log/tile/0/000", "/log/tile/1/", "/log/tile/entries/000"
	for _, c := range []struct {
		name, path string
		answer     func(http.ResponseWriter, *http.Request)
		code       int
		kind       audit.DamageKind
		seq        uint64
	}{
		{"endless checkpoint", checkpoint, func(w http.ResponseWriter, _ *http.Request) { endless(w, zeros) }, 31, audit.DamageKindCheckpoint, 0},
		{"endless tile", tile, func(w http.ResponseWriter, _ *http.Request) { endless(w, zeros) }, 39, audit.DamageKindTile, 0},
		{"endless bundle", bundle, func(w http.ResponseWriter, _ *http.Request) { endless(w, zeros) }, 35, audit.DamageKindEntry, 0},
		{"bomb for a checkpoint", checkpoint, func(w http.ResponseWriter, _ *http.Request) { bomb(w) }, 31, audit.DamageKindCheckpoint, 0},
		{"bomb for a tile", tile, func(w http.ResponseWriter, _ *http.Request) { bomb(w) }, 39, audit.DamageKindTile, 0},
		{"bomb for a bundle", bundle, func(w http.ResponseWriter, _ *http.Request) { bomb(w) }, 35, audit.DamageKindEntry, 0},
		{"bundle of too many", bundle, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte{0, 1, 'x'}, 257)) }, 35, audit.DamageKindEntry, 0},
		{"bundle that ends within an entry", bundle, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{1, 0, 'x'}) }, 35, audit.DamageKindEntry, 0},
		{"bundle of nothing", bundle, text(""), 35, audit.DamageKindEntry, 0},
		{"a page in place of a bundle", bundle, text("<html>"), 35, audit.DamageKindEntry, 0},
		{"a page in place of a tile", tile, text("<html>"), 39, audit.DamageKindTile, 0},
		{"a page in place of the checkpoint", checkpoint, text("<html>"), 31, audit.DamageKindCheckpoint, 0},
		{"no such tile", tile, status(http.StatusNotFound), 39, audit.DamageKindTile, 0},
		{"no such upper tile", upper, status(http.StatusNotFound), 39, audit.DamageKindTile, 0},
		{"no such bundle", bundle, status(http.StatusNotFound), 34, audit.DamageKindTruncation, 0},
		{"the server fails", bundle, status(http.StatusInternalServerError), 34, audit.DamageKindTruncation, 0},
		{"the checkpoint has moved", checkpoint, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, 1, "", 0},
		{"no checkpoint is answered", checkpoint, hang, cli.ExitUnreachable, "", 0},
		{"no tile is answered", tile, hang, cli.ExitUnreachable, "", 0},
		{"no bundle is answered", bundle, hang, cli.ExitUnreachable, "", 0},
		{"a bundle without end, byte by byte", bundle, slowly, cli.ExitUnreachable, "", 0},
		{"busy for ever", bundle, status(http.StatusServiceUnavailable), cli.ExitUnreachable, "", 0},
		{"another success", checkpoint, status(http.StatusAccepted), 1, "", 0},
		{"endless headers", bundle, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 128<<10))
			w.WriteHeader(http.StatusOK)
		}, cli.ExitUnreachable, "", 0},
		{"an answer that breaks off", bundle, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("x"))
		}, cli.ExitUnreachable, "", 0},
		{"no right to it", bundle, status(http.StatusForbidden), cli.ExitFailed, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // the audits spend most of their time waiting
			url := (&rawServer{store, func(answer http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, c.path) {
					return false
				}
				c.answer(answer, r)
				return true
			}}).serve(t)
			timeout := "20s"
			if c.code == cli.ExitUnreachable {
				timeout = "200ms"
			}
			report, o := audited(t, url, w.Key, "--timeout", timeout)
			require.Equal(t, c.code, o.code, "%s%s", o.stdout, o.stderr)
			if c.kind == "" {
				require.Empty(t, o.stdout)
				require.NotEmpty(t, o.stderr)
				return
			}
			require.Len(t, report.Findings, 1)
			require.Equal(t, c.kind, report.Findings[0].Kind)
			require.Equal(t, c.seq, *report.Findings[0].Seq)
		})
	}
}

// The audit distinguishes between content that the server reports as erased and content that is
// missing or forbidden.
func TestContentThatIsNotServed(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	seq := w.EventSeqs["other"]
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter)
		code   int
		kind   audit.DamageKind
	}{
		{"not there", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 43, audit.DamageKindContent},
		{"the server fails", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, 43, audit.DamageKindContent},
		{"gone without a reason", func(w http.ResponseWriter) { w.WriteHeader(http.StatusGone) }, 43, audit.DamageKindContent},
		{"gone by an event that says otherwise", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"redacted_by":3}`))
		}, 42, audit.DamageKindRedaction},
		{"gone by an event that never comes", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"redacted_by":100000}`))
		}, 42, audit.DamageKindRedaction},
		{"endless", func(w http.ResponseWriter) { endless(w, make([]byte, 1<<20)) }, 43, audit.DamageKindContent},
		{"bomb", bomb, 43, audit.DamageKindContent},
		{"no right to it", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, cli.ExitFailed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/records/"+cli.FormatUint(seq)+"/content/") {
					return false
				}
				c.answer(answer)
				return true
			})
			report, o := audited(t, url, w.Key, "--content")
			require.Equal(t, c.code, o.code, "%s%s", o.stdout, o.stderr)
			if c.kind != "" {
				require.Equal(t, c.kind, report.Findings[0].Kind)
				require.Equal(t, seq, *report.Findings[0].Seq)
			}
		})
	}
}

// The audit reports a server that names the wrong redaction event for a redacted record.
func TestWrongRedactionsAreReported(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	store := openRaw(t, w.DataDir)
	for by, code := range map[uint64]int{w.EventSeqs["redaction"]: 0, w.EventSeqs["stale"]: 42, w.EventSeqs["redaction"] + 1: 42, 1: 42, w.Size + 9: 42} {
		url := (&rawServer{store, func(answer http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/records/"+cli.FormatUint(w.EventSeqs["secret"])+"/content/") {
				return false
			}
			answer.WriteHeader(http.StatusGone)
			_, _ = answer.Write([]byte(`{"redacted_by":` + cli.FormatUint(by) + `}`))
			return true
		}}).serve(t)
		report, o := audited(t, url, w.Key, "--content")
		require.Equal(t, code, o.code, "%d: %s%s", by, o.stdout, o.stderr)
		if code != 0 {
			require.Equal(t, audit.DamageKindRedaction, report.Findings[0].Kind)
			require.Equal(t, w.EventSeqs["secret"], *report.Findings[0].Seq)
		}
	}
}

// packed returns a gzip stream that contains one gzip member for each element of members.
func packed(members ...[]byte) []byte {
	var stream bytes.Buffer
	for _, m := range members {
		z := gzip.NewWriter(&stream)
		_, _ = z.Write(m)
		_ = z.Close()
	}
	return stream.Bytes()
}

// A compressed tile or bundle can have several gzip members. The audit rejects extra data after the
// last entry, and trailing data that is not itself a gzip member.
func TestTilesWithTrailingData(t *testing.T) {
	w := ledgertest.New(t, 300, 0, 0)
	store := openRaw(t, w.DataDir)
	extra, err := proofs.AppendBundleEntry(nil, []byte("more"))
	require.NoError(t, err)
	for _, c := range []struct {
		name, path string
		change     func([]byte) (body []byte, packed bool)
		code       int
	}{
		{"packed", "/entries/", func(b []byte) ([]byte, bool) { return packed(b), true }, 0},
		{"an empty second member", "/entries/", func(b []byte) ([]byte, bool) { return packed(b, nil), true }, 0},
		{"two members", "/tile/", func(b []byte) ([]byte, bool) { return packed(b[:10], b[10:]), true }, 0},
		{"empty members without end", "/entries/", func([]byte) ([]byte, bool) { return bytes.Repeat(packed(nil), 1<<20), true }, 35},
		{"no member behind the first", "/entries/", func(b []byte) ([]byte, bool) { return append(packed(b), "more"...), true }, 35},
		{"not gzip", "/entries/", func(b []byte) ([]byte, bool) { return b, true }, 35},
		{"an entry more in a full bundle", "/entries/000", func(b []byte) ([]byte, bool) { return append(b, extra...), false }, 35},
		{"an entry more in the last bundle", "/entries/001", func(b []byte) ([]byte, bool) { return append(b, extra...), false }, 35},
		{"an entry less in the last bundle", "/entries/001", func(b []byte) ([]byte, bool) { return b[:2+int(b[0])<<8+int(b[1])], false }, 34},
		{"a hash more in a tile", "/tile/0/000", func(b []byte) ([]byte, bool) { return append(b, make([]byte, proofs.HashSize)...), false }, 39},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := &rawServer{store: store}
			url := (&rawServer{store, func(answer http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, c.path) {
					return false
				}
				recorded := httptest.NewRecorder()
				raw.ServeHTTP(recorded, r)
				body, packed := c.change(recorded.Body.Bytes())
				if packed {
					answer.Header().Set("Content-Encoding", "gzip")
				}
				_, _ = answer.Write(body)
				return true
			}}).serve(t)
			_, o := audited(t, url, w.Key, "--timeout", "20s")
			require.Equal(t, c.code, o.code, "%s%s", o.stdout, o.stderr)
		})
	}
}
