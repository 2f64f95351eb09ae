// Package bucket stores named objects in a folder, at an S3-compatible endpoint, in Google Cloud
// Storage, or in Azure Blob Storage.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// Errors that callers can distinguish with errors.Is. After any other error from Put, it is unknown
// whether the object was written.
var (
	// ErrNotFound means that there is no object with the given name.
	ErrNotFound = errors.New("the object does not exist")
	// ErrPreconditionFailed means that the condition of a Put did not hold. Nothing was written.
	ErrPreconditionFailed = errors.New("the object has changed")
	// ErrConditionsUnsupported means that the endpoint has refused a Put because it does not
	// support conditions. Nothing was written.
	ErrConditionsUnsupported = errors.New("the endpoint does not support conditional writes")
	// ErrTooLarge means that the object is larger than the caller allows.
	ErrTooLarge = errors.New("the object is too large")
)

// Bucket stores objects by name. A name consists of elements separated by slashes. The methods are
// safe for concurrent use.
type Bucket interface {
	// Get returns an object and its tag, which changes if the object's bytes change. The error
	// wraps ErrNotFound if there is no such object, or ErrTooLarge if its length in bytes exceeds
	// limit.
	Get(ctx context.Context, name string, limit int64) (body []byte, tag string, err error)
	// Size returns the length of an object in bytes. The error wraps ErrNotFound if there is no
	// such object.
	Size(ctx context.Context, name string) (int64, error)
	// Put writes an object if the condition holds. When it returns nil, the object is durable.
	Put(ctx context.Context, name string, body []byte, attributes Attributes, condition Condition) error
}

// Attributes contains the headers that the bucket sends when it serves an object over HTTP.
type Attributes struct{ ContentType, CacheControl string }

// Condition is a precondition of a Put. The zero Condition always holds.
type Condition struct {
	absent bool
	tag    string
}

// IfAbsent returns a condition that holds only if the object does not exist yet.
func IfAbsent() Condition { return Condition{absent: true} }

// IfTag returns a condition that holds only if the object has the given tag. IfTag("") is the same
// as IfAbsent.
func IfTag(tag string) Condition { return Condition{absent: tag == "", tag: tag} }

// Holds reports whether the condition holds for an object with the given tag. An empty tag means
// that there is no object.
func (c Condition) Holds(tag string) bool {
	return c == Condition{} || c.absent && tag == "" || !c.absent && c.tag == tag
}

// LogObjectName returns the name of an object in a published log. The name is the path at which the
// server serves the object, without the leading slash.
func LogObjectName(ledger, path string) string { return "v1/ledgers/" + ledger + "/log/" + path }

// CheckURL returns an error if text is not the URL of a bucket. The error says what is wrong, and
// what to write instead.
func CheckURL(text string) error {
	_, err := parse(text)
	return err
}

// schemes maps each URL scheme to a kind of bucket.
var schemes = map[string]scheme{
	"file": {},
	"s3": {open: openS3, parameters: []string{"endpoint", "region"}, example: "s3://bucket/prefix?endpoint=https://s3.example.org",
		credentials: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in the file ~/.aws/credentials"},
	"gs": {open: openGS, parameters: []string{"endpoint"}, example: "gs://bucket/prefix",
		credentials: "a key file, and set GOOGLE_APPLICATION_CREDENTIALS to its path"},
	"azblob": {open: openAzure, parameters: []string{"endpoint"}, example: "azblob://container/prefix", paths: true,
		credentials: "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY"},
}

// scheme describes a kind of bucket.
type scheme struct {
	open        func(place) (Bucket, error)
	parameters  []string // query parameters that a URL may have
	paths       bool     // whether an endpoint may have a path
	example     string
	credentials string // where users should put the credentials, for error messages
}

// place is the parsed URL of a bucket. For a folder, only prefix is set.
type place struct {
	scheme
	bucket, prefix, region string
	endpoint               *url.URL // nil if the URL has no endpoint
}

// IsURL reports whether text begins with the scheme of a bucket URL.
func IsURL(text string) bool {
	name, _, found := strings.Cut(text, "://")
	_, is := schemes[name]
	return found && is
}

const kinds = "file:///folder, s3://bucket/prefix?endpoint=URL, gs://bucket/prefix, or azblob://container/prefix"

func parse(text string) (place, error) {
	u, err := url.Parse(text)
	if err != nil {
		return place{}, errors.New("invalid URL; use " + kinds)
	}
	kind, is := schemes[u.Scheme]
	switch {
	case !is:
		return place{}, fmt.Errorf("%q is not a supported URL scheme for a bucket; use %s", u.Scheme, kinds)
	case u.User != nil:
		if kind.open == nil {
			return place{}, errors.New("the URL of a folder cannot contain a user name; use file:///folder")
		}
		return place{}, errors.New("the URL must not contain credentials; put them in " + kind.credentials)
	case u.Fragment != "":
		return place{}, errors.New("the URL of a bucket cannot have a fragment (#…)")
	case kind.open == nil && (u.Host != "" || !filepath.IsAbs(filepath.FromSlash(u.Path)) || u.RawQuery != ""):
		return place{}, errors.New("the URL of a folder must have three slashes and an absolute path, such as file:///srv/copy")
	case kind.open == nil:
		return place{prefix: filepath.FromSlash(u.Path)}, nil
	case u.Host == "":
		return place{}, errors.New("the URL names no bucket; use " + kind.example)
	}
	p := place{scheme: kind, bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	for name, values := range u.Query() {
		switch {
		case len(values) != 1:
			return p, fmt.Errorf("the parameter %q is given more than once", name)
		case !slices.Contains(kind.parameters, name):
			return p, fmt.Errorf("unknown parameter %q; bucket URLs with the scheme %s accept %s", name, u.Scheme, strings.Join(kind.parameters, " and "))
		case name == "region":
			p.region = values[0]
		default:
			if p.endpoint, err = parseEndpoint(values[0], kind.paths); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

func parseEndpoint(text string, paths bool) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" && !paths ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the endpoint must be a URL with only a scheme and a host, such as https://s3.example.org or http://127.0.0.1:9000")
	}
	return u, nil
}

// Open returns the bucket at a URL. It sends no request.
//
//   - file:///folder is a folder on this machine, which the first Put creates.
//   - s3://name/prefix?endpoint=URL&region=NAME is a bucket at any S3-compatible endpoint. The
//     default endpoint is Amazon's. Credentials come from AWS's environment variables or its
//     credentials file. At Amazon, they can also come from the machine's IAM role.
//   - gs://name/prefix is a bucket at Google Cloud Storage, with Google's application default
//     credentials.
//   - azblob://container/prefix is a container at Azure Blob Storage. Account and credentials come
//     from AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or
//     AZURE_STORAGE_SAS_TOKEN, or else from azidentity's default chain.
//
// The URLs of gs and azblob also accept an endpoint. These buckets send no tokens over plain HTTP.
func Open(text string) (Bucket, error) {
	p, err := parse(text)
	switch {
	case err != nil:
		return nil, err
	case p.open == nil:
		return &folder{root: p.prefix}, nil
	}
	return p.open(p)
}
