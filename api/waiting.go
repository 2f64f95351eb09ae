package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/limits"
	"colophon/ledger"
	"colophon/ledger/index"
)

// waitForIndex returns the index of a ledger once it has folded size events. It blocks for up
// to IndexWait, then returns a 503.
func (s *Server) waitForIndex(ctx context.Context, l *ledger.Ledger, size uint64) (*index.Follower, error) {
	follower, behind, err := s.waitForIndexOrLag(ctx, l, size)
	if err == nil && behind {
		has := follower.Size()
		err = limits.Refuse("", http.StatusServiceUnavailable, s.config.IndexWait,
			"the index has %d events of the ledger, %d less than this answer needs; it is catching up, try again later", has, size-min(size, has))
	}
	return follower, err
}

// waitForIndexOrLag returns the index of a ledger once it has folded size events. It blocks
// for up to IndexWait, then returns behind as true.
func (s *Server) waitForIndexOrLag(ctx context.Context, l *ledger.Ledger, size uint64) (follower *index.Follower, behind bool, err error) {
	follower = s.config.Index.Follower(l.Name())
	limited, cancel := context.WithTimeout(ctx, s.config.IndexWait)
	defer cancel()
	err = follower.Wait(limited, size)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return follower, true, nil
	}
	if err != nil {
		err = fmt.Errorf("waiting for the index of ledger %q: %w", l.Name(), err)
	}
	return follower, false, err
}

// A client that writes and then queries without the parameter after shall see its write. If
// the index lacks at most maxRecentEvents, the answer waits up to recentEventsWait for it.
// That takes milliseconds on a healthy server.
const (
	recentEventsWait = time.Second
	maxRecentEvents  = 10_000
)

// waitForRecentEvents waits up to recentEventsWait until the index has folded size events. The
// caller answers from the index in any case.
func (s *Server) waitForRecentEvents(ctx context.Context, follower *index.Follower, size uint64) {
	if follower.Size()+maxRecentEvents < size {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(recentEventsWait, s.config.IndexWait))
	defer cancel()
	_ = follower.Wait(ctx, size)
}

// maxHealthyLag is the lag in events above which the index is reported as behind.
const maxHealthyLag = 100_000

// indexHealth describes a fault of any index, or returns "". The text names no ledger, because
// the caller needs no credentials. stopped reports a fault that must fail the readiness check.
// An index that is merely behind does not fail it, because the server still takes writes and
// answers queries.
func (s *Server) indexHealth() (detail string, stopped bool) {
	for _, l := range s.host.Ledgers() {
		follower := s.config.Index.Follower(l.Name())
		if follower.Err() != nil {
			return "the index of a ledger has stopped; the server's log says which, and why", true
		}
		if size := l.Head().Size; size > follower.Size()+maxHealthyLag {
			detail = "the index of a ledger is behind"
		}
	}
	if detail != "" && s.config.Index.Rebuilds() > 0 {
		detail = "the index was damaged and is being rebuilt"
	}
	return detail, false
}

// answerHealth answers a word, followed by a fault of the index if there is one.
func answerHealth(c echo.Context, word, detail string) error {
	if detail != "" {
		word += "; " + detail
	}
	return c.String(http.StatusOK, word+"\n")
}
