package seal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/refusal"
)

// Signature types of C2SP signed-note, section "Signature types".
const (
	algEd25519     = 0x01
	algCosignature = 0x04
)

// cosignatureSize is an 8-byte timestamp and an Ed25519 signature.
const cosignatureSize = 8 + ed25519.SignatureSize

// VKey returns the verifier key of C2SP signed-note for Ed25519: name, key id
// and key, joined by plus signs.
func VKey(pub ed25519.PublicKey, name string) string { return vkey(pub, name, algEd25519) }

// CosignatureVKey returns the verifier key of a cosigner (C2SP
// tlog-cosignature, Ed25519).
func CosignatureVKey(pub ed25519.PublicKey, name string) string {
	return vkey(pub, name, algCosignature)
}

func vkey(pub ed25519.PublicKey, name string, alg byte) string {
	key := append([]byte{alg}, pub...)
	return fmt.Sprintf("%s+%08x+%s", name, keyID(name, key), base64.StdEncoding.EncodeToString(key))
}

// keyID is SHA-256(name || "\n" || type || public key)[:4], big-endian (C2SP
// signed-note, section "Signatures"); key begins with the type.
func keyID(name string, key []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return binary.BigEndian.Uint32(sum[:4])
}

// parseVKey reads a verifier key of the given signature type, strictly: one
// key has one spelling. Weak keys are refused.
func parseVKey(text string, alg byte) (string, ed25519.PublicKey, error) {
	malformed := func(format string, args ...any) error {
		return refusal.Newf(refusal.Malformed, "verifier key %q: %w", text, fmt.Errorf(format, args...)).
			WithHint("a verifier key has the form NAME+KEYID+KEY, see c2sp.org/signed-note")
	}
	parts := strings.SplitN(text, "+", 3)
	if len(parts) != 3 {
		return "", nil, malformed("expected three parts joined by plus signs")
	}
	if err := checkNoteName(parts[0]); err != nil {
		return "", nil, malformed("%w", err)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	switch {
	case err != nil || base64.StdEncoding.EncodeToString(key) != parts[2]:
		return "", nil, malformed("the key is not base64")
	case len(key) != 1+ed25519.PublicKeySize:
		return "", nil, malformed("the key has %d bytes, expected %d", len(key), 1+ed25519.PublicKeySize)
	case key[0] != alg:
		return "", nil, malformed("signature type is 0x%02x, expected 0x%02x", key[0], alg)
	}
	if id := fmt.Sprintf("%08x", keyID(parts[0], key)); id != parts[1] {
		return "", nil, malformed("key id is %q, that of this name and key is %q", parts[1], id)
	}
	pub := ed25519.PublicKey(key[1:])
	if err := CheckEd25519(pub); err != nil {
		return "", nil, fmt.Errorf("verifier key %q: %w", text, err)
	}
	return parts[0], pub, nil
}

// checkNoteName insists on a name that a note can carry (C2SP signed-note,
// section "Format"): not empty, no spaces, no plus, nothing that breaks a
// line or cannot be seen.
func checkNoteName(name string) error {
	if name == "" || !utf8.ValidString(name) {
		return fmt.Errorf("key name %q is empty or not UTF-8", name)
	}
	for _, r := range name {
		if r == '+' || r <= ' ' || r > '~' {
			return fmt.Errorf("key name %q contains %q", name, r)
		}
	}
	return nil
}

// noteKey is a note signer or verifier; which methods apply depends on how it
// was made, so it is handed out only through the functions below.
type noteKey struct {
	name string
	id   uint32
}

func (k noteKey) Name() string    { return k.name }
func (k noteKey) KeyHash() uint32 { return k.id }

func newNoteKey(pub ed25519.PublicKey, name string, alg byte) (noteKey, error) {
	if err := checkNoteName(name); err != nil {
		return noteKey{}, refusal.Newf(refusal.Malformed, "%w", err)
	}
	if err := CheckEd25519(pub); err != nil {
		return noteKey{}, fmt.Errorf("key of %s: %w", name, err)
	}
	return noteKey{name, keyID(name, append([]byte{alg}, pub...))}, nil
}

type noteSigner struct {
	noteKey
	sign func(msg []byte) ([]byte, error)
}

func (s noteSigner) Sign(msg []byte) ([]byte, error) { return s.sign(msg) }

type noteVerifier struct {
	noteKey
	verify func(msg, sig []byte) bool
}

func (v noteVerifier) Verify(msg, sig []byte) bool { return v.verify(msg, sig) }

// NoteSigner signs notes as name with Ed25519 (signature type 0x01).
func NoteSigner(k *Key, name string) (note.Signer, error) {
	pub, _ := k.Public().Ed25519()
	nk, err := newNoteKey(pub, name, algEd25519)
	if err != nil {
		return nil, err
	}
	return noteSigner{nk, func(msg []byte) ([]byte, error) { return ed25519.Sign(k.private, msg), nil }}, nil
}

// NoteVerifier verifies notes signed by name with Ed25519. Unlike
// note.NewVerifier it refuses weak keys.
func NoteVerifier(pub ed25519.PublicKey, name string) (note.Verifier, error) {
	nk, err := newNoteKey(pub, name, algEd25519)
	if err != nil {
		return nil, err
	}
	return noteVerifier{nk, func(msg, sig []byte) bool { return ed25519.Verify(pub, msg, sig) }}, nil
}

// cosigned is the message under a cosignature (C2SP tlog-cosignature, section
// "Ed25519 signed message"). It does not contain the cosigner's name, so a key
// must not be used by two cosigners.
func cosigned(seconds uint64, text []byte) []byte {
	head := "cosignature/v1\ntime " + strconv.FormatUint(seconds, 10) + "\n"
	return append([]byte(head), text...)
}

// CosignatureSigner cosigns checkpoints as name, dated by now.
func CosignatureSigner(k *Key, name string, now func() time.Time) (note.Signer, error) {
	pub, _ := k.Public().Ed25519()
	nk, err := newNoteKey(pub, name, algCosignature)
	if err != nil {
		return nil, err
	}
	sign := func(text []byte) ([]byte, error) {
		seconds := now().Unix()
		if seconds <= 0 {
			return nil, refusal.Newf(refusal.Failed, "cosigning: the clock says %s", now().UTC().Format(time.RFC3339))
		}
		sig := binary.BigEndian.AppendUint64(nil, uint64(seconds))
		return append(sig, ed25519.Sign(k.private, cosigned(uint64(seconds), text))...), nil
	}
	return noteSigner{nk, sign}, nil
}

// CosignatureVerifier makes the verifier of a key in the form that
// [CosignatureVKey] writes. It verifies whatever time a cosignature claims;
// [CosignatureTime] tells which.
func CosignatureVerifier(text string) (note.Verifier, error) {
	name, pub, err := parseVKey(text, algCosignature)
	if err != nil {
		return nil, err
	}
	nk, err := newNoteKey(pub, name, algCosignature)
	if err != nil {
		return nil, err
	}
	verify := func(text, sig []byte) bool {
		seconds, ok := cosignatureSeconds(sig)
		return ok && ed25519.Verify(pub, cosigned(seconds, text), sig[8:])
	}
	return noteVerifier{nk, verify}, nil
}

// WitnessKey is the public key in the form that [CosignatureVKey] writes. Who
// counts witnesses counts these: a name costs nothing.
func WitnessKey(text string) (ed25519.PublicKey, error) {
	_, pub, err := parseVKey(text, algCosignature)
	return pub, err
}

// cosignatureSeconds reads the timestamp. The specification allows no time
// beyond 2^63 - 1.
func cosignatureSeconds(sig []byte) (uint64, bool) {
	if len(sig) != cosignatureSize {
		return 0, false
	}
	seconds := binary.BigEndian.Uint64(sig)
	return seconds, seconds <= math.MaxInt64
}

// CosignatureTime returns the time that a cosignature claims. It means
// something only for a signature that note.Open verified.
func CosignatureTime(sig note.Signature) (time.Time, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(sig.Base64)
	if err != nil || len(raw) != 4+cosignatureSize {
		return time.Time{}, refusal.Newf(refusal.Malformed, "cosignature of %q: expected base64 of %d bytes", sig.Name, 4+cosignatureSize)
	}
	seconds, ok := cosignatureSeconds(raw[4:])
	if !ok {
		return time.Time{}, refusal.Newf(refusal.Malformed, "cosignature of %q: its time is out of range", sig.Name)
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}
