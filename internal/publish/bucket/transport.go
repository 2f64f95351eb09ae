package bucket

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// MaxObjectBytes is the maximum length of an object that is read from a published log, in bytes. No entry bundle is
// longer.
const MaxObjectBytes = 256 * (2 + 1<<16)

// NewTransport returns a RoundTripper that answers GET requests with the objects of a bucket, and ignores the host
// of the URL.
func NewTransport(b Bucket) http.RoundTripper { return transport{b} }

type transport struct{ bucket Bucket }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, StatusCode: http.StatusOK, Header: make(http.Header), Request: r}
	body, _, err := t.bucket.Get(r.Context(), strings.TrimPrefix(r.URL.Path, "/"), MaxObjectBytes)
	switch {
	case r.Method != http.MethodGet:
		answer.StatusCode, body = http.StatusMethodNotAllowed, nil
	case errors.Is(err, ErrNotFound):
		answer.StatusCode, body = http.StatusNotFound, []byte(err.Error())
	case err != nil:
		return nil, err
	}
	answer.Status = strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return answer, nil
}
