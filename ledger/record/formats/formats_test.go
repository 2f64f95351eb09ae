package formats

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
	"colophon/ledger/record/cpython"
	"colophon/ledger/record/pyjson"
)

func TestMain(m *testing.M) { os.Exit(cpython.Main(m)) }

var berlin = func() *Options {
	zone, err := ParseZone("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return &Options{DefaultZone: zone, Project: "story", Subject: "song", Limits: record.DefaultLimits()}
}()

// requireAccounted fails the test unless the conversions list each value inside native, or a value
// that contains it.
func requireAccounted(t require.TestingT, native []byte, conversions []Conversion) {
	noted := make(map[string]bool)
	for _, e := range conversions {
		for _, m := range e.MemberOutcomes {
			noted[m.Pointer] = true
			require.NotEmpty(t, m.Detail, m.Pointer)
		}
	}
	var d pyjson.Document
	require.NoError(t, d.Parse(native))
	var walk func(v pyjson.Value, pointer string)
	walk = func(v pyjson.Value, pointer string) {
		if noted[pointer] && pointer != "" || len(noted) == 1 && noted[""] {
			return
		}
		if inner, ok := jsonOf(v); ok && v.Kind() == pyjson.String {
			v = inner
		}
		require.GreaterOrEqual(t, v.Kind(), pyjson.Array, "%s is not accounted for in %s", pointer, native)
		i := 0
		for e := range v.Elements() {
			walk(e, pointer+"/"+strconv.Itoa(i))
			i++
		}
		for name, value := range v.Members() {
			walk(value, pointer+pointerTo(string(name.Text())))
		}
	}
	walk(d.Root(), "")
}

// TestNativeValuesOfCPython converts values that contain hashes computed by Python. Every claim in
// the resulting records must match.
func TestNativeValuesOfCPython(t *testing.T) {
	oracle := cpython.Start(t)
	checks := map[Format]map[record.CheckResult]int{}
	for _, f := range BatchFormats {
		seeds := make([]int, 300)
		for i := range seeds {
			seeds[i] = i
		}
		checks[f] = make(map[record.CheckResult]int)
		for _, native := range cpython.Ask[int, []byte](t, oracle, strings.ReplaceAll(string(f), "-", "_"), seeds) {
			conversions, err := f.Convert(native, *berlin)
			require.NoError(t, err)
			requireAccounted(t, native, conversions)
			for _, e := range conversions {
				if e.Record == nil {
					require.Equal(t, ValidationCache, f, e.FailureReason)
					continue
				}
				r, err := record.Parse(e.Kind, e.Record)
				require.NoError(t, err, "%s: %s", native, e.Record)
				require.Empty(t, r.Mismatches(), "%s: %s", native, e.Record)
				for _, c := range r.Checks {
					checks[f][c.Result]++
				}
				r.Release()
			}
		}
	}
	for f, counts := range checks {
		require.Greater(t, counts[record.ResultMatch], 300, f)
	}
	t.Log(checks)
}

// anyNative returns a random JSON object. Most of its member names are known to the formats. Some of
// its values have the right type, and others do not.
func anyNative(t *rapid.T, depth int) string {
	names := []string{
		"payload", "axes", "seed", "policy_hash", "world_id", "output", "model", "temperature", "max_tokens", "timestamp", "usage", "imported",
		"environment", "model_digest", "labels", "run_id", "input_hash", "metadata.json", "payload.json", "system_prompt.md", "output.md", "manifest", "files",
		"all_citations", "by_section", "chunk_hash", "source_id", "text", "weight", "section", "total_count", "source_ids", "subject",
		"route", "validated", "validated_by", "validated_at", "first_seen", "project", "a6122a65", "last_updated", "content",
		"run_dag_blob", "dag", "root", "nodes", "stage", "hash", "preflight_payload", "inputs", "sources", "n_quotes", "n_verified", "audit_mode",
		"verifier_method", "answer_text", "raw_text", "question_text", "question_hash", "conversation_hash", "context_root", "state", "reason", "hit_count",
		"cache_key", "cache_dimensions", "created_at", "unknown", "", "/", "labels/unknown", "ü",
	}
	values := []string{
		`null`, `true`, `false`, `0`, `-1`, `1.5`, `1e300`, `""`, `"x"`, `"\ud800"`, `"STRICT"`, `"stale"`, `"2025-11-12T18:53:35.4"`, `"2025-11-12 18:53:35"`,
		`"2025-13-45T18:53:35"`, `[]`, `{}`, `["a"]`, `"[{}]"`, `"{\"nodes\":[]}"`, `"Start → End"`, `[[]]`, `"` + strings.Repeat("long ", 40) + `"`,
		`"` + strings.Repeat("a", 64) + `"`, `"sha256:` + strings.Repeat("0", 64) + `"`, `{"label":"l","score":0.5}`, `[{"stage":"question","hash":"` + strings.Repeat("b", 64) + `"}]`,
	}
	var members []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 12, rapid.ID).Draw(t, "names") {
		value := rapid.SampledFrom(values).Draw(t, "value")
		if depth > 0 {
			switch rapid.IntRange(0, 4).Draw(t, "nested") {
			case 0:
				value = anyNative(t, depth-1)
			case 1:
				value = "[" + anyNative(t, depth-1) + "]"
			case 2:
				value = string(pyjson.AppendString(nil, []byte(anyNative(t, depth-1))))
			}
		}
		members = append(members, string(pyjson.AppendString(nil, []byte(name)))+":"+value)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// TestNothingIsDropped checks that every member of random native values is accounted for. The
// record must be JSON that the ledger either accepts or refuses for a reason other than an unknown
// member or a label.
func TestNothingIsDropped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		native := []byte(anyNative(t, 2))
		o := *berlin
		if rapid.Bool().Draw(t, "without zone") {
			o.DefaultZone = nil
		}
		for _, f := range BatchFormats {
			conversions, err := f.Convert(native, o)
			require.NoError(t, err)
			requireAccounted(t, native, conversions)
			again, err := f.Convert(native, o)
			require.NoError(t, err)
			require.Equal(t, conversions, again)
			for _, e := range conversions {
				if e.Record == nil {
					require.NotEmpty(t, e.FailureReason)
					continue
				}
				require.NoError(t, new(pyjson.Document).Parse(e.AppendBatchLine(nil)), "%s", native)
				if err := e.Check(o.Limits); err != nil {
					require.NotContains(t, err.Error(), "unknown member", "%s", native)
					require.NotContains(t, err.Error(), "label", "%s", native)
				}
			}
		}
	})
}
