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

// rest sends requests to the REST API of a storage service.
type rest struct {
	client *http.Client
	place  string // describes the bucket in error messages
	// explain converts a failed response to an error of this package, such as ErrNotFound. It
	// returns nil if none of these errors describes the failure.
	explain func(*http.Response) error
	// authorize, if set, adds credentials to a request.
	authorize func(*http.Request) error
}

func newREST(place string, explain func(*http.Response) error) rest {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // compression would change lengths and tags
	return rest{client: &http.Client{Transport: transport}, place: place, explain: explain}
}

const (
	maxAnswer = 1 << 16 // maximum number of bytes read from an object's metadata or from the response to a write
	maxReason = 300     // maximum number of bytes of a response body that an error message quotes
	// A request that gets status 429 is retried after firstWait. The pause doubles with each retry. The
	// request fails if the next pause would exceed longestWait. Google allows about one write per second for
	// each object. It rejects further writes with status 429, so it is safe to repeat them.
	firstWait, longestWait = time.Second, 4 * time.Second
)

// read sends a GET request, and returns the header and the body of the response. It returns an
// error if the body has more than limit bytes.
func (r *rest) read(ctx context.Context, name, address string, limit int64) (http.Header, []byte, error) {
	response, err := r.do(ctx, name, http.MethodGet, address, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := readObject(name, response.Body, response.ContentLength, limit)
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

// do sends a request, and returns the response if its status is 200 or 201. It retries a request that
// exceeds the service's rate limit. The caller must close the response body.
func (r *rest) do(ctx context.Context, name, method, address string, body []byte, header http.Header) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) {
		var request *url.Error // its message must not be shown: it contains the URL, which may include a signature
		if errors.As(err, &request) {
			err = request.Err
		}
		return nil, fmt.Errorf("requesting %s in %s: %w", name, r.place, err)
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
		reason, _ := io.ReadAll(io.LimitReader(response.Body, maxReason)) // quoted in the error message
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

// readObject reads an object. It returns an error if the object has more than limit bytes or ends
// before length bytes. length is the length stated by the response, or negative if unknown.
func readObject(name string, from io.Reader, length, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("reading %s: %w", name, ErrTooLarge)
	case length >= 0 && int64(len(body)) != length:
		return nil, fmt.Errorf("reading %s: %w", name, io.ErrUnexpectedEOF)
	}
	return body, nil
}
