// Package members computes and reads the digests of payload members in events (spec: Payload
// members).
package members

import (
	"bytes"
	"encoding/hex"
	"iter"
	"sync"

	"colophon/ledger/record/pyjson"
)

// Digests contains the digests of a payload's members in the form that events use (spec: Payload
// members). It is a canonical JSON object that maps JSON pointers to digests. It is the JSON value
// null if the payload has too many members or a name is too long. It is a nil slice if the event
// contains neither an object nor null.
type Digests []byte

// IsComplete reports whether every member of the payload has a digest.
func (m Digests) IsComplete() bool { return len(m) > 0 && m[0] == '{' }

// HasDigests reports whether m contains at least one digest.
func (m Digests) HasDigests() bool { return m.IsComplete() && len(m) > len("{}") }

// Find returns the digest of the member with the given pointer, or nil if there is none. pointer
// must have the form that All yields.
func (m Digests) Find(pointer []byte) []byte {
	for at, digest := range m.All() {
		if bytes.Equal(at, pointer) {
			return digest
		}
	}
	return nil
}

// Replace returns a copy of m in which the member at pointer has the given digest. m must contain a
// digest for pointer.
func (m Digests) Replace(pointer, digest []byte) Digests {
	m = bytes.Clone(m)
	copy(m.Find(pointer), digest)
	return m
}

// All yields each pointer with its digest, in the same order as in the event. A pointer is a
// canonical JSON string, including the quotes. A digest is in hexadecimal.
func (m Digests) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(pointer, digest []byte) bool) {
		const value = len(`:"`) + 2*DigestSize + len(`"`)
		if !m.IsComplete() {
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

// AppendBytes appends the bytes of all the digests to dst, in the same order as in the event.
// Because each digest also covers its pointer, the bytes identify the pointers too.
func (m Digests) AppendBytes(dst []byte) []byte {
	for _, digest := range m.All() {
		dst, _ = hex.AppendDecode(dst, digest) // the digests in events are well-formed
	}
	return dst
}

// PointerText returns the text of a pointer in the form that All yields, or "" if it is not valid
// JSON.
func PointerText(pointer []byte) string {
	if !bytes.ContainsRune(pointer, '\\') {
		return string(pointer[1 : len(pointer)-1])
	}
	var document pyjson.Document
	if document.Parse(pointer) != nil {
		return ""
	}
	return string(document.Root().Text())
}

var documents = sync.Pool{New: func() any { return new(pyjson.Document) }}

// IsValid reports whether m is null or a canonical object of digests.
func (m Digests) IsValid() bool {
	if string(m) == "null" {
		return true
	}
	document := documents.Get().(*pyjson.Document)
	defer documents.Put(document)
	defer document.Reset()
	if document.Parse(m) != nil {
		return false
	}
	object := document.Root()
	if object.Kind() != pyjson.Object || object.Len() > MaxMembers {
		return false
	}
	for pointer, digest := range object.Members() {
		if !isPointer(pointer.Text()) || !IsDigest(digest.Text()) {
			return false
		}
	}
	return bytes.Equal(object.AppendCanonical(nil, pyjson.CompactForm), m)
}

// UnknownSecret stands for a secret that is not known. Digests computed with it have the right pointers
// but the wrong values.
var UnknownSecret = new(Secret)

// isPointer reports whether text is the JSON pointer of a payload member for which an event can
// have a digest.
func isPointer(text []byte) bool {
	_, ok := NameFromPointer(text)
	return ok
}

// NameFromPointer returns the name of the payload member with the given JSON pointer. ok is false if no event
// can have a digest for such a member.
func NameFromPointer(pointer []byte) (name []byte, ok bool) {
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
	return name, len(name) <= MaxNameBytes && !pyjson.HasLoneSurrogate(name)
}

// Builder computes the digests of one payload's members.
type Builder struct {
	Secret    *Secret // if nil, the Builder computes no digests
	Buffer    []byte  // buffer for the digests; must be empty at first
	count     int
	escaped   bool // whether any pointer contains an escape, in which case the pointers may be out of order
	overLimit bool // whether the payload exceeds MaxMembers or MaxNameBytes
}

// MemberVisitor returns the function that rules.PayloadHashes must call for each member. It is nil if
// m has no secret.
func (m *Builder) MemberVisitor() func(name, form []byte) {
	if m.Secret == nil {
		return nil
	}
	return m.add
}

func (m *Builder) add(name, form []byte) {
	m.count++
	if m.overLimit = m.overLimit || m.count > MaxMembers || len(name) > MaxNameBytes; m.overLimit {
		return
	}
	m.escaped = m.escaped || bytes.ContainsAny(name, "~/")
	var room [2*MaxNameBytes + 1]byte
	pointer := pyjson.AppendPointerToken(room[:0], name)
	m.Buffer = append(m.Buffer, "{,"[min(m.count-1, 1)])
	m.Buffer = append(pyjson.AppendString(m.Buffer, pointer), ':', '"')
	m.Buffer = append(m.Secret.AppendDigest(m.Buffer, pointer, form), '"')
}

// Finish returns the digests of the members for which the visitor was called. The result uses the
// memory of m.Buffer.
func (m *Builder) Finish() Digests {
	switch {
	case m.Secret == nil:
		return nil
	case m.overLimit:
		return Digests("null")
	case m.count == 0:
		return Digests("{}")
	}
	m.Buffer = append(m.Buffer, '}')
	if m.escaped {
		var document pyjson.Document
		if err := document.Parse(m.Buffer); err == nil { // fails only if a name is not valid UTF-8, in which case the record is refused
			m.Buffer = document.Root().AppendCanonical(nil, pyjson.CompactForm)
		}
	}
	return m.Buffer
}
