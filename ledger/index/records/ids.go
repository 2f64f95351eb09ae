package records

import (
	"crypto/sha256"
	"encoding/hex"

	"colophon/ledger/event"
)

// AppendIPCID appends the ipc_id that follows from a run's other fields (spec: IPC hashes), in
// hexadecimal. It appends nothing if one of them is unknown.
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
