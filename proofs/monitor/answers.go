package monitor

import (
	"context"
	"sync"

	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// AnswerCheck compares a server's answers with its log. Package replay implements it. An audit
// calls its methods from one goroutine: Begin first, then Entry for each entry, then Finish if
// the log is valid, and always Close at the end. After Close, another audit can call Begin
// again.
type AnswerCheck interface {
	// Begin runs before the audit fetches the checkpoint that it audits.
	Begin(ctx context.Context, a *Auditor) error
	// Entry receives each verified entry of the log, in order. During Finish, Walk.CatchUp
	// calls Entry with the entries that the log has gained. The entry is valid during the call.
	Entry(e audit.WalkedEntry) error
	// Finish compares answers and adds its findings to the report. The Walk is valid during the
	// call.
	Finish(ctx context.Context, w *Walk) error
	// Close releases what Begin acquired.
	Close() error
}

// Walk is a finished walk over all entries of a log, for an AnswerCheck. Tile is safe for
// concurrent use.
type Walk struct {
	*Auditor
	log        *fetch.Log
	at         audit.Position // the position at which the walk ended
	past       *pastFiles
	tiles      sync.Mutex        // held while a tile of past is read
	content    *contentChecker   // nil unless content is checked
	redactedBy map[uint64]uint64 // events that redacted records, by record
}

// Options returns the options of the audit, in which defaults replace zero values.
func (a *Auditor) Options() Options { return a.options }

// Client returns the client with which the audit sends its requests.
func (a *Auditor) Client() *fetch.Client { return a.client }

// Keys returns the trusted keys and their known successors.
func (a *Auditor) Keys() []*proofs.Verifier { return a.keys }

// Report returns the report of the audit so far.
func (a *Auditor) Report() *Report { return a.report }

// OpenLog fetches the current checkpoint and returns the log of its size. The audit remembers the
// checkpoint: later ones must extend it.
func (a *Auditor) OpenLog(ctx context.Context) (*fetch.Log, error) {
	log, err := fetch.OpenLog(ctx, a.client, a.keys, a.options.Parallel)
	if err != nil {
		return nil, err
	}
	a.show(log)
	return log, nil
}

// Size returns the number of entries that the walk has verified.
func (w *Walk) Size() uint64 { return w.at.Size }

// Checkpoint returns the signed note of the log that the walk has verified.
func (w *Walk) Checkpoint() []byte { return w.log.Checkpoint() }

// Tile returns the hashes of a tile of the verified tree. A partial tile has all hashes that
// the tree has in that tile.
func (w *Walk) Tile(level uint8, index uint64) ([]byte, error) {
	w.tiles.Lock()
	defer w.tiles.Unlock()
	return w.past.Tile(level, index)
}
