package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 is a bucket at an endpoint that speaks S3. The tag of an object is its ETag.
type s3 struct {
	client *minio.Client
	bucket string
	prefix string
}

// amazon is the endpoint without another.
const amazon = "https://s3.amazonaws.com"

// s3Place holds the parts of the URL of an S3 bucket.
type s3Place struct {
	bucket, prefix, region string
	endpoint               *url.URL
	custom                 bool // the URL names an endpoint
}

func s3Options(u *url.URL) (s3Place, error) {
	place := s3Place{bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	if place.bucket == "" {
		return place, errors.New("the URL has no bucket: write s3://bucket/prefix?endpoint=https://s3.example.org")
	}
	endpoint := amazon
	for name, values := range u.Query() {
		switch {
		case len(values) != 1:
			return place, fmt.Errorf("the parameter %q is given twice", name)
		case name == "endpoint":
			endpoint, place.custom = values[0], true
		case name == "region":
			place.region = values[0]
		default:
			return place, fmt.Errorf("the parameter %q is unknown; a bucket has endpoint and region", name)
		}
	}
	var err error
	place.endpoint, err = url.Parse(endpoint)
	if err != nil || place.endpoint.Scheme != "http" && place.endpoint.Scheme != "https" || place.endpoint.Host == "" ||
		strings.Trim(place.endpoint.Path, "/") != "" || place.endpoint.User != nil || place.endpoint.RawQuery != "" {
		return place, errors.New("the endpoint is not a URL of scheme and host, like https://s3.example.org or http://127.0.0.1:9000")
	}
	return place, nil
}

func openS3(u *url.URL) (Bucket, error) {
	place, err := s3Options(u)
	if err != nil {
		return nil, err
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if !place.custom {
		providers = append(providers, &credentials.IAM{})
	}
	client, err := minio.New(place.endpoint.Host, &minio.Options{
		Creds:      credentials.NewChainCredentials(providers),
		Secure:     place.endpoint.Scheme == "https",
		Region:     place.region,
		MaxRetries: 1, // the caller tries again
	})
	if err != nil {
		return nil, err
	}
	return &s3{client: client, bucket: place.bucket, prefix: place.prefix}, nil
}

func (b *s3) key(name string) string { return path.Join(b.prefix, name) }

// Get implements Bucket.
func (b *s3) Get(ctx context.Context, name string, most int64) (body []byte, tag string, err error) {
	core := minio.Core{Client: b.client}
	object, info, _, err := core.GetObject(ctx, b.bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.explain(name, err)
	}
	defer object.Close()
	body, err = io.ReadAll(io.LimitReader(object, most+1))
	switch {
	case err != nil:
		return nil, "", b.explain(name, err)
	case int64(len(body)) > most:
		return nil, "", fmt.Errorf("%s: %w", name, ErrTooLong)
	case int64(len(body)) != info.Size:
		return nil, "", fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
	}
	return body, info.ETag, nil
}

// Size implements Bucket.
func (b *s3) Size(ctx context.Context, name string) (int64, error) {
	info, err := b.client.StatObject(ctx, b.bucket, b.key(name), minio.StatObjectOptions{})
	return info.Size, b.explain(name, err)
}

// Put implements Bucket.
func (b *s3) Put(ctx context.Context, name string, body []byte, attributes Attributes, condition Condition) error {
	options := minio.PutObjectOptions{
		ContentType: attributes.ContentType, CacheControl: attributes.CacheControl,
		SendContentMd5: true, DisableMultipart: true, // one request, so that the condition applies to the whole object
	}
	switch {
	case condition.absent:
		options.SetMatchETagExcept("*")
	case condition.tag != "":
		options.SetMatchETag(condition.tag)
	}
	_, err := b.client.PutObject(ctx, b.bucket, b.key(name), bytes.NewReader(body), int64(len(body)), options)
	err = b.explain(name, err)
	if condition.tag != "" && errors.Is(err, ErrNotFound) { // some endpoints answer this way if the condition does not hold
		return fmt.Errorf("%s: %w", name, ErrPrecondition)
	}
	return err
}

// explain converts the client's errors to those of this package, and adds the object's name.
func (b *s3) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", name, ErrNotFound)
	case answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%s: %w", name, ErrPrecondition)
	case answer.StatusCode == http.StatusNotImplemented:
		return fmt.Errorf("%s: %w: %w", name, ErrUnsupported, err)
	}
	return fmt.Errorf("%s in bucket %s: %w", name, b.bucket, err)
}
