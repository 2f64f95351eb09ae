package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/rules"
)

// inHex returns the hashes in hexadecimal.
func inHex(hashes []Hash) []string {
	list := make([]string, len(hashes))
	for i, h := range hashes {
		list[i] = hex.EncodeToString(h[:])
	}
	return list
}

func TestTextsOfPartsOfVectors(t *testing.T) {
	dag := vectors[struct {
		Preflight []struct {
			Payload json.RawMessage
			SHA256  string
		}
		Questions []struct {
			Text         json.RawMessage
			SHA256       string
			SHA256Strict string `json:"sha256_strict"`
		}
		ContextRoots []struct {
			Roots json.RawMessage `json:"document_roots"`
			Root  string
		} `json:"context_roots"`
		JSONHashes []struct{ What, JSON, SHA256 string } `json:"json_hashes"`
	}](t, "run-dag.json")
	for _, p := range dag.Preflight {
		require.Contains(t, inHex(StageHashes("preflight", "", p.Payload)), p.SHA256)
	}
	// A missing clause is treated as an empty one (spec: Preflight payload).
	require.Contains(t, inHex(StageHashes("preflight", "", []byte(`{"classifier":{"intensity":"FEW"},"question_state":{"logical_statuses":["well_formed"]}}`))),
		dag.Preflight[0].SHA256)
	for _, q := range dag.Questions {
		text := wtf8(t, q.Text)
		require.Equal(t, []string{sha(text), q.SHA256}, inHex(StageHashes("question", "equivalence_class", text)))
		require.Equal(t, []string{sha(text), q.SHA256Strict}, inHex(StageHashes("question", "strict", text)))
		require.Equal(t, []string{sha(text), q.SHA256Strict, q.SHA256}, inHex(StageHashes("question", "", text)))
	}
	for _, c := range dag.ContextRoots {
		require.Contains(t, inHex(StageHashes("context", "", c.Roots)), c.Root)
	}
	for _, j := range dag.JSONHashes {
		require.Contains(t, inHex(StageHashes("prompt", "", []byte(j.JSON))), j.SHA256)
	}
	chunks := vectors[struct {
		Chunks []struct {
			Text json.RawMessage
			Hash string
		}
	}](t, "citations.json")
	for _, c := range chunks.Chunks {
		require.Equal(t, c.Hash, rules.ChunkHash(wtf8(t, c.Text)))
	}
}

func sha(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// StageHashes returns the hash of the unchanged text. For a stage that is computed from JSON, it
// also returns the hash of the text's canonical form.
func TestTextsOfStages(t *testing.T) {
	spaced := []byte(`{"a": 1}`)
	for _, stage := range []string{"answer", "raw_answer", "render", "unknown"} {
		require.Equal(t, []string{sha(spaced)}, inHex(StageHashes(stage, "", spaced)), stage)
	}
	require.Equal(t, []string{sha(spaced), sha([]byte(`{"a":1}`))}, inHex(StageHashes("verify", "", spaced)))
	for _, text := range []string{``, `{`, `{} {}`, `{"a":1,"a":2}`, "\xff"} {
		require.Equal(t, []string{sha([]byte(text))}, inHex(StageHashes("context", "", []byte(text))), text)
	}
	for _, text := range []string{`[]`, `["a"]`, `{}`, `[{"chunk_root":"a"}]`, `1`, `null`, `[],"b":1`} {
		require.LessOrEqual(t, len(StageHashes("context", "", []byte(text))), 2, text)
		require.LessOrEqual(t, len(StageHashes("evidence_map", "", []byte(text))), 2, text)
		if text != `{}` { // {} is a valid preflight payload
			require.LessOrEqual(t, len(StageHashes("preflight", "", []byte(text))), 2, text)
		}
	}
	other := []byte(`{"stage": "other"}`)
	require.Equal(t, []string{sha(other), sha([]byte(`{"stage":"other"}`)), sha([]byte(`{"stage":"other"}`))}, inHex(StageHashes("preflight", "", other)), "a payload of another generation is hashed as it is")

	evidence := []byte(`[{"chunk_root":"` + zeros + `","start":0,"end":10},{"chunk_root":"` + zeros + `","start":10,"end":20}]`)
	r := parse(t, KindRunDAG, []byte(`{"dag":{"root":"`+zeros+`","nodes":[{"stage":"question","hash":"`+zeros+`"}]},"evidence":`+string(evidence)+`}`))
	require.Contains(t, inHex(StageHashes("evidence_map", "", evidence)), r.EffectiveHash("evidence_map_root"))
}
