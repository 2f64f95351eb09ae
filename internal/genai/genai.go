// Package genai reads generations from telemetry. It turns spans and log records in the dialects
// of OpenTelemetry, OpenLLMetry, and OpenInference into IPC records. docs/otlp.md has the tables.
//
// The package does no I/O and reads no clock.
package genai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// MaxAttributes limits the attributes of a span or log record, with those of its events.
// MaxDepth limits how deep the value of an attribute nests.
const (
	MaxAttributes = 10_000
	MaxDepth      = 64
)

// Limits are the limits for the labels of a record: their number, and the bytes of a value.
type Limits struct{ Labels, LabelBytes int }

// Item is a span, a log record, or several log records that belong together.
type Item struct {
	// Record is the IPC record of the generation in JSON, or nil if the item is no generation.
	// It belongs to the caller.
	Record []byte
	// Key is the idempotency key of the record. Two records have the same key if they come
	// from the same span and have the same model, payload, system prompt, and output.
	Key string
	// Source names the item in messages.
	Source string
	Count  int // spans or log records of the item
	// Err says why a generation has no record.
	Err error
}

// Spans reads the spans of a request, one item for each.
func (l Limits) Spans(list []*tracepb.ResourceSpans) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		r := newReader(l)
		for _, of := range list {
			r.setResource(of.GetResource())
			for _, scope := range of.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					if span != nil && !yield(r.span(span)) {
						return
					}
				}
			}
		}
	}
}

// LogRecords reads the log records of a request. The messages of one generation can be several
// records; they become one item, at the end.
func (l Limits) LogRecords(list []*logspb.ResourceLogs) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		r := newReader(l)
		groups := newMessageGroups()
		for _, of := range list {
			r.setResource(of.GetResource())
			for _, scope := range of.GetScopeLogs() {
				for _, record := range scope.GetLogRecords() {
					if record == nil || groups.add(record, of.GetResource()) {
						continue
					}
					if !yield(r.logRecord(record)) {
						return
					}
				}
			}
		}
		for _, g := range groups.list {
			r.setResource(g.resource)
			if !yield(r.messageGroup(g)) {
				return
			}
		}
	}
}

// reader reads one item after the other, and reuses its memory.
type reader struct {
	limits   Limits
	resource attributes
	source   source
	parser   parser
	calls    map[string]string // the names that replace the ids of tool calls
}

func newReader(l Limits) *reader {
	return &reader{limits: l, resource: make(attributes), source: source{attributes: make(attributes)}, calls: make(map[string]string)}
}

func (r *reader) setResource(resource *resourcepb.Resource) {
	clear(r.resource)
	r.resource.add(resource.GetAttributes())
}

// source is what a span or a log record says.
type source struct {
	attributes
	trace, span, parent []byte // nil unless valid
	start, end          uint64 // nanoseconds since 1970; 0 means unknown
	failed              bool
	events              []event // messages in the form of events
}

// event is a message in the form of an event, in JSON.
type event struct {
	name string
	text []byte
}

// begin forgets the previous item.
func (r *reader) begin() {
	clear(r.source.attributes)
	clear(r.calls)
	r.parser.reset()
	r.source = source{attributes: r.source.attributes, events: r.source.events[:0]}
}

// identify sets the ids, if they are valid.
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

// runID returns the run_id: trace id and span id as in a traceparent header, or "".
func (s *source) runID() string {
	if s.trace == nil || s.span == nil {
		return ""
	}
	return hex.EncodeToString(s.trace) + "-" + hex.EncodeToString(s.span)
}

func (r *reader) span(span *tracepb.Span) Item {
	r.begin()
	s := &r.source
	s.identify(span.GetTraceId(), span.GetSpanId())
	item := Item{Count: 1, Source: s.name("span")}
	total := len(span.GetAttributes())
	for _, e := range span.GetEvents() {
		total += 1 + len(e.GetAttributes())
	}
	s.add(span.GetAttributes())
	if total > MaxAttributes {
		if s.isGeneration(true) {
			item.Err = fmt.Errorf("it has %d attributes and events, but at most %d are allowed", total, MaxAttributes)
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

// addSpanEvent adds a message, or the attributes that the span itself lacks.
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
	}
	return nil
}

func (r *reader) logRecord(record *logspb.LogRecord) Item {
	item := Item{Count: 1}
	if eventName(record) != detailsEvent {
		return item
	}
	r.begin()
	s := &r.source
	s.fromLog(record)
	item.Source = s.name("log record")
	if len(record.GetAttributes()) > MaxAttributes {
		item.Err = fmt.Errorf("it has %d attributes, but at most %d are allowed", len(record.GetAttributes()), MaxAttributes)
		return item
	}
	s.add(record.GetAttributes())
	s.add(record.GetBody().GetKvlistValue().GetValues())
	if s.isOtherOperation() {
		return item
	}
	return r.finish(item)
}

// fromLog sets what log records have in common.
func (s *source) fromLog(record *logspb.LogRecord) {
	s.identify(record.GetTraceId(), record.GetSpanId())
	if s.start = record.GetTimeUnixNano(); s.start == 0 {
		s.start = record.GetObservedTimeUnixNano()
	}
}

// eventName returns the name of the event that a log record reports.
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

// name names an item in messages.
func (s *source) name(what string) string {
	if s.span == nil || s.trace == nil {
		return what + " without valid ids"
	}
	if what == "span" {
		return fmt.Sprintf("span %x of trace %x", s.span, s.trace)
	}
	return fmt.Sprintf("%s of span %x of trace %x", what, s.span, s.trace)
}

// finish makes the record of the current source.
func (r *reader) finish(item Item) Item {
	g, err := r.generation()
	if err != nil {
		item.Err = err
		return item
	}
	item.Record = g.record(r)
	id, what := r.source.runID(), g.digest()
	if id == "" {
		// Without ids, only its time tells a repeated generation from a repeated export.
		id, what = "none", sha256.Sum256(item.Record)
	}
	item.Key = "otlp:" + id + ":" + hex.EncodeToString(what[:16])
	return item
}

// messageGroup is the messages of one generation, each a log record.
type messageGroup struct {
	resource *resourcepb.Resource
	records  []*logspb.LogRecord
	answered bool // has a choice
}

// messageGroups finds the log records that belong to one generation: those with the same ids.
// Records without ids belong together until a message follows a choice.
type messageGroups struct {
	list []*messageGroup
	of   map[string]*messageGroup
}

func newMessageGroups() *messageGroups { return &messageGroups{of: make(map[string]*messageGroup)} }

// add adds a log record to its group. It reports whether the record is a message.
func (m *messageGroups) add(record *logspb.LogRecord, resource *resourcepb.Resource) bool {
	name := eventName(record)
	if messageEvents[name] == "" {
		return false
	}
	id := string(record.GetTraceId()) + "/" + string(record.GetSpanId())
	g := m.of[id]
	if g == nil || isZero(record.GetSpanId()) && g.answered && name != choiceEvent {
		g = &messageGroup{resource: resource}
		m.of[id], m.list = g, append(m.list, g)
	}
	g.records = append(g.records, record)
	g.answered = g.answered || name == choiceEvent
	return true
}

func (r *reader) messageGroup(g *messageGroup) Item {
	r.begin()
	s := &r.source
	s.fromLog(g.records[0])
	item := Item{Count: len(g.records), Source: s.name("messages")}
	total := 0
	for _, record := range g.records {
		if total += 1 + len(record.GetAttributes()); total > MaxAttributes {
			item.Err = fmt.Errorf("they have more than %d attributes and messages", MaxAttributes)
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

// attributes are the attributes of an item, by name. Of two with one name, the first counts.
type attributes map[string]*commonpb.AnyValue

func (a attributes) add(list []*commonpb.KeyValue) {
	for _, kv := range list {
		if v := kv.GetValue(); v.GetValue() != nil {
			if _, given := a[kv.GetKey()]; !given {
				a[kv.GetKey()] = v
			}
		}
	}
}

func hexText(b []byte) string { return hex.EncodeToString(b) }
