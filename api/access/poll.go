package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// These durations determine how often a server checks shared tokens, and how long it trusts them.
const (
	// PollInterval is the time between two checks of the shared tokens.
	PollInterval = 250 * time.Millisecond
	// MaxTokenStaleness is how long the server accepts shared tokens after its last successful
	// check of the shared store. After that, it accepts none, because a token may have been revoked
	// in the meantime.
	MaxTokenStaleness = 5 * time.Second
)

// poll is the server's view of a shared token store. A goroutine polls the version of the tokens
// and reads the tokens whenever the version has changed.
type poll struct {
	shared              SharedStore
	log                 *slog.Logger
	now                 func() time.Time
	every, maxStaleness time.Duration

	table  atomic.Pointer[tokenTable]
	looked atomic.Pointer[time.Time] // when the last successful check began

	version int64 // version of the tokens in table; used only by the polling goroutine
	failing bool  // whether the last check failed; used only by the polling goroutine

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// openPoll reads the shared tokens for the first time and starts the goroutine that checks them for
// changes.
func openPoll(config Config) (*poll, error) {
	p := &poll{shared: config.SharedStore, log: config.Logger, now: config.Now, every: PollInterval, maxStaleness: MaxTokenStaleness}
	p.table.Store(&tokenTable{})
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	if err := p.refresh(ctx); err != nil {
		stop()
		return nil, err
	}
	if fault := p.table.Load().fault; fault != nil {
		stop()
		return nil, fault
	}
	p.ended.Go(func() { p.run(ctx) })
	return p, nil
}

func (p *poll) run(ctx context.Context) {
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := p.refresh(ctx)
		switch failing := err != nil; {
		case ctx.Err() != nil:
			return
		case failing && !p.failing:
			p.log.Warn("cannot read the shared tokens", "error", err, "refused_after", p.maxStaleness)
		case !failing && p.failing:
			p.log.Info("the shared tokens can be read again")
		}
		p.failing = err != nil
	}
}

// refresh checks the version of the shared tokens and, if it has changed, reads them.
func (p *poll) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.maxStaleness)
	defer cancel()
	begun := time.Now()
	version, err := p.shared.ValueVersion(ctx, sharedTokens)
	if err != nil {
		return err
	}
	if before := p.table.Load(); version != p.version {
		after, read, err := p.read(ctx)
		if err != nil {
			return err
		}
		p.table.Store(after)
		if p.looked.Load() != nil {
			logChange(p.log, before, after, p.now())
		}
		p.version = read
	}
	p.looked.Store(&begun)
	return nil
}

// read returns the tokens and their version. If the tokens are damaged or have been lost, it
// returns a table that accepts no token. It returns an error only if the tokens cannot be read at
// the moment.
func (p *poll) read(ctx context.Context) (*tokenTable, int64, error) {
	tokens, version, err := loadShared(ctx, p.shared)
	switch {
	case version > 0: // if the tokens are damaged, err is not nil, and the table accepts no token
		return newTable(tokens, err), version, nil
	case err != nil:
		return nil, 0, err
	}
	// read is called only after the version has changed, so there were tokens before.
	return newTable(nil, errors.New("the database no longer has any tokens: restore the database, or create a token")), 0, nil
}

// current returns the tokens of the last successful check. If that check was more than maxStaleness
// ago, current returns a table that accepts no token.
func (p *poll) current() *tokenTable {
	table := p.table.Load()
	if since := time.Since(*p.looked.Load()); since > p.maxStaleness {
		return &tokenTable{exists: table.exists, fault: fmt.Errorf("%w: the last successful read was %v ago", ErrStaleTokens, since.Truncate(time.Second))}
	}
	return table
}

func (p *poll) exist() bool { return p.table.Load().exists }

func (p *poll) close() {
	p.stop()
	p.ended.Wait()
}
