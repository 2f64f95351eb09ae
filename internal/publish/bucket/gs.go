package bucket

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// gs is a bucket in Google Cloud Storage. It uses the service's JSON API. The tag of an object is
// its generation.
//
// Google's own client is not used. It would add gRPC and 27 MB to the program, but only three kinds
// of requests are needed.
type gs struct {
	rest
	endpoint string
	bucket   string
	prefix   string
}

// googleEndpoint is the default endpoint.
const googleEndpoint = "https://storage.googleapis.com"

// readWrite is the OAuth scope that the requests need.
const readWrite = "https://www.googleapis.com/auth/devstorage.read_write"

// noGeneration is a generation that no object has. Zero cannot be used, because
// ifGenerationMatch=0 means that the object must not exist.
const noGeneration = "9223372036854775807"

// openGS returns the bucket that p describes. It sends no credentials over plain HTTP, which only
// emulators use.
func openGS(p place) (Bucket, error) {
	endpoint := googleEndpoint
	if p.endpoint != nil {
		endpoint = strings.TrimRight(p.endpoint.String(), "/")
	}
	b := &gs{rest: newREST("bucket "+p.bucket, explainGS), endpoint: endpoint, bucket: p.bucket, prefix: p.prefix}
	if !strings.HasPrefix(endpoint, "http:") {
		b.client.Transport = &oauth2.Transport{Source: new(defaultTokens), Base: b.client.Transport}
	}
	return b, nil
}

// defaultTokens provides the tokens of Google's application default credentials. It looks for the
// credentials only when a token is first needed, because the search may send requests.
type defaultTokens struct {
	mu    sync.Mutex
	found oauth2.TokenSource
}

// tokenTimeout is the time limit for each request for a token.
const tokenTimeout = 20 * time.Second

// Token implements oauth2.TokenSource.
func (d *defaultTokens) Token() (*oauth2.Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found == nil {
		ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Timeout: tokenTimeout})
		credentials, err := google.FindDefaultCredentials(ctx, readWrite)
		if err != nil {
			return nil, fmt.Errorf("finding Google's credentials (set GOOGLE_APPLICATION_CREDENTIALS to the path of a key file): %w", err)
		}
		d.found = credentials.TokenSource
	}
	return d.found.Token()
}

func (b *gs) key(name string) string { return path.Join(b.prefix, name) }

// object returns the URL of an object's metadata if api is empty, or the URL of the object's bytes
// if api is "/download".
func (b *gs) object(api, name, query string) string {
	return b.endpoint + api + "/storage/v1/b/" + url.PathEscape(b.bucket) + "/o/" + url.PathEscape(b.key(name)) + "?" + query
}

// Get implements Bucket.
func (b *gs) Get(ctx context.Context, name string, limit int64) (body []byte, tag string, err error) {
	header, body, err := b.read(ctx, name, b.object("/download", name, "alt=media"), limit)
	return body, header.Get("X-Goog-Generation"), err
}

// Size implements Bucket.
func (b *gs) Size(ctx context.Context, name string) (int64, error) {
	_, body, err := b.read(ctx, name, b.object("", name, "fields=size"), maxAnswer)
	if err != nil {
		return 0, err
	}
	var found struct {
		Size int64 `json:"size,string"`
	}
	if err := json.Unmarshal(body, &found); err != nil {
		return 0, fmt.Errorf("decoding the metadata of %s in bucket %s: %w", name, b.bucket, err)
	}
	return found.Size, nil
}

// Put implements Bucket.
func (b *gs) Put(ctx context.Context, name string, body []byte, attributes Attributes, condition Condition) error {
	address := b.endpoint + "/upload/storage/v1/b/" + url.PathEscape(b.bucket) + "/o?uploadType=multipart&fields=generation"
	switch {
	case condition.absent:
		address += "&ifGenerationMatch=0"
	case condition.tag != "":
		generation := condition.tag
		if n, err := strconv.ParseUint(generation, 10, 63); err != nil || n == 0 {
			generation = noGeneration
		}
		address += "&ifGenerationMatch=" + generation
	}
	contentType, text, err := b.upload(name, body, attributes)
	if err != nil {
		return fmt.Errorf("preparing the upload of %s to bucket %s: %w", name, b.bucket, err)
	}
	return b.write(ctx, name, http.MethodPost, address, text, http.Header{"Content-Type": {contentType}})
}

// upload returns a multipart body with the metadata and the bytes of an object, and the content type of
// that body. The service verifies the checksum in the metadata before it stores the object.
func (b *gs) upload(name string, body []byte, attributes Attributes) (contentType string, text []byte, err error) {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	description, err := json.Marshal(map[string]string{"name": b.key(name), "contentType": attributes.ContentType,
		"cacheControl": attributes.CacheControl, "crc32c": base64.StdEncoding.EncodeToString(sum)})
	if err != nil {
		return "", nil, err
	}
	var buffer bytes.Buffer
	parts := multipart.NewWriter(&buffer)
	for _, part := range []struct {
		contentType string
		body        []byte
	}{{"application/json; charset=UTF-8", description}, {attributes.ContentType, body}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {part.contentType}})
		if err == nil {
			_, err = w.Write(part.body)
		}
		if err != nil {
			return "", nil, err
		}
	}
	err = parts.Close()
	return "multipart/related; boundary=" + parts.Boundary(), buffer.Bytes(), err
}

// explainGS converts a failed response to an error of this package, such as ErrNotFound. It
// returns nil if none of these errors describes the failure.
func explainGS(r *http.Response) error {
	switch {
	case r.StatusCode == http.StatusNotFound && r.Request.Method == http.MethodGet:
		return ErrNotFound
	case r.StatusCode == http.StatusPreconditionFailed:
		return ErrPreconditionFailed
	case r.StatusCode == http.StatusNotImplemented:
		return ErrConditionsUnsupported
	}
	return nil
}
