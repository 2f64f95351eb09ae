package record

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/cpython"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/retrieval"
	"colophon/ledger/record/rules"
)

func TestMain(m *testing.M) { os.Exit(cpython.Main(m)) }

// effective returns the effective hashes of a record, by name; nil stands for null.
func effective(t *testing.T, kind Kind, body []byte) map[string]*string {
	t.Helper()
	r := parse(t, kind, body)
	defer r.Release()
	hashes := make(map[string]*string)
	require.NoError(t, json.Unmarshal(r.HashesJSON(), &hashes))
	return hashes
}

func compareRecords(t *testing.T, operation string, n int, generate func(g *cpython.Generator) string, compute func(body []byte) map[string]*string) {
	oracle := cpython.Start(t)
	g := cpython.NewGenerator(t, oracle)
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = []byte(generate(g))
	}
	cpython.Compare(t, oracle, operation, bodies, compute)
}

// producerOf randomly returns either a producer member or "". Hashes must not depend on it.
func producerOf(g *cpython.Generator) string {
	return g.OptionalMember("producer", func() string { return `{"id":"p` + fmt.Sprint(g.IntN(9)) + `","seq":` + fmt.Sprint(g.IntN(999)) + `}` })
}

func TestIPCAgainstCPython(t *testing.T) {
	generate := func(g *cpython.Generator) string {
		environment := func() string {
			return `{"ollama_build_hash":` + g.JSONString(8, true) + `,"model_digest":` + g.JSONString(8, true) + `,"host_platform":` + g.JSONString(8, true) + `}`
		}
		text := func() string { return g.JSONString(80, true) }
		seed := func() string { return fmt.Sprint(g.IntN(100) - 50) }
		return `{"model":` + g.JSONString(10, true) + `,"temperature":` + g.Temperature() + `,"max_tokens":` + fmt.Sprint(g.IntN(5000)) +
			g.OptionalMember("system_prompt", text) + g.OptionalMember("output", text) + g.OptionalMember("seed", seed) + g.OptionalMember("environment", environment) + producerOf(g) +
			`,"payload":` + g.Object(4, true) + `}`
	}
	compareRecords(t, "ipc", 2500, generate, func(body []byte) map[string]*string { return effective(t, KindIPCRecord, body) })
}

// stagesOf returns the effective hashes of a run-DAG, including those of its stages, in the
// oracle's format.
func stagesOf(t *testing.T, body []byte) map[string]*string {
	hashes := effective(t, KindRunDAG, body)
	r := parse(t, KindRunDAG, body)
	defer r.Release()
	var stages []string
	for _, n := range r.fields.(*fields.RunDAG).Stages {
		stages = append(stages, string(n.Name)+"="+string(n.Hash))
	}
	all := strings.Join(stages, ",")
	hashes["nodes"] = &all
	for _, name := range rules.ClaimOnlyDimensions {
		delete(hashes, name)
	}
	return hashes
}

func TestRunDAGAgainstCPython(t *testing.T) {
	compareRecords(t, "run_dag", 2500, randomDAG, func(body []byte) map[string]*string { return stagesOf(t, body) })
}

// randomDAG returns a run-DAG record with inputs or reject_inputs. Sometimes the record also has
// the content that its hashes cover.
func randomDAG(g *cpython.Generator) string {
	text := func() string { return g.JSONString(40, false) }
	list := func() string { return "[" + g.Value(2, false) + "]" }
	hash := func() string { return g.Hash() }
	hashes := func() string { return "[" + g.Hash() + "," + g.Hash() + "," + g.Hash() + "]" }
	object := func() string { return g.Object(3, false) }
	clauses := func() string {
		if g.IntN(3) == 0 { // clauses of a different generation of the preflight payload
			return `{"question_state":` + g.Object(2, false) + g.OptionalMember("quantifier", text) + g.OptionalMember("policy_state", object) +
				g.OptionalMember("node_version", text) + g.OptionalMember("classifier", text) + `,"stage":` + []string{`null`, `"preflight"`, `"other"`}[g.IntN(3)] + `}`
		}
		return `{"stage":"preflight"` + g.OptionalMember("classifier", object) + g.OptionalMember("policy_refs", object) + g.OptionalMember("question_state", object) + `}`
	}
	mode := func() string { return `"` + []string{"STRICT", "HYBRID", "UNGROUNDED"}[g.IntN(3)] + `"` }
	outer := producerOf(g) + g.OptionalMember("question", text) + g.OptionalMember("question_mode", func() string { return []string{`"strict"`, `"equivalence_class"`}[g.IntN(2)] }) +
		g.OptionalMember("messages", list) + g.OptionalMember("policy", object) + g.OptionalMember("verifier_policy", object) + g.OptionalMember("cache_dimensions", func() string {
		return `{"source_root":` + g.Hash() + `,"question_hash":` + g.Hash() + `,"model_profile_hash":` + g.Hash() + `,"conversation_hash":` + g.Hash() +
			`,"governance_policy_hash":` + g.Hash() + `,"schema_version":` + []string{text(), fmt.Sprint(g.IntN(20) - 9), "-0", "123456789012345678901"}[g.IntN(4)] + `,"canonicalization_version":` + text() + `,"chunking_version":"c"` +
			g.OptionalMember("verifier_policy_hash", hash) + `}`
	})
	if g.IntN(4) == 0 {
		return `{"reject_inputs":{"question_hash":` + g.Hash() + `,"preflight_hash":` + g.Hash() + g.OptionalMember("preflight_payload", clauses) +
			`,"rejection_reason":` + text() + g.OptionalMember("answer_text", text) + g.OptionalMember("violations", list) + g.OptionalMember("audit_mode", mode) +
			g.OptionalMember("verifier_method", text) + `}` + outer + `}`
	}
	source := func() string {
		return `{"x":1` + g.OptionalMember("document_root", hash) + g.OptionalMember("source_role", text) + g.OptionalMember("score", g.Temperature) + g.OptionalMember("chunk_idx", func() string { return fmt.Sprint(g.IntN(9)) }) + `}`
	}
	sources := "[]"
	if g.IntN(3) > 0 {
		sources = "[" + source() + "," + source() + "]"
	}
	return `{"inputs":{"question_hash":` + g.Hash() + `,"context_root":` + g.Hash() + `,"conversation_hash":` + g.Hash() + `,"answer_text":` + text() +
		`,"audit_mode":` + mode() + `,"verifier_method":` + text() + `,"n_quotes":` + fmt.Sprint(g.IntN(2)) + `,"n_verified":` + fmt.Sprint(g.IntN(3)) +
		`,"sources":` + sources + g.OptionalMember("lookup_path", text) + g.OptionalMember("claim_statuses", list) + g.OptionalMember("evidence_map_root", hash) +
		g.OptionalMember("raw_answer_text", text) + g.OptionalMember("rendered_text", text) + g.OptionalMember("parsed_lattice", list) + g.OptionalMember("retrieval_plan_hash", hash) +
		g.OptionalMember("violations", list) + g.OptionalMember("answer_mode", text) + g.OptionalMember("preflight_hash", hash) + g.OptionalMember("preflight_payload", clauses) + `}` +
		outer + g.OptionalMember("source_roots", hashes) + g.OptionalMember("evidence", func() string {
		return `[{"chunk_root":` + g.Hash() + `,"start":0,"end":` + fmt.Sprint(g.IntN(99)) + g.OptionalMember("evidence_id", func() string { return `"E00000000"` }) + g.OptionalMember("text_hash", hash) +
			g.OptionalMember("span", text) + g.OptionalMember("rank", g.Temperature) + `},{"chunk_root":` + g.Hash() + `,"start":7,"end":12345678901234567890}]`
	}) + `}`
}

func TestChunksAgainstCPython(t *testing.T) {
	oracle := cpython.Start(t)
	g := cpython.NewGenerator(t, oracle)
	texts := make([][]byte, 1500)
	for i := range texts {
		texts[i] = g.Text(60)
	}
	cpython.Compare(t, oracle, "chunk", texts, func(text []byte) string { return string(new(Record).chunkHash(text)) })
}

func TestPinnedRetrievalAgainstCPython(t *testing.T) {
	oracle := cpython.Start(t)
	g := cpython.NewGenerator(t, oracle)
	texts := []string{`"a"`, `"b c"`, `" b  c"`, `""`, `null`, `"d\u001ce"`, `"d e"`, `"é"`}
	cases := make([][]byte, 500)
	for i := range cases {
		var sources []string
		for range g.IntN(4) {
			var chunks []string
			for range g.IntN(6) {
				chunks = append(chunks, `{"text":`+texts[g.IntN(len(texts))]+g.OptionalMember("rank", g.Temperature)+`}`)
			}
			sources = append(sources, `{"x":0`[:1]+`"chunks":[`+strings.Join(chunks, ",")+`]`+g.OptionalMember("title", func() string { return g.JSONString(3, true) })+g.OptionalMember("id", func() string { return g.JSONString(3, true) })+`}`)
		}
		var required []string
		for range g.IntN(4) {
			required = append(required, `"`+string(new(Record).chunkHash([]byte([]string{"a", "b c", "", "d e", "z"}[g.IntN(5)])))+`"`)
		}
		cases[i] = fmt.Appendf(nil, `{"sources":[%s],"required_chunk_hashes":[%s]%s}`, strings.Join(sources, ","), strings.Join(required, ","),
			g.OptionalMember("top_k", func() string { return fmt.Sprint(g.IntN(9)) })+g.OptionalMember("seed", g.Temperature)+g.OptionalMember("query", func() string { return g.JSONString(9, true) }))
	}
	cpython.Compare(t, oracle, "pinned_retrieval", cases, func(body []byte) []byte {
		r, err := retrieval.Decode(body)
		require.NoError(t, err)
		return rows(rules.SelectPinnedChunks(r.Chunks, r.RequiredHashes, r.TopK))
	})
}

func TestPathsAgainstCPython(t *testing.T) {
	generate := func(g *cpython.Generator) string {
		content := g.JSONString(60, true)
		if g.IntN(2) == 0 {
			var b strings.Builder
			for range g.IntN(30) {
				b.WriteString([]string{"[", "]", "[[", "]]", "(", ")", "](", " ", "  ", "\\n", "\\n\\n\\n", "a", "é", "\\u2028", "\\r", "\\t"}[g.IntN(16)])
			}
			content = `"` + b.String() + `"`
		}
		return `{"project":"p","route":[` + g.JSONString(8, true) + `,` + g.JSONString(8, true) + `],"content":` + content + producerOf(g) + `}`
	}
	compareRecords(t, "path", 2500, generate, func(body []byte) map[string]*string { return effective(t, KindPathFingerprint, body) })
}
