package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"
)

// An IPC record has a seedless hash if its payload contains the run's seed (spec: Seedless hash).
func TestSeedlessInputHash(t *testing.T) {
	const axes = `"axes":{"mood":{"label":" calm","score":1}},"policy_hash":"p","world_id":"w","note":"dropped"`
	const axesForm = `{"axes": {"mood": {"label": "calm", "score": 1.0}}, "policy_hash": "p", "world_id": "w"}`
	for name, c := range map[string]struct {
		members string
		form    string // empty means that there is no seedless hash
	}{
		"in the middle":                 {`"payload":{"z":[1,0.50],"seed":7,"a":{"seed":7}}`, `{"a": {"seed": 7}, "z": [1, 0.5]}`},
		"the first":                     {`"payload":{"z":1,"seed":7}`, `{"z": 1}`},
		"the last":                      {`"payload":{"seed":7,"a":1}`, `{"a": 1}`},
		"the only one":                  {`"payload":{"seed":7}`, `{}`},
		"an escaped name":               {`"payload":{"s\u0065ed":-0,"\u00e9\n":1}`, `{"é\n": 1}`},
		"in both payload and record":    {`"seed":7,"payload":{"seed":7,"a":1}`, `{"a": 1}`},
		"in the record only":            {`"seed":7,"payload":{"a":1}`, ""},
		"another seed in the record":    {`"seed":8,"payload":{"seed":7,"a":1}`, ""},
		"not an integer in the payload": {`"seed":7,"payload":{"seed":7.0,"a":1}`, ""},
		"null in the payload":           {`"seed":7,"payload":{"seed":null,"a":1}`, ""},
		"no seed":                       {`"payload":{"a":1}`, ""},
		"only a hash":                   {`"seed":7,"input_hash":"` + strings.Repeat("0", 64) + `"`, ""},
		"an axis payload":               {`"payload_schema":"axis-payload-1","payload":{"seed":7.0,` + axes + `}`, axesForm},
		"an axis payload, twice":        {`"seed":7,"payload_schema":"axis-payload-1","payload":{"seed":7.0,` + axes + `}`, axesForm},
		"another axis payload":          {`"seed":8,"payload_schema":"axis-payload-1","payload":{"seed":7,` + axes + `}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(KindIPCRecord, fmt.Appendf(nil, `{%s,"model":"m","temperature":0,"max_tokens":1}`, c.members))
			require.NoError(t, err)
			defer r.Release()
			var hashes pyjson.Document
			require.NoError(t, hashes.Parse(r.HashesJSON()))
			got := hashes.Root().Member("seedless_input_hash")
			if c.form == "" {
				require.Equal(t, pyjson.Absent, got.Kind())
				return
			}
			form := strings.ReplaceAll(c.form, "\n", `\n`)
			sum := sha256.Sum256([]byte(form))
			require.Equal(t, hex.EncodeToString(sum[:]), string(got.Text()), form)
		})
	}
}
