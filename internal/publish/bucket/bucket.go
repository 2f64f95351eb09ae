// Package bucket stores objects under names: in a folder, or at an endpoint that speaks S3.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Errors that callers distinguish. After any other error of Put, it is unknown whether the
// object was written.
var (
	// ErrNotFound means that there is no object with that name.
	ErrNotFound = errors.New("there is no such object")
	// ErrPrecondition means that the condition of a Put does not hold. Nothing was written.
	ErrPrecondition = errors.New("the object has changed")
	// ErrUnsupported means that the endpoint has refused a Put because it does not support
	// conditions. Nothing was written.
	ErrUnsupported = errors.New("the endpoint does not support conditional writes")
	// ErrTooLong means that the object is longer than the caller allows.
	ErrTooLong = errors.New("the object is too long")
)

// Bucket stores objects. Names have elements separated by slashes. Its methods are safe for
// concurrent use.
type Bucket interface {
	// Get returns an object and its tag, which changes with the bytes. It returns ErrNotFound,
	// and ErrTooLong for an object of more than most bytes.
	Get(ctx context.Context, name string, most int64) (body []byte, tag string, err error)
	// Size returns the length of an object in bytes, or ErrNotFound.
	Size(ctx context.Context, name string) (int64, error)
	// Put writes an object if a condition holds. When it returns nil, the object is durable.
	Put(ctx context.Context, name string, body []byte, attributes Attributes, condition Condition) error
}

// Attributes are the headers that a bucket sends with an object when it serves it over HTTP.
type Attributes struct{ ContentType, CacheControl string }

// Condition is a condition of a Put. The zero Condition always holds.
type Condition struct {
	absent bool
	tag    string
}

// IfAbsent holds if there is no object with that name.
func IfAbsent() Condition { return Condition{absent: true} }

// IfTag holds if the object has that tag. The empty tag means IfAbsent.
func IfTag(tag string) Condition { return Condition{absent: tag == "", tag: tag} }

// Holds reports whether the condition holds for an object with that tag. An empty tag means
// that there is no object.
func (c Condition) Holds(tag string) bool {
	return c == Condition{} || c.absent && tag == "" || !c.absent && c.tag == tag
}

// Check says what is wrong with the URL of a bucket, and what to write.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// IsURL reports whether a URL has one of the schemes of buckets.
func IsURL(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	return found && (scheme == "file" || scheme == "s3")
}

func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is not a URL like file:///srv/copy or s3://bucket/prefix?endpoint=https://s3.example.org")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("a URL must not have credentials; put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or into the file ~/.aws/credentials")
	case u.Fragment != "":
		return nil, errors.New("a URL of a bucket has no fragment (#…)")
	case u.Scheme == "file" && (u.Host != "" || !filepath.IsAbs(filepath.FromSlash(u.Path)) || u.RawQuery != ""):
		return nil, errors.New("the URL of a folder has three slashes and an absolute path, like file:///srv/copy")
	case u.Scheme == "s3":
		_, err := s3Options(u)
		return u, err
	case u.Scheme != "file":
		return nil, fmt.Errorf("%q is not a scheme for a bucket; write file:///folder or s3://bucket/prefix?endpoint=URL", u.Scheme)
	}
	return u, nil
}

// Open returns the bucket at a URL. It sends nothing.
//
//   - file:///folder is a folder on this machine, which the first Put creates.
//   - s3://name/prefix?endpoint=URL&region=NAME is a bucket at any endpoint that speaks S3; the
//     default endpoint is Amazon's. Credentials come from the usual environment variables, the
//     usual file, or, at Amazon, the machine's role.
func Open(text string) (Bucket, error) {
	u, err := parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return &folder{root: filepath.FromSlash(u.Path)}, nil
	}
	return openS3(u)
}
