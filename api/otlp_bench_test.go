package api

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"colophon/api/call"
	"colophon/api/otlp"
	"colophon/ledger"
	"colophon/ledger/record/moment"
)

// These constants define the load of BenchmarkOTLP.
const (
	otlpClients = 8
	otlpSpans   = 512 // spans per request; the default batch size of the SDKs
	otlpBodies  = 12  // bodies per client and round
	otlpRounds  = 7
)

// Both kinds of bodies that BenchmarkOTLP posts contain the same records, apart from
// idempotency keys.
func TestBenchmarkOTLPPostsTheSameRecords(t *testing.T) {
	s := start(t)
	s.do(http.MethodPost, "/batch", string(benchLines(otlpSpans)), "Content-Type", call.NDJSONMediaType).want(http.StatusOK)
	require.Nil(t, s.export(string(benchSpans(t, otlpSpans))))
	require.EqualValues(t, 1+2*otlpSpans, s.size())
	record := func(seq uint64) (key any, members map[string]any) {
		var event struct{ Record map[string]any }
		require.NoError(t, json.Unmarshal([]byte(s.event(seq).text), &event))
		key = event.Record["idempotency_key"]
		delete(event.Record, "idempotency_key")
		return key, event.Record
	}
	for seq := uint64(1); seq <= otlpSpans; seq++ {
		lineKey, line := record(seq)
		spanKey, span := record(otlpSpans + seq)
		require.Contains(t, line, "content")
		require.Equal(t, line, span)
		require.NotEqual(t, lineKey, spanKey)
	}
}

// BenchmarkOTLP measures how many records per second 8 clients post to a server with a real disk.
// It compares lines of /batch with spans of OTLP over HTTP, in alternating rounds whose order also
// alternates. Both kinds of rounds post new records with the same content and labels, in requests
// with the same number of records. A round ends when the index contains the last record. The
// benchmark reports the median rate of each kind, and the median of the rounds' ratios. The clients
// share the machine with the server, but prepare all bodies in advance.
//
//	go test -run '^$' -bench 'BenchmarkOTLP$' -benchtime 1x ./api
func BenchmarkOTLP(b *testing.B) {
	for b.Loop() {
		s := newLoaded(b)
		first := 0 // number of the next record
		round := func(path, kind string, body func(first int) []byte) (rate float64) {
			bodies := make([][][]byte, otlpClients)
			for c := range bodies {
				for range otlpBodies {
					bodies[c] = append(bodies[c], body(first))
					first += otlpSpans
				}
			}
			runtime.GC() // so that neither kind pays for collecting the other's bodies
			before, begin := s.ledger.Head().Size, time.Now()
			s.each(otlpClients, func(c int) {
				for _, body := range bodies[c] {
					s.send(path, kind, body)
				}
			})
			require.NoError(b, s.derived.Follower(ledger.DefaultName).WaitForSize(b.Context(), s.ledger.Head().Size))
			took := time.Since(begin)
			require.EqualValues(b, otlpClients*otlpBodies*otlpSpans, s.ledger.Head().Size-before, "records of a round")
			return float64(s.ledger.Head().Size-before) / took.Seconds()
		}
		batch := func() float64 { return round("/batch", call.NDJSONMediaType, benchLines) }
		export := func() float64 {
			return round("/otlp/v1/traces", otlp.ProtobufMediaType, func(first int) []byte { return benchSpans(b, first) })
		}
		batch() // warm-up
		export()
		var batches, exports, ratios []float64
		for i := range otlpRounds {
			var x, y float64
			if i%2 == 0 {
				x, y = batch(), export()
			} else {
				y, x = export(), batch()
			}
			batches, exports, ratios = append(batches, x), append(exports, y), append(ratios, y/x)
		}
		for unit, rounds := range map[string][]float64{"batch-records/s": batches, "otlp-records/s": exports, "otlp/batch": ratios} {
			slices.Sort(rounds)
			b.Logf("%s: %.2f", unit, rounds)
			b.ReportMetric(rounds[otlpRounds/2], unit)
		}
		s.close()
	}
}

// send posts a body. The benchmark fails unless the response status is 200.
func (s *loaded) send(path, kind string, body []byte) {
	response, err := s.client.Post("http://"+s.address+"/v1/ledgers/default"+path, kind, bytes.NewReader(body))
	if err != nil {
		s.b.Error(err)
		return
	}
	defer response.Body.Close()
	if answer, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		s.b.Errorf("%s: status %d, %v: %.300s", path, response.StatusCode, err, answer)
	}
}

// benchChat returns the texts of a generation of about 1.4 KB.
func benchChat(i int) (question, system, answer string) {
	return fmt.Sprint(strings.Repeat("a question about the river ", 18), i), strings.Repeat("You answer briefly. ", 10), fmt.Sprint(strings.Repeat("a sentence of the answer ", 20), i)
}

// benchIDs returns the trace ID and the span ID of a generation.
func benchIDs(i int) (trace, span []byte) {
	return binary.BigEndian.AppendUint64([]byte("trace id"), uint64(i)), binary.BigEndian.AppendUint64(nil, 1<<60+uint64(i))
}

// benchSpans returns an OTLP request with otlpSpans generations, numbered consecutively from first.
func benchSpans(t testing.TB, first int) []byte {
	spans := make([]*tracepb.Span, otlpSpans)
	for i := range spans {
		number := first + i
		trace, span := benchIDs(number)
		question, system, answer := benchChat(number)
		list := textAttributes("gen_ai.operation.name", "chat", "gen_ai.provider.name", "openai", "gen_ai.request.model", "gpt-4", "gen_ai.response.finish_reasons", "stop",
			"gen_ai.system_instructions", `[{"type":"text","content":"`+system+`"}]`,
			"gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"`+question+`"}]}]`,
			"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"`+answer+`"}],"finish_reason":"stop"}]`)
		list = append(list, &commonpb.KeyValue{Key: "gen_ai.request.temperature", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 0.7}}})
		for name, value := range map[string]int64{"gen_ai.request.max_tokens": 256, "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 130} {
			list = append(list, &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}})
		}
		at := 1764000000000000000 + uint64(number)
		spans[i] = &tracepb.Span{TraceId: trace, SpanId: span, Name: "chat gpt-4", StartTimeUnixNano: at, EndTimeUnixNano: at + 1000000000, Attributes: list}
	}
	return []byte(marshal(t, tracesOf(spans...)))
}

// benchLines returns the same generations as benchSpans, but as the lines of a batch.
func benchLines(first int) (lines []byte) {
	for number := first; number < first+otlpSpans; number++ {
		trace, span := benchIDs(number)
		question, system, answer := benchChat(number)
		lines = fmt.Appendf(lines, `{"kind":"ipc_record","idempotency_key":"key/%d","record":{"run_id":"%s-%s","model":"gpt-4","temperature":0.7,"max_tokens":256,`+
			`"payload":{"messages":[{"content":"%s","role":"user"}]},"system_prompt":"%s","output":"%s"`, number, hex.EncodeToString(trace), hex.EncodeToString(span), question, system, answer)
		lines = fmt.Appendf(lines, `,"timestamp":"%s","usage":{"input_tokens":120,"output_tokens":130,"duration_ms":1000}`, time.Unix(1764000000, int64(number)).UTC().Format(moment.Layout))
		lines = fmt.Appendf(lines, `,"labels":{"trace_id":"%s","span_id":"%s","service":"chat-web","provider":"openai","operation":"chat","finish_reason":"stop"}}}`+"\n", hex.EncodeToString(trace), hex.EncodeToString(span))
	}
	return lines
}
