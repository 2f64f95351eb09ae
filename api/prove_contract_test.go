package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

const (
	proofOf   = prefix + "/records/{seq}/proof"
	receiptOf = prefix + "/records/{seq}/receipt"
	keyOf     = prefix + "/log/key"
)

func (s *server) verifier(t *testing.T) *proofs.Verifier {
	t.Helper()
	var key struct {
		VerifierKey string `json:"verifier_key"`
	}
	s.do(t, get(keyOf), http.StatusOK).decode(t, &key)
	v, err := proofs.ParseVerifier(key.VerifierKey)
	require.NoError(t, err)
	return v
}

// nested requests a nested proof and verifies it.
func (s *server) nested(t *testing.T, seq, query string) *proofs.NestedProof {
	t.Helper()
	a := s.do(t, get(proofOf, "seq", seq).asking(query), http.StatusOK)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	n, err := proofs.ParseNestedProof(a.body)
	require.NoError(t, err)
	require.NoError(t, n.Verify(s.verifier(t)))
	for _, content := range []string{"Ana Varga", "keeps", "lighthouse?"} {
		require.NotContains(t, string(a.body), content)
	}
	return n
}

func TestPartsOfRunsAreProvedAsTheContractSays(t *testing.T) {
	s := answered(t)
	for i, stage := range []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label"} {
		for _, size := range []uint64{3, 6} {
			n := s.nested(t, "2", fmt.Sprintf("?stage=%s&tree_size=%d", stage, size))
			require.Equal(t, stage, n.Stage.Name)
			require.Equal(t, uint64(i), n.Stage.Index)
			require.Equal(t, size, n.Receipt.Proof.Inclusion.TreeSize)
			require.Nil(t, n.Text)
		}
	}
	answer := s.nested(t, "2", "?stage=answer")
	require.Equal(t, uint64(6), answer.Receipt.Proof.Inclusion.TreeSize, "the head")
	require.Contains(t, record.StageHashes("answer", "", []byte("Ana Varga, since 1911.")), answer.Stage.Hash)
	question := s.nested(t, "3", "?stage=question")
	require.Contains(t, record.StageHashes("question", "equivalence_class", []byte("who keeps lighthouse")), question.Stage.Hash)

	// A number after # distinguishes stages with the same name, as in the names of checks.
	s.do(t, post(prefix+"/run-dags", fmt.Sprintf(`{"dag":{"root":%[1]q,"nodes":[{"stage":"answer","hash":%[1]q},{"stage":"a/b c","hash":%[1]q},`+
		`{"stage":"answer","hash":%[2]q}]}}`, digit("8"), digit("9"))), http.StatusCreated)
	second := s.nested(t, "6", "?stage=answer%232")
	require.Equal(t, "answer", second.Stage.Name)
	require.Equal(t, uint64(2), second.Stage.Index)
	require.Equal(t, "a/b c", s.nested(t, "6", "?stage=a/b%20c").Stage.Name)
}

func TestCitationsAreProvedAsTheContractSays(t *testing.T) {
	s := cited(t)
	for i, text := range []string{keeper2, register, register} {
		n := s.nested(t, "2", fmt.Sprintf("?citation=%d&tree_size=3", i))
		require.Equal(t, &proofs.NestedCitation{Index: uint64(i), ChunkHash: rules.ChunkHash([]byte(text))}, n.Citation)
	}
}

func TestProblemsOfProofsAreAsTheContractSays(t *testing.T) {
	s := answered(t)
	s.do(t, post(prefix+"/citation-sets", `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":1}]}`), http.StatusCreated) // seq 6
	for _, c := range []struct {
		name, seq, query string
		status           int
		says             string
	}{
		{"no part", "2", "", 400, `"pointer":"/stage"`},
		{"both parts", "2", "?stage=answer&citation=0", 400, `"pointer":"/stage"`},
		{"no such stage", "2", "?stage=render", 404, `its stages are question, retrieval, `},
		{"no such citation", "6", "?citation=1", 404, "event 6 has no citation 1; it has 1 citations, numbered from 0"},
		{"stage of no run", "6", "?stage=answer", 404, "event 6 is a citation_set: only a run_dag has stages"},
		{"citation of no set", "2", "?citation=0", 404, "event 2 is a run_dag: only a citation_set has citations"},
		{"stage of a verb", "5", "?stage=answer", 404, "record_state_changed"},
		{"before the event", "2", "?stage=answer&tree_size=2", 400, "must be from 3 to 7"},
		{"after the head", "2", "?stage=answer&tree_size=8", 400, "must be from 3 to 7"},
		{"no event", "9", "?stage=answer", 404, "there is no event 9"},
		{"no number", "2", "?citation=-1", 400, `"pointer":"/citation"`},
		{"another parameter", "2", "?stage=answer&minimal=1", 400, `"pointer":"/minimal"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Contains(t, string(s.send(t, get(proofOf, "seq", c.seq).asking(c.query), c.status).body), c.says)
		})
	}
}

// Receipts of every kind of event verify, both as JSON and as .tlog-proof files, in every tree
// that contains the event.
func TestReceiptsOfEveryKindOfEventVerify(t *testing.T) {
	s := recorded(t) // its events are ledger_created, one record of each of the four kinds, and record_state_changed
	s.do(t, verb(http.MethodPut, sourceOf, `{"title":"T"}`, "source_id", "x"), http.StatusCreated)
	s.do(t, verb(http.MethodDelete, sourceOf, "", "source_id", "x"), http.StatusCreated)
	s.do(t, verb(http.MethodDelete, prefix+"/records/{seq}/content", `{"reason":"r"}`, "seq", "1"), http.StatusCreated)
	s.do(t, post(ipc, `{"payload":{},"model":"m","temperature":0,"max_tokens":1,"input_hash":"`+digit("0")+`"}`).asking("?on_mismatch=reject"),
		http.StatusUnprocessableEntity)
	var chapter struct {
		Event struct {
			Record struct {
				Project string
				Hashes  struct {
					PathID string `json:"path_id"`
				}
			}
		}
	}
	s.do(t, get(receiptOf, "seq", "4"), http.StatusOK).decode(t, &chapter)
	s.do(t, verb(http.MethodPut, prefix+"/paths/{project}/{path_id}/validation", `{"validated":true}`,
		"project", chapter.Event.Record.Project, "path_id", chapter.Event.Record.Hashes.PathID), http.StatusCreated)

	key, size := s.verifier(t), uint64(13)
	var kinds []string
	for seq := range size {
		for tree := seq + 1; tree <= size; tree++ {
			k := get(receiptOf, "seq", fmt.Sprint(seq)).asking(fmt.Sprintf("?tree_size=%d", tree))
			r, err := proofs.ParseReceipt(s.do(t, k, http.StatusOK).body)
			require.NoError(t, err)
			require.NoError(t, r.Verify(key))
			k.header = map[string]string{"Accept": "text/plain"}
			p, err := proofs.ParseTlogProof(s.do(t, k, http.StatusOK).body)
			require.NoError(t, err)
			same, err := p.VerifyEntry(p.Extra, key)
			require.NoError(t, err)
			require.Equal(t, string(r.AppendJSON(nil)), string(same.AppendJSON(nil)))
			if tree == size {
				kinds = append(kinds, r.Kind)
			}
		}
	}
	slices.Sort(kinds)
	require.Equal(t, []string{"citation_set", "content_redacted", "ipc_record", "ledger_created", "path_fingerprint", "path_validated",
		"record_refused", "record_state_changed", "run_dag", "source_registered", "source_revoked"}, slices.Compact(kinds))
}
