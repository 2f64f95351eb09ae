package api

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	collecttraces "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"colophon/api/limits"
	"colophon/api/otlp"
	"colophon/ledger"
)

// textAttributes returns string attributes for alternating names and values.
func textAttributes(namesAndValues ...string) (list []*commonpb.KeyValue) {
	for i := 0; i < len(namesAndValues); i += 2 {
		list = append(list, &commonpb.KeyValue{Key: namesAndValues[i], Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: namesAndValues[i+1]}}})
	}
	return list
}

// chatSpan returns the span of a generation whose trace ID and span ID end in number. Its
// attributes include those given as alternating names and values.
func chatSpan(number int, namesAndValues ...string) *tracepb.Span {
	base := []string{"gen_ai.operation.name", "chat", "gen_ai.request.model", "m-" + strconv.Itoa(number%3),
		"gen_ai.input.messages", fmt.Sprintf(`[{"role":"user","parts":[{"type":"text","content":"question %d"}]}]`, number),
		"gen_ai.output.messages", fmt.Sprintf(`[{"role":"assistant","parts":[{"type":"text","content":"answer %d"}]}]`, number)}
	return &tracepb.Span{TraceId: binary.BigEndian.AppendUint64([]byte("trace id"), uint64(number)), SpanId: binary.BigEndian.AppendUint64(nil, 1<<60+uint64(number)),
		Name: "chat", StartTimeUnixNano: 1764000000000000000 + uint64(number), EndTimeUnixNano: 1764000001000000000 + uint64(number), Attributes: textAttributes(append(base, namesAndValues...)...)}
}

func tracesOf(spans ...*tracepb.Span) *collecttraces.ExportTraceServiceRequest {
	return &collecttraces.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: textAttributes("service.name", "chat-web")},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}},
	}}}
}

// chats returns count spans that are generations, each followed by one that is not.
func chats(count int) (spans []*tracepb.Span) {
	for i := range count {
		other := chatSpan(i)
		other.SpanId, other.Attributes = binary.BigEndian.AppendUint64(nil, 1<<61+uint64(i)), textAttributes("http.request.method", "POST")
		spans = append(spans, chatSpan(i), other)
	}
	return spans
}

func marshal(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return string(b)
}

// inJSON encodes spans as an OTLP request in JSON, with IDs in hexadecimal.
func inJSON(t testing.TB, spans ...*tracepb.Span) string {
	t.Helper()
	var list []any
	for _, s := range spans {
		var attributes []any
		for _, a := range s.Attributes {
			attributes = append(attributes, map[string]any{"key": a.Key, "value": map[string]any{"stringValue": a.Value.GetStringValue()}})
		}
		list = append(list, map[string]any{"traceId": hex.EncodeToString(s.TraceId), "spanId": strings.ToUpper(hex.EncodeToString(s.SpanId)), "name": s.Name, "kind": 3, "flags": 256,
			"startTimeUnixNano": strconv.FormatUint(s.StartTimeUnixNano, 10), "endTimeUnixNano": strconv.FormatUint(s.EndTimeUnixNano, 10), "attributes": attributes, "later": true})
	}
	b, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"scopeSpans": []any{map[string]any{"spans": list}},
		"resource":   map[string]any{"attributes": []any{map[string]any{"key": "service.name", "value": map[string]any{"stringValue": "chat-web"}}}},
	}}})
	require.NoError(t, err)
	return string(b)
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// export posts traces in Protobuf and returns the partial success that the response reports, or nil
// if no span was rejected.
func (s *service) export(body string, headers ...string) *collecttraces.ExportTracePartialSuccess {
	s.t.Helper()
	a := s.do(http.MethodPost, "/otlp/v1/traces", body, append([]string{"Content-Type", otlp.ProtobufMediaType}, headers...)...).want(http.StatusOK)
	require.Equal(s.t, otlp.ProtobufMediaType, a.header.Get("Content-Type"))
	var answer collecttraces.ExportTraceServiceResponse
	require.NoError(s.t, proto.Unmarshal(a.body, &answer))
	return answer.PartialSuccess
}

// Each generation becomes one record, regardless of how often, in which encoding, and in which
// order an exporter sends the spans.
func TestOTLPRecordsEachGenerationOnce(t *testing.T) {
	s := start(t)
	const count = 400
	spans := chats(count)
	body := marshal(t, tracesOf(spans...))
	require.Nil(t, s.export(body))
	require.EqualValues(t, 1+count, s.size())
	require.Nil(t, s.export(body), "the same again")
	require.Nil(t, s.export(gzipped(t, body), "Content-Encoding", "gzip"))
	require.Nil(t, s.export(marshal(t, tracesOf(append(spans[200:], spans...)...))), "overlapping, with repetitions")
	for i := 0; i < len(spans); i += 37 {
		require.Nil(t, s.export(marshal(t, tracesOf(spans[i]))), "one by one")
	}
	s.do(http.MethodPost, "/otlp/v1/traces", inJSON(t, spans...), "Content-Type", "application/json").want(http.StatusOK)
	changed := tracesOf(spans...)
	changed.ResourceSpans[0].Resource.Attributes = textAttributes("service.name", "renamed", "deployment.environment", "prod")
	require.Nil(t, s.export(marshal(t, changed)), "a collector has changed the resource")
	require.EqualValues(t, 1+count, s.size(), "no generation is recorded twice, and none is refused")

	seen := make(map[string]bool)
	for seq := uint64(1); seq <= count; seq++ {
		r := s.event(seq).Record
		require.Equal(t, r.RunID, r.Labels["trace_id"]+"-"+r.Labels["span_id"])
		require.Equal(t, "chat-web", r.Labels["service"])
		seen[r.Labels["span_id"]] = true
	}
	for i := range count {
		require.Contains(t, seen, hex.EncodeToString(chatSpan(i).SpanId), "no generation is lost")
	}
	require.Equal(t, "answer 7", string(s.get("/records/8/content/output").want(http.StatusOK).body))
	s.metrics().require(t, count, "colophon_otlp_items_total", "outcome", "recorded")
	s.metrics().require(t, 0, "colophon_otlp_items_total", "outcome", "rejected")
}

// The response counts the spans that cannot be recorded, and explains the first of them. All other
// generations are recorded.
func TestOTLPPartialSuccess(t *testing.T) {
	s := start(t)
	deep := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "x"}}
	for range 70 {
		deep = &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{deep}}}}
	}
	bad := chatSpan(2)
	bad.Attributes = append(bad.Attributes, &commonpb.KeyValue{Key: "gen_ai.system_instructions", Value: deep})
	partial := s.export(marshal(t, tracesOf(chatSpan(1), bad, chatSpan(3), bad)))
	require.EqualValues(t, 2, partial.RejectedSpans)
	require.Equal(t, fmt.Sprintf("rejected items: 2; first error: span %x of trace %x: an attribute is nested more than 64 levels deep", bad.SpanId, bad.TraceId), partial.ErrorMessage)
	require.EqualValues(t, 3, s.size())

	a := s.do(http.MethodPost, "/otlp/v1/traces", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":7},{"name":"x","traceId":"!"},{"name":"ignored"}]}]}]}`, "Content-Type", "application/json").want(http.StatusOK)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	var answer struct {
		PartialSuccess struct{ RejectedSpans, ErrorMessage string } `json:"partialSuccess"`
	}
	a.json(&answer)
	require.Equal(t, "2", answer.PartialSuccess.RejectedSpans)
	require.Contains(t, answer.PartialSuccess.ErrorMessage, "span: invalid encoding: ")
	require.EqualValues(t, 3, s.size())
	broken := "\x0a\x08\x12\x06\x12\x04\x0a\x7fab" // a span whose trace ID claims to be longer than the span
	require.EqualValues(t, 1, s.export(broken).RejectedSpans)
}

// A ledger that keeps only hashes records the same hashes and the same idempotency key as a ledger
// that keeps content.
func TestOTLPKeepsOnlyHashes(t *testing.T) {
	s := start(t)
	body := marshal(t, tracesOf(chatSpan(1, "gen_ai.system_instructions", "Be brief.")))
	require.Nil(t, s.export(body))
	kept := s.event(1)
	_, err := s.host.Create(t.Context(), ledger.CreateOptions{Name: "private"})
	require.NoError(t, err)
	other := *s
	other.url = strings.Replace(s.url, "/default", "/private", 1)
	other.do(http.MethodPut, "/otlp-content", `{"otlp_content":"hashes"}`, "Content-Type", "application/json").want(http.StatusOK)
	require.Nil(t, other.export(body))
	hashed := other.event(1)
	require.Empty(t, hashed.Record.Content)
	require.Len(t, kept.Record.Content, 3)
	require.Equal(t, kept.Record.Hashes, hashed.Record.Hashes)
	require.Equal(t, kept.Record.Labels, hashed.Record.Labels)
	require.NotContains(t, hashed.text, "answer")
	other.do(http.MethodPut, "/otlp-content", `{"otlp_content":"keep"}`, "Content-Type", "application/json").want(http.StatusOK)
	require.Nil(t, other.export(body), "existing records do not change")
	l, err := s.host.Ledger("private")
	require.NoError(t, err)
	require.EqualValues(t, 2, l.Head().Size)
}

type otlpEvent struct {
	Record struct {
		Content map[string]any    `json:"content"`
		Hashes  map[string]string `json:"hashes"`
		Labels  map[string]string `json:"labels"`
		RunID   string            `json:"run_id"`
	} `json:"record"`
	text string
}

func (s *service) event(seq uint64) (e otlpEvent) {
	s.t.Helper()
	name := s.url[strings.LastIndex(s.url, "/")+1:]
	l, err := s.host.Ledger(name)
	require.NoError(s.t, err)
	entry, err := l.Reader().Entry(s.t.Context(), seq)
	require.NoError(s.t, err)
	e.text = string(entry[32:])
	require.NoError(s.t, json.Unmarshal(entry[32:], &e))
	return e
}

// A generation that is reported by both a span and a log record is recorded once. Messages that are
// sent as separate log records are combined into one record.
func TestOTLPLogs(t *testing.T) {
	s := start(t)
	span := chatSpan(1)
	require.Nil(t, s.export(marshal(t, tracesOf(span))))
	export := func(records ...*logspb.LogRecord) {
		t.Helper()
		body := marshal(t, &collectlogs.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{
			Resource: &resourcepb.Resource{Attributes: textAttributes("service.name", "chat-web")}, ScopeLogs: []*logspb.ScopeLogs{{LogRecords: records}}}}})
		a := s.do(http.MethodPost, "/otlp/v1/logs", body, "Content-Type", otlp.ProtobufMediaType).want(http.StatusOK)
		require.Empty(t, a.body)
	}
	export(&logspb.LogRecord{EventName: "gen_ai.client.inference.operation.details", TimeUnixNano: 5, TraceId: span.TraceId, SpanId: span.SpanId, Attributes: span.Attributes},
		&logspb.LogRecord{EventName: "exception"})
	require.EqualValues(t, 2, s.size())
	say := func(name, text string) *logspb.LogRecord {
		return &logspb.LogRecord{EventName: name, TimeUnixNano: 9, TraceId: span.TraceId, SpanId: []byte("another8"), Attributes: textAttributes("gen_ai.system", "openai"),
			Body: &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: textAttributes("content", text)}}}}
	}
	for range 2 {
		export(say("gen_ai.system.message", "Be brief."), say("gen_ai.user.message", "Hello"), say("gen_ai.choice", "Hi"))
		require.EqualValues(t, 3, s.size())
	}
	require.Equal(t, "Hi", string(s.get("/records/2/content/output").want(http.StatusOK).body))
	require.Equal(t, "chat-web", s.event(2).Record.Labels["service"])
}

// The response to a failed request is a Status in the media type of the request, as OTLP requires.
func TestOTLPFailures(t *testing.T) {
	s := start(t)
	status := func(a answer, code int, message string) {
		t.Helper()
		gotCode, gotMessage := otlpStatus(t, a.body)
		require.Equal(t, code, gotCode)
		require.Contains(t, gotMessage, message)
	}
	protobuf := []string{"Content-Type", otlp.ProtobufMediaType}
	status(s.do("POST", "/otlp/v1/traces", "\xff", protobuf...).want(400), 3, "as OTLP in Protobuf")
	status(s.do("POST", "/otlp/v1/traces", strings.Repeat("x", 9<<20), protobuf...).want(413), 8, "longer than")
	status(s.do("POST", "/otlp/v1/traces", gzipped(t, strings.Repeat("\x0a\x00", 5<<20)), append(protobuf, "Content-Encoding", "gzip")...).want(413), 8, "longer than")
	status(s.do("POST", "/otlp/v1/traces", "x", append(protobuf, "Content-Encoding", "gzip")...).want(400), 3, "the body")
	status(s.do("POST", "/otlp/v1/traces", "x", append(protobuf, "Content-Encoding", "br")...).want(415), 3, "Content-Encoding")
	status(s.do("POST", "/otlp/v1/traces?x=1", "", protobuf...).want(400), 3, "x")
	status(s.do("POST", s.http.URL+"/v1/ledgers/nowhere/otlp/v1/traces", "", protobuf...).want(404), 5, "no such ledger")
	many := &tracepb.ScopeSpans{}
	for range otlp.MaxItems + 1 {
		many.Spans = append(many.Spans, &tracepb.Span{})
	}
	status(s.do("POST", "/otlp/v1/traces", marshal(t, &collecttraces.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{many}}}}), protobuf...).want(413), 8, "send fewer")
	s.do("POST", "/otlp/v1/traces", "", "Content-Type", "text/plain").problem(http.StatusUnsupportedMediaType)
	var inJSON struct {
		Code    int
		Message string
	}
	a := s.do("POST", "/otlp/v1/logs", "{", "Content-Type", "application/json").want(400)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	a.json(&inJSON)
	require.Equal(t, 3, inJSON.Code)
	require.Contains(t, inJSON.Message, "as OTLP in JSON")
	for body, pointer := range map[string]string{
		`{"resourceSpans":[]}`:                                  "/resourceSpans: must be sent to /otlp/v1/traces; this request was sent to /otlp/v1/logs",
		`{"resourceLogs":{}}`:                                   "/resourceLogs: must be an array",
		`{"resourceLogs":[{},[{}]]}`:                            "/resourceLogs/1: must be an object",
		`{"resourceLogs":[{"scopeLogs":[{},null]}]}`:            "/resourceLogs/0/scopeLogs/1: must be an object",
		`{"resource_logs":[{"scope_logs":[{"logRecords":1}]}]}`: "/resource_logs/0/scope_logs/0/logRecords: must be an array",
	} {
		s.do("POST", "/otlp/v1/logs", body, "Content-Type", "application/json").want(400).json(&inJSON)
		require.Contains(t, inJSON.Message, pointer)
	}
	require.EqualValues(t, 1, s.size())
	l, err := s.host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, l.Freeze(t.Context()))
	status(s.do("POST", "/otlp/v1/traces", marshal(t, tracesOf(chatSpan(1))), protobuf...).want(403), 7, "frozen")
	require.Nil(t, s.export(marshal(t, tracesOf(chats(1)[1]))), "a span that is not a generation is not refused")
}

// If an exporter is configured with a wrong endpoint, the 404 names the right path.
func TestOTLPWrongPaths(t *testing.T) {
	s := start(t)
	for path, advice := range map[string]string{
		"/v1/traces":                               "spans to /v1/ledgers/LEDGER/otlp/v1/traces; set OTEL_EXPORTER_OTLP_ENDPOINT to a URL that ends in /v1/ledgers/LEDGER/otlp",
		"/v1/logs":                                 "log records to /v1/ledgers/LEDGER/otlp/v1/logs; set",
		"/otlp/v1/traces":                          "spans to /v1/ledgers/LEDGER/otlp/v1/traces; set",
		"/v1/ledgers/default/v1/traces":            "spans to /v1/ledgers/default/otlp/v1/traces; set",
		"/v1/ledgers/default/v1/traces/":           "spans to /v1/ledgers/default/otlp/v1/traces; set",
		"/v1/ledgers/default/otlp/v1/logs/v1/logs": "log records to /v1/ledgers/default/otlp/v1/logs; set",
		"/v1/ledgers/%0a/v1/traces":                "spans to /v1/ledgers/LEDGER/otlp/v1/traces; set",
		"/v1/ledgers/default/otlp":                 "spans to /v1/ledgers/default/otlp/v1/traces and log records to /v1/ledgers/default/otlp/v1/logs; the endpoint URL",
		"/v1/ledgers/default/otlp/v1/metrics":      "does not record metrics; set OTEL_METRICS_EXPORTER=none",
		"/v1/metrics":                              "does not record metrics",
		"/nothing":                                 "/docs lists all routes",
	} {
		for _, media := range []string{otlp.ProtobufMediaType, otlp.JSONMediaType} {
			p := s.do(http.MethodPost, s.http.URL+path, "{}", "Content-Type", media).problem(http.StatusNotFound)
			require.Contains(t, p.Detail, advice, path)
			require.Contains(t, p.Detail, "no route matches this path and method", path)
		}
	}
}

// otlpStatus decodes the code and the message of a google.rpc.Status in Protobuf.
func otlpStatus(t testing.TB, b []byte) (code int, message string) {
	t.Helper()
	require.GreaterOrEqual(t, len(b), 4, "%q", b)
	require.Equal(t, byte(0x08), b[0])
	require.Equal(t, byte(0x12), b[2])
	n, size := binary.Uvarint(b[3:])
	return int(b[1]), string(b[3+size:][:n])
}

// A request with more records than the rate allows is recorded in full. The client's next request
// then gets 429 with a Retry-After header.
func TestOTLPRate(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.RequestRate, c.ServerLimits.BurstDuration = 10, 10e9 })
	require.Nil(t, s.export(marshal(t, tracesOf(chats(250)...))))
	require.EqualValues(t, 251, s.size())
	a := s.do("POST", "/otlp/v1/traces", marshal(t, tracesOf(chatSpan(1000))), "Content-Type", otlp.ProtobufMediaType).want(http.StatusTooManyRequests)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(t, err)
	require.Greater(t, wait, 5)
	code, _ := otlpStatus(t, a.body)
	require.Equal(t, 14, code)
}

// While the ledger accepts no records, exporters get 503 with a Retry-After header.
func TestOTLPWhileTheLedgerTakesNothing(t *testing.T) {
	s := start(t)
	body := marshal(t, tracesOf(chats(3)...))
	l, err := s.host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	a := s.do("POST", "/otlp/v1/traces", body, "Content-Type", otlp.ProtobufMediaType).want(http.StatusServiceUnavailable)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	code, _ := otlpStatus(t, a.body)
	require.Equal(t, 14, code)
}

// startGRPC serves the gRPC calls of a server, and returns a client for them. If limited is true, the
// server's limit on connections applies.
func startGRPC(t *testing.T, s *service, limited bool) (*httptest.Server, *http.Client) {
	api := s.http.Config.Handler.(*Server)
	server := httptest.NewUnstartedServer(nil)
	server.Config = api.GRPCServer()
	if limited {
		server.Listener = api.LimitListener(server.Listener)
	}
	server.Start()
	t.Cleanup(server.Close)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return server, &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// A gRPC call has the same effect as the equivalent HTTP request.
func TestOTLPByGRPC(t *testing.T) {
	s := start(t)
	server, client := startGRPC(t, s, false)
	call := func(service, message string, headers ...string) (status, details string, body []byte) {
		t.Helper()
		flag := byte(0)
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == "Grpc-Encoding" {
				flag, message = 1, gzipped(t, message)
			}
		}
		frame := binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message)))
		r, err := http.NewRequest(http.MethodPost, server.URL+"/opentelemetry.proto.collector."+service+"/Export", strings.NewReader(string(frame)+message))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := client.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err = io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, "application/grpc", answer.Header.Get("Content-Type"))
		text, err := url.PathUnescape(answer.Trailer.Get("Grpc-Message"))
		require.NoError(t, err)
		return answer.Trailer.Get("Grpc-Status") + text, answer.Trailer.Get("Grpc-Status-Details-Bin"), body
	}
	const traces, logs = "trace.v1.TraceService", "logs.v1.LogsService"
	body := marshal(t, tracesOf(chats(200)...))
	for _, headers := range [][]string{nil, {"Grpc-Encoding", "gzip"}, {"Colophon-Ledger", "default"}} {
		status, _, answer := call(traces, body, headers...)
		require.Equal(t, "0", status)
		require.Equal(t, make([]byte, 5), answer)
		require.EqualValues(t, 201, s.size())
	}
	require.Nil(t, s.export(body), "a generation that gRPC has recorded is not recorded again by HTTP")
	require.EqualValues(t, 201, s.size())
	status, _, _ := call(logs, "")
	require.Equal(t, "0", status)

	status, details, _ := call(traces, "\xff")
	require.Equal(t, "3cannot parse the body as OTLP in Protobuf; check its Content-Type and encoding", status)
	raw, err := base64.RawStdEncoding.DecodeString(details)
	require.NoError(t, err)
	code, message := otlpStatus(t, raw)
	require.Equal(t, status, strconv.Itoa(code)+message)
	for _, c := range []struct{ service, header, value, want string }{
		{traces, "Colophon-Ledger", "nowhere", "5no such ledger"},
		{traces, "Colophon-Ledger", "../x", `3the value of the metadata key "colophon-ledger"`},
		{"metrics.v1.MetricsService", "X", "", "12this server implements only"},
		{traces, "Grpc-Encoding", "snappy", `12unsupported compression "snappy"; use gzip`},
	} {
		status, _, _ = call(c.service, body, c.header, c.value)
		require.True(t, strings.HasPrefix(status, c.want), status)
	}
	// A truncated message is refused instead of being read as a shorter one.
	r, err := http.NewRequest(http.MethodPost, server.URL+"/opentelemetry.proto.collector.trace.v1.TraceService/Export", strings.NewReader("\x00\x00\x00\x00\x09\x0a\x00"))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/grpc")
	answer, err := client.Do(r)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, answer.Body)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "3", answer.Trailer.Get("Grpc-Status"))

	plain, err := http.Get(server.URL + "/")
	require.NoError(t, err)
	require.NoError(t, plain.Body.Close())
	require.Equal(t, http.StatusUnsupportedMediaType, plain.StatusCode)
}

// The number of gRPC calls whose message has not arrived is limited, like that of other requests over
// HTTP/2. A call that is refused can be repeated.
func TestWaitingCallsByGRPCAreLimited(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxConnections = 8 })
	api := s.http.Config.Handler.(*Server)
	server, client := startGRPC(t, s, true)
	begin := func() (message *io.PipeWriter, status chan string) {
		body, message := io.Pipe()
		r, err := http.NewRequest(http.MethodPost, server.URL+"/opentelemetry.proto.collector.trace.v1.TraceService/Export", body)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/grpc")
		status = make(chan string, 1)
		go func() {
			answer, err := client.Do(r)
			if err != nil {
				status <- err.Error()
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			status <- answer.Trailer.Get("Grpc-Status")
		}()
		return message, status
	}
	var messages []*io.PipeWriter
	var statuses []chan string
	for n := range 4 {
		message, status := begin()
		messages, statuses = append(messages, message), append(statuses, status)
		require.Eventually(t, func() bool { return api.shared.Limiter.StreamSlots.InUse() == n+1 }, patience, time.Millisecond)
	}
	refused, status := begin()
	require.Equal(t, "14", <-status)
	_ = refused.Close()
	require.EqualValues(t, 1, s.refusals(limits.ReasonConnections))
	for i, message := range messages { // each call needs only the slot that it has
		_, err := message.Write(make([]byte, 5))
		require.NoError(t, err)
		require.NoError(t, message.Close())
		require.Equal(t, "0", <-statuses[i])
	}
	require.Eventually(t, func() bool { return api.shared.Limiter.StreamSlots.InUse() == 0 }, patience, time.Millisecond)
}

// A gRPC call whose message does not arrive in time can be repeated.
func TestSlowCallsByGRPC(t *testing.T) {
	s := start(t, func(c *Config) { c.BodyTimeout = soon })
	server, client := startGRPC(t, s, false)
	for _, begin := range []string{"", "\x00", "\x00\x00\x00\x00\x09\x0a"} {
		body, message := io.Pipe()
		r, err := http.NewRequest(http.MethodPost, server.URL+"/opentelemetry.proto.collector.trace.v1.TraceService/Export", body)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/grpc")
		go func() { _, _ = io.WriteString(message, begin) }()
		answer, err := client.Do(r)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, answer.Body)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, message.Close())
		require.Equal(t, "14", answer.Trailer.Get("Grpc-Status"), "%q", begin)
		details, err := base64.RawStdEncoding.DecodeString(answer.Trailer.Get("Grpc-Status-Details-Bin"))
		require.NoError(t, err)
		require.Contains(t, string(details), "google.rpc.RetryInfo")
	}
}
