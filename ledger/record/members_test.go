package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
)

// An event contains a digest of each payload member except the run's seed, if the payload is within
// the limits (spec: Payload members). The digests are keyed with the ledger's secret.
func TestPayloadMembers(t *testing.T) {
	const axes = `"axes":{"mood":{"label":" calm","score":1}},"policy_hash":"p","world_id":"w","note":"dropped"`
	axesForms := map[string]string{"/axes": `{"mood": {"label": "calm", "score": 1.0}}`, "/policy_hash": `"p"`, "/world_id": `"w"`}
	many := func(n int) (list string, forms map[string]string) {
		forms = make(map[string]string)
		for i := range n {
			name := fmt.Sprintf("m%02d", i)
			list += fmt.Sprintf(`,%q:%d`, name, i)
			forms["/"+name] = fmt.Sprint(i)
		}
		return list, forms
	}
	most, mostForms := many(members.MaxMembers)
	tooMany, _ := many(members.MaxMembers + 1)
	longest, tooLong := strings.Repeat("~", members.MaxNameBytes), strings.Repeat("~", members.MaxNameBytes+1)
	for name, c := range map[string]struct {
		members string
		forms   map[string]string // nil means that the digests are null
	}{
		"several":                  {`"payload":{"z":[1,0.50],"seed":7,"a":{"seed":7}}`, map[string]string{"/a": `{"seed": 7}`, "/z": "[1, 0.5]"}},
		"none":                     {`"payload":{}`, map[string]string{}},
		"only the seed":            {`"payload":{"seed":7}`, map[string]string{}},
		"null":                     {`"payload":{"a":null}`, map[string]string{"/a": "null"}},
		"same seed in the record":  {`"seed":7,"payload":{"seed":7,"a":1}`, map[string]string{"/a": "1"}},
		"other seed in the record": {`"seed":8,"payload":{"seed":7,"a":1}`, map[string]string{"/a": "1", "/seed": "7"}},
		"no seed":                  {`"payload":{"seed":null,"a":1}`, map[string]string{"/a": "1", "/seed": "null"}},
		"names out of order":       {`"payload":{"a/b":1,"a0":2,"a~":3,"a":4,"":5,"\u00e9\n\"":6}`, map[string]string{"/a~1b": "1", "/a0": "2", "/a~0": "3", "/a": "4", "/": "5", "/é\n\"": "6"}},
		"as many as allowed":       {`"seed":1,"payload":{"seed":1` + most + `}`, mostForms},
		"too many":                 {`"seed":1,"payload":{"seed":1` + tooMany + `}`, nil},
		"the longest name":         {`"payload":{"` + longest + `":1}`, map[string]string{"/" + strings.ReplaceAll(longest, "~", "~0"): "1"}},
		"a name that is too long":  {`"payload":{"` + tooLong + `":1,"a":2}`, nil},
		"an axis payload":          {`"payload_schema":"axis-payload-1","payload":{"seed":7.0,` + axes + `}`, axesForms},
		"an axis payload, other seed in the record": {`"seed":8,"payload_schema":"axis-payload-1","payload":{"seed":7.0,` + axes + `}`, map[string]string{"/axes": axesForms["/axes"], "/policy_hash": `"p"`, "/world_id": `"w"`, "/seed": "7"}},
	} {
		t.Run(name, func(t *testing.T) {
			key := sha256.Sum256([]byte(name))
			secret, err := members.ParseSecret(key[:])
			require.NoError(t, err)
			body := fmt.Appendf(nil, `{%s,"model":"m"}`, c.members)
			for range 2 { // the second record reuses the memory of the first
				r, err := DefaultLimits().WithPayloadMemberSecret(secret).ParseRecord(KindIPCRecord, body)
				require.NoError(t, err)
				digests := digestsIn(t, r)
				if c.forms == nil {
					require.Equal(t, "null", string(digests))
				} else {
					want := make(map[string]string)
					for pointer, form := range c.forms {
						mac := hmac.New(sha256.New, key[:])
						mac.Write([]byte("member\x00" + pointer + "\x00" + form))
						want[pointer] = hex.EncodeToString(mac.Sum(nil)[:16])
					}
					var got map[string]string
					require.NoError(t, json.Unmarshal(digests, &got))
					require.Equal(t, want, got)
					all := make(map[string]string)
					for pointer, digest := range digests.All() {
						var text string
						require.NoError(t, json.Unmarshal(pointer, &text))
						all[text] = string(digest)
						_, ok := members.NameFromPointer([]byte(text))
						require.True(t, ok)
					}
					require.Equal(t, want, all)
				}
				require.True(t, digests.IsValid(), "%s", digests)
				r.Release()
			}
			r, err := Parse(KindIPCRecord, body)
			require.NoError(t, err)
			defer r.Release()
			require.Nil(t, digestsIn(t, r), "a ledger without a secret")
		})
	}
	r, err := DefaultLimits().WithPayloadMemberSecret(members.UnknownSecret).ParseRecord(KindIPCRecord, []byte(`{"input_hash":"`+strings.Repeat("0", 64)+`","model":"m"}`))
	require.NoError(t, err)
	defer r.Release()
	require.Nil(t, digestsIn(t, r), "without a payload")
}

// digestsIn returns the digests of payload members in the event of r.
func digestsIn(t *testing.T, r *Record) members.Digests {
	var d pyjson.Document
	require.NoError(t, d.Parse(AppendBodySuffix(r.AppendBodyPrefix(nil, EventContext{}), 1, time.Unix(0, 0))))
	return d.Root().Member("record").Member("payload_members").Raw()
}

// IsValid accepts exactly one encoding of the digests of payload members.
func TestFormOfPayloadMembers(t *testing.T) {
	const digest = `"00112233445566778899aabbccddeeff"`
	for _, good := range []string{`null`, `{}`, `{"/a":` + digest + `}`, `{"/a":` + digest + `,"/b":` + digest + `}`, `{"/":` + digest + `}`} {
		require.True(t, members.Digests(good).IsValid(), good)
	}
	var long string
	for i := range members.MaxMembers + 1 {
		long += fmt.Sprintf(`,"/%02d":%s`, i, digest)
	}
	for _, bad := range []string{
		`[]`, `1`, `"a"`, `false`, `{"a":` + digest + `}`, `{"":` + digest + `}`, `{"/a/b":` + digest + `}`, `{"/~2":` + digest + `}`, `{"/~":` + digest + `}`,
		`{"/b":` + digest + `,"/a":` + digest + `}`, `{"/a":"00"}`, `{"/a":null}`, `{"/a":` + strings.ToUpper(digest) + `}`, `{"/a": ` + digest + `}`, `{"\/a":` + digest + `}`,
		`{"/` + strings.Repeat("a", members.MaxNameBytes+1) + `":` + digest + `}`, `{"/\ud800":` + digest + `}`, `{` + long[1:] + `}`, `{`, ``,
	} {
		require.False(t, members.Digests(bad).IsValid(), bad)
		for range members.Digests(bad).All() { // All must not panic
		}
	}
}
