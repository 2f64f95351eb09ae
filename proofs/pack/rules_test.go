package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"
	"colophon/proofs/pack/browser"
)

// vectors decodes the named file in testdata/vectors into *to. CPython generated the files in this
// folder.
func vectors(t *testing.T, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, to))
}

// mapped evaluates function, an asynchronous JavaScript function, in the page for each element of
// list and returns the results.
func mapped(t *testing.T, p *browser.Page, list any, function string) (results []string) {
	t.Helper()
	b, err := json.Marshal(list)
	require.NoError(t, err)
	p.Eval(t, "Promise.all("+string(b)+".map("+function+"))", &results)
	return results
}

// The page computes the same hashes as CPython.
func TestPageHashesVectors(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	open(t, p, page(t, examplePack(t)))
	type texts []struct {
		Text         json.RawMessage // raw, to keep lone surrogates
		SHA256, Hash string
	}
	var ipc struct {
		SystemPrompts texts `json:"system_prompts"`
		Outputs       texts
		Payloads      []struct{ JSON, SHA256 string }
	}
	vectors(t, "ipc.json", &ipc)
	var citations struct{ Chunks texts }
	vectors(t, "citations.json", &citations)
	for function, list := range map[string]texts{
		"(v) => auditPack.textHash(auditPack.systemPromptForm(v.Text))":                          ipc.SystemPrompts,
		"(v) => auditPack.textHash(auditPack.outputForm(v.Text))":                                ipc.Outputs,
		`async (v) => "sha256:" + (await auditPack.textHash(auditPack.words(v.Text).join(" ")))`: citations.Chunks,
	} {
		require.NotEmpty(t, list)
		for i, got := range mapped(t, p, list, function) {
			require.Equal(t, list[i].SHA256+list[i].Hash, got, "%s: %s", function, list[i].Text)
		}
	}
	for i, got := range mapped(t, p, ipc.Payloads, "(v) => auditPack.textHash(auditPack.canonical(auditPack.parseJSON(v.JSON), auditPack.spaced))") {
		require.Equal(t, ipc.Payloads[i].SHA256, got, ipc.Payloads[i].JSON)
	}
	var dag struct {
		Merkle []struct {
			Leaves []string
			Root   string
		}
	}
	vectors(t, "run-dag.json", &dag)
	require.NotEmpty(t, dag.Merkle)
	for i, got := range mapped(t, p, dag.Merkle, "(v) => auditPack.nodesRoot(v.Leaves.map((hash) => ({ hash })))") {
		require.Equal(t, dag.Merkle[i].Root, got)
	}
}

func TestPageCanonicalVectors(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	open(t, p, page(t, examplePack(t)))
	var v struct {
		Values []struct {
			JSON, Spaced, Compact string
			SHA256Spaced          string `json:"sha256_spaced"`
		}
		LoneSurrogates []struct {
			JSON   string
			SHA256 string `json:"sha256_compact_wtf8"`
		} `json:"lone_surrogates"`
		Reject []struct{ JSON, Why string }
	}
	vectors(t, "canonical-json.json", &v)
	for i, got := range mapped(t, p, v.Values, "(v) => auditPack.canonical(auditPack.parseJSON(v.JSON), auditPack.compact)") {
		require.Equal(t, v.Values[i].Compact, got)
	}
	for i, got := range mapped(t, p, v.Values, "(v) => auditPack.textHash(auditPack.canonical(auditPack.parseJSON(v.JSON), auditPack.spaced))") {
		require.Equal(t, v.Values[i].SHA256Spaced, got)
	}
	for i, got := range mapped(t, p, v.LoneSurrogates, "(v) => auditPack.textHash(auditPack.canonical(auditPack.parseJSON(v.JSON), auditPack.compact))") {
		require.Equal(t, v.LoneSurrogates[i].SHA256, got)
	}
	refused := mapped(t, p, v.Reject, `(v) => { try { return "taken: " + auditPack.canonical(auditPack.parseJSON(v.JSON)); } catch (e) { return e instanceof auditPack.VerificationError ? "refused" : String(e); } }`)
	for i, got := range refused {
		require.Equal(t, "refused", got, v.Reject[i].Why)
	}
}

// The page and the ledger produce the same canonical JSON for many kinds of numbers, names, and
// strings.
func TestPageCanonicalJSONEqualsTheLedgers(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	open(t, p, page(t, examplePack(t)))
	draw := rand.New(rand.NewPCG(1, 2))
	var list []string
	for range 4000 {
		f := math.Float64frombits(draw.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		list = append(list, strconv.FormatFloat(f, 'e', -1, 64), strconv.FormatFloat(f, 'e', draw.IntN(30), 64), fmt.Sprint(draw.Int64()-1<<62),
			strconv.FormatFloat(math.Pow(10, float64(draw.IntN(60)-30))*draw.Float64(), 'f', -1, 64)+"e0", fmt.Sprintf("%d.%dE%d", draw.IntN(100), draw.IntN(1000), draw.IntN(40)-20))
	}
	for range 300 {
		object := make([]string, 0, 8)
		names := make(map[string]bool)
		for len(object) < 8 {
			name := ""
			for range draw.IntN(4) {
				name += fmt.Sprintf(`\u%04x`, []int{'a', 0x1f, '"', 0x7f, 0xe9, 0x2028, 0xd7ff, 0xd83d, 0xde00, 0xdfff, 0xe000, 0xfffd, 0xffff}[draw.IntN(13)])
			}
			if !names[name] {
				names[name] = true
				object = append(object, `"`+name+`": [`+list[draw.IntN(len(list))]+`, "`+name+`", true, null]`)
			}
		}
		list = append(list, "{"+strings.Join(object, ",")+"}")
	}
	got := mapped(t, p, list, "async (text) => auditPack.toHex(await auditPack.sha256(auditPack.wtf8(auditPack.canonical(auditPack.parseJSON(text)))))")
	for i, text := range list {
		var d pyjson.Document
		require.NoError(t, d.Parse([]byte(text)), text)
		require.Equal(t, sha256Hex(d.Root().AppendCanonical(nil, pyjson.CompactForm)), got[i], text)
	}
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
