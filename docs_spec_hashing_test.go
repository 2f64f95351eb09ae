package colophon_test

import (
	"bytes"
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (spec: Path fingerprints)
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/retrieval"
	"colophon/ledger/record/rules"
)

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonicalForm converts a JSON text to the given canonical form.
func canonicalForm(t *testing.T, text string, form pyjson.Form) string {
	var document pyjson.Document
	require.NoError(t, document.Parse([]byte(text)))
	return string(document.Root().AppendCanonical(nil, form))
}

func exampleLoneSurrogate(e *example) {
	text := canonicalForm(e.t, e.value("json"), pyjson.CompactForm)
	e.computed("bytes", hex.EncodeToString([]byte(text)))
	e.computed("sha256", sha256Hex([]byte(text)))
}

func exampleCanonicalJSON(e *example) {
	compact := canonicalForm(e.t, e.value("json"), pyjson.CompactForm)
	e.computed("compact", compact)
	e.computed("spaced", canonicalForm(e.t, e.value("json"), pyjson.SpacedForm))
	e.computed("sha256", sha256Hex([]byte(compact)))
}

func exampleNumbers(e *example) {
	for _, number := range e.keys {
		e.computed(number, canonicalForm(e.t, number, pyjson.CompactForm))
	}
}

func exampleQuestionForms(e *example) {
	normal := joinedWords(pyjson.AppendNFC(nil, []byte(e.text("text"))))
	e.computedText("nfc", normal)
	e.computedText("lower", string(pyjson.AppendLower(nil, []byte(normal))))
	require.Equal(e.t, sha256Hex([]byte(normal)), e.effective(record.KindRunDAG, `{"question":`+e.value("text")+`,"question_mode":"strict",`+minimalInputs, "question_hash"))
}

func joinedWords(text []byte) string {
	return string(bytes.Join(slices.Collect(pyjson.Fields(text)), []byte(" ")))
}

const (
	zeroHash = "0000000000000000000000000000000000000000000000000000000000000000"
	// minimalInputs is the part of a minimal run-DAG request that follows the question.
	minimalInputs = `"messages":[],"source_roots":["` + zeroHash + `"],"inputs":{"audit_mode":"STRICT","verifier_method":"v","n_quotes":0,"n_verified":0,"sources":[],"answer_text":""}}`
)

func exampleIPC(e *example) {
	body := fmt.Sprintf(`{"system_prompt":%s,"output":%s,"payload":%s,"model":%s,"temperature":%s,"max_tokens":%s,"environment":%s}`,
		e.value("system_prompt"), e.value("output"), e.value("payload"), e.value("model"), e.value("temperature"), e.value("max_tokens"), e.value("environment"))
	var lines [][]byte
	for line := range pyjson.Lines([]byte(e.text("system_prompt"))) {
		lines = append(lines, pyjson.Strip(line))
	}
	prompt := string(pyjson.Strip(bytes.Join(lines, []byte("\n"))))
	output := regexp.MustCompile(`  +`).ReplaceAllString(string(pyjson.Strip([]byte(e.text("output")))), " ")
	payload := canonicalForm(e.t, e.value("payload"), pyjson.SpacedForm)
	e.computedText("prompt_form", prompt)
	e.computedText("output_form", output)
	e.computed("payload_form", payload)
	e.computed("system_prompt_hash", sha256Hex([]byte(prompt)))
	e.computed("output_hash", sha256Hex([]byte(output)))
	e.computed("input_hash", sha256Hex([]byte(payload)))
	for _, name := range []string{"system_prompt_hash", "output_hash", "input_hash"} {
		require.Equal(e.t, e.value(name), e.effective(record.KindIPCRecord, body, name))
	}
	joined := strings.Join([]string{e.value("input_hash"), e.value("system_prompt_hash"), e.text("model"), "0.0", "120", "7"}, ":")
	e.computed("joined", joined)
	e.computed("ipc_id", e.effective(record.KindIPCRecord, body, "ipc_id"))
	require.Equal(e.t, sha256Hex([]byte(joined)), e.value("ipc_id"))
	e.computed("ipc_id_advanced", e.effective(record.KindIPCRecord, body, "ipc_id_advanced"))
}

func exampleSeedless(e *example) {
	const form = `{"scene": "door", "weights": [1, 0.5]}`
	e.computed("form", form)
	e.computed("seedless_input_hash", e.effective(record.KindIPCRecord, `{"model":"m","temperature":0,"max_tokens":1,"payload":`+e.value("payload")+`}`, "seedless_input_hash"))
	require.Equal(e.t, sha256Hex([]byte(form)), e.value("seedless_input_hash"))
}

func exampleAxisPayload(e *example) {
	form := `{"axes": {"mood": {"label": "calm", "score": 1.0}}, "policy_hash": "p1", "seed": 7, "world_id": "w1"}`
	e.computed("form", form)
	e.computed("input_hash", e.effective(record.KindIPCRecord, `{"payload_schema":"axis-payload-1","model":"m","temperature":0,"max_tokens":1,"payload":`+e.value("payload")+`}`, "input_hash"))
	require.Equal(e.t, sha256Hex([]byte(form)), e.value("input_hash"))
}

func exampleRunTree(e *example) {
	var stages []rules.Stage
	for _, key := range []string{"leaf_1", "leaf_2", "leaf_3"} {
		stages = append(stages, rules.Stage{Name: key, Hash: e.value(key)})
	}
	first, found, err := rules.ProveStage(stages, "leaf_1")
	require.NoError(e.t, err)
	require.True(e.t, found)
	third, _, err := rules.ProveStage(stages, "leaf_3")
	require.NoError(e.t, err)
	e.computed("node_1", hex.EncodeToString(third.Path[1].Sibling[:]))
	e.computed("node_2", hex.EncodeToString(first.Path[1].Sibling[:]))
	e.computed("root", hex.EncodeToString(first.Root[:]))
}

func exampleStages(e *example) {
	p := e.post(record.KindRunDAG, `{"inputs":`+e.value("inputs")+`,"question":`+e.value("question")+`,"messages":`+e.value("messages")+`,"source_roots":`+e.value("roots")+`}`)
	e.computed("retrieval", `[{"chunk_idx":null,"document_root":"d1","score":0.5,"source_role":null}]`)
	e.computed("verify", `{"audit_mode":"HYBRID","claim_statuses":[],"failure_stage":"context","n_quotes":0,"n_verified":0,"verifier_method":"quote"}`)
	e.computed("label", `{"audit_mode":"HYBRID","lookup_path":null,"verifier_method":"quote"}`)
	stages := map[string]string{"answer": "I do not know.", "retrieval": e.value("retrieval"), "verify": e.value("verify"), "final_label": e.value("label")}
	nodes := []byte("[")
	for i, node := range p.Record.Nodes {
		if text, known := stages[node.Stage]; known {
			require.Equal(e.t, sha256Hex([]byte(text)), node.Hash, node.Stage)
		}
		if i > 0 {
			nodes = append(nodes, ',')
		}
		nodes = fmt.Appendf(nodes, `{"hash":"%s","stage":"%s"}`, node.Hash, node.Stage)
	}
	e.computed("nodes", string(append(nodes, ']')))
	e.computed("root", *p.Hashes["root"])
}

func exampleRejected(e *example) {
	p := e.post(record.KindRunDAG, `{"reject_inputs":`+e.value("reject_inputs")+`}`)
	e.computed("label", `{"answer_text_hash":"`+sha256Hex(nil)+`","audit_mode":"UNGROUNDED","lookup_path":"preflight","rejection_reason":"no question","verifier_method":"claim_lattice_pointer"}`)
	e.computed("final_label", p.Record.Nodes[2].Hash)
	require.Equal(e.t, sha256Hex([]byte(e.value("label"))), e.value("final_label"))
	e.computed("root", *p.Hashes["root"])
}

func examplePreflight(e *example) {
	e.computed("form", `{"answer_contract":{},"classifier":{"intensity":"FEW"},"evidence_contract":{},"node_version":"preflight-node-v1","policy_refs":{},"prompt_contract":{},"question_state":{"logical_statuses":["well_formed"]},"stage":"preflight"}`)
	e.computed("hash", e.effective(record.KindRunDAG, `{"question":"q","reject_inputs":{"rejection_reason":"r","preflight_payload":`+e.value("payload")+`}}`, "preflight_hash"))
	require.Equal(e.t, sha256Hex([]byte(e.value("form"))), e.value("hash"))
}

func examplePreflightLegacy(e *example) {
	e.computed("form", `{"policy_state":null,"quantifier":"ALL","question_state":{"logical_statuses":[]}}`)
	e.computed("hash", e.effective(record.KindRunDAG, `{"question":"q","reject_inputs":{"rejection_reason":"r","preflight_payload":`+e.value("payload")+`}}`, "preflight_hash"))
	require.Equal(e.t, sha256Hex([]byte(e.value("form"))), e.value("hash"))
}

func exampleQuestion(e *example) {
	e.computedText("equivalence_class", "who is batman")
	e.computedText("strict", "Who is THE Batman ?!")
	e.computed("hash", e.effective(record.KindRunDAG, `{"question":`+e.value("question")+`,`+minimalInputs, "question_hash"))
	e.computed("hash_strict", e.effective(record.KindRunDAG, `{"question_mode":"strict","question":`+e.value("question")+`,`+minimalInputs, "question_hash"))
	require.Equal(e.t, sha256Hex([]byte(e.text("equivalence_class"))), e.value("hash"))
	require.Equal(e.t, sha256Hex([]byte(e.text("strict"))), e.value("hash_strict"))
}

func exampleOtherRoots(e *example) {
	inputs := minimalInputs[strings.Index(minimalInputs, `"inputs"`):]
	body := `{"question":"q","messages":[],"source_roots":` + e.value("source_roots") + `,"evidence":` + e.value("evidence") + `,` + inputs
	e.computed("context_root", e.effective(record.KindRunDAG, body, "context_root"))
	var evidence []struct {
		Root       string `json:"chunk_root"`
		Start, End int
	}
	e.decode("evidence", &evidence)
	id := "E" + sha256Hex(fmt.Appendf(nil, "%s:%d:%d", evidence[0].Root, evidence[0].Start, evidence[0].End))[:8]
	e.computed("evidence_id", id)
	e.computed("evidence_map_root", e.effective(record.KindRunDAG, body, "evidence_map_root"))
	require.Equal(e.t, sha256Hex([]byte("\x00"+id)), e.value("evidence_map_root"))
}

func exampleCacheKey(e *example) {
	e.computed("cache_key", e.effective(record.KindRunDAG, `{"cache_dimensions":`+e.value("dimensions")+`,"dag":{"root":"`+zeroHash+`","nodes":[{"stage":"s","hash":"`+zeroHash+`"}]}}`, "cache_key"))
}

func exampleChunk(e *example) {
	e.computed("chunk_hash", rules.ChunkHash([]byte(e.text("text"))))
	require.Equal(e.t, "sha256:"+sha256Hex([]byte(joinedWords([]byte(e.text("text"))))), e.value("chunk_hash"))
}

func exampleCitationsDocument(e *example) {
	var document pyjson.Document
	require.NoError(e.t, document.Parse([]byte(e.value("citations"))))
	var citations []rules.Citation
	for c := range document.Root().Elements() {
		citations = append(citations, rules.Citation{
			ChunkHash: c.Member("chunk_hash").Text(), SourceID: c.Member("source_id").Text(), Text: c.Member("text").Text(),
			Weight: c.Member("weight").AppendCanonical(nil, pyjson.CompactForm),
		})
	}
	e.computed("document", string(rules.AppendCitationsDocument(nil, citations)))
}

func examplePinnedRetrieval(e *example) {
	r, err := retrieval.Decode([]byte(`{"sources":` + e.value("sources") + `,"required_chunk_hashes":` + e.value("required") + `,"top_k":` + e.value("top_k") + `}`))
	require.NoError(e.t, err)
	rows := []map[string]string{}
	for _, c := range rules.SelectPinnedChunks(r.Chunks, r.RequiredHashes, r.TopK) {
		rows = append(rows, map[string]string{"hash": string(c.Hash), "text": string(c.Text), "source_id": string(c.SourceID)})
	}
	e.computed("rows", compactJSON(e.t, rows))
}

func examplePathID(e *example) {
	var route []string
	e.decode("route", &route)
	joined := strings.Join(route, " → ")
	e.computedText("joined", joined)
	e.computed("path_id", e.effective(record.KindPathFingerprint, `{"project":"p","route":`+e.value("route")+`}`, "path_id"))
	require.Equal(e.t, md5Digits(joined), e.value("path_id"))
}

func md5Digits(text string) string {
	sum := md5.Sum([]byte(text)) // #nosec G401 -- by definition (spec: Path fingerprints)
	return hex.EncodeToString(sum[:4])
}

func exampleFingerprints(e *example) {
	e.computedText("form", "You see and\n\n.")
	e.computedText("raw_form", "You see [[a lake|Lake]] and\n\n[a] boat [here](x.md).")
	body := `{"project":"p","route":[],"content":` + e.value("content") + `}`
	for hash, form := range map[string]string{"content_fingerprint": "form", "raw_content_fingerprint": "raw_form"} {
		e.computed(hash, e.effective(record.KindPathFingerprint, body, hash))
		require.Equal(e.t, md5Digits(e.text(form)), e.value(hash), form)
	}
}
