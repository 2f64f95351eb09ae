package recompute

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

// If versions are too long for the event of a run, the run can be rebuilt except for its cache key
// and digest. Changes to the event are still detected.
func TestRunsWithUnknownTexts(t *testing.T) {
	digits := strings.Repeat("0", 64)
	dimensions := ""
	for _, name := range []string{"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash"} {
		dimensions += fmt.Sprintf(`"%s":"%s",`, name, digits)
	}
	for _, claim := range []string{"", `,"cache_key":"` + digits + `"`} {
		posted := `{"question":"x","messages":[],"source_roots":["` + digits + `"],"inputs":{"answer_text":"TRUE ANSWER","audit_mode":"STRICT","verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[]},` +
			`"cache_dimensions":{` + dimensions + `"canonicalization_version":"1","chunking_version":"1","schema_version":"` + strings.Repeat("x", 2000) + `"}` + claim + `}`
		body, contents := eventOf(t, record.KindRunDAG, []byte(posted))
		b, err := checkEvent(body, contents)
		require.NoError(t, err)
		require.Equal(t, [3]uint64{1, 0, 1}, [3]uint64{b.RebuiltRecords, b.ConfirmedRecords, b.UnconfirmableRecords})

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
			err := new(Rebuilder).Check(lied, func(_ string, digest proofs.Hash) ([]byte, error) { return contents[digest], nil })
			require.ErrorAs(t, err, new(*Error), name)
		}
	}
}

// Content with more JSON values than any server accepts is damage. It is not parsed to its end, because that could
// take gigabytes of memory.
func TestDenseContentIsDamage(t *testing.T) {
	dense := []byte("[" + strings.Repeat("0,", record.MaxValues) + "0]")
	for kind, posted := range map[record.Kind]string{
		record.KindIPCRecord: `{"payload":{},"model":"m","temperature":0,"max_tokens":1}`,
		record.KindRunDAG:    `{"messages":[],"answer_text":"a","dag":{"root":"` + strings.Repeat("0", 64) + `","nodes":[{"stage":"answer","hash":"` + strings.Repeat("0", 64) + `"}]}}`,
	} {
		body, contents := eventOf(t, kind, []byte(posted))
		damage := new(Error)
		err := new(Rebuilder).Check(body, func(name string, digest proofs.Hash) ([]byte, error) {
			if name == "payload" || name == "messages" {
				return dense, nil
			}
			return contents[digest], nil
		})
		require.ErrorAs(t, err, &damage)
		require.Equal(t, "content", damage.Field)
		require.ErrorContains(t, err, "cannot be parsed")
	}
}
