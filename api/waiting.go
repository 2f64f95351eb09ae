package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/index"
)

// folded is the index of a ledger when it has so many events. Where it is far behind
// nobody is kept waiting for it: after a while the answer is 503.
func (s *Server) folded(ctx context.Context, l *ledger.Ledger, size uint64) (*index.Follower, error) {
	follower, behind, err := s.waited(ctx, l, size)
	if err == nil && behind {
		has := follower.Size()
		err = refuse("", http.StatusServiceUnavailable, s.config.IndexWait,
			"the index has %d events of the ledger, %d less than this answer needs; it goes on, try again later", has, size-min(size, has))
	}
	return follower, err
}

// waited is the index of a ledger when it has so many events or, after a while, when it
// is behind.
func (s *Server) waited(ctx context.Context, l *ledger.Ledger, size uint64) (follower *index.Follower, behind bool, err error) {
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

// Who writes and then asks is to see what he wrote, though he did not say after which
// event: an answer waits grace at most for an index that lacks no more than fewEvents,
// which is milliseconds where nothing is wrong.
const (
	grace     = time.Second
	fewEvents = 10_000
)

// settle waits a little for what the log has and its index has not. The answer is that
// of what is folded then, whatever came of it.
func (s *Server) settle(ctx context.Context, follower *index.Follower, size uint64) {
	if follower.Size()+fewEvents < size {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(grace, s.config.IndexWait))
	defer cancel()
	_ = follower.Wait(ctx, size)
}

// indexAt is the index of a ledger when it has covered the head.
func (s *Server) indexAt(ctx context.Context, l *ledger.Ledger, head *ledger.Head) (*index.Follower, error) {
	return s.folded(ctx, l, head.Size)
}

// farBehind is how many events an index lacks that is said to be behind.
const farBehind = 100_000

// ailing says what is wrong with the index, without a ledger's name, since whoever asks
// did not have to say who he is; empty if nothing is. An index that is behind is not
// enough for any status but a good one: writes are taken, and what it has is answered.
func (s *Server) ailing() (detail string, stopped bool) {
	for _, l := range s.host.Ledgers() {
		follower := s.config.Index.Follower(l.Name())
		if follower.Err() != nil {
			return "the index of a ledger has stopped; the server's log says which, and why", true
		}
		if size := l.Head().Size; size > follower.Size()+farBehind {
			detail = "the index of a ledger is behind"
		}
	}
	if detail != "" && s.config.Index.Rebuilds() > 0 {
		detail = "the index was found damaged and is being built anew"
	}
	return detail, false
}

// condition is an answer of one word, and what is wrong with the index.
func condition(c echo.Context, word, detail string) error {
	if detail != "" {
		word += "; " + detail
	}
	return c.String(http.StatusOK, word+"\n")
}
