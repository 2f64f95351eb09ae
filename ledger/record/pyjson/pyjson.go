// Package pyjson implements CPython's rules for JSON and text (spec: Text and JSON; Canonical
// question): what json.loads accepts, what json.dumps writes, and the results of str.strip,
// str.splitlines, str.split, str.lower, and unicodedata.normalize("NFC").
//
// Texts are in WTF-8: UTF-8 in which a lone surrogate is encoded in three bytes, as CPython's
// "surrogatepass" does. Lone surrogates come only from escapes in JSON strings.
package pyjson

import "fmt"

// These are the limits on a document.
const (
	// MaxDepth is the maximum depth of nested arrays and objects.
	MaxDepth = 512
	// MaxIntegerDigits is the maximum number of digits of an integer. It equals CPython's
	// sys.int_max_str_digits.
	MaxIntegerDigits = 4300
	// MaxSourceBytes is the maximum size of a source in bytes. Offsets into a source have 32 bits.
	MaxSourceBytes = 1 << 28
)

// Kind is the type of a JSON value.
type Kind uint8

// These are the kinds of values. A number without ".", "e", or "E" is an Integer; any other number
// is a Float.
const (
	Absent Kind = iota // the kind of the zero Value
	Null
	False
	True
	Integer
	Float
	String
	Array
	Object
)

// Form is one of the two canonical forms, which differ only in their separators.
type Form uint8

// These are the canonical forms (spec: Canonical JSON).
const (
	CompactForm Form = iota // "," and ":", used for run-DAG hashes and audit events
	SpacedForm              // ", " and ": ", used for IPC payloads
)

// SyntaxError reports why Document.Parse refused a source.
type SyntaxError struct {
	Offset  int    // position of the error in the source, in bytes
	Pointer string // JSON pointer of the refused value; "" if that is the whole document or the source is not valid JSON
	Msg     string // reason, as a phrase in lower case
}

// IsEmptySource reports whether the source was empty.
func (e *SyntaxError) IsEmptySource() bool { return e.Offset == 0 && e.Msg == unexpectedEnd }

// unexpectedEnd is the message for a source that ends too early.
const unexpectedEnd = "unexpected end"

// Error returns the message with the offset and, if known, the pointer.
func (e *SyntaxError) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Msg)
	}
	return fmt.Sprintf("invalid JSON at byte %d (%s): %s", e.Offset, e.Pointer, e.Msg)
}
