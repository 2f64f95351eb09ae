package colophon_test

import (
	"bytes" // #nosec G501 -- path ids are MD5 by definition (spec: Path fingerprints)
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

var updateExamples = flag.Bool("update", false, "rewrite the examples in docs/spec")

// example is a fenced block in docs/spec that consists of lines of the form "key = value".
type example struct {
	t      *testing.T
	all    map[string]*example // all examples, keyed by name
	keys   []string            // in order of appearance
	values map[string]string
	set    map[string]bool // keys whose values the code has computed
}

var (
	exampleBlock = regexp.MustCompile("(?ms)^```example ([a-z-]+)\n(.*?)^```$")
	exampleLine  = regexp.MustCompile(`^(.*?\S) *= (.*)$`)
)

// parseExample parses the lines of a block. A line that begins with two spaces continues the
// previous one.
func parseExample(t *testing.T, text string) *example {
	e := &example{t: t, values: make(map[string]string), set: make(map[string]bool)}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "  "); ok {
			e.values[e.keys[len(e.keys)-1]] += rest
			continue
		}
		m := exampleLine.FindStringSubmatch(line)
		require.NotNil(t, m, "line %q", line)
		e.keys = append(e.keys, m[1])
		e.values[m[1]] = m[2]
	}
	return e
}

// exampleWidth is the width in characters at which String breaks long lines.
const exampleWidth = 130

// String formats the block as it appears in docs/spec.
func (e *example) String() string {
	var b strings.Builder
	width := 0
	for _, key := range e.keys {
		width = max(width, len([]rune(key)))
	}
	for _, key := range e.keys {
		line := []rune(fmt.Sprintf("%-*s = %s", width, key, e.values[key]))
		for len(line) > exampleWidth {
			cut := exampleWidth
			for at := cut; at > exampleWidth/2; at-- { // break the line after an element, if possible
				if line[at-1] == ',' && line[at] != ' ' {
					cut = at
					break
				}
			}
			for line[cut-1] == ' ' || line[cut] == ' ' {
				cut-- // a space at the end of a line would be lost
			}
			b.WriteString(string(line[:cut]) + "\n")
			line = append([]rune("  "), line[cut:]...)
		}
		b.WriteString(string(line) + "\n")
	}
	return b.String()
}

func (e *example) value(key string) string {
	v, ok := e.values[key]
	require.True(e.t, ok, "the example has no %q", key)
	return v
}

// text decodes a value that is a JSON string.
func (e *example) text(key string) string {
	var document pyjson.Document
	require.NoError(e.t, document.Parse([]byte(e.value(key))))
	require.Equal(e.t, pyjson.String, document.Root().Kind(), key)
	return string(document.Root().Text())
}

func (e *example) decode(key string, into any) {
	require.NoError(e.t, json.Unmarshal([]byte(e.value(key)), into), key)
}

func (e *example) hexBytes(key string) []byte {
	b, err := hex.DecodeString(e.value(key))
	require.NoError(e.t, err)
	return b
}

// computed records that the code computed value for key, and requires the example to state the same
// value. With -update, it first writes value into the example.
func (e *example) computed(key, value string) {
	e.value(key)
	e.set[key] = true
	if *updateExamples {
		e.values[key] = value
	}
	require.Equal(e.t, value, e.values[key], key)
}

func (e *example) computedText(key, value string) {
	e.computed(key, string(pyjson.AppendString(nil, []byte(value))))
}

// Every example in docs/spec has the values that the code computes.
func TestSpecExamples(t *testing.T) {
	files, err := filepath.Glob("docs/spec/*.md")
	require.NoError(t, err)
	all := make(map[string]*example)
	texts := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[file] = string(text)
		for _, m := range exampleBlock.FindAllStringSubmatch(string(text), -1) {
			require.NotContains(t, all, m[1], "two examples have the same name")
			all[m[1]] = parseExample(t, m[2])
			all[m[1]].all = all
		}
		require.Len(t, exampleBlock.FindAllString(string(text), -1), strings.Count(string(text), "\n```example "), file)
	}
	require.Len(t, specExamples, len(all), "each example must have a function, and each function an example")
	for _, one := range specExamples { // in order, because some examples depend on earlier ones
		e := all[one.name]
		require.NotNil(t, e, "docs/spec has no example %s", one.name)
		t.Run(one.name, func(t *testing.T) {
			e.t = t
			one.compute(e)
			require.NotEmpty(t, e.set)
		})
	}
	for file, text := range texts {
		again := exampleBlock.ReplaceAllStringFunc(text, func(block string) string {
			m := exampleBlock.FindStringSubmatch(block)
			return "```example " + m[1] + "\n" + all[m[1]].String() + "```"
		})
		if *updateExamples && again != text {
			require.NoError(t, os.WriteFile(file, []byte(again), 0o600))
			text = again
		}
		require.Equal(t, again, text, "%s: run go test -run TestSpecExamples -update .", file)
	}
}

var specExamples = []struct {
	name    string
	compute func(*example)
}{
	{"lone-surrogate", exampleLoneSurrogate}, {"canonical-json", exampleCanonicalJSON}, {"numbers", exampleNumbers},
	{"question-forms", exampleQuestionForms},
	{"ipc", exampleIPC}, {"seedless", exampleSeedless}, {"axis-payload", exampleAxisPayload}, {"run-tree", exampleRunTree}, {"stages", exampleStages},
	{"rejected", exampleRejected}, {"preflight", examplePreflight}, {"preflight-legacy", examplePreflightLegacy}, {"question", exampleQuestion}, {"other-roots", exampleOtherRoots}, {"cache-key", exampleCacheKey},
	{"chunk", exampleChunk}, {"citations-document", exampleCitationsDocument}, {"pinned-retrieval", examplePinnedRetrieval}, {"path-id", examplePathID}, {"fingerprints", exampleFingerprints},
	{"event", exampleEvent}, {"payload-members", exampleMembers}, {"idempotency", exampleIdempotency}, {"state-change", exampleStateChange}, {"note", exampleNote}, {"seqs", exampleSeqs},
	{"chain", exampleChain}, {"tree", exampleTree}, {"bundle", exampleBundle}, {"key", exampleKey}, {"checkpoint", exampleCheckpoint},
	{"handover", exampleHandover}, {"proofs", exampleProofs}, {"receipt", exampleReceipt}, {"tlog-proof", exampleTlogProof}, {"stage-path", exampleStagePath},
	{"group", exampleGroup}, {"causes", exampleCauses}, {"evidence", exampleEvidence}, {"effects", exampleEffects}, {"run-groups", exampleRunGroups}, {"stage-comparison", exampleStageComparison},
	{"citation-drift", exampleCitationDrift}, {"stale", exampleStale}, {"path-categories", examplePathCategories}, {"path-validation", examplePathValidation},
}

// postedRecord holds what the ledger computes for a record.
type postedRecord struct {
	Checks map[string]map[string]any
	Hashes map[string]*string
	Record struct {
		Digest string
		Nodes  []struct{ Hash, Stage string }
	}
}

func (e *example) post(kind record.Kind, body string) (p postedRecord) {
	r, err := record.Parse(kind, []byte(body))
	require.NoError(e.t, err)
	defer r.Release()
	require.NoError(e.t, json.Unmarshal(r.AppendComputedJSON(nil), &p))
	return p
}

// effective returns the effective hash that the ledger computes for a record under the given name.
func (e *example) effective(kind record.Kind, body, name string) string {
	hash := e.post(kind, body).Hashes[name]
	require.NotNil(e.t, hash, name)
	return *hash
}

var (
	heading       = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	codeBlock     = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	specReference = regexp.MustCompile(`\(spec: ([^()]*)\)`)
)

func withoutCode(text []byte) string { return codeBlock.ReplaceAllString(string(text), "") }

// specHeadings returns the titles of all headings in a document.
func specHeadings(t *testing.T, file string) (titles []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, m := range heading.FindAllStringSubmatch(withoutCode(text), -1) {
		titles = append(titles, m[1])
	}
	return titles
}

// specReferences returns the headings that the comments of a Go file cite in the form (spec:
// Canonical JSON; Numbers).
func specReferences(t *testing.T, file string) (titles []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, group := range parsed.Comments {
		var words []string
		for _, line := range group.List {
			words = append(words, strings.Fields(strings.TrimPrefix(line.Text, "//"))...)
		}
		for _, m := range specReference.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			titles = append(titles, strings.Split(m[1], "; ")...)
		}
	}
	return titles
}

// Every reference from a comment to docs/spec names an existing heading.
func TestCommentsReferToSpecHeadings(t *testing.T) {
	files, err := filepath.Glob("docs/spec/*.md")
	require.NoError(t, err)
	where := make(map[string]string)
	for _, file := range files {
		for _, title := range specHeadings(t, file) {
			require.NotContains(t, title, ";", file)
			require.Empty(t, where[title], "%s: the heading %q occurs in two places", file, title)
			where[title] = file
		}
	}
	referred := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		for _, title := range specReferences(t, path) {
			referred++
			require.NotEmpty(t, where[title], "%s refers to (spec: %s), but docs/spec has no such heading", path, title)
		}
		return nil
	}))
	require.Positive(t, referred)
}

// The Python programs in docs/spec share no code with this module. They reproduce the test vectors
// and the examples, and verify a log and a receipt.
func TestSpecProgramsAgree(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	s := newServer(t)
	s.postRun(map[string]any{"run_id": "a", "output_hash": zeroHash})
	s.postRun(map[string]any{"seed": nil, "usage": map[string]any{"tokens": 5}})
	s.ask(http.MethodPost, "/records/1/state", map[string]any{"state": "failed", "reason": "wrong"}, new(any))
	s.ask(http.MethodPost, "/records/2/state", map[string]any{"state": "stale", "reason": "r", "original_actor": "Ana Vargá", "timestamp": "2025-11-30T12:00:00Z"}, new(any))
	s.ask(http.MethodPost, "/records/1/notes", map[string]any{"topic": "review", "text": "Good.", "original_actor": "ana"}, new(any))
	s.ask(http.MethodPost, "/keys", map[string]any{"step": "rotate"}, new(any))
	s.ask(http.MethodDelete, "/records/1/content", map[string]any{"reason": "asked for"}, new(any))
	s.ask(http.MethodPost, "/run-dags", json.RawMessage(`{"question":"q",`+minimalInputs), new(any))
	s.ask(http.MethodPost, "/path-fingerprints", map[string]any{"project": "p", "route": []string{"Start"}, "build": "b1", "content": "A door."}, new(any))
	for _, validation := range []map[string]any{{"build": "b1"}, {"content_fingerprint": md5Digits("A door.")}, {}} {
		validation["validated"] = true
		s.ask(http.MethodPut, "/paths/p/"+md5Digits("Start")+"/validation", validation, new(any))
	}
	folder := t.TempDir()
	for file, path := range map[string]string{"log.ndjson": "/events", "checkpoint": "/log/checkpoint", "key.json": "/log/key",
		"receipt.json": "/records/1/receipt", "incomplete.json": "/records/2/receipt"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), s.get(path), 0o600))
	}
	keys, err := proofs.ParseKeyHistory(s.get("/log/key"))
	require.NoError(t, err)
	key, before := keys.CurrentKey().String(), keys.OverlappingKey().String()
	run := func(program string, arguments ...string) (string, error) {
		command := exec.Command(python, append([]string{"docs/spec/" + program}, arguments...)...)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	for _, arguments := range [][]string{
		{"hashes.py", "vectors", "testdata/vectors"},
		{"hashes.py", "examples", "docs/spec"},
		{"verify_log.py", "log", folder + "/log.ndjson", "--checkpoint", folder + "/checkpoint", "--key", before},
		{"verify_log.py", "receipt", folder + "/receipt.json", "--key", key},
		{"verify_log.py", "receipt", folder + "/incomplete.json", "--key", key},
	} {
		out, err := run(arguments[0], arguments[1:]...)
		require.NoError(t, err, "%s: %s", arguments, out)
	}

	receipt := string(s.get("/records/2/receipt"))
	for name, changed := range map[string]string{
		"absent":         strings.Replace(receipt, `"incomplete":["seed"],`, "", 1),
		"wrong":          strings.Replace(receipt, `"incomplete":["seed"]`, `"incomplete":["output"]`, 1),
		"lone surrogate": strings.Replace(receipt, "{", `{"x":["\udc00"],`, 1),
	} {
		require.NotEqual(t, receipt, changed, name)
		require.NoError(t, os.WriteFile(folder+"/changed.json", []byte(changed), 0o600))
		out, err := run("verify_log.py", "receipt", folder+"/changed.json", "--key", key)
		require.Error(t, err, "%s: %s", name, out)
	}

	text, err := os.ReadFile(folder + "/log.ndjson")
	require.NoError(t, err)
	_, later, _ := bytes.Cut(text, []byte("\n"))
	require.NoError(t, os.WriteFile(folder+"/log.ndjson", later, 0o600))
	out, err := run("verify_log.py", "log", folder+"/log.ndjson", "--checkpoint", folder+"/checkpoint")
	require.Error(t, err, out)
}
