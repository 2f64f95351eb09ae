package limits

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// DecompressFunc returns a reader of the decompressed contents of a body.
type DecompressFunc func(io.Reader) (io.ReadCloser, error)

// Decompressor returns the DecompressFunc for a Content-Encoding, or a 415 RejectedError if the
// encoding is not supported. If the output grows out of proportion to the input, Read returns a 413
// RejectedError. Memory that the decompressor needs is reserved with hold, and released by Close.
func Decompressor(encoding string, hold HoldMemoryFunc) (DecompressFunc, error) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }, nil
	case "gzip":
		return proportionate(gzips.open), nil
	case "zstd":
		return proportionate(func(body io.Reader) (io.ReadCloser, error) { return openZstd(body, hold) }), nil
	}
	return nil, NewRejectedError("", http.StatusUnsupportedMediaType, 0, "Content-Encoding must be gzip, zstd, or identity")
}

// resetter is a decompressor that can be reused.
type resetter interface {
	io.Reader
	Reset(io.Reader) error
}

// decompressors is a pool of decompressors. Creating one costs more than decompressing a short
// batch.
type decompressors struct {
	pool sync.Pool
	make func() (resetter, error)
}

var (
	gzips = decompressors{make: func() (resetter, error) { return new(gzip.Reader), nil }}
	zstds = decompressors{make: func() (resetter, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxZstdWindowBytes))
	}}
)

// HoldMemoryFunc reserves the given number of bytes of memory until release is called.
type HoldMemoryFunc func(bytes int64) (release func(), err error)

// openZstd returns a reader that decompresses body. It reserves memory for the largest window,
// because any frame can declare such a window, which the decompressor then allocates.
func openZstd(body io.Reader, hold HoldMemoryFunc) (io.ReadCloser, error) {
	release, err := hold(MaxZstdWindowBytes + besideWindow)
	if err != nil {
		return nil, err
	}
	plain, err := zstds.open(body)
	if err != nil {
		release()
		return nil, err
	}
	return &holdingBody{plain, release}, nil
}

type holdingBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (h *holdingBody) Close() error {
	defer h.release()
	return h.ReadCloser.Close()
}

func (d *decompressors) open(body io.Reader) (io.ReadCloser, error) {
	z, kept := d.pool.Get().(resetter)
	if !kept {
		var err error
		if z, err = d.make(); err != nil {
			return nil, err
		}
	}
	if err := z.Reset(body); err != nil {
		return nil, err
	}
	return &decompressed{resetter: z, pool: &d.pool}, nil
}

// decompressed is a decompressed body. Close returns its decompressor to the pool if the body ended
// without an error; a decompressor that has failed is not reused.
type decompressed struct {
	resetter
	pool  *sync.Pool
	ended bool
}

// Read implements io.Reader.
func (d *decompressed) Read(p []byte) (int, error) {
	n, err := d.resetter.Read(p)
	d.ended = err == io.EOF
	return n, err
}

// Close returns the decompressor to the pool if the body ended without an error. The body must not
// be read afterwards.
func (d *decompressed) Close() error {
	if d.ended {
		d.ended = false
		d.pool.Put(d.resetter)
	}
	return nil
}

// MaxZstdWindowBytes is the largest zstd window that is accepted, in bytes. It is the limit that
// RFC 9659 sets for HTTP.
const (
	MaxZstdWindowBytes = 8 << 20
	besideWindow       = 512 << 10 // memory that a decompressor needs in addition to its window, in bytes
)

// UncheckedExpansionBytes is how many bytes a body may decompress to before its ratio of output to
// input is checked. From then on, the ratio must not exceed maxExpansion. It is between 5 and 50
// for records, but malicious input can reach about 1,000 with deflate and 100,000 with zstd.
const (
	UncheckedExpansionBytes = 64 << 20
	maxExpansion            = 250
)

// proportionate returns a DecompressFunc that calls open and limits the output in proportion to the
// input.
func proportionate(open DecompressFunc) DecompressFunc {
	return func(body io.Reader) (io.ReadCloser, error) {
		sent := &counter{body: body}
		plain, err := open(sent)
		if err != nil {
			return nil, err
		}
		return &expansion{ReadCloser: plain, sent: sent}, nil
	}
}

// counter counts the bytes that are read from a body.
type counter struct {
	body  io.Reader
	bytes int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	c.bytes += int64(n)
	return n, err
}

// expansion is a decompressed body whose output is limited in proportion to its input.
type expansion struct {
	io.ReadCloser
	sent  *counter
	bytes int64 // bytes of output so far
}

// Read implements io.Reader.
func (e *expansion) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.bytes += int64(n)
	if e.bytes > UncheckedExpansionBytes && e.bytes/maxExpansion > e.sent.bytes {
		return 0, NewRejectedError(ReasonExpansion, http.StatusRequestEntityTooLarge, 0,
			"%d bytes of the body decompress to more than %d times that size; the lines before this one were answered, but the rest was not read", e.sent.bytes, maxExpansion)
	}
	return n, err
}

// BodyRefusal converts an error from reading the body of a batch to the RejectedError that the
// client gets.
func BodyRefusal(err error) *RejectedError {
	var p *RejectedError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, os.ErrDeadlineExceeded):
		return NewRejectedError(ReasonSlowSender, http.StatusRequestTimeout, 0,
			"no line arrived in time, so the batch ends here; the lines before this one have been answered; send the rest again")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return NewRejectedError(ReasonExpansion, http.StatusRequestEntityTooLarge, 0,
			"the zstd window is larger than %d bytes; compress without --long and --ultra", MaxZstdWindowBytes)
	}
	return NewRejectedError("", http.StatusBadRequest, 0, "the body ends early or does not match its Content-Encoding (%v); "+
		"the lines before this one have been answered; send the rest again", err)
}
