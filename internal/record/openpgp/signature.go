package openpgp

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // links the hashes
	_ "crypto/sha512"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
)

// Types of signatures, RFC 9580 section 5.2.1.
const (
	typeBinary      = 0x00
	typeCertGeneric = 0x10
	typeCertLast    = 0x13
	typeBinding     = 0x18
	typeBack        = 0x19
	typeDirect      = 0x1F
	typeRevokeKey   = 0x20
	typeRevokeSub   = 0x28
	typeRevokeCert  = 0x30
)

// Types of subpackets, RFC 9580 section 5.2.3.7.
const (
	subCreated         = 2
	subExpires         = 3
	subKeyExpires      = 9
	subIssuerID        = 16
	subNotation        = 20
	subKeyFlags        = 27
	subSignerID        = 28
	subEmbedded        = 32
	subIssuer          = 33
	flagSign      byte = 0x02
)

// A subpacket is a statement inside a signature.
type subpacket struct {
	typ      int
	critical bool
	data     []byte
}

// signature is a signature of any type as it stands in a packet.
type signature struct {
	version, typ, algorithm int
	hash                    crypto.Hash
	hashed, unhashed        []subpacket
	covered                 []byte // from the version to the hashed subpackets
	tag, salt               []byte // the beginning of the digest; version 6
	numbers                 [][]byte
}

// parseSignatureBody reads the body of a signature packet, RFC 9580 sections
// 5.2.3 and 5.2.2.
func parseSignatureBody(body []byte) (*signature, error) {
	r := &reader{data: body}
	s := &signature{version: r.number(1), typ: r.number(1), algorithm: r.number(1)}
	if s.version != 4 && s.version != 6 {
		return nil, fmt.Errorf("signature of version %d, expected 4 or 6", s.version)
	}
	hashID := r.number(1)
	saltSize := 0
	switch hashID {
	case 8:
		s.hash, saltSize = crypto.SHA256, 16
	case 9:
		s.hash, saltSize = crypto.SHA384, 24
	case 10:
		s.hash, saltSize = crypto.SHA512, 32
	default:
		return nil, fmt.Errorf("hash algorithm %d is not accepted, expected SHA-256, SHA-384 or SHA-512", hashID)
	}
	width := 2
	if s.version == 6 {
		width = 4
	}
	var err error
	if s.hashed, err = splitSubpackets(r.bytes(r.number(width))); err != nil {
		return nil, err
	}
	s.covered = body[:len(body)-len(r.data)]
	if s.unhashed, err = splitSubpackets(r.bytes(r.number(width))); err != nil {
		return nil, err
	}
	s.tag = r.bytes(2)
	if s.version == 6 {
		if n := r.number(1); n != saltSize {
			return nil, fmt.Errorf("salt of %d bytes, expected %d", n, saltSize)
		}
		s.salt = r.bytes(saltSize)
	}
	switch s.algorithm {
	case algRSA:
		s.numbers = [][]byte{r.integer()}
	case algECDSA, algEdDSALegacy:
		s.numbers = [][]byte{r.integer(), r.integer()}
	case algEd25519:
		s.numbers = [][]byte{r.bytes(ed25519.SignatureSize)}
	default:
		return nil, fmt.Errorf("signature algorithm %d is not accepted, expected RSA, ECDSA or Ed25519", s.algorithm)
	}
	if r.failed || len(r.data) != 0 {
		return nil, fmt.Errorf("signature packet is cut off, has bytes after the signature, or a number in a second spelling")
	}
	return s, nil
}

func splitSubpackets(area []byte) ([]subpacket, error) {
	var found []subpacket
	for len(area) > 0 {
		n, rest, err := cutLength(area)
		if err != nil || n < 1 || n > len(rest) {
			return nil, fmt.Errorf("a subpacket is cut off")
		}
		if spelled := appendLength(nil, n); !bytes.Equal(area[:len(spelled)], spelled) {
			return nil, fmt.Errorf("a subpacket's length is not in its shortest form")
		}
		found = append(found, subpacket{int(rest[0] & 0x7F), rest[0]&0x80 != 0, rest[1:n]})
		area = rest[n:]
	}
	return found, nil
}

// find returns the only hashed subpacket of a type.
func (s *signature) find(typ int) ([]byte, bool) {
	var found [][]byte
	for _, p := range s.hashed {
		if p.typ == typ {
			found = append(found, p.data)
		}
	}
	if len(found) != 1 {
		return nil, false
	}
	return found[0], true
}

// by reports whether the signature says that the key made it.
func (s *signature) by(k *PublicKey) bool {
	if issuer, ok := s.find(subIssuer); ok {
		return bytes.Equal(issuer, append([]byte{byte(k.version)}, k.fingerprint...))
	}
	return slices.ContainsFunc(slices.Concat(s.hashed, s.unhashed), func(p subpacket) bool {
		return p.typ == subIssuerID && bytes.Equal(p.data, k.keyID())
	})
}

// verify checks the signature of a key over what is covered.
func (s *signature) verify(k *PublicKey, covered ...[]byte) error {
	if s.version != k.version || s.algorithm != k.algorithm {
		return fmt.Errorf("signature of version %d and algorithm %d by a key of version %d and algorithm %d", s.version, s.algorithm, k.version, k.algorithm)
	}
	h := s.hash.New()
	h.Write(s.salt)
	for _, part := range covered {
		h.Write(part)
	}
	h.Write(s.covered)
	h.Write(binary.BigEndian.AppendUint32([]byte{byte(s.version), 0xFF}, uint32(len(s.covered))))
	digest := h.Sum(nil)
	if !bytes.Equal(digest[:2], s.tag) || !s.fits(k, digest) {
		return fmt.Errorf("the signature does not match what it should cover")
	}
	return nil
}

func (s *signature) fits(k *PublicKey, digest []byte) bool {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return len(s.numbers[0]) <= public.Size() && rsa.VerifyPKCS1v15(public, s.hash, digest, leftPad(s.numbers[0], public.Size())) == nil
	case *ecdsa.PublicKey:
		return ecdsa.Verify(public, digest, new(big.Int).SetBytes(s.numbers[0]), new(big.Int).SetBytes(s.numbers[1]))
	case ed25519.PublicKey:
		sig := s.numbers[0]
		if s.algorithm == algEdDSALegacy {
			sig = slices.Concat(leftPad(s.numbers[0], 32), leftPad(s.numbers[1], 32))
		}
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(public, digest, sig)
	}
	return false
}

// A Signature is one detached signature over bytes. It is in its only spelling
// and nothing more is known of it until [Key.Verify].
type Signature struct {
	packet packet
	signature
	issuer []byte
}

// ParseSignature reads one signature packet, in either header format, and nothing
// after it. Only signatures over bytes as they are (type 0x00) are read, with no
// more in them than gpg and others write, so that nothing that the key did not
// sign can be put in or changed.
func ParseSignature(data []byte) (*Signature, error) {
	p, rest, err := cutPacket(data)
	switch {
	case err != nil:
		return nil, err
	case p.tag != tagSignature:
		return nil, fmt.Errorf("packet of type %d, expected a signature", p.tag)
	case len(rest) > 0:
		return nil, fmt.Errorf("%d bytes after the signature: one file holds one signature", len(rest))
	}
	parsed, err := parseSignatureBody(bytes.Clone(p.body))
	if err != nil {
		return nil, err
	}
	s := &Signature{packet: packet{tagSignature, bytes.Clone(p.body)}, signature: *parsed}
	return s, s.checkDetached()
}

func (s *Signature) checkDetached() error {
	if s.typ != typeBinary {
		return fmt.Errorf("signature of type 0x%02x, expected 0x00 (over the bytes as they are, not as text)", s.typ)
	}
	for _, p := range s.hashed {
		switch p.typ {
		case subCreated, subIssuer, subIssuerID, subSignerID, subNotation:
			if p.typ == subNotation && p.critical {
				return fmt.Errorf("a critical notation, and none is known here")
			}
		case subExpires:
			return fmt.Errorf("the signature says that it expires; sign without an expiry (gpg --default-sig-expire 0)")
		default:
			return fmt.Errorf("subpacket of type %d in the signed part, which a signature over a file has no need of", p.typ)
		}
	}
	if created, ok := s.find(subCreated); !ok || len(created) != 4 {
		return fmt.Errorf("no creation time, or more than one")
	}
	issuer, ok := s.find(subIssuer)
	if !ok || len(issuer) != 1+20 && len(issuer) != 1+32 || int(issuer[0]) != s.version {
		return fmt.Errorf("the signed part does not name the key by its fingerprint (gpg does since 2.1.16)")
	}
	s.issuer = issuer[1:]
	// A stranger could change what is not signed. gpg puts the key's
	// number there, which the fingerprint gives; nothing else is let through.
	keyID := s.issuer[:8]
	if s.version == 4 {
		keyID = s.issuer[len(s.issuer)-8:]
	}
	if len(s.unhashed) > 1 || len(s.unhashed) == 1 && (s.unhashed[0].typ != subIssuerID || s.unhashed[0].critical || !bytes.Equal(s.unhashed[0].data, keyID)) {
		return fmt.Errorf("the unsigned part has more in it than the key's own number")
	}
	return nil
}

// Issuer is the fingerprint of the key or subkey that the signature says made it,
// in upper-case hex.
func (s *Signature) Issuer() string { return fmt.Sprintf("%X", s.issuer) }

// Bytes is the signature in its only spelling.
func (s *Signature) Bytes() []byte { return s.packet.encode() }
