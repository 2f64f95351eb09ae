package record

import (
	"bytes"
	"iter"
	"sync"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Members are the digests of a payload's members as an event has them (spec: Payload members): a
// canonical JSON object of digests by JSON pointer, or null if the payload has too many members or
// too long names. nil if the event has none.
type Members []byte

// Known reports whether there is a digest of every member.
func (m Members) Known() bool { return len(m) > 0 && m[0] == '{' }

// All yields pointers and digests in the order of the event. A pointer is a canonical JSON string
// with its quotes, and a digest has hexadecimal digits.
func (m Members) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(pointer, digest []byte) bool) {
		const value = len(`:"`) + 2*rules.MemberDigestBytes + len(`"`)
		if !m.Known() {
			return
		}
		for rest := m[1:]; len(rest) > 1; {
			end := 1
			for end < len(rest) && rest[end] != '"' {
				if rest[end] == '\\' {
					end++
				}
				end++
			}
			end++
			if len(rest) < end+value+1 {
				return
			}
			if !yield(rest[:end:end], rest[end+len(`:"`):end+value-1:end+value-1]) {
				return
			}
			rest = rest[end+value+1:]
		}
	}
}

var memberDocuments = sync.Pool{New: func() any { return new(pyjson.Document) }}

// isValid reports whether an event can have these members.
func (m Members) isValid() bool {
	if string(m) == "null" {
		return true
	}
	document := memberDocuments.Get().(*pyjson.Document)
	defer memberDocuments.Put(document)
	defer document.Reset()
	if document.Parse(m) != nil {
		return false
	}
	object := document.Root()
	if object.Kind() != pyjson.Object || object.Len() > rules.MaxMembers {
		return false
	}
	for pointer, digest := range object.Members() {
		if !isMemberPointer(pointer.Text()) || !rules.IsMemberDigest(digest.Text()) {
			return false
		}
	}
	return bytes.Equal(object.AppendCanonical(nil, pyjson.Compact), m)
}

// AnyMembers stands for a secret that is not known. The members that it makes have the right
// pointers and wrong digests.
var AnyMembers = new(rules.MemberSecret)

// isMemberPointer reports whether a text is the JSON pointer of a payload member that events can
// have a digest of.
func isMemberPointer(text []byte) bool {
	_, ok := MemberName(text)
	return ok
}

// MemberName returns the name of the payload member with that JSON pointer. ok is false if no event
// has a digest of such a member.
func MemberName(pointer []byte) (name []byte, ok bool) {
	rest, ok := bytes.CutPrefix(pointer, []byte("/"))
	if !ok || bytes.ContainsRune(rest, '/') {
		return nil, false
	}
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		if c == '~' {
			i++
			if i == len(rest) || rest[i] != '0' && rest[i] != '1' {
				return nil, false
			}
			c = "~/"[rest[i]-'0']
		}
		name = append(name, c)
	}
	return name, len(name) <= rules.MaxMemberName && !pyjson.HasLoneSurrogate(name)
}

// membersOf makes the members of one payload.
type membersOf struct {
	secret  *rules.MemberSecret // nil makes none
	text    []byte
	count   int
	escaped bool // a pointer has escapes, so that pointers may be out of order
	bounded bool // the payload is beyond the bounds
}

// visitor returns what rules.PayloadHashes calls.
func (m *membersOf) visitor() func(name, form []byte) {
	if m.secret == nil {
		return nil
	}
	return m.add
}

func (m *membersOf) add(name, form []byte) {
	m.count++
	if m.bounded = m.bounded || m.count > rules.MaxMembers || len(name) > rules.MaxMemberName; m.bounded {
		return
	}
	m.escaped = m.escaped || bytes.ContainsAny(name, "~/")
	var room [2*rules.MaxMemberName + 1]byte
	pointer := pyjson.AppendPointer(room[:0], name)
	m.text = append(m.text, "{,"[min(m.count-1, 1)])
	m.text = append(pyjson.AppendString(m.text, pointer), ':', '"')
	m.text = append(m.secret.AppendDigest(m.text, pointer, form), '"')
}

// end returns the members.
func (m *membersOf) end() Members {
	switch {
	case m.secret == nil:
		return nil
	case m.bounded:
		return Members("null")
	case m.count == 0:
		return Members("{}")
	}
	m.text = append(m.text, '}')
	if m.escaped {
		var document pyjson.Document
		if err := document.Parse(m.text); err == nil { // it is JSON, unless a name is not UTF-8 and the record is refused
			m.text = document.Root().AppendCanonical(nil, pyjson.Compact)
		}
	}
	return m.text
}
