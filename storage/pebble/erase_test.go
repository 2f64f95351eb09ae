package pebble

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// places returns functions, each of which posts secrets and moves them into a certain kind of file.
// The result in is the argument with which requireFound looks for the secrets in this kind of file.
func places() map[string]func(c *clerk) (s *secrets, in string) {
	return map[string]func(c *clerk) (*secrets, string){
		"log": func(c *clerk) (*secrets, string) { return c.post(), ".log" },
		"log that waits for its next use": func(c *clerk) (*secrets, string) {
			s := c.post()
			c.flush()
			return s, ".log"
		},
		"after the end of a log": func(c *clerk) (*secrets, string) {
			s := c.post()
			c.flush()
			c.commit(nil)
			c.flush() // the engine then reuses the log file that contains the secrets
			return s, fmt.Sprintf("%06d.log", c.db.walFS.LatestLogNumber.Load())
		},
		"level 0": func(c *clerk) (*secrets, string) {
			s := c.post()
			c.flush()
			return s, inTables
		},
		"last level": func(c *clerk) (*secrets, string) {
			s := c.post()
			c.compact()
			tables, err := c.db.engine.SSTables()
			require.NoError(c.t, err)
			require.NotEmpty(c.t, tables[len(tables)-1])
			return s, inTables
		},
		"several levels": func(c *clerk) (*secrets, string) {
			s := c.post()
			c.compact()
			for range 2 {
				c.commit(nil)
				c.flush()
			}
			return s, inTables
		},
	}
}

func TestErasedContentLeavesTheFolder(t *testing.T) {
	for name, place := range places() {
		t.Run(name, func(t *testing.T) {
			c := newClerk(t)
			kept := c.post()
			s, in := place(c)
			s.requireFound(t, c.dir, in)
			c.redact(s)
			c.erased()
			s.requireGone(t, c.dir)
			c.reopen()
			s.requireGone(t, c.dir)
			for _, content := range kept.contents {
				text, err := c.l.Content(t.Context(), content.Digest)
				require.NoError(t, err)
				require.Equal(t, content.Bytes, text)
			}
			require.Len(t, readEntries(t, c.l), int(c.head.Size))
		})
	}
}

// A slow reader does not delay an erasure.
func TestErasureDuringASlowRead(t *testing.T) {
	c := newClerk(t)
	s := c.post()
	c.compact()
	next, stop := iter.Pull2(c.l.Entries(t.Context(), 0))
	defer stop()
	_, err, ok := next()
	require.True(t, ok)
	require.NoError(t, err)
	c.redact(s)
	c.erased()
	s.requireGone(t, c.dir)
	for seq := range c.head.Size - 2 { // all events except the one read above and the later redaction
		e, err, ok := next()
		require.True(t, ok)
		require.NoError(t, err)
		require.Equal(t, seq+1, e.Seq)
	}
}

// If a process is killed, the next one continues its erasures.
func TestErasureContinuesAfterAKill(t *testing.T) {
	for _, in := range []string{".log", inTables, anywhere} {
		t.Run(in, func(t *testing.T) {
			dir := t.TempDir()
			erasing := process(t, "erase", dir)
			erasing.Env = append(erasing.Env, whereVariable+"="+in)
			output, err := erasing.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, erasing.Start())
			lines := bufio.NewScanner(output)
			require.True(t, lines.Scan())
			require.NoError(t, erasing.Process.Kill())
			require.Equal(t, "redacted", lines.Text())
			require.Error(t, erasing.Wait())
			s := newSecrets(secretSeq)
			if in != anywhere {
				s.requireFound(t, dir, in)
			}
			c := &clerk{t: t, dir: dir}
			c.open()
			c.erased()
			s.requireGone(t, dir)
		})
	}
}

const (
	// whereVariable is the environment variable that says which files contain the secrets when the
	// process is killed. Its value is a suffix, inTables, or anywhere.
	whereVariable = "COLOPHON_TEST_WHERE"
	anywhere      = "anywhere" // the process is killed while the eraser works
	secretSeq     = 50
)

// roleErase redacts the secrets, prints that it has done so, and waits to be killed.
func roleErase(dir string) error {
	ctx := context.Background()
	db, err := Open(ctx, Config{Dir: dir, Logger: silent()})
	if err != nil {
		return err
	}
	if os.Getenv(whereVariable) != anywhere {
		db.eraser.Stop()
	}
	store, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	if err != nil {
		return err
	}
	s := newSecrets(secretSeq)
	first := storage.Batch{
		Head:     storage.Head{Size: secretSeq + 1, Tip: digestOf(0)},
		Entries:  make([][]byte, secretSeq+1),
		Contents: s.contents,
	}
	if err := store.Commit(ctx, storage.Head{}, first); err != nil {
		return err
	}
	if os.Getenv(whereVariable) == inTables {
		if err := db.engine.Flush(); err != nil {
			return err
		}
	}
	second := storage.Batch{
		Head:       storage.Head{Size: secretSeq + 2, Tip: digestOf(1)},
		Entries:    make([][]byte, 1),
		Redactions: []storage.Redaction{s.redaction(secretSeq + 1)},
	}
	if err := store.Commit(ctx, first.Head, second); err != nil {
		return err
	}
	fmt.Println("redacted")
	select {}
}

// Erasing a piece of content also removes its mark and the key that records where it is stored.
func TestErasureRemovesThePlace(t *testing.T) {
	c := newClerk(t)
	s := c.post()
	c.compact()
	place, end := keys.DigestRange(c.l.number, s.contents[0].Digest)
	require.True(t, c.tablesHold(place, end))
	c.redact(s)
	c.erased()
	require.NoError(t, c.db.Close()) // waits until the old tables have been deleted
	for _, content := range s.contents {
		place, end := keys.DigestRange(c.l.number, content.Digest)
		require.False(t, c.tablesHold(place, end))
	}
	c.open()
	c.compact()
	require.NoError(t, c.db.Close())
	start, end := keys.ErasureRange()
	require.False(t, c.tablesHold(start, end))
}

// Content that several records need stays until the last of them is redacted.
func TestErasureOfSharedContent(t *testing.T) {
	c := newClerk(t)
	s := c.post()
	first := s.contents[0].Seq
	c.commit(func(b *storage.Batch) {
		b.Contents = slices.Clone(s.contents)
		for i := range b.Contents {
			b.Contents[i].Seq = c.head.Size
		}
	})
	r := s.redaction(c.head.Size)
	c.commit(func(b *storage.Batch) { b.Redactions = []storage.Redaction{r} })
	c.erased()
	s.requireFound(t, c.dir, "")
	r.Seq, r.RedactingSeq = first+1, c.head.Size
	c.commit(func(b *storage.Batch) { b.Redactions = []storage.Redaction{r} })
	c.erased()
	s.requireGone(t, c.dir)
}
