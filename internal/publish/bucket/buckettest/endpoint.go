package buckettest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"colophon/internal/publish/bucket"
)

// ServeS3 serves a MemoryBucket as an S3 bucket that needs no credentials, and returns its URL. It
// clears the environment variables that hold credentials.
func ServeS3(t testing.TB, m *MemoryBucket) string {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none")} {
		t.Setenv(name, value)
	}
	server := httptest.NewServer(endpoint{m})
	t.Cleanup(server.Close)
	return "s3://bucket?region=us-east-1&endpoint=" + url.QueryEscape(server.URL)
}

type endpoint struct{ *MemoryBucket }

// ServeHTTP answers the requests that the client of package bucket sends.
func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // net/http cancels the context on a disconnect only after the body has been read
	if err != nil {
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/bucket/")
	switch r.Method {
	case http.MethodGet:
		body, err = e.send(r.Context(), w, name)
	case http.MethodHead:
		_, err = e.Size(r.Context(), name)
		if err == nil {
			body, err = e.send(r.Context(), w, name)
		}
	case http.MethodPut:
		err = e.Put(r.Context(), name, body, bucket.Attributes{}, conditionOf(r.Header))
		w.Header().Set("ETag", `"`+tagOf(body)+`"`)
		body = nil
	}
	switch {
	case err == nil:
		_, _ = w.Write(body) // the client may have disconnected
	case errors.Is(err, bucket.ErrNotFound):
		w.WriteHeader(http.StatusNotFound)
	case errors.Is(err, bucket.ErrPreconditionFailed):
		w.WriteHeader(http.StatusPreconditionFailed)
	case errors.Is(err, bucket.ErrConditionsUnsupported):
		w.WriteHeader(http.StatusNotImplemented)
	case errors.Is(err, ErrFault):
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (e endpoint) send(ctx context.Context, w http.ResponseWriter, name string) ([]byte, error) {
	body, tag, err := e.Get(ctx, name, 1<<30)
	if err != nil {
		return nil, err
	}
	w.Header().Set("ETag", `"`+tag+`"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
	return body, nil
}

func conditionOf(header http.Header) bucket.Condition {
	switch {
	case header.Get("If-None-Match") != "":
		return bucket.IfAbsent()
	case header.Get("If-Match") != "":
		return bucket.IfTag(strings.Trim(header.Get("If-Match"), `"`))
	}
	return bucket.Condition{}
}
