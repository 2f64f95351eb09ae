package genai

import (
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"

	"colophon/ledger/record/pyjson"
)

// input is the input of a generation before it is turned into a payload. At most one of chat,
// prompt, and other is set.
type input struct {
	given  bool // the input was sent and has content
	chat   []message
	prompt []byte       // a text that is not a chat
	other  pyjson.Value // JSON that is not a chat
}

// chatInput returns an input that consists of messages. It is not given if they have no content.
func chatInput(list []message) input {
	if !areSent(list) {
		return input{}
	}
	return input{given: true, chat: list}
}

// readInput reads the input. If several dialects provide an input, it uses the first one that it
// finds.
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
			return chatInput(list), err // content that is hidden here must not be taken from an attribute below
		}
	}
	if list := r.eventMessages(false); list != nil {
		return chatInput(list), nil
	}
	for _, name := range promptNames {
		if in, err = r.prompt(s.attributes[name], false); in.given || err != nil {
			return in, err
		}
	}
	return in, nil
}

// prompt reads an attribute that contains an input: a chat, a text, or other JSON. If chat is true,
// any list counts as a chat.
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
		return input{}, nil // instrumentation that withholds content sends an empty value
	case chat && parsed.Kind() != pyjson.Object || isChat(parsed):
		return chatInput(r.messages(parsed, "user")), nil
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
		return chatInput(chat), nil
	}
	if text := parsed.Member("prompt"); text.Kind() == pyjson.String {
		return input{given: true, prompt: textIn(text)}, nil
	}
	return input{given: true, other: parsed}, nil
}

// requestForms lists the forms that a complete request in an attribute can have. messages is the
// member that contains the messages, and text says whether that member can be a string. system
// lists the members that can contain the system prompt.
var requestForms = []struct {
	messages string
	text     bool
	system   []string
}{
	{"messages", false, []string{"system"}},                                  // OpenAI, Anthropic, Ollama
	{"contents", false, []string{"system_instruction", "systemInstruction"}}, // Gemini
	{"input", true, []string{"instructions"}},                                // OpenAI's Responses API
}

// systemMessage converts a system prompt that was sent separately from the messages.
func (r *Reader) systemMessage(system pyjson.Value) message {
	m := message{role: []byte("system")}
	switch system.Kind() {
	case pyjson.String:
		m.parts = []part{{text: textIn(system)}}
	case pyjson.Array:
		for e := range system.Elements() {
			m.parts = r.addPart(m.parts, new([]message), &m, e)
		}
	default:
		m.parts = r.addContent(nil, new([]message), &m, system)
	}
	return m
}

// isChat reports whether v is a list of messages. Each element must have a role, a message, or a
// type. Parts of a message have types too, so at least one element must have a role, a message, or
// one of itemTypes.
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

// indexedMessages reads messages from numbered attributes, such as PREFIX.0.content. It returns nil if
// there are none.
func (r *Reader) indexedMessages(prefix, role string) ([]message, error) {
	text, err := r.source.indexed(prefix)
	if text == nil || err != nil {
		return nil, err
	}
	list, _ := r.parser.parse(text)
	return r.messages(list, role), nil
}

// eventMessages reads the messages that were sent as events. If choices is true, it reads only the
// choices; otherwise, it reads only the other messages. It returns nil if there are none.
func (r *Reader) eventMessages(choices bool) (list []message) {
	s := &r.source
	add := func(name string, v pyjson.Value) {
		if role := messageEvents[name]; role != "" && (name == choiceEvent) == choices {
			list = r.addMessage(list, v, role)
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
		events, _, _ := r.value(s.attributes[eventsName]) // an error means that the value is nested too deeply to be a list of messages
		for e := range events.Elements() {
			add(string(e.Member("event.name").Text()), e)
		}
	}
	return list
}

// instructions returns the texts of the instructions that were sent separately from the messages.
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
			m.parts = r.addPart(m.parts, new([]message), &m, e)
		}
		if !m.isSent() {
			return nil, nil
		}
		return [][]byte{m.plain()}, nil
	}
	for _, m := range r.messages(parsed, "system") {
		if m.isSent() {
			texts = append(texts, m.plain())
		}
	}
	return texts, nil
}
