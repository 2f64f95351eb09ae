package rowstore

import (
	"encoding/binary"
	"fmt"
)

// AppendNumbers appends each number as an unsigned varint.
func AppendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// AppendTexts appends each text, preceded by its length plus one. A nil text is encoded as 0.
func AppendTexts(dst []byte, texts ...[]byte) []byte {
	for _, t := range texts {
		if t == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(t))+1)
		dst = append(dst, t...)
	}
	return dst
}

// ValueReader decodes a row's value from its beginning. When it reaches bytes that it cannot
// decode, it sets Malformed and leaves the arguments that it has not yet set unchanged.
type ValueReader struct {
	Rest      []byte // bytes that are not decoded yet
	Malformed bool   // whether bytes could not be decoded
}

// ReadNumbers decodes numbers that AppendNumbers wrote.
func (r *ValueReader) ReadNumbers(to ...*uint64) {
	for _, n := range to {
		number, size := binary.Uvarint(r.Rest)
		if size <= 0 {
			r.Malformed = true
			return
		}
		*n, r.Rest = number, r.Rest[size:]
	}
}

// ReadTexts decodes texts that AppendTexts wrote.
func (r *ValueReader) ReadTexts(to ...*[]byte) {
	for _, t := range to {
		var size uint64
		if r.ReadNumbers(&size); size == 0 {
			continue
		}
		if size--; size > uint64(len(r.Rest)) {
			r.Malformed = true
			return
		}
		*t, r.Rest = r.Rest[:size:size], r.Rest[size:]
	}
}

// ReadIdentity decodes an Identity.
func (r *ValueReader) ReadIdentity(to *Identity) {
	if len(r.Rest) < len(to) {
		r.Malformed = true
		return
	}
	r.Rest = r.Rest[copy(to[:], r.Rest):]
}

// Finish returns nil if the whole value was decoded and nothing is left. Otherwise it returns an error
// that wraps ErrDamaged. what names the value in the error.
func (r *ValueReader) Finish(what string, value []byte) error {
	if r.Malformed || len(r.Rest) > 0 {
		return fmt.Errorf("%w: cannot decode %s from %x", ErrDamaged, what, value)
	}
	return nil
}

// DecodeNumber decodes a value that consists of a single unsigned varint.
func DecodeNumber(value []byte) (uint64, error) {
	var n uint64
	r := ValueReader{Rest: value}
	r.ReadNumbers(&n)
	return n, r.Finish("a number", value)
}

// DecodeOrFail decodes a value for a fold. If decode fails, DecodeOrFail calls r.Failf, so that the
// batch is not stored.
func DecodeOrFail[S any](r *Writer, value []byte, decode func([]byte) (S, error)) S {
	s, err := decode(value)
	if err != nil {
		r.Failf("%w", err)
	}
	return s
}
