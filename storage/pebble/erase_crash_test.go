package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/pebbletest"
)

// erasure is a ledger with secrets in the last level, in level 0, and in the write-ahead log. Tests
// simulate power cuts while the secrets are being redacted.
type erasure struct {
	secrets []*secrets
	head    storage.Head // head before the redaction

	// redacted is set when the ledger acknowledges the redaction. gone is set when no more erasures
	// are pending.
	redacted, gone atomic.Bool
}

// prepare creates the ledger and stores the secrets. The eraser of the returned database is
// stopped.
func (e *erasure) prepare(t *testing.T, files vfs.FS) (*Database, *ledger) {
	db, l := newLedger(t, files)
	db.eraser.Stop()
	for i := range uint64(3) {
		s := newSecrets(i)
		b := batch(e.head, 1, 2000)
		b.Contents = append(slices.Clone(s.contents), keptContent(i))
		require.NoError(t, l.Commit(t.Context(), e.head, b))
		e.head = b.Head
		e.secrets = append(e.secrets, s)
		switch i {
		case 0:
			require.NoError(t, db.engine.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
		case 1:
			require.NoError(t, db.engine.Flush())
		}
	}
	return db, l
}

// play redacts everything, waits until the secrets are gone, and then makes more commits.
func (e *erasure) play(ctx context.Context, db *Database, l *ledger) error {
	db.eraser.Start(db.engine)
	b := batch(e.head, 1, 2000)
	for _, s := range e.secrets {
		b.Redactions = append(b.Redactions, s.redaction(e.head.Size))
	}
	if err := l.Commit(ctx, e.head, b); err != nil {
		return err
	}
	e.redacted.Store(true)
	if err := waitErased(ctx, db); err != nil {
		return err
	}
	e.gone.Store(true)
	for range 3 {
		head := b.Head
		b = batch(head, 1, 2000)
		if err := errors.Join(l.Commit(ctx, head, b), db.engine.Flush()); err != nil {
			return err
		}
	}
	return db.Close()
}

func waitErased(ctx context.Context, db *Database) error {
	for range time.Minute / time.Millisecond {
		e, err := db.PendingErasures(ctx)
		if err != nil || e.Count == 0 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("erased content was not removed from the files")
}

// check opens the database after a power cut. If the redaction was acknowledged, it must be stored.
// If it is stored, the secrets must disappear from the folder. If gone is set, no file may contain
// a secret even before the database is opened.
func (e *erasure) check(ctx context.Context, files vfs.FS, redacted, gone bool) error {
	if gone {
		if err := e.notIn(ctx, files); err != nil {
			return fmt.Errorf("secrets are back in the folder: %w", err)
		}
	}
	db, err := Open(ctx, testConfig(files))
	if err != nil {
		return err
	}
	return errors.Join(e.checkDatabase(ctx, files, db, redacted), db.Close())
}

func (e *erasure) checkDatabase(ctx context.Context, files vfs.FS, db *Database, redacted bool) error {
	store, err := db.Ledger(ctx, "default")
	if err != nil {
		return err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	stands := head.Size > e.head.Size
	if redacted && !stands {
		return errors.New("the redaction is lost")
	}
	for _, s := range e.secrets {
		kept := keptContent(s.contents[0].Seq)
		if text, err := store.Content(ctx, kept.Digest); err != nil || !slices.Equal(text, kept.Bytes) {
			return fmt.Errorf("content that was not redacted is lost: %w", err)
		}
		for _, c := range s.contents {
			text, err := store.Content(ctx, c.Digest)
			if stands && !errors.Is(err, storage.ErrNotFound) {
				return fmt.Errorf("redacted content can be read: %w", err)
			}
			if !stands && (err != nil || !slices.Equal(text, c.Bytes)) {
				return fmt.Errorf("content is lost: %w", err)
			}
		}
	}
	if !stands {
		return nil
	}
	if err := waitErased(ctx, db); err != nil {
		return err
	}
	return e.notIn(ctx, files)
}

// notIn returns an error if a file contains a secret.
func (e *erasure) notIn(ctx context.Context, files vfs.FS) error {
	for i, s := range e.secrets {
		found, err := s.found(ctx, files, testDir)
		if err != nil {
			return err
		}
		if all := slices.Concat(found...); len(all) > 0 {
			return fmt.Errorf("secret %d is in %v", i, all)
		}
	}
	return nil
}

func TestPowerCutInErasure(t *testing.T) {
	e := &erasure{}
	files := pebbletest.NewCrashFS()
	db, l := e.prepare(t, files.FS())
	require.Error(t, e.notIn(t.Context(), files.FS()))
	c := cuts{every: 1, percents: []int{0, 50, 100}}
	if testing.Short() {
		c.every = 5
	}
	ctx := t.Context()
	work := func() error { return e.play(ctx, db, l) }
	made, wrong := losses(t, files, c, work, func(cut func() vfs.FS) error {
		redacted, gone := e.redacted.Load(), e.gone.Load() // state before the cut
		return e.check(ctx, cut(), redacted, gone)
	})
	require.NoError(t, errors.Join(wrong...))
	require.Greater(t, made*c.every, 3*20, "logs, tables, and manifests change")
}
