package genai

import (
	"bytes"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// message is a chat message in a form that is independent of the dialect.
type message struct {
	role, name []byte
	toolCallID []byte // ID of the tool call whose result the message contains
	parts      []part
	calls      []toolCall
}

// part is a part of a message. If text is nil, other contains the part.
type part struct {
	text     []byte       // nil if the part is not text
	thinking bool         // the text is the model's reasoning
	other    pyjson.Value // a part that is not text, as it was sent
}

// toolCall is a tool call that the model requested. arguments is canonical JSON if the model wrote
// valid JSON.
type toolCall struct{ id, name, arguments []byte }

// roles maps alternative names of roles to the usual names.
var roles = map[string]string{"human": "user", "ai": "assistant", "model": "assistant"}

// isSent reports whether a message has content. Instrumentation that withholds content still sends
// the roles, the types of the parts, and the names of the tools. A text counts even if it is empty.
func (m *message) isSent() bool {
	for _, p := range m.parts {
		if p.text != nil || p.other.Kind() != pyjson.Object {
			return true
		}
		for name := range p.other.Members() {
			if string(name.Text()) != "type" {
				return true
			}
		}
	}
	return slices.ContainsFunc(m.calls, func(c toolCall) bool { return c.arguments != nil })
}

// areSent reports whether at least one of the messages has content.
func areSent(list []message) bool {
	return slices.ContainsFunc(list, func(m message) bool { return m.isSent() })
}

// messages reads a list of messages or a single message. role is the default role, for messages
// that do not state one.
func (r *Reader) messages(list pyjson.Value, role string) (all []message) {
	if list.Kind() != pyjson.Array {
		return r.addMessage(all, list, role)
	}
	for v := range list.Elements() {
		all = r.addMessage(all, v, role)
	}
	return all
}

// addMessage appends a message to all. Tool results, which some dialects send as parts of a message,
// are appended as separate messages.
func (r *Reader) addMessage(all []message, v pyjson.Value, role string) []message {
	m := message{role: []byte(role)}
	if v.Kind() != pyjson.Object {
		if v.IsGiven() {
			m.parts = r.addPart(nil, &all, &m, v)
			all = append(all, m)
		}
		return all
	}
	body := v
	if inner := v.Member("message"); inner.Kind() == pyjson.Object {
		body = inner
	}
	for _, v := range [...]pyjson.Value{body, v} {
		if text := v.Member("role").Text(); len(text) > 0 {
			m.role = text
			if usual := roles[string(text)]; usual != "" {
				m.role = []byte(usual)
			}
			break
		}
	}
	if kind := string(body.Member("type").Text()); itemTypes[kind] || kind != "" && kind != "message" && !body.Member("role").IsGiven() && !hasContent(body) {
		if m.parts = r.addPart(nil, &all, &m, body); kind == "reasoning" || len(m.parts)+len(m.calls) == 0 {
			return all // the body is the model's reasoning or the result of a tool
		}
		return append(all, m)
	}
	m.name = first(body, "name")
	m.toolCallID = first(body, "tool_call_id")
	if m.toolCallID == nil && string(m.role) == "tool" {
		m.toolCallID = first(body, "id")
	}
	before := len(all)
	m.parts = r.addContent(nil, &all, &m, body)
	for call := range body.Member("tool_calls").Elements() {
		m.calls = r.addCall(m.calls, call)
	}
	if call := body.Member("function_call"); call.Kind() == pyjson.Object {
		m.calls = r.addCall(m.calls, call)
	}
	if name := body.Member("function_call_name").Text(); len(name) > 0 {
		m.calls = append(m.calls, toolCall{name: name, arguments: r.arguments(body.Member("function_call_arguments_json"))})
	}
	if len(all) > before && len(m.parts) == 0 && len(m.calls) == 0 {
		return all // the message contained only tool results
	}
	return append(all, m)
}

// contentMembers lists the members that can hold the content of a message, in order of precedence.
var contentMembers = [...]string{"parts", "contents", "content", "text", "completion", "prompt", "message", "user"}

func hasContent(body pyjson.Value) bool {
	for _, name := range contentMembers {
		if body.Member(name).IsGiven() {
			return true
		}
	}
	return false
}

// addContent finds the first of contentMembers in body and appends its parts to parts.
func (r *Reader) addContent(parts []part, all *[]message, m *message, body pyjson.Value) []part {
	for _, name := range contentMembers {
		switch v := body.Member(name); v.Kind() {
		case pyjson.Array:
			for e := range v.Elements() {
				parts = r.addPart(parts, all, m, e)
			}
			return parts
		case pyjson.Object:
			if inner := v.Member("text"); inner.Kind() == pyjson.String && name != "content" {
				return append(parts, part{text: textIn(inner)}) // OpenInference sends prompt.text and completion.text
			}
			if v.Member("parts").Kind() == pyjson.Array { // Gemini
				return r.addContent(parts, all, m, v)
			}
			return r.addPart(parts, all, m, v)
		case pyjson.String:
			return append(parts, part{text: textIn(v)})
		}
	}
	return parts
}

// textIn returns the text of v. The result is not nil even if the text is empty.
func textIn(v pyjson.Value) []byte {
	if text := v.Text(); text != nil {
		return text
	}
	return []byte{}
}

// addPart appends the part v to parts. If v is a tool call, addPart instead adds the call to m; if v
// is a tool result, addPart instead adds a message to all.
func (r *Reader) addPart(parts []part, all *[]message, m *message, v pyjson.Value) []part {
	if inner := v.Member("message_content"); inner.Kind() == pyjson.Object {
		v = inner
	}
	switch v.Kind() {
	case pyjson.String:
		return append(parts, part{text: textIn(v)})
	case pyjson.Object:
	case pyjson.Null:
		return parts
	default:
		return append(parts, part{other: v})
	}
	kind := string(v.Member("type").Text())
	if kind == "" { // Gemini and Bedrock parts have no type
		for _, name := range [...]string{"functionCall", "function_call", "toolUse"} {
			if call := v.Member(name); call.Kind() == pyjson.Object {
				m.calls = r.addCall(m.calls, call)
				return parts
			}
		}
		for _, name := range [...]string{"functionResponse", "function_response", "toolResult"} {
			if answer := v.Member(name); answer.Kind() == pyjson.Object {
				v, kind = answer, "tool_result"
				break
			}
		}
	}
	switch kind {
	case "text", "input_text", "output_text", "":
		if text := first(v, "content", "text"); text != nil {
			return append(parts, part{text: text})
		}
	case "reasoning", "thinking":
		if text := first(v, "content", "text", "thinking"); text != nil {
			return append(parts, part{text: text, thinking: true})
		}
	case "tool_call", "tool_use", "function_call", "tool-call":
		m.calls = r.addCall(m.calls, v)
		return parts
	case "tool_call_response", "tool_result", "function_call_output", "tool-result":
		answer := message{role: []byte("tool"), name: first(v, "name"), toolCallID: first(v, "id", "tool_use_id", "call_id", "tool_call_id", "toolCallId", "toolUseId")}
		for _, name := range [...]string{"response", "result", "content", "output"} {
			if given := v.Member(name); given.Kind() == pyjson.String {
				answer.parts = []part{{text: textIn(given)}}
				break
			} else if given.IsGiven() {
				answer.parts = []part{{text: given.AppendCanonical(nil, pyjson.CompactForm)}}
				break
			}
		}
		*all = append(*all, answer)
		return parts
	}
	return append(parts, part{other: v})
}

// addCall appends the tool call that v describes to calls.
func (r *Reader) addCall(calls []toolCall, v pyjson.Value) []toolCall {
	if inner := v.Member("tool_call"); inner.Kind() == pyjson.Object {
		v = inner
	}
	c := toolCall{id: first(v, "call_id", "id", "toolCallId", "toolUseId")}
	if function := v.Member("function"); function.Kind() == pyjson.Object {
		v = function
	}
	c.name = first(v, "name", "toolName")
	for _, name := range [...]string{"arguments", "input", "args"} {
		if given := v.Member(name); given.IsGiven() {
			c.arguments = r.arguments(given)
			break
		}
	}
	return append(calls, c)
}

// arguments returns the arguments of a tool call as canonical JSON. v can be the arguments
// themselves or a string that contains them as JSON. A string that is not JSON is returned
// unchanged.
func (r *Reader) arguments(v pyjson.Value) []byte {
	if v.Kind() == pyjson.String {
		parsed, ok := r.parser.parse(v.Text())
		if !ok {
			return v.Text()
		}
		v = parsed
	}
	if !v.IsGiven() {
		return nil
	}
	return v.AppendCanonical(nil, pyjson.CompactForm)
}

// first returns the first of the named members that is a string, or nil if there is none.
func first(v pyjson.Value, names ...string) []byte {
	for _, name := range names {
		if m := v.Member(name); m.Kind() == pyjson.String {
			return textIn(m)
		}
	}
	return nil
}

// takeSystem removes the system messages at the beginning of list and returns the texts of those
// that have content, and the remaining messages.
func takeSystem(list []message) (texts [][]byte, rest []message) {
	for len(list) > 0 && (string(list[0].role) == "system" || string(list[0].role) == "developer") {
		if list[0].isSent() {
			texts = append(texts, list[0].plain())
		}
		list = list[1:]
	}
	return texts, list
}

// plain returns the text of a message. Parts that are not text are included as JSON.
func (m *message) plain() []byte {
	var texts [][]byte
	for _, p := range m.parts {
		if p.text != nil {
			texts = append(texts, p.text)
		} else {
			texts = append(texts, p.other.AppendCanonical(nil, pyjson.CompactForm))
		}
	}
	return bytes.Join(texts, []byte("\n\n"))
}

// output returns the output of a generation, or nil if the messages have no content. If there is
// only one answer and it consists of text, output returns the text. Otherwise, it returns all
// answers as a JSON array of messages. It leaves out the model's reasoning.
func (r *Reader) output(list []message) []byte {
	if !areSent(list) {
		return nil
	}
	return r.outputOf(list)
}

// outputOf is output for messages whose content was sent.
func (r *Reader) outputOf(list []message) []byte {
	for i := range list {
		kept := list[i].parts[:0]
		for _, p := range list[i].parts {
			if !p.thinking {
				kept = append(kept, p)
			}
		}
		list[i].parts = kept
	}
	if len(list) == 1 && len(list[0].calls) == 0 {
		text := []byte{}
		for _, p := range list[0].parts {
			if p.text == nil {
				return r.appendMessages(nil, list)
			}
			text = append(text, p.text...)
		}
		return text
	}
	return r.appendMessages(nil, list)
}

// appendMessages appends messages as canonical JSON, in the form of OpenAI's chat completions.
func (r *Reader) appendMessages(dst []byte, list []message) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendMessage(dst, &list[i])
	}
	return append(dst, ']')
}

func (r *Reader) appendMessage(dst []byte, m *message) []byte {
	dst = append(dst, '{')
	if len(m.parts) > 0 || len(m.calls) == 0 {
		dst = append(appendContent(append(dst, `"content":`...), m.parts), ',')
	}
	if m.name != nil {
		dst = append(pyjson.AppendString(append(dst, `"name":`...), m.name), ',')
	}
	dst = pyjson.AppendString(append(dst, `"role":`...), m.role)
	if m.toolCallID != nil {
		dst = pyjson.AppendString(append(dst, `,"tool_call_id":`...), r.callName(m.toolCallID))
	}
	if len(m.calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i, c := range m.calls {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"function":{`...)
			if c.arguments != nil {
				dst = append(pyjson.AppendString(append(dst, `"arguments":`...), c.arguments), ',')
			}
			dst = append(pyjson.AppendString(append(dst, `"name":`...), c.name), `},`...)
			if c.id != nil {
				dst = append(pyjson.AppendString(append(dst, `"id":`...), r.callName(c.id)), ',')
			}
			dst = append(dst, `"type":"function"}`...)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// callName returns the name that replaces the ID of a tool call: call_1 for the first ID, and so
// on. Providers choose IDs at random, so otherwise two runs of the same conversation would never
// have the same input.
func (r *Reader) callName(id []byte) []byte {
	name, known := r.calls[string(id)]
	if !known {
		name = "call_" + strconv.Itoa(len(r.calls)+1)
		r.calls[string(id)] = name
	}
	return []byte(name)
}

// appendContent appends the parts of a message as a JSON array, or as a string if there is only one
// part and it is text.
func appendContent(dst []byte, parts []part) []byte {
	switch {
	case len(parts) == 0:
		return append(dst, `""`...)
	case len(parts) == 1 && parts[0].text != nil && !parts[0].thinking:
		return pyjson.AppendString(dst, parts[0].text)
	}
	dst = append(dst, '[')
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		switch {
		case p.text == nil:
			dst = p.other.AppendCanonical(dst, pyjson.CompactForm)
		case p.thinking:
			dst = append(pyjson.AppendString(append(dst, `{"text":`...), p.text), `,"type":"reasoning"}`...)
		default:
			dst = append(pyjson.AppendString(append(dst, `{"text":`...), p.text), `,"type":"text"}`...)
		}
	}
	return append(dst, ']')
}
