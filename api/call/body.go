package call

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"colophon/api/limits"
	"colophon/api/problem"
)

// Body is a request body in memory, with its share of the memory budget.
type Body struct {
	bytes.Buffer
	share limits.MemoryShare
}

var bodies = sync.Pool{New: func() any { return new(Body) }}

// Limits on the buffers for request bodies, in bytes. Buffers larger than maxPooledBody are not
// reused. At most maxPromisedBody is allocated in advance, however large the Content-Length is.
const (
	maxPooledBody   = 1 << 20
	maxPromisedBody = 16 << 10
)

// Release releases the body's memory. The bytes of the body must not be used afterwards.
func (b *Body) Release() {
	b.share.Release()
	if b.Cap() <= maxPooledBody {
		b.Reset()
		bodies.Put(b)
	}
}

// ReadBody reads the JSON body of a write. The body can have at most MaxBodySize bytes. The caller
// must release it.
func (c *Call) ReadBody() (*Body, error) {
	return c.readBodyInto(c.shared.Limiter.WriteMemory)
}

// ReadQueryBody is like ReadBody, but for a request that records nothing. It uses the memory budget
// for reads.
func (c *Call) ReadQueryBody() (*Body, error) {
	return c.readBodyInto(c.shared.Limiter.ReadMemory)
}

// ReadOptionalBody is like ReadBody, but for a request whose body is optional. Without a body, the
// request needs no Content-Type. The caller must release the body.
func (c *Call) ReadOptionalBody() (*Body, error) {
	if c.Request().ContentLength == 0 {
		return new(Body), nil
	}
	return c.ReadBody()
}

// readBodyInto reads a JSON body and counts it against budget.
func (c *Call) readBodyInto(budget *limits.MemoryBudget) (*Body, error) {
	r := c.Request()
	if err := CheckContentType(r, "application/json"); err != nil {
		return nil, err
	}
	if encoding := r.Header.Get(echo.HeaderContentEncoding); encoding != "" && encoding != "identity" {
		return nil, problem.New(http.StatusUnsupportedMediaType, "this route does not accept Content-Encoding %q; send the body unencoded", encoding)
	}
	source := r.Body
	if most := int64(c.shared.Limiter.Limits.MaxBodySize); r.ContentLength < 0 || r.ContentLength > most {
		source = http.MaxBytesReader(c.Response(), source, most)
	}
	body := bodies.Get().(*Body)
	body.share = limits.MemoryShare{Budget: budget, Holder: c.Holder()}
	body.Grow(int(min(max(r.ContentLength, 0), maxPromisedBody)) + bytes.MinRead) // leaves room for the read that returns io.EOF
	if _, err := body.ReadFrom(body.share.MeteredReader(r.Context(), source)); err != nil {
		body.Release()
		if slow := limits.SlowBodyRefusal(err, c.shared.Limiter.Limits.BodyTimeout); slow != nil {
			return nil, slow
		}
		return nil, unreadable(err)
	}
	if budget == c.shared.Limiter.WriteMemory {
		c.BeginWrite()
	}
	return body, nil
}

// ReadEncodedBody reads the body of a write, whatever its media type, and decompresses it with
// open. Both the compressed and the decompressed body can have at most MaxBodySize bytes. The
// caller must release the body.
func (c *Call) ReadEncodedBody(open limits.DecompressFunc) (*Body, error) {
	r, most := c.Request(), int64(c.shared.Limiter.Limits.MaxBodySize)
	body := bodies.Get().(*Body)
	body.share = limits.MemoryShare{Budget: c.shared.Limiter.WriteMemory, Holder: c.Holder()}
	plain, err := open(http.MaxBytesReader(c.Response(), r.Body, most))
	if err == nil {
		body.Grow(int(min(max(r.ContentLength, 0), maxPromisedBody)) + bytes.MinRead)
		_, err = body.ReadFrom(body.share.MeteredReader(r.Context(), io.LimitReader(plain, most+1)))
		_ = plain.Close() // an error does not matter, because the body has been read
	}
	if err == nil && int64(body.Len()) > most {
		err = &http.MaxBytesError{Limit: most}
	}
	if err != nil {
		body.Release()
		if slow := limits.SlowBodyRefusal(err, c.shared.Limiter.Limits.BodyTimeout); slow != nil {
			return nil, slow
		}
		return nil, unreadable(err)
	}
	c.BeginWrite()
	return body, nil
}

// unreadable returns the problem to report for a body that cannot be read. It returns err unchanged
// if a server limit caused it.
func unreadable(err error) error {
	var refused *limits.RejectedError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused) || errors.As(err, &tooLarge):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem.New(http.StatusBadRequest, "the body is truncated")
	}
	return problem.New(http.StatusBadRequest, "the body cannot be read completely; check its encoding")
}

// CheckContentType returns a problem unless the media type of the request is want.
func CheckContentType(r *http.Request, want string) error {
	header := r.Header.Get(echo.HeaderContentType)
	if header == want {
		return nil
	}
	got, _, err := mime.ParseMediaType(header)
	if err != nil || got != want {
		return problem.New(http.StatusUnsupportedMediaType, "Content-Type must be %s", want)
	}
	return nil
}

// ReserveMemory reserves n more bytes of the memory budget for the body. If they do not become free
// within ServerLimits.MaxWait, it returns a RejectedError with status 503. A body can hold at most half
// of the budget; if it asks for more, it gets half, without an error.
func (b *Body) ReserveMemory(ctx context.Context, n int64) error { return b.share.Take(ctx, n) }

// ReservedMemory returns the number of bytes that are reserved for a body.
func (b *Body) ReservedMemory() int64 { return b.share.Bytes }

// ShrinkMemoryTo releases all but n of the bytes that are reserved for a body.
func (b *Body) ShrinkMemoryTo(n int64) { b.share.ShrinkTo(n) }
