package audit

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// Of a run whose versions are too long for its event, all is made anew but the cache key
// and the digest.
func TestRunsWithUnknownWords(t *testing.T) {
	digits := strings.Repeat("0", 64)
	dimensions := ""
	for _, name := range []string{"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash"} {
		dimensions += fmt.Sprintf(`"%s":"%s",`, name, digits)
	}
	for _, claim := range []string{"", `,"cache_key":"` + digits + `"`} {
		posted := `{"question":"x","messages":[],"source_roots":["` + digits + `"],"inputs":{"answer_text":"TRUE ANSWER","audit_mode":"STRICT","verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[]},` +
			`"cache_dimensions":{` + dimensions + `"canonicalization_version":"1","chunking_version":"1","schema_version":"` + strings.Repeat("x", 2000) + `"}` + claim + `}`
		body, contents := eventOf(t, record.RunDAG, []byte(posted))
		d, err := judge(body, contents)
		require.NoError(t, err)
		require.Equal(t, [3]uint64{1, 0, 1}, [3]uint64{d.Derived, d.Confirmed, d.Unknown})

		var event pyjson.Document
		require.NoError(t, event.Parse(body))
		key := string(event.Root().Member("record").Member("hashes").Member("cache_key").Text())
		answer := fmt.Sprintf("%x", sha256.Sum256([]byte("TRUE ANSWER")))
		for name, lie := range map[string][2]string{
			"answer":          {answer, fmt.Sprintf("%x", sha256.Sum256([]byte("A LIE")))},
			"root":            {`"root":"`, `"root":"0`},
			"version":         {`"chunking_version":"1"`, `"chunking_version":2`},
			"hash":            {`"source_root":"` + digits + `"},"content`, `"source_root":null},"content`},
			"cache key":       {`"cache_key":"` + key, `"cache_key":"` + key[1:]},
			"no cache key":    {`"cache_key":"` + key + `",`, ``},
			"check of it":     {`"cache_key":{`, `"cache_key":{"more":1,`},
			"no check of it":  {`"checks":{"cache_key"`, `"checks":{"cache"`},
			"result of it":    {`"result":`, `"result":"claimed","was":`},
			"another verdict": {`"audit_mode":"STRICT"`, `"audit_mode":"HYBRID"`},
		} {
			require.Contains(t, string(body), lie[0], name)
			lied := bytes.Replace(body, []byte(lie[0]), []byte(lie[1]), 1)
			err := NewDeriver().Check(7, lied, func(_ string, digest proofs.Hash) ([]byte, error) { return contents[digest], nil })
			require.ErrorAs(t, err, new(*Damage), name)
		}
	}
}

// The search for the way in which a record was posted is bounded by the size of the
// record, however its writer has mixed nulls with members that are left out, and however
// many checks may lie. The record after it is searched for again.
func TestSearchIsBounded(t *testing.T) {
	var citations []string
	for i := range 60 {
		null := ""
		if i%3 == 1 { // no way of a service that makes all citations alike
			null = `,"section":null`
		}
		citations = append(citations, fmt.Sprintf(`{"source_id":"s","text":"%d %s","weight":1%s}`, i, strings.Repeat("x", 4000), null))
	}
	body, contents := eventOf(t, record.CitationSet, []byte(`{"subject":"s","citations":[`+strings.Join(citations, ",")+`]}`))
	read := func(_ string, digest proofs.Hash) ([]byte, error) { return contents[digest], nil }
	d := NewDeriver()
	d.allowance = 0
	for range 3 {
		require.NoError(t, d.Check(7, body, read))
		require.Zero(t, d.Confirmed)
		require.Greater(t, d.allowance, -2*len(d.posted), "about as much is hashed as the record may cost")
	}
	plain, pieces := eventOf(t, record.IPCRecord, []byte(`{"payload":{},"output":"x","model":"m","temperature":0.5,"max_tokens":9}`))
	require.NoError(t, d.Check(7, plain, func(_ string, digest proofs.Hash) ([]byte, error) { return pieces[digest], nil }))
	require.EqualValues(t, 1, d.Confirmed)
}
