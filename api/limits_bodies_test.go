package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	collectlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	collecttraces "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"colophon/api/limits"
	"colophon/api/otlp"
	"colophon/api/questions"
)

// bulk is the approximate length of a filled body, in bytes.
const bulk = 256 << 10

// fillings returns JSON texts of about size bytes each, keyed by name. They consist of many short
// values, or of values that grow when they are processed.
func fillings(size int) map[string]string {
	list := func(piece string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(piece+",", size/(len(piece)+1)), ",") + "]"
	}
	text := func(piece string) string { return `"` + strings.Repeat(piece, size/len(piece)) + `"` }
	names := []byte("{")
	for i := 0; len(names) < size; i++ {
		names = fmt.Appendf(names, "%q:0,", fmt.Sprintf("%x", i))
	}
	names[len(names)-1] = '}'
	return map[string]string{
		"lists": list("[]"), "objects": list("{}"), "zeros": list("0"), "empty texts": list(`""`), "letters": list(`"a"`),
		"nulls": list("null"), "exponents": list("1e15"), "escapes in a list": list(`"\n"`), "members": string(names),
		"nested lists": list(strings.Repeat("[", 60) + strings.Repeat("]", 60)),
		"line feeds":   text(`\n`), "spaces": text(" "), "controls": text(`\u0001`), "letters in a text": text("a b"),
		"accents": text("é"), "emoji": text("\U0001F600"), "links": text("[a](b)"), "wiki links": text("[[a]]"), "composed": text("\U0001D160"),
		"decomposed": text("e\u0301"), "marks": text("\u0301\u0316"), "capitals": text("\u0130"),
	}
}

// bodies returns variants of a request body, keyed by name. Each variant replaces one member of the
// example or of the schema with a filling, or repeats the first element of one list many times.
func bodies(example map[string]any, schema *openapi3.Schema) map[string][]byte {
	found := make(map[string][]byte)
	// place is a placeholder for a filling while a body is encoded, because encoding a long filling
	// is slow.
	const place = `"place of the filling"`
	frame := func(set func(json.RawMessage)) []byte {
		set(json.RawMessage(place))
		return encoded(example)
	}
	put := func(name string, frame []byte, filling string) {
		found[name] = bytes.Replace(frame, []byte(place), []byte(filling), 1)
	}
	ways := fillings(bulk)
	var walk func(at string, value any, set func(json.RawMessage))
	walk = func(at string, value any, set func(json.RawMessage)) {
		around := frame(set)
		for name, filling := range ways {
			put(at+" of "+name, around, filling)
		}
		within := func(name string, member any, to func(any)) {
			walk(at+"/"+name, member, func(text json.RawMessage) {
				to(text)
				set(encoded(value))
			})
			to(member)
		}
		switch value := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				within(name, value[name], func(to any) { value[name] = to })
			}
		case []any:
			if len(value) == 0 {
				break
			}
			first := string(encoded(value[0])) + ","
			put(at+" of its first element", around, "["+strings.TrimSuffix(strings.Repeat(first, bulk/len(first)), ",")+"]")
			within("0", value[0], func(to any) { value[0] = to })
		}
		set(encoded(value))
	}
	names := slices.Concat(slices.Collect(maps.Keys(example)), slices.Collect(maps.Keys(schema.Properties)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		before, given := example[name]
		walk("/"+name, before, func(to json.RawMessage) { example[name] = to })
		if example[name] = before; !given {
			delete(example, name)
		}
	}
	return found
}

// decodedPart is the memory, in bytes, that a server needs for each message and text in a Protobuf
// body. Even a message of two bytes needs that much when it is decoded.
const decodedPart = 160

// message is a Protobuf body. parts is the number of messages and texts in its span or log record.
type message struct {
	body  []byte
	parts int
}

// messages returns OTLP requests for logs or, if logs is false, for traces, each with one
// generation. The attributes of the generation are about bulk bytes long. They contain many short
// values, or values that grow when they are processed.
func messages(logs bool) map[string]message {
	pair := func(key string, value *commonpb.AnyValue) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: value}
	}
	text := func(s string) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
	}
	found := make(map[string]message)
	put := func(name string, parts int, attributes ...*commonpb.KeyValue) {
		attributes = append(attributes, pair("gen_ai.operation.name", text("chat")), pair("gen_ai.request.model", text("m")))
		var request proto.Message
		if logs {
			request = &collectlogs.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{ScopeLogs: []*logspb.ScopeLogs{{LogRecords: []*logspb.LogRecord{
				{EventName: "gen_ai.client.inference.operation.details", TraceId: []byte("trace id of 16 b"), SpanId: fmt.Appendf(nil, "%08x", len(found)), Attributes: attributes}}}}}}}
		} else {
			request = &collecttraces.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{
				{Name: "chat", TraceId: []byte("trace id of 16 b"), SpanId: fmt.Appendf(nil, "%08x", len(found)), Attributes: attributes}}}}}}}
		}
		body, err := proto.Marshal(request)
		if err != nil {
			panic(err)
		}
		found[name] = message{body, parts}
	}
	list := func(n int, of func(i int) *commonpb.KeyValue) (all []*commonpb.KeyValue) {
		for i := range n {
			all = append(all, of(i))
		}
		return all
	}
	const some = bulk / 16
	put("empty attributes", some, list(some, func(int) *commonpb.KeyValue { return new(commonpb.KeyValue) })...)
	put("names", 4*some, list(some, func(i int) *commonpb.KeyValue { return pair(fmt.Sprintf("%x", i), text("")) })...)
	put("one name", 4*some, list(some, func(int) *commonpb.KeyValue { return pair("a", text("b")) })...)
	var values []*commonpb.AnyValue
	for range some {
		values = append(values, new(commonpb.AnyValue))
	}
	array := &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: values}}}
	members := &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: list(some, func(i int) *commonpb.KeyValue { return pair(fmt.Sprintf("%x", i), text("")) })}}}
	for _, name := range []string{"gen_ai.input.messages", "gen_ai.output.messages", "another"} {
		put(name+" of empty values", some, pair(name, array))
		put(name+" of members", 4*some, pair(name, members))
		for filling, s := range fillings(bulk) {
			parts := 3
			if s[0] == '[' || s[0] == '{' {
				parts += int(5 * limits.MemoryBound([]byte(s)) / decodedPart) // text that contains JSON is decoded too
			}
			put(name+" of "+filling, parts, pair(name, text(s)))
		}
	}
	return found
}

func encoded(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// allocated returns how many bytes were allocated on the heap while f ran.
func allocated(f func()) int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64() - before)
}

// The memory allocated for a body is at most proportional to its weight, for any values that the
// contract allows. The test fills the members that the contract lists, so it also covers members
// that are added later.
func TestWeightBoundsTheMemoryOfBodies(t *testing.T) {
	const (
		allowed = 5       // multiple of the weight; most of this memory soon becomes garbage
		fixed   = 1 << 20 // bytes for any request, including what the index allocates at the same time
	)
	c := loadContract(t)
	done := make(map[string]bool) // members that have been tested, by route; examples share many members
	for _, e := range c.requestExamples(t) {
		media := e.header["Content-Type"]
		if media == ndjson || strings.HasPrefix(e.route, "/v1/compute/") { // the test posts the same records to other routes
			continue
		}
		if media == otlp.ProtobufMediaType {
			t.Run(e.method+" "+e.route+" in Protobuf", func(t *testing.T) {
				s := newServerFor(t, 8<<20)
				for name, f := range messages(strings.HasSuffix(e.route, "/logs")) {
					k := e.call
					k.body = f.body
					r := k.request(t, "")
					answer := httptest.NewRecorder()
					took := allocated(func() { s.api.ServeHTTP(answer, r) })
					require.Equal(t, http.StatusOK, answer.Code, "%s: %s", name, answer.Body)
					require.LessOrEqual(t, took, allowed*(limits.MemoryBound(f.body)+decodedPart*int64(f.parts))+fixed, name)
				}
			})
			continue
		}
		t.Run(e.method+" "+e.route+" "+e.name, func(t *testing.T) {
			s := newServerFor(t, 8<<20)
			var value map[string]any
			require.NoError(t, json.Unmarshal(e.body, &value))
			schema := c.Paths.Value(e.route).GetOperation(e.method).RequestBody.Value.Content["application/json"].Schema.Value
			for name, body := range bodies(value, schema) {
				if done[e.route+name] {
					continue
				}
				done[e.route+name] = true
				k := e.call
				k.body = body
				r := k.request(t, "")
				took := allocated(func() { s.api.ServeHTTP(httptest.NewRecorder(), r) })
				weight := limits.MemoryBound(body)
				if strings.HasSuffix(e.route, "/pinned-retrieval") {
					weight += questions.RetrievalMemory(body)
				}
				require.LessOrEqual(t, took, allowed*weight+fixed, "%s: %.200s", name, body)
			}
		})
	}
}
