package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// The pinned upstream source of the Python that rubrics run on. Debian carries
// the same bytes as python3.13_3.13.5.orig.tar.xz.
const (
	cpythonVersion = "3.13.5"
	cpythonSHA256  = "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640"
	cpythonURL     = "https://www.python.org/ftp/python/3.13.5/Python-3.13.5.tar.xz"
	debianSource   = "python3.13"
	debianRelease  = "trixie"
)

// cpythonMain replaces CPython's own main, and cpythonLib compiles its library.
var (
	//go:embed cpython/main.c
	cpythonMain []byte
	//go:embed cpython/mklib.py
	cpythonLib []byte
)

// leftOutModules are C modules that a rubric must not have, or that need a
// library which is not there: no sockets, no ctypes, no way to start a
// process exist in the image.
var leftOutModules = []string{
	"_ctypes", "_ctypes_test", "_socket", "_posixsubprocess", "_tkinter", "_curses", "_curses_panel", "_dbm", "_gdbm",
	"_sqlite3", "_ssl", "_hashlib", "_uuid", "_bz2", "_lzma", "zlib", "readline", "_multiprocessing", "_posixshmem",
	"syslog", "resource", "nis", "spwd", "_crypt", "ossaudiodev", "fcntl", "termios", "grp", "pwd", "mmap", "select",
}

// builtDigests are the images that the recipe is known to give, with what it was
// compiled with. An image is built if its digest is one of these, whatever it says
// of itself. A change of the recipe makes new ones; a test notices.
var builtDigests = map[string]string{
	"blake3:58f274de7bccfd0fd435383bce2452c31a28368bfead58b46053796ed42773f7": "gcc 12.2.0 with musl 1.2.3, amd64 (Debian 12)",
}

// recipeDigest is SHA-256 of everything in this program that decides what the
// recipe gives.
func recipeDigest() string {
	h := sha256.New()
	for _, part := range []string{cpythonSHA256, string(cpythonMain), string(cpythonLib), compilerWrapper, strings.Join(leftOutModules, " "), strings.Join(configureFlags, " "), strings.Join(makeFlags, " ")} {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// IsBuilt reports whether an image is what the pinned recipe gives.
func IsBuilt(digest string) bool { return builtDigests[digest] != "" }

// builtList names what the recipe gives, for a person.
func builtList() string {
	var out []string
	for _, d := range slices.Sorted(maps.Keys(builtDigests)) {
		out = append(out, d+" with "+builtDigests[d])
	}
	return strings.Join(out, ", ")
}

// A Recipe says how to make the pinned image.
type Recipe struct {
	Cache  string    // where images go, see [Cache]
	Source string    // a local copy of the source; empty: fetch it
	Log    io.Writer // what is going on, one line a step; nil for silence
}

// BuildCPython makes the pinned CPython image: a static binary and its
// library, compiled from the pinned source with musl. It needs no root. The
// same source with the same compiler and C library gives the same digest. If that
// is one that this program knows, the image is [Built], else only [Compiled].
func BuildCPython(ctx context.Context, b Recipe) (*Image, error) {
	if b.Log == nil {
		b.Log = io.Discard
	}
	for _, tool := range []string{"musl-gcc", "make", "tar", "xz", "strip", "ar", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, refusal.Newf(refusal.NotFound, "building the image needs the program %s", tool).
				WithHint("on Debian or Ubuntu: apt-get install musl-tools make xz-utils binutils gcc")
		}
	}
	d, err := newDraft(b.Cache)
	if err != nil {
		return nil, err
	}
	defer d.discard()
	// The folder's name is in debugging information and messages of the
	// compiler, so it is mapped away below.
	work, remove, err := store.TempDir("tally-cpython-")
	if err != nil {
		return nil, fmt.Errorf("building the image: %w", err)
	}
	defer remove()

	source := b.Source
	if source == "" {
		if source, err = b.fetch(ctx, work); err != nil {
			return nil, err
		}
	}
	if err := checkSource(source); err != nil {
		return nil, err
	}
	toolchain, err := describeToolchain(ctx)
	if err != nil {
		return nil, err
	}
	tree := filepath.Join(work, "cpython")
	if err := b.compile(ctx, source, tree); err != nil {
		return nil, refusal.Newf(refusal.Failed, "building CPython %s: %w", cpythonVersion, err)
	}
	err = copyFile(filepath.Join(tree, "python"), filepath.Join(d.root(), "bin/python3"))
	if err == nil {
		err = os.CopyFS(filepath.Join(d.root(), "lib/python"), os.DirFS(filepath.Join(tree, "library")))
	}
	if err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "building the image: %w", err)
	}
	return d.finish(About{
		Kind:    Built,
		Source:  fmt.Sprintf("CPython %s, sha256:%s, %s", cpythonVersion, cpythonSHA256, toolchain),
		Pinned:  true,
		Command: []string{"/bin/python3", "/lib/python"},
		Env:     []string{},
	})
}

func checkSource(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "reading the source: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return refusal.Newf(refusal.Unreadable, "reading the source: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != cpythonSHA256 {
		return refusal.Newf(refusal.DigestMismatch, "%s is sha256:%s, the pinned source of CPython %s is sha256:%s", file, got, cpythonVersion, cpythonSHA256).
			WithHint("get Python-%s.tar.xz from %s", cpythonVersion, cpythonURL)
	}
	return nil
}

// fetch gets the source from python.org, or from Debian's archive through
// apt-get where that is what the machine can reach. Where it came from does
// not matter: its digest is checked afterwards.
func (b Recipe) fetch(ctx context.Context, work string) (string, error) {
	file := filepath.Join(work, "Python-"+cpythonVersion+".tar.xz")
	fmt.Fprintf(b.Log, "fetching %s\n", cpythonURL)
	first := download(ctx, cpythonURL, file)
	if first == nil {
		return file, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	fmt.Fprintf(b.Log, "that failed (%v); asking Debian's archive\n", first)
	file, second := fetchFromDebian(ctx, work)
	if second != nil {
		return "", refusal.Newf(refusal.Failed, "fetching CPython %s: %w; from Debian: %w", cpythonVersion, first, second).
			WithHint("get Python-%s.tar.xz yourself and name it with --source", cpythonVersion)
	}
	return file, nil
}

// maxSourceBytes is above the size of the pinned source, so that a server
// cannot fill the disk.
const maxSourceBytes = 64 << 20

func download(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 5 * time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server says %s", resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(resp.Body, maxSourceBytes))
	return errors.Join(err, f.Close())
}

// fetchFromDebian uses apt-get with lists and caches of its own, so that it
// needs no root and changes nothing of the system's. The archive is whichever
// this machine's apt is set up for.
func fetchFromDebian(ctx context.Context, work string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		return "", fmt.Errorf("asking apt-get for its archives: %w", err)
	}
	archives := strings.Fields(string(out))
	slices.Sort(archives)
	errs := []error{errors.New("apt-get knows no archive")}
	for i, archive := range slices.Compact(archives) {
		file, err := fetchFromArchive(ctx, filepath.Join(work, "apt"+strconv.Itoa(i)), archive)
		if err == nil {
			return file, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", archive, err))
	}
	return "", errs[len(errs)-1]
}

func fetchFromArchive(ctx context.Context, apt, archive string) (string, error) {
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "source"} {
		if err := os.MkdirAll(filepath.Join(apt, dir), 0o755); err != nil {
			return "", err
		}
	}
	list := filepath.Join(apt, "sources.list")
	line := "deb-src " + archive + " " + debianRelease + " main\n"
	if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
		return "", err
	}
	flags := []string{"-q", "-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + filepath.Join(apt, "lists"), "-o", "Dir::Cache=" + filepath.Join(apt, "cache"), "-o", "APT::Sandbox::User="}
	in := filepath.Join(apt, "source")
	if err := runTool(ctx, in, nil, "apt-get", append(flags, "update")...); err != nil {
		return "", err
	}
	if err := runTool(ctx, in, nil, "apt-get", append(flags, "source", "--download-only", debianSource)...); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(in, "*.orig.tar.xz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("apt-get left %d source archives", len(found))
	}
	return found[0], nil
}

// describeToolchain names what compiles: it is part of the image's identity.
func describeToolchain(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "musl-gcc", "-dumpfullversion").Output()
	if err != nil {
		return "", refusal.Newf(refusal.Failed, "asking musl-gcc for its version: %w", err)
	}
	return "gcc " + strings.TrimSpace(string(out)) + " with musl, " + runtime.GOARCH, nil
}

// compilerWrapper keeps CPython's configure from taking musl for glibc: it
// asks the compiler for the name of Debian's library folder.
const compilerWrapper = `#!/bin/sh
[ "$1" = --print-multiarch ] && exit 0
exec musl-gcc "$@"
`

// configureFlags and makeFlags are how it is compiled, TREE being the folder.
// binascii is configured for the zlib that the host's glibc has.
var (
	configureFlags = []string{"./configure", "CC=cc", "OPT=-DNDEBUG -O2", "CFLAGS=-ffile-prefix-map=TREE=.", "LDFLAGS=-static", "LINKFORSHARED= ", "MODULE_BUILDTYPE=static",
		"--prefix=/usr", "--disable-shared", "--without-ensurepip", "--disable-test-modules"}
	makeFlags = []string{"python", "MODULE_BINASCII_CFLAGS=", "MODULE_BINASCII_LDFLAGS="}
)

// compile unpacks the source into tree and leaves python and library there.
func (b Recipe) compile(ctx context.Context, source, tree string) error {
	bin := filepath.Join(tree, "wrapper")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	fmt.Fprintln(b.Log, "unpacking")
	if err := runTool(ctx, tree, nil, "tar", "-xJf", source, "--strip-components=1"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(bin, "cc"), []byte(compilerWrapper), 0o755); err != nil {
		return err
	}
	env := []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + tree,
		"SOURCE_DATE_EPOCH=0", "LC_ALL=C", "TZ=UTC", "PYTHONHASHSEED=0",
	}
	configure := slices.Clone(configureFlags)
	for i, flag := range configure {
		configure[i] = strings.ReplaceAll(flag, "TREE", tree)
	}
	for _, m := range leftOutModules {
		configure = append(configure, "py_cv_module_"+m+"=n/a")
	}
	fmt.Fprintln(b.Log, "configuring")
	if err := runTool(ctx, tree, env, "sh", configure...); err != nil {
		return err
	}
	// Every module of the library becomes part of the binary. configure wrote
	// the list of those that can be built.
	if err := copyFile(filepath.Join(tree, "Modules/Setup.stdlib"), filepath.Join(tree, "Modules/Setup.local")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "Programs/python.c"), cpythonMain, 0o644); err != nil {
		return err
	}
	fmt.Fprintln(b.Log, "compiling, which takes a few minutes")
	if err := runTool(ctx, tree, env, "make", append([]string{"-j" + strconv.Itoa(runtime.NumCPU())}, makeFlags...)...); err != nil {
		return err
	}
	if err := runTool(ctx, tree, env, "strip", "python"); err != nil {
		return err
	}
	fmt.Fprintln(b.Log, "compiling the library")
	script := filepath.Join(tree, "mklib.py")
	if err := os.WriteFile(script, cpythonLib, 0o644); err != nil {
		return err
	}
	return runTool(ctx, tree, env, filepath.Join(tree, "python"), filepath.Join(tree, "Lib"), script, filepath.Join(tree, "library"))
}

// runTool runs a program and, when it fails, says the end of what it said.
func runTool(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		const tail = 1500
		said := out.Bytes()
		return fmt.Errorf("%s: %w: %s", name, err, strings.ToValidUTF8(string(said[max(0, len(said)-tail):]), "?"))
	}
	return nil
}
