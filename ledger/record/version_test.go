package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cache key, event, and digest are the same whether a version is sent as an integer or as its
// decimal text.
func TestIntegersAsVersions(t *testing.T) {
	body := func(version string) *Record {
		dimensions := ""
		for _, name := range []string{"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash"} {
			dimensions += `"` + name + `":"` + zeros + `",`
		}
		return parse(t, KindRunDAG, []byte(`{"dag":{"root":"`+zeros+`","nodes":[{"stage":"a","hash":"`+zeros+`"}]},"cache_dimensions":{`+dimensions+
			`"canonicalization_version":"c","chunking_version":"k","schema_version":`+version+`}}`))
	}
	number, text := body("12"), body(`"12"`)
	require.Equal(t, text.EffectiveHash("cache_key"), number.EffectiveHash("cache_key"))
	require.Equal(t, text.Digest, number.Digest)
	require.Contains(t, string(number.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"})), `"schema_version":"12"`)
	require.Equal(t, sha([]byte(strings.Repeat(zeros+"|", 5)+"12|c|k")), number.EffectiveHash("cache_key"))
	_, err := Parse(KindRunDAG, []byte(`{"cache_dimensions":{"schema_version":1.5},"dag":{"root":"`+zeros+`","nodes":[{"stage":"a","hash":"`+zeros+`"}]}}`))
	require.ErrorContains(t, err, "/cache_dimensions/schema_version")
}

// If a record names a hash_version whose fingerprints the ledger cannot compute, its fingerprints
// are recorded as claims, even if the content is given. They are never reported as mismatches.
func TestOtherHashVersions(t *testing.T) {
	r := parse(t, KindPathFingerprint, []byte(`{"project":"p","route":["Start"],"path_id":"a6122a65","content":"A door.","hash_version":"adr-005",`+
		`"content_fingerprint":"0123456789abcdef","raw_content_fingerprint":"`+zeros+`"}`))
	require.Equal(t, []Check{{Field: "path_id", Result: ResultMatch}, {Field: "content_fingerprint", Result: ResultClaimed}, {Field: "raw_content_fingerprint", Result: ResultClaimed}}, r.Checks)
	body := string(r.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"}))
	require.Contains(t, body, `"content":{"content":{"sha256":"`+sha([]byte("A door."))+`","size":7}}`)
	require.Contains(t, body, `"hash_version":"adr-005","hashes":{"content_fingerprint":"0123456789abcdef","path_id":"a6122a65","raw_content_fingerprint":"`+zeros+`"}`)
}
