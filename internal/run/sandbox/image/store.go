package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/record/refusal"
)

// MaxBlob bounds one blob of an image: a layer, as it is sent.
const MaxBlob = 16 << 30

// A Store keeps the blobs of OCI images by their digests, so that what several images
// have in common is fetched once. It is a cache: whatever lies in it is compared with
// its digest when it is used, and a person may remove it at any time.
type Store struct{ dir string } // has blobs/sha256, as an OCI layout

// OpenStore opens the store of an image cache.
func OpenStore(cache string) (*Store, error) {
	s := &Store{filepath.Join(cache, "oci")}
	if err := os.MkdirAll(filepath.Join(s.dir, "blobs", "sha256"), 0o755); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making the store of layers: %w", err)
	}
	return s, nil
}

// hexOf checks a digest and gives its hex digits.
func hexOf(digest string) (string, error) {
	name, ok := strings.CutPrefix(digest, "sha256:")
	raw, err := hex.DecodeString(name)
	if !ok || err != nil || len(raw) != sha256.Size || name != hex.EncodeToString(raw) {
		return "", refusal.Newf(refusal.Malformed, "OCI digest %.120q: want sha256: and 64 hex digits", digest)
	}
	return name, nil
}

// CheckDigest refuses what is not the digest of a blob.
func CheckDigest(digest string) error {
	_, err := hexOf(digest)
	return err
}

func (s *Store) file(name string) string { return filepath.Join(s.dir, "blobs", "sha256", name) }

// Has reports whether the store has a blob whose bytes have this digest. One that has
// others is removed.
func (s *Store) Has(digest string, size int64) bool {
	name, err := hexOf(digest)
	if err != nil {
		return false
	}
	f, err := os.Open(s.file(name))
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err == nil && n == size && hex.EncodeToString(h.Sum(nil)) == name {
		return true
	}
	os.Remove(s.file(name))
	return false
}

// Open opens a blob of the store. It is not compared with its digest.
func (s *Store) Open(digest string) (io.ReadCloser, error) {
	name, err := hexOf(digest)
	if err != nil {
		return nil, err
	}
	return os.Open(s.file(name))
}

// Holds reports whether the store has a blob of this digest, and of which size.
func (s *Store) Holds(digest string) (size int64, ok bool) {
	name, err := hexOf(digest)
	if err != nil {
		return 0, false
	}
	info, err := os.Stat(s.file(name))
	if err != nil {
		return 0, false
	}
	return info.Size(), s.Has(digest, info.Size())
}

// A Part is a blob on its way into the store. What has come of it stays in the store
// when the program ends early, and is the beginning of the next one.
type Part struct {
	store  *Store
	name   string
	size   int64
	file   *os.File
	Offset int64 // bytes that are there already
}

// Begin continues a blob, or begins it. One caller at a time has a part.
func (s *Store) Begin(digest string, size int64) (*Part, error) {
	name, err := hexOf(digest)
	if err != nil {
		return nil, err
	}
	if size < 0 || size > MaxBlob {
		return nil, refusal.Newf(refusal.TooLarge, "OCI blob %s: %d bytes, expected at most %d", digest, size, int64(MaxBlob))
	}
	p := &Part{store: s, name: name, size: size}
	if p.file, err = os.OpenFile(s.file(name)+".part", os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "keeping a layer: %w", err)
	}
	if err := lockFile(p.file); err != nil {
		p.file.Close()
		return nil, refusal.Newf(refusal.Failed, "OCI blob %s: %w", digest, err).WithHint("another program fetches it; wait for its end, and run this again")
	}
	if p.Offset, err = p.file.Seek(0, io.SeekEnd); err == nil && p.Offset > size {
		err = p.Restart()
	}
	if err != nil {
		p.file.Close()
		return nil, refusal.Newf(refusal.WriteFailed, "keeping a layer: %w", err)
	}
	return p, nil
}

// Restart forgets what has come.
func (p *Part) Restart() error {
	p.Offset = 0
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// Take adds what r has, and reads at most one byte more than the blob may have.
func (p *Part) Take(r io.Reader) error {
	n, err := io.Copy(p.file, io.LimitReader(r, p.size-p.Offset+1))
	p.Offset += n
	return err
}

// Finish compares the blob with its size and digest, and puts it into the store. One
// that is wrong is removed.
func (p *Part) Finish() error {
	if p.Offset != p.size {
		err := refusal.Newf(refusal.DigestMismatch, "OCI blob sha256:%s has %d bytes or more, expected %d", p.name, p.Offset, p.size)
		if p.Offset > p.size {
			return errors.Join(err, p.drop())
		}
		return err // what has come is kept
	}
	h := sha256.New()
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(h, p.file); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != p.name {
		err := refusal.Newf(refusal.DigestMismatch, "OCI blob sha256:%s has the digest sha256:%s", p.name, got).
			WithHint("what was sent is not what the manifest names; it was not kept")
		return errors.Join(err, p.drop())
	}
	return os.Rename(p.file.Name(), p.store.file(p.name))
}

// Close lets go of the part; unfinished, it can be continued.
func (p *Part) Close() error { return p.file.Close() }

func (p *Part) drop() error {
	err := os.Remove(p.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Put keeps a small blob, and gives its digest.
func (s *Store) Put(content []byte) (string, error) {
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if s.Has(digest, int64(len(content))) {
		return digest, nil
	}
	file := s.file(hex.EncodeToString(sum[:]))
	temp, err := os.CreateTemp(filepath.Dir(file), ".put-")
	if err == nil {
		_, err = temp.Write(content)
		err = errors.Join(err, temp.Chmod(0o644), temp.Close())
		if err == nil {
			err = os.Rename(temp.Name(), file)
		}
		if err != nil {
			os.Remove(temp.Name())
		}
	}
	if err != nil {
		return "", refusal.Newf(refusal.WriteFailed, "keeping a blob: %w", err)
	}
	return digest, nil
}

// PutStream keeps a blob whose digest is not known beforehand, of at most limit bytes.
func (s *Store) PutStream(r io.Reader, limit int64) (digest string, size int64, err error) {
	temp, err := os.CreateTemp(filepath.Join(s.dir, "blobs", "sha256"), ".put-")
	if err != nil {
		return "", 0, refusal.Newf(refusal.WriteFailed, "keeping a layer: %w", err)
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(temp, h), io.LimitReader(r, limit+1))
	if err != nil {
		return "", 0, fmt.Errorf("keeping a layer: %w", err)
	}
	if size > limit {
		return "", 0, refusal.Newf(refusal.TooLarge, "a layer has over %d bytes", limit)
	}
	name := hex.EncodeToString(h.Sum(nil))
	if err := errors.Join(temp.Chmod(0o644), os.Rename(temp.Name(), s.file(name))); err != nil {
		return "", 0, refusal.Newf(refusal.WriteFailed, "keeping a layer: %w", err)
	}
	return "sha256:" + name, size, nil
}
