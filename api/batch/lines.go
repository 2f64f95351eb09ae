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

// lineReader splits a body into lines. It reports errors as lines, so that a line that is too long,
// or a body that is cut off, does not affect earlier lines.
type lineReader struct {
	ctx    context.Context
	open   limits.DecompressFunc
	body   io.Reader
	max    int // maximum length of a line, in bytes
	most   int // maximum number of lines in a chunk
	number int // number of the last line that was read, starting at 1

	plain  io.ReadCloser // the decompressed body; nil until the first read
	buffer *bufio.Reader
}

var lineBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

func newLineReader(ctx context.Context, open limits.DecompressFunc, body io.Reader, max int) *lineReader {
	return &lineReader{ctx: ctx, open: open, body: body, max: max, most: chunkLines}
}

// fill reads lines into c until the chunk is full, or until the next line cannot be read
// without waiting. more reports whether there might be more lines.
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
		start, held := len(c.buffer), c.share.Bytes
		refused, err := r.line(c)
		if err != nil && !errors.Is(err, io.EOF) {
			c.cut(start, held)
			return r.broken(c, err)
		}
		if err == nil || len(c.buffer) > start || refused != nil {
			r.add(c, start, held, refused)
		}
		if err != nil {
			return false
		}
		if !r.lineBuffered() {
			break
		}
	}
	return true
}

// lineBuffered reports whether the next line can be read without waiting. A complete line must not be
// held up until the following line is complete.
func (r *lineReader) lineBuffered() bool {
	buffered, _ := r.buffer.Peek(r.buffer.Buffered()) // never fails, because it reads only what is buffered
	return bytes.IndexByte(buffered, '\n') >= 0
}

// line appends the next line to c.buffer, without its line ending. If the line is refused, line
// appends nothing and returns the reason as refused. err is the error from reading the body.
func (r *lineReader) line(c *chunk) (refused, err error) {
	start, held := len(c.buffer), c.share.Bytes
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

// keep appends part of a line to the chunk. The line begins at start. keep returns an error if the
// line would be too long or does not get enough memory.
func (r *lineReader) keep(c *chunk, start int, part []byte) error {
	if len(c.buffer)-start+len(part) > r.max {
		return limits.NewRejectedError(limits.ReasonSize, http.StatusRequestEntityTooLarge, 0, "the line is longer than %d bytes; it was not recorded", r.max)
	}
	if err := c.share.Take(r.ctx, limits.MemoryBound(part)); err != nil {
		return err
	}
	c.buffer = append(c.buffer, part...)
	return nil
}

// add counts a line and adds it to the chunk. If the line is blank, add drops it and shrinks the
// chunk's share of memory to held bytes.
func (r *lineReader) add(c *chunk, start int, held int64, refused error) {
	r.number++
	if refused == nil && len(bytes.Trim(c.buffer[start:], blanks)) == 0 {
		c.cut(start, held)
		return
	}
	c.lines = append(c.lines, lineSpan{start: start, end: len(c.buffer), number: r.number, err: refused})
}

// blanks contains the white space of JSON that can be in a line.
const blanks = " \t\r"

// broken adds a line whose error says that the rest of the body cannot be read. It always returns
// false.
func (r *lineReader) broken(c *chunk, err error) (more bool) {
	r.end(c, limits.BodyRefusal(err))
	return false
}

// end adds a line without text, whose error says why no more lines are read.
func (r *lineReader) end(c *chunk, why error) {
	r.number++
	c.lines = append(c.lines, lineSpan{number: r.number, err: why})
}

func (r *lineReader) close() {
	if r.plain != nil {
		_ = r.plain.Close() // the error can be ignored: if the body was cut off, a line already reports it
		r.buffer.Reset(nil)
		lineBuffers.Put(r.buffer)
	}
}
