package pack

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
)

// tampering is a pack that must not verify, with the errors that Verify and the page must report.
type tampering struct {
	pack *Pack
	err  error
	says string // part of the text that the page must show
}

// changed returns the example pack after applying change to it.
func changed(t testing.TB, change func(p *Pack)) *Pack {
	p := examplePack(t)
	change(p)
	return p
}

// digestOf returns the digest of a piece of content in a pack.
func digestOf(t testing.TB, p *Pack, content string) string {
	t.Helper()
	for digest, bytes := range p.Contents {
		if string(bytes) == content {
			return digest
		}
	}
	require.Fail(t, "no such content", content)
	return ""
}

// tamperings returns packs that were modified without the signing key, and packs from ledgers that
// signed false statements. They are keyed by what is wrong with them.
func tamperings(t testing.TB) map[string]tampering {
	list := map[string]tampering{
		"an entry's byte":  {changed(t, func(p *Pack) { p.Events[3].Entry[100] ^= 1 }), proofs.ErrInclusion, "the path does not lead to the signed root"},
		"the event before": {changed(t, func(p *Pack) { p.Events[3].Entry[0] ^= 1 }), proofs.ErrInclusion, "but event 2 is"},
		"two entries swapped": {changed(t, func(p *Pack) {
			p.Events[3].Entry, p.Events[4].Entry = p.Events[4].Entry, p.Events[3].Entry
		}), proofs.ErrInclusion, "the event's own number is another one"},
		"two records swapped": {changed(t, func(p *Pack) { p.Events[3], p.Events[4] = p.Events[4], p.Events[3] }), proofs.ErrMalformed, "not in their order"},
		"a record twice":      {changed(t, func(p *Pack) { p.Events = slices.Insert(p.Events, 3, p.Events[3]) }), proofs.ErrMalformed, "not in their order"},
		"another place":       {changed(t, func(p *Pack) { p.Events = p.Events[:1]; p.Events[0].Seq = 1 }), proofs.ErrInclusion, "does not lead"},
		"beyond the end":      {changed(t, func(p *Pack) { p.Events[12].Seq = 13 }), proofs.ErrInclusion, "beyond the end"},
		"a path's hash": {changed(t, func(p *Pack) {
			p.Events[2].InclusionHashes[1] = strings.Repeat("ab", 32)
		}), proofs.ErrInclusion, "the path does not lead to the signed root"},
		"a path cut short": {changed(t, func(p *Pack) { p.Events[2].InclusionHashes = p.Events[2].InclusionHashes[:2] }), proofs.ErrInclusion, "its path in the tree is too short"},
		"a path too long": {changed(t, func(p *Pack) {
			p.Events[2].InclusionHashes = append(p.Events[2].InclusionHashes, p.Events[2].InclusionHashes...)
		}), proofs.ErrInclusion, "its path in the tree is too long"},
		"a path of no hashes": {changed(t, func(p *Pack) { p.Events[2].InclusionHashes[0] = "xyz" }), proofs.ErrMalformed, "a hash is not 64"},
		"the size signed":     {changed(t, func(p *Pack) { p.Checkpoint = strings.Replace(p.Checkpoint, "\n13\n", "\n14\n", 1) }), proofs.ErrSignature, "the signature does not hold"},
		"the signature":       {changed(t, func(p *Pack) { p.Checkpoint = flip(p.Checkpoint, len(p.Checkpoint)-20) }), proofs.ErrSignature, "the signature does not hold"},
		"no signature":        {changed(t, func(p *Pack) { p.Checkpoint = p.Checkpoint[:strings.Index(p.Checkpoint, "\n\n")+1] }), proofs.ErrMalformed, "the checkpoint is malformed"},
		"another log's name":  {changed(t, func(p *Pack) { p.Checkpoint = strings.Replace(p.Checkpoint, "— ledger", "— edger", 1) }), proofs.ErrWrongKey, "signed with another key"},
		"another ledger":      {changed(t, func(p *Pack) { p.Ledger = "other" }), proofs.ErrFieldMismatch, "the event is of another ledger"},
		"words for a time":    {changed(t, func(p *Pack) { p.ExportedAt = "today. ✓ Verified: signed by the ledger" }), proofs.ErrMalformed, "the pack does not say when it was made"},
		"no such time":        {changed(t, func(p *Pack) { p.ExportedAt = "2026-13-02T03:04:05Z" }), proofs.ErrMalformed, "the pack does not say when it was made"},
		"a time elsewhere":    {changed(t, func(p *Pack) { p.ExportedAt = "2026-01-02T03:04:05+01:00" }), proofs.ErrMalformed, "the pack does not say when it was made"},
		"a word for content":  {changed(t, func(p *Pack) { p.ContentStatus = "constructor" }), proofs.ErrMalformed, "the pack does not say whether it has content"},
		"no word for content": {changed(t, func(p *Pack) { p.ContentStatus = "" }), proofs.ErrMalformed, "the pack does not say whether it has content"},
		"no records":          {changed(t, func(p *Pack) { p.Events = []PackedEvent{} }), proofs.ErrMalformed, "the pack has no records"},
		"a text's byte":       {changed(t, func(p *Pack) { p.Contents[digestOf(t, p, answer)][0] ^= 1 }), ErrContentMismatch, "they were changed"},
		"a text cut short":    {changed(t, func(p *Pack) { d := digestOf(t, p, answer); p.Contents[d] = p.Contents[d][1:] }), ErrContentMismatch, "they were changed"},
		"two texts swapped": {changed(t, func(p *Pack) {
			a, b := digestOf(t, p, answer), digestOf(t, p, messages)
			p.Contents[a], p.Contents[b] = p.Contents[b], p.Contents[a]
		}), ErrContentMismatch, "they were changed"},
		"a text that no record names": {changed(t, func(p *Pack) { p.Contents[strings.Repeat("ab", 32)] = []byte("x") }), ErrContentMismatch, "no record names the content"},
		"a text of a prototype":       {changed(t, func(p *Pack) { p.Contents["__proto__"] = []byte("x") }), ErrContentMismatch, "no record names the content"},
		"a text of a constructor":     {changed(t, func(p *Pack) { p.Contents["constructor"] = []byte("x") }), ErrContentMismatch, "no record names the content"},
		"an erasure without event":    {changed(t, func(p *Pack) { by := uint64(99); p.Events[6].RedactedBy = &by }), ErrContentMismatch, "is not in this file"},
		"an erasure by another":       {changed(t, func(p *Pack) { by := uint64(8); p.Events[6].RedactedBy = &by }), ErrContentMismatch, "event 8 did not erase the content"},
		"an erasure that never was":   {changed(t, func(p *Pack) { by := uint64(7); p.Events[5].RedactedBy = &by }), ErrContentMismatch, "event 7 did not erase the content"},
	}
	for name, forged := range forgeries(t) {
		list[name] = forged
	}
	return list
}

func flip(text string, i int) string {
	b := []byte(text)
	if b[i]++; b[i] == 'z'+1 || b[i] == '9'+1 || b[i] == 'Z'+1 {
		b[i] -= 2
	}
	return string(b)
}

// forgeries returns invalid packs whose checkpoints are signed with the log's own key.
func forgeries(t testing.TB) map[string]tampering {
	broken := newLog(t, 1)
	broken.tip[0] ^= 1
	broken.record(record.KindPathFingerprint, `{"project":"p","route":["a"]}`)

	first := &log{t: t, signer: broken.signer, contents: map[string][]byte{}, tip: proofs.Hash{1}}
	first.event(record.AppendLedgerCreated(nil, first.by("system"), origin, "k", nil))

	misplaced := newLog(t, 1)
	misplaced.entry(misplaced.entries[0])

	spelled := newLog(t, 1)
	spelled.entry(append(slices.Clone(spelled.tip[:]), `{"actor": "lab","kind":"ipc_record","ledger":"default","record":{},"seq":1,"time":"t"}`...))

	empty := newLog(t, 1)
	empty.entry([]byte("x"))

	unchecked := make(map[string]*Pack) // packs with a false hash, in events of a form that could prevent its check
	for name, change := range map[string][2]string{
		"rules":     {`"rules":1`, `"rules":2`},
		"version":   {`"v":1}`, `"v":2}`},
		"no rules":  {`"rules":1,`, ``},
		"kind":      {`"kind":"ipc_record"`, `"kind":"ipc_records"`},
		"prototype": {`"kind":"ipc_record"`, `"kind":"constructor"`},
		"time":      {`"time":"2026-01-02T`, `"time":"2026-02-30T`},
		"no time":   {`"time":"2026-01-02T`, `"time":"today`},
	} {
		l := example(t)
		falseHash(t, l, 1, "input_hash")
		require.Contains(t, string(l.entries[1]), change[0])
		l.entries[1] = bytes.Replace(l.entries[1], []byte(change[0]), []byte(change[1]), 1)
		unchecked[name] = l.pack(nil, 1)
	}

	return map[string]tampering{
		"rules of another version":       {unchecked["rules"], proofs.ErrMalformed, "rules that this page does not know"},
		"an event without rules":         {unchecked["no rules"], proofs.ErrMalformed, "rules that this page does not know"},
		"an event of another version":    {unchecked["version"], proofs.ErrMalformed, "a version that this page does not know"},
		"an unknown kind":                {unchecked["kind"], proofs.ErrMalformed, "a kind that this page does not know"},
		"a kind of a prototype":          {unchecked["prototype"], proofs.ErrMalformed, "a kind that this page does not know"},
		"a day that does not exist":      {unchecked["time"], proofs.ErrMalformed, "not a time of the ledger"},
		"a word for the event's time":    {unchecked["no time"], proofs.ErrMalformed, "not a time of the ledger"},
		"a chain broken and signed":      {broken.pack(nil, 0, 1), proofs.ErrChainLink, "but event 0 is"},
		"a first event that follows one": {first.pack(nil, 0), proofs.ErrChainLink, "the first event names an event before it"},
		"an event at another place":      {misplaced.pack(nil, 1), proofs.ErrFieldMismatch, "the event's own number is another one"},
		"an event in another spelling":   {spelled.pack(nil, 1), proofs.ErrMalformed, "not in its canonical form"},
		"an entry without event":         {empty.pack(nil, 1), proofs.ErrMalformed, "the entry holds no event"},
		"a log of another key":           {another(t), proofs.ErrWrongKey, "signed with another key"},
	}
}

// another returns a pack of the example log, signed by a different signer whose key the pack
// contains.
func another(t testing.TB) *Pack {
	l := example(t)
	signer, err := proofs.NewKey([32]byte{2}).Signer(origin)
	require.NoError(t, err)
	l.signer = signer
	return l.pack(map[uint64]uint64{6: 7}, 0, 1, 2, 3, 4, 5, 6, 7)
}

// falseHashes returns packs from ledgers that signed hashes that do not match the content, keyed by
// the name of the false hash.
func falseHashes(t testing.TB) map[string]*Pack {
	list := make(map[string]*Pack)
	for name, seq := range map[string]int{"input_hash": 1, "system_prompt_hash": 1, "output_hash": 1, "ipc_id": 1, "ipc_id_advanced": 1,
		"root": 2, "conversation_hash": 2, "governance_policy_hash": 2, "nodes/4": 2, "citations/0": 4} {
		list[name] = falseHash(t, example(t), seq, name)
	}
	l, _ := allSorts(t)
	list["nodes/1"] = falseHash(t, l, len(l.entries)-1, "nodes/1") // the event of this run lacks some of the run's texts
	return list
}

// falseHash returns a pack that contains only the event at seq, with the named hash replaced by a
// false one.
func falseHash(t testing.TB, l *log, seq int, name string) *Pack {
	entry := string(l.entries[seq])
	at := hashOffset(entry, name)
	require.NotEqual(t, entry[at:at+64], strings.Repeat("ab", 32))
	l.entries[seq] = []byte(entry[:at] + strings.Repeat("ab", 32) + entry[at+64:])
	return l.pack(nil, uint64(seq))
}

// hashOffset returns the offset in entry of the hexadecimal digits of the named hash.
func hashOffset(entry, name string) int {
	switch name {
	case "nodes/1", "nodes/4":
		return strings.Index(entry, `","stage":"answer"}`) - 64
	case "citations/0":
		return strings.Index(entry, `"sha256:`) + len(`"sha256:`)
	}
	name += `":"`
	return strings.LastIndex(entry, `"`+name) + len(name) + 1
}
