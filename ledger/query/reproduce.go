package query

import (
	"errors"
	"fmt"
	"slices"

	"colophon/client/wire"
	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/storage"
)

// Reproduction is the question whether a re-run reproduced a record (spec: Causes). It has no
// path, because its request has a body. The path element seq names the record.
var Reproduction = Question{Takes: Proofs, Seqs: []string{"seq"}}

// Reproduce compares the IPC record at seq with its re-run, which rerun returns.
func Reproduce(v *View, seq uint64, rerun func(*records.IPCRecord) (event.IPC, error)) (*wire.Reproduction, error) {
	recorded, err := records.ReadIPCRecord(v.Context, v.View, seq)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, &Error{WrongKind, "seq", fmt.Sprintf("event %d is not an IPC record among the first %d events", seq, v.Size())}
	}
	if err != nil {
		return nil, err
	}
	again, err := rerun(&recorded)
	if err != nil {
		return nil, err
	}
	found := drift.Attribute(&recorded.IPC, &again, drift.Sets{})
	answer := &wire.Reproduction{
		Record: generation(v, &recorded), IPCID: hashPair(recorded.IPCID, again.IPCID), OutputHash: hashPair(recorded.OutputHash, again.OutputHash),
		Cause: wire.Cause(found.Cause), OutputChanged: found.OutputChanged, Differences: differences(&found),
	}
	answer.Says = verdict(answer) + found.Sentence()
	answer.View, err = v.tree()
	return answer, err
}

func hashPair(recorded, rerun []byte) wire.HashPair {
	return wire.HashPair{Recorded: index.TextOf(recorded), Rerun: index.TextOf(rerun), Match: recorded != nil && string(recorded) == string(rerun)}
}

// verdict states the result of the comparison. The text is empty or ends with a space.
func verdict(r *wire.Reproduction) string {
	same := !slices.ContainsFunc(r.Differences, func(d wire.Difference) bool { return !drift.IsEnvironment(d.Variable) })
	switch {
	case r.Cause == wire.CauseIncomplete:
		return ""
	case r.OutputHash.Match && same:
		return "Reproduced: the same input and conditions gave the same output. "
	case r.OutputHash.Match:
		return "The output is the same, but it was made under other conditions, which proves little. "
	case same:
		return "Not reproduced: the input and conditions are the same, the output is not. "
	}
	return "Not a reproduction: the conditions differ, and so does the output. "
}
