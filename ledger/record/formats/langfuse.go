package formats

import (
	"strings"

	"colophon/ledger/record/pyjson"
)

// langfuse converts an export from the API or user interface of Langfuse: an observation, a page of
// observations, or a trace with its observations. Member names are in camel case, or in snake case
// in exports to blob storage.
func langfuse(v pyjson.Value, o Options) []Conversion {
	for _, name := range [...]string{"data", "observations"} {
		if page := v.Member(name); isArray(page) {
			conversions := elements(page, top(name), func(e pyjson.Value, at place) []Conversion { return []Conversion{observation(e, o, at)} })
			return append(conversions, leaveRest(v, name, "the member applies to the whole page or trace"))
		}
	}
	return []Conversion{observation(v, o, place{})}
}

// leaveRest returns a Conversion that has no record. It accounts for the members of a native value
// that are not part of any record, but skips the member named by except. why is the reason for
// leaving the members out.
func leaveRest(v pyjson.Value, except, why string) Conversion {
	var e Conversion
	for name, value := range v.Members() {
		n := string(name.Text())
		if n == except {
			continue
		}
		reason := why
		if !value.IsGiven() {
			reason = DetailNull
		}
		e.MemberOutcomes = append(e.MemberOutcomes, MemberOutcome{pointerTo(n), pointerTo(n), OutcomeLeftOut, reason})
	}
	return e
}

func observation(v pyjson.Value, o Options, at place) Conversion {
	kind := string(v.Member("type").Text())
	switch {
	case !isObject(v):
		return notGeneration(at.pointer, at.pattern, "the observation is not an object")
	case kind == "" && !v.Member("model").IsGiven() && !v.Member("providedModelName").IsGiven() && !v.Member("provided_model_name").IsGiven():
		return notGeneration(at.pointer, at.pattern, "an observation with neither a type nor a model is not a generation")
	case kind != "" && !strings.EqualFold(kind, "GENERATION"):
		return notGeneration(at.pointer, at.pattern, "an observation of type "+kind+" is not a generation")
	}
	g := newGeneration(Langfuse, v, o)
	g.prefix, g.pattern = at.pointer, at.pattern
	if g.pattern == "" {
		g.pattern = at.pointer
	}
	g.textAttribute(operation, []byte("chat"))
	for name, value := range v.Members() {
		g.observationMember(member{string(name.Text()), value})
	}
	return g.complete()
}

// observationMember adds one member of an observation to the span.
func (g *generation) observationMember(m member) {
	at := top(m.name)
	switch name := snake(m.name); name {
	case "type":
		g.accounts = append(g.accounts, func() { g.note(at.pointer, at.pattern, OutcomeField, "the kind of the record") })
	case "trace_id":
		g.identify(at, m, &g.span.TraceId, 16, "trace_id")
	case "id":
		g.identify(at, m, &g.span.SpanId, 8, "span_id")
	case "parent_observation_id":
		g.identify(at, m, &g.span.ParentSpanId, 8, "parent_span_id")
	case "start_time":
		g.begin(at, m)
	case "end_time":
		g.end(at, m)
	case "input":
		g.input(at, m)
	case "output":
		g.output(at, m)
	case "model", "provided_model_name":
		g.takeAs(at, m, isID, "gen_ai.request.model", "model")
	case "model_parameters":
		g.modelParameters(at, m, false)
	case "usage_details":
		g.tokens(at, m)
	case "prompt_name":
		g.takeAs(at, m, isID, "gen_ai.prompt.name", "labels/prompt_name")
	case "prompt_version":
		g.takeAs(at, m, isAny, "gen_ai.prompt.version", "labels/prompt_version")
	case "session_id":
		g.takeAs(at, m, isID, "session.id", "labels/conversation")
	case "level":
		if strings.EqualFold(string(m.value.Text()), "ERROR") {
			g.failed()
			g.account(at, "labels/error")
			return
		}
		g.keep(m)
	default:
		g.keep(m)
	}
}
