package recompute

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// generator generates records that resemble those that services post: with and without content,
// with claims that are right, wrong, or absent, and with and without nulls.
type generator struct{ t *rapid.T }

func (d generator) often(what string) bool { return rapid.IntRange(0, 3).Draw(d.t, what) > 0 }

func (d generator) rarely(what string) bool { return !d.often(what) }

// text returns a JSON string that may contain characters that some rule treats specially. If wide
// is set, it may also contain lone surrogates.
func (d generator) text(what string, wide bool) json.RawMessage {
	parts := []string{"a", "The", " ", "  ", `\n`, `\u001c`, "é", "→", `\"`, "[[x]]", "[a](b)", "?", `\u0000`, "🎵", ""}
	if wide {
		parts = append(parts, `\ud800`)
	}
	return json.RawMessage(`"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 6).Draw(d.t, what), "") + `"`)
}

// hash returns one of a few hashes, so that some claims are right by chance.
func (d generator) hash(what string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte{byte(rapid.IntRange(0, 3).Draw(d.t, what))}))
}

func (d generator) number(what string) json.RawMessage {
	return json.RawMessage(rapid.SampledFrom([]string{"0", "1", "42", "123456789012345678901234567890"}).Draw(d.t, what))
}

// object adds some of the optional members to required, sets others to null, and leaves out the rest.
// It returns required.
func (d generator) object(required, optional map[string]any) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(optional)) {
		value := optional[name]
		switch rapid.IntRange(0, 4).Draw(d.t, name) {
		case 0:
			required[name] = nil
		case 1:
		default:
			required[name] = value
		}
	}
	return required
}

// common adds to optional the members that records of any kind can have.
func (d generator) common(optional map[string]any) map[string]any {
	optional["run_id"] = "run " + rapid.StringN(1, 3, -1).Draw(d.t, "run")
	optional["labels"] = rapid.SampledFrom([]map[string]string{{"step": "one", "é": ""}, {}}).Draw(d.t, "labels of the record")
	optional["timestamp"] = "2026-01-02T03:04:05.5+01:00"
	optional["producer"] = map[string]any{"id": "p", "seq": d.number0("producer")}
	return optional
}

func (d generator) number0(what string) int { return rapid.IntRange(0, 9).Draw(d.t, what) }

func (d generator) ipc() map[string]any {
	r := map[string]any{
		"model": d.text("model", false), "max_tokens": d.number("tokens"),
		"temperature": json.RawMessage(rapid.SampledFrom([]string{"0", "0.0", "1", "0.7", "1e22", "-0.0", "1e-7"}).Draw(d.t, "temperature")),
	}
	payload := map[string]any{"b": d.text("value", false), "a": []int{1}}
	if d.often("seed of payload") {
		payload["seed"] = d.number("seed of payload")
	}
	optional := map[string]any{
		"payload": payload, "system_prompt": d.text("prompt", false), "output": d.text("output", false), "seed": d.number("seed"),
		"environment": d.object(map[string]any{}, map[string]any{"ollama_build_hash": "b", "model_digest": "d", "host_platform": "p"}),
		"usage":       rapid.SampledFrom([]map[string]any{{"tokens": d.number("usage")}, {}, {"a": nil}}).Draw(d.t, "usage of the record"),
	}
	if d.rarely("usage is content") {
		optional["usage"] = map[string]any{"note": d.text("note", false)}
	}
	for _, name := range []string{"input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced"} {
		optional[name] = d.hash(name)
	}
	if d.rarely("axis") {
		payload = map[string]any{"axes": map[string]any{"x": map[string]any{"label": d.text("label", false), "score": 1}}, "policy_hash": "p", "seed": json.RawMessage("7.0"), "world_id": "w"}
		r["payload"], r["payload_schema"] = payload, "axis-payload-1"
		delete(optional, "payload")
	}
	return d.object(r, d.common(optional))
}

func (d generator) run() map[string]any {
	bases := map[string]any{"question_hash": d.hash("question"), "preflight_hash": d.hash("preflight"), "context_root": d.hash("context"),
		"evidence_map_root": d.hash("map"), "conversation_hash": d.hash("conversation"), "retrieval_plan_hash": d.hash("plan")}
	preflight := rapid.SampledFrom([]map[string]any{
		{"stage": "preflight", "classifier": map[string]any{"a": 1}, "question_state": nil},
		{"question_state": nil, "quantifier": "ALL", "policy_state": map[string]any{}}, {"node_version": "preflight-node-v0"}, {"stage": 1},
	}).Draw(d.t, "preflight payload")
	bases["preflight_payload"] = preflight
	maps.Copy(bases, map[string]any{"raw_answer_text": d.text("raw", true), "rendered_text": d.text("rendered", true), "parsed_lattice": rapid.SampledFrom([]any{[]any{d.text("lattice", true)}, []any{map[string]any{"evidence_ids": []any{"E1", 7}}}}).Draw(d.t, "lattice of the run"),
		"claim_statuses": []int{1}, "violations": []any{}, "answer_mode": d.text("answer mode", true), "lookup_path": d.text("lookup", true)})
	dag := map[string]any{"root": d.hash("root"), "nodes": d.nodes()}
	optional := map[string]any{
		"question": d.text("question", true), "question_mode": rapid.SampledFrom([]string{"strict", "equivalence_class"}).Draw(d.t, "mode"),
		"messages": []any{map[string]any{"role": "user", "content": d.text("message", true)}}, "policy": map[string]any{"p": 1}, "verifier_policy": map[string]any{},
		"source_roots": []string{d.hash("source 1"), d.hash("source 2")},
		"evidence": []any{map[string]any{"chunk_root": d.hash("chunk"), "start": 0, "end": d.number("end"),
			"evidence_id": rapid.SampledFrom([]any{nil, "E1", "Eae6b4a15"}).Draw(d.t, "id"), "text_hash": rapid.SampledFrom([]any{nil, d.hash("text")}).Draw(d.t, "text hash"), "span": d.text("span", true), "title": 1}},
		"cache_key": d.hash("cache key"), "cache_dimensions": d.dimensions(),
	}
	switch rapid.IntRange(0, 2).Draw(d.t, "brings") {
	case 0:
		optional["answer_text"] = d.text("answer", true)
		return d.object(map[string]any{"dag": d.object(dag, map[string]any{"preflight_payload": preflight})}, d.common(optional))
	case 1:
		in := map[string]any{"answer_text": d.text("answer", true), "audit_mode": rapid.SampledFrom([]string{"STRICT", "HYBRID", strings.Repeat("x", 1025)}).Draw(d.t, "audit mode"), "verifier_method": d.text("method", true),
			"sources": rapid.SliceOfN(rapid.Just[any](map[string]any{"score": 1.5, "other": 1, "chunk_idx": nil}), 0, 2).Draw(d.t, "sources"), "n_quotes": d.number0("quotes"), "n_verified": d.number0("verified")}
		optional["dag"] = dag
		return d.object(map[string]any{"inputs": d.object(in, bases)}, d.common(optional))
	}
	reject := map[string]any{"rejection_reason": d.text("rejection", true)}
	optional["dag"] = dag
	return d.object(map[string]any{"reject_inputs": d.object(reject, map[string]any{"question_hash": bases["question_hash"], "preflight_hash": bases["preflight_hash"],
		"preflight_payload": preflight, "violations": []any{}, "audit_mode": "X", "verifier_method": "Y", "answer_text": d.text("answer", true)})}, d.common(optional))
}

func (d generator) dimensions() map[string]any {
	dims := map[string]any{}
	for _, name := range rules.CacheDimensions {
		dims[name] = d.hash(name)
	}
	dims["schema_version"], dims["chunking_version"] = d.text("schema", d.rarely("wide schema")), "1"
	if d.rarely("number as a version") {
		dims["schema_version"] = 7
	}
	if d.rarely("no verifier policy") {
		delete(dims, "verifier_policy_hash")
	}
	return dims
}

// nodes returns the stages of a run-DAG. Some of the possible sequences of stages have a known
// shape, and others do not.
func (d generator) nodes() []any {
	names := strings.Split(rapid.SampledFrom([]string{"question retrieval context prompt answer verify final_label", "question preflight final_label",
		"question retrieval evidence_map prompt raw_answer parsed_claim_lattice verify render final_label",
		"question preflight retrieval context prompt answer verify final_label", "question question question#2 question x", "a", " a "}).Draw(d.t, "shape"), " ")
	nodes := make([]any, len(names))
	for i, name := range names {
		nodes[i] = map[string]any{"stage": name, "hash": d.hash(name)}
	}
	return nodes
}

func (d generator) citations() map[string]any {
	var list []any
	for range rapid.IntRange(0, 3).Draw(d.t, "citations") {
		c := d.object(map[string]any{"source_id": "s", "weight": json.RawMessage(rapid.SampledFrom([]string{"0", "1", "0.25", "1.0"}).Draw(d.t, "weight"))},
			map[string]any{"section": d.text("section", false), "text": d.text("chunk", false)})
		if c["text"] == nil || d.often("claims the chunk") {
			c["chunk_hash"] = "sha256:" + d.hash("chunk hash")
		}
		list = append(list, c)
	}
	return d.object(map[string]any{"subject": "s", "citations": append([]any{}, list...)}, d.common(map[string]any{}))
}

func (d generator) path() map[string]any {
	return d.object(map[string]any{"project": "p", "route": rapid.SliceOfN(rapid.SampledFrom([]string{"Start", "é", " → "}), 0, 3).Draw(d.t, "route")}, d.common(map[string]any{
		"build": "b", "content": d.text("content", false), "path_id": rapid.SampledFrom([]string{"01234567", "0123456789abcdef"}).Draw(d.t, "path_id"),
		"content_fingerprint": "01234567", "raw_content_fingerprint": "01234567",
		"hash_version": rapid.SampledFrom([]string{"adr-004", "adr-005"}).Draw(d.t, "hash_version"),
	}))
}

// record returns a record that the ledger accepts. Some of its claimed hashes are correct.
func (d generator) record() (record.Kind, []byte) {
	kind := rapid.SampledFrom(record.RecordKinds[:]).Draw(d.t, "kind")
	posted := map[record.Kind]func() map[string]any{record.KindIPCRecord: d.ipc, record.KindRunDAG: d.run, record.KindCitationSet: d.citations, record.KindPathFingerprint: d.path}[kind]()
	body, err := json.Marshal(posted)
	require.NoError(d.t, err)
	r, err := record.Parse(kind, body)
	if err != nil {
		d.t.Skip(err.Error())
	}
	defer r.Release()
	if kind != record.KindIPCRecord && kind != record.KindPathFingerprint {
		return kind, body
	}
	for _, c := range r.Checks {
		if c.Result == record.ResultMismatch && d.often("claims rightly") {
			posted[c.Field] = string(c.Computed)
		}
	}
	body, err = json.Marshal(posted)
	require.NoError(d.t, err)
	return kind, body
}

// eventOf returns the event body that the ledger writes for a posted record, and the record's
// content by digest.
func eventOf(t require.TestingT, kind record.Kind, posted []byte) (body []byte, contents map[proofs.Hash][]byte) {
	r, err := record.Parse(kind, posted)
	require.NoError(t, err)
	defer r.Release()
	contents = make(map[proofs.Hash][]byte)
	for _, c := range r.Contents {
		contents[c.Digest] = bytes.Clone(c.Bytes)
	}
	e := record.EventContext{Actor: "lab", Ledger: "default"}
	if r.RunID != "" {
		e.IdempotencyKeyDigest = &proofs.Hash{1}
	}
	return record.AppendBodySuffix(r.AppendBodyPrefix(nil, e), 7, time.Unix(7, 0)), contents
}

// checkEvent checks an event as walks do: first the event alone, then the event with its content.
func checkEvent(body []byte, contents map[proofs.Hash][]byte) (*Rebuilder, error) {
	var d pyjson.Document
	if err := d.Parse(body); err != nil {
		return nil, err
	}
	var e event.Body
	e.Decode(d.Root())
	if !bytes.Equal(e.Encode(), body) {
		return nil, errors.New("not in canonical form")
	}
	if err := e.Check(); err != nil {
		return nil, err
	}
	if err := new(Checker).Check(&e); err != nil {
		return nil, err
	}
	b := new(Rebuilder)
	return b, b.Check(body, func(_ string, digest proofs.Hash) ([]byte, error) { return contents[digest], nil })
}

// Every event that the ledger writes for a record passes the checks.
func TestEventsOfTheLedgerPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, posted := generator{t}.record()
		body, contents := eventOf(t, kind, posted)
		b, err := checkEvent(body, contents)
		require.NoError(t, err, "%s\n%s", posted, body)
		require.EqualValues(t, 1, b.ConfirmedRecords+b.UnconfirmableRecords)
	})
}

// A changed check result is detected, because it contradicts the event's other fields, its record,
// or the record's digest.
func TestChangedChecksAreFound(t *testing.T) {
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		kind, posted := generator{t}.record()
		body, contents := eventOf(t, kind, posted)
		_, err := checkEvent(body, contents)
		require.NoError(t, err)
		var d pyjson.Document
		require.NoError(t, d.Parse(body))
		if hasUnknownText(d.Root().Member("record")) {
			t.Skip("the digest covers texts that the event leaves out")
		}
		for name, check := range d.Root().Member("checks").Members() {
			for _, result := range []record.CheckResult{record.ResultMatch, record.ResultMismatch, record.ResultComputed, record.ResultClaimed} {
				if string(check.Member("result").Text()) == string(result) {
					continue
				}
				lie := bytes.Replace(body, slices.Concat(name.Raw(), []byte(":"), check.Raw()), fmt.Appendf(nil, `%s:{"result":"%s"}`, name.Raw(), result), 1)
				changed++
				_, err := checkEvent(lie, contents)
				require.Error(t, err, "%s: %s has the result %s\n%s", posted, name.Text(), result, lie)
			}
		}
	})
	require.NotZero(t, changed)
}
