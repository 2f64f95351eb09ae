package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
)

// verdictOf returns the rules that the verdict of a record breaks, each with the result of its
// check.
func verdictOf(r *Record) (broken []string) {
	for _, c := range r.Checks {
		if rule, is := strings.CutPrefix(c.Field, rules.VerdictCheckPrefix); is {
			broken = append(broken, rule+" "+string(c.Result))
		}
	}
	return broken
}

// A verdict that no run can have is accepted, but a check names each rule that the verdict breaks.
func TestImpossibleVerdictsAreInconsistent(t *testing.T) {
	run := func(mode string, sources, quotes, verified int, more string) string {
		return fmt.Sprintf(`{"inputs":{"question_hash":"%[1]s","context_root":"%[1]s","conversation_hash":"%[1]s","answer_text":"a","audit_mode":%[2]q,"verifier_method":"v","n_quotes":%[3]d,`+
			`"n_verified":%[4]d,"sources":[%[5]s]%[6]s}`, zeros, mode, quotes, verified, strings.TrimSuffix(strings.Repeat("{},", sources), ","), more)
	}
	id := string(rules.EvidenceID([]byte(zeros), []byte("0"), []byte("9")))
	evidence := `},"evidence":[{"chunk_root":"` + zeros + `","start":0,"end":9}]}`
	lattice := func(ids string) string { return `,"parsed_lattice":[{"claim_text":"c","evidence_ids":[` + ids + `]}]` }
	for body, want := range map[string][]string{
		run("STRICT", 0, 3, 0, "") + "}":                                                {"strict_without_sources inconsistent", "strict_without_verified_quotes inconsistent"},
		run("STRICT", 5, 3, 0, "") + "}":                                                {"strict_without_verified_quotes inconsistent"},
		run("STRICT", 0, 3, 3, "") + "}":                                                {"strict_without_sources inconsistent"},
		run("STRICT", 1, 3, 3, "") + "}":                                                nil,
		run("STRICT", 1, 0, 0, "") + "}":                                                nil, // a pointer run has no quotes
		run("HYBRID", 0, 3, 0, "") + "}":                                                nil,
		run("HYBRID", 1, 3, 4, "") + "}":                                                {"more_verified_than_quotes inconsistent"},
		run("HYBRID", 1, 9, 10, "") + "}":                                               {"more_verified_than_quotes inconsistent"},
		run("UNGROUNDED", 1, 10, 9, "") + "}":                                           nil,
		strings.TrimSuffix(run("STRICT", 1, 3, 3, lattice(`"`+id+`"`)), "}") + evidence: nil,
		strings.TrimSuffix(run("STRICT", 1, 3, 3, lattice(`"`+id+`","Edeadbeef"`)), "}") + evidence:                               {"lattice_without_evidence inconsistent"},
		run("STRICT", 1, 3, 3, lattice(`"Edeadbeef"`)) + "}":                                                                      nil, // there is no evidence to compare with the lattice
		`{"reject_inputs":{"question_hash":"` + zeros + `","preflight_payload":{},"rejection_reason":"r","audit_mode":"STRICT"}}`: {"strict_rejected inconsistent"},
		`{"reject_inputs":{"question_hash":"` + zeros + `","preflight_payload":{},"rejection_reason":"r"}}`:                       nil,
	} {
		r := parse(t, KindRunDAG, []byte(body))
		require.Equal(t, want, verdictOf(r), body)
		require.Empty(t, r.Mismatches(), "a verdict is not a claim of a hash")
	}
}

// Evidence can have additional members, and its evidence_id and text_hash are checked.
func TestEvidenceIsChecked(t *testing.T) {
	id := string(rules.EvidenceID([]byte(zeros), []byte("3"), []byte("12")))
	evidence := func(claims string) *Record {
		return parse(t, KindRunDAG, []byte(`{"dag":{"root":"`+zeros+`","nodes":[{"stage":"evidence_map","hash":"`+zeros+`"}]},"evidence":[{"chunk_root":"`+zeros+`","start":3,"end":12`+claims+`}]}`))
	}
	rest := `,"document_root":"` + zeros + `","chunk_idx":4,"source_role":"primary","score":0.5,"title":"t","url":null,"rank":[1]`
	hash := sha([]byte("the light"))
	r := evidence(`,"evidence_id":"` + id + `","text_hash":"` + hash + `","span":"the light"` + rest)
	require.Equal(t, ResultMatch, resultOf(r, "evidence/0/evidence_id"))
	require.Equal(t, ResultMatch, resultOf(r, "evidence/0/text_hash"))
	require.Equal(t, evidence("").EffectiveHash("evidence_map_root"), r.EffectiveHash("evidence_map_root"))
	r = evidence(`,"evidence_id":"E00000000","text_hash":"` + hash + `","span":"the  light"`)
	require.Equal(t, ResultMismatch, resultOf(r, "evidence/0/evidence_id"))
	require.Equal(t, ResultMismatch, resultOf(r, "evidence/0/text_hash"))
	require.Equal(t, "/evidence/0/text_hash", r.ClaimPointer(r.Mismatches()[1]))
	require.Equal(t, "text_hash", r.Mismatches()[1].MetricLabel())
	r = evidence(`,"text_hash":"` + hash + `"`)
	require.Equal(t, ResultClaimed, resultOf(r, "evidence/0/text_hash"))
	require.Empty(t, resultOf(r, "evidence/0/evidence_id"))
	surrogate := evidence(`,"span":"\ud800","text_hash":"` + sha([]byte("\xed\xa0\x80")) + `"`)
	require.Equal(t, ResultMatch, resultOf(surrogate, "evidence/0/text_hash"))
	_, err := Parse(KindRunDAG, []byte(`{"dag":{"root":"`+zeros+`","nodes":[{"stage":"a","hash":"`+zeros+`"}]},"evidence":[7]}`))
	require.ErrorContains(t, err, "/evidence/0")
}

// The event contains the document roots and evidence ids of a run, so that the run can be found by
// them.
func TestRunsListTheirDocumentsAndEvidence(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	body := strings.Replace(goodDAG, `"sources":[]`, `"sources":[{"document_root":"`+two+`"},{"document_root":"`+one+`"},{"document_root":"`+two+`"},{"document_root":"short"},{"document_root":7}],`+
		`"parsed_lattice":[{"evidence_ids":["Edeadbeef","E1",1]}]`, 1)
	id := string(rules.EvidenceID([]byte(zeros), []byte("0"), []byte("9")))
	body = strings.Replace(body, `{"inputs"`, `{"source_roots":["`+zeros+`"],"evidence":[{"chunk_root":"`+zeros+`","start":0,"end":9,"evidence_id":"Ecafecafe"}],"inputs"`, 1)
	event := string(parse(t, KindRunDAG, []byte(body)).AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"}))
	require.Contains(t, event, `"document_roots":["`+zeros+`","`+one+`","`+two+`"]`)
	ids := []string{id, "Ecafecafe", "Edeadbeef"}
	slices.Sort(ids)
	require.Contains(t, event, `"evidence_ids":["`+strings.Join(ids, `","`)+`"]`)

	many := ""
	for i := range fields.MaxSetElements + 1 {
		many += fmt.Sprintf(`{"document_root":"%064x"},`, i)
	}
	body = strings.Replace(goodDAG, `"sources":[]`, `"sources":[`+strings.TrimSuffix(many, ",")+`]`, 1)
	require.NotContains(t, string(parse(t, KindRunDAG, []byte(body)).AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"})), "document_roots")
}
