package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
)

// lineReader cuts a body into lines. Its errors are lines too: a line that is
// too long, or a body that breaks off, costs no line before it.
type lineReader struct {
	open   func(io.Reader) (io.ReadCloser, error)
	body   io.Reader
	max    int // bytes of a line
	number int // of the last line, from 1

	plain  io.ReadCloser // nil until the first read
	buffer *bufio.Reader
}

func newLineReader(open func(io.Reader) (io.ReadCloser, error), body io.Reader, max int) *lineReader {
	return &lineReader{open: open, body: body, max: max}
}

// fill reads lines into c until there are enough of them or none is at hand
// without waiting. It says whether there may be more.
func (r *lineReader) fill(c *chunk) (more bool) {
	if r.buffer == nil {
		plain, err := r.open(r.body)
		if err != nil {
			return r.broken(c, err)
		}
		r.plain, r.buffer = plain, bufio.NewReaderSize(plain, 64<<10)
	}
	for n := 0; n < chunkLines && len(c.buffer) < chunkBytes; n++ {
		start := len(c.buffer)
		tooLong, err := r.line(c)
		if err != nil && !errors.Is(err, io.EOF) {
			c.buffer = c.buffer[:start]
			return r.broken(c, err)
		}
		if err == nil || len(c.buffer) > start || tooLong {
			r.add(c, start, tooLong)
		}
		if err != nil {
			return false
		}
		if !r.atHand() {
			break
		}
	}
	return true
}

// atHand says whether the next line can be read without waiting: nobody's line
// waits for the end of the one behind it.
func (r *lineReader) atHand() bool {
	buffered, _ := r.buffer.Peek(r.buffer.Buffered()) // never fails: it is there
	return bytes.IndexByte(buffered, '\n') >= 0
}

// line appends the next line to c.buffer, without its end. Of one that is too
// long nothing is kept.
func (r *lineReader) line(c *chunk) (tooLong bool, err error) {
	start := len(c.buffer)
	for {
		part, err := r.buffer.ReadSlice('\n')
		part = bytes.TrimSuffix(part, []byte("\n"))
		if len(c.buffer)-start+len(part) > r.max {
			tooLong = true
			c.buffer = c.buffer[:start]
		}
		if !tooLong {
			c.buffer = append(c.buffer, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return tooLong, err
		}
	}
}

// add counts a line and keeps it, unless it is empty: that asks for nothing.
func (r *lineReader) add(c *chunk, start int, tooLong bool) {
	r.number++
	if len(c.buffer) == start && !tooLong {
		return
	}
	span := lineSpan{start: start, end: len(c.buffer), number: r.number}
	if tooLong {
		span.err = fault(http.StatusRequestEntityTooLarge, "the line is longer than %d bytes; nothing of it was taken", r.max)
	}
	c.lines = append(c.lines, span)
}

// broken reports a body that cannot be read to its end.
func (r *lineReader) broken(c *chunk, err error) (more bool) {
	r.number++
	p := fault(http.StatusBadRequest, "the body breaks off or is not in its Content-Encoding (%v); the lines before this one stand, nothing of this one was taken", err)
	c.lines = append(c.lines, lineSpan{number: r.number, err: p})
	return false
}

func (r *lineReader) close() {
	if r.plain != nil {
		_ = r.plain.Close() // a body that breaks off was reported as a line
	}
}
