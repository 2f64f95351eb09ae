package genai

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"

	"colophon/ledger/record/pyjson"
)

// generation holds the fields of a record that describe how a text was generated. A nil or empty
// field means that the value is unknown.
type generation struct {
	model, answeringModel        string
	temperature, maxTokens, seed string // JSON tokens
	payload, system, output      []byte

	input [sha256.Size]byte // digest of the input, without parameters
	sent  bool              // the telemetry contains the input
}

// unknownModel is the model recorded for a generation that does not name one.
const unknownModel = "unknown"

// generation reads the generation from the current source.
func (r *Reader) generation() (*generation, error) {
	s := &r.source
	g := new(generation)
	invoked, err := r.requestParameters()
	if err != nil {
		return nil, err
	}
	g.setSampling(s, invoked)
	g.setModel(s, invoked)
	in, err := r.readInput()
	if err != nil {
		return nil, err
	}
	system, err := r.instructions()
	if err != nil {
		return nil, err
	}
	leading, rest := takeSystem(in.chat)
	in.chat = rest
	for _, text := range leading {
		if len(system) != 1 || !bytes.Equal(system[0], text) { // some libraries send the system prompt twice
			system = append(system, text)
		}
	}
	if system != nil {
		g.system = bytes.Join(system, []byte("\n\n"))
	}
	if err = r.setPayload(g, in, invoked); err != nil {
		return nil, err
	}
	g.output, err = r.readOutput()
	return g, err
}

// requestParameters returns the parameters of the request as one object. If they were not sent separately, it
// returns the whole request.
func (r *Reader) requestParameters() (pyjson.Value, error) {
	for _, name := range parameterNames {
		if v := r.source.attributes[name]; v != nil {
			parsed, _, err := r.value(v)
			return parsed, err
		}
	}
	for _, name := range promptNames {
		parsed, ok, err := r.value(r.source.attributes[name])
		if err != nil {
			return pyjson.Value{}, err
		}
		if ok && parsed.Member("model").Kind() == pyjson.String {
			if config := parsed.Member("config"); config.Kind() == pyjson.Object {
				return config, nil // Gemini
			}
			return parsed, nil
		}
	}
	return pyjson.Value{}, nil
}

// setSampling sets the temperature, the maximum number of tokens, and the seed.
func (g *generation) setSampling(s *source, invoked pyjson.Value) {
	g.temperature = s.number(temperatureNames...)
	g.maxTokens = s.integer(true, maxTokensNames...)
	g.seed = s.integer(false, seedNames...)
	set := func(to *string, names []string, integer, count bool) {
		for _, name := range names {
			if *to == "" {
				if *to = numberIn(invoked.Member(name)); integer {
					*to = asInteger(*to, count)
				}
			}
		}
	}
	set(&g.temperature, invokedTemperature, false, false)
	set(&g.maxTokens, invokedMaxTokens, true, true)
	set(&g.seed, invokedSeed, true, false)
}

// numberIn returns v as a JSON token if v is a number or a string that contains one, and ""
// otherwise.
func numberIn(v pyjson.Value) string {
	switch v.Kind() {
	case pyjson.Integer, pyjson.Float:
		return string(appendPlain(nil, v))
	case pyjson.String:
		return numberOf(string(v.Text()))
	}
	return ""
}

// setModel sets model to the requested model and answeringModel to what is known about the model
// that answered.
func (g *generation) setModel(s *source, invoked pyjson.Value) {
	answerer, fingerprint := s.text(answererNames...), s.text(fingerprintNames...)
	g.model = s.text(modelNames...)
	if asked := invoked.Member("model").Text(); len(asked) > 0 && utf8.Valid(asked) && !s.has("gen_ai.request.model") {
		if answerer == "" {
			answerer = g.model // if the parameters name a different model, llm.model_name is the model that answered
		}
		g.model = string(asked)
	}
	if g.model == "" {
		g.model = answerer
	}
	if g.model == "" {
		g.model = unknownModel
	}
	if answerer == g.model {
		answerer = ""
	}
	g.model = shorten(g.model, maxName)
	g.answeringModel = shorten(strings.TrimSpace(answerer+" "+fingerprint), maxName)
}

// setPayload sets the payload, which consists of the input and of the parameters that have no field of
// their own in a record.
func (r *Reader) setPayload(g *generation, in input, invoked pyjson.Value) error {
	s := &r.source
	var w pyjson.Builder
	w.BeginObject()
	g.sent = in.given
	switch {
	case in.prompt != nil && in.given:
		w.AddText("prompt", in.prompt)
	case in.other.IsGiven():
		w.AddValue("input", in.other)
	case in.given:
		w.BeginMember("messages")
		w.Buf = r.appendMessages(w.Buf, in.chat)
	default:
		// Two generations whose inputs were not sent must not appear to have the same input.
		w.AddRaw("not_sent", []byte("true"))
		if id := s.runID(); id != "" {
			w.AddText("span", []byte(id))
		}
	}
	g.input = sha256.Sum256(w.Buf)
	written := make(map[string]bool)
	for _, p := range parameters {
		for _, name := range p.names {
			if v := s.attributes[name]; v != nil {
				text, err := r.parameter(v)
				if err != nil {
					return err
				}
				w.AddRaw(p.member, text)
				written[p.member] = true
				break
			}
		}
	}
	tools, err := r.tools()
	if err != nil {
		return err
	}
	w.AddRaw("tools", tools)
	written["tools"] = tools != nil
	for name, v := range invoked.Members() {
		member := string(name.Text())
		if member == "stop_sequences" {
			member = "stop"
		}
		if invocation[member] && v.IsGiven() && !written[member] {
			w.AddRaw(member, appendPlain(nil, v))
			written[member] = true
		}
	}
	w.EndObject()
	g.payload = w.Buf
	return nil
}

// parameter returns the value of a parameter as JSON.
func (r *Reader) parameter(v *commonpb.AnyValue) ([]byte, error) {
	parsed, ok, err := r.value(v)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return appendPlain(nil, parsed), nil
	}
	return appendAny(nil, v, 0)
}

// appendPlain is like AppendCanonical, but writes a number without a fractional part as an integer.
func appendPlain(dst []byte, v pyjson.Value) []byte {
	if f, ok := v.Float(); ok && v.Kind() == pyjson.Float {
		if token := appendNumber(dst, f); token != nil {
			return token
		}
	}
	return v.AppendCanonical(dst, pyjson.CompactForm)
}

// tools returns the tool definitions as JSON, or nil if there are none.
func (r *Reader) tools() ([]byte, error) {
	for _, name := range toolNames {
		if v := r.source.attributes[name]; v != nil {
			return r.parameter(v)
		}
	}
	for _, prefix := range toolPrefixes {
		text, err := r.source.indexed(prefix)
		if err != nil {
			return nil, err
		}
		list, ok := r.parser.parse(text)
		if text == nil || !ok {
			continue
		}
		definitions := []byte{'['}
		for e := range list.Elements() {
			if len(definitions) > 1 {
				definitions = append(definitions, ',')
			}
			if schema := e.Member("tool").Member("json_schema"); schema.Kind() == pyjson.String {
				if parsed, ok := r.parser.parse(schema.Text()); ok {
					e = parsed
				}
			}
			definitions = e.AppendCanonical(definitions, pyjson.CompactForm)
		}
		return append(definitions, ']'), nil
	}
	return nil, nil
}
