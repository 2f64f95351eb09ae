package proofs

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// recorded creates a log that contains only the given record. It returns the record's receipt and
// the log's key.
func recorded(t require.TestingT, kind record.Kind, posted string) (*Receipt, *Verifier) {
	r, err := record.Parse(kind, []byte(posted))
	require.NoError(t, err)
	defer r.Release()
	body := r.AppendBodyPrefix(nil, record.EventContext{Actor: "lab", Ledger: "default"})
	return sealed(t, record.AppendBodySuffix(body, 0, time.Unix(1767323045, 0)))
}

// sealed creates a log that contains only an event with the given body. It returns the event's
// receipt and the log's key.
func sealed(t require.TestingT, body []byte) (*Receipt, *Verifier) {
	var seed [32]byte
	signer, err := NewKey(seed).Signer(testOrigin)
	require.NoError(t, err)
	entry := AppendEntry(nil, Hash{}, body)
	signed, err := signer.Sign(Checkpoint{testOrigin, 1, LeafHash(entry)})
	require.NoError(t, err)
	receipt, err := NewReceipt(entry)
	require.NoError(t, err)
	receipt.Proof = &ReceiptProof{Event: body, Inclusion: InclusionProof{TreeSize: 1, Hashes: []Hash{}}, Checkpoint: signed}
	return receipt, signer.Verifier()
}

// runOf returns a run-DAG whose stages have the given names.
func runOf(names ...string) (posted string, stages []rules.Stage) {
	var nodes []string
	for i, name := range names {
		hash := testLeaf(i)
		stages = append(stages, rules.Stage{Name: name, Hash: hex.EncodeToString(hash[:])})
		nodes = append(nodes, fmt.Sprintf(`{"stage":%q,"hash":"%x"}`, name, hash))
	}
	return `{"dag":{"root":"` + strings.Repeat("0", 64) + `","nodes":[` + strings.Join(nodes, ",") + `]}}`, stages
}

// stageProof returns the nested proof of the stage at index. It computes the path with package
// rules, which also computes the roots of runs.
func stageProof(t require.TestingT, receipt *Receipt, stages []rules.Stage, index int) *NestedProof {
	names := make([]rules.Stage, len(stages)) // the stages, with their indexes as distinct names
	for i, s := range stages {
		names[i] = rules.Stage{Name: fmt.Sprint(i), Hash: s.Hash}
	}
	p, found, err := rules.ProveStage(names, fmt.Sprint(index))
	require.NoError(t, err)
	require.True(t, found)
	s := &NestedStage{Name: stages[index].Name, Index: uint64(p.Index), Hash: p.Hash, Root: p.Root}
	for _, step := range p.Path {
		s.Path = append(s.Path, PathStep(step))
	}
	return &NestedProof{Receipt: receipt, Stage: s}
}

const twoCitations = `{"subject":"s","citations":[{"source_id":"x","text":"One  chunk.","weight":0.5},{"source_id":"y","text":"Another.","weight":1}]}`

func citationProof(t require.TestingT, index uint64) (*NestedProof, *Verifier) {
	receipt, key := recorded(t, record.KindCitationSet, twoCitations)
	hashes := []string{rules.ChunkHash([]byte("One chunk.")), rules.ChunkHash([]byte("Another."))}
	return &NestedProof{Receipt: receipt, Citation: &NestedCitation{index, hashes[index]}}, key
}

// reread encodes a proof and parses it again.
func reread(t require.TestingT, n *NestedProof) *NestedProof {
	text, err := n.AppendJSON(nil)
	require.NoError(t, err)
	require.True(t, IsNestedProof(text))
	parsed, err := ParseNestedProof(text)
	require.NoError(t, err, "%s", text)
	again, err := parsed.AppendJSON(nil)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	return parsed
}

func TestNestedProofsOfStages(t *testing.T) {
	for size := 1; size <= 20; size++ {
		names := make([]string, size)
		for i := range names {
			names[i] = "stage" // use equal names, so that only the index distinguishes the stages
		}
		posted, stages := runOf(names...)
		receipt, key := recorded(t, record.KindRunDAG, posted)
		for i := range stages {
			n := reread(t, stageProof(t, receipt, stages, i))
			require.NoError(t, n.Verify(key), "stage %d of %d", i, size)
		}
	}
}

func TestNestedProofsOfCitations(t *testing.T) {
	for index := range uint64(2) {
		n, key := citationProof(t, index)
		require.NoError(t, reread(t, n).Verify(key))
	}
}

func TestNestedProofsRefuse(t *testing.T) {
	posted, stages := runOf("question", "retrieval", "context", "prompt", "answer", "verify", "final_label")
	run, key := recorded(t, record.KindRunDAG, posted)
	for name, c := range map[string]struct {
		change func(n *NestedProof)
		want   error
	}{
		"another hash":        {func(n *NestedProof) { n.Stage.Hash[0] ^= 1 }, ErrFieldMismatch},
		"another root":        {func(n *NestedProof) { n.Stage.Root[31] ^= 1 }, ErrFieldMismatch},
		"another name":        {func(n *NestedProof) { n.Stage.Name = "render" }, ErrFieldMismatch},
		"another stage":       {func(n *NestedProof) { n.Stage.Index = 5 }, ErrFieldMismatch},
		"no such stage":       {func(n *NestedProof) { n.Stage.Index = 7 }, ErrFieldMismatch},
		"a huge index":        {func(n *NestedProof) { n.Stage.Index = 1 << 63 }, ErrFieldMismatch},
		"no path":             {func(n *NestedProof) { n.Stage.Path = nil }, ErrStagePath},
		"short path":          {func(n *NestedProof) { n.Stage.Path = n.Stage.Path[:2] }, ErrStagePath},
		"long path":           {func(n *NestedProof) { n.Stage.Path = append(n.Stage.Path, n.Stage.Path[0]) }, ErrStagePath},
		"another sibling":     {func(n *NestedProof) { n.Stage.Path[1].Sibling[4] ^= 1 }, ErrStagePath},
		"another side":        {func(n *NestedProof) { n.Stage.Path[0].SiblingIsLeft = true }, ErrStagePath},
		"path in other order": {func(n *NestedProof) { n.Stage.Path[0], n.Stage.Path[1] = n.Stage.Path[1], n.Stage.Path[0] }, ErrStagePath},
		"a citation":          {func(n *NestedProof) { n.Stage, n.Citation = nil, &NestedCitation{} }, ErrFieldMismatch},
		"another checkpoint":  {func(n *NestedProof) { n.Receipt.Proof.Checkpoint[0] ^= 1 }, ErrSignature},
		"another event":       {func(n *NestedProof) { n.Receipt.Proof.Event[12] ^= 1 }, ErrChainLink},
		"a minimal receipt":   {func(n *NestedProof) { n.Receipt.Proof = nil }, ErrNoProof},
	} {
		n := reread(t, stageProof(t, run, stages, 4))
		require.NoError(t, n.Verify(key))
		c.change(n)
		require.ErrorIs(t, n.Verify(key), c.want, name)
	}
	// In a run of seven stages, the last stage is its own sibling. Verify refuses any other sibling.
	n := reread(t, stageProof(t, run, stages, 6))
	require.NoError(t, n.Verify(key))
	n.Stage.Path[0].Sibling[0] ^= 1
	require.ErrorIs(t, n.Verify(key), ErrStagePath)

	for name, change := range map[string]func(n *NestedProof){
		"another hash":     func(n *NestedProof) { n.Citation.ChunkHash = rules.ChunkHash(nil) },
		"another citation": func(n *NestedProof) { n.Citation.Index = 0 },
		"no such citation": func(n *NestedProof) { n.Citation.Index = 2 },
		"a stage":          func(n *NestedProof) { n.Stage, n.Citation = &NestedStage{}, nil },
	} {
		n, key := citationProof(t, 1)
		change(n)
		require.ErrorIs(t, n.Verify(key), ErrFieldMismatch, name)
	}
	_, other := sealed(t, run.Proof.Event)
	require.NoError(t, stageProof(t, run, stages, 0).Verify(other), "these tests use one key for all logs")
	require.ErrorIs(t, stageProof(t, run, stages, 0).Verify(testSigner(t, testOrigin, 9).Verifier()), ErrWrongKey)
}

// NestedProof.Verify refuses a run's root that cannot be computed from its stages, even if the ledger
// has signed it.
func TestNestedProofsOfAFalseRoot(t *testing.T) {
	posted, stages := runOf("question", "answer")
	honest, _ := recorded(t, record.KindRunDAG, posted)
	n := stageProof(t, honest, stages, 1)
	root := hex.EncodeToString(n.Stage.Root[:])
	n.Stage.Root[0] ^= 1
	forged := bytes.ReplaceAll(honest.Proof.Event, []byte(root), []byte(hex.EncodeToString(n.Stage.Root[:])))
	var key *Verifier
	n.Receipt, key = sealed(t, forged)
	require.ErrorIs(t, n.Verify(key), ErrStagePath)
}

func TestNestedTexts(t *testing.T) {
	for _, text := range []string{"", "Ana Varga.", "\"\\\n\u2028</script>", "one \xed\xa0\xbd alone", "本 \U0001F600"} {
		n, key := citationProof(t, 0)
		n.Text = []byte(text)
		parsed := reread(t, n)
		require.NotNil(t, parsed.Text, "an empty text is a text")
		require.Equal(t, text, string(parsed.Text))
		require.NoError(t, parsed.Verify(key))
	}
	n, _ := citationProof(t, 0)
	require.Nil(t, reread(t, n).Text)
	n.Text = []byte("\xff")
	_, err := n.AppendJSON(nil)
	require.ErrorIs(t, err, ErrMalformed)
}

func TestParseNestedRefuses(t *testing.T) {
	posted, stages := runOf("question", "answer", "render")
	run, _ := recorded(t, record.KindRunDAG, posted)
	stage, err := stageProof(t, run, stages, 1).AppendJSON(nil)
	require.NoError(t, err)
	cited, _ := citationProof(t, 0)
	citation, err := cited.AppendJSON(nil)
	require.NoError(t, err)
	replace := func(text []byte, old, replacement string) string {
		require.Contains(t, string(text), old)
		return strings.Replace(string(text), old, replacement, 1)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"another version":  replace(stage, "proof@1", "proof@2"),
		"no format":        replace(stage, `"format":"`+NestedProofFormat+`",`, ""),
		"unknown member":   replace(stage, `"format"`, `"mood":1,"format"`),
		"member twice":     replace(stage, `"format"`, `"format":"x","format"`),
		"both parts":       replace(stage, `"stage"`, `"citation":{"index":0,"chunk_hash":""},"stage"`),
		"neither part":     replace(citation, `"citation":{"index":0,"chunk_hash":"`+cited.Citation.ChunkHash+`"},`, ""),
		"null part":        replace(citation, `"citation":{`, `"stage":null,"citation":{`),
		"negative index":   replace(citation, `"index":0`, `"index":-1`),
		"index as text":    replace(citation, `"index":0`, `"index":"0"`),
		"number as hash":   replace(citation, `"chunk_hash":"`+cited.Citation.ChunkHash+`"`, `"chunk_hash":1`),
		"number as text":   replace(citation, `"receipt"`, `"text":1,"receipt"`),
		"null as text":     replace(citation, `"receipt"`, `"text":null,"receipt"`),
		"upper-case hash":  replace(stage, `"hash":"`, `"hash":"A`),
		"side as number":   replace(stage, `"is_left":true`, `"is_left":1`),
		"step without":     replace(stage, `,"is_left":true`, ``),
		"step with more":   replace(stage, `"is_left":true`, `"is_left":true,"more":1`),
		"path as object":   replace(stage, `"path":[`, `"path":{},"way":[`),
		"too long a path":  replace(stage, `"path":[`, `"path":[`+strings.Repeat(`{"sibling":"`+stages[0].Hash+`","is_left":true},`, maxStagePath)),
		"stage with more":  replace(stage, `"index"`, `"more":1,"index"`),
		"no receipt":       replace(citation, `"receipt"`, `"receipts"`),
		"receipt is empty": string(citation[:bytes.Index(citation, []byte(`"receipt"`))]) + `"receipt":{}}`,
		"more behind":      string(stage) + "x",
	} {
		_, err := ParseNestedProof([]byte(text))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	require.True(t, IsNestedProof([]byte(`{"format":"colophon-nested-proof@2"}`)), "a later version is recognised")
	for _, text := range []string{"", "{}", `{"format":"other"}`, `[]`, `"colophon-nested-proof@1"`, "c2sp.org/tlog-proof@v1\n"} {
		require.False(t, IsNestedProof([]byte(text)), text)
	}
}

func TestEveryByteOfANestedProofCounts(t *testing.T) {
	posted, stages := runOf("question", "answer", "render")
	run, key := recorded(t, record.KindRunDAG, posted)
	text, err := stageProof(t, run, stages, 1).AppendJSON(nil)
	require.NoError(t, err)
	for i := range len(text) * 8 {
		changed := bytes.Clone(text)
		changed[i/8] ^= 1 << (i % 8)
		if parsed, err := ParseNestedProof(changed); err == nil {
			require.Error(t, parsed.Verify(key), "bit %d: %s", i, changed)
		}
	}
}

func FuzzParseNested(f *testing.F) {
	posted, stages := runOf("question", "answer", "render")
	run, key := recorded(f, record.KindRunDAG, posted)
	for i := range stages {
		n := stageProof(f, run, stages, i)
		n.Text = []byte("text")
		text, err := n.AppendJSON(nil)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := ParseNestedProof(text)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.True(t, IsNestedProof(text))
		reread(t, n)
		if n.Verify(key) == nil && n.Stage != nil {
			require.Equal(t, stageProof(t, run, stages, int(n.Stage.Index)).Stage, n.Stage)
		}
	})
}
