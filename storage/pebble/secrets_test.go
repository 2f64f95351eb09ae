package pebble

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/internal/erase"
	"colophon/storage/pebble/pebbletest"
)

// secrets contains the content of one event, in three pieces. The first does not compress. The
// second is compressed, so a plain search for its bytes does not find it. The third is too short to
// be stored apart from its key.
type secrets struct {
	contents []storage.Content // the three pieces
	needles  [][]byte          // for each piece, a text that occurs only in this piece
}

func newSecrets(seq uint64) *secrets {
	noise := make([]byte, 4096)
	fill(noise, ^seq)
	word := hex.EncodeToString(noise[:16])
	short := make([]byte, minSeparateValue-1)
	fill(short, ^seq-1<<32)
	s := &secrets{needles: [][]byte{noise[1000:1064], []byte(word), short}}
	for slot, text := range [][]byte{noise, []byte(strings.Repeat("the secret is "+word+"; ", 100)), short} {
		s.contents = append(s.contents, storage.Content{
			Digest: digestOf(1000*seq + uint64(slot)), Seq: seq, Slot: uint16(slot), Bytes: text,
		})
	}
	return s
}

// keptContent returns content of the event at seq that is not erased when the event is redacted. The
// engine must therefore rewrite the value files that contain it and cannot simply delete them.
func keptContent(seq uint64) storage.Content {
	kept := storage.Content{Digest: digestOf(1000*seq + 999), Seq: seq, Slot: 999, Bytes: make([]byte, 3000)}
	fill(kept.Bytes, seq)
	return kept
}

// redaction returns the redaction of the event that contains the secrets. by is the seq of the
// redacting event.
func (s *secrets) redaction(by uint64) storage.Redaction {
	r := storage.Redaction{Seq: s.contents[0].Seq, RedactingSeq: by}
	for _, c := range s.contents {
		r.Digests = append(r.Digests, c.Digest)
	}
	return r
}

// found returns, for each secret, the names of the files that contain it.
func (s *secrets) found(ctx context.Context, files vfs.FS, dir string) (all [][]string, err error) {
	for _, needle := range s.needles {
		names, err := pebbletest.FilesContaining(ctx, files, dir, needle)
		if err != nil {
			return nil, err
		}
		all = append(all, names)
	}
	return all, nil
}

// inTables makes requireFound look for the secrets in tables and value files.
const inTables = "tables"

// requireFound requires that each secret is in at least one file whose name contains in. If in is
// inTables, a secret that is stored with its key must be in a table, and any other secret must be
// in a value file.
func (s *secrets) requireFound(t *testing.T, dir, in string) {
	t.Helper()
	found, err := s.found(t.Context(), vfs.Default, dir)
	require.NoError(t, err)
	for i, names := range found {
		suffix := in
		switch {
		case in == inTables && len(s.contents[i].Bytes) < minSeparateValue:
			suffix = erase.TableSuffix
		case in == inTables:
			suffix = erase.ValueFileSuffix
		}
		require.True(t, strings.Contains(fmt.Sprint(names), suffix), "secret %d is in %v", i, names)
	}
}

func (s *secrets) requireGone(t *testing.T, dir string) {
	t.Helper()
	found, err := s.found(t.Context(), vfs.Default, dir)
	require.NoError(t, err)
	for i, names := range found {
		require.Empty(t, names, "secret %d", i)
	}
}

// clerk makes commits to a ledger in a database on disk.
type clerk struct {
	t    *testing.T
	dir  string
	db   *Database
	l    *ledger
	head storage.Head
}

func newClerk(t *testing.T) *clerk {
	c := &clerk{t: t, dir: t.TempDir()}
	c.open()
	store, err := c.db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	c.l = store.(*ledger)
	return c
}

func (c *clerk) open() {
	db, err := Open(c.t.Context(), Config{Dir: c.dir, Logger: silent()})
	require.NoError(c.t, err)
	c.db = db
	c.t.Cleanup(func() {
		if !db.closed.Load() {
			require.NoError(c.t, db.Close())
		}
	})
}

// reopen closes the database, opens it again, and updates l and head.
func (c *clerk) reopen() {
	require.NoError(c.t, c.db.Close())
	c.open()
	store, err := c.db.Ledger(c.t.Context(), "default")
	require.NoError(c.t, err)
	c.l = store.(*ledger)
	c.head, err = store.Head(c.t.Context())
	require.NoError(c.t, err)
}

// commit commits an event with a 1 KB entry that does not compress. If change is not nil, it is
// called first and can add to the batch.
func (c *clerk) commit(change func(b *storage.Batch)) {
	b := storage.Batch{Head: storage.Head{Size: c.head.Size + 1, Tip: digestOf(c.head.Size), TimeMicros: time.Now().UnixMicro()}}
	entry := make([]byte, 1000)
	fill(entry, c.head.Size)
	b.Entries = [][]byte{entry}
	if change != nil {
		change(&b)
	}
	require.NoError(c.t, c.l.Commit(c.t.Context(), c.head, b))
	c.head = b.Head
}

// post commits 100 other events and then the secrets.
func (c *clerk) post() *secrets {
	for range 100 {
		c.commit(nil)
	}
	s := newSecrets(c.head.Size)
	c.commit(func(b *storage.Batch) { b.Contents = s.contents })
	return s
}

func (c *clerk) redact(s *secrets) {
	c.commit(func(b *storage.Batch) { b.Redactions = []storage.Redaction{s.redaction(c.head.Size)} })
	for _, content := range s.contents {
		_, err := c.l.Content(c.t.Context(), content.Digest)
		require.ErrorIs(c.t, err, storage.ErrNotFound)
	}
}

func (c *clerk) flush() { require.NoError(c.t, c.db.engine.Flush()) }

func (c *clerk) compact() {
	require.NoError(c.t, c.db.engine.Compact(c.t.Context(), []byte{0}, []byte{0xff}, false))
}

// erased waits until no erasure is pending.
func (c *clerk) erased() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		e, err := c.db.PendingErasures(c.t.Context())
		require.NoError(c.t, err)
		return e.Count == 0
	}, time.Minute, time.Millisecond)
}

// tablesHold reports whether any table file in the folder, even an obsolete one, has a key in the
// given range.
func (c *clerk) tablesHold(start, end []byte) bool {
	names, err := filepath.Glob(filepath.Join(c.dir, "*"+erase.TableSuffix))
	require.NoError(c.t, err)
	require.NotEmpty(c.t, names)
	for _, name := range names {
		reader, err := erase.OpenTable(c.t.Context(), vfs.Default, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the table is obsolete and has been deleted
		}
		require.NoError(c.t, err)
		all, err := reader.NewIter(sstable.NoTransforms, start, end, sstable.DebugHandlesBlobContext)
		require.NoError(c.t, err)
		found := all.SeekGE(start, 0) != nil
		require.NoError(c.t, errors.Join(all.Error(), all.Close(), reader.Close()))
		if found {
			return true
		}
	}
	return false
}
