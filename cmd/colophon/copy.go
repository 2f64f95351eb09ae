package main

import (
	"context"
	"fmt"
	"time"

	"colophon/internal/logurl"
	"colophon/internal/verify"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
)

// openCopy opens the published copy of a log at the URL in text and reads its keys and its head.
// The head must be signed by one of the trusted keys or by a successor of one.
func openCopy(ctx context.Context, text string, trusted []*proofs.Verifier) (*verify.PublishedCopy, error) {
	at, err := logurl.Parse(text)
	if err != nil {
		return nil, err
	}
	server, err := at.Source()
	if err != nil {
		return nil, err
	}
	const parallel = 4
	source, err := fetch.New(server, at.Ledger, time.Minute, parallel)
	if err != nil {
		return nil, err
	}
	history, err := source.GetObject(ctx, "/log/key", fetch.MaxNoteBytes)
	if err != nil {
		return nil, fmt.Errorf("fetching the log's keys from the published copy: %w", err)
	}
	keys, err := proofs.ParseKeyHistory(history)
	if err != nil {
		return nil, fmt.Errorf("parsing the keys of %s: %w", text, err)
	}
	log, err := fetch.OpenLog(ctx, source, keys.VerifiersFrom(trusted...), parallel)
	if err != nil {
		return nil, err
	}
	return &verify.PublishedCopy{Location: text, KeyHistory: keys, Checkpoint: log.Checkpoint(),
		ReadTile: func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }}, nil
}
