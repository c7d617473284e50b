package importer

import (
	"archive/zip"
	"hash/crc32"
	"testing"
)

// raw adds an entry whose bytes are compressed already.
func raw(t testing.TB, z *zip.Writer, name string, method uint16, packed, plain []byte) {
	t.Helper()
	w, err := z.CreateRaw(&zip.FileHeader{Name: name, Method: method, CRC32: crc32.ChecksumIEEE(plain),
		CompressedSize64: uint64(len(packed)), UncompressedSize64: uint64(len(plain))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(packed); err != nil {
		t.Fatal(err)
	}
}
