package postgres

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// A server may not rely on the content that it knows to be stored if another server has redacted records
// since. Otherwise, a commit would store only a reference to deleted content.
func TestKnownContentAfterTakeOver(t *testing.T) {
	url := emptyURL(t)
	a, b := member(t, url, "a"), member(t, url, "b")
	first, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	second := storeOf(t, b, "default")
	text := []byte("text")
	digest := storage.Hash(sha256.Sum256(text))
	var head storage.Head
	commit := func(store storage.Store, redactions ...storage.Redaction) {
		t.Helper()
		next := batch(head, 1)
		next.Contents, next.Redactions = nil, redactions
		if len(redactions) == 0 {
			next.Contents = []storage.Content{{Digest: digest, Seq: head.Size, Bytes: text}}
		}
		require.NoError(t, store.Commit(t.Context(), head, next))
		head = next.Head
	}
	take := func(db *Database) {
		t.Helper()
		expire(t, url)
		require.NoError(t, db.Leases().Take(t.Context(), "default", false, time.Time{}))
	}
	commit(first)
	take(b)
	commit(second, storage.Redaction{Seq: 0, RedactingSeq: 1, Digests: []storage.Hash{digest}})
	_, err = second.Content(t.Context(), digest)
	require.ErrorIs(t, err, storage.ErrNotFound)
	take(a)
	commit(first)
	stored, err := first.Content(t.Context(), digest)
	require.NoError(t, err)
	require.Equal(t, text, stored)
}
