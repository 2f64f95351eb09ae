package api

import (
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"
)

// reply is an answer that is put together before it goes out: in one piece, and with
// its length.
type reply struct {
	text []byte
}

var replies = sync.Pool{New: func() any { return new(reply) }}

// newReply is an empty reply; its maker releases it.
func newReply() *reply { return replies.Get().(*reply) }

// maxPooledReply bounds, in bytes, the buffers that are kept for the next answer.
const maxPooledReply = 64 << 10

func (r *reply) release() {
	if cap(r.text) <= maxPooledReply {
		r.text = r.text[:0]
		replies.Put(r)
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
