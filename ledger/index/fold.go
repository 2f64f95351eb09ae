package index

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/storage"
)

// fold takes events into the index, one after the other. It belongs to its
// follower's goroutine.
type fold struct {
	keys  keyspace // never changes, read by queries too
	state state    // with what the batch in the making brings

	starved bool // the disk was too full the last time

	document   pyjson.Document
	key, value []byte // scratch
}

// catchUp folds all events up to the head, or as long as there is room on the
// disk. Each batch reads the log afresh, so that a long fold does not hold on to
// what the log's database wants to give up.
func (f *Follower) catchUp(ctx context.Context) error {
	for {
		room, err := f.store.config.folder.roomy()
		if err != nil || !room {
			f.starve(err == nil)
			return err
		}
		f.starve(false)
		events, err := f.foldBatch(ctx)
		if err != nil || events == 0 {
			return err
		}
	}
}

// starve notes whether the fold waits for room, and logs it when that begins.
func (f *Follower) starve(starved bool) {
	if starved && !f.fold.starved {
		f.store.config.log.Warn("the disk is nearly full, the index waits for room",
			"ledger", f.name, "size", f.Size(), "needed_bytes", minFreeBytes)
	}
	f.fold.starved = starved
}

// foldBatch folds, stores and publishes the events that one batch takes, and
// says how many they were. Before an event that cannot be folded those that
// precede it are stored.
func (f *Follower) foldBatch(ctx context.Context) (int, error) {
	batch := f.store.engine.NewBatch()
	events, err := f.gather(ctx, batch)
	if events > 0 {
		err = errors.Join(err, f.commit(batch))
	}
	return events, errors.Join(err, batch.Close())
}

// gather folds events into a batch until it is full or the log ends.
func (f *Follower) gather(ctx context.Context, batch *engine.Batch) (events int, err error) {
	limits := f.store.config
	for entry, err := range f.log.Entries(ctx, f.fold.state.size) {
		if err == nil {
			err = f.fold.event(batch, entry.Bytes)
		}
		if err != nil {
			return events, fmt.Errorf("folding event %d: %w", f.fold.state.size, err)
		}
		if events++; events == limits.batchEvents || batch.Len() >= limits.batchBytes {
			break
		}
	}
	return events, nil
}

// commit stores a batch together with the state that it leads to, and publishes
// that state.
func (f *Follower) commit(batch *engine.Batch) error {
	f.fold.key = f.fold.keys.key(f.fold.key[:0], cursorDimension)
	f.fold.value = f.fold.state.append(f.fold.value[:0])
	if err := batch.Set(f.fold.key, f.fold.value, nil); err != nil {
		return err
	}
	if err := batch.Commit(engine.NoSync); err != nil {
		return fmt.Errorf("storing the index up to event %d: %w", f.fold.state.size, err)
	}
	f.publish()
	return nil
}

// event folds the next event of the log: an entry as in 1.7. After an error
// nothing of it is folded.
func (f *fold) event(batch *engine.Batch, entry []byte) error {
	if len(entry) < len(f.state.tip) {
		return fmt.Errorf("an entry of %d bytes", len(entry))
	}
	prev, body := storage.Hash(entry[:len(f.state.tip)]), entry[len(f.state.tip):]
	if prev != f.state.tip {
		return fmt.Errorf("it follows %x, the event before it is %x", prev, f.state.tip)
	}
	if err := f.document.Parse(body); err != nil {
		return err
	}
	var kind, checks, detail pyjson.Value
	for name, value := range f.document.Root().Members() {
		switch string(name.Text()) {
		case "checks":
			checks = value
		case "kind":
			kind = value
		case "record":
			detail = value
		}
	}
	if kind.Kind() != pyjson.String {
		return errors.New("its body has no kind")
	}
	hash := sha256.Sum256(entry)
	f.key = f.keys.eventHash(f.key[:0], hash)
	f.value = appendSeq(f.value[:0], f.state.size)
	if err := batch.Set(f.key, f.value, nil); err != nil {
		return err
	}
	f.state.counts.event(kind.Text(), checks, detail)
	f.state.size++
	f.state.tip = hash
	return nil
}

// event counts one event by the kind, checks and record of its body.
func (c counts) event(kind []byte, checks, detail pyjson.Value) {
	if string(kind) == string(record.RecordRefused) {
		c[refusalSeries(label(detail.Member("reason").Text(), refusals[:]))]++
		return
	}
	kindLabel := label(kind, record.Kinds[:])
	if kindLabel == other && label(kind, ledgerKinds[:]) != other {
		return
	}
	c[recordSeries(kindLabel)]++
	for name, check := range checks.Members() {
		result := label(check.Member("result").Text(), results[:])
		c.check(kindLabel, fieldLabel(name.Text()), result)
	}
}
