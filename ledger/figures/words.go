package figures

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"colophon/client/wire"
)

// maxWords is the maximum length, in characters, of the text that firstWords returns.
const maxWords = 100

// firstWords returns the first words of text as one line of at most maxWords characters, and
// whether the text continues. It treats control characters and characters that change the text
// direction as word separators.
func firstWords(text []byte) (words string, cut bool) {
	const read = 8 * maxWords // in bytes; enough for maxWords four-byte characters and as many bytes of separators
	cut = len(text) > read
	var line strings.Builder
	length := 0
	for word := range strings.FieldsFuncSeq(strings.ToValidUTF8(string(text[:min(len(text), read)]), "\ufffd"), separates) {
		n := utf8.RuneCountInString(word)
		if length > 0 && length+1+n > maxWords {
			return line.String(), true
		}
		if n > maxWords { // the first word alone is too long
			return string([]rune(word)[:maxWords]), true
		}
		if length > 0 {
			line.WriteByte(' ')
			length++
		}
		line.WriteString(word)
		length += n
	}
	return line.String(), cut
}

func separates(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// instructionMembers are the usual names of the member that best identifies a payload or policy, the
// most specific first.
var instructionMembers = [...]string{"instruction", "question", "prompt", "query", "input", "text", "title", "name"}

// instruction returns the text that best identifies a JSON object. It looks for a member named in
// instructionMembers, then for the user's last message, and then for the longest text. If the
// object contains no text, instruction returns the object itself.
func instruction(object []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return object
	}
	text := func(raw json.RawMessage) (s string) {
		if len(raw) > 0 && raw[0] == '"' {
			_ = json.Unmarshal(raw, &s) // never fails, because the object is valid
		}
		return s
	}
	for _, name := range instructionMembers {
		if s := text(members[name]); s != "" {
			return []byte(s)
		}
	}
	if s := lastMessage(members["messages"]); s != "" {
		return []byte(s)
	}
	longest := ""
	for _, raw := range members {
		if s := text(raw); len(s) > len(longest) || len(s) == len(longest) && s < longest {
			longest = s
		}
	}
	if longest == "" {
		return object
	}
	return []byte(longest)
}

// lastMessage returns the text of the user's last message in a list of messages. If no message is
// from the user, it returns the first text in the list, or "" if the list contains no text.
func lastMessage(list json.RawMessage) string {
	var messages []struct {
		Role    string
		Content json.RawMessage
	}
	if json.Unmarshal(list, &messages) != nil {
		return ""
	}
	last := ""
	for _, m := range messages {
		var text string
		var parts []struct{ Text string }
		if json.Unmarshal(m.Content, &text) != nil && json.Unmarshal(m.Content, &parts) == nil {
			for _, part := range parts {
				text += part.Text
			}
		}
		if text != "" && (m.Role == "user" || last == "") {
			last = text
		}
	}
	return last
}

// NameFromText returns a name that consists of the first words of text, or nil if text has no words.
func NameFromText(text []byte) *wire.ReadableName {
	words, cut := firstWords(text)
	if words == "" {
		return nil
	}
	return &wire.ReadableName{Words: words, Truncated: cut}
}
