package contestant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/codenotary/immudb/embedded/logger"
	"github.com/codenotary/immudb/embedded/store"
)

// immudbLog is immudb's embedded store.
type immudbLog struct {
	store *store.ImmuStore
	next  atomic.Uint64 // number used as the latest key
}

// openImmudb opens a store with its fastest settings: it syncs every 2 ms, and allows at least as
// many concurrent transactions as there are callers.
func openImmudb(config Config) (*immudbLog, error) {
	options := store.DefaultOptions().
		WithSynced(true).
		WithSyncFrequency(2 * time.Millisecond).
		WithMaxConcurrency(max(store.DefaultMaxConcurrency, config.Callers)).
		WithMaxActiveTransactions(max(store.DefaultMaxActiveTransactions, 2*config.Callers)).
		WithMaxTxEntries(1).
		WithMaxKeyLen(32).
		WithLogger(logger.NewSimpleLoggerWithLevel("immudb", io.Discard, logger.LogError))
	s, err := store.Open(config.Dir, options)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	return &immudbLog{store: s}, nil
}

// add commits a transaction with one key. It returns the transaction number and the key, separated
// by a space, and does not wait for the index.
func (l *immudbLog) add(ctx context.Context, body []byte) ([]byte, error) {
	tx, err := l.store.NewWriteOnlyTx(ctx)
	if err != nil {
		return nil, err
	}
	key := strconv.AppendUint(nil, l.next.Add(1), 10)
	if err := tx.Set(key, nil, body); err != nil {
		return nil, err
	}
	header, err := tx.AsyncCommit(ctx)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%d %s", header.ID, key), nil
}

// verify waits until the transaction in answer is indexed, and checks that the value stored under
// its key is body.
func (l *immudbLog) verify(ctx context.Context, answer, body []byte) error {
	number, key, _ := bytes.Cut(answer, []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return fmt.Errorf("parsing the number of the transaction in the answer: %w", err)
	}
	if err := l.store.WaitForIndexingUpto(ctx, id); err != nil {
		return fmt.Errorf("waiting for the index: %w", err)
	}
	reference, err := l.store.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("reading key %s: %w", key, err)
	}
	value, err := reference.Resolve()
	if err != nil {
		return fmt.Errorf("reading the value of key %s: %w", key, err)
	}
	if reference.Tx() != id || !bytes.Equal(value, body) {
		return fmt.Errorf("key %s does not have the value that was set", key)
	}
	return nil
}

// MeasureImmudb measures immudb's embedded store.
func MeasureImmudb(ctx context.Context, config Config) (Measurement, error) {
	l, err := openImmudb(config)
	if err != nil {
		return Measurement{}, err
	}
	m, err := config.run(ctx, appended{add: l.add, verify: l.verify})
	return m, errors.Join(err, l.store.Close())
}
