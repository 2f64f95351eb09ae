package event

import (
	"encoding/hex"
	"iter"
)

// Content is a piece of content that a record refers to (spec: Content).
type Content struct {
	Name   []byte   // name within the record, such as "output"
	Digest [32]byte // SHA-256 of the content's bytes
	Size   uint64   // length of the content in bytes
}

// Contents yields the pieces of content that a record refers to, sorted by name. Several pieces may
// have the same bytes. It skips pieces whose digest is malformed.
func (e *Event) Contents() iter.Seq[Content] {
	return func(yield func(Content) bool) {
		for name, named := range e.Record.Member("content").Members() {
			c := Content{Name: name.Text(), Size: Uint64OrZero(named.Member("size"))}
			digits := text(named.Member("sha256"))
			if len(digits) != hex.EncodedLen(len(c.Digest)) {
				continue
			}
			if _, err := hex.Decode(c.Digest[:], digits); err == nil && !yield(c) {
				return
			}
		}
	}
}
