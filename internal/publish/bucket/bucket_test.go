package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/publish/bucket"
	"colophon/internal/publish/bucket/buckettest"
)

func open(t testing.TB, url string) bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(url)
	require.NoError(t, err)
	return b
}

func folderURL(path string) string { return "file://" + filepath.ToSlash(path) }

// kinds runs a test with an empty bucket of each kind.
func kinds(t *testing.T, test func(t *testing.T, b bucket.Bucket)) {
	t.Run("folder", func(t *testing.T) { test(t, open(t, folderURL(filepath.Join(t.TempDir(), "copy")))) })
	t.Run("memory", func(t *testing.T) { test(t, new(buckettest.MemoryBucket)) })
	t.Run("S3", func(t *testing.T) {
		s := buckettest.StartS3(t)
		t.Run("at the root", func(t *testing.T) { test(t, open(t, s.URL(""))) })
		t.Run("with a prefix", func(t *testing.T) { test(t, open(t, s.URL("a prefix/b"))) })
	})
	t.Run("Google", func(t *testing.T) {
		s := buckettest.StartGCS(t)
		t.Run("at the root", func(t *testing.T) { test(t, open(t, s.URL(""))) })
		t.Run("with a prefix", func(t *testing.T) { test(t, open(t, s.URL("a prefix/b"))) })
	})
	t.Run("Azure", func(t *testing.T) {
		s := buckettest.StartAzure(t)
		t.Run("at the root", func(t *testing.T) { test(t, open(t, s.URL(""))) })
		t.Run("with a prefix", func(t *testing.T) { test(t, open(t, s.URL("a prefix/b"))) })
	})
}

var plain = bucket.Attributes{ContentType: "application/octet-stream", CacheControl: "no-cache"}

func TestContract(t *testing.T) {
	kinds(t, func(t *testing.T, b bucket.Bucket) {
		const name = "v1/ledgers/a/log/tile/0/x001/234.p/5"
		_, _, err := b.Get(t.Context(), name, 10)
		require.ErrorIs(t, err, bucket.ErrNotFound)
		_, err = b.Size(t.Context(), name)
		require.ErrorIs(t, err, bucket.ErrNotFound)
		require.ErrorIs(t, b.Put(t.Context(), name, []byte("x"), plain, bucket.IfTag("00000000000000000000000000000000")), bucket.ErrPreconditionFailed)

		require.NoError(t, b.Put(t.Context(), name, []byte("one"), plain, bucket.IfAbsent()))
		require.ErrorIs(t, b.Put(t.Context(), name, []byte("two"), plain, bucket.IfAbsent()), bucket.ErrPreconditionFailed)
		require.ErrorIs(t, b.Put(t.Context(), name, []byte("two"), plain, bucket.IfTag("")), bucket.ErrPreconditionFailed)
		body, tag, err := b.Get(t.Context(), name, 3)
		require.NoError(t, err)
		require.Equal(t, "one", string(body))
		_, _, err = b.Get(t.Context(), name, 2)
		require.ErrorIs(t, err, bucket.ErrTooLarge)
		size, err := b.Size(t.Context(), name)
		require.NoError(t, err)
		require.EqualValues(t, 3, size)

		require.NoError(t, b.Put(t.Context(), name, []byte("two"), plain, bucket.IfTag(tag)))
		require.ErrorIs(t, b.Put(t.Context(), name, []byte("three"), plain, bucket.IfTag(tag)), bucket.ErrPreconditionFailed)
		body, again, err := b.Get(t.Context(), name, 3)
		require.NoError(t, err)
		require.Equal(t, "two", string(body))
		require.NotEqual(t, tag, again)
		require.NoError(t, b.Put(t.Context(), name, []byte("three"), plain, bucket.Condition{}))

		// The largest bundle is sent in one request.
		large := bytes.Repeat([]byte("x"), 256*(2+1<<16))
		require.NoError(t, b.Put(t.Context(), "large", large, plain, bucket.IfAbsent()))
		body, _, err = b.Get(t.Context(), "large", int64(len(large)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(large, body))

		// A name that is only a prefix of other names, like a folder, has no object.
		_, _, err = b.Get(t.Context(), "v1/ledgers/a", 10)
		require.ErrorIs(t, err, bucket.ErrNotFound)
		_, err = b.Size(t.Context(), "v1/ledgers/a")
		require.ErrorIs(t, err, bucket.ErrNotFound)

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, b.Put(ended, "ended", []byte("x"), plain, bucket.IfAbsent()))
		_, _, err = b.Get(t.Context(), "ended", 10)
		require.ErrorIs(t, err, bucket.ErrNotFound)
	})
}

// If several writers put the same object under the same condition, exactly one succeeds.
func TestOneWriterWins(t *testing.T) {
	kinds(t, func(t *testing.T, b bucket.Bucket) {
		require.NoError(t, b.Put(t.Context(), "object", []byte("first"), plain, bucket.IfAbsent()))
		_, tag, err := b.Get(t.Context(), "object", 10)
		require.NoError(t, err)
		for name, condition := range map[string]bucket.Condition{"new": bucket.IfAbsent(), "object": bucket.IfTag(tag)} {
			var won atomic.Int64
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					if b.Put(t.Context(), name, fmt.Appendf(nil, "writer %d", i), plain, condition) == nil {
						won.Add(1)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, won.Load(), name)
		}
	})
}

// A folder used as a bucket contains only the objects and an empty folder for incomplete files.
func TestFolderHasObjectsOnly(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, ".writing", "left")
	require.NoError(t, os.MkdirAll(filepath.Dir(stale), 0o750))
	require.NoError(t, os.WriteFile(stale, []byte("x"), 0o600))
	old := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(stale, old, old))

	b := open(t, folderURL(dir))
	require.NoError(t, b.Put(t.Context(), "a/b", []byte("one"), plain, bucket.IfAbsent()))
	require.Error(t, b.Put(t.Context(), "a/b", []byte("two"), plain, bucket.IfAbsent()))
	require.Error(t, b.Put(t.Context(), "a/b", []byte("two"), plain, bucket.IfTag("x")))
	for _, name := range []string{"", "../b", "a/../../b", "/a"} {
		require.Error(t, b.Put(t.Context(), name, []byte("two"), plain, bucket.IfAbsent()), name)
	}
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, path)
		}
		return err
	}))
	require.Equal(t, []string{filepath.Join(dir, "a", "b")}, found)
	info, err := os.Stat(found[0])
	require.NoError(t, err)
	require.EqualValues(t, 0o644, info.Mode().Perm())

	// After the folder has been removed, one call to Put can fail, but the next one succeeds.
	require.NoError(t, os.RemoveAll(dir))
	_ = b.Put(t.Context(), "a/b", []byte("one"), plain, bucket.IfAbsent())
	require.NoError(t, os.MkdirAll(dir, 0o750))
	require.NoError(t, errors.Join(b.Put(t.Context(), "a/c", []byte("one"), plain, bucket.IfAbsent())))
}

// withoutCredentials clears the environment variables that contain credentials.
func withoutCredentials(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
}

// urls returns one bucket URL for each cloud service, all with the given endpoint.
func urls(endpoint string) []string {
	at := "endpoint=" + url.QueryEscape(endpoint)
	return []string{"s3://bucket?region=us-east-1&" + at, "gs://bucket?" + at, "azblob://bucket?" + at}
}

// Put and Get return an error if the endpoint returns a wrong response or does not respond.
func TestFaultyEndpoints(t *testing.T) {
	withoutCredentials(t)
	for status, want := range map[int]error{http.StatusPreconditionFailed: bucket.ErrPreconditionFailed, http.StatusNotImplemented: bucket.ErrConditionsUnsupported,
		http.StatusInternalServerError: nil, http.StatusForbidden: nil, http.StatusConflict: nil} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		for _, place := range urls(server.URL) {
			err := open(t, place).Put(t.Context(), "object", []byte("x"), plain, bucket.IfAbsent())
			require.ErrorContains(t, err, "object")
			for _, kind := range []error{bucket.ErrPreconditionFailed, bucket.ErrConditionsUnsupported, bucket.ErrNotFound} {
				require.Equal(t, kind == want, errors.Is(err, kind), "%s: %d: %v", place, status, err)
			}
		}
		server.Close()
	}
	ended := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer silent.Close()
	defer close(ended)
	for _, place := range urls(silent.URL) {
		b := open(t, place)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, b.Put(ctx, "object", []byte("x"), plain, bucket.IfAbsent()), context.DeadlineExceeded, place)
	}
}

// If an object is truncated, Get returns an error that wraps io.ErrUnexpectedEOF and names the
// object.
func TestCutOffObjects(t *testing.T) {
	withoutCredentials(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set("ETag", `"tag"`)
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte("short"))
	}))
	defer server.Close()
	for _, place := range urls(server.URL) {
		_, _, err := open(t, place).Get(t.Context(), "object", 1000)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, place)
		require.ErrorContains(t, err, "object")
	}
}

// A write that exceeds the service's rate limit is retried after a pause.
func TestRateLimit(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	b := open(t, "gs://bucket?endpoint="+url.QueryEscape(server.URL))
	require.NoError(t, b.Put(t.Context(), "object", []byte("x"), plain, bucket.IfAbsent()))
	require.EqualValues(t, 2, requests.Load())
}

// The Azure account and credentials come from the environment variables that Azure's own tools
// read.
func TestAzureCredentials(t *testing.T) {
	s := buckettest.StartAzure(t)
	b := open(t, s.URL("credentials"))
	require.NoError(t, b.Put(t.Context(), "object", []byte("one"), plain, bucket.IfAbsent()))
	read := func(place string) error {
		b, err := bucket.Open(place)
		if err != nil {
			return err
		}
		_, _, err = b.Get(t.Context(), "object", 3)
		return err
	}
	withoutCredentials(t)
	require.ErrorContains(t, read("azblob://bucket/credentials"), "AZURE_STORAGE_ACCOUNT")
	require.ErrorContains(t, read(s.URL("credentials")), "object in container bucket: 403")

	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey="+buckettest.AzureKey+";BlobEndpoint="+s.Endpoint()+";")
	require.NoError(t, read("azblob://bucket/credentials"))
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")

	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?"+s.SharedAccessSignature())
	require.NoError(t, read(s.URL("credentials")))
	const secret = "a-signature-that-must-stay-secret"
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sig="+secret)
	s.Kill()
	err := read(s.URL("credentials"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), secret)

	t.Setenv("AZURE_STORAGE_KEY", "not base64!")
	require.ErrorContains(t, read(s.URL("credentials")), "base64")
}

// The credentials for Google come from the file that GOOGLE_APPLICATION_CREDENTIALS names.
func TestGoogleCredentials(t *testing.T) {
	var requests atomic.Int64
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
	}))
	defer service.Close()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	b := open(t, "gs://bucket?endpoint="+url.QueryEscape(service.URL))
	_, _, err := b.Get(t.Context(), "object", 3)
	require.ErrorContains(t, err, "object in bucket bucket: finding Google's credentials (set GOOGLE_APPLICATION_CREDENTIALS")
	require.Zero(t, requests.Load())
}

func TestURLs(t *testing.T) {
	for _, good := range []string{"file:///srv/copy", "s3://bucket", "s3://bucket/a/b", "s3://bucket/a?endpoint=http://127.0.0.1:9000&region=eu",
		"gs://bucket", "gs://bucket/a/b", "gs://bucket?endpoint=http://127.0.0.1:9000", "azblob://container/a", "azblob://container?endpoint=http://127.0.0.1:9000/account"} {
		require.NoError(t, bucket.CheckURL(good), good)
		require.True(t, bucket.IsURL(good))
	}
	for _, bad := range []string{"", "/srv/copy", "file://srv/copy", "file:srv", "file:///srv?x=1", "s3://", "s3://bucket?endpoint=s3.example.org", "s3://bucket?endpoint=https://h/path",
		"s3://key:secret@bucket", "s3://bucket?secret=x", "s3://bucket?region=a&region=b", "http://h", "s3://bucket#x", "s3://bucket?endpoint=https://a:b@h",
		"gs://", "gs://bucket?region=eu", "gs://bucket?endpoint=https://h/path", "azblob://", "azblob://container?account=x", "azblob://user:secret@container", "file://user:secret@/srv"} {
		require.Error(t, bucket.CheckURL(bad), bad)
	}
	for _, kind := range []string{"s3", "gs", "azblob"} {
		require.NotContains(t, bucket.CheckURL(kind+"://key:secret@bucket").Error(), "secret@")
	}
}

// With Transport, an HTTP client can read a bucket as if it were a web server.
func TestTransport(t *testing.T) {
	kinds(t, func(t *testing.T, b bucket.Bucket) {
		require.NoError(t, b.Put(t.Context(), "v1/a b", []byte("one"), plain, bucket.IfAbsent()))
		client := http.Client{Transport: bucket.NewTransport(b)}
		for path, want := range map[string]int{"/v1/a%20b": http.StatusOK, "/v1/none": http.StatusNotFound, "/v1": http.StatusNotFound, "/": http.StatusNotFound, "/v1/../../x": http.StatusNotFound} {
			response, err := client.Get("http://any" + path)
			if path == "/" || path == "/v1/../../x" { // neither path is an object name
				if err != nil {
					continue
				}
			}
			require.NoError(t, err, path)
			require.Equal(t, want, response.StatusCode, path)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, errors.Join(err, response.Body.Close()))
			if want == http.StatusOK {
				require.Equal(t, "one", string(body))
			}
		}
		response, err := client.Post("http://any/v1/new", "text/plain", nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
	})
}
