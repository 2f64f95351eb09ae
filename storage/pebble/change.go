package pebble

import (
	engine "github.com/cockroachdb/pebble/v2"
)

// change collects the writes of one batch. If adding a write fails, commit returns the first error.
type change struct {
	batch *engine.Batch
	err   error
}

// newChange returns an empty change. size is the expected total length of keys and values in bytes.
func newChange(db *engine.DB, size int) *change {
	return &change{batch: db.NewBatchWithSize(size)}
}

func (c *change) set(key, value []byte) {
	if c.err == nil {
		c.err = c.batch.Set(key, value, nil)
	}
}

func (c *change) delete(key []byte) {
	if c.err == nil {
		c.err = c.batch.Delete(key, nil)
	}
}

func (c *change) deleteRange(from, to []byte) {
	if c.err == nil {
		c.err = c.batch.DeleteRange(from, to, nil)
	}
}

// commit applies all collected writes atomically. If an earlier write returned an error, commit
// returns that error and applies nothing.
func (c *change) commit(durability *engine.WriteOptions) error {
	if c.err != nil {
		return c.err
	}
	if err := c.batch.Commit(durability); err != nil {
		return err
	}
	return c.batch.Close()
}
