package index

import (
	"encoding/binary"
	"errors"
	"time"

	"colophon/ledger/index/rowstore"
)

func recordedMarkKey(k rowstore.Keyspace, dst []byte, at time.Time, seq uint64) []byte {
	return rowstore.AppendSeq(AppendTime(k.AppendPrefix(dst, recordedMarks), at), seq)
}

// TimeBytes is the length in bytes of an encoded time in keys.
const TimeBytes = 12

// AppendTime appends a time, encoded in TimeBytes bytes. The encodings sort in time order, even for
// times before 1970.
func AppendTime(dst []byte, at time.Time) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(at.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(dst, uint32(at.Nanosecond()))
}

// TimeRange is the time range from Since (inclusive) to Until (exclusive). If either is nil, the
// range is unbounded on that side.
type TimeRange struct{ Since, Until *time.Time }

// SeqRange returns the range of seqs of the events that were recorded in a time range: from is the
// first one, and below is one more than the last.
func (v *View) SeqRange(b TimeRange) (from, below uint64, err error) {
	below = v.Size()
	if b.Since != nil {
		if from, err = v.recordedFrom(*b.Since); err != nil {
			return 0, 0, err
		}
	}
	if b.Until != nil {
		if below, err = v.recordedFrom(*b.Until); err != nil {
			return 0, 0, err
		}
	}
	return from, below, nil
}

// recordedFrom returns the seq of the first event that was recorded at or after a time, or the
// view's size if there is none.
func (v *View) recordedFrom(at time.Time) (uint64, error) {
	marked, found, err := v.markBefore(at)
	if err != nil || !found {
		return 0, err
	}
	if marked >= v.Size() {
		return v.Size(), nil
	}
	// The next mark, if one exists, is not before at, so only this block must be searched.
	times, err := v.recordedIn(marked / timeBlockEvents)
	if err != nil {
		return 0, err
	}
	below := min(v.Size(), marked+timeBlockEvents)
	for seq := marked; seq < below; seq++ {
		recorded, err := times.next()
		if err != nil || !recorded.Before(at) {
			return seq, err
		}
	}
	return below, nil
}

// markBefore returns the seq in the last key of recordedMarks before a time. found is false if no
// key precedes the time.
func (v *View) markBefore(at time.Time) (seq uint64, found bool, err error) {
	keys := v.Keyspace
	first := keys.AppendPrefix(nil, recordedMarks)
	it, err := v.NewIterator(first, recordedMarkKey(keys, nil, at, 0))
	if err != nil {
		return 0, false, err
	}
	v.AddReads(1, 0)
	if found = it.Last(); found {
		seq, err = rowstore.DecodeSeq(it.Key()[len(first)+TimeBytes:])
	}
	return seq, found, errors.Join(err, it.Close())
}
