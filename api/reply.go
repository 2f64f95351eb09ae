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

// send answers the text.
func (r *reply) send(c echo.Context, status int, contentType string) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(r.text)))
	c.Response().WriteHeader(status)
	_, err := c.Response().Write(r.text)
	return err
}
