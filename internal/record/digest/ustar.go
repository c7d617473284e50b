package digest

import (
	"fmt"
	"strings"

	"tallystick/internal/record/refusal"
)

// The parts of a USTAR archive that this format uses (POSIX.1-1988, IEEE Std
// 1003.1, "ustar Interchange Format").
const (
	blockSize  = 512
	nameSize   = 100
	prefixSize = 155

	// maxFileSize is what eleven octal digits hold.
	maxFileSize int64 = 1<<33 - 1
)

// zeroBlocks ends the stream; a part of it pads file data to whole blocks.
var zeroBlocks [2 * blockSize]byte

// padding is the number of zero bytes after n bytes of file data.
func padding(n int) int { return (blockSize - n%blockSize) % blockSize }

// ustarHeader returns the header block of a regular file. It is written here
// and not by archive/tar because that writer refuses names that are not ASCII
// and because every byte of the block is part of the digest.
func ustarHeader(path string, size int64) ([blockSize]byte, error) {
	var b [blockSize]byte
	prefix, name, err := splitPath(path)
	if err != nil {
		return b, err
	}
	if size > maxFileSize {
		return b, refusal.Newf(refusal.TooLarge, "tree: %s has %d bytes, at most %d fit in a USTAR header", path, size, maxFileSize)
	}
	copy(b[0:100], name)
	copy(b[100:108], "0000644")
	copy(b[108:116], "0000000") // uid
	copy(b[116:124], "0000000") // gid
	copy(b[124:136], fmt.Sprintf("%011o", size))
	copy(b[136:148], "00000000000") // mtime
	copy(b[148:156], "        ")    // the checksum is computed with spaces in its place
	b[156] = '0'                    // a regular file
	copy(b[257:265], "ustar\x0000")
	copy(b[329:337], "0000000") // devmajor
	copy(b[337:345], "0000000") // devminor
	copy(b[345:500], prefix)

	var sum int
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b, nil
}

// splitPath divides a path between the prefix and name fields as GNU tar
// does: a path of at most 100 bytes goes into name whole; a longer one is cut
// at the last slash among its first 156 bytes, and what is after that slash
// must fit in name.
func splitPath(path string) (prefix, name string, err error) {
	if len(path) <= nameSize {
		return "", path, nil
	}
	cut := strings.LastIndexByte(path[:min(len(path), prefixSize+1)], '/')
	if cut <= 0 || len(path)-cut-1 > nameSize {
		return "", "", refusal.Newf(refusal.TooLarge, "tree: path %q has %d bytes and cannot be divided at a slash into at most %d and %d", path, len(path), prefixSize, nameSize).
			WithHint("shorten the file name to at most %d bytes and its folder to at most %d", nameSize, prefixSize)
	}
	return path[:cut], path[cut+1:], nil
}
