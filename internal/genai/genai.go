// Package genai reads generations from telemetry. It turns spans and log records in the dialects of
// OpenTelemetry, OpenLLMetry, and OpenInference into IPC records. The tables in docs/otlp.md
// describe the conversion.
//
// The package does no I/O and reads no clock.
package genai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

const (
	// MaxAttributes is the maximum number of attributes of a span or log record. The events of a
	// span and their attributes count as well.
	MaxAttributes = 10_000
	// MaxAttributeDepth is the maximum nesting depth of an attribute value.
	MaxAttributeDepth = 64
)

// LabelLimits limits the labels of a record: MaxLabels is the maximum number of labels, and
// MaxValueBytes is the maximum length of a value in bytes.
type LabelLimits struct{ MaxLabels, MaxValueBytes int }

// Item is the result of reading a span, a log record, or all log records with the messages of one
// generation.
type Item struct {
	// Record is the IPC record of the generation as JSON, or nil if the item is not a generation.
	// The caller owns it.
	Record []byte
	// IdempotencyKey is the idempotency key of the record. Two records have the same key if they
	// report the same generation. This is the case if they agree in one of these ways:
	//   - the same span, model, payload, system prompt, and output
	//   - the same trace, response ID, messages, system prompt, and output
	IdempotencyKey string
	// Source names the item in error messages.
	Source string
	Count  int // number of spans or log records in the item
	// Err is the reason why a generation has no record.
	Err error
}

// ReadSpans reads the spans of a request and yields one item for each span.
func (l LabelLimits) ReadSpans(list []*tracepb.ResourceSpans) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		r := NewReader(l)
		for _, of := range list {
			r.SetResource(of.GetResource())
			for _, scope := range of.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					if span != nil && !yield(r.ReadSpan(span)) {
						return
					}
				}
			}
		}
	}
}

// ReadLogRecords reads the log records of a request. The messages of one generation can be spread
// over several records, which are combined into one item. These items are yielded at the end.
func (l LabelLimits) ReadLogRecords(list []*logspb.ResourceLogs) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		r := NewReader(l)
		var messages MessageCollector
		for i, of := range list {
			r.SetResource(of.GetResource())
			for _, scope := range of.GetScopeLogs() {
				for _, record := range scope.GetLogRecords() {
					switch {
					case record == nil:
					case IsMessage(record):
						messages.Add(record, of.GetResource(), i)
					case !yield(r.ReadLogRecord(record)):
						return
					}
				}
			}
		}
		for item := range messages.Items(r) {
			if !yield(item) {
				return
			}
		}
	}
}

// Reader reads one item at a time and reuses its memory. It is not safe for concurrent use.
type Reader struct {
	limits   LabelLimits
	resource attributes
	source   source
	parser   parser
	calls    map[string]string // maps the IDs of tool calls to the names that replace them
}

// NewReader returns a Reader that keeps the labels of each record within the given limits.
func NewReader(l LabelLimits) *Reader {
	return &Reader{limits: l, resource: make(attributes), source: source{attributes: make(attributes)}, calls: make(map[string]string)}
}

// SetResource sets the resource that the following items come from.
func (r *Reader) SetResource(resource *resourcepb.Resource) {
	clear(r.resource)
	r.resource.add(resource.GetAttributes())
}

// source holds the contents of a span or a log record.
type source struct {
	attributes
	trace, span, parent []byte // IDs; each is nil if invalid
	start, end          uint64 // nanoseconds since 1970; 0 if unknown
	failed              bool
	title               string  // the name of a span
	exception           string  // the type of the exception that a span reports
	events              []event // messages that were sent as events
}

// event is a message that was sent as an event. text is the message as JSON.
type event struct {
	name string
	text []byte
}

// begin discards the previous item.
func (r *Reader) begin() {
	clear(r.source.attributes)
	clear(r.calls)
	r.parser.reset()
	r.source = source{attributes: r.source.attributes, events: r.source.events[:0]}
}

// identify sets the trace ID and the span ID if they are valid.
func (s *source) identify(trace, span []byte) {
	if len(trace) == 16 && !isZero(trace) {
		s.trace = trace
	}
	if len(span) == 8 && !isZero(span) {
		s.span = span
	}
}

func isZero(id []byte) bool {
	for _, b := range id {
		if b != 0 {
			return false
		}
	}
	return true
}

// runID returns the run_id, which has the form <trace ID>-<span ID>, with both IDs written as
// in a traceparent header. It returns "" if one of the IDs is not valid.
func (s *source) runID() string {
	if s.trace == nil || s.span == nil {
		return ""
	}
	return hex.EncodeToString(s.trace) + "-" + hex.EncodeToString(s.span)
}

// ReadSpan reads a span. The returned item does not refer to the span.
func (r *Reader) ReadSpan(span *tracepb.Span) Item {
	r.begin()
	s := &r.source
	s.identify(span.GetTraceId(), span.GetSpanId())
	item := Item{Count: 1, Source: s.describe("span")}
	total := len(span.GetAttributes())
	for _, e := range span.GetEvents() {
		total += 1 + len(e.GetAttributes())
	}
	s.title = span.GetName()
	s.add(span.GetAttributes())
	if total > MaxAttributes {
		if s.isGeneration(true) {
			item.Err = fmt.Errorf("the span has %d attributes and events, but the limit is %d", total, MaxAttributes)
		}
		return item
	}
	s.start, s.end = span.GetStartTimeUnixNano(), span.GetEndTimeUnixNano()
	s.failed = span.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR
	if parent := span.GetParentSpanId(); len(parent) == 8 && !isZero(parent) {
		s.parent = parent
	}
	for _, e := range span.GetEvents() {
		if item.Err = s.addSpanEvent(e); item.Err != nil {
			return item
		}
	}
	if !s.isGeneration(len(s.events) > 0) {
		return item
	}
	return r.finish(item)
}

// addSpanEvent adds the information in a span event: a message, attributes that the span itself
// lacks, or the type of an exception.
func (s *source) addSpanEvent(e *tracepb.Span_Event) error {
	switch name := e.GetName(); {
	case messageEvents[name] != "":
		text, err := appendEventMessage(nil, e.GetAttributes())
		if err != nil {
			return err
		}
		s.events = append(s.events, event{name, text})
	case name == detailsEvent, name == "gen_ai.content.prompt", name == "gen_ai.content.completion":
		s.add(e.GetAttributes())
	case name == "exception":
		for _, kv := range e.GetAttributes() {
			if kv.GetKey() == "exception.type" {
				s.exception = textOf(kv.GetValue())
			}
		}
	}
	return nil
}

// ReadLogRecord reads a log record that is not a message (see MessageCollector). The returned item does not
// refer to the log record.
func (r *Reader) ReadLogRecord(record *logspb.LogRecord) Item {
	item := Item{Count: 1}
	if eventName(record) != detailsEvent {
		return item
	}
	r.begin()
	s := &r.source
	s.fromLog(record)
	item.Source = s.describe("log record")
	if len(record.GetAttributes()) > MaxAttributes {
		item.Err = fmt.Errorf("the log record has %d attributes, but the limit is %d", len(record.GetAttributes()), MaxAttributes)
		return item
	}
	s.add(record.GetAttributes())
	s.add(record.GetBody().GetKvlistValue().GetValues())
	if s.isOtherOperation() {
		return item
	}
	return r.finish(item)
}

// fromLog sets the IDs and the start time to those of a log record.
func (s *source) fromLog(record *logspb.LogRecord) {
	s.identify(record.GetTraceId(), record.GetSpanId())
	if s.start = record.GetTimeUnixNano(); s.start == 0 {
		s.start = record.GetObservedTimeUnixNano()
	}
}

// eventName returns the name of the event that a log record represents, or "" if it represents
// none.
func eventName(record *logspb.LogRecord) string {
	if name := record.GetEventName(); name != "" {
		return name
	}
	for _, a := range record.GetAttributes() {
		if a.GetKey() == "event.name" {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// describe returns a description of the item for error messages. kind is the kind of item, such as
// "span".
func (s *source) describe(kind string) string {
	if s.span == nil || s.trace == nil {
		return kind + " without valid ids"
	}
	if kind == "span" {
		return fmt.Sprintf("span %x of trace %x", s.span, s.trace)
	}
	return fmt.Sprintf("%s of span %x of trace %x", kind, s.span, s.trace)
}

// finish sets the record and the key of an item from r.source. If that fails, it sets the item's
// error.
func (r *Reader) finish(item Item) Item {
	g, err := r.generation()
	if err != nil {
		item.Err = err
		return item
	}
	item.Record = g.record(r)
	id, what := r.source.runID(), g.digest()
	switch response := r.source.text(responseNames...); {
	case id == "":
		// Without IDs, only the timestamp in the record distinguishes a generation that was
		// repeated from one that was exported twice.
		id, what = "none", sha256.Sum256(item.Record)
	case response != "" && g.sent && g.output != nil:
		// The span of a framework can wrap the span of the provider's client. If both have the same
		// response ID, they report the same generation.
		id, what = hexText(r.source.trace), digestOf([]byte("response"), []byte(response), g.input[:], g.system, g.output)
	}
	item.IdempotencyKey = "otlp:" + id + ":" + hex.EncodeToString(what[:16])
	return item
}

// messageGroup holds the messages of one generation. Each message is a log record.
type messageGroup struct {
	resource *resourcepb.Resource
	records  []*logspb.LogRecord
	answered bool // true if one of the records is a choice event
}

// MessageCollector collects the log records that are chat messages and groups them by generation.
// Records with the same trace ID and span ID belong to the same generation. If records have no span
// ID, only records of one resource belong together, and the first message after a choice that is not
// a choice itself begins the next generation. The zero MessageCollector is ready for use.
type MessageCollector struct {
	list []*messageGroup
	of   map[string]*messageGroup
}

// IsMessage reports whether a log record is a single chat message.
func IsMessage(record *logspb.LogRecord) bool { return messageEvents[eventName(record)] != "" }

// Add adds a log record that is a message. The MessageCollector retains record. number identifies
// the resource among those of the request.
func (m *MessageCollector) Add(record *logspb.LogRecord, resource *resourcepb.Resource, number int) {
	id := string(record.GetTraceId()) + "/" + string(record.GetSpanId())
	noSpan := isZero(record.GetSpanId())
	if noSpan {
		id += "/" + strconv.Itoa(number)
	}
	choice := eventName(record) == choiceEvent
	g := m.of[id]
	if g == nil || noSpan && g.answered && !choice {
		if m.of == nil {
			m.of = make(map[string]*messageGroup)
		}
		g = &messageGroup{resource: resource}
		m.of[id], m.list = g, append(m.list, g)
	}
	g.records = append(g.records, record)
	g.answered = g.answered || choice
}

// Empty reports whether there are no messages.
func (m *MessageCollector) Empty() bool { return len(m.list) == 0 }

// Items yields one item for each generation, in the order of their first messages.
func (m *MessageCollector) Items(r *Reader) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for _, g := range m.list {
			r.SetResource(g.resource)
			if !yield(r.messageGroup(g)) {
				return
			}
		}
	}
}

func (r *Reader) messageGroup(g *messageGroup) Item {
	r.begin()
	s := &r.source
	s.fromLog(g.records[0])
	item := Item{Count: len(g.records), Source: s.describe("messages")}
	total := 0
	for _, record := range g.records {
		if total += 1 + len(record.GetAttributes()); total > MaxAttributes {
			item.Err = fmt.Errorf("the messages and their attributes exceed the limit of %d in total", MaxAttributes)
			return item
		}
		s.add(record.GetAttributes())
		text, err := appendLogMessage(nil, record)
		if err != nil {
			item.Err = err
			return item
		}
		s.events = append(s.events, event{eventName(record), text})
	}
	if s.isOtherOperation() {
		return item
	}
	return r.finish(item)
}

// attributes maps the names of an item's attributes to their values. If a name occurs twice, the
// first value is used.
type attributes map[string]*commonpb.AnyValue

func (a attributes) add(list []*commonpb.KeyValue) {
	for _, kv := range list {
		if v := kv.GetValue(); v.GetValue() != nil && v.GetStringValue() != redacted {
			if _, given := a[kv.GetKey()]; !given {
				a[kv.GetKey()] = v
			}
		}
	}
}

// redacted is the value that OpenInference puts in place of hidden content. Attributes with this
// value are ignored.
const redacted = "__REDACTED__"

func hexText(b []byte) string { return hex.EncodeToString(b) }
