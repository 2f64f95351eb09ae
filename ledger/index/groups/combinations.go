package groups

import (
	"encoding/binary"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record/members"
)

// InputMode selects what represents a run's input in its combination (see CombinationID).
type InputMode int

const (
	InputModeHash     InputMode = iota // compare input_hash
	InputModeSeedless                  // compare the hash of the payload without the seed, or input_hash if unknown
	InputModeMembers                   // compare the digests of the payload's members; only for runs that have such digests
	inputModeCount
)

var combinationNames = [inputModeCount][]byte{InputModeHash: []byte("input_hash"), InputModeSeedless: []byte("input"), InputModeMembers: []byte("members")}

// CombinationID returns the identity of a run's input, system prompt, model, temperature, max_tokens,
// and seed. It returns zero if the input mode does not apply to the run. An absent value is encoded
// as an empty one. This is unambiguous, because a value that is present is never empty. The model
// is always present.
func CombinationID(ipc *event.IPC, mode InputMode) rowstore.Identity {
	of := ipc.InputHash
	var digests [members.MaxMembers * members.DigestSize]byte
	switch {
	case mode == InputModeSeedless:
		of = ipc.InputIdentity()
	case mode == InputModeMembers && !ipc.MemberDigests.HasDigests():
		return rowstore.Identity{}
	case mode == InputModeMembers:
		of = ipc.MemberDigests.AppendBytes(digests[:0])
	}
	return rowstore.IdentityOf(combinationNames[mode], of, ipc.SystemPromptHash, ipc.Model, ipc.Temperature, ipc.MaxTokens, ipc.Seed)
}

// CombinationGroupID returns the joint identity of a combination and a group. The value of the
// group, such as a label, must not be part of combinations.
func CombinationGroupID(combination, group rowstore.Identity) rowstore.Identity {
	return rowstore.IdentityOf([]byte("label"), combination[:], group[:])
}

// combinedWith holds a value that is not part of combinations, such as a label, and the joint
// identity of that value and the run's combination.
type combinedWith struct{ group, combination rowstore.Identity }

// combine adds the run at seq to each of its combinations, and sets r.first and r.firstWith.
func (r *run) combine(f *Deriver, seq uint64, of *preparedRun) {
	f.value = binary.AppendUvarint(f.value[:0], seq-r.output)
	for by, id := range of.combinations {
		switch {
		case id == (rowstore.Identity{}):
			r.first[by] = false
		case InputMode(by) == InputModeMembers:
			r.first[by] = r.first[InputModeSeedless] || !isKnown(f, id) // a new input means new members
			addTo(f, id, seq, r.first[by])
		default:
			r.first[by] = addFiltered(f, id, seq)
		}
	}
	r.firstWith = r.firstWith[:0]
	for _, value := range of.outside {
		if addFiltered(f, value.combination, seq) {
			r.firstWith = append(r.firstWith, value.group)
		}
	}
}

// isKnown reports whether a combination has any runs.
func isKnown(f *Deriver, id rowstore.Identity) bool {
	_, _, known := f.Rows.NewestVersion(CombinationsDimension, id[:])
	return known
}

// addFiltered adds a run to a combination and reports whether it is the combination's first run. If
// it is, addFiltered also adds the combination to the filter.
func addFiltered(f *Deriver, id rowstore.Identity, seq uint64) (first bool) {
	first = !f.Filter().MayContain(id) || !isKnown(f, id) // the filter saves lookups, because most seeds are new
	if first {
		f.Filter().Add(id)
	}
	addTo(f, id, seq, first)
	return first
}

// addTo adds a run to a combination. f.value must contain the run's encoded output.
func addTo(f *Deriver, id rowstore.Identity, seq uint64, first bool) {
	if first {
		f.Rows.PutFirst(CombinationsDimension, id[:], seq, f.value)
	} else {
		f.Rows.Put(CombinationsDimension, id[:], seq, f.value)
	}
}

// OutputSeqOf returns the seq that identifies the output of the run that wrote v, a version in
// CombinationsDimension. It is the seq of the first run in the ledger with that output.
func OutputSeqOf(v rowstore.Version) (uint64, error) {
	before, n := binary.Uvarint(v.Value)
	if n <= 0 || before > v.Seq {
		return 0, fmt.Errorf("%w: cannot decode the combination at event %d", rowstore.ErrDamaged, v.Seq)
	}
	return v.Seq - before, nil
}
