package monitor

import (
	"colophon/internal/testing/ledgertest"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The monitor fetches none of an event's content if the sizes stated in the event add up to more
// than maxRecordContent.
func TestContentTooLargeInTotal(t *testing.T) {
	event := func(sizes ...string) pyjson.Value {
		var pieces []string
		for i, size := range sizes {
			pieces = append(pieces, fmt.Sprintf(`"%d":{"sha256":"%s","size":%s}`, i, ledgertest.ZeroHash, size))
		}
		var document pyjson.Document
		require.NoError(t, document.Parse([]byte(`{"record":{"content":{`+strings.Join(pieces, ",")+`}}}`)))
		return document.Root()
	}
	named, size, err := namedPieces(7, event("6", "0"))
	require.NoError(t, err)
	require.Len(t, named, 2)
	require.Equal(t, int64(6), size)
	for _, none := range []string{"-1", "1e3", "18446744073709551616", "67108865"} {
		_, size, err = namedPieces(7, event(none))
		require.NoError(t, err)
		require.Equal(t, int64(maxContent+1), size, "larger than any piece")
	}
	_, _, err = namedPieces(7, event("67108864", "67108864", "67108864", "67108864", "1"))
	require.ErrorContains(t, err, "the content of event 7 cannot be audited")
}

// If the network fails while a proof is checked, the audit returns an error and reports no finding.
func TestProofsThatCannotBeChecked(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("log.example")
	require.NoError(t, err)
	note, err := signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: 300})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log/checkpoint") {
			_, _ = answer.Write(note)
			return
		}
		if !strings.Contains(r.URL.Path, "/proofs/") {
			answer.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = answer.Write([]byte(`{"as_of":300,"hashes":[]}`))
	}))
	defer server.Close()
	client, err := fetch.New(fetch.Server{URL: server.URL, Transport: new(http.Transport)}, "default", 200*time.Millisecond, 1)
	require.NoError(t, err)
	log, err := fetch.OpenLog(t.Context(), client, []*proofs.Verifier{signer.Verifier()}, 1)
	require.NoError(t, err)
	a := &Auditor{report: &Report{}, client: client}
	_, err = a.checkConsistency(t.Context(), log, 200)
	require.ErrorIs(t, err, audit.ErrUnavailable)
	require.Empty(t, a.report.Findings)
}
