package ha_test

import (
	"fmt"
	"sync"
	"time"

	"colophon/proofs"
)

// history records what clients and witnesses have observed about one ledger.
type history struct {
	ledger string

	mu          sync.Mutex // guards the fields below
	sent        int        // number of attempts
	appends     []*attempt // acknowledged attempts
	reads       []read
	newest      uint64 // highest seq that was acknowledged or seen by a read
	checkpoints map[uint64][]byte
	wrong       []error // errors about behavior that must never occur
}

// attempt is a record that a client posts until it is acknowledged.
type attempt struct {
	id       int
	sent     time.Time // time of the first try
	answered time.Time
	receipt  *proofs.Receipt
}

// read is a successful read, with the size of the index that answered it.
type read struct {
	sent, answered time.Time
	size           uint64
}

func newHistory(ledger string) *history {
	return &history{ledger: ledger, checkpoints: make(map[uint64][]byte)}
}

// begin returns count new attempts, which the caller is about to send.
func (h *history) begin(count int) (list []*attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range count {
		list = append(list, &attempt{id: h.sent, sent: time.Now()})
		h.sent++
	}
	return list
}

// acknowledged records the receipt for an attempt. A second receipt for the same attempt must be
// for the same event.
func (h *history) acknowledged(a *attempt, receipt *proofs.Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.receipt != nil {
		if a.receipt.EventHash != receipt.EventHash {
			h.note("attempt %d was acknowledged as event %d and as event %d", a.id, a.receipt.Seq, receipt.Seq)
		}
		return
	}
	h.newest = max(h.newest, receipt.Seq)
	a.receipt, a.answered = receipt, time.Now()
	h.appends = append(h.appends, a)
}

// latest returns the highest seq that was acknowledged or seen by a read.
func (h *history) latest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest
}

// counts returns how many records were sent, and how many of them were acknowledged.
func (h *history) counts() (sent, acknowledged int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent, len(h.appends)
}

// saw records the response to a read. From then on, reads ask for at least the size that this read saw,
// because the index of another server can be smaller.
func (h *history) saw(r read) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = max(h.newest, r.size-1)
	r.answered = time.Now()
	h.reads = append(h.reads, r)
}

// signed records a verified checkpoint, so that compare can compare it with the log. A second
// checkpoint of the same size must have the same root.
func (h *history) signed(c proofs.Checkpoint, note []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, known := h.checkpoints[c.Size]
	if !known {
		h.checkpoints[c.Size] = note
		return
	}
	if root(before) != root(note) {
		h.note("two checkpoints of size %d are inconsistent:\n%s\n%s", c.Size, before, note)
	}
}

// root returns the line of a checkpoint that contains the root hash.
func root(note []byte) (line string) {
	_, _ = fmt.Sscanf(string(note), "%s\n%s\n%s\n", new(string), new(string), &line)
	return line
}

// broken records an error about behavior that must never occur.
func (h *history) broken(format string, arguments ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(format, arguments...)
}

// note is like broken but must be called with mu held.
func (h *history) note(format string, arguments ...any) {
	if len(h.wrong) < 20 {
		h.wrong = append(h.wrong, fmt.Errorf("ledger %s: "+format, append([]any{h.ledger}, arguments...)...))
	}
}
