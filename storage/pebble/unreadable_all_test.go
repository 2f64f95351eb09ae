package pebble

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/pebble/internal/erase"
)

// answer is the result of one read. text is meaningless if err is not nil.
type answer struct {
	text string
	err  error
}

// listing joins the values that an iterator yields, one per line. It returns the first error that
// the iterator yields.
func listing[T any](all iter.Seq2[T, error]) (string, error) {
	var text strings.Builder
	for one, err := range all {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&text, one)
	}
	return text.String(), nil
}

// everything reads items of every kind from a store, both stored and missing ones. It returns the
// results, keyed by the kind and number of the item.
func everything(ctx context.Context, store storage.Store) map[string]answer {
	all := make(map[string]answer)
	note := func(read string, n uint64, text string, err error) {
		all[fmt.Sprint(read, " ", n)] = answer{text, err}
	}
	for n := uint64(0); n < 2*shared+10*every; n += every {
		digest := pieceNo(int(n % (shared + 3*every))).Digest
		entry, err := store.Entry(ctx, n)
		note("entry", n, string(entry), err)
		claim, err := store.KeyClaim(ctx, digestOf(1000+n))
		note("key", n, fmt.Sprint(claim), err)
		content, err := store.Content(ctx, digest)
		note("content", n, string(content), err)
		referenced, err := store.HasReference(ctx, digest, n)
		note("referenced", n, fmt.Sprint(referenced), err)
		by, err := store.RedactingSeq(ctx, n)
		note("redaction", n, fmt.Sprint(by), err)
		references, err := listing(store.References(ctx, digest))
		note("references", n, references, err)
		tile, err := store.Tile(ctx, 0, n)
		note("tile", n, string(tile), err)
	}
	for n := range uint64(2) {
		setting, err := store.Setting(ctx, fmt.Sprint(n))
		note("setting", n, string(setting), err)
	}
	entries, err := listing(store.Entries(ctx, 0))
	note("entries", 0, entries, err)
	redactions, err := listing(store.Redactions(ctx))
	note("redactions", 0, redactions, err)
	return all
}

// filesWithEveryKind creates a database that has items of every kind in its tables and value files.
func filesWithEveryKind(t *testing.T) vfs.FS {
	files, head := storedInTables(t)
	db := openOn(t, files)
	store, err := db.Ledger(t.Context(), "default")
	require.NoError(t, err)
	b := following(head)
	require.NoError(t, store.Commit(t.Context(), head, b))
	for range 4 {
		head = b.Head
		b = batch(head, 6, 9<<10)
		require.NoError(t, store.Commit(t.Context(), head, b))
		require.NoError(t, db.engine.Flush())
	}
	require.NoError(t, store.SetSetting(t.Context(), "1", []byte("set")))
	require.NoError(t, db.engine.Flush())
	require.NoError(t, db.Close())
	return files
}

// If a file of a database cannot be opened or read, or if its bytes are wrong, reads that need the
// file fail. No read returns a wrong result, or ErrNotFound for a stored item. Otherwise an
// idempotency key could be treated as new, and two events would claim it.
func TestUnreadableItemsAreNotAbsent(t *testing.T) {
	files := filesWithEveryKind(t)
	db := openOn(t, files)
	store, err := db.Ledger(t.Context(), "default")
	require.NoError(t, err)
	want := everything(t.Context(), store)
	require.NoError(t, db.Close())
	for _, path := range []string{"*" + erase.TableSuffix, "*" + erase.ValueFileSuffix} {
		for _, mode := range []faulty.Mode{faulty.ModeFail, faulty.ModeFlipBit} {
			var got map[string]answer
			failed := 0
			tryReads(t, files, mode, path, func(store storage.Store) error {
				got = everything(t.Context(), store)
				return nil
			}, func(storage.Store, error) {
				for read, a := range got {
					switch {
					case a.err == nil:
						require.NoError(t, want[read].err, "%s, %s: %s", mode, path, read)
						require.Equal(t, want[read].text, a.text, "%s, %s: %s", mode, path, read)
					case errors.Is(a.err, storage.ErrNotFound):
						require.ErrorIs(t, want[read].err, storage.ErrNotFound, "%s, %s: %s", mode, path, read)
					default:
						failed++
					}
				}
			})
			require.Positive(t, failed, "%s, %s", mode, path)
		}
	}
}
