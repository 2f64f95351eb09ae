package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"colophon/api/limits"
	"colophon/internal/genai"
)

// shape describes a type of Protobuf message. It maps the number of each field that contains a
// message to the shape of that message.
type shape map[protowire.Number]shape

// The shapes of spans, log records, and resources. They include only messages that a sender can
// repeat without limit.
var (
	keyValueShape = shape{2: nil} // init sets field 2 to anyValueShape, because the two shapes contain each other
	anyValueShape = shape{5: {1: nil}, 6: {1: keyValueShape}}
	resourceShape = shape{1: keyValueShape}
	spanShape     = shape{9: keyValueShape, 11: {3: keyValueShape}, 13: {4: keyValueShape}}
	logShape      = shape{5: anyValueShape, 6: keyValueShape}
)

func init() {
	keyValueShape[2] = anyValueShape
	anyValueShape[5][1] = anyValueShape
}

// maxNesting limits how deeply the messages of an item are nested. Each level of an attribute's
// value consists of at most three nested messages.
const maxNesting = 3*genai.MaxAttributeDepth + 16

// itemMemory is the memory, in bytes, that is counted for each message, string, or byte string in
// an item.
const itemMemory = 160

// jsonCopies is the maximum number of copies of a JSON text in memory, not counting the record. For
// example, the text can be in memory as parsed values, as chat messages, and again as text.
const jsonCopies = 5

// The memory, in bytes, that is counted for an item in addition to its elements and its text.
const (
	recordMemory  = 6 << 10 // for a generation: its record, with all buffers, and its submission
	messageMemory = 512     // for a log record that is a chat message: the structures of the log record and its resource, and a slot in the list of messages
)

// memory returns the memory, in bytes, that the items and the request body need until the request
// ends. body is the length of the body, whose buffer can be twice as long.
func (s *items) memory(body int) int64 { return int64(2*body + listMemory*len(s.list)) }

// textMemory returns the memory, in bytes, needed for the text of an item. The text is held in decoded
// form and again in the resulting record.
func textMemory(raw []byte) int64 { return limits.MemoryBound(raw) + int64(2*len(raw)) }

// resourceMemory returns the memory, in bytes, of the decoded resource at index at, or 0 if at is -1.
func (s *items) resourceMemory(at int) int64 {
	if at < 0 {
		return 0
	}
	raw := s.resources[at]
	return int64(s.elements(raw, resourceShape))*itemMemory + textMemory(raw)
}

// looksLikeJSON reports whether text might be a JSON array or object.
func looksLikeJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '[' || text[0] == '{')
}

// elements estimates how many messages, strings, and byte strings an item or resource contains.
func (s *items) elements(raw []byte, of shape) int {
	if s.json {
		return len(raw) / 8 // a value with its type, such as {"intValue":"1"}, takes more than 8 bytes
	}
	return elements(raw, of, 0)
}

// elements counts the messages, strings, and byte strings in a message. It does not decode the
// message, because a two-byte message takes a hundred times as much memory once it is decoded. Like
// the decoder, it stops where the message is invalid or nested more than maxNesting levels deep.
// depth is the depth of the message itself.
func elements(message []byte, of shape, depth int) (count int) {
	for len(message) > 0 && depth < maxNesting {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			break
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
			break
		}
		if kind == protowire.BytesType {
			count++
			value, _ := protowire.ConsumeBytes(message)
			if inner := of[n]; inner != nil {
				count += elements(value, inner, depth+1)
			} else if looksLikeJSON(value) {
				count += int(jsonCopies * limits.MemoryBound(value) / itemMemory)
			}
		}
		message = message[size:]
	}
	return count
}

// unmarshal decodes an item or resource.
func unmarshal(raw []byte, isJSON bool, into proto.Message) error {
	if isJSON {
		return protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}.Unmarshal(raw, into)
	}
	return proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}.Unmarshal(raw, into)
}

// reading is the state shared by the readers of spans and of log records. It is used by only one
// goroutine.
type reading struct {
	*genai.Reader
	items *items

	at       int // index of the current resource; -1 if there is none
	begun    bool
	resource *resourcepb.Resource
}

// itemReader reads spans or log records.
type itemReader interface {
	// read reads an item. ok is false if the item is a message of a chat, which is read later,
	// together with the other messages.
	read(item) (_ genai.Item, ok bool)
}

// enter makes the resource of an item the current one.
func (r *reading) enter(i item) {
	if r.begun && r.at == i.resource {
		return
	}
	r.begun, r.at, r.resource = true, i.resource, new(resourcepb.Resource)
	if i.resource >= 0 {
		if unmarshal(r.items.resources[i.resource], r.items.json, r.resource) != nil {
			r.resource = new(resourcepb.Resource) // the items are still recorded, because only labels come from the resource
		}
	}
	r.SetResource(r.resource)
}

// spanReader implements itemReader for spans.
type spanReader struct {
	*reading
	span tracepb.Span
}

func (r *spanReader) read(i item) (_ genai.Item, ok bool) {
	r.enter(i)
	r.span.Reset()
	if err := unmarshal(i.raw, r.items.json, &r.span); err != nil {
		return broken("span", err), true
	}
	if r.items.json {
		hexIDs(&r.span.TraceId, &r.span.SpanId, &r.span.ParentSpanId)
	}
	return r.ReadSpan(&r.span), true
}

// logReader implements itemReader for log records. It collects the log records that are chat
// messages in the field messages.
type logReader struct {
	*reading
	record   *logspb.LogRecord
	messages []logMessage
}

// logMessage is a log record that is one message of a chat.
type logMessage struct {
	record   *logspb.LogRecord
	resource *resourcepb.Resource
	number   int // index of the resource; -1 if there is none
}

func (r *logReader) read(i item) (_ genai.Item, ok bool) {
	r.enter(i)
	if r.record == nil {
		r.record = new(logspb.LogRecord)
	}
	r.record.Reset()
	if err := unmarshal(i.raw, r.items.json, r.record); err != nil {
		return broken("log record", err), true
	}
	if r.items.json {
		hexIDs(&r.record.TraceId, &r.record.SpanId)
	}
	if genai.IsMessage(r.record) {
		r.messages = append(r.messages, logMessage{r.record, r.resource, i.resource})
		r.record = nil
		return genai.Item{}, false
	}
	return r.ReadLogRecord(r.record), true
}

// broken returns the item for a span or log record that cannot be decoded. what is "span" or "log
// record".
func broken(what string, err error) genai.Item {
	return genai.Item{Source: what, Count: 1, Err: fmt.Errorf("invalid encoding: %w", err)}
}

// hexIDs corrects ids that were decoded from JSON: OTLP writes ids in hexadecimal digits, but
// protojson has decoded them as base64. An id that is not hexadecimal is left unchanged.
func hexIDs(ids ...*[]byte) {
	for _, id := range ids {
		if decoded, err := hex.DecodeString(base64.RawStdEncoding.EncodeToString(*id)); err == nil {
			*id = decoded
		}
	}
}
