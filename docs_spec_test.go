package colophon_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (spec: Path fingerprints)
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/ledger"
	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/retrieval"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
	"colophon/storage/memory"
)

var updateExamples = flag.Bool("update", false, "rewrite the examples in docs/spec")

// example is a block of docs/spec with lines "key = value".
type example struct {
	t      *testing.T
	all    map[string]*example // by name
	keys   []string            // in the order of the lines
	values map[string]string
	set    map[string]bool // keys whose values were computed
}

var (
	exampleBlock = regexp.MustCompile("(?ms)^```example ([a-z-]+)\n(.*?)^```$")
	exampleLine  = regexp.MustCompile(`^(.*?\S) *= (.*)$`)
)

// parseExample reads the lines of a block. A line that begins with two spaces continues the
// previous one.
func parseExample(t *testing.T, text string) *example {
	e := &example{t: t, values: make(map[string]string), set: make(map[string]bool)}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "  "); ok {
			e.values[e.keys[len(e.keys)-1]] += rest
			continue
		}
		m := exampleLine.FindStringSubmatch(line)
		require.NotNil(t, m, "line %q", line)
		e.keys = append(e.keys, m[1])
		e.values[m[1]] = m[2]
	}
	return e
}

// exampleWidth is the width at which String breaks the lines of long values.
const exampleWidth = 130

// String returns the lines of the block.
func (e *example) String() string {
	var b strings.Builder
	width := 0
	for _, key := range e.keys {
		width = max(width, len([]rune(key)))
	}
	for _, key := range e.keys {
		line := []rune(fmt.Sprintf("%-*s = %s", width, key, e.values[key]))
		for len(line) > exampleWidth {
			cut := exampleWidth
			for at := cut; at > exampleWidth/2; at-- { // cut after an element, if possible
				if line[at-1] == ',' && line[at] != ' ' {
					cut = at
					break
				}
			}
			for line[cut-1] == ' ' || line[cut] == ' ' {
				cut-- // spaces at the ends of lines get lost
			}
			b.WriteString(string(line[:cut]) + "\n")
			line = append([]rune("  "), line[cut:]...)
		}
		b.WriteString(string(line) + "\n")
	}
	return b.String()
}

func (e *example) value(key string) string {
	v, ok := e.values[key]
	require.True(e.t, ok, "the example has no %q", key)
	return v
}

// text returns the value of a key that is a JSON string.
func (e *example) text(key string) string {
	var document pyjson.Document
	require.NoError(e.t, document.Parse([]byte(e.value(key))))
	require.Equal(e.t, pyjson.String, document.Root().Kind(), key)
	return string(document.Root().Text())
}

func (e *example) decode(key string, into any) {
	require.NoError(e.t, json.Unmarshal([]byte(e.value(key)), into), key)
}

func (e *example) hexBytes(key string) []byte {
	b, err := hex.DecodeString(e.value(key))
	require.NoError(e.t, err)
	return b
}

// computed sets the value that the code computes for a key.
func (e *example) computed(key, value string) {
	e.value(key)
	e.set[key] = true
	if *updateExamples {
		e.values[key] = value
	}
	require.Equal(e.t, value, e.values[key], key)
}

func (e *example) computedText(key, value string) {
	e.computed(key, string(pyjson.AppendString(nil, []byte(value))))
}

// The code computes every example in docs/spec.
func TestSpecExamples(t *testing.T) {
	files, err := filepath.Glob("docs/spec/*.md")
	require.NoError(t, err)
	all := make(map[string]*example)
	texts := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[file] = string(text)
		for _, m := range exampleBlock.FindAllStringSubmatch(string(text), -1) {
			require.NotContains(t, all, m[1], "two examples have the same name")
			all[m[1]] = parseExample(t, m[2])
			all[m[1]].all = all
		}
		require.Len(t, exampleBlock.FindAllString(string(text), -1), strings.Count(string(text), "\n```example "), file)
	}
	require.Len(t, specExamples, len(all), "each example has a function, and each function an example")
	for _, one := range specExamples { // in order, because some build on others
		e := all[one.name]
		require.NotNil(t, e, "docs/spec has no example %s", one.name)
		t.Run(one.name, func(t *testing.T) {
			e.t = t
			one.compute(e)
			require.NotEmpty(t, e.set)
		})
	}
	for file, text := range texts {
		again := exampleBlock.ReplaceAllStringFunc(text, func(block string) string {
			m := exampleBlock.FindStringSubmatch(block)
			return "```example " + m[1] + "\n" + all[m[1]].String() + "```"
		})
		if *updateExamples && again != text {
			require.NoError(t, os.WriteFile(file, []byte(again), 0o600))
			text = again
		}
		require.Equal(t, again, text, "%s: run go test -run TestSpecExamples -update .", file)
	}
}

var specExamples = []struct {
	name    string
	compute func(*example)
}{
	{"lone-surrogate", exampleLoneSurrogate}, {"canonical-json", exampleCanonicalJSON}, {"numbers", exampleNumbers},
	{"question-forms", exampleQuestionForms},
	{"ipc", exampleIPC}, {"seedless", exampleSeedless}, {"axis-payload", exampleAxisPayload}, {"run-tree", exampleRunTree}, {"stages", exampleStages},
	{"rejected", exampleRejected}, {"preflight", examplePreflight}, {"preflight-legacy", examplePreflightLegacy}, {"question", exampleQuestion}, {"other-roots", exampleOtherRoots}, {"cache-key", exampleCacheKey},
	{"chunk", exampleChunk}, {"citations-document", exampleCitationsDocument}, {"pinned-retrieval", examplePinnedRetrieval}, {"path-id", examplePathID}, {"fingerprints", exampleFingerprints},
	{"event", exampleEvent}, {"payload-members", exampleMembers}, {"idempotency", exampleIdempotency}, {"state-change", exampleStateChange}, {"note", exampleNote}, {"seqs", exampleSeqs},
	{"chain", exampleChain}, {"tree", exampleTree}, {"bundle", exampleBundle}, {"key", exampleKey}, {"checkpoint", exampleCheckpoint},
	{"handover", exampleHandover}, {"proofs", exampleProofs}, {"receipt", exampleReceipt}, {"tlog-proof", exampleTlogProof}, {"stage-path", exampleStagePath},
	{"group", exampleGroup}, {"causes", exampleCauses}, {"evidence", exampleEvidence}, {"effects", exampleEffects}, {"run-groups", exampleRunGroups}, {"stage-comparison", exampleStageComparison},
	{"citation-drift", exampleCitationDrift}, {"stale", exampleStale}, {"path-categories", examplePathCategories}, {"path-validation", examplePathValidation},
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonicalForm returns a JSON text in a canonical form.
func canonicalForm(t *testing.T, text string, form pyjson.Form) string {
	var document pyjson.Document
	require.NoError(t, document.Parse([]byte(text)))
	return string(document.Root().AppendCanonical(nil, form))
}

// postedRecord holds the values that the ledger computes for a record.
type postedRecord struct {
	Checks map[string]map[string]any
	Hashes map[string]*string
	Record struct {
		Digest string
		Nodes  []struct{ Hash, Stage string }
	}
}

func (e *example) post(kind record.Kind, body string) (p postedRecord) {
	r, err := record.Parse(kind, []byte(body))
	require.NoError(e.t, err)
	defer r.Release()
	require.NoError(e.t, json.Unmarshal(r.AppendComputed(nil), &p))
	return p
}

// effective returns an effective hash of a record.
func (e *example) effective(kind record.Kind, body, name string) string {
	hash := e.post(kind, body).Hashes[name]
	require.NotNil(e.t, hash, name)
	return *hash
}

func exampleLoneSurrogate(e *example) {
	text := canonicalForm(e.t, e.value("json"), pyjson.Compact)
	e.computed("bytes", hex.EncodeToString([]byte(text)))
	e.computed("sha256", sha256Hex([]byte(text)))
}

func exampleCanonicalJSON(e *example) {
	compact := canonicalForm(e.t, e.value("json"), pyjson.Compact)
	e.computed("compact", compact)
	e.computed("spaced", canonicalForm(e.t, e.value("json"), pyjson.Spaced))
	e.computed("sha256", sha256Hex([]byte(compact)))
}

func exampleNumbers(e *example) {
	for _, number := range e.keys {
		e.computed(number, canonicalForm(e.t, number, pyjson.Compact))
	}
}

func exampleQuestionForms(e *example) {
	normal := joinedWords(pyjson.AppendNFC(nil, []byte(e.text("text"))))
	e.computedText("nfc", normal)
	e.computedText("lower", string(pyjson.AppendLower(nil, []byte(normal))))
	require.Equal(e.t, sha256Hex([]byte(normal)), e.effective(record.RunDAG, `{"question":`+e.value("text")+`,"question_mode":"strict",`+minimalInputs, "question_hash"))
}

func joinedWords(text []byte) string {
	return string(bytes.Join(slices.Collect(pyjson.Fields(text)), []byte(" ")))
}

const (
	zeroHash = "0000000000000000000000000000000000000000000000000000000000000000"
	// minimalInputs ends a run-DAG that brings a question.
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
	payload := canonicalForm(e.t, e.value("payload"), pyjson.Spaced)
	e.computedText("prompt_form", prompt)
	e.computedText("output_form", output)
	e.computed("payload_form", payload)
	e.computed("system_prompt_hash", sha256Hex([]byte(prompt)))
	e.computed("output_hash", sha256Hex([]byte(output)))
	e.computed("input_hash", sha256Hex([]byte(payload)))
	for _, name := range []string{"system_prompt_hash", "output_hash", "input_hash"} {
		require.Equal(e.t, e.value(name), e.effective(record.IPCRecord, body, name))
	}
	joined := strings.Join([]string{e.value("input_hash"), e.value("system_prompt_hash"), e.text("model"), "0.0", "120", "7"}, ":")
	e.computed("joined", joined)
	e.computed("ipc_id", e.effective(record.IPCRecord, body, "ipc_id"))
	require.Equal(e.t, sha256Hex([]byte(joined)), e.value("ipc_id"))
	e.computed("ipc_id_advanced", e.effective(record.IPCRecord, body, "ipc_id_advanced"))
}

func exampleSeedless(e *example) {
	const form = `{"scene": "door", "weights": [1, 0.5]}`
	e.computed("form", form)
	e.computed("seedless_input_hash", e.effective(record.IPCRecord, `{"model":"m","temperature":0,"max_tokens":1,"payload":`+e.value("payload")+`}`, "seedless_input_hash"))
	require.Equal(e.t, sha256Hex([]byte(form)), e.value("seedless_input_hash"))
}

func exampleAxisPayload(e *example) {
	form := `{"axes": {"mood": {"label": "calm", "score": 1.0}}, "policy_hash": "p1", "seed": 7, "world_id": "w1"}`
	e.computed("form", form)
	e.computed("input_hash", e.effective(record.IPCRecord, `{"payload_schema":"axis-payload-1","model":"m","temperature":0,"max_tokens":1,"payload":`+e.value("payload")+`}`, "input_hash"))
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
	p := e.post(record.RunDAG, `{"inputs":`+e.value("inputs")+`,"question":`+e.value("question")+`,"messages":`+e.value("messages")+`,"source_roots":`+e.value("roots")+`}`)
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
	p := e.post(record.RunDAG, `{"reject_inputs":`+e.value("reject_inputs")+`}`)
	e.computed("label", `{"answer_text_hash":"`+sha256Hex(nil)+`","audit_mode":"UNGROUNDED","lookup_path":"preflight","rejection_reason":"no question","verifier_method":"claim_lattice_pointer"}`)
	e.computed("final_label", p.Record.Nodes[2].Hash)
	require.Equal(e.t, sha256Hex([]byte(e.value("label"))), e.value("final_label"))
	e.computed("root", *p.Hashes["root"])
}

func examplePreflight(e *example) {
	e.computed("form", `{"answer_contract":{},"classifier":{"intensity":"FEW"},"evidence_contract":{},"node_version":"preflight-node-v1","policy_refs":{},"prompt_contract":{},"question_state":{"logical_statuses":["well_formed"]},"stage":"preflight"}`)
	e.computed("hash", e.effective(record.RunDAG, `{"question":"q","reject_inputs":{"rejection_reason":"r","preflight_payload":`+e.value("payload")+`}}`, "preflight_hash"))
	require.Equal(e.t, sha256Hex([]byte(e.value("form"))), e.value("hash"))
}

func examplePreflightLegacy(e *example) {
	e.computed("form", `{"policy_state":null,"quantifier":"ALL","question_state":{"logical_statuses":[]}}`)
	e.computed("hash", e.effective(record.RunDAG, `{"question":"q","reject_inputs":{"rejection_reason":"r","preflight_payload":`+e.value("payload")+`}}`, "preflight_hash"))
	require.Equal(e.t, sha256Hex([]byte(e.value("form"))), e.value("hash"))
}

func exampleQuestion(e *example) {
	e.computedText("equivalence_class", "who is batman")
	e.computedText("strict", "Who is THE Batman ?!")
	e.computed("hash", e.effective(record.RunDAG, `{"question":`+e.value("question")+`,`+minimalInputs, "question_hash"))
	e.computed("hash_strict", e.effective(record.RunDAG, `{"question_mode":"strict","question":`+e.value("question")+`,`+minimalInputs, "question_hash"))
	require.Equal(e.t, sha256Hex([]byte(e.text("equivalence_class"))), e.value("hash"))
	require.Equal(e.t, sha256Hex([]byte(e.text("strict"))), e.value("hash_strict"))
}

func exampleOtherRoots(e *example) {
	inputs := minimalInputs[strings.Index(minimalInputs, `"inputs"`):]
	body := `{"question":"q","messages":[],"source_roots":` + e.value("source_roots") + `,"evidence":` + e.value("evidence") + `,` + inputs
	e.computed("context_root", e.effective(record.RunDAG, body, "context_root"))
	var evidence []struct {
		Root       string `json:"chunk_root"`
		Start, End int
	}
	e.decode("evidence", &evidence)
	id := "E" + sha256Hex(fmt.Appendf(nil, "%s:%d:%d", evidence[0].Root, evidence[0].Start, evidence[0].End))[:8]
	e.computed("evidence_id", id)
	e.computed("evidence_map_root", e.effective(record.RunDAG, body, "evidence_map_root"))
	require.Equal(e.t, sha256Hex([]byte("\x00"+id)), e.value("evidence_map_root"))
}

func exampleCacheKey(e *example) {
	e.computed("cache_key", e.effective(record.RunDAG, `{"cache_dimensions":`+e.value("dimensions")+`,"dag":{"root":"`+zeroHash+`","nodes":[{"stage":"s","hash":"`+zeroHash+`"}]}}`, "cache_key"))
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
			Weight: c.Member("weight").AppendCanonical(nil, pyjson.Compact),
		})
	}
	e.computed("document", string(rules.AppendCitationsDocument(nil, citations)))
}

func examplePinnedRetrieval(e *example) {
	r, err := retrieval.Decode([]byte(`{"sources":` + e.value("sources") + `,"required_chunk_hashes":` + e.value("required") + `,"top_k":` + e.value("top_k") + `}`))
	require.NoError(e.t, err)
	rows := []map[string]string{}
	for _, c := range rules.PinnedRetrieval(r.Chunks, r.Required, r.TopK) {
		rows = append(rows, map[string]string{"hash": string(c.Hash), "text": string(c.Text), "source_id": string(c.SourceID)})
	}
	e.computed("rows", compactJSON(e.t, rows))
}

func examplePathID(e *example) {
	var route []string
	e.decode("route", &route)
	joined := strings.Join(route, " → ")
	e.computedText("joined", joined)
	e.computed("path_id", e.effective(record.PathFingerprint, `{"project":"p","route":`+e.value("route")+`}`, "path_id"))
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
		e.computed(hash, e.effective(record.PathFingerprint, body, hash))
		require.Equal(e.t, md5Digits(e.text(form)), e.value(hash), form)
	}
}

func exampleEvent(e *example) {
	kind := record.Kind(e.value("kind"))
	r, err := record.Parse(kind, []byte(e.value("record")))
	require.NoError(e.t, err)
	defer r.Release()
	at, ok := moment.Parse([]byte(e.value("time")))
	require.True(e.t, ok)
	seq, err := strconv.ParseUint(e.value("seq"), 10, 64)
	require.NoError(e.t, err)
	key := sha256.Sum256([]byte("run_id\x00" + e.value("kind") + "\x00" + r.RunID)) // as exampleIdempotency shows
	body := r.AppendBody(nil, record.Event{Actor: e.value("actor"), Ledger: e.value("ledger"), Key: &key})
	e.computed("body", string(record.AppendSuffix(body, seq, at)))
}

func exampleMembers(e *example) {
	key := e.hexBytes("secret")
	secret, err := members.ReadSecret(key)
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
	r, err := record.DefaultLimits().For(secret).Parse(record.IPCRecord, []byte(`{"model":"m","payload":`+e.value("payload")+`}`))
	require.NoError(e.t, err)
	defer r.Release()
	require.Contains(e.t, string(r.AppendBody(nil, record.Event{})), `"payload_members":`+e.value("payload_members"))
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
	require.EqualValues(e.t, record.IPCRecord, e.value("kind"))
	e.computed("header_key", post("Idempotency-Key", e.text("header")))
	require.Equal(e.t, sha256Hex([]byte("key\x00"+e.text("header"))), e.value("header_key"))
	e.computed("run_key", post())
	require.Equal(e.t, sha256Hex([]byte("run_id\x00ipc_record\x00"+e.text("run_id"))), e.value("run_key"))
	require.Equal(e.t, sha256Hex([]byte(e.value("normalised"))), e.value("digest"))
	e.computed("digest", e.post(record.IPCRecord, e.value("record")).Record.Digest)
	ipc := e.all["event"].value("record")
	require.Equal(e.t, sha256Hex([]byte(canonicalForm(e.t, ipc, pyjson.Compact))), e.post(record.IPCRecord, ipc).Record.Digest)
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
		require.True(e.t, list.Add(seq))
	}
	e.computed("seqs", string(list.AppendJSON(nil)))
	v := record.NewRedaction(e.text("reason"), list)
	e.computed("digest", hex.EncodeToString(v.Digest[:]))
	require.Equal(e.t, sha256Hex([]byte(`{"reason":`+e.value("reason")+`,"seqs":`+e.value("seqs")+`}`)), e.value("digest"))
}

// exampleLog returns the log of the examples. A ledger is created, and a source is registered
// and revoked.
func exampleLog(e *example) (entries [][]byte, links []proofs.Link) {
	frame := record.Event{Actor: "anonymous", Ledger: "texts"}
	signer := exampleSigner(e, "key", "seed")
	registration, err := record.ParseRegistration("s", []byte(`{}`))
	require.NoError(e.t, err)
	revocation, err := record.ParseRevocation("s", []byte(`{"reason":"old"}`))
	require.NoError(e.t, err)
	var c proofs.Chain
	for seq, body := range [][]byte{
		record.AppendLedgerCreated(nil, frame, signer.Origin(), signer.Verifier().String(), nil),
		registration.AppendBody(nil, frame), revocation.AppendBody(nil, frame),
	} {
		body = record.AppendSuffix(body, uint64(seq), time.Date(2026, 1, 2, 3, 4, 5, 1000*seq, time.UTC))
		entry := proofs.AppendEntry(nil, c.Tip, body)
		link, err := c.Next(entry)
		require.NoError(e.t, err)
		entries, links = append(entries, entry), append(links, link)
	}
	return entries, links
}

// exampleTreeOf returns the tree of the examples.
func exampleTreeOf(e *example) *proofs.Tree {
	tree, err := proofs.OpenTree(0, nil, nil)
	require.NoError(e.t, err)
	_, links := exampleLog(e)
	for _, link := range links {
		tree.Append(link.Leaf)
	}
	return tree
}

// exampleSigner returns the signer with a key of the examples. of is the example that has the
// key's seed.
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
		e.computed(fmt.Sprintf("event_hash_%d", i), hex.EncodeToString(link.Event[:]))
	}
}

func exampleTree(e *example) {
	_, links := exampleLog(e)
	for i, link := range links {
		e.computed(fmt.Sprintf("leaf_%d", i), hex.EncodeToString(link.Leaf[:]))
	}
	node := proofs.NodeHash(links[0].Leaf, links[1].Leaf)
	e.computed("node_01", hex.EncodeToString(node[:]))
	root := exampleTreeOf(e).Root()
	e.computed("root_3", hex.EncodeToString(root[:]))
}

func exampleBundle(e *example) {
	entries, _ := exampleLog(e)
	var bundle []byte
	for _, entry := range entries {
		var err error
		bundle, err = proofs.AppendBundle(bundle, entry)
		require.NoError(e.t, err)
	}
	e.computed("bundle", hex.EncodeToString(bundle))
	e.computed("path", proofs.TilePath{Level: 1, Index: 1234067, Width: proofs.FullTile}.String())
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

// exampleSigned returns the checkpoint of the example log.
func exampleSigned(e *example) []byte {
	signed, err := exampleSigner(e, "key", "seed").Sign(proofs.Checkpoint{Origin: e.all["key"].value("origin"), Size: 3, Root: exampleTreeOf(e).Root()})
	require.NoError(e.t, err)
	return signed
}

func exampleHandover(e *example) {
	previous, next := exampleSigner(e, "key", "seed"), exampleSigner(e, "handover", "next_seed")
	handover, err := proofs.NewHandover(previous, next)
	require.NoError(e.t, err)
	text, _, found := strings.Cut(string(handover), "\n\n")
	require.True(e.t, found)
	e.computedText("text", text+"\n")
	e.computedText("handover", string(handover))
}

func exampleProofs(e *example) {
	prover := proofs.NewProver(exampleTreeOf(e).Snapshot(), nil, nil)
	inclusion, err := prover.Inclusion(1, 3)
	require.NoError(e.t, err)
	e.computed("inclusion_1_of_3", string(proofs.AppendHashes(nil, inclusion)))
	consistency, err := prover.Consistency(2, 3)
	require.NoError(e.t, err)
	e.computed("consistency_2_to_3", string(proofs.AppendHashes(nil, consistency)))
}

func exampleReceipt(e *example) {
	entries, _ := exampleLog(e)
	r, err := proofs.NewReceipt(entries[1])
	require.NoError(e.t, err)
	inclusion, err := proofs.NewProver(exampleTreeOf(e).Snapshot(), nil, nil).Inclusion(1, 3)
	require.NoError(e.t, err)
	r.Proof = &proofs.Proof{
		Event: entries[1][proofs.HashSize:], Inclusion: proofs.Inclusion{LeafIndex: 1, TreeSize: 3, Hashes: inclusion}, Checkpoint: exampleSigned(e),
	}
	require.NoError(e.t, r.Verify(exampleSigner(e, "key", "seed").Verifier()))
	e.computed("receipt", string(r.AppendJSON(nil)))
}

func exampleTlogProof(e *example) {
	entries, _ := exampleLog(e)
	inclusion, err := proofs.NewProver(exampleTreeOf(e).Snapshot(), nil, nil).Inclusion(1, 3)
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
		path = fmt.Appendf(path, `{"sibling":"%x","is_left":%t}`, step.Sibling, step.IsLeft)
	}
	e.computed("path", string(append(path, ']')))
}

// server is a ledger in memory behind the API.
type server struct {
	t   *testing.T
	url string
}

func newServer(t *testing.T) *server {
	host, err := ledger.OpenHost(t.Context(), memory.New(), keystore.Files{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	_, err = host.Create(t.Context(), ledger.New{Name: ledger.Default})
	require.NoError(t, err)
	folded, err := query.Open(index.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	handler, err := api.New(api.Config{Host: host, Index: folded, Version: "test"})
	require.NoError(t, err)
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, folded.Close())
		require.NoError(t, host.Close())
	})
	return &server{t, s.URL + "/v1/ledgers/default"}
}

func (s *server) get(path string) []byte {
	response, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s: %s", path, answer)
	return answer
}

// ask sends a request with headers, by name and value, and reads the answer.
func (s *server) ask(method, path string, body, into any, headers ...string) {
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(text))
	require.NoError(s.t, err)
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Less(s.t, response.StatusCode, 300, "%s %s: %s", method, path, answer)
	require.NoError(s.t, json.Unmarshal(answer, into))
}

// postRun posts an IPC record with the given members and defaults for the others. It returns
// the receipt.
func (s *server) postRun(given map[string]any) (r struct {
	Seq    int
	Hashes map[string]*string
}) {
	body := map[string]any{"payload": map[string]any{}, "system_prompt": "s", "output": "o", "model": "m", "temperature": 0.5, "max_tokens": 10, "seed": 1}
	for name, value := range given {
		body[name] = value
	}
	s.ask(http.MethodPost, "/ipc-records", body, &r)
	return r
}

func exampleGroup(e *example) {
	s := newServer(e.t)
	var outputs []string
	e.decode("outputs", &outputs)
	for _, output := range outputs {
		s.postRun(map[string]any{"output": output})
	}
	var rows struct{ Rows []json.RawMessage }
	s.ask(http.MethodGet, "/drift/groups?by=input_hash", nil, &rows)
	require.Len(e.t, rows.Rows, 1)
	for _, key := range []string{"runs", "distinct_outputs", "stability", "entropy_bits", "flips"} {
		var row map[string]json.RawMessage
		require.NoError(e.t, json.Unmarshal(rows.Rows[0], &row))
		e.computed(key, string(row[key]))
	}
}

func exampleCauses(e *example) {
	s := newServer(e.t)
	var base map[string]any
	e.decode("base", &base)
	a := s.postRun(base)
	for _, change := range e.keys[1:] {
		var given map[string]any
		require.NoError(e.t, json.Unmarshal([]byte(change), &given))
		b := make(map[string]any)
		for name, value := range base {
			b[name] = value
		}
		for name, value := range given {
			b[name] = value
		}
		var answer struct{ Cause drift.Cause }
		s.ask(http.MethodGet, fmt.Sprintf("/drift/attribution?a=%d&b=%d", a.Seq, s.postRun(b).Seq), nil, &answer)
		e.computed(change, string(answer.Cause))
	}
}

func exampleEffects(e *example) {
	s := newServer(e.t)
	var runs []map[string]any
	e.decode("runs", &runs)
	for _, run := range runs {
		s.postRun(run)
	}
	var answer struct{ Pairs, Changed, Unchanged int }
	s.ask(http.MethodGet, fmt.Sprintf("/drift/effects?variable=%s&a=%s&b=%s", e.value("variable"), e.value("a"), e.value("b")), nil, &answer)
	e.computed("pairs", strconv.Itoa(answer.Pairs))
	e.computed("changed", strconv.Itoa(answer.Changed))
	e.computed("unchanged", strconv.Itoa(answer.Unchanged))
}

func exampleRunGroups(e *example) {
	s := newServer(e.t)
	var answers []*string
	e.decode("answers", &answers)
	zeros := strings.Repeat("0", 64)
	for _, answer := range answers {
		nodes := []map[string]any{{"stage": "question", "hash": zeros}}
		if answer != nil {
			nodes = append(nodes, map[string]any{"stage": "answer", "hash": sha256Hex([]byte(*answer))})
		}
		s.ask(http.MethodPost, "/run-dags", map[string]any{"question": "Why?", "dag": map[string]any{"root": zeros, "nodes": nodes}}, new(any))
	}
	var list struct{ Rows []map[string]json.RawMessage }
	s.ask(http.MethodGet, "/run-dags/groups?by=question_hash", nil, &list)
	require.Len(e.t, list.Rows, 1)
	for _, key := range []string{"runs", "distinct_answers"} {
		e.computed(key, string(list.Rows[0][key]))
	}
}

// compactJSON returns a value in the form that examples use. It returns [] for a list without
// elements.
func compactJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	if string(text) == "null" {
		return "[]"
	}
	return string(text)
}

func exampleStageComparison(e *example) {
	read := func(key string) (stages []event.Stage) {
		var list [][2]string
		e.decode(key, &list)
		for _, stage := range list {
			stages = append(stages, event.Stage{Name: []byte(stage[0]), Hash: []byte(stage[1])})
		}
		return stages
	}
	change := drift.CompareStages(read("a"), read("b"))
	e.computed("differing", compactJSON(e.t, change.Differing))
	e.computed("only_in_a", compactJSON(e.t, change.OnlyInA))
	e.computed("only_in_b", compactJSON(e.t, change.OnlyInB))
}

func exampleCitationDrift(e *example) {
	var before, after []string
	e.decode("before", &before)
	e.decode("after", &after)
	change := drift.CompareChunks(before, after)
	e.computed("added", compactJSON(e.t, change.Added))
	e.computed("removed", compactJSON(e.t, change.Removed))
	e.computed("kept", compactJSON(e.t, change.Kept))
	e.computed("jaccard", compactJSON(e.t, change.Jaccard))
}

func exampleEvidence(e *example) {
	read := func(key string) (citations []drift.Citation) {
		var list [][2]string
		e.decode(key, &list)
		for _, c := range list {
			citations = append(citations, drift.Citation{Chunk: c[0], Source: c[1]})
		}
		return citations
	}
	change := drift.CompareCitations(read("a"), read("b"))
	var other []string
	for _, c := range change.OtherSources {
		other = append(other, c.Chunk)
	}
	e.computed("added", compactJSON(e.t, change.Added))
	e.computed("removed", compactJSON(e.t, change.Removed))
	e.computed("kept", compactJSON(e.t, change.Kept))
	e.computed("other", compactJSON(e.t, other))
	e.computed("differ", compactJSON(e.t, change.Differ()))
}

func exampleStale(e *example) {
	s := newServer(e.t)
	var steps []struct {
		Subject  string
		Cite     [][2]string
		Register string
		Chunks   []string
	}
	e.decode("steps", &steps)
	texts := make(map[string]string)
	for _, step := range steps {
		if step.Register != "" {
			hashes := []string{}
			for _, text := range step.Chunks {
				hashes = append(hashes, rules.ChunkHash([]byte(text)))
			}
			s.ask(http.MethodPut, "/sources/"+step.Register, map[string]any{"chunk_hashes": hashes}, new(any))
			continue
		}
		citations := []map[string]any{}
		for _, cited := range step.Cite {
			texts[rules.ChunkHash([]byte(cited[1]))] = cited[1]
			citations = append(citations, map[string]any{"source_id": cited[0], "text": cited[1], "weight": 1})
		}
		s.ask(http.MethodPost, "/citation-sets", map[string]any{"subject": step.Subject, "citations": citations}, new(any))
	}
	var answer struct {
		Rows []struct {
			Seq       int
			ChunkHash string `json:"chunk_hash"`
			By        int    `json:"superseded_by"`
			How       string
		}
	}
	s.ask(http.MethodGet, "/citation-sets/stale?source_id=s", nil, &answer)
	stale := [][]any{}
	for _, row := range answer.Rows {
		stale = append(stale, []any{row.Seq, texts[row.ChunkHash], row.By, row.How})
	}
	e.computed("stale", compactJSON(e.t, stale))
}

func examplePathCategories(e *example) {
	s := newServer(e.t)
	var records [][2]string
	e.decode("records", &records)
	categories := []string{}
	for _, r := range records {
		var receipt struct{ Category string }
		s.ask(http.MethodPost, "/path-fingerprints?derive=true", map[string]any{"project": "p", "route": []string{"Start"}, "build": r[0], "content": r[1]}, &receipt)
		categories = append(categories, receipt.Category)
	}
	e.computed("categories", compactJSON(e.t, categories))
}

func examplePathValidation(e *example) {
	s := newServer(e.t)
	var records [][3]*string
	var validated string
	e.decode("builds", &records)
	e.decode("validated", &validated)
	pathID := ""
	for _, r := range records {
		var receipt struct {
			PathID string `json:"path_id"`
		}
		s.ask(http.MethodPost, "/path-fingerprints?derive=true", map[string]any{"project": "p", "route": []string{"Start"},
			"build": r[0], "base": r[1], "content": r[2]}, &receipt)
		pathID = receipt.PathID
	}
	s.ask(http.MethodPut, "/paths/p/"+pathID+"/validation", map[string]any{"validated": true, "build": validated}, new(json.RawMessage))
	holds, before := []string{}, []string{}
	for _, r := range records {
		var page struct {
			Rows []struct {
				Validated       bool
				ValidatedBefore uint64 `json:"validated_before"`
			}
		}
		s.ask(http.MethodGet, "/paths/p?build="+*r[0]+"&after="+strconv.Itoa(len(records)+1), nil, &page)
		if page.Rows[0].Validated {
			holds = append(holds, *r[0])
		}
		if page.Rows[0].ValidatedBefore > 0 {
			before = append(before, *r[0])
		}
	}
	e.computed("holds", compactJSON(e.t, holds))
	e.computed("before", compactJSON(e.t, before))
}

var (
	heading       = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	codeBlock     = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	specReference = regexp.MustCompile(`\(spec: ([^()]*)\)`)
)

func withoutCode(text []byte) string { return codeBlock.ReplaceAllString(string(text), "") }

// specHeadings returns the titles of the headings in a document.
func specHeadings(t *testing.T, file string) (titles []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, m := range heading.FindAllStringSubmatch(withoutCode(text), -1) {
		titles = append(titles, m[1])
	}
	return titles
}

// specReferences returns the headings to which the comments of a Go file refer, as in (spec:
// Canonical JSON; Numbers).
func specReferences(t *testing.T, file string) (titles []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, group := range parsed.Comments {
		var words []string
		for _, line := range group.List {
			words = append(words, strings.Fields(strings.TrimPrefix(line.Text, "//"))...)
		}
		for _, m := range specReference.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			titles = append(titles, strings.Split(m[1], "; ")...)
		}
	}
	return titles
}

// Every comment that refers to docs/spec names an existing heading.
func TestCommentsReferToSpecHeadings(t *testing.T) {
	files, err := filepath.Glob("docs/spec/*.md")
	require.NoError(t, err)
	where := make(map[string]string)
	for _, file := range files {
		for _, title := range specHeadings(t, file) {
			require.NotContains(t, title, ";", file)
			require.Empty(t, where[title], "%s: the heading %q occurs in two places", file, title)
			where[title] = file
		}
	}
	referred := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		for _, title := range specReferences(t, path) {
			referred++
			require.NotEmpty(t, where[title], "%s refers to (spec: %s), but docs/spec has no such heading", path, title)
		}
		return nil
	}))
	require.Positive(t, referred)
}

// The programs in docs/spec, which share no code with ours, verify vectors, examples, and a
// log.
func TestSpecProgramsAgree(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	s := newServer(t)
	s.postRun(map[string]any{"run_id": "a", "output_hash": zeroHash})
	s.postRun(map[string]any{"seed": nil, "usage": map[string]any{"tokens": 5}})
	s.ask(http.MethodPost, "/records/1/state", map[string]any{"state": "failed", "reason": "wrong"}, new(any))
	s.ask(http.MethodPost, "/records/2/state", map[string]any{"state": "stale", "reason": "r", "original_actor": "Ana Vargá", "timestamp": "2025-11-30T12:00:00Z"}, new(any))
	s.ask(http.MethodPost, "/records/1/notes", map[string]any{"topic": "review", "text": "Good.", "original_actor": "ana"}, new(any))
	s.ask(http.MethodPost, "/keys", map[string]any{"step": "rotate"}, new(any))
	s.ask(http.MethodDelete, "/records/1/content", map[string]any{"reason": "asked for"}, new(any))
	s.ask(http.MethodPost, "/run-dags", json.RawMessage(`{"question":"q",`+minimalInputs), new(any))
	folder := t.TempDir()
	for file, path := range map[string]string{"log.ndjson": "/events", "checkpoint": "/log/checkpoint", "key.json": "/log/key", "receipt.json": "/records/1/receipt"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), s.get(path), 0o600))
	}
	keys, err := proofs.ParseLogKey(s.get("/log/key"))
	require.NoError(t, err)
	key, before := keys.Current().String(), keys.Overlapping().String()
	run := func(program string, arguments ...string) (string, error) {
		command := exec.Command(python, append([]string{"docs/spec/" + program}, arguments...)...)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	for _, arguments := range [][]string{
		{"hashes.py", "vectors", "testdata/vectors"},
		{"hashes.py", "examples", "docs/spec"},
		{"verify_log.py", "log", folder + "/log.ndjson", "--checkpoint", folder + "/checkpoint", "--key", before},
		{"verify_log.py", "receipt", folder + "/receipt.json", "--key", key},
	} {
		out, err := run(arguments[0], arguments[1:]...)
		require.NoError(t, err, "%s: %s", arguments, out)
	}

	text, err := os.ReadFile(folder + "/log.ndjson")
	require.NoError(t, err)
	_, later, _ := bytes.Cut(text, []byte("\n"))
	require.NoError(t, os.WriteFile(folder+"/log.ndjson", later, 0o600))
	out, err := run("verify_log.py", "log", folder+"/log.ndjson", "--checkpoint", folder+"/checkpoint")
	require.Error(t, err, out)
}
