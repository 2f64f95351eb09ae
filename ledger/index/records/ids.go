package records

import (
	"crypto/sha256"
	"encoding/hex"

	"colophon/ledger/event"
)

// AppendIPCID appends the ipc_id that a run's other fields have (spec: IPC hashes), in
// hexadecimal; nothing if one of them is not known.
func AppendIPCID(dst []byte, ipc *event.IPC) []byte {
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
