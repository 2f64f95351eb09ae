package api

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"
)

// reply is an answer, or some of one, that is put together before it goes out: in one
// piece, and with its length.
type reply struct {
	text []byte
	pool *replyPool
}

// replyPool keeps buffers of answers that have gone out for those to come.
type replyPool struct {
	buffers sync.Pool
	most    int // bytes of a buffer that is kept
}

// The buffers of single answers, and of those of batches.
var (
	replies = replyPool{most: 64 << 10}
	results = replyPool{most: 2 << 20}
)

// get is an empty reply; who takes it releases it.
func (p *replyPool) get() *reply {
	if r, kept := p.buffers.Get().(*reply); kept {
		return r
	}
	return &reply{pool: p}
}

// newReply is an empty reply for a single answer; who takes it releases it.
func newReply() *reply { return replies.get() }

func (r *reply) release() {
	if cap(r.text) <= r.pool.most {
		r.text = r.text[:0]
		r.pool.buffers.Put(r)
	}
}

// Of an answer that net/http would pass on in pieces this much goes out in one, in bytes.
const (
	leastGathered = 3 << 10 // with its header it may be more than 4 KiB
	mostGathered  = 32 << 10
)

// memory is what the text takes until it is sent, in bytes; 0 where it is small, whatever
// the buffer that it stands in: the system takes it at once.
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
	if conn, counted := connectionOf(request); counted && len(r.text) >= leastGathered && len(r.text) <= mostGathered &&
		request.ProtoMajor == 1 && request.TLS == nil && !writerOf(c).head {
		conn.gather(len(r.text))
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

// smallAnswer is the length in bytes up to which an answer is not counted: the bound on
// connections bounds those.
const smallAnswer = 8 << 10

// holdAnswer has a call hold n bytes of the memory for reading, no more and no less,
// until it ends. Whatever answers with a text of any length calls it before the header
// is written; while a large answer is made it holds what that takes at most, see
// buildAnswer. A call that needs more than it holds gives its slot for heavy work back.
func holdAnswer(c echo.Context, n int64) error {
	own, is := c.(*call)
	if !is || own.committed { // of a test, or no answer that may be refused
		return nil
	}
	if n <= smallAnswer {
		n = 0
	}
	if n <= own.answer.held {
		own.answer.shrink(n)
		return nil
	}
	own.writer.slot.giveBack()
	own.answer.who = own.server.holderOf(c)
	return own.answer.take(c.Request().Context(), n-own.answer.held)
}

// buildAnswer is holdAnswer for work that is about to begin: if that is heavy, the call
// also holds a slot for it until the answer begins.
func buildAnswer(c echo.Context, n int64) error {
	if err := holdAnswer(c, n); err != nil {
		return err
	}
	return beginHeavy(c, n, true)
}

// sendText answers a text that is in memory as a whole, of which no one else has use.
func sendText(c echo.Context, status int, contentType string, text []byte) error {
	if err := holdAnswer(c, int64(cap(text))); err != nil {
		return err
	}
	return c.Blob(status, contentType, text)
}

// sendShared is sendText for a text that all answers share: it is not counted.
func sendShared(c echo.Context, contentType string, text []byte) error {
	return c.Blob(http.StatusOK, contentType, text)
}
