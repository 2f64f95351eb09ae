// Package pgbinary encodes the parameters of statements, and rows for COPY, in PostgreSQL's binary
// format. pgx encodes arrays one element at a time, which took as long as running the statements
// on the server.
package pgbinary

import "encoding/binary"

// PostgreSQL OIDs of the array element types.
const (
	byteaType  = 17
	bigintType = 20
)

const (
	bigintLength      = 8
	arrayHeaderLength = 20 // length in bytes of the header of a nonempty array
)

// Bigint encodes n as a bigint.
func Bigint(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// appendArray appends the header of a one-dimensional array. The caller must append the elements
// after it.
func appendArray(dst []byte, elementType uint32, length int) []byte {
	dimensions := uint32(1)
	if length == 0 {
		dimensions = 0
	}
	dst = binary.BigEndian.AppendUint32(dst, dimensions)
	dst = binary.BigEndian.AppendUint32(dst, 0) // flag: no element is NULL
	dst = binary.BigEndian.AppendUint32(dst, elementType)
	if length == 0 {
		return dst
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(length))
	return binary.BigEndian.AppendUint32(dst, 1) // index of the first element
}

// BigintArray encodes list as a bigint[].
func BigintArray(list []int64) []byte {
	dst := appendArray(make([]byte, 0, arrayHeaderLength+(4+bigintLength)*len(list)), bigintType, len(list))
	for _, n := range list {
		dst = appendBigint(dst, n)
	}
	return dst
}

// ByteaArray encodes list as a bytea[].
func ByteaArray(list [][]byte) []byte {
	size := arrayHeaderLength
	for _, text := range list {
		size += 4 + len(text)
	}
	dst := appendArray(make([]byte, 0, size), byteaType, len(list))
	for _, text := range list {
		dst = appendBytea(dst, text)
	}
	return dst
}

// appendBigint appends a bigint with its length.
func appendBigint(dst []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, bigintLength), uint64(n))
}

// appendBytea appends a bytea with its length.
func appendBytea(dst, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...)
}
