package ledger

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// CheckKeys holds everything that a database stores against its logs. walked are the
// reports of audit.Log by ledger, without damage; ledgers that are not among them are
// passed over. It returns the first stray of each ledger and of the database as a whole.
// The caller keeps writers away.
func CheckKeys(ctx context.Context, database storage.Database, walked map[string]*audit.Report, progress func(keys uint64)) ([]*storage.Stray, error) {
	checker, ok := database.(storage.KeyChecker)
	if !ok {
		return nil, errors.New("this database cannot list its keys")
	}
	logs := make(map[string]storage.LogSummary, len(walked))
	for name, report := range walked {
		log, err := database.Ledger(ctx, name)
		if err != nil {
			return nil, err
		}
		logs[name] = storage.LogSummary{Needs: report.Needs, Claims: report.Claims, Event: summaries(log), Setting: checkSetting}
	}
	return checker.CheckKeys(ctx, logs, progress)
}

// summaries reads events of a log that a walk has found good. One goroutine calls it.
func summaries(log storage.Reader) func(context.Context, uint64) (storage.EventSummary, error) {
	decoder := new(event.Decoder)
	return func(ctx context.Context, seq uint64) (storage.EventSummary, error) {
		entry, err := log.Entry(ctx, seq)
		if err != nil {
			return storage.EventSummary{}, err
		}
		e, err := decoder.Decode(entry)
		if err != nil {
			return storage.EventSummary{}, fmt.Errorf("event %d: %w", seq, err)
		}
		s := storage.EventSummary{Time: e.Time.UnixMicro(), Key: claimedKey(&e)}
		for c := range e.Contents() {
			s.Contents = append(s.Contents, c.Digest)
		}
		return s, nil
	}
}

// claimedKey is the idempotency key that an event claims; nil if it claims none.
func claimedKey(e *event.Event) *proofs.Hash {
	if e.Kind == record.RecordRefused {
		return nil
	}
	return e.Key()
}

// checkSetting is an error for what no ledger stores as a setting.
func checkSetting(name string, value []byte) error {
	switch {
	case name != logSetting:
		return errors.New("no ledger has a setting of this name")
	case string(value) != PublicLog && string(value) != PrivateLog:
		return fmt.Errorf("its value is %.100q, and can be %s or %s", value, PublicLog, PrivateLog)
	}
	return nil
}
