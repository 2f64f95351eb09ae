package rerun

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// Request is the request that the endpoint receives in each run.
type Request struct {
	URL  string          `json:"url"`
	Body json.RawMessage `json:"body"` // the JSON text that is sent
	// UnsentMembers lists the members of the payload that the request does not include, sorted.
	UnsentMembers []string `json:"unsent"`
}

// sampling lists the payload members that are sampling settings of the model. Both APIs use these
// names.
var sampling = []string{"top_p", "top_k", "min_p", "stop", "presence_penalty", "frequency_penalty", "repeat_penalty"}

// prompt is the input of the model: a list of messages or a single string.
type prompt struct {
	messages []json.RawMessage // nil if the prompt is text
	text     string
}

// NewRequest builds a request that repeats the generation in r. member is the name of the payload
// member that contains the prompt. If it is empty, the prompt is the list of messages in "messages"
// or the text in "prompt". If the payload has neither, the prompt is the whole payload, as the JSON
// text that was posted.
func (e *Endpoint) NewRequest(r *Record, member string) (*Request, error) {
	var payload map[string]json.RawMessage
	if err := json.Unmarshal(r.Payload, &payload); err != nil {
		return nil, fmt.Errorf("reading the payload of event %d: %w", r.Seq, err)
	}
	asked, used, err := readPrompt(r, payload, member)
	if err != nil {
		return nil, err
	}
	if used == nil {
		for name := range payload {
			used = append(used, name) // the prompt is the whole payload
		}
	}
	used = append(used, "seed") // the record's seed is sent instead
	settings := make(map[string]json.RawMessage)
	copySetting := func(name string, value json.RawMessage) {
		if string(value) != "null" {
			settings[name] = value
		}
	}
	for _, name := range sampling {
		if value, has := payload[name]; has {
			copySetting(name, value)
			used = append(used, name)
		}
	}
	var request Request
	if e.API == APIOllama {
		if options, ok := readObject(payload["options"]); ok {
			for name, value := range options {
				copySetting(name, value)
			}
			used = append(used, "options")
		}
		request.URL, request.Body, err = e.ollama(r, asked, settings)
	} else {
		request.URL, request.Body, err = e.openAI(r, asked, settings)
	}
	request.UnsentMembers = []string{}
	for name := range payload {
		if !slices.Contains(used, name) {
			request.UnsentMembers = append(request.UnsentMembers, name)
		}
	}
	slices.Sort(request.UnsentMembers)
	return &request, err
}

// readPrompt returns the prompt and the names of the payload members that contain it. The names
// are nil if the prompt is the whole payload.
func readPrompt(r *Record, payload map[string]json.RawMessage, member string) (prompt, []string, error) {
	if member == "" {
		for _, name := range []string{"messages", "prompt"} {
			if p, ok := promptOf(payload[name]); ok && (p.messages != nil) == (name == "messages") {
				return p, []string{name}, nil
			}
		}
		return prompt{text: string(r.Payload)}, nil, nil
	}
	value, has := payload[member]
	if !has {
		return prompt{}, nil, cli.ExitErrorf(cli.ExitUsage, "--prompt: the payload of event %d has no member %q; its members are %s", r.Seq, member, strings.Join(slices.Sorted(maps.Keys(payload)), ", "))
	}
	p, ok := promptOf(value)
	if !ok {
		return prompt{}, nil, cli.ExitErrorf(cli.ExitUsage, "--prompt: the member %q of the payload of event %d is neither a string nor a list of messages; name another member", member, r.Seq)
	}
	return p, []string{member}, nil
}

// promptOf parses a prompt, which is either a string or a list of messages that each have a role.
// ok is false for any other value.
func promptOf(value json.RawMessage) (p prompt, ok bool) {
	if text := (*string)(nil); json.Unmarshal(value, &text) == nil && text != nil {
		return prompt{text: *text}, true
	}
	if json.Unmarshal(value, &p.messages) != nil || len(p.messages) == 0 {
		return prompt{}, false
	}
	for _, message := range p.messages {
		if role(message) == "" {
			return prompt{}, false
		}
	}
	return p, true
}

// role returns the role of a message, or "" if the value is not a message.
func role(message json.RawMessage) string {
	var m struct {
		Role string `json:"role"`
	}
	if json.Unmarshal(message, &m) != nil {
		return ""
	}
	return m.Role
}

// chat returns the prompt as a list of messages. The recorded system prompt comes first, unless one
// of the messages is already a system prompt.
func (p prompt) chat(system *string) ([]json.RawMessage, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	messages := p.messages
	if messages == nil {
		text, err := wire.Marshal(message{"user", p.text})
		if err != nil {
			return nil, err
		}
		messages = []json.RawMessage{text}
	}
	instructs := func(m json.RawMessage) bool { return role(m) == "system" || role(m) == "developer" }
	if system == nil || slices.ContainsFunc(messages, instructs) {
		return messages, nil
	}
	text, err := wire.Marshal(message{"system", *system})
	return append([]json.RawMessage{text}, messages...), err
}

// ollama builds a request to Ollama's API and returns its URL and body. The path is /api/chat if
// the prompt is a list of messages, and /api/generate if it is a string.
func (e *Endpoint) ollama(r *Record, asked prompt, settings map[string]json.RawMessage) (string, json.RawMessage, error) {
	body := struct {
		Model    string                     `json:"model"`
		Messages []json.RawMessage          `json:"messages,omitempty"`
		System   *string                    `json:"system,omitempty"`
		Prompt   *string                    `json:"prompt,omitempty"`
		Stream   bool                       `json:"stream"`
		Options  map[string]json.RawMessage `json:"options"`
	}{Model: r.Event.Model, Options: settings}
	if err := r.addConditions(settings, "num_predict"); err != nil {
		return "", nil, err
	}
	url := e.at("/api/generate")
	if asked.messages == nil {
		body.System, body.Prompt = r.SystemPrompt, &asked.text
	} else {
		url = e.at("/api/chat")
		var err error
		if body.Messages, err = asked.chat(r.SystemPrompt); err != nil {
			return "", nil, err
		}
	}
	text, err := wire.Marshal(body)
	return url, text, err
}

// openAI builds a request to /chat/completions and returns its URL and body.
func (e *Endpoint) openAI(r *Record, asked prompt, settings map[string]json.RawMessage) (string, json.RawMessage, error) {
	messages, err := asked.chat(r.SystemPrompt)
	if err != nil {
		return "", nil, err
	}
	body := map[string]any{"model": r.Event.Model, "messages": messages, "stream": false}
	if err := r.addConditions(settings, "max_tokens"); err != nil {
		return "", nil, err
	}
	for name, value := range settings {
		body[name] = value
	}
	text, err := wire.Marshal(body)
	return e.at("/chat/completions"), text, err
}

// addConditions sets the temperature, token limit, and seed in settings to the record's
// values. These replace the payload's values. maxTokens is the endpoint's name for the token
// limit.
func (r *Record) addConditions(settings map[string]json.RawMessage, maxTokens string) error {
	if t := r.Event.Temperature; t != nil {
		text, err := json.Marshal(*t)
		if err != nil {
			return err
		}
		settings["temperature"] = text
	}
	for name, number := range map[string]json.Number{maxTokens: r.Event.MaxTokens, "seed": r.Event.Seed} {
		if number != "" {
			settings[name] = json.RawMessage(number)
		}
	}
	return nil
}

// readObject parses a JSON object. ok is false for any other value.
func readObject(value json.RawMessage) (object map[string]json.RawMessage, ok bool) {
	return object, json.Unmarshal(value, &object) == nil && object != nil
}
