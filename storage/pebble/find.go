package pebble

import (
	"errors"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage/pebble/internal/keys"
)

// find looks up n keys of one kind, in ascending order: key appends the i-th, and
// found gets the value of each that is there, good until it returns. Most of the
// keys are expected not to be there, and filters say so without reading a block.
func (l *ledger) find(
	kind func(keys.Ledger) (start, end []byte), n int, key func(dst []byte, i int) []byte, found func(i int, value []byte) error,
) (err error) {
	if n == 0 {
		return nil
	}
	start, end := kind(l.number)
	values, err := l.db.engine.NewIter(&engine.IterOptions{
		LowerBound: start, UpperBound: end,
		// The filters of the last level are left aside otherwise, for keys that are there.
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
			// The next seek would forget it.
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
