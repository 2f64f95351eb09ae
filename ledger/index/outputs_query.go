package index

import "context"

// Output is one of the outputs of a group.
type Output struct {
	Seq  uint64 // of the first run of the group, of any state, that had it
	Hash string
	Runs uint64 // of the group
}

// Outputs lists the distinct outputs of a group's runs, the newest first. A page
// may have fewer rows than there are where few are of live runs, even none.
func (v *View) Outputs(ctx context.Context, q RunQuery, p Page) (rows []Output, next []byte, err error) {
	id := q.id()
	g, err := v.group(id)
	if err != nil {
		return nil, nil, err
	}
	at := g.lastOutput()
	if p.After != nil {
		if at, err = decodeSeq(p.After); err != nil || at == 0 || at >= v.size {
			return nil, nil, ErrPosition
		}
	}
	for b := v.budget(p); at != 0; {
		if b.spent(len(rows)) {
			return rows, appendSeq(nil, at), nil
		}
		version, err := v.groupAt(id, at, bringsOutput)
		if err != nil {
			return nil, nil, err
		}
		count, err := v.countOutput(q.Name, id, &g, version.output)
		if err != nil {
			return nil, nil, err
		}
		runs := count.live
		if q.Any {
			runs = count.all
		}
		if runs > 0 {
			first, err := v.IPCRecord(ctx, at)
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, Output{at, string(first.OutputHash), runs})
		}
		at = version.outputBefore
	}
	return rows, nil, nil
}

// groupAt is the version of a group that event seq made; ErrPosition if it made
// none with those flags.
func (v *View) groupAt(id identity, seq uint64, flags byte) (group, error) {
	at, value, found, err := v.newestBelow(postings, id[:], seq+1)
	if err != nil {
		return group{}, err
	}
	if !found || at != seq {
		return group{}, ErrPosition
	}
	g, err := decodeGroup(at, value)
	if err == nil && g.flags&flags != flags {
		err = ErrPosition
	}
	return g, err
}

// countOutput is how many runs of a group have an output, which some have.
func (v *View) countOutput(by string, id identity, g *group, output uint64) (outputCount, error) {
	if by == outputName {
		return outputCount{g.live.runs, g.all.runs}, nil
	}
	row := outputRowOf(id, output)
	_, value, found, err := v.newest(outputs, row[:])
	if err != nil || !found {
		return onlyOne, err
	}
	return decodeOutputCount(value)
}
