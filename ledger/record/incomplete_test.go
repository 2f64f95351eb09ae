package record

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/fields"
)

// All members of an IPC record except the input and the model may be missing. A null member is
// treated as missing (spec: IPC hashes; Receipts).
func TestIncompleteIPCRecords(t *testing.T) {
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	whole := map[string]string{"system_prompt": `"s"`, "output": `"o"`, "temperature": "0", "max_tokens": "9", "seed": "1"}
	parse := func(absent, as string, more string) *Record {
		body := `{"payload":{},"model":"m"` + more
		for _, name := range fields.IPCParts[1:] {
			switch {
			case name != absent:
				body += fmt.Sprintf(",%q:%s", name, whole[name])
			case as != "":
				body += fmt.Sprintf(",%q:%s", name, as)
			}
		}
		r, err := Parse(KindIPCRecord, []byte(body+"}"))
		require.NoError(t, err, body)
		t.Cleanup(r.Release)
		return r
	}
	require.Nil(t, MissingPartsJSON(parse("", "", "")))
	for _, name := range fields.IPCParts[1:] {
		r, null := parse(name, "", ""), parse(name, "null", "")
		require.Equal(t, fmt.Sprintf("[%q]", name), string(MissingPartsJSON(r)))
		require.Equal(t, r.Digest, null.Digest, "null is absent")
		require.Equal(t, string(r.AppendComputedJSON(nil)), string(null.AppendComputedJSON(nil)))
		require.NoError(t, r.ipc.Check())
		require.Nil(t, r.ipc.IPCID)
		require.Equal(t, name != "output", r.ipc.IsRun())

		claimed := parse(name, "", `,"ipc_id":"`+hash+`"`)
		if name == "system_prompt" || name == "output" {
			require.Nil(t, claimed.ipc.IPCID)
		} else {
			require.Equal(t, hash, string(claimed.ipc.IPCID))
		}
	}
	r, err := Parse(KindRunDAG, []byte(`{"dag":{"root":"`+hash+`","nodes":[{"stage":"x","hash":"`+hash+`"}]}}`))
	require.NoError(t, err)
	defer r.Release()
	require.Nil(t, MissingPartsJSON(r))
}
