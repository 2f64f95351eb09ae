package pgbinary

import (
	"encoding/binary"
	"io"
)

const (
	// copyHeader begins the data of a COPY: a signature, no flags, and no extension.
	copyHeader = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	// copyTrailer ends the data. It is -1, where a row would have its number of columns.
	copyTrailer = "\xff\xff"
)

// Row is one row of a COPY. Its values must be added in the order of the columns.
type Row struct{ encoded []byte }

// Bigint adds a bigint.
func (r *Row) Bigint(n int64) { r.encoded = appendBigint(r.encoded, n) }

// Bytea adds a bytea.
func (r *Row) Bytea(value []byte) { r.encoded = appendBytea(r.encoded, value) }

// CopyReader encodes the rows of a COPY as they are read. It holds only one row in memory.
type CopyReader struct {
	columns, rows int
	encode        func(row *Row, i int)
	row           Row
	unread        []byte // the part of row that has not been read yet
	encoded       int    // number of encoded rows, including the trailer
}

// NewCopyReader returns a reader of the data of a COPY … (FORMAT binary). The reader calls
// encode once for each row, in order, perhaps in another goroutine. encode must add the values of row i.
func NewCopyReader(columns, rows int, encode func(row *Row, i int)) *CopyReader {
	return &CopyReader{columns: columns, rows: rows, encode: encode, unread: []byte(copyHeader)}
}

// Read implements io.Reader.
func (c *CopyReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(c.unread) == 0 {
			if c.encoded > c.rows {
				break
			}
			c.next()
		}
		read := copy(p[n:], c.unread)
		c.unread, n = c.unread[read:], n+read
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// next encodes the next row, or the trailer after the last row.
func (c *CopyReader) next() {
	if c.encoded == c.rows {
		c.unread = []byte(copyTrailer)
	} else {
		c.row.encoded = binary.BigEndian.AppendUint16(c.row.encoded[:0], uint16(c.columns))
		c.encode(&c.row, c.encoded)
		c.unread = c.row.encoded
	}
	c.encoded++
}
