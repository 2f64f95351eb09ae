package formats

import (
	"strings"

	"colophon/ledger/record/pyjson"
)

// mlflow converts a trace from MLflow, which is either the JSON of a trace or a row returned by
// mlflow.search_traces. Each span of a model call is a generation.
func mlflow(v pyjson.Value, o Options) []Conversion {
	if page := v.Member("traces"); isArray(page) {
		return elements(page, top("traces"), func(e pyjson.Value, at place) []Conversion { return trace(e, o, at) })
	}
	return trace(v, o, place{})
}

// trace converts one trace. The spans are in the member "spans" or "data", either of v itself or of
// the member "trace" of v. Each of these members can be a string that contains JSON.
func trace(v pyjson.Value, o Options, at place) []Conversion {
	if !isObject(v) {
		return []Conversion{notGeneration(at.pointer, at.pattern, "the trace is not an object")}
	}
	root, from, used := v, at, ""
	if inner, ok := jsonOf(v.Member("trace")); ok && isObject(inner) {
		root, from, used = inner, at.below("trace"), "trace"
	}
	spans, data := root.Member("spans"), root.Member("data")
	if inner, ok := jsonOf(data); ok && isArray(inner.Member("spans")) {
		spans, from = inner.Member("spans"), from.below("data")
		if used == "" {
			used = "data"
		}
	} else if used == "" {
		used = "spans"
	}
	if inner, ok := jsonOf(spans); ok {
		spans = inner
	}
	if !isArray(spans) {
		if v.Member("attributes").IsGiven() { // a single span
			return []Conversion{mlflowSpan(v, pyjson.Value{}, o, at)}
		}
		return []Conversion{notGeneration(at.pointer, at.pattern, "the trace has no spans")}
	}
	conversions := elements(spans, from.below("spans"), func(e pyjson.Value, at place) []Conversion {
		return []Conversion{mlflowSpan(e, session(v, root), o, at)}
	})
	rest := leaveRest(v, used, "the member applies to the whole trace")
	for i := range rest.MemberOutcomes {
		rest.MemberOutcomes[i].Pointer, rest.MemberOutcomes[i].Pattern = at.pointer+rest.MemberOutcomes[i].Pointer, at.pattern+rest.MemberOutcomes[i].Pattern
	}
	return append(conversions, rest)
}

// session returns the ID of a trace's session. It uses the first of the given objects that contains
// a session ID, and returns the absent Value if no object does.
func session(layers ...pyjson.Value) pyjson.Value {
	for _, layer := range layers {
		for _, of := range [...]pyjson.Value{layer, layer.Member("info")} {
			for _, name := range [...]string{"trace_metadata", "request_metadata"} {
				metadata, _ := jsonOf(of.Member(name))
				if id := metadata.Member("mlflow.trace.session"); isID(id) {
					return id
				}
			}
		}
	}
	return pyjson.Value{}
}

// mlflowSpan converts one span. session is the session of the span's trace, or the absent Value.
func mlflowSpan(v, session pyjson.Value, o Options, at place) Conversion {
	attributes, _ := jsonOf(v.Member("attributes"))
	kind := unquoted(attributes.Member("mlflow.spanType"))
	if text := string(kind.Text()); text != "LLM" && text != "CHAT_MODEL" {
		if text == "" {
			text = "UNKNOWN"
		}
		return notGeneration(at.pointer, at.pattern, "a span of type "+text+" is not a generation")
	}
	g := newGeneration(MLflow, v, o)
	if g.prefix, g.pattern = at.pointer, at.pattern; g.pattern == "" {
		g.pattern = at.pointer
	}
	g.textAttribute(operation, []byte("chat"))
	if session.IsGiven() {
		g.valueAttribute("session.id", session)
	}
	for name, value := range v.Members() {
		g.mlflowMember(member{string(name.Text()), value})
	}
	for name, value := range attributes.Members() {
		g.mlflowAttribute(member{string(name.Text()), unquoted(value)}, top("attributes").below(string(name.Text())))
	}
	return g.complete()
}

// unquoted parses an attribute that MLflow stores as a string that contains JSON. It returns any
// other value unchanged.
func unquoted(v pyjson.Value) pyjson.Value {
	if inner, ok := jsonOf(v); ok {
		return inner
	}
	return v
}

// mlflowMember adds a member of an exported span, other than its attributes, to the span being
// built.
func (g *generation) mlflowMember(m member) {
	at := top(m.name)
	switch m.name {
	case "attributes":
	case "context": // the form that MLflow 2 writes
		for name, value := range m.value.Members() {
			inner := member{string(name.Text()), value}
			g.mlflowID(inner, at.below(inner.name))
		}
	case "otel_trace_id", "trace_id", "span_id", "parent_span_id", "parent_id":
		g.mlflowID(m, at)
	case "start_time_unix_nano", "start_time":
		g.begin(at, m)
	case "end_time_unix_nano", "end_time":
		g.end(at, m)
	case "status", "status_code":
		code := m.value
		if isObject(code) {
			code = code.Member("code")
		}
		if text := strings.ToUpper(string(code.Text())); strings.HasSuffix(text, "ERROR") || string(code.Raw()) == "2" {
			g.failed()
			g.account(at, "labels/error")
			return
		}
		g.note(at.pointer, at.pattern, OutcomeLeftOut, "the status is not an error")
	case "mlflow.span_dict_version", "span_dict_version":
		g.note(at.pointer, at.pattern, OutcomeLeftOut, "the member describes only the export format")
	case "events":
		if isArray(m.value) && m.value.Len() == 0 {
			g.note(at.pointer, at.pattern, OutcomeLeftOut, "the value is empty")
			return
		}
		g.keep(m)
	default:
		g.keep(m)
	}
}

// mlflowID sets one of the span's IDs. The IDs are in hexadecimal, except in MLflow 3, where they
// are in base64.
func (g *generation) mlflowID(m member, at place) {
	if m.name == "trace_id" && g.span.TraceId != nil {
		g.note(at.pointer, at.pattern, OutcomeLeftOut, "the trace ID was already taken from another member")
		return
	}
	v := m.value
	size, id, label := 8, &g.span.SpanId, "span_id"
	switch m.name {
	case "trace_id", "otel_trace_id":
		size, id, label = 16, &g.span.TraceId, "trace_id"
	case "parent_span_id", "parent_id":
		id, label = &g.span.ParentSpanId, "parent_span_id"
	}
	if m.name == "otel_trace_id" {
		g.span.TraceId = nil
	}
	if len(v.Text()) == 0 {
		g.note(at.pointer, at.pattern, OutcomeLeftOut, "the value is empty")
		return
	}
	g.identify(at, member{m.name, hexOfBase64(v, size)}, id, size, label)
}

// mlflowAttribute adds an attribute of the exported span to the span being built.
func (g *generation) mlflowAttribute(m member, at place) {
	switch m.name {
	case "mlflow.spanType":
		g.accounts = append(g.accounts, func() { g.note(at.pointer, at.pattern, OutcomeField, "the kind of the record") })
	case "mlflow.traceRequestId", "mlflow.spanFunctionName", "mlflow.message.format", "mlflow.chat.messages":
		g.note(at.pointer, at.pattern, OutcomeLeftOut, "the attribute duplicates other attributes or is used only by MLflow")
	case "mlflow.spanInputs":
		g.modelParameters(at, m, true)
		if definitions := m.value.Member("tools"); isArray(definitions) {
			g.textAttribute("gen_ai.tool.definitions", definitions.Raw())
		}
		g.input(at, m)
	case "mlflow.spanOutputs":
		g.output(at, m)
	case "mlflow.chat.tokenUsage":
		g.tokens(at, m)
	case "mlflow.chat.tools":
		g.takeAs(at, m, isArray, "gen_ai.tool.definitions", "payload/tools")
	case "mlflow.llm.model":
		g.takeAs(at, m, isID, "llm.model_name", "model")
	case "mlflow.llm.provider":
		g.takeAs(at, m, isID, "gen_ai.provider.name", "labels/provider")
	case "temperature", "max_tokens", "seed", "top_p", "top_k", "model": // names that some MLflow integrations use
		g.takeAs(at, m, isAny, "gen_ai.request."+m.name, orPayload(m.name))
	default:
		g.keepAt(at.pointer, at.pattern, m)
	}
}

// orPayload returns the location of a model parameter in the record. This is the parameter's own
// field, or a member of payload if the parameter has no field.
func orPayload(parameter string) string {
	if field := sampling[parameter]; field != "" {
		return field
	}
	return "payload/" + parameter
}
