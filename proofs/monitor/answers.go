package monitor

import (
	"context"
	"sync"

	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// AnswerChecker compares a server's answers with its log. Package replay implements it. An audit
// calls its methods from one goroutine: Begin first, then AddEntry for each entry, then Finish if
// the log is valid, and always Close at the end. After Close, another audit can call Begin again.
type AnswerChecker interface {
	// Begin is called before the audit fetches the checkpoint that it audits.
	Begin(ctx context.Context, a *Auditor) error
	// AddEntry is called with each verified entry of the log, in order. During Finish, Walk.CatchUp
	// calls it with the entries that have been added to the log since the walk. The entry is valid
	// only during the call.
	AddEntry(e audit.WalkedEntry) error
	// Finish compares answers and adds its findings to the report. The Walk is valid only during
	// the call.
	Finish(ctx context.Context, w *Walk) error
	// Close releases the resources that Begin acquired.
	Close() error
}

// Walk gives an AnswerChecker access to a finished walk over all entries of a log. Tile is safe for
// concurrent use.
type Walk struct {
	*Auditor
	log        *fetch.Log
	at         audit.Position // the position at which the walk ended
	failed     error          // why CatchUp failed
	past       *pastFiles
	tiles      sync.Mutex        // held while a tile is read from past
	content    *contentChecker   // nil unless content is checked
	redactedBy map[uint64]uint64 // the event that redacted each redacted record, keyed by the record's seq
}

// Options returns the options of the audit, with defaults in place of zero values.
func (a *Auditor) Options() Options { return a.options }

// Client returns the client that the audit uses to send requests.
func (a *Auditor) Client() *fetch.Client { return a.client }

// Keys returns the trusted keys and their known successors.
func (a *Auditor) Keys() []*proofs.Verifier { return a.keys }

// Report returns the report of the audit so far.
func (a *Auditor) Report() *Report { return a.report }

// Size returns the number of entries that the walk has verified.
func (w *Walk) Size() uint64 { return w.at.Size }

// Checkpoint returns the checkpoint of the verified log, as a signed note.
func (w *Walk) Checkpoint() []byte { return w.log.Checkpoint() }

// Tile returns the hashes of a tile of the verified tree. If the tile is partial, it returns only
// the hashes that the tree contains.
func (w *Walk) Tile(level uint8, index uint64) ([]byte, error) {
	w.tiles.Lock()
	defer w.tiles.Unlock()
	return w.past.Tile(level, index)
}
