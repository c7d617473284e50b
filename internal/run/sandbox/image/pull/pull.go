// Package pull fetches an OCI image from a registry, without a daemon.
//
// What a reference names is followed to one manifest, by its tag or its digest; every
// blob is compared with the digest and the size that the manifest says before any of
// it is used, so that a registry, a cache before it or a person in between can refuse
// an image and never change it. What is fetched lies in the image cache's store: a
// fetch that was cut off is continued, and layers that several images have come once.
//
// References, challenges and tokens are the business of go-containerregistry; blobs
// are fetched here, because that library neither resumes nor bounds them.
package pull

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/image"
)

// Bounds on one image as it is sent.
const (
	maxManifest  = 4 << 20
	maxImage     = 32 << 30
	maxTries     = 5
	parallel     = 3
	idleTimeout  = time.Minute
	helpersLimit = 30 * time.Second
)

// Options say what to fetch.
type Options struct {
	Cache    string
	Ref      string // NAME[:TAG][@sha256:DIGEST], as docker pull has it
	Platform image.OCIPlatform
	Python   string // as in image.OCIRequest

	Credentials Credentials
}

// A Result is what was fetched.
type Result struct {
	Name     string // with the digest of the manifest: it names the same image for ever
	Fetched  int64  // bytes that came now; the rest was there
	Platform image.OCIPlatform
	Image    *image.Image
}

// Pull fetches an image and unpacks it.
func Pull(ctx context.Context, o Options) (*Result, error) {
	ref, err := parse(o.Ref)
	if err != nil {
		return nil, err
	}
	store, err := image.OpenStore(o.Cache)
	if err != nil {
		return nil, err
	}
	f, err := connect(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	f.store = store
	digest, m, err := f.manifest(ctx, ref, o.Platform)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", plain.Line(o.Ref), err)
	}
	if err := f.blobs(ctx, m); err != nil {
		return nil, fmt.Errorf("image %s: %w", plain.Line(o.Ref), err)
	}
	i, err := store.Unpack(o.Cache, image.OCIRequest{Digest: digest, Python: o.Python, Platform: o.Platform})
	if err != nil {
		return nil, err
	}
	return &Result{Name: f.repo.Name() + "@" + digest, Fetched: f.fetched, Platform: o.Platform, Image: i}, nil
}

// A reference is a name with a tag, a digest, or both; then the digest counts.
type reference struct {
	repo   name.Repository
	what   string // tag or digest, as the protocol asks for it
	digest string // that what comes must have; "" if any
}

func parse(text string) (reference, error) {
	ref, err := name.ParseReference(text)
	if err != nil {
		return reference{}, refusal.Newf(refusal.Usage, "image %.200q: %w", text, err).WithHint("a reference is NAME, NAME:TAG or NAME@sha256:DIGEST, such as python:3.13-slim or registry.example/owner/image@sha256:...")
	}
	r := reference{repo: ref.Context(), what: ref.Identifier()}
	if _, ok := ref.(name.Digest); ok {
		r.digest = r.what
		if err := image.CheckDigest(r.digest); err != nil {
			return r, err
		}
	}
	return r, nil
}

// A fetch is one image on its way.
type fetch struct {
	repo   name.Repository
	scheme string
	client *http.Client
	store  *image.Store
	hint   string // what a person may do if the registry says no

	mu      sync.Mutex
	fetched int64
}

func connect(ctx context.Context, ref reference, o Options) (*fetch, error) {
	registry := ref.repo.Registry
	guard := newGuard(registry.RegistryStr())
	auth, hint, err := o.Credentials.find(ctx, registry.RegistryStr())
	if err != nil {
		return nil, err
	}
	f := &fetch{repo: ref.repo, hint: hint, scheme: "https"}
	t, err := transport.NewWithContext(ctx, registry, auth, guard, []string{ref.repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, f.refuse(fmt.Errorf("asking the registry %s: %w", registry, err), statusOf(err))
	}
	f.client = &http.Client{Transport: t}
	if guard.usedPlain() {
		f.scheme = "http"
	}
	return f, nil
}

func statusOf(err error) int {
	var e *transport.Error
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}

// refuse names what a registry that does not answer, or says no, amounts to.
func (f *fetch) refuse(err error, status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return refusal.Newf(refusal.Failed, "%w", err).WithHint("%s", f.hint)
	case http.StatusNotFound:
		return refusal.Newf(refusal.NotFound, "%w", err)
	}
	return refusal.Newf(refusal.Failed, "%w", err).WithHint("what was fetched is kept; run this again and it continues")
}

// accepted are the manifests that are understood.
var accepted = strings.Join([]string{
	"application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json",
}, ", ")

// get asks for something of the repository.
func (f *fetch) get(ctx context.Context, path string, head http.Header) (*http.Response, error) {
	url := fmt.Sprintf("%s://%s/v2/%s/%s", f.scheme, f.repo.RegistryStr(), f.repo.RepositoryStr(), path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for k, v := range head {
		req.Header[k] = v
	}
	return f.client.Do(req)
}

// manifest follows the reference to the manifest for the platform.
func (f *fetch) manifest(ctx context.Context, ref reference, wanted image.OCIPlatform) (string, *image.OCIManifest, error) {
	what, want, size := ref.what, ref.digest, int64(-1)
	for range 3 {
		b, err := f.document(ctx, what, want, size)
		if err != nil {
			return "", nil, err
		}
		digest, err := f.store.Put(b)
		if err != nil {
			return "", nil, err
		}
		m, err := image.ParseManifest(digest, b)
		if err != nil {
			return "", nil, err
		}
		if len(m.Layers) > 0 {
			return digest, m, nil
		}
		if len(m.Manifests) == 0 {
			return "", nil, refusal.Newf(refusal.Malformed, "%s has no layers and no manifests (media type %.100q)", digest, m.MediaType).
				WithHint("manifests of schema 1 and artifacts that are not images are not read")
		}
		next, err := m.Pick(digest, wanted)
		if err != nil {
			return "", nil, err
		}
		if err := image.CheckDigest(next.Digest); err != nil {
			return "", nil, err
		}
		what, want, size = next.Digest, next.Digest, next.Size
	}
	return "", nil, refusal.Newf(refusal.Malformed, "%s: index within index within index", ref.what)
}

// document fetches a manifest, and compares it with the digest if one is wanted.
func (f *fetch) document(ctx context.Context, what, want string, size int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, idleTimeout)
	defer cancel()
	resp, err := f.get(ctx, "manifests/"+what, http.Header{"Accept": {accepted}})
	if err != nil {
		return nil, f.refuse(fmt.Errorf("fetching its manifest: %w", err), statusOf(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, f.refuse(fmt.Errorf("fetching its manifest %s: the registry says %s", plain.Line(what), plain.Line(resp.Status)), resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, f.refuse(fmt.Errorf("fetching its manifest: %w", err), 0)
	}
	if len(b) > maxManifest {
		return nil, refusal.Newf(refusal.TooLarge, "its manifest has over %d bytes", maxManifest)
	}
	sum := sha256.Sum256(b)
	switch got := "sha256:" + hex.EncodeToString(sum[:]); {
	case want != "" && got != want:
		return nil, refusal.Newf(refusal.DigestMismatch, "its manifest has the digest %s, expected %s", got, want).
			WithHint("the registry, or what stands before it, sent another manifest than was asked for")
	case size >= 0 && int64(len(b)) != size:
		return nil, refusal.Newf(refusal.DigestMismatch, "its manifest has %d bytes, the index says %d", len(b), size)
	}
	return b, nil
}

// blobs fetches what a manifest names and the store does not have.
func (f *fetch) blobs(ctx context.Context, m *image.OCIManifest) error {
	wanted := m.Layers
	if m.Config != nil {
		if err := image.CheckDigest(m.Config.Digest); err != nil {
			return err
		}
		if m.Config.Size > maxManifest {
			return refusal.Newf(refusal.TooLarge, "its configuration has %d bytes, expected at most %d", m.Config.Size, maxManifest)
		}
		wanted = append([]image.OCIDescriptor{*m.Config}, wanted...)
	}
	unique, total := map[string]image.OCIDescriptor{}, int64(0)
	for _, d := range wanted {
		if was, twice := unique[d.Digest]; twice && was.Size != d.Size {
			return refusal.Newf(refusal.Malformed, "its manifest gives %s two sizes", d.Digest)
		} else if !twice {
			total += d.Size
		}
		unique[d.Digest] = d
	}
	if total > maxImage {
		return refusal.Newf(refusal.TooLarge, "its layers have %d bytes, expected at most %d", total, int64(maxImage))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, d := range unique {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := f.blob(ctx, d); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// blob fetches one blob, from where an earlier fetch stopped.
func (f *fetch) blob(ctx context.Context, d image.OCIDescriptor) error {
	if ctx.Err() != nil || f.store.Has(d.Digest, d.Size) {
		return nil
	}
	part, err := f.store.Begin(d.Digest, d.Size)
	if err != nil {
		return err
	}
	defer part.Close()
	began, pause := part.Offset, 200*time.Millisecond
	for try := 1; part.Offset < d.Size || d.Size == 0 && try == 1; try++ {
		before := part.Offset
		again, err := f.more(ctx, d, part)
		f.count(part.Offset - before)
		if err == nil {
			break
		}
		if !again || try == maxTries || ctx.Err() != nil {
			return cmp.Or(contextError(ctx), err)
		}
		if part.Offset > before {
			try = 0 // it moves
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause *= 2
	}
	err = part.Finish()
	if err != nil && began > 0 && part.Offset == d.Size && ctx.Err() == nil {
		// What lay there from before was wrong: once more from the beginning.
		part.Close()
		return f.blob(ctx, d)
	}
	return err
}

func contextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

func (f *fetch) count(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fetched += max(n, 0)
}

// more asks for the rest of a blob. again says that a failure may pass.
func (f *fetch) more(ctx context.Context, d image.OCIDescriptor, part *image.Part) (again bool, err error) {
	ctx, idle := newIdle(ctx)
	defer idle.stop()
	head := http.Header{"Accept-Encoding": {"identity"}}
	if part.Offset > 0 {
		head.Set("Range", fmt.Sprintf("bytes=%d-%d", part.Offset, d.Size-1))
	}
	resp, err := f.get(ctx, "blobs/"+d.Digest, head)
	if err != nil {
		return !errors.As(err, new(*guardError)), f.refuse(fmt.Errorf("fetching %s: %w", d.Digest, cmp.Or(contextError(ctx), err)), statusOf(err))
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		if err := part.Restart(); err != nil {
			return false, err
		}
	case http.StatusPartialContent:
		if want := fmt.Sprintf("bytes %d-", part.Offset); !strings.HasPrefix(resp.Header.Get("Content-Range"), want) {
			return false, refusal.Newf(refusal.Malformed, "fetching %s: the registry sent %.80q, expected %s%d/%d", d.Digest, resp.Header.Get("Content-Range"), want, d.Size-1, d.Size)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		err := part.Restart()
		return err == nil, cmp.Or(err, fmt.Errorf("fetching %s: the registry says %s", d.Digest, plain.Line(resp.Status)))
	default:
		passing := resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
		return passing, f.refuse(fmt.Errorf("fetching %s: the registry says %s", d.Digest, plain.Line(resp.Status)), resp.StatusCode)
	}
	if err := part.Take(idle.watch(resp.Body)); err != nil {
		return true, f.refuse(fmt.Errorf("fetching %s: %w", d.Digest, cmp.Or(contextError(ctx), err)), 0)
	}
	if part.Offset < d.Size {
		return true, f.refuse(fmt.Errorf("fetching %s: the registry sent %d bytes of %d", d.Digest, part.Offset, d.Size), 0)
	}
	return false, nil
}

// An idle ends a request of which nothing comes any more.
type idle struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newIdle(ctx context.Context) (context.Context, *idle) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := &idle{cancel: cancel}
	i.timer = time.AfterFunc(idleTimeout, func() { cancel(fmt.Errorf("nothing came for %v", idleTimeout)) })
	return ctx, i
}

func (i *idle) stop() {
	i.timer.Stop()
	i.cancel(nil)
}

func (i *idle) watch(r io.Reader) io.Reader { return &watched{r, i.timer} }

type watched struct {
	r     io.Reader
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.timer.Reset(idleTimeout)
	return n, err
}
