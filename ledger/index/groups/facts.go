package groups

import (
	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// factCount is the number of facts of a run: its variables except the input.
const factCount = 8

// facts returns pointers to a run's facts, in a fixed order.
func facts(ipc *event.IPC) [factCount]*[]byte {
	return [factCount]*[]byte{&ipc.SystemPromptHash, &ipc.Model, &ipc.Temperature, &ipc.MaxTokens, &ipc.Seed,
		&ipc.OllamaBuildHash, &ipc.ModelDigest, &ipc.HostPlatform}
}

// A fact is encoded as its length followed by its text. If the text is longer than longestFact, it
// is encoded as identityFact followed by the text's identity. An unknown fact is encoded as
// unknownFact alone.
const (
	longestFact  = 24
	identityFact = longestFact + 1
	unknownFact  = longestFact + 2
)

// The first byte of encoded facts records whether the run has a payload, and whether the payload
// contains the seed. Runs in the same input group have equal inputs, except that one may have the
// seed in its payload while another has only input_hash.
const (
	onlyHash byte = iota
	payload
	payloadWithSeed
)

// appendFacts appends the encoded facts of a run to dst. Two encodings are equal if and only if the
// facts are equal.
func appendFacts(dst []byte, ipc *event.IPC) []byte {
	switch {
	case !ipc.HasPayload:
		dst = append(dst, onlyHash)
	case ipc.SeedlessInputHash == nil:
		dst = append(dst, payload)
	default:
		dst = append(dst, payloadWithSeed)
	}
	for _, fact := range facts(ipc) {
		switch text := *fact; {
		case text == nil:
			dst = append(dst, unknownFact)
		case len(text) <= longestFact:
			dst = append(append(dst, byte(len(text))), text...)
		default:
			id := rowstore.IdentityOf(text)
			dst = append(append(dst, identityFact), id[:]...)
		}
	}
	return dst
}

// DecodeRunFacts decodes the facts of a run, which are its variables except the input. The result
// can stand in for that run in comparisons with runs that have the same input. It has no output,
// and it shares memory with encoded.
func DecodeRunFacts(encoded []byte) event.IPC {
	var ipc event.IPC
	if len(encoded) == 0 {
		return ipc
	}
	seedless, whole := []byte("seedless"), []byte("whole")
	ipc.InputHash, ipc.HasPayload = seedless, encoded[0] != onlyHash
	if encoded[0] == payloadWithSeed {
		ipc.InputHash, ipc.SeedlessInputHash = whole, seedless
	}
	encoded = encoded[1:]
	for _, fact := range facts(&ipc) {
		if len(encoded) == 0 {
			return event.IPC{}
		}
		size := 1
		switch encoded[0] {
		case unknownFact:
			encoded = encoded[1:]
			continue
		case identityFact:
			size += len(rowstore.Identity{})
		default:
			size += int(encoded[0])
		}
		size = min(size, len(encoded))
		*fact, encoded = encoded[:size:size], encoded[size:]
	}
	return ipc
}
