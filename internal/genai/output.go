package genai

import (
	"slices"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"

	"colophon/ledger/record/pyjson"
)

// readOutput reads the output, or returns nil if it was not sent. If several dialects provide an
// output, it uses the first one that it finds.
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
			if output := r.output(r.messages(parsed, "assistant")); output != nil {
				return output, nil
			}
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
		if output, err := r.textAndCalls(); output != nil || err != nil {
			return output, err
		}
	}
	for _, name := range completionNames {
		if v := s.attributes[name]; v != nil {
			if output, err := r.completion(v); output != nil || err != nil {
				return output, err
			}
		}
	}
	return nil, nil
}

// textAndCalls reads an answer whose text and tool calls were sent in separate attributes, as
// Vercel's AI SDK does.
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
		m.calls = r.addCall(m.calls, call)
	}
	return r.output([]message{m}), nil
}

// completion reads an attribute that contains an output: answers in the form of a chat, or any
// text.
func (r *Reader) completion(v *commonpb.AnyValue) ([]byte, error) {
	parsed, ok, err := r.value(v)
	if err != nil {
		return nil, err
	}
	if answers, found := answersIn(parsed); ok && found {
		list := r.messages(answers, "assistant")
		// A provider's response is whole or absent, so a call without arguments is a call of a tool that has none.
		if slices.ContainsFunc(list, func(m message) bool { return len(m.calls) > 0 }) {
			return r.outputOf(list), nil
		}
		return r.output(list), nil
	}
	if text, isText := v.GetValue().(*commonpb.AnyValue_StringValue); isText {
		return []byte(text.StringValue), nil
	}
	return appendAny(nil, v, 0)
}

// answersIn returns the answers in a provider's response, as a list of messages or as a single
// message.
func answersIn(v pyjson.Value) (answers pyjson.Value, found bool) {
	if isChat(v) {
		return v, true
	}
	if v.Kind() != pyjson.Object {
		return v, false
	}
	for _, name := range [...]string{"choices", "messages", "output"} { // OpenAI, LangChain, OpenAI's Responses API
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

// areCompletions reports whether v is a list of answers to a prompt that was not a chat.
func areCompletions(v pyjson.Value) bool {
	for e := range v.Elements() {
		if e.Member("text").Kind() != pyjson.String {
			return false
		}
	}
	return v.Kind() == pyjson.Array && v.Len() > 0
}
