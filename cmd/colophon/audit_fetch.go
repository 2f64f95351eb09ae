package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/semaphore"

	"colophon/internal/cli"
	"colophon/proofs/audit"
)

// Bounds of what is asked of a server that nobody trusts. It may answer slowly,
// endlessly, compressed to nothing, or not at all.
const (
	auditTries      = 5                // of one request
	auditPause      = 30 * time.Second // between two of them, at most
	auditHeaders    = 64 << 10         // bytes of an answer's headers
	maxAuditJSON    = 16 << 20         // bytes of an answer in JSON; a server ends a page at 4 MiB of events
	maxAuditValues  = 400_000          // values and member names of such an answer
	maxReceipt      = 1 << 20          // bytes of a receipt or a proof
	maxMetrics      = 64 << 20         // bytes of the metrics of all ledgers
	maxPacking      = 64 << 10         // bytes by which a compressed answer may be longer than itself
	maxNote         = 1 << 20          // bytes of a signed note
	maxProblem      = 64 << 10         // bytes of an answer that is no success
	maxAuditContent = 64 << 20         // bytes of a piece of content
)

// errTooMuch: an answer is longer than it can rightly be.
var errTooMuch = errors.New("the answer is longer than it can be")

// unavailableError is an audit.ErrUnavailable that says nothing but why.
type unavailableError struct{ error }

// Unwrap is why.
func (e unavailableError) Unwrap() error { return e.error }

// Is reports whether that is what the error is.
func (unavailableError) Is(target error) bool { return target == audit.ErrUnavailable }

// fetcher asks one ledger of one server. Each request is bounded in time, and so is
// what is read of its answer after it was decompressed. It is safe for concurrent use.
type fetcher struct {
	client  *httpClient
	path    string        // of the ledger
	timeout time.Duration // of each try
	pause   time.Duration // before the second try; later ones wait longer
	packed  bool          // answers may be compressed
}

// newFetcher makes a fetcher of a client that is nobody else's; parallel is how many
// requests it makes at once.
func newFetcher(c *httpClient, path string, timeout time.Duration, parallel int) *fetcher {
	f := &fetcher{client: c, path: path, timeout: timeout, pause: min(250*time.Millisecond, timeout/4)}
	if transport, ok := c.http.Transport.(*http.Transport); ok {
		transport.MaxIdleConnsPerHost = parallel
		transport.MaxResponseHeaderBytes = auditHeaders
		transport.DisableCompression = true // the fetcher unpacks: it bounds both sides of that
		// On one machine, to pack and unpack costs more than all that is checked.
		if u, err := url.Parse(c.base); err == nil {
			f.packed = !cli.Loopback(u.Hostname())
		}
	}
	return f
}

// fetched is an answer that was read to its end. why is what is wrong, where its status
// is not 200.
type fetched struct {
	status int
	header http.Header
	body   []byte
	why    string
}

// get asks for something below the ledger's path and reads up to limit bytes of the
// answer, whatever its status. The error wraps audit.ErrUnavailable where the server
// does not answer, or says that it cannot for the time being; errTooMuch where there
// is more; errAnswer where it is packed in an unknown way.
func (f *fetcher) get(ctx context.Context, path string, limit int64) (fetched, error) {
	return f.getFrom(ctx, f.client.base+f.path+path, limit)
}

func (f *fetcher) getFrom(ctx context.Context, address string, limit int64) (fetched, error) {
	return f.ask(ctx, address, "", limit)
}

// ask is getFrom with a media type to accept; "" is any.
func (f *fetcher) ask(ctx context.Context, address, accept string, limit int64) (fetched, error) {
	for try := 1; ; try++ {
		answer, wait, err := f.try(ctx, address, accept, limit)
		if err == nil || errors.Is(err, errTooMuch) || errors.Is(err, errAnswer) || ctx.Err() != nil {
			return answer, err
		}
		if try == auditTries || misdirected(err) {
			return fetched{}, unavailableError{err}
		}
		if wait == 0 {
			wait = f.pause << (try - 1)
		}
		wait += time.Duration(rand.Int64N(int64(max(1, f.pause)))) // #nosec G404 -- so that not all come back at once
		select {
		case <-time.After(min(wait, auditPause)):
		case <-ctx.Done():
			return fetched{}, ctx.Err()
		}
	}
}

// try makes the request once. The error is one that another try may not meet, with
// the time that the server asks to wait, or errTooMuch, or errAnswer.
func (f *fetcher) try(ctx context.Context, address, accept string, limit int64) (answer fetched, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fetched{}, 0, err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if f.packed {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := f.client.do(request)
	if err != nil {
		return fetched{}, 0, f.client.noAnswer(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return f.refused(response)
	}
	body, err := readAnswer(ctx, response, limit)
	switch {
	case errors.Is(err, errTooMuch) || errors.Is(err, errAnswer):
		return fetched{}, 0, err
	case err != nil:
		return fetched{}, 0, fmt.Errorf("the answer breaks off: %w", f.client.noAnswer(err))
	}
	answer = fetched{status: response.StatusCode, header: response.Header, body: body}
	if answer.status != http.StatusOK {
		answer.why = fmt.Sprintf("the server answers %d %s", answer.status, http.StatusText(answer.status))
	}
	return answer, 0, nil
}

// readAnswer reads the body of an answer and unpacks it. Neither side of that is longer
// than limit, but for a little on the side of the wire. A gzip stream of several members
// is what all of them unpack to (RFC 1952, section 2.2).
func readAnswer(ctx context.Context, response *http.Response, limit int64) ([]byte, error) {
	wire := &io.LimitedReader{R: response.Body, N: limit + maxPacking}
	var plain io.Reader = wire
	isGzip := false
	switch packing := response.Header.Get("Content-Encoding"); packing {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(wire)
		if err != nil && (errors.Is(err, gzip.ErrHeader) || atEnd(response.Body)) {
			return nil, fmt.Errorf("%w: it is no gzip: %w", errAnswer, err)
		}
		if err != nil {
			return nil, err
		}
		plain, isGzip = unpacked, true
	default:
		return nil, fmt.Errorf("%w: it is packed as %.100q, which the auditor did not ask for", errAnswer, packing)
	}
	var body bytes.Buffer
	said := response.ContentLength
	if said > 0 && said <= min(limit, smallAnswer) {
		body.Grow(int(said) + bytes.MinRead)
	}
	n, err := body.ReadFrom(io.LimitReader(plain, min(limit, smallAnswer)+1))
	if err == nil && n > smallAnswer && limit > smallAnswer {
		if err = takeShare(ctx); err == nil {
			if said > n && said <= limit {
				body.Grow(int(said-n) + bytes.MinRead)
			}
			var more int64
			more, err = body.ReadFrom(io.LimitReader(plain, limit-n+1))
			n += more
		}
	}
	switch {
	case n > limit || wire.N == 0:
		return nil, fmt.Errorf("%w: more than %d bytes", errTooMuch, limit)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), isGzip && err != nil && atEnd(response.Body):
		return nil, fmt.Errorf("%w: it is no gzip: %w", errAnswer, err)
	}
	return body.Bytes(), err
}

// atEnd reports whether a body has come to its end, in place of breaking off.
func atEnd(body io.Reader) bool {
	_, err := body.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// Large answers to questions are worked on a few at a time: that bounds the auditor's
// memory. Smaller ones need no share of it.
const (
	smallAnswer  = 1 << 20 // bytes
	largeAnswers = 2       // at once
)

// answerShare is a question's share of the memory for large answers. It belongs to the
// goroutine of the question.
type answerShare struct {
	of    *semaphore.Weighted
	taken bool
}

type answerShareKey struct{}

// withShare is a context whose large answers take a share; it is to be released.
func withShare(ctx context.Context, of *semaphore.Weighted) (context.Context, *answerShare) {
	s := &answerShare{of: of}
	return context.WithValue(ctx, answerShareKey{}, s), s
}

// takeShare waits for a share of the memory for large answers, unless the question has it.
func takeShare(ctx context.Context) error {
	s, _ := ctx.Value(answerShareKey{}).(*answerShare)
	if s == nil || s.taken {
		return nil
	}
	err := s.of.Acquire(ctx, 1)
	s.taken = err == nil
	return err
}

func (s *answerShare) release() {
	if s.taken {
		s.of.Release(1)
		s.taken = false
	}
}

// refused reads an answer that is no success, as much of it as a problem can have.
func (f *fetcher) refused(response *http.Response) (answer fetched, wait time.Duration, err error) {
	answer.status, answer.header = response.StatusCode, response.Header
	answer.body, err = io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err != nil {
		return fetched{}, 0, fmt.Errorf("the answer breaks off: %w", f.client.noAnswer(err))
	}
	response.Body = io.NopCloser(bytes.NewReader(answer.body))
	p := f.client.refused(response)
	if p.plainHTTP {
		return fetched{}, 0, misdirectedError{fmt.Errorf("no answer from the server at %s: 400", f.client.base), f.client.useTLS()}
	}
	if p.temporary() {
		return fetched{}, p.RetryAfter, p
	}
	answer.why = p.Error()
	return answer, 0, nil
}

// want is get of what must be there. Of another status, the error says what the server
// says; one that is about who asks is an ExitError.
func (f *fetcher) want(ctx context.Context, path string, limit int64) ([]byte, error) {
	answer, err := f.get(ctx, path, limit)
	if err != nil {
		return nil, err
	}
	switch answer.status {
	case http.StatusOK:
		return answer.body, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, unavailableError{cli.Exitf(cli.ExitFailed, "%s", answer.why)}
	}
	return nil, errors.New(answer.why)
}
