package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/gzip"

	"colophon/client"
)

// limitKey is the key of a request's limit, in bytes, in its context.
type limitKey struct{}

func withLimit(ctx context.Context, limit int64) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// boundedTransport bounds the answers of a server that is not trusted, by the limit of the request's context.
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
	wire := &io.LimitedReader{R: response.Body, N: limit + maxPacking}
	response.Body = &boundedBody{ctx: r.Context(), raw: response.Body, wire: wire, packing: response.Header.Get("Content-Encoding"), limit: limit}
	return response, nil
}

// truncatedBody is the beginning of a body.
type truncatedBody struct {
	io.Reader
	io.Closer
}

// boundedBody reads the body of an answer and unpacks it. Neither side of that is longer
// than limit, but for a little on the side of the wire. A gzip stream of several members
// is what all of them unpack to (RFC 1952, section 2.2). A large answer waits for its share of the memory.
type boundedBody struct {
	ctx     context.Context
	raw     io.ReadCloser
	wire    *io.LimitedReader // of raw
	packing string            // Content-Encoding
	plain   io.Reader         // nil until the first read
	limit   int64
	n       int64 // bytes that were read
	shared  bool  // it has its share
	err     error // of the last read
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
			return 0, b.judge(err)
		}
	}
	if b.n >= smallAnswer && !b.shared {
		if err := takeShare(b.ctx); err != nil {
			return 0, err
		}
		b.shared = true
	}
	most := b.limit - b.n
	if b.n < smallAnswer {
		most = min(most, smallAnswer-b.n)
	}
	if most == 0 { // is there more?
		n, err := b.plain.Read(make([]byte, 1))
		if n > 0 {
			return 0, b.tooMuch()
		}
		return 0, b.judge(err)
	}
	n, err := b.plain.Read(p[:min(int64(len(p)), most)])
	b.n += int64(n)
	return n, b.judge(err)
}

// open begins to unpack.
func (b *boundedBody) open() error {
	switch b.packing {
	case "", "identity":
		b.plain = b.wire
		return nil
	case "gzip":
		unpacked, err := gzip.NewReader(b.wire)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // there is not even a header
		}
		b.plain = unpacked
		return err
	}
	return fmt.Errorf("%w: it is packed as %.100q, which the auditor did not ask for", errAnswer, b.packing)
}

// judge says what an error of reading means. One of the answer itself is not worth another try.
func (b *boundedBody) judge(err error) error {
	switch {
	case b.wire.N == 0:
		return b.tooMuch()
	case err == nil:
		return nil
	case errors.Is(err, errAnswer):
		return &answerError{err}
	case b.packing != "gzip" || err == io.EOF:
		return err
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), atEnd(b.raw):
		return &answerError{fmt.Errorf("%w: it is no gzip: %w", errAnswer, err)}
	}
	return err
}

func (b *boundedBody) tooMuch() error {
	return &answerError{fmt.Errorf("%w: more than %d bytes", ErrTooMuch, b.limit)}
}

// atEnd reports whether a body has come to its end, in place of breaking off.
func atEnd(body io.Reader) bool {
	_, err := body.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// answerError is a client.ErrAnswer: the client returns it as it is, and does not repeat the request.
type answerError struct{ error }

func (e *answerError) Unwrap() error        { return e.error }
func (e *answerError) Is(target error) bool { return target == client.ErrAnswer }
