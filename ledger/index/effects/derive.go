package effects

import (
	"context"
	"encoding/binary"

	"colophon/internal/bloom"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Names of the variables of an ipc_id by which runs are not grouped.
const (
	temperatureName = "temperature"
	maxTokensName   = "max_tokens"
	seedName        = "seed"
)

// deriver writes which ipc_ids have which values of these variables.
type deriver struct {
	*index.Fold
	groups     *groups.Deriver
	identities records.Identities
	value      []byte // scratch
}

// Derive implements Deriver.
func (f *deriver) Derive(_ context.Context, e *index.Event) error {
	if e.Kind == record.IPCRecord && f.groups.FirstVerified(e) {
		f.writeConditions(e.Seq, &e.IPC)
	}
	return nil
}

// writeConditions adds the first verified run of an ipc_id to the lists of its temperature,
// max_tokens, and seed. For the other variables, groups have that list in their versions.
func (f *deriver) writeConditions(seq uint64, ipc *event.IPC) {
	for at, variable := range [...]struct {
		name  string
		value []byte
	}{{temperatureName, ipc.Temperature}, {maxTokensName, ipc.MaxTokens}, {seedName, ipc.Seed}} {
		id := f.identities.Posting(at, variable.name, variable.value).ID
		if !f.groups.Filter().MayContain(id) { // most seeds are new
			f.groups.Filter().Add(id)
			f.Rows.Start(conditions, id[:], seq, []byte{1})
			continue
		}
		_, value, _ := f.Rows.Newest(conditions, id[:])
		members, _ := binary.Uvarint(value) // 0 if value is nil
		f.value = binary.AppendUvarint(f.value[:0], members+1)
		f.Rows.Put(conditions, id[:], seq, f.value)
	}
}

// loadConditions adds the rows of conditions to the filter.
func (f *deriver) loadConditions(filter *bloom.Filter) error {
	var last rowstore.Identity
	return f.Rows.Each(conditions, func(it *rowstore.Iterator) error {
		key := it.Key()
		if id := rowstore.Identity(key[len(key)-rowstore.VersionBytes-len(last) : len(key)-rowstore.VersionBytes]); id != last {
			filter.Add(id)
			last = id
		}
		return nil
	})
}
