package records

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// ListByOccurrence returns records, sorted by the time at which they occurred, latest first. It
// leaves out records without a timestamp. A page may have fewer rows than its limit, or none,
// because the records that the filter rejects also count toward the page's budget.
func ListByOccurrence(ctx context.Context, v *index.View, q Filter, p index.PageRequest) (rows []Record, next []byte, err error) {
	lower, upper, err := occurrenceBounds(v, &q, p)
	if err != nil || upper == nil {
		return nil, nil, err
	}
	it, err := v.NewIterator(lower, upper)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	ids := q.valueIDs()
	var last []byte // position of the last record read
	b := v.Budget(p)
	for ok := it.First(); ok; ok = it.Next() {
		if b.IsSpent(len(rows)) {
			return rows, last, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		position := it.Key()[len(rowstore.Keyspace{})+2:]
		seq := ^binary.BigEndian.Uint64(position[index.TimeBytes:])
		if seq >= v.Size() {
			continue // not counted, because later events must not change where a page ends
		}
		v.AddReads(1, 0)
		last = append(last[:0], position...)
		wanted, err := hasPostings(v, seq, ids)
		if err != nil {
			return nil, nil, err
		}
		if wanted {
			if rows, err = appendRecord(ctx, v, rows, &q, seq); err != nil {
				return nil, nil, err
			}
		}
	}
	return rows, nil, it.Err()
}

// occurrenceBounds returns the range of keys for a page, or nil bounds if there can be no records
// on the page.
func occurrenceBounds(v *index.View, q *Filter, p index.PageRequest) (first, behind []byte, err error) {
	_, until, found, err := v.NewestVersion(occurredUntil, horizonRow[:])
	if err != nil || !found {
		return nil, nil, err
	}
	keys, kind := v.Keyspace, byte(everyKind)
	if q.Kind != "" {
		if kind = kindNumber(q.Kind); kind == everyKind {
			return nil, nil, nil // only records have a timestamp
		}
	}
	rows := append(keys.AppendPrefix(nil, occurrences), kind)
	// Begin at until, to skip most of the records that are newer than the view.
	lower := [][]byte{appendInverted(slices.Clone(rows), until)}
	if q.Until != nil {
		lower = append(lower, occurrencesEnd(keys, kind, *q.Until))
	}
	if p.After != nil {
		if len(p.After) != index.TimeBytes+rowstore.SeqSize {
			return nil, nil, index.ErrInvalidPosition
		}
		lower = append(lower, append(slices.Concat(rows, p.After), 0))
	}
	upper := append(keys.AppendPrefix(nil, occurrences), kind+1)
	if q.Since != nil {
		upper = occurrencesEnd(keys, kind, *q.Since)
	}
	return slices.MaxFunc(lower, bytes.Compare), upper, nil
}

// hasPostings reports whether the view sees the event at seq and the event has all of the given
// values.
func hasPostings(v *index.View, seq uint64, ids []rowstore.Identity) (bool, error) {
	if seq >= v.Size() {
		return false, nil
	}
	for _, id := range ids {
		at, _, found, err := v.NewestVersionBelow(PostingsDimension, id[:], seq+1)
		if err != nil || !found || at != seq {
			return false, err
		}
	}
	return true, nil
}
