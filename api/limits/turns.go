package limits

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// turns lets redactions of one ledger go on one after the other.
type turns struct {
	wait time.Duration // of one for its turn

	mu sync.Mutex               // guards what follows
	of map[string]chan struct{} // by ledger; holds a token while one goes on
}

func newTurns(wait time.Duration) *turns {
	return &turns{wait: wait, of: make(map[string]chan struct{})}
}

// Take waits, for a bounded time, until it is somebody's turn at a ledger that there
// is; done ends it.
func (t *turns) Take(ctx context.Context, name string) (done func(), err error) {
	turn := t.at(name)
	waiting, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-waiting.Done():
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, Refuse(RefusedRedactions, http.StatusServiceUnavailable, t.wait,
		"another redaction of this ledger goes on; nothing was done, try again later")
}

func (t *turns) at(name string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, known := t.of[name]
	if !known {
		turn = make(chan struct{}, 1)
		t.of[name] = turn
	}
	return turn
}
