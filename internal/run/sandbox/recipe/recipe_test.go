//go:build linux

package recipe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/runfolder"
)

// box is a static program that sandboxes are made of.
var box = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tally-test-")
	if err != nil {
		return "", err
	}
	os.Chmod(dir, 0o755)
	file := filepath.Join(dir, "tallybox")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../testdata/tallybox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building tallybox: %w\n%s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if file, err := box(); err == nil {
		os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(status)
}

// tryOptions are for making images in a folder of the test's, in a class that works.
func tryOptions(t *testing.T, class sandbox.Class) Options {
	t.Helper()
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	t.Cleanup(func() { runfolder.RemoveTree(dir) })
	program, err := box()
	if err != nil {
		t.Fatal(err)
	}
	statuses, err := sandbox.Probe(context.Background(), program, filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statuses {
		if s.Class == class && !s.Works {
			t.Skipf("%s does not work here: %s", class, s.Reason)
		}
	}
	return Options{Executable: program, Cache: filepath.Join(dir, "images"), Accept: []sandbox.Class{class}, TempDir: filepath.Join(dir, "runs"), Log: testLog{t}}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func read(t *testing.T, text string, files map[string]string) *Recipe {
	t.Helper()
	r, err := tryRead(t, text, files)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryRead(t *testing.T, text string, files map[string]string) (*Recipe, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "recipe.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Read(file)
}

// debian fetches packages, or skips the test with the reason.
func debian(t *testing.T, names ...string) []Package {
	t.Helper()
	packages, err := Resolve(context.Background(), names)
	if err != nil {
		t.Skipf("packages cannot be fetched here: %v", err)
	}
	dir := t.TempDir()
	if _, err := apt(context.Background(), dir, "apt-get", "download", "-qq", "-o", "APT::Sandbox::User=", packages[0].Name+"="+packages[0].Version); err != nil {
		t.Skipf("packages cannot be fetched here: %v", err)
	}
	return packages
}

func packagesText(packages []Package) string {
	var b strings.Builder
	for _, p := range packages {
		fmt.Fprintf(&b, "      - {name: %q, version: %q, sha256: %q}\n", p.Name, p.Version, p.SHA256)
	}
	return b.String()
}

// merged has the links of a Debian system's root.
const merged = `
  - files:
      - {path: /bin, link: usr/bin}
      - {path: /sbin, link: usr/sbin}
      - {path: /lib, link: usr/lib}
      - {path: /lib64, link: usr/lib64}
      - {path: /usr/bin, folder: true}
      - {path: /usr/sbin, folder: true}
      - {path: /usr/lib, folder: true}
      - {path: /usr/lib64, folder: true}
`

// onlyBusybox is a shell and a few programs, of one package that needs no other one.
func onlyBusybox(t *testing.T) string {
	for _, p := range debian(t, "busybox-static") {
		if p.Name == "busybox-static" {
			return packagesText([]Package{p})
		}
	}
	t.Fatal("busybox-static is not among what it needs")
	return ""
}

// TestBuild: the same inputs give the same image, in both classes, on every run; what
// was run is known afterwards, and a changed input is another image.
func TestBuild(t *testing.T) {
	packages := onlyBusybox(t)
	text := "version: 1\nfrom: scratch\nsteps:" + merged + "  - packages:\n" + packages + `
  - run: ["/bin/busybox", "--install", "-s", "/usr/bin"]
  - files:
      - {path: /etc/motd, from: motd.txt}
      - {path: /usr/bin/hello, text: "#!/bin/sh\necho hello\n", executable: true}
      - {path: /opt/gone/a, text: "1"}
  - run: [sh, -c, 'hello > /opt/said; rm -r /opt/gone; mkdir /opt/new; ln -s ../etc /opt/new/etc; chmod 4755 /usr/bin/hello; mkfifo /opt/pipe; echo $SOURCE_DATE_EPOCH$WHO >> /opt/said; echo x > /tmp/left']
    env: {WHO: me}
`
	files := map[string]string{"motd.txt": "ours\n"}
	var digest string
	for _, class := range []sandbox.Class{sandbox.GVisor, sandbox.Namespace} {
		t.Run(string(class), func(t *testing.T) {
			o := tryOptions(t, class)
			got, err := Build(context.Background(), read(t, text, files), o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Ran != 2 || got.Image.About.Kind != image.Made || !got.Image.About.Pinned {
				t.Errorf("%+v %+v", got, got.Image.About)
			}
			for name, want := range map[string]string{"opt/said": "hello\n0me\n", "etc/motd": "ours\n"} {
				if b, err := os.ReadFile(filepath.Join(got.Image.Root(), name)); string(b) != want {
					t.Errorf("%s: %q %v", name, b, err)
				}
			}
			for _, name := range []string{"opt/gone", "opt/pipe", "tmp/left"} {
				if _, err := os.Lstat(filepath.Join(got.Image.Root(), name)); err == nil {
					t.Errorf("%s is in the image", name)
				}
			}
			if info, err := os.Stat(filepath.Join(got.Image.Root(), "usr/bin/hello")); err != nil || info.Mode() != 0o755 {
				t.Errorf("%v %v", info, err)
			}
			if digest == "" {
				digest = got.Image.Digest
			}
			if got.Image.Digest != digest {
				t.Errorf("made %s, in the other class %s", got.Image.Digest, digest)
			}
			if err := got.Image.Verify(); err != nil {
				t.Error(err)
			}
			again, err := Build(context.Background(), read(t, text, files), o)
			if err != nil || again.Ran != 0 || again.Image.Digest != got.Image.Digest {
				t.Errorf("again: %+v %v", again, err)
			}
			changed, err := Build(context.Background(), read(t, text, map[string]string{"motd.txt": "yours\n"}), o)
			if err != nil || changed.Ran != 1 || changed.Image.Digest == got.Image.Digest || changed.Recipe == got.Recipe {
				t.Errorf("with another file: %+v %v", changed, err)
			}
			// On top of another image.
			above, err := Build(context.Background(), read(t, "version: 1\nfrom: \""+got.Image.Digest+"\"\nsteps:\n  - run: [sh, -c, 'cat /etc/motd > /srv/copy']\n", nil), o)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(above.Image.Root(), "srv/copy")); string(b) != "ours\n" {
				t.Errorf("%q %v", b, err)
			}
		})
	}
}

// TestStepsThatAreRefused: a command that gives something else each time, fails, wants a
// network, or writes to what is not the image.
func TestStepsThatAreRefused(t *testing.T) {
	packages := onlyBusybox(t)
	o := tryOptions(t, sandbox.GVisor)
	head := "version: 1\nfrom: scratch\nsteps:" + merged + "  - packages:\n" + packages + "  - run: [\"/bin/busybox\", \"--install\", \"-s\", \"/usr/bin\"]\n"
	outside := filepath.Join(t.TempDir(), "canary")
	for _, c := range []struct{ name, step, want string }{
		{"the time", `sh, -c, 'date +%s%N > /opt/time'`, "two runs differ, first at /opt/time"},
		{"randomness", `sh, -c, 'head -c 8 /dev/urandom > /opt/x'`, "two runs differ"},
		{"a failure", `sh, -c, 'echo no such luck >&2; exit 3'`, "no such luck"},
		{"a network", `wget, -q, -O, /opt/x, "http://192.0.2.1/"`, "status 1"},
		{"a program that is not there", `/usr/bin/nothing`, "nothing"},
		{"the machine's files", `sh, -c, 'test -e ` + filepath.Dir(outside) + ` && exit 7; test -s /etc/shadow && exit 7; exit 5'`, "status 5"},
		{"names of whiteouts", `touch, /opt/.wh.x`, ".wh."},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Build(context.Background(), read(t, head+"  - run: ["+c.step+"]\n    seconds: 60\n", nil), o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	once := o
	once.Once = true
	got, err := Build(context.Background(), read(t, head+"  - run: [sh, -c, 'date +%s%N > /opt/time']\n", nil), once)
	if err != nil || got.Image.About.Pinned || got.Image.About.Kind != image.Loose {
		t.Errorf("once: %+v %v", got, err)
	}
	images, err := image.List(o.Cache)
	if err != nil || len(images) != 1 {
		t.Errorf("%d images were made, expected the loose one alone: %v", len(images), err)
	}
}

// TestPackagesThatAreRefused: what is fetched is compared with the recipe.
func TestPackagesThatAreRefused(t *testing.T) {
	o := tryOptions(t, sandbox.GVisor)
	o.Packages = t.TempDir()
	ours := []byte("!<arch>\nnot a package")
	if err := os.WriteFile(filepath.Join(o.Packages, "x_1_all.deb"), ours, 0o644); err != nil {
		t.Fatal(err)
	}
	digest, err := fileDigest(filepath.Join(o.Packages, "x_1_all.deb"))
	if err != nil {
		t.Fatal(err)
	}
	for sha, want := range map[string]refusal.Name{strings.Repeat("0", 64): refusal.NotFound, digest: refusal.Malformed} {
		_, err := Build(context.Background(), read(t, "version: 1\nfrom: scratch\nsteps:\n  - packages:\n      - {name: xx, version: \"1\", sha256: \""+sha+"\"}\n", nil), o)
		if !refusal.Is(err, want) {
			t.Errorf("%s: %v, want %s", sha, err, want)
		}
	}
}

func TestRecipesThatAreRefused(t *testing.T) {
	ok := strings.Repeat("0", 64)
	for name, c := range map[string]struct{ text, want string }{
		"another version":     {"version: 2\nfrom: scratch\nsteps: []\n", "this program knows 1"},
		"an image by its tag": {"version: 1\nfrom: debian:12\nsteps: []\n", "blake3"},
		"an unknown member":   {"version: 1\nfrom: scratch\nsteps: []\nnetwork: true\n", "network"},
		"two kinds":           {"version: 1\nfrom: scratch\nsteps:\n  - run: [a]\n    files: [{path: /a, text: x}]\n", "one of packages, files and run"},
		"a package by name":   {"version: 1\nfrom: scratch\nsteps:\n  - packages: [{name: redis, version: \"1\", sha256: \"\"}]\n", "64 hex digits"},
		"an option of apt":    {"version: 1\nfrom: scratch\nsteps:\n  - packages: [{name: -oAPT, version: \"1\", sha256: \"" + ok + "\"}]\n", "not one of Debian's"},
		"a version as option": {"version: 1\nfrom: scratch\nsteps:\n  - packages: [{name: redis, version: \"1 -o\", sha256: \"" + ok + "\"}]\n", "not one of Debian's"},
		"a path that leads":   {"version: 1\nfrom: scratch\nsteps:\n  - files: [{path: /a/../../b, text: x}]\n", "expected an absolute one"},
		"a file in /proc":     {"version: 1\nfrom: scratch\nsteps:\n  - files: [{path: /proc/x, text: x}]\n", "fills itself"},
		"a file from outside": {"version: 1\nfrom: scratch\nsteps:\n  - files: [{path: /a, from: ../../../../../etc/passwd}]\n", "escapes"},
		"a file by its root":  {"version: 1\nfrom: scratch\nsteps:\n  - files: [{path: /a, from: /etc/passwd}]\n", "escapes"},
		"too much time":       {"version: 1\nfrom: scratch\nsteps:\n  - run: [a]\n    seconds: 999999\n", "seconds"},
	} {
		_, err := tryRead(t, c.text, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// service runs a script in an image in gVisor, as a service, and gives what it
// printed.
func service(t *testing.T, i *image.Image, o Options, script string) string {
	t.Helper()
	r, err := sandbox.RunAgent(context.Background(), sandbox.AgentOptions{
		Accept: []sandbox.Class{sandbox.GVisor}, Image: i, Service: true, TempDir: o.TempDir, Executable: o.Executable, Dir: "/tmp",
		Command: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8"},
		Limits: sandbox.AgentLimits{Timeout: 2 * time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != sandbox.OK {
		t.Fatalf("%s, status %d: %s\n%s", r.Verdict, r.ExitCode, r.StderrHead, r.Stdout)
	}
	return string(r.Stdout)
}

// example is an image of nothing but packages: those that this machine's apt has
// now, and what they need.
func example(t *testing.T, names ...string) (*image.Image, Options) {
	t.Helper()
	o := tryOptions(t, sandbox.GVisor)
	packages := debian(t, names...)
	// What only scripts of packages need is not run here.
	packages = slices.DeleteFunc(packages, func(p Package) bool {
		return slices.Contains([]string{"debconf", "perl-base", "adduser", "passwd", "dpkg", "apt", "ucf", "tar", "lsb-base", "init-system-helpers", "login"}, p.Name)
	})
	text := "version: 1\nfrom: scratch\nsteps:" + merged + "  - packages:\n" + packagesText(packages)
	if o.Packages = os.Getenv("TALLYSTICK_TEST_PACKAGES"); o.Packages == "" {
		o.Packages = fetchTogether(t, packages)
	}
	got, err := Build(context.Background(), read(t, text, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	return got.Image, o
}

// fetchTogether fetches packages by one call of apt-get, which takes less time than one
// for each.
func fetchTogether(t *testing.T, packages []Package) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"download", "-qq", "-o", "APT::Sandbox::User="}
	for _, p := range packages {
		args = append(args, p.Name+"="+p.Version)
	}
	if _, err := apt(context.Background(), dir, "apt-get", args...); err != nil {
		t.Skipf("packages cannot be fetched here: %v", err)
	}
	return dir
}

func TestRedisAnswers(t *testing.T) {
	i, o := example(t, "redis-server", "redis-tools", "dash", "coreutils")
	got := service(t, i, o, `redis-server --port 6379 --bind 127.0.0.1 --save "" --daemonize yes --dir /tmp --logfile /tmp/log >/dev/null
for n in 1 2 3 4 5 6 7 8 9 10; do redis-cli ping >/dev/null 2>&1 && break; sleep 1; done
redis-cli set owner ann && redis-cli get owner`)
	if got != "OK\nann\n" {
		t.Errorf("redis answered %q", got)
	}
}

func TestPostgreSQLAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred packages")
	}
	i, o := example(t, "postgresql-15", "postgresql-client-15", "dash", "coreutils", "sed", "grep")
	got := service(t, i, o, `export PATH=$PATH:/usr/lib/postgresql/15/bin
initdb -D /tmp/db -A trust -U shop --no-sync >/tmp/init 2>&1 || { cat /tmp/init >&2; exit 1; }
pg_ctl -D /tmp/db -o "-k /tmp -F" -l /tmp/log -w start >/dev/null || { cat /tmp/log >&2; exit 1; }
psql -h 127.0.0.1 -U shop -d postgres -qAtc "create table orders (id int, refunded bool); insert into orders values (7, false); update orders set refunded = true where id = 7; select id, refunded from orders"
pg_ctl -D /tmp/db -m immediate stop >/dev/null`)
	if got != "7|t\n" {
		t.Errorf("PostgreSQL answered %q", got)
	}
}

// TestDocumentedRecipe: the one in the documentation is right.
func TestDocumentedRecipe(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "images.md"))
	if os.IsNotExist(err) {
		t.Skip("the documentation is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```yaml recipe\n")
	text, _, ended := strings.Cut(text, "```")
	if !ok || !ended {
		t.Fatal("docs/images.md has no recipe")
	}
	if r := read(t, text, map[string]string{"shop.conf": "x"}); len(r.Steps) != 4 {
		t.Errorf("%d steps, expected 4", len(r.Steps))
	}
}
