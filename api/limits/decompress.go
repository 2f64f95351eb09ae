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

// Opener begins to decompress a body.
type Opener func(io.Reader) (io.ReadCloser, error)

// Decompressor opens a body of that Content-Encoding. What it reads ends in an error
// where it is out of proportion to what was sent. What it needs beside the bodies' own
// bytes it takes by hold, until it is closed.
func Decompressor(encoding string, hold HoldMemory) (Opener, error) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }, nil
	case "gzip":
		return proportionate(gzips.open), nil
	case "zstd":
		return proportionate(func(body io.Reader) (io.ReadCloser, error) { return openZstd(body, hold) }), nil
	}
	return nil, Refuse("", http.StatusUnsupportedMediaType, 0, "Content-Encoding must be gzip, zstd or identity")
}

// resetter is a decompressor that can begin anew.
type resetter interface {
	io.Reader
	Reset(io.Reader) error
}

// decompressors keeps those of bodies that have come to their end for bodies to come:
// to make one costs more than to decompress a short batch.
type decompressors struct {
	pool sync.Pool
	make func() (resetter, error)
}

var (
	gzips = decompressors{make: func() (resetter, error) { return new(gzip.Reader), nil }}
	zstds = decompressors{make: func() (resetter, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxWindow))
	}}
)

// HoldMemory takes memory until release.
type HoldMemory func(bytes int64) (release func(), err error)

// openZstd takes the memory of the largest window: any frame of a body may declare it, and
// then a decompressor has it, however short the body is.
func openZstd(body io.Reader, hold HoldMemory) (io.ReadCloser, error) {
	release, err := hold(MaxWindow + besideWindow)
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

// holdingBody is a body that gives memory back when it is closed.
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

// decompressed is a body that is decompressed. Its decompressor is kept if it has
// found the end: of one that has failed nothing is known.
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

// Close gives the decompressor back; nothing is read afterwards.
func (d *decompressed) Close() error {
	if d.ended {
		d.ended = false
		d.pool.Put(d.resetter)
	}
	return nil
}

// MaxWindow bounds, in bytes, what a zstd body can make the server hold: what every
// HTTP client keeps to (RFC 9659).
const (
	MaxWindow    = 8 << 20
	besideWindow = 512 << 10 // of a decompressor
)

// A body may be as small as it likes until so many bytes have come out of it; then
// they must not be more than so many times those that went in. Deflate cannot do
// much more than 1,000, zstd than 100,000; records do 5 to 50.
const (
	FreeExpansion = 64 << 20
	maxExpansion  = 250
)

// proportionate bounds what comes out of a body by what goes in.
func proportionate(open Opener) Opener {
	return func(body io.Reader) (io.ReadCloser, error) {
		sent := &counter{body: body}
		plain, err := open(sent)
		if err != nil {
			return nil, err
		}
		return &expansion{ReadCloser: plain, sent: sent}, nil
	}
}

// counter counts what is read.
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

// expansion is a body that is decompressed.
type expansion struct {
	io.ReadCloser
	sent  *counter
	bytes int64 // that have come out
}

// Read implements io.Reader.
func (e *expansion) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.bytes += int64(n)
	if e.bytes > FreeExpansion && e.bytes/maxExpansion > e.sent.bytes {
		return 0, Refuse(RefusedExpansion, http.StatusRequestEntityTooLarge, 0,
			"%d bytes have become more than %d times as many; the lines before this one stand, nothing after them is read", e.sent.bytes, maxExpansion)
	}
	return n, err
}

// BodyError says why a body cannot be read to its end.
func BodyError(err error) *Refusal {
	var p *Refusal
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Refuse(RefusedSlowSender, http.StatusRequestTimeout, 0,
			"no line has come for too long: the batch ends here; the lines before this one stand, nothing of this one was taken")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return Refuse(RefusedExpansion, http.StatusRequestEntityTooLarge, 0,
			"the zstd window is larger than %d bytes; compress without --long and --ultra", MaxWindow)
	}
	return Refuse("", http.StatusBadRequest, 0, "the body breaks off or is not in its Content-Encoding (%v); "+
		"the lines before this one stand, nothing of this one was taken", err)
}
