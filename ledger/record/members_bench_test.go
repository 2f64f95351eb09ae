package record_test

import (
	"fmt"
	"testing"

	"colophon/ledger/record"
	"colophon/ledger/record/members"
)

// BenchmarkParseMembers reads records and writes their events, with and without digests of the
// members of their payloads.
func BenchmarkParseMembers(b *testing.B) {
	for _, digests := range []bool{false, true} {
		limits := record.DefaultLimits()
		if digests {
			limits = limits.For(members.NewSecret())
		}
		b.Run(fmt.Sprintf("digests=%t", digests), func(b *testing.B) {
			body := []byte(`{"run_id":"run-1","payload":{"instruction":"Explain to a child why the sea is salt, and what would happen if it were not. Use short words.","dataset":"helpful_base","world_id":"w17",` +
				`"seed":8123,"axes":{"difficulty":{"label":"plain","score":0.3},"style":{"label":"terse","score":0.9},"tone":{"label":"formal","score":0.1}}},` +
				`"system_prompt":"Be kind.","output":"Because rivers carry salt to it.","model":"gpt-4","temperature":0.7,"max_tokens":2048}`)
			var event []byte
			b.ReportAllocs()
			for b.Loop() {
				r, err := limits.Parse(record.IPCRecord, body)
				if err != nil {
					b.Fatal(err)
				}
				event = r.AppendBody(event[:0], record.Event{Actor: "tester", Ledger: "default"})
				r.Release()
			}
			b.ReportMetric(float64(len(event)), "bytes")
		})
	}
}
