package effects

import (
	"context"

	"colophon/internal/bloom"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Names of the variables that do not form groups of runs.
const (
	temperatureName = "temperature"
	maxTokensName   = "max_tokens"
	seedName        = "seed"
)

// deriver writes a list of combinations for each value of temperature, max_tokens, and seed, and
// for each payload member.
type deriver struct {
	*index.Fold
	groups     *groups.Deriver
	identities [3]records.PostingCache

	// touched contains the lists to which events of the current block have added combinations. It is nil
	// if the fold began in the middle of the block.
	touched *bloom.Filter
}

// blockEvents is the number of events in a block. No version run of a list contains versions from
// several blocks. So the fold need not read a list that no event of the block has added to: it begins a new
// run. If values recur rarely, as many values of payload members do, reading would take one disk access
// for each value. Lists that many events of a block add to are in the row cache.
const blockEvents = 1 << 14

// Derive implements Deriver.
func (f *deriver) Derive(_ context.Context, e *index.Event) error {
	f.enterBlock(e.Seq)
	if e.Kind == record.KindIPCRecord {
		f.writeCombinations(e.Seq, &e.IPC)
	}
	return nil
}

// enterBlock empties touched if the event at seq is the first event of a block.
func (f *deriver) enterBlock(seq uint64) {
	if seq%blockEvents != 0 {
		return
	}
	f.Release()
	f.touched = bloom.New(bloom.SharedReserveFunc(f.FilterBytesLeft))
}

// Release implements index.Releaser.
func (f *deriver) Release() {
	if f.touched != nil {
		f.touched.Release()
		f.touched = nil
	}
}

// writeCombinations adds the first run of a combination to the lists for its temperature, max_tokens,
// and seed, and for its payload members. For all other variables, package groups writes these lists.
func (f *deriver) writeCombinations(seq uint64, ipc *event.IPC) {
	for at, variable := range [...]struct {
		name   string
		value  []byte
		listed bool // the variable has few values, so the index always lists them
	}{{temperatureName, ipc.Temperature, true}, {maxTokensName, ipc.MaxTokens, true}, {seedName, ipc.Seed, false}} {
		if variable.value == nil || !f.groups.IsFirstOfCombination(inputIn(variable.name)) {
			continue
		}
		id := f.identities[at].Posting(0, variable.name, variable.value).ID
		if variable.listed && !f.isKnown(id) {
			groups.AddValue(f.groups, variable.name, seq, variable.value)
		}
		f.addCombination(valueCombinations, id, seq)
	}
	if f.groups.IsFirstOfCombination(groups.InputModeMembers) {
		for _, digest := range ipc.MemberDigests.All() {
			f.addCombination(memberCombinations, memberID(digest), seq)
		}
	}
}

// isKnown reports whether any combination has the value with the given identity.
func (f *deriver) isKnown(id rowstore.Identity) bool {
	_, _, known := f.Rows.NewestVersion(valueCombinations, id[:])
	return known
}

// addCombination adds the first run of a combination to the list for a value.
func (f *deriver) addCombination(d rowstore.Dimension, id rowstore.Identity, seq uint64) {
	if f.touched == nil || f.touched.MayContain(id) {
		f.Rows.PutSince(d, id[:], seq, nil, seq-seq%blockEvents)
		return
	}
	f.touched.Add(id)
	f.Rows.PutFirst(d, id[:], seq, nil)
}
