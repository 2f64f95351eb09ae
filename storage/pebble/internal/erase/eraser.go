// Package erase removes erased content from the files of a Pebble database (spec: Redactions).
package erase

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage/pebble/internal/disk"
)

// Eraser removes erased content from the files of the database (spec: Redactions). A commit that
// deletes content leaves a durable mark for each piece and wakes the eraser. The eraser flushes and
// removes the write-ahead logs, and rewrites the tables that contain the content. The engine then
// rewrites the value files. When the old files are gone, the eraser removes the marks. If the
// process stops before that, the next process that opens the database continues.
type Eraser struct {
	Config Config
	engine *engine.DB // set by Start
	// marked signals that there may be marks to work on. files signals that files were created or
	// deleted.
	marked, files chan struct{}

	working atomic.Bool // set while ErasePending runs; the engine reads it concurrently

	mu          sync.Mutex
	undeleted   map[string]bool // paths of files that the engine failed to delete; guarded by mu
	unrewritten error           // why the engine could not rewrite a value file; guarded by mu

	// DeletionTimeout is how long ErasePending waits for obsolete files to be deleted before it fails. The engine
	// keeps such files while an iterator is open, but no iterator stays open for long.
	DeletionTimeout time.Duration

	stop context.CancelFunc // stops the goroutine; set by Start
	done chan struct{}      // closed when the goroutine has stopped; set by Start
}

// Lengths of the eraser's pauses.
const (
	leastPause = time.Second           // pause after a failure; each further failure doubles it
	mostPause  = time.Minute           // longest pause after failures
	maxWait    = 5 * time.Second       // maximum pause after a successful pass; a shorter pass leads to an equally short pause
	filesPause = 50 * time.Millisecond // pause between two checks of whether files are gone
	patience   = 30 * time.Second      // default of Eraser.DeletionTimeout
)

// passMarks is the maximum number of marks that one pass handles.
const passMarks = 100_000

// Config holds the resources of an eraser. It must not change after Start.
type Config struct {
	Space     disk.Space
	ReserveFS *disk.ReserveFS
	WALFS     *disk.WALFS
	// MinSeparateValueBytes is the minimum length, in bytes, of values that the engine stores in value files.
	MinSeparateValueBytes int
	WriteOptions          *engine.WriteOptions
	Logger                *slog.Logger
	// RemoveUnusedCopies removes those copies of the database that are no longer in use. An erasure
	// is pending until RemoveUnusedCopies returns nil. A nil RemoveUnusedCopies means that there
	// are no copies.
	RemoveUnusedCopies func() error
}

// New returns an eraser that does nothing before Start is called.
func New(config Config) *Eraser {
	return &Eraser{
		Config: config,
		marked: make(chan struct{}, 1), files: make(chan struct{}, 1),
		undeleted: make(map[string]bool), DeletionTimeout: patience,
	}
}

// RegisterListeners sets the functions of l that tell the eraser about deleted and rewritten files.
func (e *Eraser) RegisterListeners(l *engine.EventListener) {
	l.TableDeleted = func(info engine.TableDeleteInfo) { e.deleted(info.Path, info.Err) }
	l.BlobFileDeleted = func(info engine.BlobFileDeleteInfo) { e.deleted(info.Path, info.Err) }
	l.BlobFileRewriteEnd = func(info engine.BlobFileRewriteInfo) { e.rewritten(info.Err) }
	l.CompactionEnd = func(engine.CompactionInfo) { signal(e.files) }
	l.FlushEnd = func(engine.FlushInfo) { signal(e.files) }
}

// Start starts the eraser's goroutine on db. The goroutine also works on marks that earlier
// processes left.
func (e *Eraser) Start(db *engine.DB) {
	e.engine = db
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.done = stop, make(chan struct{})
	go e.run(ctx)
}

// Wake makes the eraser's goroutine look for deleted content that it has not erased yet. It does
// not block.
func (e *Eraser) Wake() { signal(e.marked) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Stop stops the eraser's goroutine and waits until it has ended. The marks of unfinished work stay
// in the database.
func (e *Eraser) Stop() {
	e.stop()
	<-e.done
}

// run calls ErasePending repeatedly until ctx is done.
func (e *Eraser) run(ctx context.Context) {
	defer close(e.done)
	pause := leastPause
	for ctx.Err() == nil {
		began := time.Now()
		worked, err := e.ErasePending(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			e.Config.Logger.Error("erased content is still in the database files; retrying later", "error", err, "next_try_in", pause)
			wait(ctx, pause)
			pause = min(2*pause, mostPause)
		case worked:
			pause = leastPause
			// Wait as long as the pass took, but at most maxWait, so that erasures that arrive
			// one at a time share a pass.
			wait(ctx, min(time.Since(began), maxWait))
		default:
			select {
			case <-e.marked:
			case <-ctx.Done():
			}
		}
	}
}

// wait blocks for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ErasePending erases up to 100,000 pieces of deleted content and then removes their erasure marks.
// It returns false if there were no marks.
func (e *Eraser) ErasePending(ctx context.Context) (bool, error) {
	var marks []PendingErasure
	err := ForEachPending(e.engine, passMarks, func(m PendingErasure) { marks = append(marks, m) })
	if err != nil || len(marks) == 0 {
		return false, err
	}
	e.AllowValueRewrites()
	defer e.working.Store(false)
	files, dir := e.Config.Space.FS, e.Config.Space.Dir
	if err := e.Config.WALFS.DropLogs(ctx, dir, e.engine); err != nil {
		return true, err
	}
	if err := e.rewriteAll(ctx, marks); err != nil {
		return true, err
	}
	// Sync the folder before removing the marks. Otherwise a power failure could bring deleted files
	// back after their marks are gone.
	if err := disk.SyncDir(files, dir); err != nil {
		return true, fmt.Errorf("syncing the database folder after removing files: %w", err)
	}
	if e.Config.RemoveUnusedCopies != nil {
		if err := e.Config.RemoveUnusedCopies(); err != nil {
			return true, fmt.Errorf("removing unused copies of the database: %w", err)
		}
	}
	return true, e.unmark(marks)
}

// AllowValueRewrites allows the engine to rewrite value files. The engine looks for such files after each flush.
func (e *Eraser) AllowValueRewrites() {
	e.mu.Lock()
	e.unrewritten = nil
	e.mu.Unlock()
	e.working.Store(true)
}
