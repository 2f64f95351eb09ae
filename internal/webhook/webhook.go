package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colophon/internal/safefile"
	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/ledger/index"
)

// Options configures a Sender.
type Options struct {
	Hooks []Hook
	// CursorDir is the folder that holds the cursors. New creates it if necessary.
	CursorDir string
	Logger    *slog.Logger
	// Follower returns the index follower of the named ledger.
	Follower func(ledger string) *index.Follower
	// WritesLedger reports whether this server writes a ledger. Each server sends messages only about
	// the ledgers that it writes. nil means that this server writes all ledgers.
	WritesLedger func(ledger string) bool
	// InitialRetryPause is the pause after the first failed attempt. It doubles after each further
	// failure. The default is 1 second.
	InitialRetryPause time.Duration
}

// Sender sends messages about the ledgers of a host.
type Sender struct {
	options Options
	client  *http.Client
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // guards workers
	workers []*worker
}

// New returns a Sender that does not follow any ledgers yet.
func New(o Options) (*Sender, error) {
	if err := safefile.MkdirAll(o.CursorDir); err != nil {
		return nil, err
	}
	if o.InitialRetryPause == 0 {
		o.InitialRetryPause = firstPause
	}
	s := &Sender{options: o, client: newClient()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Follow starts following a ledger for each hook that covers it. It does not wait for messages to be
// sent, and always returns nil.
func (s *Sender) Follow(l *ledger.Ledger) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil // closed
	}
	for i := range s.options.Hooks {
		hook := &s.options.Hooks[i]
		if !hook.covers(l.Name()) {
			continue
		}
		w := &worker{Sender: s, hook: hook, ledger: l, moved: make(chan struct{}, 1), pause: s.options.InitialRetryPause,
			log: s.options.Logger.With("hook", hook.Name, "ledger", l.Name())}
		start := uint64(0)
		if !hook.FromStart {
			start = l.Head().Size
		}
		l.OnCommit(func(ledger.Commit) { w.wake() })
		s.workers = append(s.workers, w)
		s.running.Go(func() { w.run(s.ctx, start) })
	}
	return nil
}

// Close stops all workers. Messages that have not been accepted are sent after the next start.
func (s *Sender) Close() {
	s.mu.Lock() // so that Follow starts no worker after this
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// worker sends the messages of one hook about one ledger.
type worker struct {
	*Sender
	hook   *Hook
	ledger *ledger.Ledger
	log    *slog.Logger
	moved  chan struct{}
	pause  time.Duration

	next              atomic.Uint64 // seq of the next event to process
	sent, failed      atomic.Uint64
	failing           atomic.Bool
	indexProblemSince time.Time // start of the reported index problem, or zero if none is reported; used only by run
}

func (w *worker) wake() {
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

const (
	// checkPause is the time between two checks of the index of an idle ledger.
	checkPause = 10 * time.Second
	// beginPause is the time between two attempts to read or store the first cursor of a hook.
	beginPause = time.Second
	// behindTime is how long an index may lag behind its log before the hook reports it.
	behindTime = time.Minute
)

// run sends messages whenever the log grows, until ctx is done. It sends none while another
// server writes the ledger. A hook that has not followed the ledger before begins at seq start.
func (w *worker) run(ctx context.Context, start uint64) {
	for err := w.begin(start); err != nil; err = w.begin(start) {
		if !w.failing.Swap(true) {
			w.log.Error("cannot read or store the position of a webhook; it sends nothing until this succeeds", "error", err)
		}
		select {
		case <-time.After(beginPause):
		case <-ctx.Done():
			return
		}
	}
	w.failing.Store(false)
	for ctx.Err() == nil {
		if w.options.WritesLedger == nil || w.options.WritesLedger(w.ledger.Name()) {
			if err := w.catchUp(ctx); err != nil && ctx.Err() == nil {
				w.log.Warn("cannot send webhook messages; retrying", "error", err)
			}
		}
		select {
		case <-w.moved:
		case <-time.After(checkPause):
		case <-ctx.Done():
		}
	}
}

// begin reads the cursor. If there is none, it stores one for start.
func (w *worker) begin(start uint64) error {
	next, known, err := w.readCursor()
	if err == nil && !known {
		next, err = start, w.storeCursor(start)
	}
	if err == nil {
		w.next.Store(next)
	}
	return err
}

// catchUp sends the messages about all events up to the head.
func (w *worker) catchUp(ctx context.Context) error {
	for head := w.ledger.Head().Size; w.next.Load() < head; {
		if err := w.waitForIndex(ctx, head); err != nil {
			return err
		}
		if err := w.sendUpTo(ctx, head); err != nil {
			return err
		}
	}
	return nil
}

// waitForIndex waits until the index covers head. It returns an error if the index stops or takes
// longer than behindTime. Before returning the error, it sends a message of type TypeIndexTrouble,
// if the hook wants such messages and the problem has not been reported yet.
func (w *worker) waitForIndex(ctx context.Context, head uint64) error {
	follower := w.options.Follower(w.ledger.Name())
	waiting, cancel := context.WithTimeout(ctx, behindTime)
	defer cancel()
	err := follower.WaitForSize(waiting, head)
	if err == nil {
		w.indexProblemSince = time.Time{}
		return nil
	}
	if ctx.Err() != nil || errors.Is(err, index.ErrClosed) {
		return err
	}
	if w.indexProblemSince.IsZero() && w.hook.wants(TypeIndexTrouble, "") {
		began := time.Now()
		text := fmt.Sprintf("The index covers only %d of %d events: %v", follower.Size(), head, err)
		if err := w.deliver(ctx, troubleMessage(w.ledger.Name(), head, began, text)); err != nil {
			return err
		}
		w.indexProblemSince = began
	}
	return err
}

// sendUpTo sends the messages about all events with a seq less than to. It stores the cursor after
// each event that caused a message, and at the end.
func (w *worker) sendUpTo(ctx context.Context, to uint64) error {
	var decoder event.Decoder
	for entry, err := range w.ledger.PublishedLog().Entries(ctx, w.next.Load()) {
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		if entry.Seq >= to {
			break
		}
		e, err := decoder.Decode(entry.Bytes)
		if err != nil {
			return fmt.Errorf("decoding event %d: %w", entry.Seq, err)
		}
		e.Seq = entry.Seq
		sent, err := w.sendMessages(ctx, &e)
		if err != nil {
			return err
		}
		w.next.Store(entry.Seq + 1)
		if sent {
			if err := w.storeCursor(entry.Seq + 1); err != nil {
				return err
			}
		}
	}
	return w.storeCursor(w.next.Load())
}

// sendMessages sends the messages about event e that the hook wants, and reports whether it sent any.
func (w *worker) sendMessages(ctx context.Context, e *event.Event) (sent bool, err error) {
	view, err := w.options.Follower(w.ledger.Name()).View(e.Seq + 1)
	if err != nil {
		return false, err
	}
	list, err := messagesOf(ctx, view, e)
	if err := errors.Join(err, view.Close()); err != nil {
		return false, err
	}
	for _, m := range list {
		if !w.hook.wants(m.kind, m.cause) {
			continue
		}
		if err := w.deliver(ctx, m); err != nil {
			return false, err
		}
		sent = true
	}
	return sent, nil
}

// cursor is the content of a cursor file. Next is the seq of the next event to process.
type cursor struct {
	Next uint64 `json:"next"`
}

func (w *worker) cursorFile() string {
	return filepath.Join(w.options.CursorDir, w.hook.Name+"@"+w.ledger.Name()+".json")
}

// readCursor returns the seq of the next event to process. known is false if the hook has not
// followed the ledger before.
func (w *worker) readCursor() (next uint64, known bool, err error) {
	text, err := safefile.Read(w.cursorFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	var c cursor
	if err := json.Unmarshal(text, &c); err != nil {
		return 0, false, fmt.Errorf("parsing %s: %w; remove the file to reset the webhook's position in the log", w.cursorFile(), err)
	}
	return c.Next, true, nil
}

func (w *worker) storeCursor(next uint64) error {
	text, err := json.Marshal(cursor{next})
	if err != nil {
		return err
	}
	return safefile.Replace(w.cursorFile(), text)
}

var (
	sentTotal   = prometheus.NewDesc("colophon_webhook_messages_total", "Webhook messages that the receiver has accepted.", []string{"hook", "ledger"}, nil)
	failedTotal = prometheus.NewDesc("colophon_webhook_failures_total", "Failed attempts to send a webhook message.", []string{"hook", "ledger"}, nil)
	lagEvents   = prometheus.NewDesc("colophon_webhook_lag_events", "Events of the ledger that the hook has not processed yet.", []string{"hook", "ledger"}, nil)
)

// Describe implements prometheus.Collector.
func (s *Sender) Describe(ch chan<- *prometheus.Desc) {
	ch <- sentTotal
	ch <- failedTotal
	ch <- lagEvents
}

// Collect implements prometheus.Collector.
func (s *Sender) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	workers := s.workers
	s.mu.Unlock()
	for _, w := range workers {
		labels := []string{w.hook.Name, w.ledger.Name()}
		next := w.next.Load()
		ch <- prometheus.MustNewConstMetric(sentTotal, prometheus.CounterValue, float64(w.sent.Load()), labels...)
		ch <- prometheus.MustNewConstMetric(failedTotal, prometheus.CounterValue, float64(w.failed.Load()), labels...)
		head := w.ledger.Head().Size // head is read after next, so that it cannot be smaller
		ch <- prometheus.MustNewConstMetric(lagEvents, prometheus.GaugeValue, float64(head-min(next, head)), labels...)
	}
}
