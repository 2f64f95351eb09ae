package faults_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"colophon/proofs"
)

// history records the requests that clients sent to a ledger, and the responses that they received.
type history struct {
	world string
	// smallest and largest limit the lengths of the records' texts, in bytes. If smallest is 0, most
	// texts are short.
	smallest, largest int
	// complete means that every request received a response.
	complete bool

	mu       sync.Mutex // guards the fields below
	random   *rand.Rand
	attempts []*attempt // indexed by id
	acks     []*ack     // in order of arrival
	wrong    []error    // errors about responses that a server must never send
}

// ack is a response that states that an event is in the log.
type ack struct {
	attempt *attempt
	seq     uint64
	receipt *proofs.Receipt
}

func newHistory(world string, seed uint64) *history {
	return &history{world: world, random: rand.New(rand.NewPCG(seed, 1))} // #nosec G404 -- cases of tests
}

// draw adds a random attempt to the history and returns it.
func (h *history) draw() *attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := len(h.attempts)
	var a *attempt
	if h.random.IntN(10) == 0 {
		a = randomChange(h.random, h.world, id, h.acks)
	}
	if a == nil {
		a = randomRecord(h.random, h.world, id, h.length())
	}
	h.attempts = append(h.attempts, a)
	return a
}

// records adds n random attempts that post records to the history and returns them.
func (h *history) records(n int) (list []*attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range n {
		a := randomRecord(h.random, h.world, len(h.attempts), h.length())
		h.attempts = append(h.attempts, a)
		list = append(list, a)
	}
	return list
}

// length returns a random text length in bytes. The caller must hold h.mu.
func (h *history) length() int {
	least, most := h.smallest, max(h.smallest, 440)
	if h.largest > 0 && (h.smallest > 0 || h.random.IntN(20) == 0) {
		most = h.largest
	}
	return least + h.random.IntN(most-least+1)
}

// oneIn returns true with probability 1/n.
func (h *history) oneIn(n int) bool { return h.randomBelow(n) == 0 }

// randomBelow returns a random number in [0, n).
func (h *history) randomBelow(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.random.IntN(n)
}

// sent records that an attempt is about to be sent.
func (h *history) sent(a *attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.tries++
}

// refused records a response that states that nothing was written.
func (h *history) refused(a *attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.refusals++
}

// answered notes a response, which must be a receipt.
func (h *history) answered(a *attempt, text []byte) {
	receipt, err := proofs.ParseReceipt(bytes.TrimSpace(text))
	if err != nil {
		h.broken("the response to attempt %d is not a receipt: %w: %s", a.id, err, text)
		return
	}
	h.acknowledged(a, receipt)
}

func (h *history) acknowledged(a *attempt, receipt *proofs.Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acks = append(h.acks, &ack{attempt: a, seq: receipt.Seq, receipt: receipt})
}

// refusals returns the number of responses that stated that nothing was written.
func (h *history) refusals() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.attempts {
		n += a.refusals
	}
	return n
}

// broken records an error about a response that a server must never send.
func (h *history) broken(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Errorf(format, args...))
}

// acknowledgements returns the number of receipts so far.
func (h *history) acknowledgements() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acks)
}

// randomAck returns a random receipt, or nil if there is none yet.
func (h *history) randomAck() *ack {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.acks) == 0 {
		return nil
	}
	return h.acks[h.random.IntN(len(h.acks))]
}

// until returns a copy of the history that contains only the first acks receipts. It contains all
// attempts, because any of them could have been sent before the last of these receipts arrived.
func (h *history) until(acks int) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	then := newHistory(h.world, uint64(len(h.attempts)))
	for _, a := range h.attempts {
		same := *a
		then.attempts = append(then.attempts, &same)
	}
	for _, a := range h.acks[:acks] {
		then.acks = append(then.acks, &ack{then.attempts[a.attempt.id], a.seq, a.receipt})
	}
	then.wrong = append(then.wrong, h.wrong...)
	then.complete = h.complete
	return then
}

// copy returns a deep copy of the current history.
func (h *history) copy() *history { return h.until(h.acknowledgements()) }
