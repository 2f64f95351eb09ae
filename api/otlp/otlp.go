// Package otlp accepts spans and log records from OpenTelemetry exporters, over HTTP or gRPC
// (docs/otlp.md). It records each generation as an IPC record. It accepts everything else that an
// exporter sends, but does not record it.
package otlp

import (
	"mime"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	collectlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	collecttraces "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"

	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/internal/genai"
	"colophon/ledger"
)

// Handlers serves the routes of OTLP.
type Handlers struct {
	*call.ServerState
	Metrics Metrics
}

// The media types of requests and answers.
const (
	ProtobufMediaType = "application/x-protobuf"
	JSONMediaType     = echo.MIMEApplicationJSON
)

// MaxItems is the maximum number of spans or log records in one request.
const MaxItems = 50_000

// Signal describes a kind of telemetry: its routes, and the format of its requests and
// responses.
type Signal struct {
	path    string // HTTP route, relative to the path of the ledger
	service string // the path of its gRPC method
	// jsonNames contains the JSON names of three nested lists: the resources, the scopes of a
	// resource, and the items of a scope. Each list can have alternative names.
	jsonNames [3][]string
	shape     shape // shape of an item
	newReader func(*reading) itemReader
	partial   func(rejected int, message string) proto.Message
}

// The signals that are served.
var (
	SignalTraces = &Signal{
		path: "/otlp/v1/traces", service: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
		jsonNames: [3][]string{{"resourceSpans", "resource_spans"}, {"scopeSpans", "scope_spans"}, {"spans"}},
		shape:     spanShape,
		newReader: func(r *reading) itemReader { return &spanReader{reading: r} },
		partial: func(rejected int, message string) proto.Message {
			answer := new(collecttraces.ExportTraceServiceResponse)
			if rejected > 0 {
				answer.PartialSuccess = &collecttraces.ExportTracePartialSuccess{RejectedSpans: int64(rejected), ErrorMessage: message}
			}
			return answer
		},
	}
	SignalLogs = &Signal{
		path: "/otlp/v1/logs", service: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
		jsonNames: [3][]string{{"resourceLogs", "resource_logs"}, {"scopeLogs", "scope_logs"}, {"logRecords", "log_records"}},
		shape:     logShape,
		newReader: func(r *reading) itemReader { return &logReader{reading: r} },
		partial: func(rejected int, message string) proto.Message {
			answer := new(collectlogs.ExportLogsServiceResponse)
			if rejected > 0 {
				answer.PartialSuccess = &collectlogs.ExportLogsPartialSuccess{RejectedLogRecords: int64(rejected), ErrorMessage: message}
			}
			return answer
		},
	}
	signals = []*Signal{SignalTraces, SignalLogs}
)

// Path returns the part of the route after the path of the ledger.
func (s *Signal) Path() string { return s.path }

// mediaOf returns the media type of a request and of its response. The result is Protobuf, JSON,
// or "" for any other type.
func mediaOf(r *http.Request) string {
	media, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	if err != nil || media != ProtobufMediaType && media != JSONMediaType {
		return ""
	}
	return media
}

// ExportHandler returns the handler that records the generations (calls to a language model) in a
// request of the given signal.
func (h *Handlers) ExportHandler(signal *Signal) call.Handler {
	return func(c *call.Call) error {
		l, err := c.Ledger()
		if err != nil {
			return err
		}
		if err := c.ParseParameters(); err != nil {
			return err
		}
		media := mediaOf(c.Request())
		if media == "" {
			return problem.New(http.StatusUnsupportedMediaType, "Content-Type must be %s or %s", ProtobufMediaType, JSONMediaType)
		}
		open, err := limits.Decompressor(c.Request().Header.Get(echo.HeaderContentEncoding), c.HoldWriteMemory)
		if err != nil {
			return err
		}
		who := c.LimitKey()
		if err := h.Limiter.Rates.CheckLineDebt(who); err != nil {
			return err
		}
		if !h.Limiter.BatchSlots.TakeShare(who) {
			return limits.NewRejectedError(limits.ReasonBatches, http.StatusServiceUnavailable, time.Second,
				"too many batches are open, from this caller or in total (limit %d); try again later", h.Limiter.Limits.MaxBatches)
		}
		defer h.Limiter.BatchSlots.Release(who)
		body, err := c.ReadEncodedBody(open)
		if err != nil {
			return err
		}
		defer body.Release()
		result, err := h.record(c, l, signal, media, body)
		if result != nil {
			h.Metrics.count(result)
			h.Limiter.Rates.ChargeLines(who, result.recorded)
		}
		if err != nil {
			return err
		}
		c.MarkCommitted()
		return answer(c, media, signal.partial(result.rejected, result.message()))
	}
}

// record records the generations of a body. After an error, a client can repeat the request, which
// then adds only the missing records.
func (h *Handlers) record(c *call.Call, l *ledger.Ledger, signal *Signal, media string, body *call.Body) (*result, error) {
	items, err := split(signal, media, body.Bytes(), h.RecordLimits.MaxJSONValues, func(n int64) error { return body.ReserveMemory(c.Request().Context(), n) })
	if err != nil {
		return nil, err
	}
	// From here on, each chunk reserves memory for its own items.
	body.ShrinkMemoryTo(items.memory(body.Len()))
	values := h.RecordLimits.WithPayloadMemberSecret(l.PayloadMemberSecret())
	e := &export{
		Handlers: h, ledger: l, signal: signal, items: items, actor: c.Actor(), holder: c.Holder(), hashes: l.Settings().TelemetryContent == ledger.TelemetryContentHashes, values: values,
		labels:         genai.LabelLimits{MaxLabels: values.MaxLabels, MaxValueBytes: values.MaxLabelBytes},
		maxChunkMemory: h.Limiter.WriteMemory.MaxBytes/2 - body.ReservedMemory(),
	}
	return e.run(c.Request().Context())
}

// answer sends message as a 200 response in the media type of the request.
func answer(c *call.Call, media string, message proto.Message) error {
	reply := call.NewBuffer()
	defer reply.Release()
	var err error
	if media == JSONMediaType {
		reply.Text, err = protojson.MarshalOptions{}.MarshalAppend(reply.Text, message)
	} else {
		reply.Text, err = proto.MarshalOptions{}.MarshalAppend(reply.Text, message)
	}
	if err != nil {
		return err
	}
	return reply.Send(c, http.StatusOK, media)
}
