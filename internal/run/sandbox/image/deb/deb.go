// Package deb reads the files of Debian packages.
//
// A package is an ar archive of three members: its version, the control files and the
// files to install, the last two as compressed tar archives. Only the last one is read
// here, and none of the scripts that a package has is ever run. What the archive names
// is for the reader of the tar to judge.
package deb

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// The form of an ar archive.
const (
	magic        = "!<arch>\n"
	headerBytes  = 60
	headerEnd    = "`\n"
	maxMembers   = 16
	maxDictBytes = 128 << 20 // that a package may ask for to be unpacked
)

// Data finds the tar archive of the files in a package. What is read of it is counted by
// count, as it lies in the package.
func Data(r io.Reader, count func(n int)) (io.Reader, error) {
	b := bufio.NewReaderSize(counter{r, count}, 256<<10)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(b, head); err != nil || string(head) != magic {
		return nil, fmt.Errorf("it begins with %q, expected %q: it is not a Debian package", head, magic)
	}
	for n := range maxMembers {
		name, size, err := member(b)
		if err != nil {
			return nil, fmt.Errorf("member %d: %w", n, err)
		}
		body := io.LimitReader(b, size)
		switch {
		case n == 0:
			version, err := io.ReadAll(io.LimitReader(body, 64))
			if err != nil || name != "debian-binary" || !bytes.HasPrefix(version, []byte("2.")) {
				return nil, fmt.Errorf("member 0 is %.40q with %.20q, expected debian-binary with 2.0", name, version)
			}
		case strings.HasPrefix(name, "data.tar"):
			return decompress(name, body)
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return nil, fmt.Errorf("member %s: %w", name, err)
		}
		if size%2 == 1 { // members begin at even places
			if _, err := b.ReadByte(); err != nil {
				return nil, fmt.Errorf("after member %.40q: %w", name, err)
			}
		}
	}
	return nil, fmt.Errorf("no data.tar among its first %d members", maxMembers)
}

// member reads the header of the next one.
func member(r io.Reader) (name string, size int64, err error) {
	h := make([]byte, headerBytes)
	if _, err := io.ReadFull(r, h); err != nil {
		return "", 0, err
	}
	if string(h[58:]) != headerEnd {
		return "", 0, fmt.Errorf("its header ends with %q, expected %q", h[58:], headerEnd)
	}
	text := strings.TrimRight(string(h[48:58]), " ")
	size, err = strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 {
		return "", 0, fmt.Errorf("a size of %.20q", text)
	}
	return strings.TrimRight(strings.TrimRight(string(h[:16]), " "), "/"), size, nil
}

func decompress(name string, r io.Reader) (io.Reader, error) {
	switch name {
	case "data.tar":
		return r, nil
	case "data.tar.gz":
		return gzip.NewReader(r)
	case "data.tar.xz":
		return xz.ReaderConfig{DictCap: maxDictBytes}.NewReader(bufio.NewReaderSize(r, 64<<10))
	case "data.tar.zst":
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxDictBytes))
	}
	return nil, fmt.Errorf("member %.40q: expected data.tar, or one packed by gzip, xz or zstd", name)
}

type counter struct {
	r     io.Reader
	count func(n int)
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.count(n)
	return n, err
}
