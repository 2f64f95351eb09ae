package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The digest of a record does not depend on how the record is written, for example on spaces or the
// order of members. In JSON that belongs to the client, such as the payload, members that are null or
// empty are part of the digest.
func TestDigestOfTheNormalisedRecord(t *testing.T) {
	digest := func(kind Kind, posted string) Hash {
		t.Helper()
		r, err := Parse(kind, []byte(posted))
		require.NoError(t, err, posted)
		defer r.Release()
		return r.Digest
	}
	const (
		ipc  = `"model":"m","max_tokens":1,"output":"o",`
		path = `"project":"p","route":["a"]`
		run  = `"dag":{"root":"0000000000000000000000000000000000000000000000000000000000000000","nodes":[{"stage":"a","hash":"0000000000000000000000000000000000000000000000000000000000000000"}]}`
	)
	for kind, groups := range map[Kind][][]string{
		KindIPCRecord: {
			{
				`{` + ipc + `"temperature":1,"payload":{"seed":4}}`,
				`{` + ipc + `"temperature":1.0,"payload":{"seed":4}}`,
				`{` + ipc + `"temperature":1,"payload":{"seed":4},"seed":4}`,
				`{` + ipc + `"temperature":1e0,"seed":null,"payload":{"seed":4},"environment":null,"usage":null,"run_id":null,"labels":null}`,
				`{` + ipc + `"temperature":1,"payload":{"seed":4},"environment":{}}`,
				`{"payload": {"seed": 4}, "environment":{"host_platform":null}, ` + ipc + `"temperature":1}`,
			},
			{`{` + ipc + `"temperature":1,"payload":{"seed":4},"seed":5}`},
			{`{` + ipc + `"temperature":1,"payload":{"seed":4},"usage":{}}`},
			{`{` + ipc + `"temperature":1,"payload":{"seed":4},"labels":{}}`},
			{`{` + ipc + `"temperature":1,"payload":{"seed":4,"a":null}}`},
			{`{` + ipc + `"temperature":1,"payload":{"seed":4,"a":{}}}`},
			{`{` + ipc + `"temperature":1,"payload":{"seed":4,"a":{"b":null}}}`},
			{`{` + ipc + `"temperature":1,"payload":{"seed":4.0},"payload_schema":null,"seed":4}`},
		},
		KindPathFingerprint: {
			{`{` + path + `}`, `{` + path + `,"hash_version":"adr-004","build":null}`, `{` + path + `,"hash_version":null}`},
			{`{` + path + `,"build":"b"}`},
			{`{` + path + `,"content_fingerprint":"0123abcd"}`, `{` + path + `,"hash_version":"adr-004","content_fingerprint":"0123abcd"}`},
			{`{` + path + `,"hash_version":"adr-005","content_fingerprint":"0123abcd"}`},
			{`{` + path + `,"hash_version":"adr-006","content_fingerprint":"0123abcd"}`},
		},
		KindRunDAG: {
			{
				`{` + run + `,"question":"q"}`, `{` + run + `,"question":"q","question_mode":"equivalence_class"}`,
				`{` + run + `,"question":"q","question_mode":null,"policy":null}`,
			},
			{`{` + run + `,"question":"q","question_mode":"strict"}`},
			{`{` + run + `}`, `{` + run + `,"question_mode":"strict"}`},
			{`{` + run + `,"policy":{}}`}, {`{` + run + `,"policy":{"a":null}}`},
			{`{` + run + `,"messages":[]}`}, {`{` + run + `,"messages":[{"role":null}]}`}, {`{` + run + `,"messages":[{}]}`},
		},
		KindCitationSet: {
			{`{"subject":"s","citations":[{"source_id":"s","text":"t","weight":1}]}`, `{"subject":"s","citations":[{"source_id":"s","text":"t","weight":1,"section":null,"chunk_hash":null}]}`},
			{`{"subject":"s","citations":[{"source_id":"s","text":"t","weight":1,"section":""}]}`},
			{`{"subject":"s","citations":[{"source_id":"s","text":"t","weight":1.0}]}`},
		},
	} {
		seen := make(map[Hash]string)
		for _, group := range groups {
			want := digest(kind, group[0])
			require.Empty(t, seen[want], "a different record has the same digest as %s", group[0])
			seen[want] = group[0]
			for _, same := range group[1:] {
				require.Equal(t, want, digest(kind, same), same)
			}
		}
	}
}
