// Package zipfile opens untrusted zip archives, for reading entry
// by entry as JSON.
//
// Nothing is unpacked. An archive that expands without end, a name that leads
// out of it, an entry that is not a file and one that is damaged are refused, and
// the refusal names the entry. Entries may be stored, or compressed with deflate
// or zstd (method 93).
package zipfile

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
)

// Bounds of an archive. A log shrinks to about a tenth; one that grows far
// beyond is made to.
const (
	maxEntries     = 4 << 20
	freeExpansion  = 1 << 30 // bytes that any archive may expand to
	maxExpandRatio = 200     // beyond that, times its own size
)

// Zstd is the compression method of zstd (APPNOTE.TXT section 4.4.5).
const Zstd = 93

// An Archive is an open archive.
type Archive struct {
	Entries []*zip.File          // files, in the order of the archive
	By      map[string]*zip.File // by name
	left    int64                // bytes that may still come out of it
	Reader  *jsonstream.Reader   // that every entry is read with
}

// Open opens the archive of size bytes at at.
func Open(at io.ReaderAt, size int64) (*Archive, error) {
	z, err := zip.NewReader(at, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, refusal.Newf(refusal.Malformed, "opening the archive: %v", err).WithHint("the file is cut off or not a zip archive; fetch it again")
	}
	z.RegisterDecompressor(Zstd, func(r io.Reader) io.ReadCloser { return cassette.NewExpander(r) })
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser { return flate.NewReader(r) })
	if len(z.File) > maxEntries {
		return nil, refusal.Newf(refusal.TooLarge, "the archive has %d entries, at most %d are accepted", len(z.File), maxEntries)
	}
	reader, err := jsonstream.NewReader(strings.NewReader(""))
	if err != nil {
		return nil, err
	}
	a := &Archive{By: map[string]*zip.File{}, left: max(freeExpansion, size*maxExpandRatio), Reader: reader}
	for i, e := range z.File {
		if err := checkEntryName(e.Name); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "entry %d: %w", i, err).WithHint("no harness writes such an archive; do not unpack it")
		}
		if strings.HasSuffix(e.Name, "/") {
			continue
		}
		if !e.Mode().IsRegular() {
			return nil, refusal.Newf(refusal.Malformed, "entry %q is not a regular file", e.Name)
		}
		a.By[e.Name] = e // an archive that is appended to holds old headers; the last one counts
	}
	for _, e := range z.File {
		if a.By[e.Name] == e {
			a.Entries = append(a.Entries, e)
		}
	}
	return a, nil
}

func checkEntryName(name string) error {
	clean := strings.TrimSuffix(name, "/")
	switch {
	case strings.ContainsAny(name, "\\\x00"), path.IsAbs(name), clean != path.Clean(clean), clean == "..", strings.HasPrefix(clean, "../"), len(clean) > 1 && clean[1] == ':':
		return fmt.Errorf("the name %.80q leads out of the archive or is not plain", name)
	}
	return nil
}

// JSON opens an entry for read to read as JSON.
func (a *Archive) JSON(e *zip.File, read func(*jsonstream.Reader) error) error {
	src, err := e.Open()
	if err != nil {
		if errors.Is(err, zip.ErrAlgorithm) {
			return refusal.Newf(refusal.Malformed, "entry %s: compressed with method %d, expected 0, 8 (deflate) or 93 (zstd)", e.Name, e.Method)
		}
		return refusal.Newf(refusal.Malformed, "entry %s: %v", e.Name, err)
	}
	defer src.Close()
	err = a.Reader.Reset(&counted{src, a})
	if err == nil {
		err = read(a.Reader)
	}
	if err == nil {
		err = a.Reader.End()
	}
	if err != nil {
		return fmt.Errorf("entry %s: %w", e.Name, err)
	}
	return nil
}

// counted stops an archive that expands without end, and tells a damaged entry
// from a disk that fails.
type counted struct {
	src  io.Reader
	from *Archive
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	if c.from.left -= int64(n); c.from.left < 0 {
		return 0, refusal.Newf(refusal.TooLarge, "the archive expands to more than %d times its size", maxExpandRatio).
			WithHint("no log shrinks that much; this may be a zip bomb")
	}
	if err != nil && err != io.EOF {
		return n, refusal.Newf(refusal.Malformed, "decompressing: %v", err).WithHint("the archive is damaged; fetch it again")
	}
	return n, err
}
