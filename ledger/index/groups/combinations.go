package groups

import (
	"encoding/binary"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// By says how a combination compares the input.
type By int

const (
	ByInputHash By = iota // by input_hash
	ByInput               // by the variable input, which does not cover the seed
	ByMembers             // by the digests of the payload's members; only runs that have some
	byCount
)

var combinationNames = [byCount][]byte{ByInputHash: []byte("input_hash"), ByInput: []byte("input"), ByMembers: []byte("members")}

// Combination returns the identity of a run's values of the six variables; zero if the run has no
// combination by that. An absent value counts as empty. No value that is given is empty, except the
// model, which is always given.
func Combination(ipc *event.IPC, by By) rowstore.Identity {
	of := ipc.InputHash
	switch {
	case by == ByInput:
		of = ipc.Input()
	case by == ByMembers && !ipc.Members.Any():
		return rowstore.Identity{}
	case by == ByMembers:
		of = ipc.Members
	}
	return rowstore.Identify(combinationNames[by], of, ipc.SystemPromptHash, ipc.Model, ipc.Temperature, ipc.MaxTokens, ipc.Seed)
}

// combine adds a run to its combinations.
func (r *run) combine(f *Deriver, seq uint64, of *[byCount]rowstore.Identity) {
	f.value = binary.AppendUvarint(f.value[:0], seq-r.output)
	for by, id := range of {
		if r.first[by] = false; id == (rowstore.Identity{}) {
			continue
		}
		r.first[by] = !f.Filter().MayContain(id) // most seeds are new
		if !r.first[by] {
			_, _, known := f.Rows.Newest(Combinations, id[:])
			r.first[by] = !known
		}
		if r.first[by] {
			f.Filter().Add(id)
			f.Rows.Start(Combinations, id[:], seq, f.value)
		} else {
			f.Rows.Put(Combinations, id[:], seq, f.value)
		}
	}
}

// OutputOf returns the output of the run that wrote a version in Combinations.
func OutputOf(v rowstore.Version) (uint64, error) {
	before, n := binary.Uvarint(v.Value)
	if n <= 0 || before > v.Seq {
		return 0, fmt.Errorf("%w: a run of a combination at event %d", rowstore.ErrDamaged, v.Seq)
	}
	return v.Seq - before, nil
}
