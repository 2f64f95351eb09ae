package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/rules"
)

// A preflight payload of a different generation is hashed as it is, without added members. It does
// not matter where in the record it appears. The event names the generation.
func TestPreflightOfOtherGenerations(t *testing.T) {
	for payload, want := range map[string]struct{ generation, form string }{
		`{"question_state":{"a": 1},"quantifier":"ALL","policy_state":null}`: {"legacy", `{"policy_state":null,"quantifier":"ALL","question_state":{"a":1}}`},
		`{"node_version":"preflight-node-v2","classifier":null}`:             {"preflight-node-v2", `{"classifier":null,"node_version":"preflight-node-v2"}`},
		`{"stage":"pre"}`:               {"legacy", `{"stage":"pre"}`},
		`{"stage":7,"node_version":""}`: {"legacy", `{"node_version":"","stage":7}`},
		`{"node_version":1}`:            {"legacy", `{"node_version":1}`},
		`{"node_version":"` + strings.Repeat("v", maxStage+1) + `"}`: {"legacy", `{"node_version":"` + strings.Repeat("v", maxStage+1) + `"}`},
		`{"node_version":"preflight-node-v1","more":1}`:              {"legacy", `{"more":1,"node_version":"preflight-node-v1"}`},
		`{"stage":null,"node_version":"preflight-node-v1"}`: {"", `{"answer_contract":{},"classifier":{},"evidence_contract":{},"node_version":"preflight-node-v1",` +
			`"policy_refs":{},"prompt_contract":{},"question_state":{},"stage":"preflight"}`},
	} {
		hash := sha([]byte(want.form))
		nodes := []node{{stage: "question", hash: []byte(zeros)}, {stage: "preflight", hash: []byte(hash)}, {stage: "final_label", hash: []byte(zeros)}}
		root := string(rules.AppendHex(nil, runRoot(nodes)))
		dag := `"dag":{"root":"` + root + `","nodes":[{"stage":"question","hash":"` + zeros + `"},{"stage":"preflight","hash":"` + hash + `"},{"stage":"final_label","hash":"` + zeros + `"}]`
		for _, body := range []string{
			`{` + dag + `,"preflight_payload":` + payload + `}}`,
			`{"reject_inputs":{"question_hash":"` + zeros + `","rejection_reason":"r","preflight_payload":` + payload + `}}`,
			strings.Replace(goodDAG, `"n_quotes"`, `"preflight_payload":`+payload+`,"n_quotes"`, 1),
		} {
			r := parse(t, KindRunDAG, []byte(body))
			require.Equal(t, hash, r.EffectiveHash("preflight_hash"), body)
			require.Empty(t, r.Mismatches(), body)
			event := string(r.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"}))
			if want.generation == "" {
				require.NotContains(t, event, "preflight_generation")
			} else {
				require.Contains(t, event, `"preflight_generation":"`+want.generation+`"`)
			}
		}
		require.Contains(t, inHex(StageHashes("preflight", "", []byte(payload))), hash)
	}
	r := parse(t, KindRunDAG, []byte(`{"dag":{"root":"`+zeros+`","nodes":[{"stage":"preflight","hash":"`+zeros+`"}],"preflight_payload":{"quantifier":"ALL"}}}`))
	require.Equal(t, ResultMismatch, resultOf(r, "stage:preflight"), "a wrong hash is detected")
}
