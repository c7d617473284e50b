package deb

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func ar(members ...[2]string) []byte {
	var b bytes.Buffer
	b.WriteString(magic)
	for _, m := range members {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", m[0], 0, 0, 0, "100644", len(m[1]), m[1])
		if len(m[1])%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

func packed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

func ignore(int) {}

func TestData(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a plain one", string(ar([2]string{"debian-binary", "2.0\n"}, [2]string{"control.tar", "x"}, [2]string{"data.tar", "files"})), "files"},
		{"gzip, and names with a slash", string(ar([2]string{"debian-binary/", "2.0\n"}, [2]string{"control.tar.gz/", "xyz"}, [2]string{"data.tar.gz/", packed("files")})), "files"},
		{"not an archive", "#!/bin/sh\n", "! it is not a Debian package"},
		{"nothing", "", "! it is not a Debian package"},
		{"another first member", string(ar([2]string{"data.tar", "files"})), "! expected debian-binary"},
		{"another version", string(ar([2]string{"debian-binary", "3.0\n"}, [2]string{"data.tar", "files"})), "! expected debian-binary"},
		{"no files", string(ar([2]string{"debian-binary", "2.0\n"}, [2]string{"control.tar", "x"})), "! EOF"},
		{"another packing", string(ar([2]string{"debian-binary", "2.0\n"}, [2]string{"data.tar.lz", "x"})), "! data.tar.lz"},
		{"a size below zero", strings.Replace(string(ar([2]string{"debian-binary", "2.0\n"})), "4         `", "-4        `", 1), "! a size of"},
		{"a header that is cut", string(ar([2]string{"debian-binary", "2.0\n"}))[:40], "! unexpected EOF"},
		{"a member that is longer than the file", strings.Replace(string(ar([2]string{"debian-binary", "2.0\n"}, [2]string{"control.tar", "x"})), "1         `", "999999999 `", 1), "! EOF"},
	} {
		r, err := Data(strings.NewReader(c.in), ignore)
		got := ""
		if err == nil {
			b, readErr := io.ReadAll(r)
			got, err = string(b), readErr
		}
		if want, refused := strings.CutPrefix(c.want, "! "); refused && (err == nil || !strings.Contains(err.Error(), want)) || !refused && (err != nil || got != c.want) {
			t.Errorf("%s: %q %v, want %s", c.name, got, err, c.want)
		}
	}
}

// TestDpkgsOwn reads what dpkg-deb writes, in each packing.
func TestDpkgsOwn(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"p/DEBIAN/control": "Package: ours\nVersion: 1\nArchitecture: all\nMaintainer: Ann <ann@example.org>\nDescription: ours\n", "p/usr/share/ours/a": strings.Repeat("text ", 10_000)} {
		os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, packing := range []string{"none", "gzip", "xz", "zstd"} {
		file := filepath.Join(dir, packing+".deb")
		if out, err := exec.Command("dpkg-deb", "--build", "--root-owner-group", "-Z"+packing, filepath.Join(dir, "p"), file).CombinedOutput(); err != nil {
			t.Logf("%s: %v %s", packing, err, out)
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		counted := 0
		r, err := Data(f, func(n int) { counted += n })
		if err != nil {
			t.Fatal(packing, ": ", err)
		}
		names := ""
		for in := tar.NewReader(r); ; {
			h, err := in.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(packing, ": ", err)
			}
			names += h.Name + " "
		}
		if !strings.HasSuffix(names, "./usr/share/ours/a ") || counted == 0 {
			t.Errorf("%s: %s, %d bytes", packing, names, counted)
		}
		f.Close()
	}
}

// FuzzData: whatever a file says, it is read within its length.
func FuzzData(f *testing.F) {
	f.Add(ar([2]string{"debian-binary", "2.0\n"}, [2]string{"control.tar", "x"}, [2]string{"data.tar.gz", packed("files")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		counted := 0
		r, err := Data(bytes.NewReader(b), func(n int) { counted += n })
		if err == nil {
			io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		}
		if counted > len(b) {
			t.Errorf("counted %d of %d bytes", counted, len(b))
		}
	})
}
