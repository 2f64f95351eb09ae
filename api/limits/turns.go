package limits

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// turns makes the bulk redactions and bulk state changes of a ledger run one at a time. Below, both
// are called redactions.
type turns struct {
	wait time.Duration // longest time that a redaction waits

	mu       sync.Mutex               // guards the field below
	byLedger map[string]chan struct{} // each channel holds a token while a redaction runs
}

func newTurns(wait time.Duration) *turns {
	return &turns{wait: wait, byLedger: make(map[string]chan struct{})}
}

// Take waits until no redaction of the ledger is running. If that takes longer than ServerLimits.MaxWait, it
// returns a 503 RejectedError. The ledger must exist. The caller must call done at the end of the redaction.
func (t *turns) Take(ctx context.Context, name string) (done func(), err error) {
	turn := t.at(name)
	switch taken, err := takeToken(ctx, turn, t.wait); {
	case err != nil:
		return nil, err
	case taken:
		return func() { <-turn }, nil
	}
	return nil, NewRejectedError(ReasonRedactions, http.StatusServiceUnavailable, t.wait,
		"another redaction of this ledger is in progress; nothing was redacted; try again later")
}

func (t *turns) at(name string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, known := t.byLedger[name]
	if !known {
		turn = make(chan struct{}, 1)
		t.byLedger[name] = turn
	}
	return turn
}

// takeToken adds a token to tokens and returns true. If tokens is full, it waits for at most
// wait, and returns false if there is still no room. If there is room at once, it succeeds even
// if wait is 0.
func takeToken(ctx context.Context, tokens chan<- struct{}, wait time.Duration) (taken bool, err error) {
	select {
	case tokens <- struct{}{}:
		return true, nil
	default:
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case tokens <- struct{}{}:
		return true, nil
	case <-waiting.Done():
		return false, ctx.Err()
	}
}
