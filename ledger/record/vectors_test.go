package record

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/retrieval"
	"colophon/ledger/record/rules"
)

// vectors reads a file in testdata/vectors, which was generated with CPython.
func vectors[T any](t *testing.T, name string) T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name))
	require.NoError(t, err)
	var v T
	require.NoError(t, json.Unmarshal(b, &v))
	return v
}

// wtf8 decodes a JSON string into WTF-8. It keeps lone surrogates, which encoding/json would
// replace.
func wtf8(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	d := new(pyjson.Document)
	require.NoError(t, d.Parse(raw))
	return d.Root().Text()
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func parse(t *testing.T, kind Kind, body []byte) *Record {
	t.Helper()
	r, err := Parse(kind, body)
	require.NoError(t, err, "%s", body)
	return r
}

type textVector struct {
	Text       json.RawMessage
	Normalised json.RawMessage
	SHA256     string
}

func TestVectorsIPC(t *testing.T) {
	v := vectors[struct {
		SystemPrompts []textVector `json:"system_prompts"`
		Outputs       []textVector
		Payloads      []struct{ JSON, SHA256 string }
		IPCIDs        []map[string]json.RawMessage `json:"ipc_ids"`
		Advanced      []map[string]json.RawMessage `json:"ipc_ids_advanced"`
	}](t, "ipc.json")
	post := func(members map[string]json.RawMessage) *Record {
		body := map[string]json.RawMessage{"model": []byte(`"m"`), "temperature": []byte("0"),
			"max_tokens": []byte("1"), "seed": []byte("1"), "input_hash": []byte(`"` + zeros + `"`)}
		for k, m := range members {
			body[k] = m
		}
		return parse(t, KindIPCRecord, joinObject(body))
	}
	for _, p := range v.SystemPrompts {
		require.Equal(t, string(wtf8(t, p.Normalised)), string(rules.AppendNormalisedSystemPrompt(nil, wtf8(t, p.Text))))
		require.Equal(t, p.SHA256, post(map[string]json.RawMessage{"system_prompt": p.Text}).EffectiveHash("system_prompt_hash"))
	}
	for _, p := range v.Outputs {
		require.Equal(t, string(wtf8(t, p.Normalised)), string(rules.AppendNormalisedOutput(nil, wtf8(t, p.Text))))
		require.Equal(t, p.SHA256, post(map[string]json.RawMessage{"output": p.Text}).EffectiveHash("output_hash"))
	}
	for _, p := range v.Payloads {
		require.Equal(t, p.SHA256, post(map[string]json.RawMessage{"payload": []byte(p.JSON)}).EffectiveHash("input_hash"))
	}
	ids := func(list []map[string]json.RawMessage, field string, environment bool) {
		for _, id := range list {
			body := map[string]json.RawMessage{"output": []byte(`"x"`)}
			for _, name := range []string{"input_hash", "system_prompt_hash", "model", "max_tokens", "seed"} {
				body[name] = id[name]
			}
			body["temperature"] = wtf8(t, id["temperature_json"])
			if environment {
				body["environment"] = joinObject(map[string]json.RawMessage{
					"ollama_build_hash": id["ollama_build_hash"], "model_digest": id["model_digest"],
					"host_platform": id["host_platform"]})
			}
			require.Equal(t, string(wtf8(t, id["sha256"])), post(body).EffectiveHash(field))
		}
	}
	ids(v.IPCIDs, "ipc_id", false)
	ids(v.Advanced, "ipc_id_advanced", true)
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func joinObject(members map[string]json.RawMessage) []byte {
	b := []byte{'{'}
	for k, v := range members {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(pyjson.AppendString(b, []byte(k)), ':')
		b = append(b, v...)
	}
	return append(b, '}')
}

type dagVector struct {
	Inputs json.RawMessage
	DAG    json.RawMessage
	Why    string
}

func TestVectorsRunDAG(t *testing.T) {
	v := vectors[struct{ Build, Reject, Invalid []dagVector }](t, "run-dag.json")
	require.NotEmpty(t, v.Build)
	given := map[string]bool{"question": true, "context": true, "evidence_map": true, "prompt": true}
	built := func(list []dagVector, arguments string) {
		given[rules.PreflightStage] = arguments == "reject_inputs"
		for _, b := range list {
			r := parse(t, KindRunDAG, joinObject(map[string]json.RawMessage{arguments: b.Inputs, "dag": b.DAG}))
			require.Empty(t, r.Mismatches(), "%s", b.Inputs)
			stages := 0
			for _, c := range r.Checks {
				if len(c.Field) > len(rules.StageCheckPrefix) && c.Field[:len(rules.StageCheckPrefix)] == rules.StageCheckPrefix {
					want := ResultMatch
					if given[strings.TrimPrefix(c.Field, rules.StageCheckPrefix)] {
						want = ResultClaimed // the arguments contain a hash but not the content that it covers
					}
					require.Equal(t, want, c.Result, c.Field)
					stages++
				}
			}
			require.Equal(t, len(r.fields.(*fields.RunDAG).Stages), stages)
			require.NotEqual(t, "unrecognised", string(r.fields.(*fields.RunDAG).Shape))
		}
	}
	built(v.Build, "inputs")
	built(v.Reject, "reject_inputs")
	for _, b := range v.Invalid {
		r, err := Parse(KindRunDAG, joinObject(map[string]json.RawMessage{"dag": b.DAG}))
		if b.Why == "no nodes" {
			require.ErrorContains(t, err, "/dag/nodes")
			continue
		}
		require.NoError(t, err)
		require.Len(t, r.Mismatches(), 1, b.Why)
		require.Equal(t, "root", r.Mismatches()[0].Field)
	}
}

func TestVectorsRunDAGParts(t *testing.T) {
	v := vectors[struct {
		Merkle []struct {
			Leaves []string
			Root   string
		}
		Localize []struct {
			AuditMode string `json:"audit_mode"`
			Sources   int    `json:"n_sources"`
			Quotes    int    `json:"n_quotes"`
			Stage     *string
		} `json:"localize_failure"`
		Preflight []struct {
			Payload json.RawMessage
			SHA256  string
		}
		Questions []struct {
			Text             json.RawMessage
			EquivalenceClass json.RawMessage `json:"equivalence_class"`
			Strict           json.RawMessage
			SHA256           string
			SHA256Strict     string `json:"sha256_strict"`
		}
		CacheKeys []struct {
			Dimensions []string
			SHA256     string
		} `json:"cache_keys"`
		ContextRoots []struct {
			Roots json.RawMessage `json:"document_roots"`
			Root  string
		} `json:"context_roots"`
		EvidenceMapRoots []struct {
			IDs  []string `json:"evidence_ids"`
			Root string
		} `json:"evidence_map_roots"`
		JSONHashes []struct{ What, JSON, SHA256 string } `json:"json_hashes"`
		Evidence   []struct {
			ChunkRoot  string `json:"chunk_root"`
			Start, End json.Number
			ID         string
		} `json:"evidence_ids"`
	}](t, "run-dag.json")
	for _, m := range v.Merkle {
		var leaves [][]byte
		for _, l := range m.Leaves {
			leaf, err := hex.DecodeString(l)
			require.NoError(t, err)
			leaves = append(leaves, leaf)
		}
		root := rules.MerkleRoot(leaves)
		require.Equal(t, m.Root, hex.EncodeToString(root[:]))
	}
	for _, l := range v.Localize {
		quotes := []byte("2")
		if l.Quotes == 0 {
			quotes = []byte("0")
		}
		got := rules.FailureStage([]byte(l.AuditMode), strconv.AppendInt(nil, int64(l.Sources), 10), quotes)
		if l.Stage == nil {
			require.Nil(t, got)
			continue
		}
		require.Equal(t, *l.Stage, string(got))
	}
	dag := func(members map[string]json.RawMessage) *Record {
		members["dag"] = []byte(`{"root":"` + zeros + `","nodes":[{"stage":"question","hash":"` + zeros + `"}]}`)
		return parse(t, KindRunDAG, joinObject(members))
	}
	for _, p := range v.Preflight {
		r := parse(t, KindRunDAG, joinObject(map[string]json.RawMessage{"reject_inputs": joinObject(map[string]json.RawMessage{
			"question_hash": []byte(`"` + zeros + `"`), "preflight_payload": p.Payload, "rejection_reason": []byte(`""`)})}))
		require.Equal(t, p.SHA256, r.EffectiveHash("preflight_hash"))
	}
	for _, q := range v.Questions {
		require.Equal(t, string(wtf8(t, q.EquivalenceClass)), string(rules.AppendCanonicalQuestion(nil, wtf8(t, q.Text), false)))
		require.Equal(t, string(wtf8(t, q.Strict)), string(rules.AppendCanonicalQuestion(nil, wtf8(t, q.Text), true)))
		require.Equal(t, q.SHA256, dag(map[string]json.RawMessage{"question": q.Text}).EffectiveHash("question_hash"))
		strict := map[string]json.RawMessage{"question": q.Text, "question_mode": []byte(`"strict"`)}
		require.Equal(t, q.SHA256Strict, dag(strict).EffectiveHash("question_hash"))
	}
	for _, k := range v.CacheKeys {
		dims := map[string]json.RawMessage{}
		for i, d := range k.Dimensions {
			dims[rules.CacheDimensions[i]] = jsonOf(t, d)
		}
		require.Equal(t, k.SHA256, dag(map[string]json.RawMessage{"cache_dimensions": joinObject(dims)}).EffectiveHash("cache_key"))
	}
	for _, c := range v.ContextRoots {
		require.Equal(t, c.Root, dag(map[string]json.RawMessage{"source_roots": c.Roots}).EffectiveHash("context_root"))
	}
	for _, e := range v.EvidenceMapRoots {
		var ids [][]byte
		for _, id := range e.IDs {
			ids = append(ids, []byte(id))
		}
		root := rules.EvidenceMapRoot(ids)
		require.Equal(t, e.Root, hex.EncodeToString(root[:]))
	}
	names := map[string]string{"messages": "conversation_hash", "policy": "governance_policy_hash", "verifier_policy": "verifier_policy_hash"}
	for _, j := range v.JSONHashes {
		require.Equal(t, j.SHA256, dag(map[string]json.RawMessage{j.What: []byte(j.JSON)}).EffectiveHash(names[j.What]))
	}
	for _, e := range v.Evidence {
		require.Equal(t, e.ID, string(rules.EvidenceID([]byte(e.ChunkRoot), []byte(e.Start), []byte(e.End))))
	}
}

// rows returns chunks as JSON in the format of the vectors.
func rows(chunks []rules.Chunk) []byte {
	w := &pyjson.Builder{Buf: []byte("[")}
	for i, c := range chunks {
		w.WriteComma(i)
		w.BeginObject()
		w.AddText("hash", c.Hash)
		w.AddText("text", c.Text)
		w.AddText("source_id", c.SourceID)
		w.EndObject()
	}
	return append(w.Buf, ']')
}

func pinned(t *testing.T, sources, required, topK json.RawMessage) string {
	t.Helper()
	r, err := retrieval.Decode(joinObject(map[string]json.RawMessage{
		"sources": sources, "required_chunk_hashes": required, "top_k": topK}))
	require.NoError(t, err)
	return string(rows(rules.SelectPinnedChunks(r.Chunks, r.RequiredHashes, r.TopK)))
}

func TestVectorsCitations(t *testing.T) {
	v := vectors[struct {
		Chunks []struct {
			Text json.RawMessage
			Hash string
		}
		Documents []struct {
			Citations []struct {
				ChunkHash string `json:"chunk_hash"`
				SourceID  string `json:"source_id"`
				Text      string
				Weight    json.Number
				Section   *string
			}
			Document json.RawMessage
		}
		Pinned []struct {
			Sources, Chunks json.RawMessage
			Required        json.RawMessage `json:"required_chunk_hashes"`
			TopK            json.RawMessage `json:"top_k"`
		} `json:"pinned_retrieval"`
	}](t, "citations.json")
	for _, p := range v.Pinned {
		require.JSONEq(t, string(p.Chunks), pinned(t, p.Sources, p.Required, p.TopK))
	}
	for _, d := range v.Documents {
		var citations []rules.Citation
		for _, c := range d.Citations {
			citation := rules.Citation{ChunkHash: []byte(c.ChunkHash), SourceID: []byte(c.SourceID), Text: []byte(c.Text), Weight: []byte(c.Weight)}
			if c.Section != nil {
				citation.Section = []byte(*c.Section)
			}
			citations = append(citations, citation)
		}
		require.JSONEq(t, string(d.Document), string(rules.AppendCitationsDocument(nil, citations)))
	}
	for _, c := range v.Chunks {
		r := parse(t, KindCitationSet, joinObject(map[string]json.RawMessage{"subject": []byte(`"s"`), "citations": append(append(
			[]byte(`[{"source_id":"x","weight":1,"text":`), c.Text...), "}]"...)}))
		require.Equal(t, c.Hash, string(r.fields.(*fields.CitationSet).Citations[0].ChunkHash))
	}
}

func TestVectorsPaths(t *testing.T) {
	v := vectors[struct {
		PathIDs []struct {
			Route    json.RawMessage
			PathID   string `json:"path_id"`
			PathID16 string `json:"path_id_16"`
		} `json:"path_ids"`
		Contents []struct {
			Content     json.RawMessage
			Normalised  json.RawMessage
			Fingerprint string `json:"content_fingerprint"`
			Raw         string `json:"raw_content_fingerprint"`
		}
	}](t, "paths.json")
	for _, p := range v.PathIDs {
		r := parse(t, KindPathFingerprint, joinObject(map[string]json.RawMessage{"project": []byte(`"p"`), "route": p.Route}))
		require.Equal(t, p.PathID, r.EffectiveHash("path_id"))
		r = parse(t, KindPathFingerprint, joinObject(map[string]json.RawMessage{"project": []byte(`"p"`), "route": p.Route,
			"path_id": jsonOf(t, p.PathID16)}))
		require.Equal(t, []Check{{Field: "path_id", Result: ResultMatch}}, r.Checks)
	}
	for _, c := range v.Contents {
		content := wtf8(t, c.Content)
		require.Equal(t, string(wtf8(t, c.Normalised)), string(rules.AppendCollapsedText(nil, rules.AppendWithoutLinks(nil, content))))
		r := parse(t, KindPathFingerprint, joinObject(map[string]json.RawMessage{"project": []byte(`"p"`), "route": []byte(`["a"]`), "content": c.Content}))
		require.Equal(t, c.Fingerprint, r.EffectiveHash("content_fingerprint"))
		require.Equal(t, c.Raw, r.EffectiveHash("raw_content_fingerprint"))
	}
}
