package index

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"colophon/ledger/event"
)

// Names of the variables of an ipc_id that runs are not grouped by.
const (
	temperatureName = "temperature"
	maxTokensName   = "max_tokens"
	seedName        = "seed"
)

// appendIPCID appends the ipc_id that a run's other fields have by 1.3, in
// hexadecimal; nothing if one of them is not known.
func appendIPCID(dst []byte, ipc *event.IPC) []byte {
	var scratch [512]byte
	joined := scratch[:0]
	for i, part := range [...][]byte{ipc.InputHash, ipc.SystemPromptHash, ipc.Model, ipc.Temperature, ipc.MaxTokens, ipc.Seed} {
		if part == nil {
			return dst
		}
		if i > 0 {
			joined = append(joined, ':')
		}
		joined = append(joined, part...)
	}
	sum := sha256.Sum256(joined)
	return hex.AppendEncode(dst, sum[:])
}

// writeConditions lists the first run that shows what an ipc_id stands for under
// those of the id's variables that runs are not grouped by: groups have that list
// in their own rows.
func (f *fold) writeConditions(seq uint64, ipc *event.IPC) {
	for at, variable := range [...]struct {
		name  string
		value []byte
	}{{temperatureName, ipc.Temperature}, {maxTokensName, ipc.MaxTokens}, {seedName, ipc.Seed}} {
		id := f.conditions.posting(at, variable.name, variable.value).id
		if !f.known().MayHave(id) { // most seeds are new
			f.known().Add(id)
			f.rows.Start(conditions, id[:], seq, []byte{1})
			continue
		}
		_, value, _ := f.rows.Newest(conditions, id[:])
		members, _ := binary.Uvarint(value) // 0 of nothing
		f.value = binary.AppendUvarint(f.value[:0], members+1)
		f.rows.Put(conditions, id[:], seq, f.value)
	}
}
