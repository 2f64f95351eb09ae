package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// redact applies the redactions of b and returns the digests of the content that it deletes. It
// stores the redactions, removes the references of the redacted records, and deletes the bytes and
// the location of content that no record needs any longer. It leaves marks for the eraser, because
// deleted bytes stay in files until the files are rewritten.
func (l *ledger) redact(c *change, b storage.Batch) (map[storage.Hash]bool, error) {
	if len(b.Redactions) == 0 {
		return nil, nil
	}
	l.redacted.Store(true) // set before readers can see the commit
	withdrawn, err := l.withdrawn(c, b.Redactions)
	if err != nil {
		return nil, err
	}
	start, end := keys.LocationAndReferenceRange(l.number)
	holdings, err := l.db.engine.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, fmt.Errorf("looking up content: %w", err)
	}
	erased := make(map[storage.Hash]bool)
	// Sort the digests, so that successive lookups often read the same block.
	digests := slices.SortedFunc(maps.Keys(withdrawn), func(a, b storage.Hash) int { return bytes.Compare(a[:], b[:]) })
	for _, digest := range digests {
		w := withdrawal{ledger: l.number, digest: digest, records: withdrawn[digest]}
		if err = w.apply(c, holdings, b.Head.TimeMicros); err != nil {
			err = fmt.Errorf("withdrawing content %x: %w", digest, err)
			break
		}
		if w.erased {
			erased[digest] = true
		}
	}
	return erased, errors.Join(err, holdings.Close())
}

// withdrawn adds to c the redactions of records that are not redacted yet. For each piece of
// content that was named by these records, it returns the records' sequence numbers.
func (l *ledger) withdrawn(c *change, redactions []storage.Redaction) (map[storage.Hash]map[uint64]bool, error) {
	head := l.head.Load()
	withdrawn := make(map[storage.Hash]map[uint64]bool)
	redacted := make(map[uint64]bool, len(redactions))
	for _, r := range redactions {
		if redacted[r.Seq] {
			continue
		}
		redacted[r.Seq] = true
		key := keys.AppendRedactionKey(nil, l.number, r.Seq)
		stored, err := l.db.get(key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, fmt.Errorf("looking up the redaction of record %d: %w", r.Seq, err)
		}
		// A stored redaction by an event beyond the head was not written by a commit. It erased
		// nothing, so it must not prevent this erasure.
		if by, wrong := keys.DecodeSeq(stored); err == nil && wrong == nil && by < head.Size {
			continue
		}
		c.set(key, keys.EncodeSeq(r.RedactingSeq))
		for _, digest := range r.Digests {
			if withdrawn[digest] == nil {
				withdrawn[digest] = make(map[uint64]bool)
			}
			withdrawn[digest][r.Seq] = true
		}
	}
	return withdrawn, nil
}

// withdrawal removes the references to one piece of content from records that no longer need it.
type withdrawal struct {
	ledger  keys.LedgerNumber
	digest  storage.Hash
	records map[uint64]bool
	erased  bool // true if no other record needs the content
}

// apply adds the withdrawal to c and sets w.erased. holdings iterates over the ledger's locations
// and references. time is the time of the commit, in microseconds since 1970 UTC.
func (w *withdrawal) apply(c *change, holdings *engine.Iterator, time int64) error {
	location, end := keys.DigestRange(w.ledger, w.digest)
	if !holdings.SeekGE(location) || !bytes.Equal(holdings.Key(), location) {
		return holdings.Error() // the ledger does not have the content
	}
	value, err := holdings.ValueAndErr()
	if err != nil {
		return err
	}
	holding, err := keys.DecodeLocationValue(value)
	if err != nil {
		return err
	}
	needed := !holding.Redacted && !w.records[holding.Seq]
	for ok := holdings.Next(); ok && !needed && bytes.Compare(holdings.Key(), end) < 0; ok = holdings.Next() {
		seq, is := keys.ReferenceSeq(holdings.Key())
		needed = is && !w.records[seq]
	}
	if err := holdings.Error(); err != nil { // the next seek would clear the iterator's error
		return err
	}
	var reference []byte
	for _, seq := range slices.Sorted(maps.Keys(w.records)) {
		reference = keys.AppendReferenceKey(reference[:0], w.ledger, w.digest, seq)
		if holdings.SeekGE(reference) && bytes.Equal(holdings.Key(), reference) {
			c.delete(reference)
		}
		if err := holdings.Error(); err != nil {
			return err
		}
	}
	switch {
	case !needed:
		w.erased = true
		c.delete(location)
		c.delete(keys.AppendContentKey(nil, w.ledger, holding.Location))
		c.set(keys.AppendErasureKey(nil, w.ledger, holding.Location),
			keys.AppendErasureValue(nil, keys.Erasure{TimeMicros: time, Digest: w.digest}))
	case w.records[holding.Seq] && !holding.Redacted:
		holding.Redacted = true
		c.set(location, keys.AppendLocationValue(nil, holding))
	}
	return nil
}
