package api

import (
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

// send answers the text.
func (r *reply) send(c echo.Context, status int, contentType string) error {
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
