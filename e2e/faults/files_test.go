package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/ledger"
	"colophon/storage/faulty"
)

// Calls of the file systems of the log and of the index go wrong under a server in a
// process of its own, which ends where it must not go on.

func TestLogFilesFail(t *testing.T)           { campaign(t, fileRound(faulty.Fail, false)) }
func TestLogFilesAreDoneButFail(t *testing.T) { campaign(t, fileRound(faulty.Lie, false)) }
func TestLogFilesHaveNoSpace(t *testing.T)    { campaign(t, fileRound(faulty.NoSpace, false)) }
func TestLogFilesAreWrittenShort(t *testing.T) {
	campaign(t, fileRound(faulty.Short, false))
}
func TestLogFilesAreSlow(t *testing.T)          { campaign(t, fileRound(faulty.Slow, false)) }
func TestLogFilesAreGarbled(t *testing.T)       { campaign(t, fileRound(faulty.Garble, false)) }
func TestIndexFilesFail(t *testing.T)           { campaign(t, fileRound(faulty.Fail, true)) }
func TestIndexFilesAreDoneButFail(t *testing.T) { campaign(t, fileRound(faulty.Lie, true)) }
func TestIndexFilesHaveNoSpace(t *testing.T)    { campaign(t, fileRound(faulty.NoSpace, true)) }
func TestIndexFilesAreWrittenShort(t *testing.T) {
	campaign(t, fileRound(faulty.Short, true))
}
func TestIndexFilesAreSlow(t *testing.T)    { campaign(t, fileRound(faulty.Slow, true)) }
func TestIndexFilesAreGarbled(t *testing.T) { campaign(t, fileRound(faulty.Garble, true)) }

// sessionsOfFiles is how often a folder is opened again in one round.
const sessionsOfFiles = 5

// fileRound is some sessions on one folder. In each, calls go wrong in one way.
func fileRound(mode faulty.Mode, index bool) round {
	return func(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
		dir, err := os.MkdirTemp(scratch(t), "files")
		if err != nil {
			return done, err
		}
		defer os.RemoveAll(dir)
		w := &fileWorld{dir: dir, history: newHistory(name, r.Uint64())}
		w.history.largest = 100_000
		defer w.end()
		for range sessionsOfFiles {
			plan := drawPlan(r, mode, index)
			s := session{Dir: filepath.Join(dir, "data"), Log: plan, Index: faulty.Plan{Calls: []string{"none"}}}
			if index {
				s.Log, s.Index = s.Index, s.Log
			}
			ended, err := w.session(t.Context(), s)
			if err == nil {
				err = w.inspect(t.Context())
			}
			done.add(tally{faults: w.hits(), receipts: w.history.acknowledgements(), ended: ended})
			if err != nil {
				return done, fmt.Errorf("%+v: %w", plan, err)
			}
		}
		return done, nil
	}
}

// fileWorld is a folder that one child after the other serves.
type fileWorld struct {
	dir     string
	history *history
	child   *child // nil if there is none
	counted map[string]int
}

// session has a child serve and clients use it, and ends the child's session or sees it
// end; ended says how many processes did.
func (w *fileWorld) session(ctx context.Context, s session) (ended int, err error) {
	w.counted = make(map[string]int)
	if w.child == nil {
		if w.child, err = startChild(ctx); err != nil {
			return 0, err
		}
	}
	w.child.hits = w.counted
	w.child.ask(s)
	if said, ok := w.child.wait(patience); !ok || said.URL == "" {
		w.end()
		return 1, nil // it says what is wrong, or is ended by it
	} else {
		clients := newClient(w.history, said.URL)
		if s.Log.Count < 0 || s.Index.Count < 0 {
			// Writers wait while tables cannot be written, for as long as that is so.
			clients.mayHang, clients.http.Timeout = true, time.Second
		}
		clients.load(ctx, 3, 5)
		clients.close()
	}
	// With files that fail for ever it may not be able to end; an operator kills it.
	w.child.ask("stop")
	if said, ok := w.child.wait(3 * time.Second); !ok || !said.Closed {
		w.end()
		return 1, nil
	}
	return 0, nil
}

func (w *fileWorld) end() {
	if w.child != nil {
		w.child.end()
		w.child = nil
	}
}

// hits are what went wrong in the latest session.
func (w *fileWorld) hits() map[string]int { return w.counted }

// inspect opens a copy of the folder on files that work, and asks the oracle. The
// folder stays as it is, so that the next session has to recover.
func (w *fileWorld) inspect(ctx context.Context) (err error) {
	left := vfs.NewMem()
	data := filepath.Join(w.dir, "data")
	if _, err := vfs.Clone(vfs.Default, left, data, "data"); err != nil {
		return err
	}
	keys := filepath.Join(w.dir, "keys")
	defer func() { err = errors.Join(err, os.RemoveAll(keys)) }()
	if err := copyKeys(filepath.Join(data, "keys"), keys); err != nil {
		return err
	}
	return openAndCheck(ctx, left, "data", ledger.KeyFiles{Dir: keys}, w.history.copy())
}

// openAndCheck opens a data folder on a file system that works, and asks the oracle.
func openAndCheck(ctx context.Context, files vfs.FS, dir string, keys ledger.Keys, h *history) error {
	database, err := openPebble(ctx, files, files.PathJoin(dir, "db"), func(msg string) { panic(msg) }, nil)
	if err != nil {
		return fmt.Errorf("opening what is left: %w", err)
	}
	n, err := openNode(ctx, nodeConfig{database: database, indexFiles: files, indexDir: files.PathJoin(dir, "index"), keys: keys})
	if err != nil {
		return fmt.Errorf("opening what is left: %w", err)
	}
	return errors.Join(check(ctx, n, h), n.close())
}

// copyKeys copies a folder of keys, if there is one.
func copyKeys(from, to string) error {
	files, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// scratch is a folder for many small files: in memory where the system has one, since
// what ends a process but not the machine does not depend on syncs.
func scratch(t *testing.T) string {
	const memory = "/dev/shm"
	if dir, err := os.MkdirTemp(memory, "colophon-faults"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// verbose is where servers write their logs, if anywhere.
const verbose = "FAULTS_LOG"

func testOutput() io.Writer {
	if os.Getenv(verbose) != "" {
		return os.Stderr
	}
	return nil
}

func testLog() *slog.Logger {
	if os.Getenv(verbose) != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}
