package rowstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// SnapshotRow is one key of a keyspace with its value. The key does not include the keyspace, so
// that rows of two stores can be compared.
type SnapshotRow struct{ Key, Value []byte }

// append encodes a row: the length of its key, the key, the length of its value, and the
// value.
func (r SnapshotRow) append(dst []byte) []byte { return appendValue(appendValue(dst, r.Key), r.Value) }

// EncodeSnapshotPart encodes rows of the reader's keyspace in key order. It starts with the first row whose
// key is greater than after, or with the first row of the keyspace if after is nil. The part ends
// with the row that makes it at least as long as the given number of bytes. Equal rows are
// therefore always divided into equal parts. last is the key of the last encoded row. more reports
// whether further rows follow. The reader's size has no effect. EncodeSnapshotPart returns ErrInvalidPosition if
// after cannot be the key of a row.
func (r *Reader) EncodeSnapshotPart(after []byte, bytes int) (rows, last []byte, more bool, err error) {
	if after != nil && (len(after) == 0 || r.schema.checkKey(after) != nil) { // never pass an invalid key to the engine
		return nil, nil, false, ErrInvalidPosition
	}
	from := append(slices.Clone(r.Keyspace[:]), after...)
	it, err := r.NewIterator(from, r.Keyspace.UpperBound())
	if err != nil {
		return nil, nil, false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if more = it.First(); more && after != nil && slices.Equal(it.Key(), from) {
		more = it.Next()
	}
	for ; more && len(rows) < bytes; more = it.Next() {
		value, err := it.Value()
		if err != nil {
			return nil, nil, false, err
		}
		key := it.Key()[len(Keyspace{}):]
		rows = SnapshotRow{key, value}.append(withRoom(rows, len(key)+len(value)+2*binary.MaxVarintLen64))
		last = append(last[:0], key...)
	}
	return rows, last, more, it.Err()
}

// ErrInvalidSnapshotPart means that a part cannot be decoded or contains rows that are not valid.
var ErrInvalidSnapshotPart = errors.New("index: invalid rows in a snapshot part")

// DecodeSnapshotPart yields the rows of a part. It yields ErrInvalidSnapshotPart if the bytes are not a list of rows. The
// rows alias part.
func DecodeSnapshotPart(part []byte) iter.Seq2[SnapshotRow, error] {
	return func(yield func(SnapshotRow, error) bool) {
		for len(part) > 0 {
			var row SnapshotRow
			if !cut(&part, &row.Key) || !cut(&part, &row.Value) || len(row.Key) == 0 {
				yield(SnapshotRow{}, ErrInvalidSnapshotPart)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// cut removes a byte string with a length prefix from the beginning of text, and sets taken to the
// string. It returns false if text is too short.
func cut(text, taken *[]byte) bool {
	length, size := binary.Uvarint(*text)
	if size <= 0 || length > uint64(len(*text)-size) {
		return false
	}
	end := size + int(length)
	*text, *taken = (*text)[end:], (*text)[size:end:end]
	return true
}

// checkKey returns an error if no fold can have written the key. The key does not include the
// keyspace.
func (s *Schema) checkKey(key []byte) error {
	d := Dimension(key[0])
	if d == numberDimension {
		return fmt.Errorf("%w: key %x does not belong to a ledger", ErrInvalidSnapshotPart, key)
	}
	if d&VersionedBit != 0 && len(key) != 1+s[d]+VersionSize {
		return fmt.Errorf("%w: key %x has %d bytes, but must have %d", ErrInvalidSnapshotPart, key, len(key), 1+s[d]+VersionSize)
	}
	return nil
}
