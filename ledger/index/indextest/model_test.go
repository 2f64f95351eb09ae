package indextest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index/counters"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// countNaively returns the counters that an entry increments (spec: Metrics derived from the
// log), computed independently of the fold.
func countNaively(t tester, entry []byte) []string {
	t.Helper()
	var body struct {
		Kind   string
		Checks map[string]struct{ Result string }
		Record struct{ Reason string }
	}
	require.NoError(t, json.Unmarshal(entry[32:], &body))
	kind := body.Kind
	switch kind {
	case "record_refused":
		return []string{"colophon_ledger_refusals_total " + oneOf(body.Record.Reason, "mismatch", "idempotency_key_conflict")}
	case "ledger_created", "record_state_changed", "path_validated", "source_registered",
		"source_revoked", "content_redacted", "key_rotated", "note":
		return nil
	}
	kind = oneOf(kind, "ipc_record", "run_dag", "citation_set", "path_fingerprint")
	counted := []string{"colophon_ledger_records_total " + kind}
	for field, c := range body.Checks {
		if rule, is := strings.CutPrefix(field, "verdict:"); is && c.Result == "inconsistent" {
			counted = append(counted, "colophon_ledger_inconsistent_verdicts_total "+oneOf(rule, rules.VerdictRules[:]...))
			continue
		}
		result := oneOf(c.Result, "match", "mismatch", "computed", "claimed")
		counted = append(counted, fmt.Sprintf("colophon_ledger_hash_checks_total %s %s %s", kind, naiveField(field), result))
	}
	return counted
}

func oneOf(text string, known ...string) string {
	if slices.Contains(known, text) {
		return text
	}
	return "other"
}

func naiveField(name string) string {
	if stage, ok := strings.CutPrefix(name, "stage:"); ok {
		return "stage:" + oneOf(stage, "question", "preflight", "retrieval", "context", "evidence_map", "prompt", "answer",
			"raw_answer", "parsed_claim_lattice", "verify", "render", "final_label")
	}
	if strings.HasPrefix(name, "citations/") {
		return "chunk_hash"
	}
	if evidence, ok := strings.CutPrefix(name, "evidence/"); ok {
		_, name, _ = strings.Cut(evidence, "/")
	}
	return oneOf(name, "answer_text", "evidence_id", "text_hash", "input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced", "path_id",
		"content_fingerprint", "raw_content_fingerprint", "root", "cache_key", "source_root", "model_profile_hash",
		"dag.preflight_payload", "question_hash", "preflight_hash", "context_root", "evidence_map_root",
		"conversation_hash", "governance_policy_hash", "verifier_policy_hash", "cache_dimensions.question_hash",
		"cache_dimensions.conversation_hash", "cache_dimensions.governance_policy_hash",
		"cache_dimensions.verifier_policy_hash")
}

// named returns the nonzero counters in the format of countNaively. It leaves out the metrics that
// countNaively does not count.
func named(c counters.Counts) map[string]uint64 {
	counted := make(map[string]uint64)
	for s, n := range c {
		if n > 0 && (s.Metric <= counters.MetricRefusals || s.Metric == counters.MetricInconsistentVerdicts) {
			counted[strings.TrimSpace(counters.Metrics[s.Metric].Name+" "+strings.Join(s.Labels[:], " "))] = n
		}
	}
	return counted
}

var digits = rapid.StringMatching(`[0-9a-f]{64}`)

// claim returns, at random, either an empty string or a JSON member with the given name that claims
// a random hash, which never matches.
func claim(t *rapid.T, name string) string {
	if rapid.Bool().Draw(t, "claims "+name) {
		return fmt.Sprintf(`%q:%q,`, name, digits.Draw(t, name))
	}
	return ""
}

func drawIPC(t *rapid.T) string {
	output := ""
	if rapid.Bool().Draw(t, "complete") {
		output = `"output":"because",`
	}
	return "{" + output + claim(t, "output_hash") + claim(t, "ipc_id") +
		fmt.Sprintf(`"payload":{"seed":%d},"system_prompt":"be kind","model":"m","temperature":0,"max_tokens":9}`,
			rapid.IntRange(0, 3).Draw(t, "seed"))
}

func drawDAG(t *rapid.T) string {
	stage := rapid.SampledFrom([]string{"question", "preflight", "answer", "final_label", "my own", "answer"})
	var nodes []string
	for range rapid.IntRange(1, 5).Draw(t, "stages") {
		nodes = append(nodes, fmt.Sprintf(`{"stage":%q,"hash":%q}`, stage.Draw(t, "stage"), digits.Draw(t, "hash")))
	}
	if rapid.Bool().Draw(t, "built") {
		return drawInputs(t)
	}
	return fmt.Sprintf(`{"dag":{"root":%q,"nodes":[%s]},"question":"why?"%s}`, digits.Draw(t, "root"), strings.Join(nodes, ","), few(t, "answer", "", `,"answer_text":"because"`))
}

// drawInputs returns random inputs from which the ledger builds a run-DAG. The resulting verdict
// may break a rule.
func drawInputs(t *rapid.T) string {
	return fmt.Sprintf(`{"question":"why?","messages":[],"inputs":{"answer_text":"because","audit_mode":%q,"verifier_method":%q,"n_quotes":%d,"n_verified":%d,"sources":[%s],
		"parsed_lattice":[{"evidence_ids":[%q]}]},"evidence":[{"chunk_root":%q,"start":0,"end":1,"evidence_id":%q}]}`,
		few(t, "mode", "STRICT", "HYBRID"), few(t, "method", "quote", "span"), rapid.IntRange(0, 2).Draw(t, "quotes"), rapid.IntRange(0, 2).Draw(t, "verified"),
		few(t, "sources", "", `{"document_root":"`+zeros+`"}`, `{"document_root":"`+zeros+`"},{"document_root":"d2"}`), few(t, "cited", "E00000001", "E2"), zeros, few(t, "claimed id", "E1", "E3"))
}

func drawCitations(t *rapid.T) string {
	var citations []string
	for range rapid.IntRange(0, 12).Draw(t, "citations") {
		hash := ""
		if rapid.Bool().Draw(t, "claims chunk") {
			hash = `"chunk_hash":"sha256:` + digits.Draw(t, "chunk") + `",`
		}
		citations = append(citations, "{"+hash+`"source_id":"s","text":"words","weight":1}`)
	}
	return `{"subject":"s","citations":[` + strings.Join(citations, ",") + `]}`
}

func drawPath(t *rapid.T) string {
	return fmt.Sprintf(`{"project":"p","route":["a","b"],"content":"c","path_id":"%08x"}`, rapid.Uint32().Draw(t, "path_id"))
}

var drawRecord = map[record.Kind]func(*rapid.T) string{
	record.KindIPCRecord: drawIPC, record.KindRunDAG: drawDAG, record.KindCitationSet: drawCitations, record.KindPathFingerprint: drawPath,
}

// drawBody returns the body of a random event. The event may have a kind or checks that this build
// does not know, as if a later build had written it.
func drawBody(t *rapid.T) string {
	kind := rapid.SampledFrom(record.RecordKinds[:]).Draw(t, "kind")
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		return string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil))
	case 1:
		return refused(t, kind, drawRecord[kind](t), record.RefusalMismatch)
	case 2:
		return refused(t, kind, drawRecord[kind](t), record.RefusalKeyConflict)
	case 3:
		return rawBody(rapid.SampledFrom([]string{"source_registered", "poem", "other", "record_refused"}).Draw(t, "foreign kind"),
			`{"input_hash":{"result":"maybe"},"metre":{"result":"match"},"other":{}}`, `{"reason":"taste"}`)
	}
	return posted(t, kind, drawRecord[kind](t))
}

// After any series of commits, restarts, and power failures, and with batches of any size, the
// index agrees with the naive model. Key by key, it equals the index of one uninterrupted fold.
func TestFoldEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := vfs.NewCrashableMem()
		c := testConfig(files)
		c.MaxBatchEvents = rapid.IntRange(1, 9).Draw(t, "batch")
		c.MaxBatchBytes = rapid.IntRange(1, 4000).Draw(t, "bytes")
		log := newJournal(t, "default")
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { log.drawEvents(t, 20) },
			"flush":  func(t *rapid.T) { require.NoError(t, s.RowStore().DB().Flush()) },
			"wake":   func(*rapid.T) { log.catchUp(f) },
			"restart": func(t *rapid.T) {
				require.NoError(t, s.Close())
				s = openTest(t, c)
				f = follow(t, s, log)
			},
			"crash": func(t *rapid.T) {
				f.Wake()
				seed := rapid.Uint64().Draw(t, "seed")
				left := files.CrashClone(vfs.CrashCloneCfg{
					UnsyncedDataPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "kept percent"),
					RNG:                 rand.New(rand.NewPCG(seed, seed)),
				})
				require.NoError(t, s.Close())
				files, c.RowStore.FS = left, left
				s = openTest(t, c)
				f = follow(t, s, log)
			},
			"": func(*rapid.T) { log.check(f) },
		})
		log.catchUp(f)
		require.Equal(t, log.head.Size, f.Size())
		log.check(f)
		if log.head.Size > 0 {
			requireSame(t, log.refold(), dump(t, s))
		}
	})
}
