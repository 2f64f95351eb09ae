package groups

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"

	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// outputCount is the number of runs in a group that have the same output.
type outputCount struct{ live, all uint64 }

// onlyOne is the count of an output that only one run in the ledger has. Such an output has no row.
var onlyOne = outputCount{1, 1}

func (c outputCount) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, c.all)
	return binary.AppendUvarint(dst, c.all-c.live)
}

func decodeOutputCount(value []byte) (outputCount, error) {
	all, n := binary.Uvarint(value)
	if n <= 0 {
		return outputCount{}, fmt.Errorf("%w: cannot decode an output count", rowstore.ErrDamaged)
	}
	dead, m := binary.Uvarint(value[n:])
	if m <= 0 || dead > all {
		return outputCount{}, fmt.Errorf("%w: cannot decode an output count", rowstore.ErrDamaged)
	}
	return outputCount{all - dead, all}, nil
}

// outputRow is the key of the row for an output in a group. The output is identified by the first
// run in the ledger that has it.
type outputRow [len(rowstore.Identity{}) + rowstore.SeqSize]byte

func outputRowOf(group rowstore.Identity, output uint64) (row outputRow) {
	binary.BigEndian.PutUint64(row[copy(row[:], group[:]):], output)
	return row
}

// joinOutput counts the output of a new run in one of the run's groups, and returns the count
// before the run. An output has rows only if at least two runs in the ledger have it. It has no row
// in the group of its own output_hash.
func (f *Deriver) joinOutput(g *Version, p records.Posting, r *run) outputCount {
	if p.Grouping == records.OutputHashGrouping {
		return outputCount{g.LiveTally.Runs, g.AllTally.Runs}
	}
	if !r.repeats {
		return outputCount{}
	}
	row := outputRowOf(p.ID, r.output)
	var same outputCount
	found := g.AllTally.Runs > 0 && (g.AllTally.outputs > 1 || g.AllTally.LastOutputSeq == r.output) // in all other cases there is no row
	if found {
		same, found = f.countOutput(row)
	}
	if !found {
		f.startOutput(row, g.seq)
		return outputCount{}
	}
	f.moveOutput(g, p.ID, same.live, same.live+1)
	f.putOutput(row, g.seq, outputCount{same.live + 1, same.all + 1})
	return same
}

// key returns the key that represents the row in the filter.
func (row outputRow) key() (key rowstore.Identity) {
	copy(key[:], row[:])
	mixed := binary.BigEndian.Uint64(row[len(key):]) * 0x9e3779b97f4a7c15 // multiplying by an odd constant mixes the bits
	low, high := key[8:], key[:8]
	binary.BigEndian.PutUint64(high, binary.BigEndian.Uint64(high)^mixed)
	binary.BigEndian.PutUint64(low, binary.BigEndian.Uint64(low)^bits.ReverseBytes64(mixed))
	return key
}

// countOutput reads the row of an output. found is false if there is none.
func (f *Deriver) countOutput(row outputRow) (same outputCount, found bool) {
	if filter := f.Filter(); f.runs.filterHasOutputs && !filter.MayContain(row.key()) {
		return outputCount{}, false
	}
	_, value, found := f.Rows.NewestVersion(outputs, row[:])
	if !found {
		return outputCount{}, false
	}
	same, err := decodeOutputCount(value)
	if err != nil {
		f.Rows.Failf("%w", err)
	}
	return same, true
}

// addToFilter adds a row of outputs to the filter. It must be called when the first version of a
// row is written, because otherwise countOutput would not find the row.
func (f *Deriver) addToFilter(row outputRow) {
	if filter := f.Filter(); f.runs.filterHasOutputs {
		filter.Add(row.key())
	}
}

// startOutput writes the first version of an output's row, which counts one run.
func (f *Deriver) startOutput(row outputRow, seq uint64) {
	f.addToFilter(row)
	f.value = onlyOne.append(f.value[:0])
	f.Rows.PutFirst(outputs, row[:], seq, f.value)
}

// putOutput writes a new version of an output's row, with the count c.
func (f *Deriver) putOutput(row outputRow, seq uint64, c outputCount) {
	f.value = c.append(f.value[:0])
	f.Rows.Put(outputs, row[:], seq, f.value)
}

// backfillOutput writes the rows for the first run with an output. It is called when a second run
// has the same output.
func (f *Deriver) backfillOutput(ctx context.Context, first uint64) error {
	e, err := f.ReadEvent(ctx, first)
	if err != nil {
		return err
	}
	ipc := e.IPC()
	f.others.CollectIPC(&f.othersIdentities, e, &ipc)
	for p := range f.others.GroupPostings() {
		if p.Grouping != records.OutputHashGrouping {
			f.startOutput(outputRowOf(p.ID, first), first)
		}
	}
	return nil
}
