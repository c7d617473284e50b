package submission

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"io"
	"strings"
)

// ZipSuffix ends the name of a package in one file.
const ZipSuffix = ".zip"

// maxZipEntries bounds the files of a package in one file.
const maxZipEntries = 1 << 20

// Zip is a package as one file: a zip archive of its files in the order of their
// paths, stored as they are, without times. So the same package gives the same
// bytes.
func Zip(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, path := range sortedPaths(files) {
		data := files[path]
		w, err := z.CreateRaw(&zip.FileHeader{Name: path, Method: zip.Store, CRC32: crc32.ChecksumIEEE(data), CompressedSize64: uint64(len(data)), UncompressedSize64: uint64(len(data))})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

// IsZip reports whether a file begins as a zip archive.
func IsZip(data []byte) bool { return bytes.HasPrefix(data, []byte("PK\x03\x04")) }

// Unzip reads a package in one file. Anything that [Zip] does not write is refused:
// a package packed otherwise is unpacked first, and the folder is verified.
func Unzip(data []byte) (map[string][]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, bad("the archive cannot be read: %v", err)
	}
	if len(z.File) > maxZipEntries || z.Comment != "" {
		return nil, bad("the archive has %d entries and a comment of %d bytes, expected at most %d and none", len(z.File), len(z.Comment), maxZipEntries)
	}
	files, last := make(map[string][]byte, len(z.File)), ""
	for _, f := range z.File {
		if f.Method != zip.Store || f.Name <= last || strings.HasSuffix(f.Name, "/") || len(f.Extra) > 0 || f.Comment != "" || f.UncompressedSize64 > uint64(len(data)) {
			return nil, bad("entry %q of the archive is compressed, out of order, twice or not a file", f.Name)
		}
		last = f.Name
		r, err := f.Open()
		if err != nil {
			return nil, bad("entry %q of the archive: %v", f.Name, err)
		}
		body, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, bad("entry %q of the archive: %v", f.Name, err)
		}
		files[f.Name] = body
	}
	// The headers before the files, bytes between and behind them: there is one spelling.
	if again, err := Zip(files); err != nil || !bytes.Equal(again, data) {
		return nil, bad("the archive is not the one spelling of its files: stored, in order, and nothing else")
	}
	return files, nil
}
