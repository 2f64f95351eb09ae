package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An integer as a version is its decimal text, in the cache key, in the event, and in the digest.
func TestIntegersAsVersions(t *testing.T) {
	body := func(version string) *Record {
		dimensions := ""
		for _, name := range []string{"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash"} {
			dimensions += `"` + name + `":"` + zeros + `",`
		}
		return parse(t, RunDAG, []byte(`{"dag":{"root":"`+zeros+`","nodes":[{"stage":"a","hash":"`+zeros+`"}]},"cache_dimensions":{`+dimensions+
			`"canonicalization_version":"c","chunking_version":"k","schema_version":`+version+`}}`))
	}
	number, text := body("12"), body(`"12"`)
	require.Equal(t, text.EffectiveHash("cache_key"), number.EffectiveHash("cache_key"))
	require.Equal(t, text.Digest, number.Digest)
	require.Contains(t, string(number.AppendBody(nil, Event{Actor: "a", Ledger: "l"})), `"schema_version":"12"`)
	require.Equal(t, sha([]byte(strings.Repeat(zeros+"|", 5)+"12|c|k")), number.EffectiveHash("cache_key"))
	_, err := Parse(RunDAG, []byte(`{"cache_dimensions":{"schema_version":1.5},"dag":{"root":"`+zeros+`","nodes":[{"stage":"a","hash":"`+zeros+`"}]}}`))
	require.ErrorContains(t, err, "/cache_dimensions/schema_version")
}
