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

	"colophon/ledger/keystore"
	"colophon/storage/faulty"
)

// The tests in this file run the server in a child process and make its file operations on the log
// or the index fail. The server must exit if it cannot continue safely.

func TestLogFilesFail(t *testing.T) { campaign(t, fileRound(faulty.ModeFail, false)) }
func TestLogFileCallsTakeEffectButFail(t *testing.T) {
	campaign(t, fileRound(faulty.ModeFailAfterSuccess, false))
}
func TestLogFilesHaveNoSpace(t *testing.T) { campaign(t, fileRound(faulty.ModeNoSpace, false)) }
func TestLogFilesAreWrittenShort(t *testing.T) {
	campaign(t, fileRound(faulty.ModeShortWrite, false))
}
func TestLogFilesAreSlow(t *testing.T)    { campaign(t, fileRound(faulty.ModeSlow, false)) }
func TestLogFilesAreGarbled(t *testing.T) { campaign(t, fileRound(faulty.ModeFlipBit, false)) }
func TestIndexFilesFail(t *testing.T)     { campaign(t, fileRound(faulty.ModeFail, true)) }
func TestIndexFileCallsTakeEffectButFail(t *testing.T) {
	campaign(t, fileRound(faulty.ModeFailAfterSuccess, true))
}
func TestIndexFilesHaveNoSpace(t *testing.T) { campaign(t, fileRound(faulty.ModeNoSpace, true)) }
func TestIndexFilesAreWrittenShort(t *testing.T) {
	campaign(t, fileRound(faulty.ModeShortWrite, true))
}
func TestIndexFilesAreSlow(t *testing.T)    { campaign(t, fileRound(faulty.ModeSlow, true)) }
func TestIndexFilesAreGarbled(t *testing.T) { campaign(t, fileRound(faulty.ModeFlipBit, true)) }

// sessionsOfFiles is the number of sessions in a round. They all use the same folder.
const sessionsOfFiles = 5

// fileRound returns a round of several sessions that use the same folder. In each session, calls on
// the files of the index or of the log fail in the given mode.
func fileRound(mode faulty.Mode, index bool) round {
	return func(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
		dir, remove, err := scratch()
		if err != nil {
			return done, err
		}
		defer remove()
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

// fileWorld is a data folder that is served by one child after another.
type fileWorld struct {
	dir     string
	history *history
	child   *child // nil if no child is running
	counted map[string]int
}

// session makes a child serve while clients use it, and waits until the session has ended or the
// child has exited. ended is the number of processes that exited. A child must not hang unless file
// operations keep failing forever. In that case, the database waits until its tables can be
// written.
func (w *fileWorld) session(ctx context.Context, s session) (ended int, err error) {
	w.counted = make(map[string]int)
	if w.child == nil {
		if w.child, err = startChild(ctx); err != nil {
			return 0, err
		}
	}
	w.child.hits = w.counted
	most, lasts := patience, s.Log.FailCount < 0 || s.Index.FailCount < 0
	if lasts {
		most = 2 * time.Second
	}
	w.child.ask(s)
	opened, err := w.child.wait(most)
	if err == nil && opened.URL != "" {
		clients := newClient(w.history, opened.URL)
		if lasts {
			clients.mayHang, clients.http.Timeout = true, time.Second
		}
		clients.load(ctx, 3, 5)
		clients.close()
		w.child.ask("stop")
		var closed childMessage
		if closed, err = w.child.wait(most); err == nil && closed.Closed {
			return 0, nil
		}
	}
	w.end() // the child has exited, is about to exit, or hangs
	if errors.Is(err, errSilent) && !lasts {
		return 1, err
	}
	return 1, nil
}

func (w *fileWorld) end() {
	if w.child != nil {
		w.child.end()
		w.child = nil
	}
}

// hits returns the number of calls that failed in the latest session, keyed by kind.
func (w *fileWorld) hits() map[string]int { return w.counted }

// inspect opens a copy of the folder on a file system without faults and calls the oracle. The
// folder itself does not change, so the next session has to recover from the fault.
func (w *fileWorld) inspect(ctx context.Context) (err error) {
	left := vfs.NewMem()
	data := filepath.Join(w.dir, "data")
	if _, err := vfs.Clone(vfs.Default, left, data, "data"); err != nil {
		return err
	}
	beside := filepath.Join(w.dir, "beside")
	defer func() { err = errors.Join(err, os.RemoveAll(beside)) }()
	for _, folder := range []string{"keys", "marks"} {
		if err := copyFolder(filepath.Join(data, folder), filepath.Join(beside, folder)); err != nil {
			return err
		}
	}
	c := nodeConfig{keys: keystore.KeyFiles{Dir: filepath.Join(beside, "keys")}, marks: keystore.HighWaterMarkFiles{Dir: filepath.Join(beside, "marks")}}
	return openAndCheck(ctx, left, "data", c, w.history.copy())
}

// openAndCheck opens a data folder on a file system without faults and calls the oracle. The caller
// must set all fields of c except those for the database and the index.
func openAndCheck(ctx context.Context, files vfs.FS, dir string, c nodeConfig, h *history) (err error) {
	c.database, err = openPebble(ctx, files, files.PathJoin(dir, "db"), func(msg string) { panic(msg) }, nil)
	if err != nil {
		return fmt.Errorf("opening what the fault left: %w", err)
	}
	c.indexFiles, c.indexDir = files, files.PathJoin(dir, "index")
	n, err := openNode(ctx, c)
	if err != nil {
		return fmt.Errorf("opening what the fault left: %w", err)
	}
	return errors.Join(check(ctx, n, h), n.close())
}

// copyFolder copies the files of a folder. It does nothing if the folder does not exist.
func copyFolder(from, to string) error {
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

// scratch creates a folder for many small files, in memory if more than 1 GiB is free there. A
// folder in memory suffices for faults that stop a process but not the machine, because their
// outcome does not depend on syncs. done removes the folder.
func scratch() (dir string, done func(), err error) {
	const memory, room = "/dev/shm", 1 << 30
	in := ""
	if usage, err := vfs.Default.GetDiskUsage(memory); err == nil && usage.AvailBytes > room {
		in = memory
	}
	dir, err = os.MkdirTemp(in, "colophon-faults")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// verbose names the environment variable that makes the servers log to standard error.
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
