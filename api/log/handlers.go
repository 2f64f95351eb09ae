// Package log serves the log of a ledger over HTTP: its events, live or in pages, their receipts
// and proofs, and the tiles and checkpoints of the transparency log.
package log

import (
	"colophon/api/call"
	"colophon/ledger"
)

// Handlers serves the routes of the log.
type Handlers struct {
	*call.ServerState
	streams   *streams
	summaries summaries
}

// New returns Handlers for a server with the given shared state. OpenStream must be called for each
// ledger before the first request.
func New(shared *call.ServerState) *Handlers {
	return &Handlers{ServerState: shared, streams: newStreams()}
}

// OpenStream creates the stream that notifies the followers of a ledger of new events. It must be
// called before the ledger accepts writes. The returned function notifies them of a commit, and
// never blocks.
func (h *Handlers) OpenStream(l *ledger.Ledger) (committed func()) {
	return h.streams.open(l).committed
}

// NotifyFrozen notifies the followers of a ledger that no more events will follow.
func (h *Handlers) NotifyFrozen(l *ledger.Ledger) { h.streams.stream(l).freeze() }

// EndStreams ends the streams of all followers.
func (h *Handlers) EndStreams() { h.streams.end() }
