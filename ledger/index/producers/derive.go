package producers

import (
	"context"
	"math"
	"math/bits"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// deriver records the sequence numbers that each producer has delivered.
type deriver struct {
	*index.Fold
	value []byte // scratch
}

// Derive implements Deriver.
func (f *deriver) Derive(_ context.Context, e *index.Event) error {
	if e.Kind.IsRecord() {
		f.producer(&e.Event)
	}
	return nil
}

// producer folds the sequence number that a producer gave to a record.
func (f *deriver) producer(e *event.Event) {
	id, number := e.Producer()
	if id == nil {
		return
	}
	producer := rowstore.IdentityOf(id)
	state := producerState{next: 1}
	if _, value, found := f.Rows.NewestVersion(producerStates, producer[:]); found {
		state = rowstore.DecodeOrFail(&f.Rows, value, decodeProducerState)
	} else {
		f.Rows.PutSeparately(producerList, onlyRow, e.Seq, id)
	}
	before := state.missing()
	if !f.deliver(e.Seq, producer, &state, number) {
		state.repeats++
		f.value = rowstore.AppendNumbers(f.value[:0], number)
		f.Rows.PutSeparately(producerRepeats, producer[:], e.Seq, f.value)
		f.Counters.Add(counters.SeriesOf(counters.MetricProducerDuplicates), 1)
	}
	f.value = state.append(f.value[:0])
	f.Rows.Put(producerStates, producer[:], e.Seq, f.value)
	f.updateMissing(e.Seq, before, state.missing())
}

// deliver records that a producer has delivered a number. It reports whether the number is new.
// Only numbers above the lowest missing one are stored in the producer's set.
func (f *deriver) deliver(seq uint64, producer rowstore.Identity, s *producerState, number uint64) bool {
	switch {
	case number == 0:
		first := s.zero == 0
		s.zero = 1
		return first
	case number < s.next:
		return false
	case number > s.next:
		if !f.addNumber(seq, producer, number) {
			return false
		}
	case number > s.highest:
		s.next++
	default:
		s.next = f.missingFrom(producer, number+1)
	}
	s.highest = max(s.highest, number)
	s.delivered++
	return true
}

// addNumber adds a number to a producer's stored set, and reports whether it is new.
func (f *deriver) addNumber(seq uint64, producer rowstore.Identity, number uint64) bool {
	var row [len(rowstore.Identity{}) + 1 + rowstore.SeqSize]byte
	return addNumber(number, func(level byte, n uint64) block {
		return f.numberBlock(blockRow(row[:0], producer, level, n))
	}, func(level byte, n uint64, b *block) {
		f.value = b.append(f.value[:0])
		f.Rows.Put(producerNumbers, blockRow(row[:0], producer, level, n), seq, f.value)
	})
}

// missingFrom returns the lowest number at or above the given one that is not in a producer's
// stored set.
func (f *deriver) missingFrom(producer rowstore.Identity, number uint64) uint64 {
	var row [len(rowstore.Identity{}) + 1 + rowstore.SeqSize]byte
	number, _, _ = seekNumber(number, true, func(level byte, n uint64) (block, error) {
		return f.numberBlock(blockRow(row[:0], producer, level, n)), nil
	})
	return number
}

func (f *deriver) numberBlock(row []byte) block {
	_, value, found := f.Rows.NewestVersion(producerNumbers, row)
	if !found {
		return block{}
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodeBlock)
}

// updateMissing updates the total count of missing numbers after one producer's count has changed from
// before to after. The total has 128 bits, because a single record can skip nearly 2^63 numbers. For
// totals that exceed 64 bits, the gauge shows 2^64-1.
func (f *deriver) updateMissing(seq, before, after uint64) {
	if before == after {
		return
	}
	var high, low uint64
	if _, value, found := f.Rows.NewestVersion(producersMissing, onlyRow); found {
		r := rowstore.ValueReader{Rest: value}
		r.ReadNumbers(&high, &low)
		if err := r.Finish("the count of missing sequence numbers", value); err != nil {
			f.Rows.Failf("%w", err)
		}
	}
	low, borrow := bits.Sub64(low, before, 0)
	low, carry := bits.Add64(low, after, 0)
	high += carry - borrow
	f.value = rowstore.AppendNumbers(f.value[:0], high, low)
	f.Rows.Put(producersMissing, onlyRow, seq, f.value)
	if high > 0 {
		low = math.MaxUint64
	}
	f.Counters.Set(counters.SeriesOf(counters.MetricMissingProducerSeqs), low)
}
