package pyjson

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchmarkBodies returns bodies of IPC records, each about 2 KB long. Each key says what is special
// about the body.
func benchmarkBodies(t testing.TB) map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	prompt := strings.Repeat("You are the narrator of a quiet town.\nAnswer in one paragraph, \"in character\".\n", 6)
	output := strings.Repeat("The lamplighter – tired, as ever – nods and says nothing for a while. ", 10)

	axes := make([]string, 0, 11)
	for i, name := range []string{"wealth", "health", "mood", "faction", "trust", "age", "fatigue", "weather", "legal", "light", "alarm"} {
		axes = append(axes, fmt.Sprintf(`"%s": {"label": "level %d", "score": %v}`, name, i, float64(r.IntN(100))/100))
	}
	typical := body(prompt, output, `{"axes": {`+strings.Join(axes, ", ")+`}, "policy_hash": "`+strings.Repeat("0a", 32)+`", "seed": 42, "world_id": "pipeworks"}`)

	floats := make([]string, 80)
	for i := range floats {
		floats[i] = strconv.FormatFloat(r.Float64(), 'f', -1, 64)
	}
	floatHeavy := body("Short.", "Short.", `{"scores": [`+strings.Join(floats, ", ")+`], "seed": 42}`)

	var escapes strings.Builder // text with non-ASCII characters escaped as by Python's json.dumps
	for _, c := range strings.Repeat("Привет, тихий город! 静かな町 ", 13) {
		if c < 0x80 {
			escapes.WriteRune(c)
		} else {
			fmt.Fprintf(&escapes, `\u%04x`, c)
		}
	}
	escapeHeavy := body("Short.", "Short.", `{"text": "`+escapes.String()+`", "seed": 42}`)

	depth := 105
	nested := body("Short.", "Short.", strings.Repeat(`{"z": 1, "a": [`, depth)+`"x"`+strings.Repeat(`]}`, depth))

	bodies := map[string][]byte{"typical": typical, "floats": floatHeavy, "escapes": escapeHeavy, "nested": nested}
	for name, body := range bodies {
		require.True(t, json.Valid(body), name)
		require.InDelta(t, 2048, len(body), 300, name)
	}
	return bodies
}

func body(systemPrompt, output, payload string) []byte {
	text := func(s string) string {
		quoted := AppendString(nil, []byte(s))
		return string(quoted)
	}
	return []byte(`{"run_id": "run-0001", "payload": ` + payload + `, "system_prompt": ` + text(systemPrompt) + `, "output": ` + text(output) +
		`, "model": "gemma2:2b", "temperature": 0.7, "max_tokens": 120, "seed": 42, "labels": {"scene": "dusk"}}`)
}

var sink byte // keeps the compiler from removing the measured code

// BenchmarkCanonical parses a body, writes its canonical form, and hashes that form three times,
// which is the work that a record of this size requires. For comparison, it also measures how long
// encoding/json takes to unmarshal the same body into maps.
func BenchmarkCanonical(b *testing.B) {
	bodies := benchmarkBodies(b)
	for _, name := range []string{"typical", "floats", "escapes", "nested"} {
		body := bodies[name]
		b.Run(name+"/colophon", func(b *testing.B) {
			var d Document
			var canonical []byte
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Parse(body); err != nil {
					b.Fatal(err)
				}
				canonical = d.Root().AppendCanonical(canonical[:0], SpacedForm)
				for range 3 {
					digest := sha256.Sum256(canonical)
					sink ^= digest[0]
				}
			}
		})
		b.Run(name+"/encodingjson", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var value any
				if err := json.Unmarshal(body, &value); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/sha256", func(b *testing.B) {
			for b.Loop() {
				for range 3 {
					digest := sha256.Sum256(body)
					sink ^= digest[0]
				}
			}
		})
	}
}
