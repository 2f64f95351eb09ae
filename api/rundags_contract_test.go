package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

const (
	compareOf    = prefix + "/run-dags/compare"
	divergenceOf = prefix + "/run-dags/divergence"
	cacheKeyOf   = prefix + "/run-dags/by-cache-key/{key}"
	stageProofOf = prefix + "/run-dags/{seq}/stage-proof/{stage}"
	failuresOf   = prefix + "/run-dags/failures"
)

// lighthouse is the hash of "Who keeps the lighthouse?", the question of all runs in this file.
const lighthouse = "04cbfc2c150a34bae31f1ccbcd0151c3be1406a027920d29ff21bcf914ea977b"

// digit returns a hash that consists of one repeated digit.
func digit(d string) string { return strings.Repeat(d, 64) }

// dimensionsOf returns cache dimensions with the given source_root.
func dimensionsOf(root string) string {
	return fmt.Sprintf(`{"source_root":%q,"question_hash":%q,"model_profile_hash":%q,"conversation_hash":%q,"governance_policy_hash":%q,`+
		`"schema_version":"v9.8.0","canonicalization_version":"norm-v1","chunking_version":"tok-512-v1"}`, root, lighthouse, digit("1"), digit("2"), digit("3"))
}

// cacheKey computes the cache key of dimensionsOf(root) (spec: Cache key).
func cacheKey(root string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{root, lighthouse, digit("1"), digit("2"), digit("3"), "v9.8.0", "norm-v1", "tok-512-v1"}, "|")))
	return hex.EncodeToString(sum[:])
}

// answered returns a server with four run-DAGs of one question. Events 1 and 2 have different
// answers, event 3 is rejected, and event 5 quarantines event 4.
func answered(t *testing.T) *server {
	s := newServer(t)
	quote := func(run, answer, mode, more string) {
		body := fmt.Sprintf(`{"run_id":%q,"question":"Who keeps the lighthouse?","inputs":{"context_root":%q,"conversation_hash":%q,"answer_text":%q,`+
			`"audit_mode":%q,"verifier_method":"exact_quote","n_quotes":1,"n_verified":1,"sources":[{"document_root":%q,"source_role":"primary_answer_source",`+
			`"score":0.92,"chunk_idx":4}],"lookup_path":"retrieval"}%s}`, run, digit("4"), digit("2"), answer, mode, digit("4"), more)
		s.do(t, post(prefix+"/run-dags", body), http.StatusCreated)
	}
	dimensions := func(root string) string { return `,"cache_dimensions":` + dimensionsOf(root) }
	quote("answer/311", "Ana Varga keeps it.", "STRICT", dimensions(digit("5")))
	quote("answer/312", "Ana Varga, since 1911.", "HYBRID", dimensions(digit("6")))
	s.do(t, post(prefix+"/run-dags", fmt.Sprintf(`{"question":"Who keeps the lighthouse?","reject_inputs":{"preflight_hash":%q,`+
		`"rejection_reason":"out of scope"}}`, digit("7"))), http.StatusCreated)
	quote("answer/313", "Nobody.", "STRICT", dimensions(digit("6")))
	s.do(t, verb(http.MethodPost, stateOf, `{"state":"quarantined","reason":"nonsense"}`, "seq", "4"), http.StatusCreated)
	return s
}

func TestRunsAreComparedAsTheContractSays(t *testing.T) {
	s := answered(t)
	a := s.do(t, get(compareOf).asking("?a=1&b=2&after=5"), http.StatusOK)
	require.Regexp(t, `^{"as_of":6,"a":{"seq":1,"run_id":"answer/311","time":"[^"]*","root":"[0-9a-f]{64}","shape":"quote"},`+
		`"b":{"seq":2,"run_id":"answer/312","time":"[^"]*","root":"[0-9a-f]{64}","shape":"quote"},`+
		`"first_diverging_stage":"answer","differing_stages":\["answer","verify","final_label"\],"only_in_a":\[\],"only_in_b":\[\],`+
		`"differing_dimensions":\["source_root"\],"cause":"source_root","says":"The runs diverge first at \\"answer\\"; 3 of 7 stages differ; `+
		`these cache dimensions differ: source_root."}\n$`, string(a.body))
	a = s.do(t, get(compareOf).asking("?a=3&b=3&as_of=6&proofs=true"), http.StatusOK)
	require.Contains(t, string(a.body), `"first_diverging_stage":null,"differing_stages":[]`)
	require.Contains(t, string(a.body), `"differing_dimensions":null`)
	require.Contains(t, string(a.body), `"inclusion":{"leaf_index":3,"tree_size":6,`)
	a = s.do(t, get(compareOf).asking("?a=1&b=3"), http.StatusOK)
	require.Contains(t, string(a.body), `"first_diverging_stage":"outcome"`)
	require.Contains(t, string(a.body), `"only_in_b":["preflight"]`)

	var list struct {
		Rows []struct {
			Seq     uint64
			State   string
			Against *uint64
			First   *string `json:"first_diverging_stage"`
		}
	}
	divergence := func(query string) string {
		s.do(t, get(divergenceOf).asking(query+"&question_hash="+lighthouse), http.StatusOK).decode(t, &list)
		text := ""
		for _, r := range list.Rows {
			against, first := "-", "-"
			if r.Against != nil {
				against = fmt.Sprint(*r.Against)
			}
			if r.First != nil {
				first = *r.First
			}
			text += fmt.Sprintf("%d %s %s %s;", r.Seq, r.State, against, first)
		}
		return text
	}
	require.Equal(t, "1 live - -;2 live 1 answer;3 live 2 outcome;", divergence("?as_of=6&proofs=true"))
	require.Equal(t, "1 live - -;2 live 1 answer;3 live 2 outcome;4 quarantined 3 outcome;", divergence("?as_of=6&state=any"))
	require.Equal(t, "1 live - -;2 live 1 answer;3 live 2 outcome;4 live 3 outcome;", divergence("?as_of=5"), "the run-DAG was live at this size")
}

func TestRunsAreServedByCacheKeyAsTheContractSays(t *testing.T) {
	s := answered(t)
	a := s.do(t, get(cacheKeyOf, "key", cacheKey(digit("6"))).asking("?after=5&proofs=true"), http.StatusOK)
	var run struct {
		Seq        uint64
		Others     uint64
		Dimensions map[string]string `json:"cache_dimensions"`
	}
	a.decode(t, &run)
	require.Equal(t, uint64(2), run.Seq, "event 4 is quarantined")
	require.Zero(t, run.Others)
	want, err := json.Marshal(run.Dimensions)
	require.NoError(t, err)
	require.JSONEq(t, dimensionsOf(digit("6")), string(want))
	s.do(t, get(cacheKeyOf, "key", cacheKey(digit("6"))).asking("?as_of=5"), http.StatusOK).decode(t, &run)
	require.Equal(t, uint64(4), run.Seq)
	require.Equal(t, uint64(1), run.Others)
	s.do(t, get(cacheKeyOf, "key", cacheKey(digit("9"))), http.StatusNotFound)
}

func TestStagesAreProvedAsTheContractSays(t *testing.T) {
	s := answered(t)
	for _, stage := range []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label"} {
		var proof struct {
			Hash, Root string
			Path       []struct {
				Sibling string
				IsLeft  bool `json:"is_left"`
			}
			Receipt json.RawMessage
		}
		s.do(t, get(stageProofOf, "seq", "2", "stage", stage).asking("?as_of=6"), http.StatusOK).decode(t, &proof)
		node := hashed(t, "00", proof.Hash)
		for _, step := range proof.Path {
			if step.IsLeft {
				node = hashed(t, "03", step.Sibling, node)
			} else {
				node = hashed(t, "03", node, step.Sibling)
			}
		}
		require.Equal(t, proof.Root, node)
		receipt, err := proofs.ParseReceipt(proof.Receipt)
		require.NoError(t, err)
		require.Equal(t, uint64(6), receipt.Proof.Inclusion.TreeSize)
		var hashes struct{ Root string }
		require.NoError(t, json.Unmarshal(receipt.Hashes, &hashes))
		require.Equal(t, proof.Root, hashes.Root)
		require.Contains(t, string(receipt.Proof.Event), fmt.Sprintf(`{"hash":%q,"stage":%q}`, proof.Hash, stage))
	}
	s.do(t, get(stageProofOf, "seq", "2", "stage", "render"), http.StatusNotFound)
	s.do(t, get(stageProofOf, "seq", "5", "stage", "answer"), http.StatusNotFound)
	s.do(t, get(stageProofOf, "seq", "9", "stage", "answer"), http.StatusNotFound)
}

// hashed decodes its concatenated hexadecimal arguments and returns their SHA-256.
func hashed(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(parts, ""))
	require.NoError(t, err)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestFailuresAreCountedAsTheContractSays(t *testing.T) {
	s := answered(t)
	const rejected = `{"failure_stage":null,"audit_mode":"UNGROUNDED","shape":"reject","count":1}`
	strict := func(n int) string {
		return fmt.Sprintf(`{"failure_stage":null,"audit_mode":"STRICT","shape":"quote","count":%d}`, n)
	}
	const hybrid = `{"failure_stage":"answer","audit_mode":"HYBRID","shape":"quote","count":1}`
	for query, want := range map[string]string{
		"?after=5": `{"as_of":6,"total":3,"rows":[` + strict(1) + `,` + hybrid + `,` + rejected + `]}`,
		"?as_of=6&state=any&since=2020-01-01T00:00:00Z": `{"as_of":6,"total":4,"rows":[` + strict(2) + `,` + hybrid + `,` + rejected + `]}`,
		"?as_of=2":                            `{"as_of":2,"total":1,"rows":[` + strict(1) + `]}`,
		"?as_of=6&until=2020-01-01T00:00:00Z": `{"as_of":6,"total":0,"rows":[]}`,
		"?as_of=2&since=2020-01-01T12:00:00Z&until=2100-01-01T00:00:00Z&periods=true&step=6307200000": `{"as_of":2,"total":1,"rows":[` + strict(1) +
			`],"step":6307200000,"periods":[{"since":"1970-01-01T00:00:00.000000Z","until":"2169-11-13T00:00:00.000000Z","total":1,"rows":[` + strict(1) + `]}]}`,
	} {
		a := s.do(t, get(failuresOf).asking(query), http.StatusOK)
		require.Equal(t, want+"\n", string(a.body), query)
	}
}

func TestProblemsOfRunsAreAsTheContractSays(t *testing.T) {
	s := answered(t)
	for _, c := range []struct {
		name    string
		call    call
		status  int
		refused bool // whether the contract also rejects the request
		names   string
	}{
		{"nothing to compare", get(compareOf).asking("?a=1"), 400, true, "/b"},
		{"no run", get(compareOf).asking("?a=1&b=5"), 422, false, "/b"},
		{"no event", get(compareOf).asking("?a=77&b=1"), 400, false, "/a"},
		{"no question", get(divergenceOf), 400, true, "/question_hash"},
		{"no hash", get(divergenceOf).asking("?question_hash=why"), 400, true, "/question_hash"},
		{"state", get(divergenceOf).asking("?question_hash=" + lighthouse + "&state=failed"), 400, true, "/state"},
		{"no key", get(cacheKeyOf, "key", "k"), 400, true, "/key"},
		{"seq", get(stageProofOf, "seq", "x", "stage", "answer"), 400, true, "/seq"},
		{"since", get(failuresOf).asking("?since=yesterday"), 400, true, "/since"},
		{"until", get(failuresOf).asking("?until=tomorrow"), 400, true, "/until"},
		{"page", get(failuresOf).asking("?colour=blue"), 400, true, "/colour"},
		{"step without periods", get(failuresOf).asking("?step=60"), 400, false, "/step"},
		{"step of nothing", get(failuresOf).asking("?periods=true&step=0"), 400, true, "/step"},
		{"too many periods", get(failuresOf).asking("?periods=true&step=1&since=2000-01-01T00:00:00Z"), 400, false, "/step"},
		{"no such ledger", get(failuresOf).of("nowhere"), 404, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.send(t, c.call, c.status)
			if c.names != "" {
				require.Contains(t, string(a.body), `"pointer":"`+c.names+`"`)
			}
			err := s.checkRequest(c.call, c.call.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
}

// Run-DAGs can be found by their outcome and by the documents and evidence that they are based on,
// both with GET /run-dags and with GET /records.
func TestRunsAreFoundAsTheContractSays(t *testing.T) {
	s := answered(t)
	s.do(t, post(prefix+"/run-dags", fmt.Sprintf(`{"dag":{"root":%[1]q,"nodes":[{"stage":"question","hash":%[1]q}]},"evidence":[{"chunk_root":%[1]q,"start":0,"end":9}]}`, zeroDigits)), http.StatusCreated)
	id := "E" + hex.EncodeToString(sum(zeroDigits + ":0:9"))[:8]
	for query, want := range map[string][]uint64{
		"failure_stage=none": {3, 1}, "failure_stage=answer": {2}, "failure_stage=unknown": {6}, "audit_mode=HYBRID": {2}, "shape=reject": {3},
		"verifier_method=exact_quote": {2, 1}, "document_root=" + digit("4"): {2, 1}, "evidence_id=" + id: {6}, "evidence_id=E00000000": nil,
		"question_hash=" + lighthouse + "&shape=quote": {2, 1}, "model_profile_hash=" + digit("1"): {2, 1}, "verifier_method=exact_quote&state=any": {4, 2, 1},
	} {
		var list struct{ Rows []struct{ Seq uint64 } }
		s.do(t, get(prefix+"/run-dags").asking("?after=6&"+query), http.StatusOK).decode(t, &list)
		var got []uint64
		for _, r := range list.Rows {
			got = append(got, r.Seq)
		}
		require.Equal(t, want, got, query)
		if !strings.Contains(query, "state=") {
			s.do(t, get(prefix+"/records").asking("?state=live&"+query), http.StatusOK).decode(t, &list)
			require.Len(t, list.Rows, len(want), query)
		}
	}
	for _, wrong := range []string{"failure_stage=lost", "shape=round", "evidence_id=E1", "document_root=d", "mood=1"} {
		s.send(t, get(prefix+"/run-dags").asking("?"+wrong), http.StatusBadRequest)
	}
	a := s.do(t, get(prefix+"/run-dags").asking("?as_of=6&limit=1&proofs=true"), http.StatusOK)
	require.Contains(t, string(a.body), `"inclusion":{"leaf_index":3,"tree_size":6,`)
	require.Contains(t, string(a.body), `"next":`)
}

const zeroDigits = "0000000000000000000000000000000000000000000000000000000000000000"

func sum(text string) []byte {
	h := sha256.Sum256([]byte(text))
	return h[:]
}

// A lookup tries both question modes and returns only live run-DAGs. It returns the answer even if
// only the inputs of the run-DAG contain it.
func TestAnswersAreLookedUpAsTheContractSays(t *testing.T) {
	s := answered(t)
	lookup := func(question, root string, status int) (found struct {
		Seq    uint64
		Mode   string  `json:"question_mode"`
		Answer *string `json:"answer_text"`
	}) {
		a := s.do(t, post(prefix+"/run-dags/lookup", fmt.Sprintf(`{"question":%q,"cache_dimensions":%s}`, question, dimensionsOf(root))), status)
		if status == http.StatusOK {
			a.decode(t, &found)
		}
		return found
	}
	found := lookup("who keeps lighthouse", digit("6"), http.StatusOK)
	require.Equal(t, uint64(2), found.Seq, "event 4 is quarantined")
	require.Equal(t, "strict", found.Mode, "the question is already canonical")
	require.Equal(t, "Ana Varga, since 1911.", *found.Answer)
	require.Equal(t, "equivalence_class", lookup("Who keeps THE lighthouse?!", digit("5"), http.StatusOK).Mode)
	lookup("Who keeps the key?", digit("5"), http.StatusNotFound)
	lookup("Who keeps the lighthouse?", digit("7"), http.StatusNotFound)
	s.send(t, post(prefix+"/run-dags/lookup", `{"question":"q"}`), http.StatusUnprocessableEntity)
	require.Equal(t, "Ana Varga, since 1911.", string(s.do(t, get(prefix+"/records/{seq}/content/{path}", "seq", "2", "path", "answer_text"), http.StatusOK).body))
	s.do(t, verb(http.MethodDelete, contentsOf, `{"reason":"r"}`, "seq", "2"), http.StatusCreated)
	require.Nil(t, lookup("who keeps lighthouse", digit("6"), http.StatusOK).Answer, "the answer is redacted")

	var key struct {
		Key string `json:"cache_key"`
	}
	s.do(t, post("/v1/compute/cache-key", dimensionsOf(digit("6"))), http.StatusOK).decode(t, &key)
	require.Equal(t, cacheKey(digit("6")), key.Key)
	s.send(t, post("/v1/compute/cache-key", `{"source_root":"x"}`), http.StatusUnprocessableEntity)
	a := s.do(t, post("/v1/compute/question-hash", `{"question":"Who keeps THE lighthouse"}`), http.StatusOK)
	require.JSONEq(t, `{"question_hash":"`+lighthouse+`","question_mode":"equivalence_class"}`, string(a.body))
}

// The cause of a divergence is the dimension of the cache key that differs.
func TestDivergenceHasACause(t *testing.T) {
	s := answered(t)
	var list struct {
		Rows []struct {
			Cause      *string
			Dimensions []string `json:"differing_dimensions"`
		}
	}
	s.do(t, get(divergenceOf).asking("?as_of=6&question_hash="+lighthouse), http.StatusOK).decode(t, &list)
	require.Len(t, list.Rows, 3)
	require.Nil(t, list.Rows[0].Cause)
	require.Equal(t, "source_root", *list.Rows[1].Cause)
	require.Equal(t, []string{"source_root"}, list.Rows[1].Dimensions)
	require.Equal(t, "unknown", *list.Rows[2].Cause, "the rejected run has no dimensions")
	require.Nil(t, list.Rows[2].Dimensions)
}

// A group counts the run-DAGs that have a hash in common. If the query limits the period, groups
// are listed as of the head, in the order of their latest run-DAGs. /run-dags lists the run-DAGs of
// a group.
func TestRunGroupsAreListedAsTheContractSays(t *testing.T) {
	s := answered(t)
	groups := prefix + "/run-dags/groups"
	s.requireExample(t, "RunGroupList", get(groups).asking("?by=question_hash&after=5"))
	s.requireExample(t, "RunGroupList", get(groups).asking("?by=question_hash&since=2020-01-01T00:00:00Z"))
	s.requireExample(t, "RunGroupList", get(groups).asking("?by=question_hash&since=2020-01-01T00:00:00Z&as_of=6"))
	type row struct {
		Value string
		Runs  uint64
		Seq   uint64
	}
	rows := func(query string) []row {
		var list struct{ Rows []row }
		s.do(t, get(groups).asking(query), http.StatusOK).decode(t, &list)
		return list.Rows
	}
	require.Equal(t, []row{{digit("1"), 2, 2}}, rows("?by=model_profile_hash&proofs=true"))
	require.Equal(t, []row{{digit("1"), 3, 4}}, rows("?by=model_profile_hash&state=any"))
	require.Equal(t, []row{{digit("3"), 3, 4}}, rows("?by=governance_policy_hash&as_of=5"), "the run-DAG was live at this size")
	require.Equal(t, []row{{cacheKey(digit("6")), 1, 2}, {cacheKey(digit("5")), 1, 1}}, rows("?by=cache_key"))
	require.Empty(t, rows("?by=verifier_policy_hash"))
	require.Empty(t, rows("?by=question_hash&until=2020-01-01T00:00:00Z"))
	var members struct{ Rows []row }
	s.do(t, get(prefix+"/run-dags").asking("?model_profile_hash="+digit("1")), http.StatusOK).decode(t, &members)
	require.Len(t, members.Rows, 2)
	for query, detail := range map[string]string{
		"?by=model": "by: must be one of question_hash, model_profile_hash, governance_policy_hash, verifier_policy_hash, cache_key",
		"":          "by: must be one of ",
	} {
		require.Contains(t, string(s.send(t, get(groups).asking(query), http.StatusBadRequest).body), detail)
	}
}
