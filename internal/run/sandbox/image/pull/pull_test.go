//go:build linux

package pull

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/image"
)

// A registry is one on loopback that speaks the distribution protocol, gives tokens for
// a user and a secret, and can be told to misbehave.
type registry struct {
	*httptest.Server
	mu     sync.Mutex
	blobs  map[string][]byte // by digest
	tags   map[string]string
	types  map[string]string
	asked  []string            // method, path and range
	faults map[string][]string // path suffix to what goes wrong, once each
	secret string              // that tokens are given for; "" if all may read
}

func newRegistry(t *testing.T) *registry {
	r := &registry{blobs: map[string][]byte{}, tags: map[string]string{}, types: map[string]string{}, faults: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *registry) host() string { return strings.TrimPrefix(r.URL, "http://") }

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func (r *registry) put(b []byte) image.OCIDescriptor {
	d := digestOf(b)
	r.blobs[d] = b
	return image.OCIDescriptor{Digest: d, Size: int64(len(b))}
}

func (r *registry) layer(files map[string]string) (image.OCIDescriptor, string) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))})
		w.Write([]byte(text))
	}
	w.Close()
	d := r.put(b.Bytes())
	d.MediaType = "application/vnd.oci.image.layer.v1.tar"
	return d, d.Digest
}

// image makes one and gives its manifest.
func (r *registry) image(arch string, layers ...map[string]string) image.OCIDescriptor {
	var ds []image.OCIDescriptor
	var diffs []string
	for _, files := range layers {
		d, diff := r.layer(files)
		ds, diffs = append(ds, d), append(diffs, diff)
	}
	config, _ := json.Marshal(map[string]any{"os": "linux", "architecture": arch, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs}})
	c := r.put(config)
	c.MediaType = "application/vnd.oci.image.config.v1+json"
	m, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": c, "layers": ds})
	d := r.put(m)
	d.MediaType = "application/vnd.oci.image.manifest.v1+json"
	d.Platform = &image.OCIPlatform{OS: "linux", Architecture: arch}
	r.types[d.Digest] = d.MediaType
	return d
}

func (r *registry) fault(path string) string {
	for suffix, left := range r.faults {
		if strings.HasSuffix(path, suffix) && len(left) > 0 {
			r.faults[suffix] = left[1:]
			return left[0]
		}
	}
	return ""
}

func (r *registry) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, strings.TrimSpace(req.URL.Path+" "+req.Header.Get("Range")))
	if req.URL.Path == "/token" {
		user, pass, _ := req.BasicAuth()
		if user+":"+pass != r.secret || req.URL.Query().Get("scope") != "repository:team/tool:pull" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"token":"open"}`)
		return
	}
	if r.secret != "" && req.Header.Get("Authorization") != "Bearer open" {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="ours",scope="repository:team/tool:pull"`, r.URL))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	what := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	if d := r.tags[what]; d != "" {
		what = d
	}
	b, ok := r.blobs[what]
	switch fault := r.fault(req.URL.Path); {
	case fault == "500":
		w.WriteHeader(http.StatusInternalServerError)
		return
	case strings.HasPrefix(fault, "to "):
		http.Redirect(w, req, strings.TrimPrefix(fault, "to "), http.StatusTemporaryRedirect)
		return
	case fault == "cut":
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b[:len(b)/2])
		panic(http.ErrAbortHandler)
	case fault == "other":
		b = bytes.Repeat([]byte{1}, len(b))
	case fault == "more":
		b = append(bytes.Clone(b), b...)
	case fault == "wrong range":
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(b)-1, len(b)))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(b)
		return
	}
	switch {
	case req.URL.Path == "/v2/":
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case strings.Contains(req.URL.Path, "/manifests/"):
		w.Header().Set("Content-Type", r.types[what])
		w.Write(b)
	default:
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(b))
	}
}

func (r *registry) count(part string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		if strings.Contains(a, part) {
			n++
		}
	}
	return n
}

func (r *registry) options(t *testing.T, ref string) Options {
	return Options{Cache: filepath.Join(t.TempDir(), "images"), Ref: r.host() + "/team/tool" + ref, Platform: image.ThisPlatform(),
		Credentials: Credentials{Config: filepath.Join(t.TempDir(), "none.json")}}
}

func big(text string) string { return strings.Repeat(text, 40_000) }

func TestPull(t *testing.T) {
	r := newRegistry(t)
	m := r.image(runtime.GOARCH, map[string]string{"bin/a": big("a"), "x": "1"}, map[string]string{"x": "2"})
	r.tags["v1"] = m.Digest
	o := r.options(t, ":v1")
	got, err := Pull(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != r.host()+"/team/tool@"+m.Digest || got.Image.About.Source != m.Digest || got.Image.About.Kind != image.OCI || !got.Image.About.Pinned {
		t.Errorf("%+v %+v", got, got.Image.About)
	}
	if b, err := os.ReadFile(filepath.Join(got.Image.Root(), "x")); string(b) != "2" {
		t.Errorf("%q %v", b, err)
	}
	if err := got.Image.Verify(); err != nil {
		t.Error(err)
	}
	// By its digest it is the same, and nothing comes again.
	o.Ref = got.Name
	again, err := Pull(context.Background(), o)
	if err != nil || again.Image.Digest != got.Image.Digest || again.Fetched != 0 || r.count("/blobs/") != 3 {
		t.Errorf("%+v %v, %d blobs were asked for", again, err, r.count("/blobs/"))
	}
	// An image that shares a layer fetches what it has for itself.
	n := r.image(runtime.GOARCH, map[string]string{"x": "2"}, map[string]string{"y": "3"})
	o.Ref = r.host() + "/team/tool@" + n.Digest
	if _, err := Pull(context.Background(), o); err != nil || r.count("/blobs/") != 5 {
		t.Errorf("%v, %d blobs were asked for, expected 5", err, r.count("/blobs/"))
	}
	// The same image by another way is the same image.
	if i, err := image.ImportOCI(filepath.Join(t.TempDir(), "images"), filepath.Join(o.Cache, "oci"), m.Digest, ""); err != nil || i.Digest != got.Image.Digest {
		t.Errorf("imported %v %v, pulled %s", i, err, got.Image.Digest)
	}
}

func TestPullChoosesThePlatform(t *testing.T) {
	r := newRegistry(t)
	here, there := r.image(runtime.GOARCH, map[string]string{"arch": "here"}), r.image("riscv64", map[string]string{"arch": "there"})
	attest := r.image("unknown", map[string]string{"arch": "a signature"})
	attest.Platform.OS = "unknown"
	index, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []image.OCIDescriptor{attest, there, here}})
	d := r.put(index)
	r.tags["latest"], r.types[d.Digest] = d.Digest, "application/vnd.oci.image.index.v1+json"
	for platform, want := range map[string]image.OCIDescriptor{"": here, "linux/riscv64": there} {
		o := r.options(t, "")
		o.Platform, _ = image.ParsePlatform(platform)
		got, err := Pull(context.Background(), o)
		if err != nil || got.Image.About.Source != want.Digest {
			t.Errorf("%s: %+v %v", platform, got, err)
		}
	}
	o := r.options(t, "@"+d.Digest)
	o.Platform, _ = image.ParsePlatform("linux/s390x")
	if _, err := Pull(context.Background(), o); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("another platform: %v", err)
	}
	// A tag that leads to an image of another machine is refused, though no index says so.
	r.tags["foreign"] = there.Digest
	if _, err := Pull(context.Background(), r.options(t, ":foreign")); !refusal.Is(err, refusal.Usage) {
		t.Errorf("an image for another platform: %v", err)
	}
}

func TestPullWithCredentials(t *testing.T) {
	r := newRegistry(t)
	m := r.image(runtime.GOARCH, map[string]string{"a": "1"})
	r.tags["latest"], r.secret = m.Digest, "ann:pa55word"
	config := func(text string) string {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "HOST", r.host())), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	basic := base64.StdEncoding.EncodeToString([]byte("ann:pa55word"))
	bin := t.TempDir()
	ran := filepath.Join(bin, "ran")
	script := "#!/bin/sh\nread host\necho \"$host\" > " + ran + "\nprintf '{\"Username\":\"ann\",\"Secret\":\"pa55word\"}'\n"
	if err := os.WriteFile(filepath.Join(bin, "docker-credential-ours"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name, config string
		helpers      bool
		want         string // "" for opened, else a part of the error and its hint
	}{
		{"none", `{}`, false, "docker login"},
		{"auth", `{"auths":{"HOST":{"auth":"` + basic + `"}}}`, false, ""},
		{"user and password", `{"auths":{"https://HOST":{"username":"ann","password":"pa55word"}}}`, false, ""},
		{"another registry's", `{"auths":{"registry.example":{"auth":"` + basic + `"}}}`, false, "docker login"},
		{"wrong", `{"auths":{"HOST":{"username":"ann","password":"s3cret-but-wrong"}}}`, false, "did not open it"},
		{"a helper that was not allowed", `{"credHelpers":{"HOST":"ours"}}`, false, "docker-credential-ours, which was not run"},
		{"a store that was not allowed", `{"credsStore":"ours"}`, false, "docker-credential-ours, which was not run"},
		{"a helper", `{"credHelpers":{"HOST":"ours"}}`, true, ""},
		{"a store", `{"credsStore":"ours"}`, true, ""},
		{"a helper that is a path", `{"credHelpers":{"HOST":"../../evil"}}`, true, "expected a name"},
		{"a file that is not JSON", `{"auths":{"HOST":{"password":"s3cret-but-wrong"`, false, "docker login writes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.Remove(ran)
			o := r.options(t, "")
			o.Credentials = Credentials{Config: config(c.config), Helpers: c.helpers}
			_, err := Pull(context.Background(), o)
			if _, ranErr := os.Stat(ran); ranErr == nil && !c.helpers {
				t.Error("the helper was run")
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("it was opened")
			}
			said := err.Error() + " " + refusal.Of(err).Hint
			if !strings.Contains(said, c.want) || strings.Contains(said, "s3cret") {
				t.Errorf("got %s, want %s", said, c.want)
			}
		})
	}
}

// TestPullContinues: what has come stays, and the rest is asked for.
func TestPullContinues(t *testing.T) {
	r := newRegistry(t)
	m := r.image(runtime.GOARCH, map[string]string{"a": big("abc")})
	r.tags["latest"] = m.Digest
	var layer string
	for d, b := range r.blobs {
		if len(b) > 100_000 {
			layer = d
		}
	}
	r.faults[layer] = []string{"cut", "500", "cut"}
	o := r.options(t, "")
	got, err := Pull(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.count(layer + " bytes="); n < 2 {
		t.Errorf("the rest was asked for %d times: %q", n, r.asked)
	}
	if got.Fetched > int64(len(r.blobs[layer]))+10_000 {
		t.Errorf("%d bytes were fetched for %d", got.Fetched, len(r.blobs[layer]))
	}
	// A program that was ended continues as well, and what lies there wrong is found.
	for name, part := range map[string][]byte{"right": r.blobs[layer][:1000], "wrong": bytes.Repeat([]byte{7}, 1000), "too long": bytes.Repeat([]byte{7}, len(r.blobs[layer])+9)} {
		o := r.options(t, "")
		dir := filepath.Join(o.Cache, "oci/blobs/sha256")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, strings.TrimPrefix(layer, "sha256:")+".part"), part, 0o644); err != nil {
			t.Fatal(err)
		}
		again, err := Pull(context.Background(), o)
		if err != nil || again.Image.Digest != got.Image.Digest {
			t.Errorf("%s: %v %v", name, again, err)
		}
	}
	// A blob of the store that was changed is fetched again.
	if err := os.WriteFile(filepath.Join(o.Cache, "oci/blobs/sha256", strings.TrimPrefix(layer, "sha256:")), bytes.Repeat([]byte{7}, len(r.blobs[layer])), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := Pull(context.Background(), o); err != nil || again.Fetched != int64(len(r.blobs[layer])) {
		t.Errorf("%v %v", again, err)
	}
}

// TestPullRefuses: a registry that lies, or leads elsewhere.
func TestPullRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(r *registry, manifest, layer string)
		ref   func(manifest string) string
		want  refusal.Name
	}{
		{"another layer", func(r *registry, _, layer string) { r.faults[layer] = []string{"other"} }, nil, refusal.DigestMismatch},
		{"a longer layer", func(r *registry, _, layer string) { r.faults[layer] = []string{"more"} }, nil, refusal.DigestMismatch},
		{"a rest that is not the rest", func(r *registry, _, layer string) { r.faults[layer] = []string{"cut", "wrong range"} }, nil, refusal.Malformed},
		{"another manifest than was asked for", func(r *registry, m, _ string) { r.faults[m] = []string{"other"} }, func(m string) string { return "@" + m }, refusal.DigestMismatch},
		{"a longer manifest", func(r *registry, m, _ string) { r.faults[m] = []string{"more"} }, func(m string) string { return "@" + m }, refusal.DigestMismatch},
		{"a layer that is not there", func(r *registry, _, layer string) { delete(r.blobs, layer) }, nil, refusal.NotFound},
		{"a tag that is not there", func(r *registry, _, _ string) {}, func(string) string { return ":none" }, refusal.NotFound},
		{"a blob elsewhere without TLS", func(r *registry, _, layer string) { r.faults[layer] = []string{"to http://registry.example/blob"} }, nil, refusal.Failed},
		{"a blob in a file", func(r *registry, _, layer string) { r.faults[layer] = []string{"to file:///etc/passwd"} }, nil, refusal.Failed},
		{"a digest with a path in it", func(r *registry, _, _ string) {}, func(string) string { return "@sha256:../../x" }, refusal.Usage},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegistry(t)
			m := r.image(runtime.GOARCH, map[string]string{"a": big("abc")})
			r.tags["latest"] = m.Digest
			var layer string
			for d, b := range r.blobs {
				if len(b) > 100_000 {
					layer = d
				}
			}
			c.spoil(r, m.Digest, layer)
			ref := ""
			if c.ref != nil {
				ref = c.ref(m.Digest)
			}
			o := r.options(t, ref)
			_, err := Pull(context.Background(), o)
			if !refusal.Is(err, c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if images, _ := image.List(o.Cache); len(images) > 0 {
				t.Errorf("an image was made: %v", images[0].Digest)
			}
		})
	}
}

// TestGuard: where a registry may lead.
func TestGuard(t *testing.T) {
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	defer here.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	defer secure.Close()
	for _, c := range []struct{ registry, url, want string }{
		{"127.0.0.1:5000", here.URL, ""},
		{"localhost:5000", here.URL, ""},
		{"registry.example", here.URL, "without TLS"},
		{"registry.example", secure.URL, "leads to 127.0.0.1"},
		{"registry.example", strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), "on this machine"},
		{"127.0.0.1.example", here.URL, "without TLS"},
		{"127.0.0.1:5000", "ftp://127.0.0.1/", "the scheme"},
		{"127.0.0.1:5000", "http://registry.example/", "without TLS"},
		{"10.0.0.1:5000", "http://10.0.0.1:5000/", "without TLS"},
	} {
		req, err := http.NewRequest(http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := newGuard(c.registry).RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s to %s: %v, want %q", c.registry, c.url, err, c.want)
		}
	}
}
