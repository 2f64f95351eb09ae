package highwater

import (
	"context"
	"time"

	"colophon/proofs"
	"colophon/storage"
)

// FollowerMark keeps the mark of a ledger that this server only reads. The mark is the checkpoint of the
// last head that the server published. Calls must not overlap. A nil FollowerMark does nothing.
type FollowerMark struct {
	Keeper  *Keeper
	written time.Time
	refuted bool // Check failed
}

// Check compares the stored log with the mark, and then writes the mark. If it returns an error, the mark
// stays as it is from then on.
func (m *FollowerMark) Check(ctx context.Context, log storage.Reader, keys ...*proofs.Verifier) error {
	if m == nil {
		return nil
	}
	err := m.Keeper.Check(ctx, log, keys...)
	if m.refuted = err != nil; !m.refuted {
		m.Write(true)
	}
	return err
}

// Write writes the mark. Unless last is true, it writes at most once per MinWriteInterval. Even an
// outdated mark reveals a rollback to a head before the mark.
func (m *FollowerMark) Write(last bool) {
	if m == nil || m.refuted || !last && time.Since(m.written) < MinWriteInterval {
		return
	}
	m.written = time.Now()
	_, checkpoint := m.Keeper.Head()
	if err := m.Keeper.Store.SetMark(m.Keeper.Ledger, checkpoint); err != nil {
		m.Keeper.Logger.Error("cannot write the high-water mark; it lags behind the published head", "error", err)
	}
}
