package storagetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/storage"
)

// WithPages returns a store that is like the given one, and that implements storage.PageReader. It reads
// pages one item at a time.
func WithPages(store storage.Store) storage.Store { return paged{store} }

type paged struct{ storage.Store }

// ReadPage implements storage.PageReader.
func (s paged) ReadPage(ctx context.Context, first, end uint64, digests, keys []storage.Hash) (*storage.Page, error) {
	return pageOf(ctx, s.Store, first, end, digests, keys)
}

// pageOf returns the page that storage.PageReader describes.
func pageOf(ctx context.Context, r storage.Reader, first, end uint64, digests, keys []storage.Hash) (*storage.Page, error) {
	p := &storage.Page{
		Contents: make(map[storage.Hash][]byte), References: make(map[storage.Reference]bool),
		Redactions: make(map[uint64]uint64), Claims: make(map[storage.Hash]storage.Claim),
	}
	unlessMissing := func(err error) error {
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	}
	for _, digest := range digests {
		content, err := r.Content(ctx, digest)
		switch {
		case unlessMissing(err) != nil:
			return nil, err
		case err == nil && len(content) > storage.MaxPageContent:
			p.Contents[digest] = nil
		case err == nil:
			p.Contents[digest] = append([]byte{}, content...)
		}
		for seq := first; seq < end; seq++ {
			kept, err := r.HasReference(ctx, digest, seq)
			if err != nil {
				return nil, err
			}
			if kept {
				p.References[storage.Reference{Digest: digest, Seq: seq}] = true
			}
		}
	}
	for seq := first; seq < end; seq++ {
		by, err := r.RedactingSeq(ctx, seq)
		if unlessMissing(err) != nil {
			return nil, err
		}
		if err == nil {
			p.Redactions[seq] = by
		}
	}
	for _, key := range keys {
		claim, err := r.KeyClaim(ctx, key)
		if unlessMissing(err) != nil {
			return nil, err
		}
		if err == nil {
			p.Claims[key] = claim
		}
	}
	return p, nil
}

// checkPage checks that a store that can read pages returns the same as when it reads each item alone.
func (m *machine) checkPage(r *rapid.T, store storage.Store, model *modelLedger) {
	pages := storage.PageReaderOf(store)
	if pages == nil {
		return
	}
	first := rapid.Uint64Range(0, model.head.Size).Draw(r, "first")
	end := rapid.Uint64Range(first, model.head.Size+2).Draw(r, "end")
	var words []storage.Hash
	for _, word := range modelWords() {
		words = append(words, hash(word))
	}
	want, err := pageOf(m.t.Context(), store, first, end, words, words)
	require.NoError(r, err)
	got, err := pages.ReadPage(m.t.Context(), first, end, words, words)
	require.NoError(r, err)
	require.Equal(r, want, got)
}

// testPages checks pages with content of all lengths that matter, before and after a redaction.
func testPages(t *testing.T, s *suite) {
	store := s.ledger(t)
	pages := storage.PageReaderOf(store)
	if pages == nil {
		t.Skip("the store reads no pages")
	}
	ctx := t.Context()
	check := func() {
		t.Helper()
		for _, part := range []struct {
			first, end uint64
			words      []string
		}{{0, 4, []string{"empty", "most", "more", "k", "absent"}}, {1, 2, []string{"most", "most", "empty"}}, {3, 9, []string{"empty"}}, {2, 2, nil}} {
			var words []storage.Hash
			for _, word := range part.words {
				words = append(words, hash(word))
			}
			want, err := pageOf(ctx, store, part.first, part.end, words, words)
			require.NoError(t, err)
			got, err := pages.ReadPage(ctx, part.first, part.end, words, words)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	b := follow(storage.Head{}, "a", "b", "c", "d")
	most := strings.Repeat("x", storage.MaxPageContent)
	b.Contents = []storage.Content{content("empty", 0, ""), content("most", 1, most), content("more", 2, most+"x"), content("empty", 3, "")}
	b.Claims = []storage.Claim{{KeyDigest: hash("k"), RecordDigest: hash("r"), Seq: 1}}
	head := commit(t, store, storage.Head{}, b)
	check()
	b = follow(head, "e")
	b.Redactions = []storage.Redaction{redaction(0, 4, "empty"), redaction(1, 4, "most")}
	commit(t, store, head, b)
	check()

	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err := pages.ReadPage(done, 0, 1, nil, nil)
	require.ErrorIs(t, err, context.Canceled)
}
