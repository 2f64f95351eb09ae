package producers

import (
	"fmt"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// Producer describes a client that numbers its records, and counts what it has delivered.
type Producer struct {
	ID            string // name of the producer
	LatestSeq     uint64 // seq of its latest record
	Records       uint64 // number of its records, including duplicates
	CompleteTo    uint64 // all numbers from 1 up to this one were delivered
	HighestNumber uint64 // the highest delivered number; 0 if there is none above 0
	MissingCount  uint64 // count of numbers below the highest that were not delivered
	Duplicates    uint64 // number of records that repeat a number
}

// Gap is a range of numbers that a producer has not delivered, from First to Last. Both are included.
type Gap struct{ First, Last uint64 }

// Duplicate is a record that repeats a number of its producer.
type Duplicate struct {
	Seq      uint64 // seq of the record that repeats the number
	Number   uint64 // the producer's number for both records
	FirstSeq uint64 // seq of the first record with that number
}

// List returns the producers, sorted by first record, newest first.
func List(v *index.View, page index.PageRequest) ([]Producer, []byte, error) {
	return rowstore.PageNewestFirst(v.Reader, producerList, onlyRow, page, func(r rowstore.Version) (*Producer, error) {
		p, _, err := readProducer(v, string(r.Value))
		return &p, err
	})
}

// Get returns a producer, its gaps in ascending order, and its duplicates newest first. The
// page's limit applies separately to the gaps and to the duplicates. It returns
// storage.ErrNotFound if no record names the producer.
func Get(v *index.View, id string, page index.PageRequest) (p Producer, gaps []Gap, duplicates []Duplicate, next []byte, err error) {
	p, first, err := readProducer(v, id)
	if err != nil {
		return p, nil, nil, nil, err
	}
	below := v.Size()
	if page.After != nil {
		if len(page.After) != 2*rowstore.SeqSize {
			return p, nil, nil, nil, index.ErrInvalidPosition
		}
		// 0 means the end of a list. It is unambiguous because number 0 is never missing and event
		// 0 is not a record.
		first, _ = rowstore.DecodeSeq(page.After[:rowstore.SeqSize])
		below, _ = rowstore.DecodeSeq(page.After[rowstore.SeqSize:])
	}
	gaps, first, err = gapsOf(v, &p, first, page.Limit)
	if err != nil {
		return p, nil, nil, nil, err
	}
	duplicates, below, err = duplicatesOf(v, id, min(below, v.Size()), page.Limit)
	if first > 0 || below > 0 {
		next = rowstore.AppendSeq(rowstore.AppendSeq(nil, first), below)
	}
	return p, gaps, duplicates, next, err
}

// readProducer returns a producer, and the lowest number that it has not delivered.
func readProducer(v *index.View, id string) (Producer, uint64, error) {
	row := rowstore.IdentityOf([]byte(id))
	seq, value, found, err := v.NewestVersion(producerStates, row[:])
	if err == nil && !found {
		err = fmt.Errorf("looking up producer %q: %w", id, storage.ErrNotFound)
	}
	if err != nil {
		return Producer{}, 0, err
	}
	s, err := decodeProducerState(value)
	return Producer{
		ID: id, LatestSeq: seq, Records: s.delivered + s.zero + s.repeats, CompleteTo: s.next - 1, HighestNumber: s.highest,
		MissingCount: s.missing(), Duplicates: s.repeats,
	}, s.next, err
}

// gapsOf returns at most limit gaps of a producer, starting at the number from. next is the number
// at which the next page begins. For both from and next, 0 means the end.
func gapsOf(v *index.View, p *Producer, from uint64, limit int) (gaps []Gap, next uint64, err error) {
	if from == 0 {
		return nil, 0, nil
	}
	read := numberBlocks(v, rowstore.IdentityOf([]byte(p.ID)))
	for from = max(from, p.CompleteTo+1); from < p.HighestNumber; {
		if len(gaps) == limit {
			return gaps, from, nil
		}
		start, _, err := seekNumber(from, true, read)
		if err != nil {
			return nil, 0, err
		}
		if start > p.HighestNumber {
			break
		}
		delivered, found, err := seekNumber(start, false, read)
		if err == nil && !found {
			err = fmt.Errorf("%w: the stored sequence numbers of producer %q end before %d, but the producer has sent higher numbers", rowstore.ErrDamaged, p.ID, start)
		}
		if err != nil {
			return nil, 0, err
		}
		gaps, from = append(gaps, Gap{start, delivered - 1}), delivered
	}
	return gaps, 0, nil
}

// numberBlocks returns a function that reads the blocks of a producer's numbers. The function
// reads each block only once.
func numberBlocks(v *index.View, producer rowstore.Identity) func(level byte, n uint64) (block, error) {
	blocks := make(map[string]block)
	return func(level byte, n uint64) (block, error) {
		row := blockRow(nil, producer, level, n)
		b, read := blocks[string(row)]
		if read {
			return b, nil
		}
		_, value, found, err := v.NewestVersion(producerNumbers, row)
		if err == nil && found {
			b, err = decodeBlock(value)
		}
		blocks[string(row)] = b
		return b, err
	}
}

// duplicatesOf returns at most limit duplicates of a producer among the events whose seq is less
// than below, newest first. next is the value of below for the next page, or 0 at the end.
func duplicatesOf(v *index.View, id string, below uint64, limit int) (duplicates []Duplicate, next uint64, err error) {
	producer := rowstore.IdentityOf([]byte(id))
	for r, err := range v.VersionsNewestFirst(producerRepeats, producer[:], below) {
		if err != nil {
			return nil, 0, err
		}
		if len(duplicates) == limit {
			return duplicates, duplicates[limit-1].Seq, nil
		}
		number, err := rowstore.DecodeNumber(r.Value)
		if err != nil {
			return nil, 0, err
		}
		first, err := firstOf(v, records.ProducerSeqValue(id, number))
		if err != nil {
			return nil, 0, err
		}
		duplicates = append(duplicates, Duplicate{Seq: r.Seq, Number: number, FirstSeq: first})
	}
	return duplicates, 0, nil
}

// firstOf returns the seq of the first event that has the given value, or 0 if there is none.
func firstOf(v *index.View, value records.Value) (uint64, error) {
	id := rowstore.IdentityOf([]byte(value.Name), []byte(value.Text))
	for r, err := range v.VersionsOldestFirst(records.PostingsDimension, id[:], 0) {
		return r.Seq, err
	}
	return 0, nil
}
