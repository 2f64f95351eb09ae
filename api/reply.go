package api

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"

	"colophon/api/limits"
)

// reply is a buffer for an answer or a part of one. It lets the server send an answer in one
// piece, with its length.
type reply struct {
	text []byte
	pool *replyPool
}

// replyPool reuses the buffers of sent answers.
type replyPool struct {
	buffers sync.Pool
	maxKept int // the capacity in bytes up to which a buffer is kept
}

// The buffers for single answers, and for the results of batches.
var (
	replies = replyPool{maxKept: 64 << 10}
	results = replyPool{maxKept: 2 << 20}
)

// get returns an empty reply. The caller releases it.
func (p *replyPool) get() *reply {
	if r, kept := p.buffers.Get().(*reply); kept {
		return r
	}
	return &reply{pool: p}
}

// newReply returns an empty reply for a single answer. The caller releases it.
func newReply() *reply { return replies.get() }

func (r *reply) release() {
	if cap(r.text) <= r.pool.maxKept {
		r.text = r.text[:0]
		r.pool.buffers.Put(r)
	}
}

// Bounds, in bytes, of the answers that are written in one piece although net/http would split
// them.
const (
	minGathered = 3 << 10 // with its header it may be more than 4 KiB
	maxGathered = 32 << 10
)

// memory returns the memory that the text occupies until it is sent, in bytes. It returns 0
// for a small text, because the operating system buffers that at once.
func (r *reply) memory() int64 {
	if len(r.text) <= smallAnswer {
		return 0
	}
	return int64(cap(r.text))
}

// send answers the text.
func (r *reply) send(c echo.Context, status int, contentType string) error {
	if err := holdAnswer(c, r.memory()); err != nil {
		return err
	}
	request := c.Request()
	if conn, counted := limits.ConnectionOf(request); counted && len(r.text) >= minGathered && len(r.text) <= maxGathered &&
		request.ProtoMajor == 1 && request.TLS == nil && !limits.WriterOf(c).IsHead() {
		conn.SendWhole(len(r.text))
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(r.text)))
	c.Response().WriteHeader(status)
	_, err := c.Response().Write(r.text)
	return err
}

// Write implements io.Writer.
func (r *reply) Write(b []byte) (int, error) {
	r.text = append(r.text, b...)
	return len(b), nil
}

// smallAnswer is the length in bytes up to which an answer does not count against the memory
// budget. The bound on connections bounds the sum of these.
const smallAnswer = 8 << 10

// holdAnswer makes a call hold exactly n bytes of the memory for reading until it ends. A
// handler whose answer can have any length calls it before it writes the header. While it
// builds a large answer, the call holds the memory for that instead; see buildAnswer. A call
// that needs more memory than it holds first gives back its slot for heavy work.
func holdAnswer(c echo.Context, n int64) error {
	own, is := c.(*call)
	if !is || own.committed { // a test, or an answer that must not be refused
		return nil
	}
	if n <= smallAnswer {
		n = 0
	}
	if n <= own.answer.Held {
		own.answer.Shrink(n)
		return nil
	}
	own.writer.ReleaseSlot()
	own.answer.Who = own.server.holderOf(c)
	return own.answer.Take(c.Request().Context(), n-own.answer.Held)
}

// buildAnswer holds memory before the work on an answer begins. The call then has a turn to
// compute until the answer begins.
func buildAnswer(c echo.Context, n int64) error {
	if err := holdAnswer(c, n); err != nil {
		return err
	}
	return beginRead(c)
}

// sendText answers a text that is entirely in memory and belongs to this answer alone.
func sendText(c echo.Context, status int, contentType string, text []byte) error {
	if err := holdAnswer(c, int64(cap(text))); err != nil {
		return err
	}
	return c.Blob(status, contentType, text)
}

// sendShared answers a text that all answers share. It does not count against the memory
// budget.
func sendShared(c echo.Context, contentType string, text []byte) error {
	return c.Blob(http.StatusOK, contentType, text)
}
