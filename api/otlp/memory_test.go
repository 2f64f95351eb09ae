package otlp

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"colophon/api/call"
	"colophon/api/limits"
	"colophon/internal/genai"
	"colophon/internal/size"
	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/ledger/record"
	"colophon/storage/memory"
)

// newExport returns an export to a new ledger. most limits the memory for bodies, in bytes.
func newExport(t *testing.T, signal *Signal, most size.Bytes) *export {
	t.Helper()
	host, err := ledger.OpenHost(t.Context(), memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	l, err := host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	load := limits.ServerLimits{}.WithDefaults()
	load.MaxBodyMemory = most
	values := record.DefaultLimits()
	return &export{
		Handlers: &Handlers{ServerState: &call.ServerState{Host: host, Logger: slog.New(slog.DiscardHandler), Limiter: limits.New(load), RecordLimits: values}},
		ledger:   l, signal: signal, values: values, labels: genai.LabelLimits{MaxLabels: values.MaxLabels, MaxValueBytes: values.MaxLabelBytes},
	}
}

// start splits body into the items of the export and holds memory for them, as Handlers.record
// does.
func (e *export) start(t *testing.T, media string, body []byte) (held *limits.MemoryShare) {
	t.Helper()
	held = &limits.MemoryShare{Budget: e.Limiter.WriteMemory}
	require.NoError(t, held.Take(t.Context(), limits.MemoryBound(body)))
	var err error
	e.items, err = split(e.signal, media, body, e.RecordLimits.MaxJSONValues, func(n int64) error { return held.Take(t.Context(), n) })
	require.NoError(t, err)
	held.ShrinkTo(e.items.memory(len(body)))
	e.maxChunkMemory = e.Limiter.WriteMemory.MaxBytes/2 - held.Bytes
	return held
}

// jsonOf is like bodyOf, but returns JSON. The function of creates each of the count items.
func jsonOf(t *testing.T, count int, of func(number int) proto.Message, ownResource bool) []byte {
	t.Helper()
	var items []string
	for i := range count {
		b, err := protojson.Marshal(of(i))
		require.NoError(t, err)
		items = append(items, string(b))
	}
	between := ","
	if ownResource {
		between = `]}]},{"resource":{},"scopeSpans":[{"spans":[`
	}
	return []byte(`{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[` + strings.Join(items, between) + `]}]}]}`)
}

// bodyOf returns a Protobuf body with the given items. They share one resource unless ownResource
// is true.
func bodyOf(items [][]byte, ownResource bool) (body []byte) {
	field := func(dst []byte, n protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), value)
	}
	group := func(scope []byte) []byte {
		return field(nil, fieldResourceGroup, field(field(nil, fieldResource, nil), fieldScopeGroup, scope))
	}
	var scope []byte
	for _, i := range items {
		if ownResource {
			body = append(body, group(field(nil, fieldItem, i))...)
		}
		scope = field(scope, fieldItem, i)
	}
	if ownResource {
		return body
	}
	return group(scope)
}

func text(name, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// chat returns the span of a generation. Its IDs contain number, and it has the extra attributes in
// more.
func chat(number int, more ...*commonpb.KeyValue) *tracepb.Span {
	return &tracepb.Span{TraceId: fmt.Appendf(nil, "%016x", number), SpanId: fmt.Appendf(nil, "%08x", number), Attributes: append(more, text("gen_ai.operation.name", "chat"))}
}

// logOf returns a log record of the given event, with the same IDs as the span that chat returns
// for number.
func logOf(event string, number int, more ...*commonpb.KeyValue) *logspb.LogRecord {
	return &logspb.LogRecord{EventName: event, TraceId: fmt.Appendf(nil, "%016x", number), SpanId: fmt.Appendf(nil, "%08x", number), Attributes: more}
}

func encode(t *testing.T, count int, of func(number int) proto.Message) (items [][]byte) {
	t.Helper()
	for i := range count {
		b, err := proto.Marshal(of(i))
		require.NoError(t, err)
		items = append(items, b)
	}
	return items
}

// heap returns the number of bytes in use on the heap after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // a sync.Pool keeps its items until the second collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// While a request is in progress, it reserves enough memory for its items and records, even if its
// body is much smaller.
func TestRequestsHoldTheMemoryOfTheirItems(t *testing.T) {
	const count = 2048
	numbers := &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: new(commonpb.ArrayValue)}}
	for i := range 500 {
		numbers.GetArrayValue().Values = append(numbers.GetArrayValue().Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(i % 10)}})
	}
	user := func(content string) string {
		return `[{"role":"user","parts":[{"type":"text","content":"` + content + `"}]}]`
	}
	for _, c := range []struct {
		name   string
		signal *Signal
		of     func(number int) proto.Message
		count  int
	}{
		{"empty spans", SignalTraces, func(int) proto.Message { return new(tracepb.Span) }, count},
		{"spans that are no generations", SignalTraces, func(i int) proto.Message { s := chat(i); s.Attributes = nil; return s }, count},
		{"generations without anything", SignalTraces, func(i int) proto.Message { return chat(i) }, count},
		{"generations with a few words", SignalTraces, func(i int) proto.Message {
			return chat(i, text("gen_ai.input.messages", user("a question")), text("gen_ai.output.messages", user("an answer")))
		}, count},
		{"generations with long texts", SignalTraces, func(i int) proto.Message {
			return chat(i, text("gen_ai.input.messages", user(strings.Repeat("a question ", 200))), text("gen_ai.output.messages", user(strings.Repeat("é\\n", 500))))
		}, count / 8},
		{"generations with many values in JSON", SignalTraces, func(i int) proto.Message {
			return chat(i, text("gen_ai.tool.definitions", "["+strings.Repeat("1,", 1000)+"1]"))
		}, count / 8},
		{"generations with many values", SignalTraces, func(i int) proto.Message {
			return chat(i, &commonpb.KeyValue{Key: "gen_ai.tool.definitions", Value: numbers})
		}, count / 8},
		{"empty log records", SignalLogs, func(int) proto.Message { return new(logspb.LogRecord) }, count},
		{"log records of generations", SignalLogs, func(i int) proto.Message { return logOf("gen_ai.client.inference.operation.details", i) }, count},
		{"log records of messages", SignalLogs, func(i int) proto.Message { return logOf("gen_ai.user.message", i) }, count},
		{"log records of messages with text", SignalLogs, func(i int) proto.Message { return logOf("gen_ai.user.message", i, text("content", "a question")) }, count},
	} {
		for _, how := range []struct {
			name        string
			media       string
			ownResource bool
		}{{"one resource", ProtobufMediaType, false}, {"own resources", ProtobufMediaType, true}, {"JSON, one resource", JSONMediaType, false}, {"JSON, own resources", JSONMediaType, true}} {
			if how.media == JSONMediaType && c.signal == SignalLogs {
				continue // log records in JSON have the same structure
			}
			t.Run(c.name+", "+how.name, func(t *testing.T) {
				e := newExport(t, c.signal, 8<<30)
				var body []byte
				if how.media == JSONMediaType {
					body = jsonOf(t, c.count, c.of, how.ownResource)
				} else {
					body = bodyOf(encode(t, c.count, c.of), how.ownResource)
				}
				before := heap()
				share := e.start(t, how.media, body)
				held := share.Bytes
				parsed := make(chan *chunk, queued)
				go e.parseAll(t.Context(), parsed)
				var chunks []*chunk
				var messages genai.MessageCollector
				keep := func(chunk *chunk) {
					require.NoError(t, chunk.failed)
					require.Zero(t, chunk.others.rejected, chunk.others.first)
					held += chunk.share.Bytes
					chunks = append(chunks, chunk)
				}
				for chunk := range parsed {
					<-chunk.parsed
					keep(chunk)
					for _, m := range chunk.messages {
						messages.Add(m.record, m.resource, m.number)
					}
				}
				for chunk := range e.parseMessages(t.Context(), &messages) {
					keep(chunk)
				}
				used := heap() - before
				t.Logf("%d bytes of body, %d used, %d held", len(body), used, held)
				require.LessOrEqual(t, used, held)
				for _, chunk := range chunks {
					chunk.release()
				}
				share.Release()
				require.Zero(t, e.Limiter.WriteMemory.BytesInUse())
				runtime.KeepAlive(e)
			})
		}
	}
}

// A request holds memory for only some of its records at a time, and releases the memory of records
// that have been recorded.
func TestRequestsReleaseTheMemoryOfWhatIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal *Signal
		of     func(number int) proto.Message
		count  int
	}{
		{"spans", SignalTraces, func(i int) proto.Message { return chat(i) }, 6_000},
		{"log records", SignalLogs, func(i int) proto.Message { return logOf("gen_ai.client.inference.operation.details", i) }, 6_000},
		{"messages", SignalLogs, func(i int) proto.Message { return logOf("gen_ai.user.message", i, text("content", "a")) }, 4_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newExport(t, c.signal, 32<<20)
			require.Greater(t, int64(c.count*recordMemory), e.Limiter.WriteMemory.MaxBytes/2, "more than a caller can get")
			share := e.start(t, ProtobufMediaType, bodyOf(encode(t, c.count, c.of), false))
			result, err := e.run(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.count, result.recorded)
			require.EqualValues(t, 1+c.count, e.ledger.Head().Size)
			share.Release()
			require.Zero(t, e.Limiter.WriteMemory.BytesInUse())
		})
	}
}
