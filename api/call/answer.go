package call

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"

	"colophon/api/limits"
)

// Buffer holds all or part of a response before it is sent, so that the server can send it in one
// piece with a Content-Length.
type Buffer struct {
	Text []byte // bytes of the response that are not sent yet
	pool *BufferPool
}

// BufferPool reuses the buffers of responses that have been sent.
type BufferPool struct {
	buffers      sync.Pool
	MaxBufferCap int // capacity, in bytes, up to which a buffer is kept for reuse
}

// replies is the pool of buffers for single responses.
var replies = BufferPool{MaxBufferCap: 64 << 10}

// Get returns an empty buffer. The caller must release it.
func (p *BufferPool) Get() *Buffer {
	if r, kept := p.buffers.Get().(*Buffer); kept {
		return r
	}
	return &Buffer{pool: p}
}

// NewBuffer returns an empty buffer for a single response. The caller must release it.
func NewBuffer() *Buffer { return replies.Get() }

// Release returns the buffer to its pool. The caller must not use it afterwards.
func (r *Buffer) Release() {
	if cap(r.Text) <= r.pool.MaxBufferCap {
		r.Text = r.Text[:0]
		r.pool.buffers.Put(r)
	}
}

// Responses with a length between minGathered and maxGathered bytes are written in one piece.
// Otherwise, net/http would split them.
const (
	minGathered = 3 << 10 // with its header, a response of this length might exceed the 4 KiB that net/http buffers
	maxGathered = 32 << 10
)

// MemoryBytes returns how many bytes of memory the text occupies until it is sent. It returns 0 for
// a small text, because the operating system buffers a small text immediately.
func (r *Buffer) MemoryBytes() int64 {
	if len(r.Text) <= smallAnswer {
		return 0
	}
	return int64(cap(r.Text))
}

// Send sends the text as the whole body of the response.
func (r *Buffer) Send(c *Call, status int, contentType string) error {
	if err := c.HoldReadMemory(r.MemoryBytes()); err != nil {
		return err
	}
	request := c.Request()
	if conn, counted := limits.ConnectionOf(request); counted && len(r.Text) >= minGathered && len(r.Text) <= maxGathered &&
		request.ProtoMajor == 1 && request.TLS == nil && !c.writer.OmitsBody() {
		conn.BufferResponse(len(r.Text))
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(r.Text)))
	c.Response().WriteHeader(status)
	_, err := c.Response().Write(r.Text)
	return err
}

// Write implements io.Writer.
func (r *Buffer) Write(b []byte) (int, error) {
	r.Text = append(r.Text, b...)
	return len(b), nil
}

// smallAnswer is the length, in bytes, up to which a response does not count against the memory
// budget. The total size of small responses is bounded by the limit on connections.
const smallAnswer = 8 << 10

// AnswerText sends text as the response body. The text counts against the memory budget until the
// call ends. To send text that many responses share, use AnswerSharedText instead.
func (c *Call) AnswerText(status int, contentType string, text []byte) error {
	if err := c.HoldReadMemory(int64(cap(text))); err != nil {
		return err
	}
	return c.Blob(status, contentType, text)
}

// AnswerSharedText sends, as the response body, a text that many responses share. It therefore does
// not count against the memory budget.
func (c *Call) AnswerSharedText(contentType string, text []byte) error {
	return c.Blob(http.StatusOK, contentType, text)
}

// EncodeJSON writes a value as one line of JSON. It does not escape HTML, so that event bodies keep
// their exact bytes.
func EncodeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// AnswerJSON sends value as a JSON response.
func (c *Call) AnswerJSON(status int, value any) error {
	answer := NewBuffer()
	defer answer.Release()
	if err := EncodeJSON(answer, value); err != nil {
		return err
	}
	return answer.Send(c, status, echo.MIMEApplicationJSON)
}
