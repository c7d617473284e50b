package recipe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/image"
)

// aptLimit bounds one call of apt.
const aptLimit = 5 * time.Minute

// fetch puts a package into the store, from where it may come.
func (m *maker) fetch(ctx context.Context, p Package) error {
	wanted := "sha256:" + p.SHA256
	if _, ok := m.store.Holds(wanted); ok {
		return nil
	}
	if m.o.Packages != "" {
		return m.fromFolder(p)
	}
	m.log("fetching %s %s", p.Name, p.Version)
	dir, err := os.MkdirTemp(m.o.Cache, ".fetch-")
	if err != nil {
		return refusal.Newf(refusal.WriteFailed, "fetching package %s: %w", p.Name, err)
	}
	defer os.RemoveAll(dir)
	if _, err := apt(ctx, dir, "apt-get", "download", "-qq", "-o", "APT::Sandbox::User=", p.Name+"="+p.Version); err != nil {
		return refusal.Newf(refusal.Failed, "fetching package %s %s: %w", p.Name, p.Version, err).
			WithHint(`"apt-get update" renews what apt knows; an archive keeps only some versions; --packages FOLDER takes packages that you have`)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) != 1 {
		return refusal.Newf(refusal.Failed, "fetching package %s: apt-get left %d files", p.Name, len(files))
	}
	got, err := fileDigest(files[0])
	if err != nil {
		return err
	}
	if got != p.SHA256 {
		return refusal.Newf(refusal.DigestMismatch, "package %s %s has the SHA-256 %s, the recipe says %s", p.Name, p.Version, got, p.SHA256).
			WithHint("the archive sent another package than the recipe was written for; nothing of it was unpacked")
	}
	return m.take(files[0], wanted)
}

// fromFolder looks for a package among files, by its digest alone.
func (m *maker) fromFolder(p Package) error {
	files, err := filepath.Glob(filepath.Join(m.o.Packages, "*.deb"))
	if err != nil {
		return refusal.Newf(refusal.Usage, "looking for packages: %w", err)
	}
	// The likely ones first.
	slices.SortStableFunc(files, func(a, b string) int {
		is := func(f string) int {
			if strings.HasPrefix(filepath.Base(f), p.Name+"_") {
				return 0
			}
			return 1
		}
		return is(a) - is(b)
	})
	for _, f := range files {
		if got, err := fileDigest(f); err == nil && got == p.SHA256 {
			return m.take(f, "sha256:"+p.SHA256)
		}
	}
	return refusal.Newf(refusal.NotFound, "package %s %s: none of the %d packages in %s has the SHA-256 %s", p.Name, p.Version, len(files), m.o.Packages, p.SHA256)
}

func fileDigest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "reading a package: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", refusal.Newf(refusal.Unreadable, "reading a package: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// take keeps a file in the store, under the digest that it was just found to have.
func (m *maker) take(file, wanted string) error {
	f, err := os.Open(file)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "reading a package: %w", err)
	}
	defer f.Close()
	got, _, err := m.store.PutStream(f, image.MaxBlob)
	if err == nil && got != wanted {
		err = refusal.Newf(refusal.DigestMismatch, "%s changed while it was read", file)
	}
	return err
}

// apt runs a program of apt's, which asks the archives that this machine is set up for.
func apt(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, aptLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		// Not a word of where the archive is: its address may hold a password.
		return nil, fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return out, nil
}

// Resolve names the packages that the given ones need, with the versions that this
// machine's apt would fetch: what a recipe's packages may be written from.
func Resolve(ctx context.Context, names []string) ([]Package, error) {
	for _, n := range names {
		if !packageName().MatchString(n) {
			return nil, refusal.Newf(refusal.Usage, "%.100q is not the name of a Debian package", n)
		}
	}
	out, err := apt(ctx, "", "apt-cache", append([]string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks",
		"--no-replaces", "--no-enhances"}, names...)...)
	if err != nil {
		return nil, refusal.Newf(refusal.Failed, "asking apt what %s needs: %w", strings.Join(names, " "), err).WithHint(`this needs Debian or Ubuntu, and "apt-get update" before`)
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimRight(line, "\n"); packageName().MatchString(line) {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "apt knows none of %s", strings.Join(names, " "))
	}
	shown, err := apt(ctx, "", "apt-cache", append([]string{"show", "--no-all-versions"}, all...)...)
	if err != nil {
		return nil, refusal.Newf(refusal.Failed, "asking apt for versions: %w", err)
	}
	var found []Package
	for stanza := range strings.SplitSeq(string(shown), "\n\n") {
		var p Package
		for line := range strings.Lines(stanza) {
			key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
			switch key {
			case "Package":
				p.Name = value
			case "Version":
				p.Version = value
			case "SHA256":
				p.SHA256 = value
			}
		}
		if packageName().MatchString(p.Name) && packageVersion().MatchString(p.Version) && hexDigest().MatchString(p.SHA256) {
			found = append(found, p)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(found, func(p Package) bool { return p.Name == n }) {
			return nil, refusal.Newf(refusal.NotFound, "apt has no archive with %s", plain.Line(n))
		}
	}
	slices.SortFunc(found, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(found, func(a, b Package) bool { return a.Name == b.Name }), nil
}
