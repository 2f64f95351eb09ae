package genai

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"

	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
)

// generation holds the members of a record that describe how a text was generated. A nil or empty
// member is unknown.
type generation struct {
	model, modelDigest           string
	temperature, maxTokens, seed string // JSON tokens
	payload, system, output      []byte

	input [sha256.Size]byte // digest of the input, without parameters
	sent  bool              // the input was sent
}

// input is the input before it becomes a payload. At most one of chat, prompt, and other is set.
type input struct {
	given  bool // the input was sent and is not empty
	chat   []message
	prompt []byte       // a text that is not a chat
	other  pyjson.Value // JSON that is not a chat
}

// unknownModel is the model of a generation that names none.
const unknownModel = "unknown"

// generation reads the generation of the current source.
func (r *Reader) generation() (*generation, error) {
	s := &r.source
	g := new(generation)
	invoked, err := r.invoked()
	if err != nil {
		return nil, err
	}
	g.sampling(s, invoked)
	g.nameModel(s, invoked)
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
		if len(system) != 1 || !bytes.Equal(system[0], text) { // some libraries send it twice
			system = append(system, text)
		}
	}
	if system != nil {
		g.system = bytes.Join(system, []byte("\n\n"))
	}
	if err = r.payload(g, in, invoked); err != nil {
		return nil, err
	}
	g.output, err = r.readOutput()
	return g, err
}

// invoked returns the parameters of the request, as one object: those that were sent as such, or
// else the whole request.
func (r *Reader) invoked() (pyjson.Value, error) {
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

// sampling sets the temperature, the maximum number of tokens, and the seed.
func (g *generation) sampling(s *source, invoked pyjson.Value) {
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

// numberIn returns a number, or a text that is one, as a JSON token; "" for anything else.
func numberIn(v pyjson.Value) string {
	switch v.Kind() {
	case pyjson.Integer, pyjson.Float:
		return string(appendPlain(nil, v))
	case pyjson.String:
		return numberOf(string(v.Text()))
	}
	return ""
}

// nameModel sets the requested model, and the digest of what is known about the model that
// answered.
func (g *generation) nameModel(s *source, invoked pyjson.Value) {
	answerer, print := s.text(answererNames...), s.text(printNames...)
	g.model = s.text(modelNames...)
	if asked := invoked.Member("model").Text(); len(asked) > 0 && utf8.Valid(asked) && !s.has("gen_ai.request.model") {
		if answerer == "" {
			answerer = g.model // llm.model_name is the model that answered, if the parameters name another
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
	g.modelDigest = shorten(strings.TrimSpace(answerer+" "+print), maxName)
}

// readInput reads the input in the first dialect that has one.
func (r *Reader) readInput() (in input, err error) {
	s := &r.source
	for _, name := range messageNames {
		if in, err = r.prompt(s.attributes[name], true); in.given || err != nil {
			return in, err
		}
	}
	for _, prefix := range messagePrefixes {
		list, err := r.indexedMessages(prefix, "user")
		if list != nil || err != nil {
			return input{given: true, chat: list}, err
		}
	}
	if list := r.eventMessages(false); list != nil {
		return input{given: true, chat: list}, nil
	}
	for _, name := range promptNames {
		if in, err = r.prompt(s.attributes[name], false); in.given || err != nil {
			return in, err
		}
	}
	return in, nil
}

// prompt reads an attribute with an input: a chat, a text, or other JSON. chat means that any list
// is a chat.
func (r *Reader) prompt(v *commonpb.AnyValue, chat bool) (input, error) {
	if v == nil {
		return input{}, nil
	}
	parsed, ok, err := r.value(v)
	switch {
	case err != nil:
		return input{}, err
	case !ok:
		text := v.GetStringValue()
		return input{given: text != "", prompt: []byte(text)}, nil
	case parsed.Kind() == pyjson.Array && parsed.Len() == 0, parsed.Kind() == pyjson.Object && parsed.Len() == 0:
		return input{}, nil // sent by instrumentation that withholds content
	case chat && parsed.Kind() != pyjson.Object || isChat(parsed):
		return input{given: true, chat: r.messages(parsed, "user")}, nil
	}
	for _, form := range requestForms {
		list := parsed.Member(form.messages)
		if !isChat(list) && (!form.text || list.Kind() != pyjson.String || parsed.Member("model").Kind() != pyjson.String) {
			continue
		}
		chat := r.messages(list, "user")
		for _, name := range form.system {
			system := parsed.Member(name)
			if config := parsed.Member("config"); !system.IsGiven() && config.Kind() == pyjson.Object {
				system = config.Member(name)
			}
			if system.IsGiven() {
				chat = append([]message{r.systemMessage(system)}, chat...)
				break
			}
		}
		return input{given: true, chat: chat}, nil
	}
	if text := parsed.Member("prompt"); text.Kind() == pyjson.String {
		return input{given: true, prompt: textIn(text)}, nil
	}
	return input{given: true, other: parsed}, nil
}

// requestForms lists the forms of the whole requests that some attributes contain: the member with
// the messages, whether it can be a text, and the members that can have the system prompt.
var requestForms = []struct {
	messages string
	text     bool
	system   []string
}{
	{"messages", false, []string{"system"}},                                  // OpenAI, Anthropic, Ollama
	{"contents", false, []string{"system_instruction", "systemInstruction"}}, // Gemini
	{"input", true, []string{"instructions"}},                                // OpenAI's Responses
}

// systemMessage returns a system prompt that was sent beside the messages.
func (r *Reader) systemMessage(system pyjson.Value) message {
	m := message{role: []byte("system")}
	switch system.Kind() {
	case pyjson.String:
		m.parts = []part{{text: textIn(system)}}
	case pyjson.Array:
		for e := range system.Elements() {
			m.parts = r.part(m.parts, new([]message), &m, e)
		}
	default:
		m.parts = r.content(nil, new([]message), &m, system)
	}
	return m
}

// isChat reports whether a value is a list of messages: each element has a role or, as in OpenAI's
// Responses, a type, and not all of them are only parts of a message.
func isChat(v pyjson.Value) bool {
	found := false
	for e := range v.Elements() {
		if e.Member("role").IsGiven() || e.Member("message").IsGiven() || itemTypes[string(e.Member("type").Text())] {
			found = true
		} else if e.Member("type").Kind() != pyjson.String {
			return false
		}
	}
	return found && v.Kind() == pyjson.Array
}

// indexedMessages reads messages from attributes with an index. It returns nil if there are none.
func (r *Reader) indexedMessages(prefix, role string) ([]message, error) {
	text, err := r.source.indexed(prefix)
	if text == nil || err != nil {
		return nil, err
	}
	list, _ := r.parser.parse(text)
	return r.messages(list, role), nil
}

// eventMessages reads the messages that are events: either the choices, or the others. It returns
// nil if there are none.
func (r *Reader) eventMessages(choices bool) (list []message) {
	s := &r.source
	add := func(name string, v pyjson.Value) {
		if role := messageEvents[name]; role != "" && (name == choiceEvent) == choices {
			list = r.message(list, v, role)
		}
	}
	for _, e := range s.events {
		if v, ok := r.parser.parse(e.text); ok {
			add(e.name, v)
		} else if role := messageEvents[e.name]; role != "" && (e.name == choiceEvent) == choices {
			list = append(list, message{role: []byte(role), parts: []part{{text: e.text}}})
		}
	}
	if s.has(eventsName) && len(s.events) == 0 {
		events, _, _ := r.value(s.attributes[eventsName]) // an error means that it nests too deep to be a list of messages
		for e := range events.Elements() {
			add(string(e.Member("event.name").Text()), e)
		}
	}
	return list
}

// instructions returns the texts of the instructions that were sent apart from the messages.
func (r *Reader) instructions() (texts [][]byte, err error) {
	v := r.source.attributes[instructionNames[0]]
	if v == nil {
		return nil, nil
	}
	parsed, ok, err := r.value(v)
	if err != nil {
		return nil, err
	}
	if !ok {
		return [][]byte{[]byte(v.GetStringValue())}, nil
	}
	m := message{role: []byte("system")}
	if parsed.Kind() == pyjson.Array && !isChat(parsed) {
		for e := range parsed.Elements() {
			m.parts = r.part(m.parts, new([]message), &m, e)
		}
		return [][]byte{m.plain()}, nil
	}
	for _, m := range r.messages(parsed, "system") {
		texts = append(texts, m.plain())
	}
	return texts, nil
}

// payload sets the payload: the input, and the parameters that have no field in a record.
func (r *Reader) payload(g *generation, in input, invoked pyjson.Value) error {
	s := &r.source
	var w pyjson.Builder
	w.Open()
	g.sent = in.given
	switch {
	case in.prompt != nil && in.given:
		w.Text("prompt", in.prompt)
	case in.other.IsGiven():
		w.Value("input", in.other)
	case in.given:
		w.BeginMember("messages")
		w.B = r.appendMessages(w.B, in.chat)
	default:
		// Two inputs that were not sent must not appear to be the same input.
		w.Raw("not_sent", []byte("true"))
		if id := s.runID(); id != "" {
			w.Text("span", []byte(id))
		}
	}
	g.input = sha256.Sum256(w.B)
	written := make(map[string]bool)
	for _, p := range parameters {
		for _, name := range p.names {
			if v := s.attributes[name]; v != nil {
				text, err := r.parameter(v)
				if err != nil {
					return err
				}
				w.Raw(p.member, text)
				written[p.member] = true
				break
			}
		}
	}
	tools, err := r.tools()
	if err != nil {
		return err
	}
	w.Raw("tools", tools)
	written["tools"] = tools != nil
	for name, v := range invoked.Members() {
		member := string(name.Text())
		if member == "stop_sequences" {
			member = "stop"
		}
		if invocation[member] && v.IsGiven() && !written[member] {
			w.Raw(member, appendPlain(nil, v))
			written[member] = true
		}
	}
	w.Close()
	g.payload = w.B
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

// appendPlain is like AppendCanonical, but writes a number that has no fraction as an integer.
func appendPlain(dst []byte, v pyjson.Value) []byte {
	if f, ok := v.Float(); ok && v.Kind() == pyjson.Float {
		if token := appendNumber(dst, f); token != nil {
			return token
		}
	}
	return v.AppendCanonical(dst, pyjson.Compact)
}

// tools returns the definitions of tools as JSON, or nil.
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
			definitions = e.AppendCanonical(definitions, pyjson.Compact)
		}
		return append(definitions, ']'), nil
	}
	return nil, nil
}

// readOutput reads the output in the first dialect that has one, or returns nil.
func (r *Reader) readOutput() ([]byte, error) {
	s := &r.source
	for _, name := range answerNames {
		if v := s.attributes[name]; v != nil {
			parsed, ok, err := r.value(v)
			if err != nil {
				return nil, err
			}
			if !ok {
				return []byte(v.GetStringValue()), nil
			}
			return r.output(r.messages(parsed, "assistant")), nil
		}
	}
	for _, prefix := range completionPrefixes {
		list, err := r.indexedMessages(prefix, "assistant")
		if err != nil {
			return nil, err
		}
		if list != nil {
			return r.output(list), nil
		}
	}
	if list := r.eventMessages(true); list != nil {
		return r.output(list), nil
	}
	if s.has(callsName) {
		return r.textAndCalls()
	}
	for _, name := range completionNames {
		if v := s.attributes[name]; v != nil {
			return r.completion(v)
		}
	}
	return nil, nil
}

// textAndCalls reads an answer whose text and tool calls are in two attributes, as Vercel's AI SDK
// sends it.
func (r *Reader) textAndCalls() ([]byte, error) {
	s := &r.source
	m := message{role: []byte("assistant")}
	if text := s.attributes[completionText].GetStringValue(); text != "" {
		m.parts = []part{{text: []byte(text)}}
	}
	calls, _, err := r.value(s.attributes[callsName])
	if err != nil {
		return nil, err
	}
	for call := range calls.Elements() {
		m.calls = r.call(m.calls, call)
	}
	return r.output([]message{m}), nil
}

// completion reads an attribute with an output: answers in the form of a chat, or any text.
func (r *Reader) completion(v *commonpb.AnyValue) ([]byte, error) {
	parsed, ok, err := r.value(v)
	if err != nil {
		return nil, err
	}
	if answers, found := answersIn(parsed); ok && found {
		return r.output(r.messages(answers, "assistant")), nil
	}
	if text, isText := v.GetValue().(*commonpb.AnyValue_StringValue); isText {
		return []byte(text.StringValue), nil
	}
	return appendAny(nil, v, 0)
}

// answersIn returns the answers in the response of a provider: a list of messages, or one message.
func answersIn(v pyjson.Value) (answers pyjson.Value, found bool) {
	if isChat(v) {
		return v, true
	}
	if v.Kind() != pyjson.Object {
		return v, false
	}
	for _, name := range [...]string{"choices", "messages", "output"} { // OpenAI, LangChain, OpenAI's Responses
		if list := v.Member(name); isChat(list) || name == "choices" && areCompletions(list) {
			return list, true
		}
	}
	if candidates := v.Member("candidates"); candidates.Len() > 0 { // Gemini
		return candidates, candidates.Kind() == pyjson.Array
	}
	for _, m := range [...]pyjson.Value{v.Member("message"), v.Member("output").Member("message")} { // Ollama, Bedrock
		if m.Member("role").IsGiven() {
			return m, true
		}
	}
	if v.Member("role").IsGiven() && v.Member("content").IsGiven() { // Anthropic
		return v, true
	}
	content := v.Member("content")
	return content, content.Kind() == pyjson.Object && content.Member("parts").Kind() == pyjson.Array // Google's ADK
}

// areCompletions reports whether a list contains the answers to a prompt that is not a chat.
func areCompletions(v pyjson.Value) bool {
	for e := range v.Elements() {
		if e.Member("text").Kind() != pyjson.String {
			return false
		}
	}
	return v.Kind() == pyjson.Array && v.Len() > 0
}

// digest returns a digest of the model, the payload, the system prompt, and the output.
func (g *generation) digest() [sha256.Size]byte {
	return digestOf([]byte(g.model), g.payload, g.system, g.output)
}

// digestOf returns a digest of parts. A nil part differs from an empty one.
func digestOf(parts ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range parts {
		size := -1
		if part != nil {
			size = len(part)
		}
		h.Write(append(strconv.AppendInt(nil, int64(size), 10), ':'))
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// record returns the IPC record as JSON. A lone surrogate becomes U+FFFD.
func (g *generation) record(r *Reader) []byte {
	s := &r.source
	w := pyjson.Builder{B: make([]byte, 0, len(g.payload)+len(g.system)+len(g.output)+1024)}
	w.OpenOrdered()
	if g.modelDigest != "" {
		w.BeginMember("environment")
		w.OpenOrdered()
		w.Text("model_digest", []byte(g.modelDigest))
		w.Close()
	}
	r.appendLabels(&w)
	rawText(&w, "max_tokens", g.maxTokens)
	w.Text("model", []byte(g.model))
	w.Text("output", g.output)
	w.Raw("payload", g.payload)
	if id := s.runID(); id != "" {
		w.Text("run_id", []byte(id))
	}
	rawText(&w, "seed", g.seed)
	w.Text("system_prompt", g.system)
	rawText(&w, "temperature", g.temperature)
	if s.start != 0 {
		at := time.Unix(int64(s.start/1e9), int64(s.start%1e9)).UTC()
		w.Text("timestamp", at.AppendFormat(nil, moment.Layout))
	}
	s.appendUsage(&w)
	w.Close()
	if !utf8.Valid(w.B) { // lone surrogates of JSON in an attribute, which strict fields refuse
		return bytes.ToValidUTF8(w.B, []byte("\uFFFD"))
	}
	return w.B
}

func rawText(w *pyjson.Builder, name, token string) {
	if token != "" {
		w.Raw(name, []byte(token))
	}
}

// appendUsage writes the counts of tokens and the duration.
func (s *source) appendUsage(w *pyjson.Builder) {
	begun := false
	add := func(name, token string) {
		if token == "" {
			return
		}
		if !begun {
			w.BeginMember("usage")
			w.Open()
			begun = true
		}
		w.Raw(name, []byte(token))
	}
	for _, c := range counts {
		add(c.member, s.integer(true, c.names...))
	}
	if s.end > s.start && s.start > 0 {
		add("duration_ms", strconv.FormatUint((s.end-s.start)/1e6, 10))
	}
	if begun {
		w.Close()
	}
}

// appendLabels writes the labels, the most important ones first as long as there is room.
func (r *Reader) appendLabels(w *pyjson.Builder) {
	s := &r.source
	left := r.limits.Labels
	begun := false
	add := func(name string, value string) {
		if value == "" || left <= 0 || len(name) > r.limits.LabelBytes {
			return
		}
		if !begun {
			w.BeginMember("labels")
			w.Open()
			begun = true
		}
		left--
		w.Text(name, []byte(r.fit(value)))
	}
	if s.trace != nil {
		add("trace_id", hexText(s.trace))
	}
	if s.span != nil {
		add("span_id", hexText(s.span))
	}
	add(resourceLabels[0].member, r.resource.text(resourceLabels[0].names...))
	for _, l := range labels {
		value := s.text(l.names...)
		if l.member == "error" && value == "" && s.failed {
			if value = s.exception; value == "" {
				value = "error"
			}
		}
		add(l.member, value)
	}
	for _, l := range resourceLabels[1:] {
		add(l.member, r.resource.text(l.names...))
	}
	if s.parent != nil {
		add("parent_span_id", hexText(s.parent))
	}
	if begun {
		w.Close()
	}
}

// fit shortens the value of a label that is too long. The shortened value ends with a digest, so
// that values with the same beginning stay distinct.
func (r *Reader) fit(value string) string { return shorten(value, r.limits.LabelBytes) }

// maxName limits the names of models in a record, in bytes.
const maxName = 1024

func shorten(value string, most int) string {
	if len(value) <= most {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	end := "…" + hexText(sum[:8])
	if most < len(end) {
		return ""
	}
	cut := most - len(end)
	for cut > 0 && !utf8.RuneStart(value[cut]) {
		cut--
	}
	return value[:cut] + end
}
