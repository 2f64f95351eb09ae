package pack

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
)

const origin = "ledger.example/pack"

// log is a small log whose signing key the test knows, so that the test can sign entries that no
// real ledger would sign.
type log struct {
	t        testing.TB
	signer   *proofs.Signer
	entries  [][]byte
	tip      proofs.Hash
	contents map[string][]byte // keyed by hexadecimal digest
}

func newLog(t testing.TB, seed byte) *log {
	t.Helper()
	signer, err := proofs.NewKey([32]byte{seed}).Signer(origin)
	require.NoError(t, err)
	l := &log{t: t, signer: signer, contents: make(map[string][]byte)}
	l.event(record.AppendLedgerCreated(nil, l.by("system"), origin, signer.Verifier().String(), nil))
	return l
}

func (l *log) by(actor string) record.EventContext {
	return record.EventContext{Actor: actor, Ledger: "default"}
}

// event completes body, which is the result of an AppendBodyPrefix method, with a seq and a time,
// and appends it to the log as an event.
func (l *log) event(body []byte) {
	seq := uint64(len(l.entries))
	l.entry(proofs.AppendEntry(nil, l.tip, record.AppendBodySuffix(body, seq, time.Unix(1767323045+int64(seq), 0))))
}

// entry appends arbitrary bytes as an entry.
func (l *log) entry(entry []byte) {
	l.entries = append(l.entries, entry)
	if len(entry) >= proofs.HashSize {
		l.tip = proofs.EventHash(proofs.Hash(entry[:proofs.HashSize]), entry[proofs.HashSize:])
	}
}

// record parses a posted record, appends it to the log, and keeps its content.
func (l *log) record(kind record.Kind, posted string) {
	l.t.Helper()
	r, err := record.Parse(kind, []byte(posted))
	require.NoError(l.t, err)
	l.keep(r)
}

// line decodes a line of a batch, and appends the line's record to the log.
func (l *log) line(text []byte) {
	l.t.Helper()
	line, err := record.ParseBatchLine(text)
	require.NoError(l.t, err)
	l.keep(line.Record)
}

func (l *log) keep(r *record.Record) {
	defer r.Release()
	l.event(r.AppendBodyPrefix(nil, l.by("lab")))
	for _, c := range r.Contents {
		l.contents[hex.EncodeToString(c.Digest[:])] = append([]byte{}, c.Bytes...)
	}
}

func (l *log) action(v *record.Action, err error) {
	l.t.Helper()
	require.NoError(l.t, err)
	l.event(v.AppendBodyPrefix(nil, l.by("lab")))
}

// subtree returns the root of the tree over leaves (RFC 6962, section 2.1).
func subtree(leaves []proofs.Hash) proofs.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := split(len(leaves))
	return proofs.NodeHash(subtree(leaves[:k]), subtree(leaves[k:]))
}

// path returns the inclusion path of leaf i.
func path(leaves []proofs.Hash, i int) []proofs.Hash {
	if len(leaves) == 1 {
		return nil
	}
	if k := split(len(leaves)); i < k {
		return append(path(leaves[:k], i), subtree(leaves[k:]))
	} else {
		return append(path(leaves[k:], i-k), subtree(leaves[:k]))
	}
}

// split returns the largest power of two smaller than n.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

func (l *log) leaves() []proofs.Hash {
	leaves := make([]proofs.Hash, len(l.entries))
	for i, entry := range l.entries {
		leaves[i] = proofs.LeafHash(entry)
	}
	return leaves
}

func (l *log) checkpoint() []byte {
	l.t.Helper()
	signed, err := l.signer.Sign(proofs.Checkpoint{Origin: origin, Size: uint64(len(l.entries)), Root: subtree(l.leaves())})
	require.NoError(l.t, err)
	return signed
}

// pack returns a pack of the events with the given seqs, including the content of those that are
// not redacted. redacted maps the seq of each redacted event to the seq of the event that redacts
// it.
func (l *log) pack(redacted map[uint64]uint64, seqs ...uint64) *Pack {
	l.t.Helper()
	p := New("default", "2026-01-02T03:04:05Z", []string{l.signer.Verifier().String()}, l.checkpoint())
	for _, seq := range seqs {
		r := PackedEvent{Seq: seq, Entry: l.entries[seq], InclusionHashes: []string{}}
		for _, h := range path(l.leaves(), int(seq)) {
			r.InclusionHashes = append(r.InclusionHashes, hex.EncodeToString(h[:]))
		}
		if by, ok := redacted[seq]; ok {
			r.RedactedBy = &by
		} else {
			for _, found := range contentDigest.FindAllSubmatch(l.entries[seq], -1) {
				if content, kept := l.contents[string(found[1])]; kept {
					p.Contents[string(found[1])] = content
				}
			}
		}
		p.Events = append(p.Events, r)
	}
	return p
}

func (l *log) all() (seqs []uint64) {
	for i := range l.entries {
		seqs = append(seqs, uint64(i))
	}
	return seqs
}

// contentDigest matches a digest of content in an event.
var contentDigest = regexp.MustCompile(`"sha256":"([0-9a-f]{64})"`)

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// Texts of the records in the example log.
const (
	payload      = `{"q": "Who keeps the lighthouse?", "n": [1, 2.50, 1e5, -0.0, 1e-7], "ä": "\u00e9", "\ud83d\ude00": true}`
	systemPrompt = "  Be brief. \n\tNever guess. \u0085 "
	output       = " Ana Varga  keeps it.\n"
	answer       = "Ana Varga."
	messages     = `[{"role": "user", "content": "Who keeps the lighthouse?"}]`
	chunk        = "Ana Varga keeps\u00a0 the light."
)

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// example returns a log with events of every kind, 13 in all. Event 7 redacts the content of
// event 6.
func example(t testing.TB) *log {
	l := newLog(t, 1)
	l.record(record.KindIPCRecord, `{"run_id":"answer/311","payload":`+payload+`,"system_prompt":`+quoted(systemPrompt)+`,"output":`+quoted(output)+`,"model":"gemma2:2b",`+
		`"temperature":0,"max_tokens":64,"seed":7,"output_hash":"`+zeros+`","labels":{"user":"ann"},"environment":{"ollama_build_hash":"b","model_digest":"m","host_platform":"linux"}}`)
	l.record(record.KindRunDAG, `{"run_id":"answer/311","question":"Who keeps the lighthouse?","messages":`+messages+`,"policy":{"top_p":1.0},"inputs":{"context_root":"`+zeros+
		`","answer_text":"`+answer+`","audit_mode":"STRICT","verifier_method":"exact_quote","n_quotes":1,"n_verified":1,"sources":[{"score":0.92}],"lookup_path":"retrieval"}}`)
	l.record(record.KindRunDAG, `{"answer_text":"`+answer+`","dag":{"root":"`+zeros+`","nodes":[{"stage":"question","hash":"`+zeros+`"},{"stage":"answer","hash":"`+zeros+`"},`+
		`{"stage":"answer","hash":"`+zeros+`"}]}}`)
	l.record(record.KindCitationSet, `{"subject":"question/311","citations":[{"source_id":"register","text":`+quoted(chunk)+`,"weight":0.5},`+
		`{"source_id":"letters","chunk_hash":"sha256:`+zeros+`","weight":1,"section":"Keeper"}]}`)
	l.record(record.KindPathFingerprint, `{"project":"harbour","route":["Start","Quay"],"content":"The [[quay]]."}`)
	l.record(record.KindIPCRecord, `{"payload":{"seed":1},"output":"A secret.","model":"m","temperature":0.5,"max_tokens":16}`)
	seqs := new(seqs.List)
	require.True(t, seqs.Append(6))
	l.event(record.NewRedaction("Asked for.", seqs).AppendBodyPrefix(nil, l.by("admin")))
	l.action(record.ParseStateChange(1, []byte(`{"state":"stale","reason":"The keeper has changed."}`)))
	validation := &record.ValidationRequest{Validated: true}
	l.action(validation.ActionFor(record.LatestPathRecord{Project: "harbour", PathID: "0cc175b9", ContentFingerprint: "01234567", RecordSeq: 5}), nil)
	l.action(record.ParseSourceRegistration("register", []byte(`{"title":"The harbour’s register"}`)))
	l.action(record.ParseSourceRevocation("register", nil))
	refused, err := record.Parse(record.KindIPCRecord, []byte(`{"payload":{},"model":"m","temperature":0,"max_tokens":1,"input_hash":"`+zeros+`"}`))
	require.NoError(t, err)
	l.event(refused.AppendRefusal(nil, l.by("lab"), record.RefusalMismatch, 0))
	refused.Release()
	return l
}

// examplePack returns a pack of all events in the example log.
func examplePack(t testing.TB) *Pack {
	l := example(t)
	return l.pack(map[uint64]uint64{6: 7}, l.all()...)
}
