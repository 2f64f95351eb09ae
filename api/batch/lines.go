package batch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"colophon/api/limits"
)

// lineReader cuts a body into lines. Its errors are lines too: a line that is
// too long, or a body that breaks off, costs no line before it.
type lineReader struct {
	ctx    context.Context
	open   limits.Opener
	body   io.Reader
	max    int // bytes of a line
	most   int // lines of a chunk
	number int // of the last line, from 1

	plain  io.ReadCloser // nil until the first read
	buffer *bufio.Reader
}

var lineBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

func newLineReader(ctx context.Context, open limits.Opener, body io.Reader, max int) *lineReader {
	return &lineReader{ctx: ctx, open: open, body: body, max: max, most: chunkLines}
}

// fill reads lines into c until there are enough of them or none is at hand
// without waiting. It says whether there may be more.
func (r *lineReader) fill(c *chunk) (more bool) {
	if r.buffer == nil {
		plain, err := r.open(r.body)
		if err != nil {
			return r.broken(c, err)
		}
		r.plain, r.buffer = plain, lineBuffers.Get().(*bufio.Reader)
		r.buffer.Reset(plain)
	}
	for n := 0; n < r.most && len(c.buffer) < chunkBytes; n++ {
		start, held := len(c.buffer), c.share.Held
		refused, err := r.line(c)
		if err != nil && !errors.Is(err, io.EOF) {
			c.cut(start, held)
			return r.broken(c, err)
		}
		if err == nil || len(c.buffer) > start || refused != nil {
			r.add(c, start, refused)
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

// atHand reports whether the next line can be read without waiting. A line must not wait until
// the end of the following line arrives.
func (r *lineReader) atHand() bool {
	buffered, _ := r.buffer.Peek(r.buffer.Buffered()) // never fails, because it asks only for what is buffered
	return bytes.IndexByte(buffered, '\n') >= 0
}

// line appends the next line to c.buffer, without its line ending. It keeps nothing of a refused line.
func (r *lineReader) line(c *chunk) (refused, err error) {
	start, held := len(c.buffer), c.share.Held
	for {
		part, err := r.buffer.ReadSlice('\n')
		part = bytes.TrimSuffix(part, []byte("\n"))
		if refused == nil {
			if refused = r.keep(c, start, part); refused != nil {
				c.cut(start, held)
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return refused, err
		}
	}
}

// keep appends some of the line that begins at start, if there is room for it.
func (r *lineReader) keep(c *chunk, start int, part []byte) error {
	if len(c.buffer)-start+len(part) > r.max {
		return limits.Refuse(limits.RefusedSize, http.StatusRequestEntityTooLarge, 0, "the line is longer than %d bytes; it was not recorded", r.max)
	}
	if err := c.share.Take(r.ctx, limits.Weight(part)); err != nil {
		return err
	}
	c.buffer = append(c.buffer, part...)
	return nil
}

// add counts a line and keeps it, unless it is empty: that asks for nothing.
func (r *lineReader) add(c *chunk, start int, refused error) {
	r.number++
	if len(c.buffer) > start || refused != nil {
		c.lines = append(c.lines, lineSpan{start: start, end: len(c.buffer), number: r.number, err: refused})
	}
}

// broken reports a body that cannot be read to its end.
func (r *lineReader) broken(c *chunk, err error) (more bool) {
	r.end(c, limits.BodyError(err))
	return false
}

// end adds a line that says why no more are read.
func (r *lineReader) end(c *chunk, why error) {
	r.number++
	c.lines = append(c.lines, lineSpan{number: r.number, err: why})
}

func (r *lineReader) close() {
	if r.plain != nil {
		_ = r.plain.Close() // a body that breaks off was reported as a line
		r.buffer.Reset(nil)
		lineBuffers.Put(r.buffer)
	}
}
