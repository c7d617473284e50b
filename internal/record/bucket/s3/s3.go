// Package s3 is the driver of package bucket for S3-compatible stores, on
// minio-go. Only cmd/tally-fleet links it: it is 4 MB and starts slowly.
package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"tallystick/internal/record/bucket"
)

// requestTimeout is for one request with its body: the largest object is 64 MB.
const requestTimeout = 2 * time.Minute

// Open returns the bucket at an address. Credentials come from the usual
// environment variables or the AWS credentials file. Nothing is asked yet.
func Open(a bucket.Address) (bucket.Bucket, error) { return open(a, requestTimeout) }

func open(a bucket.Address, timeout time.Duration) (bucket.Bucket, error) {
	endpoint, secure := "s3.amazonaws.com", true
	if a.Endpoint != "" {
		u, err := url.Parse(a.Endpoint)
		if err != nil {
			return nil, err
		}
		endpoint, secure = u.Host, u.Scheme == "https"
	}
	region := a.Region
	if region == "" {
		region = "us-east-1"
	}
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = timeout
	core, err := minio.NewCore(endpoint, &minio.Options{
		Creds:      credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}),
		Secure:     secure,
		Region:     region,
		Transport:  transport,
		MaxRetries: 1, // package bucket asks again, and knows what an answer means
	})
	if err != nil {
		return nil, err
	}
	prefix := a.Prefix
	if prefix != "" {
		prefix += "/"
	}
	return &driver{core: core, bucket: a.Bucket, prefix: prefix, timeout: timeout}, nil
}

type driver struct {
	core           *minio.Core
	bucket, prefix string
	timeout        time.Duration
}

// Get reads an object. A body that is shorter than was announced is an error of
// reading, never the object.
func (d *driver) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	body, info, _, err := d.core.GetObject(ctx, d.bucket, d.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, known(err)
	}
	defer body.Close()
	if info.Size > limit {
		return nil, bucket.ErrTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, known(err))
	case int64(len(data)) > limit:
		return nil, bucket.ErrTooLarge
	case info.Size >= 0 && int64(len(data)) != info.Size:
		return nil, fmt.Errorf("reading %s: %d bytes came of %d", name, len(data), info.Size)
	}
	return data, nil
}

// Create is a PUT with "If-None-Match: *".
func (d *driver) Create(ctx context.Context, name string, data []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	return d.put(ctx, name, data, o)
}

// Put stores an object.
func (d *driver) Put(ctx context.Context, name string, data []byte) error {
	return d.put(ctx, name, data, minio.PutObjectOptions{})
}

func (d *driver) put(ctx context.Context, name string, data []byte, o minio.PutObjectOptions) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	o.DisableMultipart, o.ContentType = true, "application/octet-stream"
	sum := md5.Sum(data) //nolint:gosec // what S3 checks a body with; nothing is trusted to it
	info, err := d.core.PutObject(ctx, d.bucket, d.prefix+name, bytes.NewReader(data), int64(len(data)), base64.StdEncoding.EncodeToString(sum[:]), "", o)
	if err != nil {
		return known(err)
	}
	// The ETag of a plain object is its MD5. Encrypted stores answer otherwise, and
	// so does one that stored other bytes: the object is read to tell.
	if strings.Trim(info.ETag, `"`) == hex.EncodeToString(sum[:]) {
		return nil
	}
	stored, err := d.Get(ctx, name, int64(len(data)))
	if err == nil && bytes.Equal(stored, data) {
		return nil
	}
	if err == nil {
		err = errors.New("the store holds other bytes than it was sent")
	}
	return fmt.Errorf("storing %s: %w", name, err)
}

// Delete removes an object.
func (d *driver) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := known(d.core.RemoveObject(ctx, d.bucket, d.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, bucket.ErrNotFound) {
		return nil
	}
	return err
}

// List lists objects, a thousand with each request.
func (d *driver) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Object, error] {
	o := minio.ListObjectsOptions{Prefix: d.prefix + prefix, Recursive: true}
	if after != "" {
		o.StartAfter = d.prefix + after
	}
	return func(yield func(bucket.Object, error) bool) {
		for info := range d.core.ListObjectsIter(ctx, d.bucket, o) {
			if info.Err != nil {
				yield(bucket.Object{}, known(info.Err))
				return
			}
			name, ours := strings.CutPrefix(info.Key, d.prefix)
			if ours && !yield(bucket.Object{Name: name, Size: info.Size}, nil) {
				return
			}
		}
	}
}

// known gives the errors that package bucket knows by name.
func known(err error) error {
	if err == nil {
		return nil
	}
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == "NoSuchKey":
		return bucket.ErrNotFound
	case r.Code == "NoSuchBucket":
		return fmt.Errorf("there is no bucket %q: make it first", r.BucketName)
	// A concurrent conditional write is answered 409 by AWS: try again.
	case r.StatusCode == http.StatusPreconditionFailed:
		return bucket.ErrExists
	}
	return err
}
