package effects

import (
	"context"

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
}

// Derive implements Deriver.
func (f *deriver) Derive(_ context.Context, e *index.Event) error {
	if e.Kind == record.KindIPCRecord {
		f.writeCombinations(e.Seq, &e.IPC)
	}
	return nil
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
	if !f.groups.Filter().MayContain(id) {
		return false
	}
	_, _, known := f.Rows.NewestVersion(valueCombinations, id[:])
	return known
}

// addCombination adds the first run of a combination to the list for a value.
func (f *deriver) addCombination(d rowstore.Dimension, id rowstore.Identity, seq uint64) {
	if filter := f.groups.Filter(); !filter.MayContain(id) { // the filter saves lookups, because most seeds are new
		filter.Add(id)
		f.Rows.PutFirst(d, id[:], seq, nil)
		return
	}
	f.Rows.Put(d, id[:], seq, nil)
}
