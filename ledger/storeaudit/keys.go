package storeaudit

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/proofs/audit"
	"colophon/storage"
)

// FindStrayKeys finds database keys that, according to the logs, should not exist. It returns the
// first stray key of each ledger, and the first stray key outside all ledgers. walked maps the name
// of each ledger to its report from audit.WalkLog, which must have found no damage. FindStrayKeys
// skips ledgers that are not in walked. The caller must make sure that nothing writes to the
// database in the meantime.
func FindStrayKeys(ctx context.Context, database storage.Database, walked map[string]*audit.Report, progress func(keys uint64)) ([]*storage.StrayKeyError, error) {
	checker, ok := database.(storage.KeyChecker)
	if !ok {
		return nil, errors.New("this kind of database cannot list its keys")
	}
	logs := make(map[string]storage.LogSummary, len(walked))
	for name, report := range walked {
		log, err := database.Ledger(ctx, name)
		if err != nil {
			return nil, err
		}
		logs[name] = storage.LogSummary{ContentReferenceCount: report.UnredactedContentCount, ClaimCount: report.KeyClaims, ReadEvent: summaries(log), CheckSetting: ledger.CheckSetting}
	}
	return checker.CheckKeys(ctx, logs, progress)
}

// summaries returns a function that summarises an event in log, which an audit must have found
// intact. The function is not safe for concurrent use.
func summaries(log storage.Reader) func(context.Context, uint64) (storage.EventSummary, error) {
	decoder := new(event.Decoder)
	return func(ctx context.Context, seq uint64) (storage.EventSummary, error) {
		entry, err := log.Entry(ctx, seq)
		if err != nil {
			return storage.EventSummary{}, err
		}
		e, err := decoder.Decode(entry)
		if err != nil {
			return storage.EventSummary{}, fmt.Errorf("decoding event %d: %w", seq, err)
		}
		s := storage.EventSummary{TimeMicros: e.Time.UnixMicro(), IdempotencyKey: e.ClaimedIdempotencyKey()}
		for c := range e.Contents() {
			s.ContentDigests = append(s.ContentDigests, c.Digest)
		}
		return s, nil
	}
}
