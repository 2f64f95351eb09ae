// Package pyjson implements CPython's rules for JSON and texts (spec: Text and JSON; Canonical
// question): what json.loads accepts, what json.dumps writes, and the results of str.strip,
// str.splitlines, str.split, str.lower, and unicodedata.normalize("NFC").
//
// Texts are in WTF-8: UTF-8 in which a lone surrogate is encoded in three bytes, as CPython's
// "surrogatepass" does. Lone surrogates come only from escapes in JSON strings.
package pyjson

import "fmt"

// Limits of a document.
const (
	// MaxDepth is the maximum depth of nested arrays and objects.
	MaxDepth = 512
	// MaxIntegerDigits is the maximum number of digits of an integer. It equals CPython's
	// sys.int_max_str_digits.
	MaxIntegerDigits = 4300
	// MaxBytes is the maximum size of a source. Offsets into it have 32 bits.
	MaxBytes = 1 << 28
)

// Kind is the type of a JSON value.
type Kind uint8

// The kinds. A number without ".", "e", or "E" is an Integer; all others are Floats.
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

// The two forms (spec: Canonical JSON).
const (
	Compact Form = iota // "," and ":": run-DAG hashes, audit events
	Spaced              // ", " and ": ": IPC payloads
)

// SyntaxError reports why Document.Parse refused a source.
type SyntaxError struct {
	Offset  int    // position of the error in the source, in bytes
	Pointer string // JSON pointer of the refused value; "" for the whole document, or if the source is not JSON
	Msg     string // a phrase in lower case that says why
}

// IsEmptySource reports whether the source ended before its first byte.
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
