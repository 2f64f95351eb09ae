package pack

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
)

func TestPacksVerify(t *testing.T) {
	l := example(t)
	all := examplePack(t)
	parsed, own, err := Parse(page(t, all))
	require.NoError(t, err)
	require.True(t, own)
	require.Equal(t, all, parsed)
	report, err := parsed.Verify(l.signer.Verifier())
	require.NoError(t, err)
	require.Equal(t, Report{Checkpoint: report.Checkpoint, Events: 13, Links: 13, ContentCount: 11, RedactedRecords: 1, RecomputedRecords: 5, ClaimedChecks: 4}, report)
	require.Equal(t, uint64(13), report.Checkpoint.Size)

	l.contents = nil
	without := l.pack(map[uint64]uint64{6: 7}, 1, 6, 7)
	report, err = without.Verify(l.signer.Verifier())
	require.NoError(t, err)
	require.Equal(t, Report{Checkpoint: report.Checkpoint, Events: 3, Links: 1, RedactedRecords: 1, MissingContentCount: 3}, report)
}

// Pack.Add builds the same pack from receipts as the test's own function log.pack.
func TestPackOfReceipts(t *testing.T) {
	l := example(t)
	want := l.pack(map[uint64]uint64{6: 7}, 6, 7)
	p := New("default", want.ExportedAt, want.VerifierKeys, []byte(want.Checkpoint))
	for _, seq := range []uint64{6, 7} {
		r, err := proofs.NewReceipt(l.entries[seq])
		require.NoError(t, err)
		r.Proof = &proofs.ReceiptProof{Event: l.entries[seq][proofs.HashSize:], Inclusion: proofs.InclusionProof{Hashes: path(l.leaves(), int(seq))}}
		by := uint64(7)
		redacted := &by
		if seq == 7 {
			redacted = nil
		}
		p.Add(r, redacted)
	}
	require.Equal(t, want, p)
}

func TestTamperedPacksAreRefused(t *testing.T) {
	key := example(t).signer.Verifier()
	for name, c := range tamperings(t) {
		t.Run(name, func(t *testing.T) {
			parsed, own, err := Parse(page(t, c.pack))
			require.NoError(t, err)
			require.True(t, own)
			_, err = parsed.Verify(key)
			require.ErrorIs(t, err, c.err)
		})
	}
	for name, pack := range falseHashes(t) {
		_, err := pack.Verify(key)
		require.ErrorIs(t, err, ErrHashMismatch, name)
	}
	// A record can name the same piece of content so often that rebuilding it would need gigabytes.
	large := newLog(t, 1)
	citation := `{"source_id":"x","text":"` + strings.Repeat("word ", maxRecordContent/10+1) + `","weight":1}`
	large.record(record.KindCitationSet, `{"subject":"s","citations":[`+citation+`,`+citation+`]}`)
	_, err := large.pack(nil, 1).Verify(key)
	require.ErrorContains(t, err, "the content has more than 67108864 bytes in total")
	// Verify detects a changed label, because the record's digest covers the labels. The page does not
	// recompute them.
	l := example(t)
	l.entries[1] = bytes.Replace(l.entries[1], []byte(`"user":"ann"`), []byte(`"user":"bob"`), 1)
	_, err = l.pack(nil, 1).Verify(key)
	require.ErrorIs(t, err, ErrHashMismatch)
}

// allSorts returns a log with records of many shapes. Some of their claims cannot be checked.
// recomputable is the number of records whose hashes can be recomputed.
func allSorts(t testing.TB) (l *log, recomputable int) {
	l = newLog(t, 1)
	claim := `"` + strings.Repeat("ab", 32) + `"`
	versions := `"source_root":` + claim + `,"question_hash":` + claim + `,"model_profile_hash":` + claim + `,"conversation_hash":` + claim + `,"governance_policy_hash":` + claim +
		`,"canonicalization_version":"1","chunking_version":"1"`
	dag := `"dag":{"root":` + claim + `,"nodes":[{"stage":"question","hash":` + claim + `},{"stage":"answer","hash":` + claim + `}]}`
	for kind, list := range map[record.Kind][]string{
		record.KindIPCRecord: {
			`{"payload":{"seed":1},"model":"m","temperature":1e16,"max_tokens":1,"ipc_id":` + claim + `,"ipc_id_advanced":` + claim + `}`,
			`{"input_hash":` + claim + `,"system_prompt_hash":` + claim + `,"output_hash":` + claim + `,"model":"m","temperature":0.1,"max_tokens":1,"ipc_id":` + claim + `}`,
			`{"input_hash":` + claim + `,"system_prompt_hash":` + claim + `,"output":"x","model":"m","temperature":0.1,"max_tokens":1,"seed":2,"ipc_id":` + claim + `}`,
			`{"payload_schema":"axis-payload-1","payload":{"axes":{"a":{"label":" b ","score":1}},"policy_hash":"p","seed":3,"world_id":"w"},"output":"","model":"m","temperature":0,"max_tokens":1}`,
			`{"payload":{},"output":"x","model":"m","temperature":0,"max_tokens":1,"usage":{"note":"free text"}}`,
		},
		record.KindRunDAG: {
			`{` + dag + `}`, `{` + dag + `,"answer_text":"a \ud800","question":"\udc00?","question_mode":"strict","cache_key":` + claim + `}`,
			`{` + dag + `,"policy":{},"cache_dimensions":{` + versions + `,"schema_version":"1"},"cache_key":` + claim + `}`,
			`{"question_mode":"strict","question":"x","reject_inputs":{"preflight_payload":{},"rejection_reason":"r"}}`,
			`{"evidence":[{"chunk_root":` + claim + `,"start":0,"end":1}],"inputs":{"question_hash":` + claim + `,"conversation_hash":` + claim +
				`,"answer_text":"a","rendered_text":"b","audit_mode":"X","verifier_method":"v","n_quotes":0,"n_verified":0,"sources":[]}}`,
		},
		record.KindCitationSet:     {twoCitations(claim[1 : len(claim)-1])},
		record.KindPathFingerprint: {`{"project":"p","route":["a"],"path_id":"0000000000000000","content":"x"}`, `{"project":"p","build":"b","route":["a"],"content_fingerprint":"01234567"}`},
	} {
		for _, posted := range list {
			l.record(kind, posted)
		}
	}
	// This schema version is too long for the event, so a hash that covers it cannot be recomputed. The
	// other hashes can be.
	l.record(record.KindRunDAG, `{`+dag+`,"answer_text":"a","cache_dimensions":{`+versions+`,"schema_version":"`+strings.Repeat("x", 2000)+`"}}`)
	recomputable = len(l.entries) - 1
	return l, recomputable
}

func TestRecordsAreRecomputed(t *testing.T) {
	l, recomputable := allSorts(t)
	report, err := l.pack(nil, l.all()...).Verify(l.signer.Verifier())
	require.NoError(t, err)
	require.Equal(t, recomputable, report.RecomputedRecords)
	require.Equal(t, 1, report.UnconfirmableRecords)
	require.Zero(t, report.MissingContentCount)
}

// A report counts the claims that cannot be checked with the content in the pack. A wrong claim
// about the answer is a mismatch in the event, so it is not counted.
func TestClaimsAreCounted(t *testing.T) {
	claim := `"` + strings.Repeat("ab", 32) + `"`
	l := newLog(t, 1)
	l.record(record.KindRunDAG, `{"dag":{"root":`+claim+`,"nodes":[{"stage":"raw_answer","hash":`+claim+`},{"stage":"render","hash":`+claim+`}]},"answer_text":"tampered"}`)
	report, err := l.pack(nil, l.all()...).Verify(l.signer.Verifier())
	require.NoError(t, err)
	require.Equal(t, 1, report.RecomputedRecords)
	require.Equal(t, 1, report.ClaimedChecks, "raw_answer")
	require.Contains(t, string(l.entries[1]), `"stage:render":{"claimed":`)
	l.record(record.KindRunDAG, `{"dag":{"root":`+claim+`,"nodes":[{"stage":"mine","hash":`+claim+`}]},"answer_text":"a"}`)
	report, err = l.pack(nil, l.all()...).Verify(l.signer.Verifier())
	require.NoError(t, err)
	require.Equal(t, 3, report.ClaimedChecks, "includes the stage and the answer that no stage covers")
}

// twoCitations returns a citation set with two citations, as JSON. The first has a text and a false
// claim of its hash. The second has only a claim. digits is the claimed hash in hexadecimal.
func twoCitations(digits string) string {
	return `{"subject":"s","citations":[{"source_id":"x","text":"t","chunk_hash":"sha256:` + digits + `","weight":0},{"source_id":"y","chunk_hash":"sha256:` + digits + `","weight":1,"section":""}]}`
}

// damagedPages returns pages whose data is not a valid pack, keyed by what is wrong with them.
func damagedPages(t testing.TB) map[string][]byte {
	good := string(page(t, examplePack(t)))
	pages := make(map[string][]byte)
	for name, damage := range map[string][2]string{
		"cut short":         {`"records":[`, `</script>`},
		"no data":           {`{"format"`, `null;{"format"`},
		"another version":   {`audit-pack@1`, `audit-pack@2`},
		"no list":           {`"records":[`, `"records":7,"r":[`},
		"no path":           {`"inclusion":[`, `"inclusion":"`},
		"null record":       {`"records":[`, `"records":[null,`},
		"seq as text":       {`"seq":0`, `"seq":"0"`},
		"entry as a number": {`"entry":"`, `"entry":1,"e":"`},
		"bad base64":        {`"entry":"`, `"entry":"*`},
		"hash as a number":  {`"inclusion":["`, `"inclusion":[1,"`},
		"keys as text":      {`"verifier_keys":[`, `"verifier_keys":"k","v":[`},
		"contents as text":  {`"contents":{`, `"contents":"c","d":{`},
		"checkpoint gone":   {`"checkpoint"`, `"point"`},
		"names a prototype": {`"contents":{`, `"contents":{"__proto__":"AAAA",`},
	} {
		require.Contains(t, good, damage[0])
		pages[name] = []byte(strings.Replace(good, damage[0], damage[1], 1))
	}
	return pages
}

// misspellings are changes to the data of a page that two programs could read differently. Verify
// and the page refuse them, even if they are harmless.
var misspellings = map[string][2]string{
	"white space":  {`"records":[`, `"records": [`},
	"member twice": {`"records":[`, `"records":[],"records":[`},
	"escaped":      {`"ledger":"d`, `"ledger":"\u0064`},
}

func TestDamagedDataIsRefused(t *testing.T) {
	for name, html := range damagedPages(t) {
		_, _, err := Parse(html)
		require.ErrorIs(t, err, proofs.ErrMalformed, name)
	}
	good := string(page(t, examplePack(t)))
	changes := map[string][2]string{
		"other case":         {`"records":[`, `"Records":[`},
		"unknown member":     {`"records":[`, `"mood":1,"records":[`},
		"null list":          {`"records":[`, `"records":null,"x":[`},
		"no pack":            {dataBegin, `<script type="application/json">`},
		"no page":            {"<!doctype html>", "<!DOCTYPE html>"},
		"no end of the data": {dataEnd, `</scrip`},
	}
	maps.Copy(changes, misspellings)
	for name, change := range changes {
		text := strings.ReplaceAll(good, change[0], change[1])
		require.NotEqual(t, good, text, name)
		_, _, err := Parse([]byte(text))
		require.ErrorIs(t, err, proofs.ErrMalformed, name)
	}
}

func TestChangedPagesAreNotOwn(t *testing.T) {
	html := string(page(t, examplePack(t)))
	for name, change := range map[string][2]string{
		"another program": {`"use strict"`, `"use sloppy"`},
		"another style":   {"<style>", "<style>body{}"},
		"more behind":     {"</html>\n", "</html>\n<!-- -->"},
	} {
		require.Contains(t, html, change[0])
		_, own, err := Parse([]byte(strings.Replace(html, change[0], change[1], 1)))
		require.NoError(t, err, name)
		require.False(t, own, name)
	}
}

// An HTML parser reads a pack's data as a single text, which a JSON parser can decode.
func TestDataIsSafeInAScript(t *testing.T) {
	all := examplePack(t)
	all.ExportedAt = strings.Join(hostileTexts, "")
	data, err := all.encode()
	require.NoError(t, err)
	require.False(t, bytes.ContainsAny(data, "<>&\u2028\u2029"))
	var read Pack
	require.NoError(t, json.Unmarshal(data, &read))
	require.Equal(t, all.ExportedAt, read.ExportedAt)
	before, after := pageAround()
	require.NotContains(t, before+after, "{{")
	require.Equal(t, 2, strings.Count(strings.ToLower(before+after), "</script"))
	require.NotContains(t, before+after, "://", "the page names no addresses")
}

func FuzzParse(f *testing.F) {
	l := newLog(f, 1)
	records := l.pack(nil, 0).Events
	f.Add(page(f, l.pack(nil, 0)))
	f.Add([]byte("<!doctype html>" + dataBegin + "{}" + dataEnd))
	key := l.signer.Verifier()
	f.Fuzz(func(t *testing.T, html []byte) {
		p, own, err := Parse(html)
		if err != nil {
			require.ErrorIs(t, err, proofs.ErrMalformed)
			return
		}
		if own {
			require.Equal(t, string(html), string(page(t, p)))
		}
		if _, err := p.Verify(key); err == nil {
			require.Equal(t, records, p.Events, "a pack with other records must not verify")
		}
	})
}
