package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

const concurrentCommits = 200

// entryAt returns the entry that testReaders commits as event seq. Each batch has two events.
func entryAt(seq uint64) string { return fmt.Sprintf("entry %d", seq) }

// testReaders reads while another goroutine commits. Everything below the head must be present and
// complete.
func testReaders(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	var done atomic.Bool
	errs := make([]error, 3)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			for last := uint64(0); errs[i] == nil && !done.Load(); {
				last, errs[i] = readAll(ctx, store, last)
			}
		})
	}
	var head storage.Head
	for range concurrentCommits {
		b := follow(head, entryAt(head.Size), entryAt(head.Size+1))
		name := entryAt(head.Size)
		b.Contents = []storage.Content{content(name, head.Size, name), {Digest: hash("prompt"), Seq: head.Size + 1, Bytes: []byte("prompt")}}
		b.Claims = []storage.Claim{{KeyDigest: hash(name), RecordDigest: hash("r"), Seq: head.Size}}
		b.Tiles = []storage.Tile{tile(0, 0, 1+int(head.Size)%storage.HashesPerTile)}
		if head.Size%8 == 6 { // redact earlier records with the prompt in a batch that also stores the prompt
			for seq := head.Size - 5; seq < head.Size; seq += 2 {
				b.Redactions = append(b.Redactions, redaction(seq, head.Size, "prompt"))
			}
		}
		head = commit(t, store, head, b)
	}
	done.Store(true)
	wait.Wait()
	require.NoError(t, errors.Join(errs...))
}

// readAll checks that everything that testReaders has committed so far can be read, and returns the
// current size. It reads the entries starting at last, the size that the previous call returned.
func readAll(ctx context.Context, store storage.Store, last uint64) (uint64, error) {
	head, err := store.Head(ctx)
	if err != nil {
		return 0, err
	}
	if head.Size < last || head.Size%2 != 0 {
		return 0, fmt.Errorf("the head has size %d after size %d", head.Size, last)
	}
	next := last
	for e, err := range store.Entries(ctx, last) {
		if err != nil {
			return 0, err
		}
		if e.Seq != next || string(e.Bytes) != entryAt(e.Seq) {
			return 0, fmt.Errorf("entry %d is %q, not that of event %d", e.Seq, e.Bytes, next)
		}
		next++
	}
	if next < head.Size {
		return 0, fmt.Errorf("there are %d entries, but the head has size %d", next, head.Size)
	}
	if head.Size == 0 {
		return 0, nil
	}
	name := entryAt(head.Size - 2)
	if text, err := store.Content(ctx, hash(name)); err != nil || string(text) != name {
		return 0, fmt.Errorf("the content of %s is %q: %w", name, text, err)
	}
	if text, err := store.Content(ctx, hash("prompt")); err != nil || string(text) != "prompt" {
		return 0, fmt.Errorf("the prompt is %q: %w", text, err)
	}
	if key, err := store.KeyClaim(ctx, hash(name)); err != nil || key.Seq != head.Size-2 {
		return 0, fmt.Errorf("the key of %s is %v: %w", name, key, err)
	}
	if _, err := store.Tile(ctx, 0, 0); err != nil {
		return 0, err
	}
	return head.Size, nil
}

// testWriters repeatedly lets several writers extend the same head at the same time. Exactly one
// writer must win each round, and the ledger must have a single history.
func testWriters(t *testing.T, s *suite) {
	store := s.ledger(t)
	ctx := t.Context()
	wins := make([]uint64, 4)
	errs := make([]error, len(wins))
	var wait sync.WaitGroup
	for i := range wins {
		wait.Go(func() {
			for range concurrentCommits / 2 {
				head, err := store.Head(ctx)
				if err == nil {
					err = store.Commit(ctx, head, follow(head, fmt.Sprint(i)))
				}
				switch {
				case err == nil:
					wins[i]++
				case !errors.Is(err, storage.ErrConflict):
					errs[i] = err
				}
			}
		})
	}
	wait.Wait()
	require.NoError(t, errors.Join(errs...))
	counted := make([]uint64, len(wins))
	head := storage.Head{}
	for _, e := range collect(t, store, 0) {
		var i int
		_, err := fmt.Sscan(e, &i)
		require.NoError(t, err)
		counted[i]++
		head = follow(head, e).Head
	}
	require.Equal(t, wins, counted)
	got, err := store.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, got)
}
