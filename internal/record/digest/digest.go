// Package digest names bytes and directory trees by their hash.
//
// Content digests are BLAKE3-256 and name what is stored: files, trees,
// records. Identities and chain hashes are SHA-256. The two are different
// types with different texts, so that one cannot stand in for the other. There
// is no shorter form: a digest is 32 bytes or it is not a digest.
//
// A digest says that bytes are the same bytes. Who made them, and whether they
// are any good, is for other packages. docs/formats/digests.md states the
// formats.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/blake3"

	"tallystick/internal/record/refusal"
)

// Size is the length of every digest in bytes.
const Size = 32

const (
	contentPrefix = "blake3:"
	idPrefix      = "sha256:"
)

// A Content is the BLAKE3-256 hash of some bytes. Its text is "blake3:"
// and 64 lower-case hexadecimal digits.
type Content [Size]byte

// ContentOf returns the content digest of b.
func ContentOf(b []byte) Content { return blake3.Sum256(b) }

// ContentOfReader returns the content digest of what r gives until it ends,
// and how many bytes that was. An error of r is returned as it is.
func ContentOfReader(r io.Reader) (Content, int64, error) {
	h := NewContent()
	n, err := io.Copy(h, r)
	if err != nil {
		return Content{}, n, err
	}
	return h.Sum(), n, nil
}

// ParseContent reads the text of a content digest. Only the exact form that
// [Content.String] writes is accepted.
func ParseContent(s string) (Content, error) {
	var c Content
	err := parse(s, contentPrefix, (*[Size]byte)(&c))
	return c, err
}

// String returns "blake3:" and 64 lower-case hexadecimal digits.
func (c Content) String() string { return contentPrefix + hex.EncodeToString(c[:]) }

// MarshalText returns the bytes of [Content.String].
func (c Content) MarshalText() ([]byte, error) { return c.AppendText(nil) }

// AppendText appends the bytes of [Content.String].
func (c Content) AppendText(b []byte) ([]byte, error) { return appendText(b, contentPrefix, c), nil }

// UnmarshalText is [ParseContent].
func (c *Content) UnmarshalText(text []byte) error {
	return parse(string(text), contentPrefix, (*[Size]byte)(c))
}

// IsZero reports whether c is 32 zero bytes, which stands for "no digest".
func (c Content) IsZero() bool { return c == Content{} }

// An ID is the SHA-256 hash of some bytes. Its text is "sha256:" and 64
// lower-case hexadecimal digits.
type ID [Size]byte

// IDOf returns the SHA-256 digest of b.
func IDOf(b []byte) ID { return sha256.Sum256(b) }

// ParseID reads the text of an ID. Only the exact form that [ID.String] writes
// is accepted.
func ParseID(s string) (ID, error) {
	var id ID
	err := parse(s, idPrefix, (*[Size]byte)(&id))
	return id, err
}

// String returns "sha256:" and 64 lower-case hexadecimal digits.
func (id ID) String() string { return idPrefix + hex.EncodeToString(id[:]) }

// MarshalText returns the bytes of [ID.String].
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// AppendText appends the bytes of [ID.String].
func (id ID) AppendText(b []byte) ([]byte, error) { return appendText(b, idPrefix, id), nil }

// UnmarshalText is [ParseID].
func (id *ID) UnmarshalText(text []byte) error {
	return parse(string(text), idPrefix, (*[Size]byte)(id))
}

// IsZero reports whether id is 32 zero bytes, which is also what stands before
// the first entry of a chain.
func (id ID) IsZero() bool { return id == ID{} }

// A ContentHasher computes a [Content] of bytes written to it in pieces.
type ContentHasher struct{ h *blake3.Hasher }

// NewContent returns a hasher of no bytes yet.
func NewContent() *ContentHasher { return &ContentHasher{h: blake3.New()} }

// Write adds p. It never fails.
func (h *ContentHasher) Write(p []byte) (int, error) { return h.h.Write(p) }

// Sum returns the digest of everything written so far; more may be written
// after it.
func (h *ContentHasher) Sum() Content {
	var c Content
	h.h.Sum(c[:0])
	return c
}

func appendText(b []byte, prefix string, sum [Size]byte) []byte {
	b = slices.Grow(b, len(prefix)+2*Size)
	return hex.AppendEncode(append(b, prefix...), sum[:])
}

// parse accepts one spelling only: two texts of one digest would let a
// document change without its meaning changing. On error sum is unchanged.
func parse(s, prefix string, sum *[Size]byte) error {
	if len(s) != len(prefix)+2*Size || s[:len(prefix)] != prefix {
		return malformed(s, prefix)
	}
	var decoded [Size]byte
	for i := range decoded {
		high, low := nibble(s[len(prefix)+2*i]), nibble(s[len(prefix)+2*i+1])
		if high > 0xf || low > 0xf {
			return malformed(s, prefix)
		}
		decoded[i] = high<<4 | low
	}
	*sum = decoded
	return nil
}

// nibble returns the value of a lower-case hexadecimal digit, 0xff if c is
// none.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

func malformed(s, prefix string) error {
	found := fmt.Sprintf("%.80q", s)
	if len(s) > 80 {
		found += fmt.Sprintf("... (%d bytes)", len(s))
	}
	return refusal.Newf(refusal.Malformed, "parsing digest: found %s, expected %s and 64 lower-case hexadecimal digits", found, prefix).
		WithHint("copy the whole digest as it was printed, prefix included")
}
