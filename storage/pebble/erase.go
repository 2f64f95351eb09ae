package pebble

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
)

// eraser takes erased content out of the files of the database (2.3). A commit
// that deletes content leaves a durable mark for each piece; the eraser, woken
// by the commit, writes the logs out and removes them, rewrites the tables that
// the content is in, whereupon the engine rewrites the files of values that these
// referred to, sees that the old files are gone, and takes the marks away.
// Whatever ends it before that, the next opening of the database goes on.
type eraser struct {
	db     *Database
	logger *slog.Logger
	copies func() error // Config.Copies
	// marked holds one item when there may be marks to work on, files one when
	// files have been made or deleted.
	marked, files chan struct{}

	working atomic.Bool // set by pass, read by the engine too

	mu          sync.Mutex
	undeleted   map[string]bool // paths of files that the engine failed to delete; under mu
	unrewritten error           // why a file of values could not be rewritten, if so; under mu

	patience time.Duration // for files that are no longer in force: see checkGone

	stop context.CancelFunc // ends the work; set by start, before any use
	done chan struct{}      // closed when it has ended; set by start
}

// Pauses of the eraser.
const (
	leastPause = time.Second           // after a failure, doubled with each
	mostPause  = time.Minute           // after a failure
	mostRest   = 5 * time.Second       // after work; otherwise as long as that took
	filesPause = 50 * time.Millisecond // between looks whether files are gone
)

// patience is how long files that are no longer in force may stay before that is
// a failure. The engine keeps them while an iterator is open, and nobody here
// leaves one open while others do something.
const patience = 30 * time.Second

// passMarks bounds the marks that are worked on together.
const passMarks = 100_000

func newEraser(db *Database, cfg Config) *eraser {
	return &eraser{
		db: db, logger: cfg.Logger, copies: cfg.Copies,
		marked: make(chan struct{}, 1), files: make(chan struct{}, 1),
		undeleted: make(map[string]bool), patience: patience,
	}
}

// listen has the engine say when files come and go.
func (e *eraser) listen(l *engine.EventListener) {
	l.TableDeleted = func(info engine.TableDeleteInfo) { e.deleted(info.Path, info.Err) }
	l.BlobFileDeleted = func(info engine.BlobFileDeleteInfo) { e.deleted(info.Path, info.Err) }
	l.BlobFileRewriteEnd = func(info engine.BlobFileRewriteInfo) { e.rewritten(info.Err) }
	l.CompactionEnd = func(engine.CompactionInfo) { signal(e.files) }
	l.FlushEnd = func(engine.FlushInfo) { signal(e.files) }
}

// start begins to work, on what earlier processes left too.
func (e *eraser) start() {
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.done = stop, make(chan struct{})
	go e.run(ctx)
}

// awake says that there are marks.
func (e *eraser) awake() { signal(e.marked) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// end stops the work, durable as far as it is, and waits for that.
func (e *eraser) end() {
	e.stop()
	<-e.done
}

// run works until ctx ends.
func (e *eraser) run(ctx context.Context) {
	defer close(e.done)
	pause := leastPause
	for ctx.Err() == nil {
		began := time.Now()
		worked, err := e.pass(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			e.logger.Error("erased content is still in files of the database", "error", err, "next_try_in", pause)
			rest(ctx, pause)
			pause = min(2*pause, mostPause)
		case worked:
			// Erasures that come one by one are gathered, so that they cost at most
			// half the time.
			pause = leastPause
			rest(ctx, min(time.Since(began), mostRest))
		default:
			select {
			case <-e.marked:
			case <-ctx.Done():
			}
		}
	}
}

// rest returns after that time, or when ctx ends.
func rest(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pass works on marks and takes them away; false if there are none.
func (e *eraser) pass(ctx context.Context) (bool, error) {
	var marks []mark
	err := e.db.eachMark(passMarks, func(m mark) { marks = append(marks, m) })
	if err != nil || len(marks) == 0 {
		return false, err
	}
	e.begin()
	defer e.working.Store(false)
	files, dir := e.db.space.fs, e.db.space.dir
	if err := e.db.logs.drop(ctx, dir, e.db.engine); err != nil {
		return true, err
	}
	if err := e.rewriteAll(ctx, marks); err != nil {
		return true, err
	}
	// What was removed must not come back with the loss of power once the marks
	// are gone.
	if err := syncFolder(files, dir); err != nil {
		return true, fmt.Errorf("making the removal of files durable: %w", err)
	}
	if e.copies != nil {
		if err := e.copies(); err != nil {
			return true, fmt.Errorf("copies of the database: %w", err)
		}
	}
	return true, e.db.unmark(marks)
}

// begin lets the engine rewrite files of values. It looks for such when something
// is flushed.
func (e *eraser) begin() {
	e.mu.Lock()
	e.unrewritten = nil
	e.mu.Unlock()
	e.working.Store(true)
}
