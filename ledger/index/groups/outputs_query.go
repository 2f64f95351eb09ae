package groups

import (
	"context"
	"errors"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Output is one of the outputs of a group.
type Output struct {
	Seq  uint64 // seq of the first run in the group, in any state, with this output
	Hash string // output_hash of the runs
	Runs uint64 // number of runs in the group with this output
}

// ListOutputs returns the distinct outputs of a group's runs, newest first. A page can have fewer
// rows than its limit, or none, if few outputs have live runs.
func ListOutputs(ctx context.Context, v *index.View, q RunQuery, p index.PageRequest) (rows []Output, next []byte, err error) {
	id := q.ID()
	g, err := NewestVersion(v, id)
	if err != nil {
		return nil, nil, err
	}
	at := g.lastOutput()
	if p.After != nil {
		if at, err = rowstore.DecodeSeq(p.After); err != nil || at == 0 || at >= v.Size() {
			return nil, nil, index.ErrInvalidPosition
		}
	}
	versions := v.NewVersionSeeker(records.PostingsDimension, id[:])
	defer func() { err = errors.Join(err, versions.Close()) }()
	counts := outputCounts{view: v, by: q.Name, id: id, group: &g, repeats: g.AllTally.Runs - g.AllTally.outputs}
	for b := v.Budget(p); at != 0; {
		if b.IsSpent(len(rows)) {
			return rows, rowstore.AppendSeq(nil, at), nil
		}
		version, err := groupAtVersion(versions, at, addsOutput)
		if err != nil {
			return nil, nil, err
		}
		count, err := counts.of(version.OutputSeq)
		if err != nil {
			return nil, nil, err
		}
		runs := count.live
		if q.AnyState {
			runs = count.all
		}
		if runs > 0 {
			first, err := records.ReadIPCRecord(ctx, v, at)
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, Output{at, string(first.OutputHash), runs})
		}
		at = version.outputBefore
	}
	return rows, nil, nil
}

// groupAtVersion returns the version of a group that the event at seq wrote. It returns ErrInvalidPosition
// if that event wrote no version with these flags. The seqs of successive calls must decrease.
func groupAtVersion(w *rowstore.VersionSeeker, seq uint64, flags byte) (Version, error) {
	found, ok, err := w.Seek(seq)
	if err != nil {
		return Version{}, err
	}
	return groupOf(seq, flags, found, ok)
}

// VersionAt returns the version of a group that the event at seq wrote, or ErrInvalidPosition if it wrote
// no version with these flags.
func VersionAt(v *index.View, id rowstore.Identity, seq uint64, flags byte) (Version, error) {
	at, value, found, err := v.NewestVersionBelow(records.PostingsDimension, id[:], seq+1)
	if err != nil {
		return Version{}, err
	}
	return groupOf(seq, flags, rowstore.Version{Seq: at, Value: value}, found)
}

// groupOf decodes a version of a group. It returns ErrInvalidPosition if the version was not found, was
// not written by the event at seq, or lacks any of the flags.
func groupOf(seq uint64, flags byte, r rowstore.Version, found bool) (Version, error) {
	if !found || r.Seq != seq {
		return Version{}, index.ErrInvalidPosition
	}
	g, err := DecodeVersion(r.Seq, r.Value)
	if err == nil && g.flags&flags != flags {
		err = index.ErrInvalidPosition
	}
	return g, err
}

// outputCounts counts the runs of a group by output.
type outputCounts struct {
	view  *index.View
	by    string // the name by which runs are grouped
	id    rowstore.Identity
	group *Version
	// repeats is the number of runs not yet counted, leaving out the first run of each output. When
	// it is 0, each output that is not yet counted has only one run.
	repeats uint64
}

// of returns the number of runs in the group with the given output. It must be called at most once
// for each output.
func (c *outputCounts) of(output uint64) (outputCount, error) {
	switch {
	case c.by == records.NameOutputHash:
		return outputCount{c.group.LiveTally.Runs, c.group.AllTally.Runs}, nil
	case c.repeats == 0 && !c.group.HasDeadRuns():
		return onlyOne, nil
	}
	row := outputRowOf(c.id, output)
	_, value, found, err := c.view.NewestVersion(outputs, row[:])
	if err != nil || !found {
		return onlyOne, err
	}
	count, err := decodeOutputCount(value)
	c.repeats -= min(c.repeats, count.all-1)
	return count, err
}
