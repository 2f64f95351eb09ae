package proofs

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"
)

// testBodies contains canonical event bodies of several kinds, in which %d stands for the seq.
var testBodies = []string{
	`{"actor":"anonymous","checks":{},"kind":"ledger_created","ledger":"default","record":{"origin":"ledger.example/default","verifier_key":"k"},"rules":1,"seq":%d,"time":"2026-01-02T03:04:05.000006Z","v":1}`,
	`{"actor":"lab","checks":{"input_hash":{"claimed":"ab","result":"match"},"output_hash":{"claimed":null,"computed":"cd","result":"mismatch"}},"kind":"ipc_record","ledger":"default","record":{"hashes":{"input_hash":"ab","ipc_id":null},"model":"größe \"q\" → 本","temperature":0.5567145751186541},"rules":1,"seq":%d,"time":"2026-01-02T03:04:05.000007Z","v":1}`,
	`{"actor":"lab","kind":"path_validated","ledger":"second","record":{"validated":true},"rules":1,"seq":%d,"time":"2026-01-02T03:04:05.000008Z","v":1}`,
}

// testLog is a small log that has everything needed to issue receipts.
type testLog struct {
	signer  *Signer
	entries [][]byte
	prover  *Prover
}

func newTestLog(t testing.TB, size int) *testLog {
	t.Helper()
	l := &testLog{signer: testSigner(t, testOrigin, 1)}
	tree, err := OpenTree(0, nil, nil)
	require.NoError(t, err)
	var chain Chain
	store := newTileStore()
	for i := range size {
		body := fmt.Appendf(nil, testBodies[i%len(testBodies)], i)
		entry := AppendEntry(nil, chain.Tip, body)
		link, err := chain.Advance(entry)
		require.NoError(t, err)
		l.entries = append(l.entries, entry)
		tree.Append(link.LeafHash)
	}
	store.save(tree)
	l.prover = NewProver(tree.Snapshot(), nil, store.read)
	return l
}

func (l *testLog) checkpoint(t testing.TB, size uint64) []byte {
	t.Helper()
	root, err := l.prover.Root(size)
	require.NoError(t, err)
	signed, err := l.signer.Sign(Checkpoint{testOrigin, size, root})
	require.NoError(t, err)
	return signed
}

func (l *testLog) receipt(t testing.TB, seq, size uint64) *Receipt {
	t.Helper()
	r, err := NewReceipt(l.entries[seq])
	require.NoError(t, err)
	path, err := l.prover.InclusionProof(seq, size)
	require.NoError(t, err)
	r.Proof = &ReceiptProof{
		Event:      l.entries[seq][HashSize:],
		Inclusion:  InclusionProof{LeafIndex: seq, TreeSize: size, Hashes: path},
		Checkpoint: l.checkpoint(t, size),
	}
	return r
}

func TestReceiptsVerify(t *testing.T) {
	l := newTestLog(t, 9)
	for size := uint64(1); size <= 9; size++ {
		for seq := range size {
			r := l.receipt(t, seq, size)
			require.NoError(t, r.Verify(l.signer.Verifier()))
			text := r.AppendJSON(nil)
			parsed, err := ParseReceipt(text)
			require.NoError(t, err)
			require.Equal(t, r, parsed)
			require.Equal(t, text, parsed.AppendJSON(nil))
			require.NoError(t, parsed.Verify(testSigner(t, testOrigin, 2).Verifier(), l.signer.Verifier()))
		}
	}
}

// The JSON of a receipt, decoded by encoding/json, has the specified members (spec: Receipts).
func TestReceiptJSON(t *testing.T) {
	l := newTestLog(t, 5)
	r := l.receipt(t, 1, 5)
	text := r.AppendJSON([]byte("before"))
	require.Equal(t, "before", string(text[:6]))
	var got map[string]any
	require.NoError(t, json.Unmarshal(text[6:], &got))
	var event map[string]any
	require.NoError(t, json.Unmarshal(l.entries[1][HashSize:], &event))
	path := []any{}
	for _, h := range r.Proof.Inclusion.Hashes {
		path = append(path, hex.EncodeToString(h[:]))
	}
	require.Len(t, path, 3)
	require.Equal(t, map[string]any{
		"ledger": "default", "seq": 1.0, "kind": "ipc_record", "time": "2026-01-02T03:04:05.000007Z",
		"event_hash":      hex.EncodeToString(r.EventHash[:]),
		"prev_event_hash": hex.EncodeToString(l.entries[1][:HashSize]),
		"leaf_hash":       hex.EncodeToString(r.LeafHash[:]),
		"hashes":          event["record"].(map[string]any)["hashes"],
		"checks":          event["checks"],
		"incomplete":      []any{"system_prompt", "output", "max_tokens", "seed"},
		"event":           event,
		"inclusion":       map[string]any{"leaf_index": 1.0, "tree_size": 5.0, "hashes": path},
		"checkpoint":      string(r.Proof.Checkpoint),
	}, got)
	require.True(t, bytes.HasPrefix(text[6:], []byte(`{"ledger":"default","seq":1,"kind":`)))
}

func TestMinimalReceipts(t *testing.T) {
	l := newTestLog(t, 3)
	for _, entry := range l.entries {
		r, err := NewReceipt(entry)
		require.NoError(t, err)
		parsed, err := ParseReceipt(r.AppendJSON(nil))
		require.NoError(t, err)
		require.Equal(t, r, parsed)
		require.ErrorIs(t, parsed.Verify(l.signer.Verifier()), ErrNoProof)
		_, err = parsed.TlogProof()
		require.ErrorIs(t, err, ErrNoProof)
	}
	for _, body := range []string{
		`[]`, `{}`, `{"a": 1}`, `{"b":1,"a":1}`, `{"kind":"k","ledger":"l","seq":-1,"time":"t"}`,
		`{"kind":"k","ledger":"l","seq":1.0,"time":"t"}`, `{"kind":"k","ledger":null,"seq":1,"time":"t"}`,
		`{"checks":[],"kind":"k","ledger":"l","seq":1,"time":"t"}`, `{"kind":"k","ledger":"l","record":{"hashes":null},"seq":1,"time":"t"}`,
	} {
		_, err := NewReceipt(AppendEntry(nil, Hash{}, []byte(body)))
		require.ErrorIs(t, err, ErrMalformed, body)
	}
	minimal, err := NewReceipt(AppendEntry(nil, Hash{}, []byte(`{"kind":"k","ledger":"l","seq":1,"time":"t"}`)))
	require.NoError(t, err)
	require.Equal(t, "{}", string(minimal.Hashes))
	require.Equal(t, "{}", string(minimal.Checks))
}

// The error from Receipt.Verify identifies the check that a modified receipt fails: key, signature,
// origin, inclusion, chain link, or field.
func TestReceiptErrors(t *testing.T) {
	l := newTestLog(t, 9)
	foreign := testSigner(t, testOrigin, 2)
	resign := func(c Checkpoint, signer *Signer) []byte {
		signed, err := signer.Sign(c)
		require.NoError(t, err)
		return signed
	}
	root, err := l.prover.Root(9)
	require.NoError(t, err)
	cases := map[string]struct {
		change func(r *Receipt)
		want   error
	}{
		"foreign key": {func(r *Receipt) { r.Proof.Checkpoint = resign(Checkpoint{testOrigin, 9, root}, foreign) }, ErrWrongKey},
		"changed checkpoint": {func(r *Receipt) {
			r.Proof.Checkpoint = bytes.Replace(r.Proof.Checkpoint, []byte("\n9\n"), []byte("\n8\n"), 1)
		}, ErrSignature},
		"other origin": {func(r *Receipt) {
			r.Proof.Checkpoint = signText(t, "other.example"+string(r.Proof.Checkpoint[len(testOrigin):bytes.Index(r.Proof.Checkpoint, []byte("\n\n"))+1]), l.signer)
		}, ErrWrongOrigin},
		"broken checkpoint":    {func(r *Receipt) { r.Proof.Checkpoint = r.Proof.Checkpoint[1:] }, ErrSignature},
		"no checkpoint":        {func(r *Receipt) { r.Proof.Checkpoint = nil }, ErrMalformed},
		"older checkpoint":     {func(r *Receipt) { r.Proof.Checkpoint = l.checkpoint(t, 8) }, ErrInclusion},
		"other tree":           {func(r *Receipt) { r.Proof.Checkpoint = resign(Checkpoint{testOrigin, 9, testLeaf(1)}, l.signer) }, ErrInclusion},
		"changed event":        {func(r *Receipt) { r.Proof.Event = bytes.Replace(r.Proof.Event, []byte("lab"), []byte("lob"), 1) }, ErrChainLink},
		"event of another":     {func(r *Receipt) { r.Proof.Event = l.entries[7][HashSize:] }, ErrChainLink},
		"changed prev":         {func(r *Receipt) { r.PrevEventHash[5] ^= 1 }, ErrChainLink},
		"changed event_hash":   {func(r *Receipt) { r.EventHash[5] ^= 1 }, ErrChainLink},
		"changed leaf_hash":    {func(r *Receipt) { r.LeafHash[5] ^= 1 }, ErrChainLink},
		"changed seq":          {func(r *Receipt) { r.Seq++ }, ErrInclusion},
		"changed leaf_index":   {func(r *Receipt) { r.Proof.Inclusion.LeafIndex++ }, ErrInclusion},
		"changed both indexes": {func(r *Receipt) { r.Seq++; r.Proof.Inclusion.LeafIndex++ }, ErrInclusion},
		"changed tree_size":    {func(r *Receipt) { r.Proof.Inclusion.TreeSize++ }, ErrInclusion},
		"changed path":         {func(r *Receipt) { r.Proof.Inclusion.Hashes[1][0] ^= 1 }, ErrInclusion},
		"shorter path":         {func(r *Receipt) { r.Proof.Inclusion.Hashes = r.Proof.Inclusion.Hashes[1:] }, ErrInclusion},
		"changed ledger":       {func(r *Receipt) { r.Ledger = "second" }, ErrFieldMismatch},
		"changed kind":         {func(r *Receipt) { r.Kind = "run_dag" }, ErrFieldMismatch},
		"changed time":         {func(r *Receipt) { r.Time = "2026-01-02T03:04:05.000008Z" }, ErrFieldMismatch},
		"changed hashes":       {func(r *Receipt) { r.Hashes = []byte(`{"input_hash":"ac","ipc_id":null}`) }, ErrFieldMismatch},
		"changed checks":       {func(r *Receipt) { r.Checks = []byte(`{}`) }, ErrFieldMismatch},
	}
	for name, c := range cases {
		r := l.receipt(t, 4, 9)
		c.change(r)
		require.ErrorIs(t, r.Verify(l.signer.Verifier()), c.want, name)
		parsed, err := ParseReceipt(r.AppendJSON(nil))
		require.NoError(t, err, name)
		require.ErrorIs(t, parsed.Verify(l.signer.Verifier()), c.want, name)
	}
}

// The receipt of an event whose seq is not its leaf index is refused, even if the log's key signed
// the tree.
func TestReceiptOfAMisplacedEvent(t *testing.T) {
	signer := testSigner(t, testOrigin, 1)
	entry := AppendEntry(nil, Hash{}, fmt.Appendf(nil, testBodies[0], 1))
	r, err := NewReceipt(entry)
	require.NoError(t, err)
	signed, err := signer.Sign(Checkpoint{testOrigin, 1, LeafHash(entry)})
	require.NoError(t, err)
	r.Seq = 0
	r.Proof = &ReceiptProof{Event: entry[HashSize:], Inclusion: InclusionProof{TreeSize: 1}, Checkpoint: signed}
	require.ErrorIs(t, r.Verify(signer.Verifier()), ErrFieldMismatch)
	proof, err := r.TlogProof()
	require.NoError(t, err)
	require.ErrorIs(t, proof.Verify(signer.Verifier()), ErrFieldMismatch)
}

// A receipt is refused if the proved bytes are not a valid event, even if the log's key signed the
// tree.
func TestReceiptOfOtherBytes(t *testing.T) {
	signer := testSigner(t, testOrigin, 1)
	for _, body := range []string{`{"seq":0}`, `{"kind":"k", "ledger":"l","seq":0,"time":"t"}`} {
		entry := AppendEntry(nil, Hash{}, []byte(body))
		signed, err := signer.Sign(Checkpoint{testOrigin, 1, LeafHash(entry)})
		require.NoError(t, err)
		r := &Receipt{
			Ledger: "l", Kind: "k", Time: "t", EventHash: EventHash(Hash{}, []byte(body)), LeafHash: LeafHash(entry),
			Hashes: []byte("{}"), Checks: []byte("{}"),
			Proof: &ReceiptProof{Event: []byte(body), Inclusion: InclusionProof{TreeSize: 1}, Checkpoint: signed},
		}
		require.ErrorIs(t, r.Verify(signer.Verifier()), ErrMalformed, body)
		proof, err := r.TlogProof()
		require.NoError(t, err)
		require.ErrorIs(t, proof.Verify(signer.Verifier()), ErrMalformed, body)
	}
}

func TestParseReceiptRefuses(t *testing.T) {
	l := newTestLog(t, 5)
	receipt := l.receipt(t, 1, 5)
	good := string(receipt.AppendJSON(nil))
	path := string(AppendHashesJSON(nil, receipt.Proof.Inclusion.Hashes))
	replace := func(old, replacement string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, replacement, 1)
	}
	zero := strings.Repeat("0", 64)
	for name, text := range map[string]string{
		"empty":                "",
		"not an object":        "[]",
		"trailing data":        good + "{}",
		"an unknown one twice": replace(`{"ledger"`, `{"extra":1,"extra":1,"ledger"`),
		"duplicate member":     replace(`{"ledger"`, `{"seq":1,"ledger"`),
		"unknown in inclusion": replace(`{"leaf_index"`, `{"extra":1,"leaf_index"`),
		"twice in inclusion":   replace(`{"leaf_index"`, `{"tree_size":5,"leaf_index"`),
		"twice in event":       replace(`{"actor"`, `{"seq":1,"actor"`),
		"no ledger":            replace(`"ledger":"default",`, ``),
		"no checkpoint":        good[:strings.Index(good, `,"checkpoint"`)] + "}",
		"no event":             replace(`,"event":`+string(l.entries[1][HashSize:]), ``),
		"only an event":        good[:strings.Index(good, `,"inclusion"`)] + "}",
		"no tree_size":         replace(`"tree_size":5,`, ``),
		"seq a fraction":       replace(`"seq":1`, `"seq":1.0`),
		"seq a string":         replace(`"seq":1`, `"seq":"1"`),
		"seq negative":         replace(`"seq":1`, `"seq":-1`),
		"seq too large":        replace(`"seq":1`, `"seq":18446744073709551616`),
		"ledger null":          replace(`"ledger":"default"`, `"ledger":null`),
		"hashes an array":      replace(`"hashes":{"input_hash":"ab","ipc_id":null}`, `"hashes":[]`),
		"checks null":          good[:strings.Index(good, `"checks":`)] + `"checks":null` + good[strings.Index(good, `,"event":`):],
		"path null":            replace(path, "null"),
		"path of numbers":      replace(path, "[1]"),
		"path too long":        replace(path, `["`+zero+strings.Repeat(`","`+zero, maxPath)+`"]`),
		"upper-case hash":      replace(`"event_hash":"`, `"event_hash":"A`),
		"lone surrogate":       replace(`"actor":"lab"`, `"actor":"\ud800"`),
		"invalid UTF-8":        replace(`"actor":"lab"`, "\"actor\":\"\xff\""),
	} {
		_, err := ParseReceipt([]byte(text))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}

// A receipt can have members that the server derived from other events, as well as members that
// this version does not know. No proof covers them, and UncoveredMembers returns their names.
func TestMembersWithoutProofAreNamed(t *testing.T) {
	l := newTestLog(t, 5)
	receipt := l.receipt(t, 1, 5)
	text := receipt.AppendJSON(nil)
	covered := receipt.CoveredMembers()
	require.Empty(t, receipt.UncoveredMembers())
	var members map[string]any
	require.NoError(t, json.Unmarshal(text, &members))
	require.ElementsMatch(t, slices.Collect(maps.Keys(members)), covered)
	for _, name := range []string{"drift", "divergence", "path_id", "category", "validated", "validated_before", "other_base", "conflicts", "unregistered_sources", "extra", "Seq", ""} {
		answer := strings.Replace(string(text), "{", `{"`+name+`":{"cause":"model"},`, 1)
		r, err := ParseReceipt([]byte(answer))
		require.NoError(t, err, name)
		require.NoError(t, r.Verify(l.signer.Verifier()))
		require.Equal(t, []string{name}, r.UncoveredMembers())
		require.Equal(t, covered, r.CoveredMembers())
		require.Equal(t, text, r.AppendJSON(nil))
	}
	receipt.Replayed = true
	r, err := ParseReceipt(receipt.AppendJSON(nil))
	require.NoError(t, err)
	require.Equal(t, []string{"replayed"}, r.UncoveredMembers())
	require.Equal(t, covered, r.CoveredMembers())
}

// A receipt is refused if a member that repeats a part of the event does not match that part.
func TestMembersOfTheEventAreChecked(t *testing.T) {
	l := newTestLog(t, 3)
	for seq, c := range []struct{ good, bad []string }{
		{nil, []string{`["input"]`, `[]`, `null`}},
		{[]string{`["system_prompt","output","max_tokens","seed"]`}, []string{`["seed"]`, `[]`, `null`, `"seed"`,
			`["output","system_prompt","max_tokens","seed"]`, `["system_prompt","output","max_tokens","seed","seed"]`}},
		{nil, []string{`["seed"]`}},
	} {
		text := string(l.receipt(t, uint64(seq), 3).AppendJSON(nil))
		without := text
		for _, value := range c.good {
			without = strings.Replace(text, `,"incomplete":`+value, "", 1)
			require.NotEqual(t, text, without)
			r, err := ParseReceipt([]byte(without))
			require.NoError(t, err)
			require.ErrorIs(t, r.Verify(l.signer.Verifier()), ErrFieldMismatch)
		}
		for _, value := range append(c.bad, c.good...) {
			changed := strings.Replace(without, `,"event"`, `,"incomplete":`+value+`,"event"`, 1)
			r, err := ParseReceipt([]byte(changed))
			require.NoError(t, err)
			err = r.Verify(l.signer.Verifier())
			if slices.Contains(c.good, value) {
				require.NoError(t, err)
				require.Contains(t, r.CoveredMembers(), "incomplete")
			} else {
				require.ErrorIs(t, err, ErrFieldMismatch, "%d: %s", seq, value)
			}
		}
		for _, name := range []string{"shape", "failure_stage"} {
			r, err := ParseReceipt([]byte(strings.Replace(text, `,"event"`, `,"`+name+`":"quote","event"`, 1)))
			require.NoError(t, err)
			require.ErrorIs(t, r.Verify(l.signer.Verifier()), ErrFieldMismatch)
		}
	}
}

// ParseReceipt returns the same receipt if the JSON is indented or its strings are escaped
// differently.
func TestReceiptSurvivesReformatting(t *testing.T) {
	l := newTestLog(t, 5)
	text := l.receipt(t, 1, 5).AppendJSON(nil)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, text, "\t", "  "))
	escaped := strings.NewReplacer("ö", `\u00f6`, "→", `\u2192`, "本", `\u672c`, "ß", `\u00df`).Replace(string(text))
	require.NotEqual(t, string(text), escaped)
	for _, same := range []string{pretty.String(), escaped} {
		r, err := ParseReceipt([]byte(same))
		require.NoError(t, err)
		require.NoError(t, r.Verify(l.signer.Verifier()))
		require.Equal(t, text, r.AppendJSON(nil))
	}
}

// If a bit of a receipt is flipped, or a byte is missing or doubled, the receipt cannot be parsed
// or verified, unless it is still the same JSON document.
func TestEveryByteOfAReceiptCounts(t *testing.T) {
	l := newTestLog(t, 3)
	for seq := range uint64(3) {
		text := l.receipt(t, seq, 3).AppendJSON(nil)
		same := canonical(t, text)
		for at := range text {
			var changed [][]byte
			for bit := range 8 {
				c := bytes.Clone(text)
				c[at] ^= 1 << bit
				changed = append(changed, c)
			}
			changed = append(changed,
				append(bytes.Clone(text[:at]), text[at+1:]...),
				append(append(bytes.Clone(text[:at]), text[at]), text[at:]...))
			for _, c := range changed {
				r, err := ParseReceipt(c)
				if err != nil {
					require.ErrorIs(t, err, ErrMalformed)
					continue
				}
				if bytes.Equal(canonical(t, c), same) {
					continue
				}
				require.Error(t, r.Verify(l.signer.Verifier()), "byte %d: %s", at, c)
			}
		}
	}
}

func canonical(t testing.TB, text []byte) []byte {
	t.Helper()
	var doc pyjson.Document
	require.NoError(t, doc.Parse(text))
	return doc.Root().AppendCanonical(nil, pyjson.CompactForm)
}

func FuzzParseReceipt(f *testing.F) {
	l := newTestLog(f, 3)
	receipt := l.receipt(f, 1, 3)
	full, signed := receipt.AppendJSON(nil), receipt.Proof.Checkpoint
	minimal, err := NewReceipt(l.entries[2])
	require.NoError(f, err)
	f.Add(full)
	f.Add(minimal.AppendJSON(nil))
	f.Add([]byte(`{"ledger":"\u0000","seq":0}`))
	verifier := l.signer.Verifier()
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseReceipt(text)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParseReceipt(r.AppendJSON(nil))
		require.NoError(t, err)
		again.UnknownMembers = r.UnknownMembers
		require.Equal(t, r, again)
		if r.UnknownMembers == nil {
			require.Equal(t, canonical(t, text), canonical(t, r.AppendJSON(nil)))
		}
		if r.Verify(verifier) == nil {
			r.Proof.Checkpoint = signed // the checkpoint can contain additional signatures by other keys
			r.Replayed = false
			require.Equal(t, string(full), string(r.AppendJSON(nil)), "no other receipt is signed")
		}
	})
}
