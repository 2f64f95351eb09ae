package record

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/fields"
)

// resultOf returns the result of the check of a field, or "" if there is no such check.
func resultOf(r *Record, field string) CheckResult {
	for _, c := range r.Checks {
		if c.Field == field {
			return c.Result
		}
	}
	return ""
}

// The answer in a record with claimed stages is checked against the stage that covers it. If no
// stage covers it, the result of the check is "claimed".
func TestAnswersAreCheckedAgainstTheirStage(t *testing.T) {
	v := vectors[struct {
		Build []struct {
			Inputs map[string]json.RawMessage
			DAG    json.RawMessage
		}
	}](t, "run-dag.json")
	pointers := 0
	for _, b := range v.Build {
		given := func(name string) bool { return b.Inputs[name] != nil && string(b.Inputs[name]) != "null" }
		quote := !given("evidence_map_root")
		stage, shown := "stage:answer", b.Inputs["answer_text"]
		if !quote {
			stage = "stage:render"
			pointers++
			if given("rendered_text") {
				shown = b.Inputs["rendered_text"]
			}
		}
		r := parse(t, KindRunDAG, joinObject(map[string]json.RawMessage{"dag": b.DAG, "answer_text": shown}))
		require.Equal(t, ResultMatch, resultOf(r, stage))
		require.Empty(t, resultOf(r, "answer_text"))
		require.Empty(t, r.Mismatches())
		r = parse(t, KindRunDAG, joinObject(map[string]json.RawMessage{"dag": b.DAG, "answer_text": json.RawMessage(`"tampered"`)}))
		require.Equal(t, ResultMismatch, resultOf(r, stage))
		require.Equal(t, ResultMismatch, resultOf(r, "root"), "the root covers the answer that was sent")
		r = parse(t, KindRunDAG, joinObject(map[string]json.RawMessage{"dag": b.DAG}))
		require.Equal(t, ResultClaimed, resultOf(r, stage))
		require.Empty(t, resultOf(r, "answer_text"), "no answer was sent")
	}
	require.NotZero(t, pointers)

	node := func(stages ...string) string {
		var list []string
		for _, s := range stages {
			list = append(list, `{"stage":"`+s+`","hash":"`+zeros+`"}`)
		}
		return `{"dag":{"root":"` + zeros + `","nodes":[` + strings.Join(list, ",") + `]},"answer_text":"a"}`
	}
	r := parse(t, KindRunDAG, []byte(node("question", "preflight", "final_label")))
	require.Equal(t, ResultClaimed, resultOf(r, "answer_text"))
	r = parse(t, KindRunDAG, []byte(node("raw_answer", "answer", "render")))
	require.Equal(t, ResultMismatch, resultOf(r, "stage:answer"))
	require.Equal(t, ResultClaimed, resultOf(r, "stage:render"), "the render stage covers a text other than the answer")
	require.Equal(t, ResultClaimed, resultOf(r, "stage:raw_answer"))

	pointer := strings.Replace(goodDAG, `"answer_text":"a"`, `"answer_text":"a","evidence_map_root":"`+zeros+`"%`, 1)
	for texts, want := range map[string]CheckResult{
		"": "", `,"rendered_text":"a","raw_answer_text":"b"`: "", `,"rendered_text":"b"`: "",
		`,"rendered_text":"b","raw_answer_text":"c"`: ResultClaimed,
	} {
		r := parse(t, KindRunDAG, []byte(strings.Replace(pointer, "%", texts, 1)))
		require.Equal(t, "pointer", string(r.fields.(*fields.RunDAG).Shape))
		require.Equal(t, want, resultOf(r, "answer_text"), texts)
	}
}
