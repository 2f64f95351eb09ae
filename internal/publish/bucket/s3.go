package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 is a bucket at an S3-compatible endpoint. The tag of an object is its ETag.
type s3 struct {
	client *minio.Client
	bucket string
	prefix string
}

// amazon is the default endpoint.
const amazon = "https://s3.amazonaws.com"

func openS3(p place) (Bucket, error) {
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	endpoint := p.endpoint
	if endpoint == nil {
		endpoint, _ = url.Parse(amazon)
		providers = append(providers, &credentials.IAM{})
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:      credentials.NewChainCredentials(providers),
		Secure:     endpoint.Scheme == "https",
		Region:     p.region,
		MaxRetries: 1, // do not retry here, because the caller does
	})
	if err != nil {
		return nil, err
	}
	return &s3{client: client, bucket: p.bucket, prefix: p.prefix}, nil
}

func (b *s3) key(name string) string { return path.Join(b.prefix, name) }

// Get implements Bucket.
func (b *s3) Get(ctx context.Context, name string, limit int64) (body []byte, tag string, err error) {
	core := minio.Core{Client: b.client}
	object, info, _, err := core.GetObject(ctx, b.bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.explain(name, err)
	}
	defer object.Close()
	body, err = readObject(name, object, info.Size, limit)
	return body, info.ETag, err
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
		SendContentMd5: true, DisableMultipart: true, // use a single request, so that the condition applies to the whole object
	}
	switch {
	case condition.absent:
		options.SetMatchETagExcept("*")
	case condition.tag != "":
		options.SetMatchETag(condition.tag)
	}
	_, err := b.client.PutObject(ctx, b.bucket, b.key(name), bytes.NewReader(body), int64(len(body)), options)
	err = b.explain(name, err)
	if condition.tag != "" && errors.Is(err, ErrNotFound) { // some endpoints respond this way if the condition does not hold
		return fmt.Errorf("writing %s: %w", name, ErrPreconditionFailed)
	}
	return err
}

// explain converts a client error to an error of this package, and adds the object's name.
func (b *s3) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("requesting %s: %w", name, ErrNotFound)
	case answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("requesting %s: %w", name, ErrPreconditionFailed)
	case answer.StatusCode == http.StatusNotImplemented:
		return fmt.Errorf("requesting %s: %w: %w", name, ErrConditionsUnsupported, err)
	}
	return fmt.Errorf("requesting %s in bucket %s: %w", name, b.bucket, err)
}
