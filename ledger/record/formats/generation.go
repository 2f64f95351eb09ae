package formats

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"colophon/internal/genai"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
)

// generation builds a record from an exported generation, which is one model call in an
// observability tool. It first reconstructs the span that the tool received. The record is then the
// same as if the ledger had received the span itself (docs/otlp.md).
type generation struct {
	*draft
	span       *tracepb.Span
	accounts   []func() // functions that note the outcome for a member or keep it; called after the record is built
	record     pyjson.Value
	payload    pyjson.Value
	parameters bool // whether modelParameters has added the model's parameters to the span
}

func newGeneration(f Format, v pyjson.Value, o Options, parts ...string) *generation {
	return &generation{draft: newDraft(record.KindIPCRecord, key(f, v, nil, parts...), o), span: new(tracepb.Span)}
}

// notGeneration returns a Conversion that leaves out a native value because it is not a generation.
// reason explains why.
func notGeneration(pointer, pattern, reason string) Conversion {
	return Conversion{MemberOutcomes: []MemberOutcome{{pointer, pattern, OutcomeLeftOut, reason}}}
}

func (g *generation) attribute(name string, v *commonpb.AnyValue) {
	g.span.Attributes = append(g.span.Attributes, &commonpb.KeyValue{Key: name, Value: v})
}

func (g *generation) textAttribute(name string, text []byte) {
	g.attribute(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: string(text)}})
}

// valueAttribute adds an attribute to the span. If v is a string, the attribute's value is its
// text; otherwise it is the JSON of v.
func (g *generation) valueAttribute(name string, v pyjson.Value) {
	if v.Kind() == pyjson.String {
		g.textAttribute(name, v.Text())
		return
	}
	g.textAttribute(name, v.Raw())
}

// keep and keepAt are like those of draft, but keep the member after the record is built, because
// the labels of the span itself come first.
func (g *generation) keep(m member) { g.keepAt(pointerTo(m.name), "", m) }

func (g *generation) keepAt(pointer, pattern string, m member) {
	g.accounts = append(g.accounts, func() { g.draft.keepAt(pointer, pattern, m) })
}

// takeAs adds a member to the span as an attribute. as says where the attribute ends up in the
// record. If form rejects the member's value, or the record does not have the value, takeAs keeps
// the member instead.
func (g *generation) takeAs(at place, m member, form func(pyjson.Value) bool, attribute, as string) {
	if !m.value.IsGiven() || !form(m.value) {
		g.keepAt(at.pointer, at.pattern, m)
		return
	}
	g.valueAttribute(attribute, m.value)
	g.accounts = append(g.accounts, func() {
		if as == "model" && !g.holds(as, m.value) {
			as = "environment/model_digest" // the parameters name a different model
		}
		if !g.holds(as, m.value) {
			g.draft.keepAt(at.pointer, at.pattern, m)
			return
		}
		g.note(at.pointer, at.pattern, OutcomeField, "%s", as)
	})
}

// account notes, once the record is built, that a member is in the record at as, or that it was
// left out if nothing is there.
func (g *generation) account(at place, as string) {
	g.accounts = append(g.accounts, func() { g.noteHeld(at, as, pyjson.Value{}, as) })
}

// noteHeld notes that a member is in the record at field, or that it was left out if the record has
// no value or a different one there. as describes the place.
func (g *generation) noteHeld(at place, field string, v pyjson.Value, as string) {
	switch {
	case g.holds(field, v):
		g.note(at.pointer, at.pattern, OutcomeField, "%s", as)
	case g.holds(field, pyjson.Value{}):
		g.note(at.pointer, at.pattern, OutcomeLeftOut, "the record has another value as %s", field)
	default:
		g.note(at.pointer, at.pattern, OutcomeLeftOut, "the value cannot be recorded as %s", field)
	}
}

// holds reports whether the record has a value at field, such as "model" or "labels/provider". If v
// is given, it must be the value of v.
func (g *generation) holds(field string, v pyjson.Value) bool {
	head, name, nested := strings.Cut(field, "/")
	if head == "labels" {
		label, ok := g.labels[name]
		begin, _, short := strings.Cut(label, "…") // genai shortens long labels
		text := string(textOrNumber(v))
		return ok && (!v.IsGiven() || label == text || short && strings.HasPrefix(text, begin))
	}
	held := g.record.Member(head)
	if nested {
		held = held.Member(name)
	}
	return held.IsGiven() && (!v.IsGiven() || sameValue(held, v))
}

// sameValue reports whether two values are equal, apart from the forms of numbers and from JSON in
// strings.
func sameValue(a, b pyjson.Value) bool {
	x, notX := strconv.ParseFloat(strings.TrimSpace(string(textOrNumber(a))), 64)
	y, notY := strconv.ParseFloat(strings.TrimSpace(string(textOrNumber(b))), 64)
	if notX == nil && notY == nil {
		return x == y
	}
	return bytes.Equal(textOrNumber(a), textOrNumber(b)) || bytes.Equal(appendUnwrapped(nil, a, 0), appendUnwrapped(nil, b, 0))
}

// place is a JSON pointer into the native value, with the pattern for that pointer. If the pattern
// is empty, the pointer is also the pattern.
type place struct{ pointer, pattern string }

func (p place) below(name string) place {
	at := pointerTo(name)
	if p.pattern != "" {
		return place{p.pointer + at, p.pattern + at}
	}
	return place{p.pointer + at, ""}
}

func top(name string) place { return place{pointerTo(name), ""} }

// identify decodes m.value into *id. The value must be an OpenTelemetry ID of size bytes (16 or 8)
// in hexadecimal. Otherwise, identify keeps the member under the given label.
func (g *generation) identify(at place, m member, id *[]byte, size int, label string) {
	text := bytes.TrimPrefix(m.value.Text(), []byte("tr-"))
	decoded, err := hex.DecodeString(string(text))
	if err != nil || len(decoded) != size {
		g.keepAt(at.pointer, at.pattern, member{label, m.value})
		return
	}
	*id = decoded
	g.account(at, "labels/"+label)
}

// begin uses a member as the generation's start time, or keeps the member if it is not a time.
func (g *generation) begin(at place, m member) {
	if start, ok := nanoseconds(m.value); ok {
		g.span.StartTimeUnixNano = start
		g.account(at, "timestamp")
		return
	}
	g.keepAt(at.pointer, at.pattern, m)
}

// end uses a member as the generation's end time, or keeps the member if it is not a time.
func (g *generation) end(at place, m member) {
	if end, ok := nanoseconds(m.value); ok {
		g.span.EndTimeUnixNano = end
		g.accounts = append(g.accounts, func() {
			g.noteHeld(at, "usage/duration_ms", pyjson.Value{}, "usage/duration_ms, computed from the start and end times")
		})
		return
	}
	g.keepAt(at.pointer, at.pattern, m)
}

// nanoseconds parses a time and returns it as nanoseconds since 1970. The time is either text or a
// number of seconds, milliseconds, microseconds, or nanoseconds since 1970. Text without a zone is
// assumed to be in UTC, because observability tools write such times in UTC.
func nanoseconds(v pyjson.Value) (uint64, bool) {
	if number, ok := v.Float(); ok {
		if number <= 0 {
			return 0, false
		}
		for _, unit := range [...]uint64{1e9, 1e6, 1e3, 1} { // use the largest unit that gives a time before the year 5138
			if number >= 1e20/float64(unit) {
				continue
			}
			if whole, err := strconv.ParseUint(string(v.Raw()), 10, 64); err == nil {
				return whole * unit, true
			}
			return uint64(math.Round(number * float64(unit))), true
		}
		return 0, false
	}
	text, _, ok := parseTime(v, time.UTC)
	if !ok {
		if number, err := strconv.ParseUint(string(v.Text()), 10, 63); err == nil && number > 1e17 {
			return number, true // nanoseconds as a decimal string, as in the JSON encoding of protobuf
		}
		return 0, false
	}
	at, ok := moment.Parse([]byte(text))
	if !ok || at.Unix() < 0 {
		return 0, false
	}
	return uint64(at.UnixNano()), true
}

// input uses a member as the generation's input.
func (g *generation) input(at place, m member) {
	v, _ := jsonOf(m.value)
	if !v.IsGiven() {
		v = m.value
	}
	switch {
	case !m.value.IsGiven():
		g.keepAt(at.pointer, at.pattern, m)
		return
	case v.Kind() == pyjson.Object && v.Member("input").IsGiven() && !v.Member("messages").IsGiven(): // an input in the format of OpenAI's Responses API
		g.valueAttribute("input.value", asChat(v.Member("input")))
		if instructions := v.Member("instructions"); instructions.IsGiven() {
			g.valueAttribute("gen_ai.system_instructions", instructions)
		}
	default:
		g.valueAttribute("input.value", m.value)
	}
	g.accounts = append(g.accounts, func() { g.noteInput(at) })
}

// asChat converts a string to a list with a single user message, because a chat input can also be
// plain text. It returns any other value unchanged.
func asChat(v pyjson.Value) pyjson.Value {
	if v.Kind() != pyjson.String {
		return v
	}
	var w pyjson.Builder
	w.Buf = append(w.Buf, '[')
	w.BeginObject()
	w.AddText("role", []byte("user"))
	w.AddText("content", v.Text())
	w.EndObject()
	return parseOwn(append(w.Buf, ']'))
}

// parseOwn parses JSON that this package has written. It returns the absent Value if the JSON is
// invalid.
func parseOwn(text []byte) pyjson.Value {
	d := new(pyjson.Document)
	if d.Parse(text) != nil {
		return pyjson.Value{}
	}
	return d.Root()
}

// noteInput notes where the record has the input.
func (g *generation) noteInput(at place) {
	for _, name := range [...]string{"messages", "prompt", "input"} {
		if g.payload.Member(name).IsGiven() {
			as := "payload/" + name
			if g.record.Member("system_prompt").IsGiven() {
				as += " and system_prompt"
			}
			g.note(at.pointer, at.pattern, OutcomeField, "%s", as)
			return
		}
	}
	g.note(at.pointer, at.pattern, OutcomeLeftOut, "the input has no content")
}

// output uses a member as the generation's output.
func (g *generation) output(at place, m member) {
	v, _ := jsonOf(m.value)
	switch {
	case !m.value.IsGiven():
		g.keepAt(at.pointer, at.pattern, m)
		return
	case v.Kind() == pyjson.Object && v.Member("role").IsGiven(): // a single message
		g.textAttribute("output.value", append(append([]byte{'['}, v.Raw()...), ']'))
	default:
		g.valueAttribute("output.value", m.value)
	}
	g.account(at, "output")
}

// sampling maps the names that tools use for model parameters to the record fields that hold them.
var sampling = map[string]string{
	"temperature": "temperature", "seed": "seed", "random_seed": "seed", "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens",
	"max_output_tokens": "max_tokens", "max_new_tokens": "max_tokens", "num_predict": "max_tokens", "model": "model", "stop_sequences": "payload/stop",
}

// modelParameters adds the model's parameters to the span. others is true if m can also contain
// members that are not parameters; in that case, the caller accounts for m.
func (g *generation) modelParameters(at place, m member, others bool) {
	v, _ := jsonOf(m.value)
	if v.Kind() != pyjson.Object {
		if !others {
			g.keepAt(at.pointer, at.pattern, m)
		}
		return
	}
	if g.parameters {
		if !others {
			g.keepAt(at.pointer, at.pattern, m)
		}
		return
	}
	g.parameters = true
	g.textAttribute("llm.invocation_parameters", v.Raw())
	if others {
		return
	}
	g.accounts = append(g.accounts, func() {
		for name, value := range v.Members() {
			n := string(name.Text())
			below := at.below(n)
			field := sampling[n]
			if field == "" && g.payload.Member(n).IsGiven() {
				field = "payload/" + n
			}
			switch {
			case !value.IsGiven():
				g.note(below.pointer, below.pattern, OutcomeLeftOut, DetailNull)
			case field != "":
				g.noteHeld(below, field, value, field)
			default:
				g.note(below.pointer, below.pattern, OutcomeLeftOut, "the parameter is not known to affect the output and could be a credential")
			}
		}
	})
}

// tokenCounts maps the names that tools use for token counts to the names in a record's usage.
var tokenCounts = map[string]string{
	"input": "input_tokens", "output": "output_tokens", "input_tokens": "input_tokens", "output_tokens": "output_tokens",
	"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens",
}

// tokens adds the token counts in m that are named in tokenCounts to the span, and keeps all the
// other members of m.
func (g *generation) tokens(at place, m member) {
	v, _ := jsonOf(m.value)
	if v.Kind() != pyjson.Object {
		g.keepAt(at.pointer, at.pattern, m)
		return
	}
	for name, value := range v.Members() {
		n := string(name.Text())
		below := at.below(n)
		if count := tokenCounts[n]; count != "" {
			g.takeAs(below, member{m.name + "/" + n, value}, isCount, "gen_ai.usage."+count, "usage/"+count)
			continue
		}
		g.keepAt(below.pointer, below.pattern, member{m.name + "/" + n, value})
	}
}

// failed marks the span as a failed generation.
func (g *generation) failed() {
	g.span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
}

// operation is the name of the attribute that identifies a span as a generation.
const operation = "gen_ai.operation.name"

// complete converts the span to a record and returns the finished Conversion.
func (g *generation) complete() Conversion {
	limits := genai.LabelLimits{MaxLabels: max(0, g.options.Limits.MaxLabels-reservedLabels-len(g.labels)), MaxValueBytes: g.options.Limits.MaxLabelBytes}
	one := []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{g.span}}}}}
	for item := range limits.ReadSpans(one) {
		if item.Err != nil {
			return g.leave("%s", strings.TrimPrefix(item.Err.Error(), "it has "))
		}
		if g.record = parseOwn(item.Record); !g.record.IsGiven() {
			return g.leave("the generation cannot be converted to a record")
		}
	}
	g.payload = g.record.Member("payload")
	for name, value := range g.record.Members() {
		switch field := string(name.Text()); field {
		case "labels":
			for label, text := range value.Members() {
				if l := string(label.Text()); l != "operation" { // the operation is the same for all generations
					g.addLabel(l, string(text.Text()))
				}
			}
		case "usage":
			g.usage = value
		default:
			g.raw(field, value.Raw())
		}
	}
	for _, account := range g.accounts {
		account()
	}
	return g.finish()
}

// snake converts a name from camel case to snake case; for example, it converts modelParameters to
// model_parameters.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if 'A' <= r && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isAny(v pyjson.Value) bool { return v.IsGiven() }

// list returns the elements of v if v is an array. Otherwise it returns a list that contains only
// v.
func list(v pyjson.Value) []pyjson.Value {
	if !isArray(v) {
		return []pyjson.Value{v}
	}
	var all []pyjson.Value
	for e := range v.Elements() {
		all = append(all, e)
	}
	return all
}

// elements calls convert for each element of the list v and returns all the resulting Conversions.
// A Conversion without a name is named after the position of its element.
func elements(v pyjson.Value, at place, convert func(pyjson.Value, place) []Conversion) (conversions []Conversion) {
	for i, e := range list(v) {
		one := convert(e, place{at.pointer + "/" + strconv.Itoa(i), at.pointer + "/*"})
		for j := range one {
			if one[j].Name == "" {
				one[j].Name = fmt.Sprintf("%s/%d", strings.TrimPrefix(at.pointer, "/"), i)
			}
		}
		conversions = append(conversions, one...)
	}
	return conversions
}
