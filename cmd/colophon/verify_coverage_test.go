package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// derivedReceipts returns receipts for all four kinds of records and one for a replayed record,
// exactly as a server writes them. They include members that are derived from other events.
// derivedReceipts also returns the verifier key.
func derivedReceipts(t *testing.T) (receipts map[string][]byte, key string) {
	t.Helper()
	url, key := exportedServer(t)
	receipts = make(map[string][]byte)
	for _, request := range []struct{ name, path, body string }{
		{"drift", "/ipc-records", `{"run_id":"d","payload":{"q":"Who?","t":1e5},"system_prompt":"Be brief.","output":"Bo.","model":"m","temperature":0.1,"max_tokens":9,"seed":1}`},
		{"drift again", "/ipc-records", `{"payload":{"q":"Who?","t":1e5},"system_prompt":"Be brief.","output":"Cy.","model":"m","temperature":0.1,"max_tokens":9,"seed":1}`},
		{"incomplete", "/ipc-records", `{"payload":{"q":"Who?"},"model":"m","temperature":0,"max_tokens":9}`},
		{"divergence", "/run-dags", `{"question":"Who keeps the \ud83d light?","reject_inputs":{"preflight_payload":{},"rejection_reason":"no"}}`},
		{"conflicts", "/citation-sets", `{"subject":"s","citations":[{"source_id":"x","text":"Ana  Varga keeps it.","weight":1},{"source_id":"z","text":"Ana  Varga keeps it.","weight":1}]}`},
		{"category", "/path-fingerprints", `{"project":"p","route":["Start"],"content":"The quay."}`},
		{"replayed", "/path-fingerprints", `{"run_id":"a","project":"p","route":["Start"],"content":"The [[quay]]."}`},
	} {
		response, err := http.Post(url+"/v1/ledgers/default"+request.path+"?derive=true", "application/json", strings.NewReader(request.body))
		require.NoError(t, err)
		receipts[request.name], err = io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Less(t, response.StatusCode, 300, "%s", receipts[request.name])
	}
	return receipts, key
}

// unprovedMembers lists the members of derivedReceipts that no proof covers.
var unprovedMembers = []string{"drift", "divergence", "path_id", "category", "validated", "conflicts", "unregistered_sources", "replayed"}

// If any byte of a receipt is changed, either verification fails or verify lists the changed member
// as not proved.
func TestEveryByteOfAServersReceiptCounts(t *testing.T) {
	receipts, key := derivedReceipts(t)
	verifier, err := proofs.ParseVerifier(key)
	require.NoError(t, err)
	covered := func(text []byte, r *proofs.Receipt) map[string]any {
		var members map[string]any
		require.NoError(t, json.Unmarshal(text, &members))
		maps.DeleteFunc(members, func(name string, _ any) bool { return slices.Contains(r.UncoveredMembers(), name) })
		return members
	}
	for name, text := range receipts {
		t.Run(name, func(t *testing.T) {
			whole, err := proofs.ParseReceipt(text)
			require.NoError(t, err)
			require.NoError(t, whole.Verify(verifier))
			for at := range text {
				changed := bytes.Clone(text)
				changed[at] ^= 1 << (at % 8)
				r, err := proofs.ParseReceipt(changed)
				if err != nil || r.Verify(verifier) != nil {
					continue
				}
				before, after := covered(text, whole), covered(changed, r)
				maps.DeleteFunc(before, func(name string, _ any) bool { return name == "incomplete" && after[name] == nil }) // the changed byte can be in the name "incomplete"
				require.Equal(t, before, after, "byte %d: %s", at, changed)
			}
		})
	}
}

// If a member of a receipt is dropped, added, duplicated, or forged, verify either rejects the
// receipt or lists the member as not proved.
func TestForgedMembersAreRefusedOrNamed(t *testing.T) {
	receipts, key := derivedReceipts(t)
	found := make(map[string]bool)
	for name, text := range receipts {
		t.Run(name, func(t *testing.T) {
			var members map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(text, &members))
			verifyChanged := func(change func(map[string]json.RawMessage)) (commandResult, map[string]any) {
				changed := maps.Clone(members)
				change(changed)
				forged, err := json.Marshal(changed)
				require.NoError(t, err)
				file := filepath.Join(t.TempDir(), "receipt.json")
				require.NoError(t, os.WriteFile(file, forged, 0o600))
				o := commandLine(t.Context(), "verify", file, "--key", key, "--json")
				var report map[string]any
				require.NoError(t, json.Unmarshal([]byte(o.stdout), &report))
				return o, report
			}
			for member := range members {
				optional := slices.Contains(unprovedMembers, member)
				found[member] = true
				forged := `{"forged":true}`
				if member == "replayed" {
					forged = `true`
				}
				o, report := verifyChanged(func(m map[string]json.RawMessage) { m[member] = json.RawMessage(forged) })
				if optional {
					require.Zero(t, o.code)
					require.Contains(t, report["not_proved"], member)
					require.NotContains(t, report["proved"], member)
				} else {
					require.NotZero(t, o.code, member)
					require.NotEmpty(t, report["detail"])
				}
				o, _ = verifyChanged(func(m map[string]json.RawMessage) { delete(m, member) })
				require.Equal(t, optional, o.code == 0, member)
				double := append([]byte(`{"`+member+`":`+string(members[member])+`,`), text[1:]...)
				require.Equal(t, 10, verifiedFile(t, double, key).code, member)
			}
			o, report := verifyChanged(func(m map[string]json.RawMessage) { m["x\n\x1b[2K"] = json.RawMessage("1") })
			require.Zero(t, o.code)
			require.Contains(t, report["not_proved"], "x\n\x1b[2K")
			plain := verifiedFile(t, append([]byte(`{"x\n\u001b[2K":1,`), text[1:]...), key)
			require.Zero(t, plain.code)
			require.Regexp(t, `(?m)^  NOT PROVED  .*"x\\n\\x1b\[2K".*: asserted only by the server$`, plain.stdout)
			require.Regexp(t, `(?m)^  proved      ledger, seq, kind, .*event, inclusion, checkpoint$`, plain.stdout)
		})
	}
	for _, member := range append(unprovedMembers, "incomplete", "shape", "failure_stage", "checkpoint") {
		require.True(t, found[member], member)
	}
}

// For nested proofs and audit packs, verify also lists what is not proved.
func TestNestedProofsAndPacksNameWhatIsNotProved(t *testing.T) {
	url, key := exportedServer(t)
	code, proof, stderr := colophon(url, "prove", "3", "--citation", "0")
	require.Zero(t, code, stderr)
	require.NotContains(t, verifiedFile(t, []byte(proof), key).stdout, "NOT PROVED")
	forged := strings.Replace(proof, `"receipt":{`, `"receipt":{"conflicts":[],`, 1)
	require.NotEqual(t, proof, forged)
	o := verifiedFile(t, []byte(forged), key)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, `NOT PROVED  "conflicts": asserted only by the server`)
	require.Equal(t, 10, verifiedFile(t, []byte(strings.Replace(proof, `{`, `{"extra":1,`, 1)), key).code)

	file := filepath.Join(t.TempDir(), "pack.html")
	code, _, stderr = colophon(url, "export", "--pack", file, "--run-id", "a")
	require.Zero(t, code, stderr)
	o = commandLine(t.Context(), "verify", file, "--key", key)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, `NOT PROVED  "exported", "verifier_keys", "content": asserted only by the pack's creator`)
}
