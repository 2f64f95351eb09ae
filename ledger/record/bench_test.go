package record

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchBodies returns request bodies of about 2 KB each. Each key says what most of the body consists
// of.
func benchBodies() map[string][]byte {
	typical := map[string]any{
		"dataset": "helpful_base", "seed": 42, "world_id": "w1",
		"instruction": strings.Repeat("What are the names of some famous actors? ", 5),
		"axes":        map[string]any{"difficulty": map[string]any{"label": "plain", "score": 0.25}},
	}
	random := rand.New(rand.NewPCG(1, 2))
	floats := map[string]any{}
	for i := range 8 {
		var list []float64
		for range 10 {
			list = append(list, random.Float64())
		}
		floats[fmt.Sprintf("embedding_%d", 9-i)] = list
	}
	deep := any(map[string]any{"leaf": 1})
	for i := range 60 {
		deep = map[string]any{"z": i, "child": deep, "a": "x"}
	}
	prose := strings.TrimSpace(strings.Repeat("Several famous actors started their careers on Broadway.\n", 22))
	short := "ok"
	bodies := make(map[string][]byte)
	for name, in := range map[string]struct {
		payload any
		output  string
	}{
		"typical": {typical, prose},
		"floats":  {floats, short},
		"escapes": {map[string]any{"seed": 1}, strings.Repeat("Überraſchung → \"mañana\"\n\t", 31)},
		"nested":  {map[string]any{"deep": deep}, short},
	} {
		body := map[string]any{
			"run_id": "bench/1", "payload": in.payload, "system_prompt": "You are a helpful assistant.\nAnswer briefly.",
			"output": in.output, "model": "gpt-4-1106-preview", "temperature": 0.7, "max_tokens": 4096, "seed": 0,
			"labels": map[string]string{"source": "bench"}, "ipc_id": zeros, "input_hash": zeros, "output_hash": zeros,
		}
		b, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		if name == "escapes" {
			b = ascii(b)
		}
		bodies[name] = b
	}
	return bodies
}

// ascii escapes all non-ASCII characters, as Python's json module does.
func ascii(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		if r < 0x80 {
			out = append(out, byte(r))
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// BenchmarkIPC parses an IPC record, canonicalises its payload, computes all hashes, and checks
// every claim. For comparison, it also measures encoding/json on the same body.
func BenchmarkIPC(b *testing.B) {
	for name, body := range benchBodies() {
		b.Run(name+"/colophon", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := Parse(KindIPCRecord, body)
				if err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
		})
		b.Run(name+"/encodingjson", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var v any
				if err := json.Unmarshal(body, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEventBody writes a record's event body, as the sequencer does.
func BenchmarkEventBody(b *testing.B) {
	r, err := Parse(KindIPCRecord, benchBodies()["typical"])
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		r.BodyPrefix(EventContext{Actor: "anonymous", Ledger: "default"})
	}
}
