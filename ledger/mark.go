package ledger

import (
	"context"
	"errors"
	"fmt"

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

// checkFollowed compares the stored log with the ledger's mark, if there is one, and begins to keep the
// mark. It is for ledgers that this server only reads.
func checkFollowed(ctx context.Context, l *Ledger) error {
	if !l.config.EnableStandbyMark || l.config.HighWaterMarks == nil {
		return nil
	}
	l.mark = &highwater.FollowerMark{Keeper: markKeeper(l)}
	err := l.mark.Check(ctx, l.store, l.KeyHistory().Verifiers()...)
	if err != nil && l.config.RefuseOlderStandby {
		return fmt.Errorf("opening ledger %q: %w", l.info.Name, err)
	}
	if err != nil {
		l.config.Logger.Error("the database may have an older or a different copy of the ledger; this server shows that copy, but will not write it", "error", err)
	}
	return nil
}
