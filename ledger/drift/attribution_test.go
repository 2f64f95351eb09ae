package drift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/event"
)

// base returns a run that records no environment.
func base() event.IPC {
	return event.IPC{
		InputHash: []byte("in"), SystemPromptHash: []byte("prompt"), OutputHash: []byte("out"), IPCID: []byte("id"),
		Model: []byte("claude-2"), Temperature: []byte("0.7"), MaxTokens: []byte("300"), Seed: []byte("0"),
	}
}

// with returns the run from base with some of its values replaced. changes alternates between the
// names and the new values; the value "null" stands for nil.
func with(changes ...string) event.IPC {
	r := base()
	for i := 0; i < len(changes); i += 2 {
		value := []byte(changes[i+1])
		if changes[i+1] == "null" {
			value = nil
		}
		*map[string]*[]byte{
			"input": &r.InputHash, "seedless": &r.SeedlessInputHash, "system_prompt": &r.SystemPromptHash, "output": &r.OutputHash, "ipc_id": &r.IPCID,
			"model": &r.Model, "temperature": &r.Temperature, "max_tokens": &r.MaxTokens, "seed": &r.Seed,
			"ollama_build_hash": &r.OllamaBuildHash, "model_digest": &r.ModelDigest, "host_platform": &r.HostPlatform,
		}[changes[i]] = value
	}
	return r
}

// seeded returns a run whose payload contains the seed.
func seeded(seed, output string) event.IPC {
	r := with("input", "in with "+seed, "seedless", "in", "seed", seed, "output", output)
	r.HasPayload = true
	return r
}

// payload returns the run as if its record contained a payload, not only its hash.
func payload(r event.IPC) event.IPC {
	r.HasPayload = true
	return r
}

// A seed in the payload counts as one variable, although it also changes the input_hash. If
// either run has only its input_hash, CompareRuns compares the inputs by input_hash.
func TestSeedInThePayload(t *testing.T) {
	for name, c := range map[string]struct {
		a, b      event.IPC
		cause     Cause
		variables []string
	}{
		"another seed":                        {seeded("1", "x"), seeded("2", "y"), CauseSeed, []string{"seed"}},
		"the same seed":                       {seeded("1", "x"), seeded("1", "y"), CauseStochasticOrModelInternal, nil},
		"without effect":                      {seeded("1", "x"), seeded("2", "x"), CauseNoEffect, []string{"seed"}},
		"one seed outside the payload":        {seeded("1", "x"), payload(with("seed", "2", "output", "y")), CauseSeed, []string{"seed"}},
		"same seed, once outside the payload": {seeded("1", "x"), payload(with("seed", "1", "output", "y")), CauseStochasticOrModelInternal, nil},
		"only a hash, the same payload":       {seeded("1", "x"), with("input", "in with 1", "seed", "1", "output", "y"), CauseStochasticOrModelInternal, nil},
		"only a hash, another payload":        {seeded("1", "x"), with("input", "in with 2", "seed", "2", "output", "y"), CauseConfounded, []string{"input", "seed"}},
		"only a hash, without the seed":       {seeded("1", "x"), with("seed", "1", "output", "y"), CauseInput, []string{"input"}},
		"same payload, other seed outside it": {seeded("1", "x"), payload(with("input", "in with 1", "seed", "2", "output", "y")), CauseSeed, []string{"seed"}},
		"another payload, the same seed":      {seeded("1", "x"), payload(with("input", "else", "seed", "1", "output", "y")), CauseInput, []string{"input"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, back := CompareRuns(&c.a, &c.b, CitationSetPair{}), CompareRuns(&c.b, &c.a, CitationSetPair{})
			require.Equal(t, c.cause, r.Cause)
			require.Equal(t, c.variables, names(r))
			require.Equal(t, c.cause, back.Cause)
			require.Equal(t, c.variables, names(back))
		})
	}
}

func names(r RunChange) []string {
	var list []string
	for _, d := range r.Differences {
		list = append(list, d.Variable)
	}
	return list
}

func TestAttribution(t *testing.T) {
	for _, c := range []struct {
		name      string
		a, b      event.IPC
		cause     Cause
		variables []string
		sentence  string
	}{
		{"the same", with(), with(), CauseIdentical, nil,
			"Nothing differs: the inputs and the output are the same."},
		{"one variable", with(), with("model", "claude-2.1", "output", "other"), CauseModel, []string{"model"},
			"The output changed because the model differs (claude-2, then claude-2.1); no other variable differs."},
		{"a value that one has", with("system_prompt", "null"), with("output", "other"), CauseSystemPrompt, []string{"system_prompt"},
			"The output changed because the system prompt differs (none, then prompt); no other variable differs."},
		{"an empty model is a value", with("model", ""), with("output", "other"), CauseModel, []string{"model"},
			"The output changed because the model differs (, then claude-2); no other variable differs."},
		{"no effect", with(), with("temperature", "0.0", "seed", "7"), CauseNoEffect, []string{"temperature", "seed"},
			"The output is the same although the temperature (0.7, then 0.0) and seed (0, then 7) differ."},
		{"several", with(), with("system_prompt", "brief", "model", "alpaca-7b", "max_tokens", "512", "output", "other"), CauseConfounded,
			[]string{"system_prompt", "model", "max_tokens"},
			"The output changed, but several variables also changed, so no single cause can be identified: " +
				"the system prompt (prompt, then brief), model (claude-2, then alpaca-7b) and max_tokens (300, then 512) differ."},
		{"chance or model", with(), with("output", "other"), CauseStochasticOrModelInternal, nil,
			"The output changed although nothing is known to differ. A model digest is unknown, so the cause may be chance or another model under the same name."},
		{"one digest is unknown", with("model_digest", "d"), with("output", "other"), CauseStochasticOrModelInternal, nil, ""},
		{"chance", with("model_digest", "d"), with("model_digest", "d", "output", "other"), CauseStochastic, nil,
			"The output changed although nothing differs, the model digest included: the model does not always give the same answer."},
		{"another model under the same name", with("model_digest", "d"), with("model_digest", "e", "output", "other"), CauseModelInternal,
			[]string{"model_digest"},
			"The output changed although the inputs are the same: the model digest differs (d, then e), so the same name now refers to a different model."},
		{"a digest goes with its model", with("model_digest", "d"), with("model_digest", "e", "model", "m", "output", "other"), CauseModel,
			[]string{"model", "model_digest"}, ""},
		{"a digest without effect", with("model_digest", "d"), with("model_digest", "e"), CauseNoEffect, []string{"model_digest"}, ""},
		{"digest and seed", with("model_digest", "d"), with("model_digest", "e", "seed", "1", "output", "other"), CauseConfounded,
			[]string{"seed", "model_digest"}, ""},
		{"the build", with("ollama_build_hash", "1"), with("ollama_build_hash", "2", "output", "other"), CauseOllamaBuild, []string{"ollama_build_hash"}, ""},
		{"the platform", with("host_platform", "x"), with("host_platform", "y", "output", "other"), CauseHostPlatform, []string{"host_platform"}, ""},
		{"a platform that one has", with("host_platform", "x"), with("output", "other"), CauseStochasticOrModelInternal, nil, ""},
		{"no output", with(), with("output", "null"), CauseIncomplete, nil,
			"The records cannot be compared: an output is missing."},
		{"no seed on either side", with("seed", "null"), with("seed", "null", "output", "other"), CauseUnseeded, nil,
			"The output changed although nothing is known to differ. No seed was given, so the model may answer differently each time."},
		{"no seed, and known digests", with("seed", "null", "model_digest", "d"), with("seed", "null", "model_digest", "d", "output", "other"), CauseUnseeded, nil, ""},
		{"no seed, another digest", with("seed", "null", "model_digest", "d"), with("seed", "null", "model_digest", "e", "output", "other"), CauseModelInternal,
			[]string{"model_digest"}, ""},
		{"no seed, the same output", with("seed", "null"), with("seed", "null"), CauseIdentical, nil, ""},
		{"a seed on one side", with("seed", "null"), with("output", "other"), CauseSeed, []string{"seed"},
			"The output changed because the seed differs (none, then 0); no other variable differs."},
		{"claimed ipc_ids are not compared", with("seed", "null"), with("seed", "null", "ipc_id", "other", "output", "other"), CauseUnseeded, nil, ""},
		{"nothing but input and output", with("seed", "null", "ipc_id", "null", "system_prompt", "null", "temperature", "null", "max_tokens", "null"),
			with("seed", "null", "ipc_id", "null", "system_prompt", "null", "temperature", "null", "max_tokens", "null", "output", "other"), CauseUnseeded, nil, ""},
		{"max_tokens on one side", with("max_tokens", "null", "ipc_id", "null"), with("output", "other"), CauseMaxTokens, []string{"max_tokens"}, ""},
		{"no input", with("input", "null"), with(), CauseIncomplete, []string{"input"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := CompareRuns(&c.a, &c.b, CitationSetPair{})
			require.Equal(t, c.cause, r.Cause)
			require.Equal(t, c.cause, CauseOf(&c.a, &c.b, false))
			require.Equal(t, c.variables, names(r))
			require.Equal(t, string(c.a.OutputHash) != string(c.b.OutputHash), r.OutputChanged)
			if c.sentence != "" {
				require.Equal(t, c.sentence, r.Sentence())
			}
		})
	}
}

// If only one variable outside the environment differs, the cause has the name of that variable.
func TestEachVariableIsACause(t *testing.T) {
	for _, cause := range []Cause{CauseInput, CauseSystemPrompt, CauseModel, CauseTemperature, CauseMaxTokens, CauseSeed} {
		a, b := with(), with(string(cause), "another", "output", "other")
		r := CompareRuns(&a, &b, CitationSetPair{})
		require.Equal(t, cause, r.Cause)
		require.Equal(t, []string{string(cause)}, names(r))
	}
}

// CompareRuns treats a difference between the citation sets as one more variable, which is listed
// last and is not part of the environment.
func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name      string
		a, b      event.IPC
		sets      CitationSetPair
		cause     Cause
		variables []string
		sentence  string
	}{
		{"alone", with(), with("output", "other"), CitationSetPair{12, 15, true}, CauseEvidence, []string{"evidence"},
			"The output changed because the citation set differs (event 12, then event 15); no other variable differs."},
		{"without a seed", with("seed", "null"), with("seed", "null", "output", "other"), CitationSetPair{12, 15, true}, CauseEvidence, []string{"evidence"}, ""},
		{"the same chunks", with(), with("output", "other"), CitationSetPair{12, 15, false}, CauseStochasticOrModelInternal, nil, ""},
		{"the same output", with(), with(), CitationSetPair{12, 15, true}, CauseNoEffect, []string{"evidence"},
			"The output is the same although the citation set differs (event 12, then event 15)."},
		{"and another variable", with(), with("model", "m", "output", "other"), CitationSetPair{12, 15, true}, CauseConfounded, []string{"model", "evidence"},
			"The output changed, but several variables also changed, so no single cause can be identified: " +
				"the model (claude-2, then m) and citation set (event 12, then event 15) differ."},
		{"and the model digest", with("model_digest", "d"), with("model_digest", "e", "output", "other"), CitationSetPair{12, 15, true}, CauseConfounded,
			[]string{"model_digest", "evidence"}, ""},
		{"no output", with(), with("output", "null"), CitationSetPair{12, 15, true}, CauseIncomplete, []string{"evidence"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := CompareRuns(&c.a, &c.b, c.sets)
			require.Equal(t, c.cause, r.Cause)
			require.Equal(t, c.cause, CauseOf(&c.a, &c.b, c.sets.CitationsDiffer))
			require.Equal(t, c.variables, names(r))
			if c.sentence != "" {
				require.Equal(t, c.sentence, r.Sentence())
			}
		})
	}
	require.False(t, IsEnvironmentProperty("evidence"))
	require.True(t, IsEnvironmentProperty("model_digest"))
}

// drawRun returns a random run with values from a small set, so that two runs often agree in
// most variables.
func drawRun(t *rapid.T, name string) event.IPC {
	value := func(variable string) []byte {
		return rapid.SampledFrom([][]byte{[]byte("a"), []byte("a"), []byte("a"), []byte("b"), nil}).Draw(t, name+" "+variable)
	}
	return event.IPC{
		InputHash: value("input"), SeedlessInputHash: value("seedless"), HasPayload: rapid.Bool().Draw(t, name+" payload"), SystemPromptHash: value("prompt"), OutputHash: value("output"), IPCID: value("ipc_id"),
		Model: value("model"), Temperature: value("temperature"), MaxTokens: value("max_tokens"), Seed: value("seed"),
		OllamaBuildHash: value("build"), ModelDigest: value("digest"), HostPlatform: value("platform"),
	}
}

// CompareRuns always returns one of Causes. Swapping the runs does not change the cause.
func TestAttributionIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRun(t, "a"), drawRun(t, "b")
		differ := rapid.Bool().Draw(t, "sets differ")
		r, back := CompareRuns(&a, &b, CitationSetPair{1, 2, differ}), CompareRuns(&b, &a, CitationSetPair{2, 1, differ})
		require.Contains(t, Causes, r.Cause)
		require.Equal(t, r.Cause, back.Cause)
		require.Equal(t, r.OutputChanged, back.OutputChanged)
		require.Equal(t, names(r), names(back))
		for i, d := range r.Differences {
			require.Equal(t, Difference{Variable: d.Variable, ValueA: back.Differences[i].ValueB, ValueB: back.Differences[i].ValueA}, d)
		}
		require.NotEmpty(t, r.Sentence())
		require.NotContains(t, r.Sentence(), "%!")
	})
}

func TestMismatchSentence(t *testing.T) {
	for want, fields := range map[string][]string{
		"": {"ipc_id", "stage:prompt"},
		"The output_hash of event 5, computed from its content, does not match the claimed value.":               {"output_hash", "ipc_id"},
		"The input_hash and output_hash of event 5, computed from its content, do not match the claimed values.": {"output_hash", "input_hash"},
		"The input_hash, system_prompt_hash and output_hash of event 5, computed from its content, do not match the claimed values.": {
			"input_hash", "output_hash", "system_prompt_hash"},
	} {
		require.Equal(t, want, MismatchSentence(5, fields))
	}
}

func TestSentencesCutLongValues(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	model := strings.Repeat("ü", 40)
	a, b := with("input", hash, "model", model), with("input", "in", "model", "m")
	r := CompareRuns(&a, &b, CitationSetPair{})
	require.Equal(t, fmt.Sprintf("The output is the same although the input (0123456789ab…, then in) and model (%s…, then m) differ.",
		strings.Repeat("ü", 24)), r.Sentence())
}

// If a value has a name, a sentence shows the name instead of the hash.
func TestSentencesShowNames(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	a, b := with("system_prompt", hash), with("system_prompt", "other", "output", "other")
	r := CompareRuns(&a, &b, CitationSetPair{})
	require.Len(t, r.Differences, 1)
	r.Differences[0].NameA = "Answer briefly."
	require.Equal(t, "The output changed because the system prompt differs (“Answer briefly.”, then other); no other variable differs.", r.Sentence())
	r.Differences[0].NameB = strings.Repeat("Be kind. ", 10)
	require.Equal(t, "The output changed because the system prompt differs (“Answer briefly.”, then “Be kind. Be kind. Be kind. Be kind. Be kind. Be …”); no other variable differs.", r.Sentence())
}
