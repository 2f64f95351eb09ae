package call

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"colophon/api/limits"
	"colophon/ledger"
	"colophon/ledger/index"
)

// WaitForIndex returns the index of a ledger once it has folded the first size events. It blocks
// for up to IndexWait, and then returns an error with status 503.
func (s *ServerState) WaitForIndex(ctx context.Context, l *ledger.Ledger, size uint64) (*index.Follower, error) {
	follower, behind, err := s.WaitForIndexAllowingLag(ctx, l, size)
	if err == nil && behind {
		has := follower.Size()
		err = limits.NewRejectedError("", http.StatusServiceUnavailable, s.Limiter.Limits.IndexWait,
			"the index has processed %d events of the ledger, %d fewer than this request needs; try again once the index has caught up", has, size-min(size, has))
	}
	return follower, err
}

// WaitForView returns a view of a ledger's index at the current head, so that the view covers every
// acknowledged write. It waits like WaitForIndex.
func (s *ServerState) WaitForView(ctx context.Context, l *ledger.Ledger) (*index.View, error) {
	head := l.Head().Size
	follower, err := s.WaitForIndex(ctx, l, head)
	if err != nil {
		return nil, err
	}
	return follower.View(head)
}

// WaitForIndexAllowingLag is like WaitForIndex, but returns the index even if it still lags after
// IndexWait. In that case, behind is true.
func (s *ServerState) WaitForIndexAllowingLag(ctx context.Context, l *ledger.Ledger, size uint64) (follower *index.Follower, behind bool, err error) {
	follower = s.Index.Follower(l.Name())
	limited, cancel := context.WithTimeout(ctx, s.Limiter.Limits.IndexWait)
	defer cancel()
	err = follower.WaitForSize(limited, size)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return follower, true, nil
	}
	if err != nil {
		err = fmt.Errorf("waiting for the index of ledger %q: %w", l.Name(), err)
	}
	return follower, false, err
}

// A client should see its own writes even if it queries without the parameter "after". If the index
// lags by at most maxRecentEvents, an answer therefore waits up to recentEventsWait for the index
// to catch up. On a healthy server, this takes milliseconds.
const (
	recentEventsWait = time.Second
	maxRecentEvents  = 10_000
)

// WaitForIndexBriefly waits up to one second (recentEventsWait) for the index to fold the first
// size events. It waits no longer than IndexWait, and not at all if the index lags by more than
// maxRecentEvents. It does not report whether the index still lags, because the caller answers from
// it in any case.
func (s *ServerState) WaitForIndexBriefly(ctx context.Context, follower *index.Follower, size uint64) {
	if follower.Size()+maxRecentEvents < size {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(recentEventsWait, s.Limiter.Limits.IndexWait))
	defer cancel()
	_ = follower.WaitForSize(ctx, size)
}
