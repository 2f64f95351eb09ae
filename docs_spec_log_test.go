package colophon_test

import (
	"crypto/ed25519"
	"crypto/hmac" // #nosec G501 -- path ids are MD5 by definition (spec: Path fingerprints)
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
)

func exampleEvent(e *example) {
	kind := record.Kind(e.value("kind"))
	r, err := record.Parse(kind, []byte(e.value("record")))
	require.NoError(e.t, err)
	defer r.Release()
	at, ok := moment.Parse([]byte(e.value("time")))
	require.True(e.t, ok)
	seq, err := strconv.ParseUint(e.value("seq"), 10, 64)
	require.NoError(e.t, err)
	key := sha256.Sum256([]byte("run_id\x00" + e.value("kind") + "\x00" + r.RunID)) // computed in the same way as in exampleIdempotency
	body := r.AppendBodyPrefix(nil, record.EventContext{Actor: e.value("actor"), Ledger: e.value("ledger"), IdempotencyKeyDigest: &key})
	e.computed("body", string(record.AppendBodySuffix(body, seq, at)))
}

func exampleMembers(e *example) {
	key := e.hexBytes("secret")
	secret, err := members.ParseSecret(key)
	require.NoError(e.t, err)
	e.computed("member_secret_hash", sha256Hex(append([]byte("member_secret\x00"), key...)))
	commitment := secret.Commitment()
	require.Equal(e.t, hex.EncodeToString(commitment[:]), e.value("member_secret_hash"))
	digest := func(pointer, value string) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("member\x00" + pointer + "\x00" + value))
		return hex.EncodeToString(mac.Sum(nil)[:16])
	}
	e.computed("digest", digest(e.text("pointer"), e.value("value")))
	e.computed("payload_members", `{"/axes":"`+e.value("digest")+`","/a~1b":"`+digest("/a~1b", "null")+`","/policy_hash":"`+digest("/policy_hash", `"p1"`)+`"}`)
	r, err := record.DefaultLimits().WithPayloadMemberSecret(secret).ParseRecord(record.KindIPCRecord, []byte(`{"model":"m","payload":`+e.value("payload")+`}`))
	require.NoError(e.t, err)
	defer r.Release()
	require.Contains(e.t, string(r.AppendBodyPrefix(nil, record.EventContext{})), `"payload_members":`+e.value("payload_members"))
}

func exampleIdempotency(e *example) {
	s := newServer(e.t)
	post := func(headers ...string) string {
		var receipt struct {
			Event struct {
				Record struct {
					Key string `json:"idempotency_key"`
				}
			}
		}
		s.ask(http.MethodPost, "/ipc-records", map[string]any{"payload": map[string]any{}, "model": "m", "temperature": 0, "max_tokens": 0, "run_id": e.text("run_id")}, &receipt, headers...)
		return receipt.Event.Record.Key
	}
	require.EqualValues(e.t, record.KindIPCRecord, e.value("kind"))
	e.computed("header_key", post("Idempotency-Key", e.text("header")))
	require.Equal(e.t, sha256Hex([]byte("key\x00"+e.text("header"))), e.value("header_key"))
	e.computed("run_key", post())
	require.Equal(e.t, sha256Hex([]byte("run_id\x00ipc_record\x00"+e.text("run_id"))), e.value("run_key"))
	require.Equal(e.t, sha256Hex([]byte(e.value("normalised"))), e.value("digest"))
	e.computed("digest", e.post(record.KindIPCRecord, e.value("record")).Record.Digest)
	ipc := e.all["event"].value("record")
	require.Equal(e.t, sha256Hex([]byte(canonicalForm(e.t, ipc, pyjson.CompactForm))), e.post(record.KindIPCRecord, ipc).Record.Digest)
}

func exampleStateChange(e *example) {
	seq, err := strconv.ParseUint(e.value("record_seq"), 10, 64)
	require.NoError(e.t, err)
	v, err := record.ParseStateChange(seq, []byte(`{"reason":`+e.value("reason")+`,"state":`+e.value("state")+`}`))
	require.NoError(e.t, err)
	e.computed("covered", fmt.Sprintf(`{"reason":%s,"record_seq":%d,"state":%s}`, e.value("reason"), seq, e.value("state")))
	e.computed("digest", hex.EncodeToString(v.Digest[:]))
	require.Equal(e.t, sha256Hex([]byte(e.value("covered"))), e.value("digest"))
}

func exampleNote(e *example) {
	seq, err := strconv.ParseUint(e.value("record_seq"), 10, 64)
	require.NoError(e.t, err)
	members := fmt.Sprintf(`"text":%s,"timestamp":%s,"topic":%s}`, e.value("text"), e.value("timestamp"), e.value("topic"))
	v, err := record.ParseNote(seq, []byte(`{"original_actor":`+e.value("original_actor")+`,`+members))
	require.NoError(e.t, err)
	e.computed("covered", fmt.Sprintf(`{"original_actor":%s,"record_seq":%d,%s`, e.value("original_actor"), seq, members))
	e.computed("digest", hex.EncodeToString(v.Digest[:]))
	require.Equal(e.t, sha256Hex([]byte(e.value("covered"))), e.value("digest"))
}

func exampleSeqs(e *example) {
	var records []uint64
	e.decode("records", &records)
	list := new(seqs.List)
	for _, seq := range records {
		require.True(e.t, list.Append(seq))
	}
	e.computed("seqs", string(list.AppendJSON(nil)))
	v := record.NewRedaction(e.text("reason"), list)
	e.computed("digest", hex.EncodeToString(v.Digest[:]))
	require.Equal(e.t, sha256Hex([]byte(`{"reason":`+e.value("reason")+`,"seqs":`+e.value("seqs")+`}`)), e.value("digest"))
}

// exampleLog returns the log that the examples share. Its three events create a ledger, register a
// source, and revoke that source.
func exampleLog(e *example) (entries [][]byte, links []proofs.LinkedEntry) {
	frame := record.EventContext{Actor: "anonymous", Ledger: "texts"}
	signer := exampleSigner(e, "key", "seed")
	registration, err := record.ParseSourceRegistration("s", []byte(`{}`))
	require.NoError(e.t, err)
	revocation, err := record.ParseSourceRevocation("s", []byte(`{"reason":"old"}`))
	require.NoError(e.t, err)
	var c proofs.Chain
	for seq, body := range [][]byte{
		record.AppendLedgerCreated(nil, frame, signer.Origin(), signer.Verifier().String(), nil),
		registration.AppendBodyPrefix(nil, frame), revocation.AppendBodyPrefix(nil, frame),
	} {
		body = record.AppendBodySuffix(body, uint64(seq), time.Date(2026, 1, 2, 3, 4, 5, 1000*seq, time.UTC))
		entry := proofs.AppendEntry(nil, c.Tip, body)
		link, err := c.Advance(entry)
		require.NoError(e.t, err)
		entries, links = append(entries, entry), append(links, link)
	}
	return entries, links
}

// exampleTreeOf returns the Merkle tree of the example log.
func exampleTreeOf(e *example) *proofs.Tree {
	tree, err := proofs.OpenTree(0, nil, nil)
	require.NoError(e.t, err)
	_, links := exampleLog(e)
	for _, link := range links {
		tree.Append(link.LeafHash)
	}
	return tree
}

// exampleSigner returns a signer for the origin used in the examples. of is the name of the example
// that contains the seed, and seed is the key of its value.
func exampleSigner(e *example, of, seed string) *proofs.Signer {
	signer, err := proofs.NewKey([32]byte(e.all[of].hexBytes(seed))).Signer(e.all["key"].value("origin"))
	require.NoError(e.t, err)
	return signer
}

func exampleChain(e *example) {
	entries, links := exampleLog(e)
	e.computed("entry_1", hex.EncodeToString(entries[1]))
	for i, link := range links {
		e.computed(fmt.Sprintf("body_%d", i), string(link.Body))
		e.computed(fmt.Sprintf("event_hash_%d", i), hex.EncodeToString(link.EventHash[:]))
	}
}

func exampleTree(e *example) {
	_, links := exampleLog(e)
	for i, link := range links {
		e.computed(fmt.Sprintf("leaf_%d", i), hex.EncodeToString(link.LeafHash[:]))
	}
	node := proofs.NodeHash(links[0].LeafHash, links[1].LeafHash)
	e.computed("node_01", hex.EncodeToString(node[:]))
	root := exampleTreeOf(e).Root()
	e.computed("root_3", hex.EncodeToString(root[:]))
}

func exampleBundle(e *example) {
	entries, _ := exampleLog(e)
	var bundle []byte
	for _, entry := range entries {
		var err error
		bundle, err = proofs.AppendBundleEntry(bundle, entry)
		require.NoError(e.t, err)
	}
	e.computed("bundle", hex.EncodeToString(bundle))
	e.computed("path", proofs.TilePath{Level: 1, Index: 1234067, Width: proofs.FullTileWidth}.String())
}

func exampleKey(e *example) {
	verifier := exampleSigner(e, "key", "seed").Verifier()
	vkey := verifier.String()
	raw := e.all["key"]
	e.computed("key_id", fmt.Sprintf("%08x", verifier.KeyHash()))
	e.computed("verifier_key", vkey)
	public := ed25519.NewKeyFromSeed(e.hexBytes("seed")).Public().(ed25519.PublicKey)
	e.computed("public_key", hex.EncodeToString(public))
	require.Equal(e.t, sha256Hex(append([]byte(raw.value("origin")+"\n\x01"), public...))[:8], e.value("key_id"))
}

func exampleCheckpoint(e *example) {
	e.computedText("checkpoint", string(exampleSigned(e)))
}

// exampleSigned returns the signed checkpoint of the example log.
func exampleSigned(e *example) []byte {
	signed, err := exampleSigner(e, "key", "seed").Sign(proofs.Checkpoint{Origin: e.all["key"].value("origin"), Size: 3, Root: exampleTreeOf(e).Root()})
	require.NoError(e.t, err)
	return signed
}

func exampleHandover(e *example) {
	previous, next := exampleSigner(e, "key", "seed"), exampleSigner(e, "handover", "next_seed")
	handover, err := proofs.SignHandover(previous, next)
	require.NoError(e.t, err)
	text, _, found := strings.Cut(string(handover), "\n\n")
	require.True(e.t, found)
	e.computedText("text", text+"\n")
	e.computedText("handover", string(handover))
}

func exampleProofs(e *example) {
	prover := proofs.NewProver(exampleTreeOf(e).Snapshot(), nil, nil)
	inclusion, err := prover.InclusionProof(1, 3)
	require.NoError(e.t, err)
	e.computed("inclusion_1_of_3", string(proofs.AppendHashesJSON(nil, inclusion)))
	consistency, err := prover.ConsistencyProof(2, 3)
	require.NoError(e.t, err)
	e.computed("consistency_2_to_3", string(proofs.AppendHashesJSON(nil, consistency)))
}

func exampleReceipt(e *example) {
	entries, _ := exampleLog(e)
	r, err := proofs.NewReceipt(entries[1])
	require.NoError(e.t, err)
	inclusion, err := proofs.NewProver(exampleTreeOf(e).Snapshot(), nil, nil).InclusionProof(1, 3)
	require.NoError(e.t, err)
	r.Proof = &proofs.ReceiptProof{
		Event: entries[1][proofs.HashSize:], Inclusion: proofs.InclusionProof{LeafIndex: 1, TreeSize: 3, Hashes: inclusion}, Checkpoint: exampleSigned(e),
	}
	require.NoError(e.t, r.Verify(exampleSigner(e, "key", "seed").Verifier()))
	e.computed("receipt", string(r.AppendJSON(nil)))
}

func exampleTlogProof(e *example) {
	entries, _ := exampleLog(e)
	inclusion, err := proofs.NewProver(exampleTreeOf(e).Snapshot(), nil, nil).InclusionProof(1, 3)
	require.NoError(e.t, err)
	p := proofs.TlogProof{Extra: entries[1], Index: 1, Hashes: inclusion, Checkpoint: exampleSigned(e)}
	e.computedText("file", string(p.Append(nil)))
}

func exampleStagePath(e *example) {
	var stages []rules.Stage
	for _, key := range []string{"leaf_1", "leaf_2", "leaf_3"} {
		stages = append(stages, rules.Stage{Name: key, Hash: e.all["run-tree"].value(key)})
	}
	p, _, err := rules.ProveStage(stages, "leaf_3")
	require.NoError(e.t, err)
	path := []byte("[")
	for i, step := range p.Path {
		if i > 0 {
			path = append(path, ',')
		}
		path = fmt.Appendf(path, `{"sibling":"%x","is_left":%t}`, step.Sibling, step.SiblingIsLeft)
	}
	e.computed("path", string(append(path, ']')))
}
