package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Nullable is a member of a response that can be absent, null or a value. The zero value means
// absent.
type Nullable[T any] struct {
	// Given is false if the member is absent.
	Given bool
	// Value is nil if the member is null or absent.
	Value *T
}

// IsZero reports whether the member is absent. encoding/json calls it for the option omitzero.
func (n Nullable[T]) IsZero() bool { return !n.Given }

// MarshalJSON implements [json.Marshaler].
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Nullable[T]) UnmarshalJSON(text []byte) error {
	n.Given, n.Value = true, nil
	return json.Unmarshal(text, &n.Value)
}

// Decimal is a number that responses write with six decimal places.
type Decimal float64

// MarshalJSON implements [json.Marshaler].
func (d Decimal) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(d), 'f', 6, 64), nil
}

// IntNumber returns an integer as a [json.Number], the type of members that accept integers of any size.
// For an integer that T cannot hold, make a json.Number from its decimal digits.
func IntNumber[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n T) json.Number {
	if n < 0 {
		return json.Number(strconv.FormatInt(int64(n), 10))
	}
	return json.Number(strconv.FormatUint(uint64(n), 10))
}

// ErrInvalidText means that a string is neither UTF-8 nor WTF-8.
var ErrInvalidText = errors.New("wire: text is neither valid UTF-8 nor WTF-8")

// Marshal encodes a request. It differs from [json.Marshal] in three ways. It copies every
// [json.RawMessage] byte for byte, including white space. It sends lone surrogates as escapes. For
// any other invalid UTF-8, it returns [ErrInvalidText] instead of sending U+FFFD.
func Marshal(v any) ([]byte, error) { return appendValue(nil, reflect.ValueOf(v)) }

var (
	rawMessage = reflect.TypeFor[json.RawMessage]()
	rawRecord  = reflect.TypeFor[RawRecord]()
	marshaler  = reflect.TypeFor[json.Marshaler]()
	number     = reflect.TypeFor[json.Number]()
)

// appendValue encodes the types that requests consist of, and falls back to encoding/json for all
// other types.
func appendValue(dst []byte, v reflect.Value) ([]byte, error) {
	switch {
	case !v.IsValid():
		return append(dst, "null"...), nil
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		return appendValue(dst, v.Elem())
	case v.Type() == rawMessage:
		if raw := v.Bytes(); json.Valid(raw) {
			return append(dst, raw...), nil
		}
		return nil, fmt.Errorf("wire: the json.RawMessage is not a single JSON value: %.60q", v.Bytes())
	case v.Type() == rawRecord:
		return appendValue(dst, v.FieldByName("JSON"))
	case v.Type().Implements(marshaler) || v.Type() == number:
		return appendPlain(dst, v)
	}
	switch v.Kind() {
	case reflect.Struct:
		return appendStruct(dst, v)
	case reflect.Map:
		return appendMap(dst, v)
	case reflect.Slice:
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendValue(dst, v.Index(i)); err != nil {
				return nil, fmt.Errorf("encoding element %d: %w", i, err)
			}
		}
		return append(dst, ']'), nil
	case reflect.String:
		return appendText(dst, v.String())
	}
	return appendPlain(dst, v)
}

func appendPlain(dst []byte, v reflect.Value) ([]byte, error) {
	text, err := json.Marshal(v.Interface())
	return append(dst, text...), err
}

// appendStruct encodes a struct. It supports only the struct tags that this package uses: a name,
// and omitempty or omitzero.
func appendStruct(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	empty := true
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		value := v.FieldByIndex(field.Index)
		switch {
		case name == "" || name == "-" || option == "omitzero" && value.IsZero():
			continue
		case option == "omitempty" && (value.IsZero() || value.Kind() == reflect.Map && value.Len() == 0):
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(strconv.AppendQuote(dst, name), ':')
		var err error
		if dst, err = appendValue(dst, value); err != nil {
			return nil, fmt.Errorf("encoding member %s: %w", name, err)
		}
	}
	return append(dst, '}'), nil
}

func appendMap(dst []byte, v reflect.Value) ([]byte, error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendText(dst, key.String()); err != nil {
			return nil, err
		}
		if dst, err = appendValue(append(dst, ':'), v.MapIndex(key)); err != nil {
			return nil, fmt.Errorf("encoding member %q: %w", key, err)
		}
	}
	return append(dst, '}'), nil
}

// appendText encodes a string that is UTF-8 or WTF-8.
func appendText(dst []byte, text string) ([]byte, error) {
	dst = append(dst, '"')
	for len(text) > 0 {
		end := 0 // text[:end] is valid UTF-8
		for end < len(text) {
			r, size := utf8.DecodeRuneInString(text[end:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			end += size
		}
		var quoted bytes.Buffer
		encoder := json.NewEncoder(&quoted)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(text[:end]); err != nil {
			return nil, err
		}
		dst = append(dst, quoted.Bytes()[1:quoted.Len()-2]...) // without the quotes and the newline
		if text = text[end:]; text == "" {
			break
		}
		// A surrogate in WTF-8 is 0xED, a byte from 0xA0 to 0xBF, and a continuation byte.
		if len(text) < 3 || text[0] != 0xED || text[1]&0xE0 != 0xA0 || text[2]&0xC0 != 0x80 {
			return nil, fmt.Errorf("%w: byte 0x%02x", ErrInvalidText, text[0])
		}
		dst = fmt.Appendf(dst, `\ud%x%02x`, 0x8|text[1]>>2&0x7, text[1]&0x3<<6|text[2]&0x3F)
		text = text[3:]
	}
	return append(dst, '"'), nil
}
