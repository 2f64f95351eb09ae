package groups

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/index"
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

// deferredCombinations holds the identities of combinations whose rows have not been written, because only
// one run has their input. Most inputs never have a second run. Most effects compare runs with the same
// input, so they do not need these rows; for effects of the input itself, see CombinationRuns. Combinations
// for InputModeMembers are never deferred, because effects of a member compare runs with different
// inputs. The first identity is that of the combination alone, the others are those together with a
// label or a build.
type deferredCombinations []byte

// append appends the number of identities, and the identities.
func (d deferredCombinations) append(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(d)/len(rowstore.Identity{}))), d...)
}

// alone returns the identity of the combination alone, or zero if nothing was deferred.
func (d deferredCombinations) alone() (id rowstore.Identity) {
	copy(id[:], d)
	return id
}

// combine adds the run at seq to each of its combinations, and sets r.first, r.firstWith, and
// r.deferred.
func (r *run) combine(f *Deriver, seq uint64, of *preparedRun) {
	r.firstWith = r.firstWith[:0]
	r.combineWithInput(f, seq, InputModeHash, &r.sameInputHash, of.combinations[InputModeHash], of.outside)
	r.combineWithInput(f, seq, InputModeSeedless, &r.sameInput, of.combinations[InputModeSeedless], nil)
	id := of.combinations[InputModeMembers]
	if id == (rowstore.Identity{}) {
		r.first[InputModeMembers] = false
		return
	}
	r.first[InputModeMembers] = r.first[InputModeSeedless] || !isKnown(f, id) // a new input means new members
	addTo(f, id, seq, r.output, r.first[InputModeMembers])
}

// combineWithInput adds the run at seq to a combination, alone and together with each value in outside.
// same is the group of the run's input as it was before this run. If the run is the first of that
// group, combineWithInput defers the combinations.
func (r *run) combineWithInput(f *Deriver, seq uint64, by InputMode, same *Version, alone rowstore.Identity, outside []combinedWith) {
	r.deferred[by] = r.deferred[by][:0]
	switch same.AllTally.Runs {
	case 0:
		r.first[by] = true
		r.deferred[by] = append(r.deferred[by], alone[:]...)
		for i := range outside {
			r.firstWith = append(r.firstWith, outside[i].group)
			r.deferred[by] = append(r.deferred[by], outside[i].combination[:]...)
		}
		return
	case 1:
		for id := range slices.Chunk(same.deferred, len(rowstore.Identity{})) {
			addFiltered(f, rowstore.Identity(id), same.AllTally.first, same.AllTally.LastOutputSeq)
		}
	}
	r.first[by] = addFiltered(f, alone, seq, r.output)
	for i := range outside {
		if addFiltered(f, outside[i].combination, seq, r.output) {
			r.firstWith = append(r.firstWith, outside[i].group)
		}
	}
}

// isKnown reports whether the row of a combination has any runs.
func isKnown(f *Deriver, id rowstore.Identity) bool {
	_, _, known := f.Rows.NewestVersion(CombinationsDimension, id[:])
	return known
}

// addFiltered adds a run to a combination and reports whether it is the first run in the combination's row.
// If it is, addFiltered also adds the combination to the filter.
func addFiltered(f *Deriver, id rowstore.Identity, seq, output uint64) (first bool) {
	first = !f.Filter().MayContain(id) || !isKnown(f, id) // the filter saves lookups, because most seeds are new
	if first {
		f.Filter().Add(id)
	}
	addTo(f, id, seq, output, first)
	return first
}

// addTo adds a run with the given output to the row of a combination.
func addTo(f *Deriver, id rowstore.Identity, seq, output uint64, first bool) {
	f.value = binary.AppendUvarint(f.value[:0], seq-output)
	if first {
		f.Rows.PutFirst(CombinationsDimension, id[:], seq, f.value)
	} else {
		f.Rows.Put(CombinationsDimension, id[:], seq, f.value)
	}
}

// CombinationRun is a run of a combination.
type CombinationRun struct {
	Seq uint64
	// OutputSeq identifies the run's output. It is the seq of the first run in the ledger with that output.
	OutputSeq uint64
}

// CombinationRuns yields the runs of a combination at or after seq from, oldest first. While only one run has
// the combination's input, the row can be missing. That run is then found only if input is the group of
// that input (of its InputIdentity for InputModeSeedless, of its input_hash for InputModeHash), and the
// combination is one without a label or a build. A caller that compares two combinations with the same
// input passes zero: if both have runs, their rows exist.
func CombinationRuns(v *index.View, combination, input rowstore.Identity, from uint64) iter.Seq2[CombinationRun, error] {
	return func(yield func(CombinationRun, error) bool) {
		if input != (rowstore.Identity{}) {
			g, err := NewestVersion(v, input)
			if err != nil {
				yield(CombinationRun{}, err)
				return
			}
			if only := &g.AllTally; only.Runs == 1 {
				if only.first >= from && g.deferred.alone() == combination {
					yield(CombinationRun{only.first, only.LastOutputSeq}, nil)
				}
				return
			}
		}
		for version, err := range v.VersionsOldestFirst(CombinationsDimension, combination[:], from) {
			run := CombinationRun{Seq: version.Seq}
			if err == nil {
				run.OutputSeq, err = outputSeqOf(version)
			}
			if !yield(run, err) || err != nil {
				return
			}
		}
	}
}

// outputSeqOf returns the output of the run that wrote v, a version in CombinationsDimension.
func outputSeqOf(v rowstore.Version) (uint64, error) {
	before, n := binary.Uvarint(v.Value)
	if n <= 0 || before > v.Seq {
		return 0, fmt.Errorf("%w: cannot decode the combination at event %d", rowstore.ErrDamaged, v.Seq)
	}
	return v.Seq - before, nil
}
