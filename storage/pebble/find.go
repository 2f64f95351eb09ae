package pebble

import (
	"errors"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage/pebble/internal/keys"
)

// find looks up n keys of one kind. key appends the i-th key to dst, and the keys must be in
// ascending order. find calls found for each key that exists. The value is valid only until found
// returns. find is fast if most keys are absent, because filters exclude absent keys without
// reading a block.
func (l *ledger) find(
	kind func(keys.LedgerNumber) (start, end []byte), n int, key func(dst []byte, i int) []byte, found func(i int, value []byte) error,
) (err error) {
	if n == 0 {
		return nil
	}
	start, end := kind(l.number)
	values, err := l.db.engine.NewIter(&engine.IterOptions{
		LowerBound: start, UpperBound: end,
		// By default the engine skips the filters of the last level.
		UseL6Filters: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = damaged(errors.Join(err, values.Close())) }()
	var at []byte
	for i := range n {
		at = key(at[:0], i)
		if !values.SeekPrefixGE(at) {
			// The next seek would clear the iterator's error.
			if err := values.Error(); err != nil {
				return err
			}
			continue
		}
		value, err := values.ValueAndErr()
		if err == nil {
			err = found(i, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
