package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/highwater"
	"colophon/ledger/queue"
)

// markKeeper returns the keeper of the ledger's high-water mark.
func markKeeper(l *Ledger) *highwater.Keeper {
	return &highwater.Keeper{Store: l.config.HighWaterMarks, Ledger: l.info.Name, Logger: l.config.Logger, Head: func() (uint64, []byte) {
		head := l.sequencer.head.Load()
		return head.Size, head.Checkpoint
	}}
}

// keepMark starts keeping a mark unless the ledger does not sign anything. If the mark shows that
// the store is not the newest copy, keepMark makes the ledger stop signing.
func (l *Ledger) keepMark(ctx context.Context) error {
	if l.config.HighWaterMarks == nil || l.signing.refusal != nil {
		return nil
	}
	keeper := markKeeper(l)
	switch err := keeper.Check(ctx, l.store, l.KeyHistory().Verifiers()...); {
	case errors.Is(err, highwater.ErrRollback):
		l.signing.refuse(err)
	case err != nil:
		return err
	default:
		if l.CheckWritable(ctx) == nil {
			queue.Signal(l.sequencer.headMoved) // write a first mark if there is none
		}
		l.markWritten = make(chan struct{})
		go func() {
			defer close(l.markWritten)
			keeper.Run(l.sequencer.headMoved, l.queue.Ended)
		}()
	}
	return nil
}

// recoverShown checks whether the stored log extends the ledger's mark, if there is one. It is for
// ledgers that this server only reads.
func recoverShown(ctx context.Context, l *Ledger) error {
	if !l.config.EnableStandbyMark || l.config.HighWaterMarks == nil {
		return nil
	}
	err := markKeeper(l).Check(ctx, l.store, l.KeyHistory().Verifiers()...)
	if l.older = errors.Is(err, highwater.ErrRollback); l.older && !l.config.RefuseOlderStandby {
		l.config.Logger.Error("the database has an older or a different copy of the ledger; this server shows that copy, but will not write it", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening ledger %q: %w", l.info.Name, err)
	}
	markShown(l, true)
	return nil
}

// markShown stores the published head as the mark of a ledger that this server only reads, unless the
// log does not extend the mark. Unless last is true, it writes at most once per
// highwater.MinWriteInterval. Even an outdated mark reveals a rollback to a head before the mark.
func markShown(l *Ledger, last bool) {
	if !l.config.EnableStandbyMark || l.config.HighWaterMarks == nil || l.older || !last && time.Since(l.marked) < highwater.MinWriteInterval {
		return
	}
	l.marked = time.Now()
	if err := l.config.HighWaterMarks.SetMark(l.info.Name, l.Head().Checkpoint); err != nil {
		l.config.Logger.Error("cannot write the high-water mark; it lags behind the published head", "error", err)
	}
}
