package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// rest sends requests to the HTTP interface of a service.
type rest struct {
	client *http.Client
	place  string // for messages
	// explain maps a failed response to an error of this package, or to nil if none fits.
	explain func(*http.Response) error
	// authorize adds credentials to a request, if it is set.
	authorize func(*http.Request) error
}

func newREST(place string, explain func(*http.Response) error) rest {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // compression would change lengths and tags
	return rest{client: &http.Client{Transport: transport}, place: place, explain: explain}
}

const (
	maxAnswer = 1 << 16 // bytes of a description or an error that are read
	maxReason = 300     // bytes of a response body that a message shows
	// Google allows about one write per second for each object. It responds with 429 to further writes, which
	// have no effect.
	firstWait, longestWait = time.Second, 4 * time.Second
)

// read gets an object of at most most bytes, and returns the header and the body of the response.
func (r *rest) read(ctx context.Context, name, address string, most int64) (http.Header, []byte, error) {
	response, err := r.do(ctx, name, http.MethodGet, address, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := readObject(name, response.Body, response.ContentLength, most)
	return response.Header, body, err
}

// write sends an object, and discards the body of the response.
func (r *rest) write(ctx context.Context, name, method, address string, body []byte, header http.Header) error {
	response, err := r.do(ctx, name, method, address, body, header)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)) // so that the connection is reused
	return errors.Join(err, response.Body.Close())
}

// do sends a request, and returns the response if it is a success. It repeats a request that exceeds the
// service's rate limit. The caller closes the response body.
func (r *rest) do(ctx context.Context, name, method, address string, body []byte, header http.Header) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) {
		var request *url.Error // the message of this error has the URL, which may have a signature
		if errors.As(err, &request) {
			err = request.Err
		}
		return nil, fmt.Errorf("%s in %s: %w", name, r.place, err)
	}
	for wait := firstWait; ; wait *= 2 {
		request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
		if err != nil {
			return fail(err)
		}
		if header != nil {
			request.Header = header.Clone()
		}
		if r.authorize != nil {
			if err := r.authorize(request); err != nil {
				return fail(err)
			}
		}
		response, err := r.client.Do(request)
		if err != nil {
			return fail(err)
		}
		if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusCreated {
			return response, nil
		}
		reason, _ := io.ReadAll(io.LimitReader(response.Body, maxReason)) // for the message
		_ = response.Body.Close()
		if known := r.explain(response); known != nil {
			return nil, fmt.Errorf("requesting %s: %w", name, known)
		}
		if response.StatusCode != http.StatusTooManyRequests || wait > longestWait {
			return fail(fmt.Errorf("%s: %q", response.Status, strings.TrimSpace(string(reason))))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
}

// readObject reads an object of at most most bytes. length is the length that the response states, or negative
// if it states none.
func readObject(name string, from io.Reader, length, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case int64(len(body)) > most:
		return nil, fmt.Errorf("reading %s: %w", name, ErrTooLong)
	case length >= 0 && int64(len(body)) != length:
		return nil, fmt.Errorf("reading %s: %w", name, io.ErrUnexpectedEOF)
	}
	return body, nil
}
