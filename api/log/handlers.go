// Package log serves a ledger as a log: its events, live or by page, with receipts and proofs,
// and the tiles and checkpoints of the transparency log.
package log

import (
	"colophon/api/call"
	"colophon/ledger"
)

// Handlers serves the routes of the log.
type Handlers struct {
	*call.Shared
	streams   *streams
	summaries summaries
}

// New returns the handlers. Open must be called for each ledger before the first request.
func New(shared *call.Shared) *Handlers { return &Handlers{Shared: shared, streams: newStreams()} }

// Open creates the stream of a ledger. It must be called before the ledger accepts writes. The
// returned function notifies the followers of a commit, and never blocks.
func (h *Handlers) Open(l *ledger.Ledger) (committed func()) { return h.streams.open(l).committed }

// Frozen notifies the followers of a ledger that no more events will follow.
func (h *Handlers) Frozen(l *ledger.Ledger) { h.streams.stream(l).freeze() }

// End ends the streams of all followers.
func (h *Handlers) End() { h.streams.end() }
