package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/gzip"

	"colophon/client"
)

// limitKey is the context key for the maximum length of a response body, in bytes.
type limitKey struct{}

func withLimit(ctx context.Context, limit int64) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// boundedTransport limits the length of each response body. It reads the limit from the request's
// context, where withLimit stores it.
type boundedTransport struct {
	through  http.RoundTripper
	compress bool
}

// RoundTrip implements http.RoundTripper.
func (t *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.compress {
		r = r.Clone(r.Context())
		r.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := t.through.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	limit, _ := r.Context().Value(limitKey{}).(int64)
	if response.StatusCode/100 != 2 {
		response.Body = &truncatedBody{io.LimitReader(response.Body, maxProblem), response.Body}
		return response, nil
	}
	wire := &io.LimitedReader{R: response.Body, N: limit + maxCompressed}
	response.Body = &boundedBody{ctx: r.Context(), raw: response.Body, wire: wire, encoding: response.Header.Get("Content-Encoding"), limit: limit}
	return response, nil
}

// truncatedBody provides only the beginning of an unsuccessful response's body.
type truncatedBody struct {
	io.Reader
	io.Closer
}

// boundedBody reads and decompresses a response body. It allows at most limit bytes after
// decompression, and at most limit+maxCompressed bytes before decompression. A gzip stream of
// several members decompresses to the concatenation of all members (RFC 1952, section 2.2). Reading
// a large body waits for a slot of the AnswerLimiter.
type boundedBody struct {
	ctx      context.Context
	raw      io.ReadCloser
	wire     *io.LimitedReader // bounds reads from raw
	encoding string            // Content-Encoding
	plain    io.Reader         // decompresses raw; nil until the first read
	limit    int64
	n        int64 // bytes read so far, after decompression
	err      error // error of the last read
}

// Close implements io.Closer.
func (b *boundedBody) Close() error { return b.raw.Close() }

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, b.err = b.read(p)
	return n, b.err
}

func (b *boundedBody) read(p []byte) (int, error) {
	if b.plain == nil {
		if err := b.open(); err != nil {
			return 0, b.classify(err)
		}
	}
	if err := WaitForSlot(b.ctx, b.n); err != nil {
		return 0, err
	}
	most := b.limit - b.n
	if b.n < smallAnswer {
		most = min(most, smallAnswer-b.n)
	}
	if most == 0 { // the limit is reached; one more byte means that the body is too long
		n, err := b.plain.Read(make([]byte, 1))
		if n > 0 {
			return 0, b.tooLong()
		}
		return 0, b.classify(err)
	}
	n, err := b.plain.Read(p[:min(int64(len(p)), most)])
	b.n += int64(n)
	return n, b.classify(err)
}

// open starts decompression.
func (b *boundedBody) open() error {
	switch b.encoding {
	case "", "identity":
		b.plain = b.wire
		return nil
	case "gzip":
		plain, err := gzip.NewReader(b.wire)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // the body ends within the gzip header
		}
		b.plain = plain
		return err
	}
	return fmt.Errorf("%w: the response has the encoding %.100q, which was not requested", ErrMalformed, b.encoding)
}

// classify converts an error to an answerError if retrying the request would not help.
func (b *boundedBody) classify(err error) error {
	switch {
	case b.wire.N == 0:
		return b.tooLong()
	case err == nil:
		return nil
	case errors.Is(err, ErrMalformed):
		return &answerError{err}
	case b.encoding != "gzip" || err == io.EOF:
		return err
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), atEnd(b.raw):
		return &answerError{fmt.Errorf("%w: decompressing the response: %w", ErrMalformed, err)}
	}
	return err
}

func (b *boundedBody) tooLong() error {
	return &answerError{fmt.Errorf("%w: the limit is %d bytes", ErrTooLong, b.limit)}
}

// atEnd reports whether a body has no more bytes.
func atEnd(body io.Reader) bool {
	_, err := body.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// answerError matches client.ErrUnexpectedResponse, so that the client returns it unchanged and does not retry
// the request.
type answerError struct{ error }

func (e *answerError) Unwrap() error        { return e.error }
func (e *answerError) Is(target error) bool { return target == client.ErrUnexpectedResponse }
