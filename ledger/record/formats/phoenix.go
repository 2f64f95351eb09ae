package formats

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"colophon/ledger/record/pyjson"
)

// hexOfBase64 converts an id of size bytes from base64 to hexadecimal. It returns any other value
// unchanged.
func hexOfBase64(v pyjson.Value, size int) pyjson.Value {
	decoded, err := base64.StdEncoding.DecodeString(string(v.Text()))
	if err != nil || len(decoded) != size || len(v.Text()) == 2*size {
		return v
	}
	return parseOwn(pyjson.AppendString(nil, hex.AppendEncode(nil, decoded)))
}

// phoenix converts spans from Phoenix. v is either a row of a dataframe, whose column names contain
// dots, or a span or a page of spans from the API.
func phoenix(v pyjson.Value, o Options) []Conversion {
	if page := v.Member("data"); isArray(page) {
		conversions := elements(page, top("data"), func(e pyjson.Value, at place) []Conversion { return []Conversion{phoenixSpan(e, o, at)} })
		return append(conversions, leaveRest(v, "data", "the member applies to the whole page"))
	}
	return []Conversion{phoenixSpan(v, o, place{})}
}

func phoenixSpan(v pyjson.Value, o Options, at place) Conversion {
	kind := string(v.Member("span_kind").Text())
	for _, name := range [...]string{"attributes.openinference.span.kind", "spanKind"} {
		if kind == "" {
			kind = string(v.Member(name).Text())
		}
	}
	if !strings.EqualFold(kind, "LLM") {
		if kind == "" {
			kind = "unknown"
		}
		return notGeneration(at.pointer, at.pattern, "a span of kind "+kind+" is not a generation")
	}
	g := newGeneration(Phoenix, v, o)
	if g.prefix, g.pattern = at.pointer, at.pattern; g.pattern == "" {
		g.pattern = at.pointer
	}
	g.textAttribute("openinference.span.kind", []byte("LLM"))
	p := &phoenixReader{generation: g}
	for name, value := range v.Members() {
		n := string(name.Text())
		switch attribute, column := strings.CutPrefix(n, "attributes."); {
		case column:
			p.collect(attribute, value, top(n))
		case n == "attributes":
			inner, _ := jsonOf(value)
			for name, value := range inner.Members() {
				p.collect(string(name.Text()), value, top(n).below(string(name.Text())))
			}
		case n == "context":
			for name, value := range value.Members() {
				inner := string(name.Text())
				p.member(member{"context." + inner, value}, top(n).below(inner))
			}
		default:
			p.member(member{n, value}, top(n))
		}
	}
	p.takeInputs()
	return g.complete()
}

// phoenixReader adds the members of one span to a generation.
type phoenixReader struct {
	*generation
	values [4]*collected // the attributes named in inputAndOutput, in the same order; nil if missing
}

// collected is an attribute and its place in the native value.
type collected struct {
	member
	at place
}

// inputAndOutput contains the names of the attributes that can contain the input, followed by those
// that can contain the output. A messages attribute takes precedence over a value attribute.
var inputAndOutput = [4]string{"llm.input_messages", "input.value", "llm.output_messages", "output.value"}

// member adds a member of the exported span, other than an attribute, to the span being built.
func (p *phoenixReader) member(m member, at place) {
	switch m.name {
	case "span_kind", "spanKind":
		p.accounts = append(p.accounts, func() { p.note(at.pointer, at.pattern, OutcomeField, "the kind of the record") })
	case "context.trace_id":
		p.identify(at, m, &p.span.TraceId, 16, "trace_id")
	case "context.span_id":
		p.identify(at, m, &p.span.SpanId, 8, "span_id")
	case "parent_id":
		p.identify(at, m, &p.span.ParentSpanId, 8, "parent_span_id")
	case "start_time":
		p.begin(at, m)
	case "end_time":
		p.end(at, m)
	case "status_code":
		if string(m.value.Text()) == "ERROR" {
			p.failed()
			p.account(at, "labels/error")
			return
		}
		p.note(at.pointer, at.pattern, OutcomeLeftOut, "the status is not an error")
	default:
		p.keepAt(at.pointer, at.pattern, m)
	}
}

// phoenixTokens maps the attributes for token counts to fields of a record.
var phoenixTokens = map[string]string{"llm.token_count.prompt": "usage/input_tokens", "llm.token_count.completion": "usage/output_tokens"}

// collect adds an attribute of the exported span to the span being built. An attribute whose name
// contains dots can also be given as nested objects.
func (p *phoenixReader) collect(name string, v pyjson.Value, at place) {
	m := member{name, v}
	for i, wanted := range inputAndOutput {
		if name == wanted {
			p.values[i] = &collected{m, at}
			return
		}
	}
	switch name {
	case "llm.model_name":
		p.takeAs(at, m, isID, name, "model")
	case "llm.provider", "llm.system":
		p.takeAs(at, m, isID, name, "labels/provider")
	case "session.id":
		p.takeAs(at, m, isID, name, "labels/conversation")
	case "llm.prompt_template.version":
		p.takeAs(at, m, isAny, name, "labels/prompt_version")
	case "llm.invocation_parameters":
		p.modelParameters(at, m, false)
	case "llm.tools":
		p.tools(m, at)
	case "openinference.span.kind":
		p.accounts = append(p.accounts, func() { p.note(at.pointer, at.pattern, OutcomeField, "the kind of the record") })
	case "input.mime_type", "output.mime_type":
		p.note(at.pointer, at.pattern, OutcomeLeftOut, "the type is evident from the value")
	case "llm", "input", "output", "session", "openinference", "llm.token_count", "llm.prompt_template":
		if !isObject(v) {
			p.keepAt(at.pointer, at.pattern, m)
			return
		}
		for inner, value := range v.Members() {
			n := string(inner.Text())
			p.collect(name+"."+n, value, at.below(n))
		}
	default:
		if as := phoenixTokens[name]; as != "" {
			if f, ok := v.Float(); ok && v.Kind() == pyjson.Float { // Phoenix exports a column with missing values as floats
				m.value = parseOwn(pyjson.AppendFloat(nil, f))
			}
			p.takeAs(at, m, isNumber, name, as)
			return
		}
		p.keepAt(at.pointer, at.pattern, m)
	}
}

// tools adds the tool definitions to the span. Each of them is a string that contains JSON.
func (p *phoenixReader) tools(m member, at place) {
	v, _ := jsonOf(m.value)
	if !isArray(v) || v.Len() == 0 {
		p.keepAt(at.pointer, at.pattern, m)
		return
	}
	text := []byte{'['}
	for e := range v.Elements() {
		e = nested(e)
		if schema := e.Member("tool").Member("json_schema"); schema.IsGiven() {
			e = unquoted(schema)
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, e.Raw()...)
	}
	p.textAttribute("gen_ai.tool.definitions", append(text, ']'))
	p.account(at, "payload/tools")
}

// takeInputs adds the input and output that collect found to the span.
func (p *phoenixReader) takeInputs() {
	for i, as := range [...]string{"gen_ai.input.messages", "", "gen_ai.output.messages", ""} {
		c := p.values[i]
		if c == nil {
			continue
		}
		v, _ := jsonOf(c.value)
		switch {
		case as != "" && isArray(v) && v.Len() > 0:
			text := []byte{'['}
			for e := range v.Elements() {
				if len(text) > 1 {
					text = append(text, ',')
				}
				text = append(text, nested(e).Raw()...)
			}
			p.textAttribute(as, append(text, ']'))
			p.accounts = append(p.accounts, func() {
				if i == 0 {
					p.noteInput(c.at)
				} else {
					p.noteHeld(c.at, "output", pyjson.Value{}, "output")
				}
			})
			if other := p.values[i+1]; other != nil && other.value.IsGiven() {
				p.accounts = append(p.accounts, func() {
					p.note(other.at.pointer, other.at.pattern, OutcomeLeftOut, "the messages contain the same text")
				})
				p.values[i+1] = nil
			}
		case as != "":
			p.keepAt(c.at.pointer, c.at.pattern, c.member)
		case i == 1:
			p.input(c.at, c.member)
		default:
			p.output(c.at, c.member)
		}
	}
}

// nested converts an object whose member names contain dots to nested objects: message.role becomes
// the member "role" of the object "message". It does the same for the elements of arrays.
func nested(v pyjson.Value) pyjson.Value {
	var w pyjson.Builder
	appendNested(&w, v, 0)
	return parseOwn(w.Buf)
}

// maxNested is the maximum depth at which nested converts arrays and objects.
const maxNested = 8

func appendNested(w *pyjson.Builder, v pyjson.Value, depth int) {
	switch {
	case isArray(v) && depth < maxNested:
		w.Buf = append(w.Buf, '[')
		i := 0
		for e := range v.Elements() {
			w.WriteComma(i)
			appendNested(w, e, depth+1)
			i++
		}
		w.Buf = append(w.Buf, ']')
	case isObject(v) && depth < maxNested:
		var members []member
		for name, value := range v.Members() {
			members = append(members, member{string(name.Text()), value})
		}
		appendMembers(w, members, depth)
	default:
		w.Buf = append(w.Buf, v.Raw()...)
	}
}

// appendMembers appends an object. It combines members whose names are the same up to the first dot
// into one nested object.
func appendMembers(w *pyjson.Builder, members []member, depth int) {
	var names []string
	below := make(map[string][]member)
	for _, m := range members {
		first, rest, dotted := strings.Cut(m.name, ".")
		if !dotted || depth >= maxNested {
			first, rest = m.name, ""
		}
		if below[first] == nil {
			names = append(names, first)
		}
		below[first] = append(below[first], member{rest, m.value})
	}
	w.BeginObject()
	for _, name := range names {
		w.BeginMember(name)
		if own := below[name][0]; own.name == "" {
			appendNested(w, own.value, depth+1)
			continue
		}
		appendMembers(w, below[name], depth+1)
	}
	w.EndObject()
}
