package openpgp

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha1" // names keys of version 4; nothing is believed for it
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"
)

// Algorithms, RFC 9580 section 9.1.
const (
	algRSA          = 1
	algECDSA        = 19
	algEdDSALegacy  = 22 // Ed25519 in keys of version 4, what gpg makes
	algEd25519      = 27
	maxRSABits      = 16384
	maxRSAExponent  = 1<<24 - 1 // as OpenSSH
	maxSigningCount = 8         // subkeys of one key
)

// Object identifiers of curves, RFC 9580 section 9.2.
const (
	oidP256    = "\x2A\x86\x48\xCE\x3D\x03\x01\x07"
	oidP384    = "\x2B\x81\x04\x00\x22"
	oidEd25519 = "\x2B\x06\x01\x04\x01\xDA\x47\x0F\x01"
)

// A PublicKey is one key of an OpenPGP key: the primary or a subkey.
type PublicKey struct {
	body        []byte // of the packet
	version     int
	algorithm   int
	public      crypto.PublicKey
	fingerprint []byte
}

// Fingerprint is the full fingerprint in upper-case hex, as gpg prints it.
func (k *PublicKey) Fingerprint() string { return fmt.Sprintf("%X", k.fingerprint) }

// Public is the bare key: an ed25519.PublicKey, *ecdsa.PublicKey or
// *rsa.PublicKey.
func (k *PublicKey) Public() crypto.PublicKey { return k.public }

// keyID is what older signatures name a key by.
func (k *PublicKey) keyID() []byte {
	if k.version == 6 {
		return k.fingerprint[:8]
	}
	return k.fingerprint[len(k.fingerprint)-8:]
}

// parsePublicKey reads the body of a key packet, RFC 9580 section 5.5.2.
func parsePublicKey(body []byte) (*PublicKey, error) {
	r := &reader{data: body}
	k := &PublicKey{body: body, version: r.number(1)}
	if k.version != 4 && k.version != 6 {
		return nil, fmt.Errorf("key of version %d, expected 4 or 6", k.version)
	}
	r.bytes(4) // creation time: a verifier cannot check it
	k.algorithm = r.number(1)
	if k.version == 6 && r.number(4) != len(r.data) {
		return nil, fmt.Errorf("key material of another length than it says")
	}
	if err := k.parseMaterial(r); err != nil {
		return nil, err
	}
	if r.failed || len(r.data) != 0 {
		return nil, fmt.Errorf("key packet is cut off, has bytes after the key, or a number in a second spelling")
	}
	if k.version == 6 {
		sum := sha256.Sum256(k.hashed())
		k.fingerprint = sum[:]
	} else {
		sum := sha1.Sum(k.hashed())
		k.fingerprint = sum[:]
	}
	return k, nil
}

func (k *PublicKey) parseMaterial(r *reader) error {
	switch {
	case k.algorithm == algRSA:
		n, e := r.integer(), r.integer()
		if bits := new(big.Int).SetBytes(n).BitLen(); bits > maxRSABits || len(e) > 3 {
			return fmt.Errorf("RSA key of %d bits with an exponent of %d bytes, at most %d and 3 are read", bits, len(e), maxRSABits)
		}
		k.public = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	case k.algorithm == algECDSA:
		var curve elliptic.Curve
		switch oid := string(r.bytes(r.number(1))); oid {
		case oidP256:
			curve = elliptic.P256()
		case oidP384:
			curve = elliptic.P384()
		default:
			return fmt.Errorf("ECDSA curve %X is not accepted, expected NIST P-256 or P-384", oid)
		}
		point, err := ecdsa.ParseUncompressedPublicKey(curve, r.integer())
		if err != nil {
			return fmt.Errorf("ECDSA key: %v", err)
		}
		k.public = point
	case k.algorithm == algEdDSALegacy && k.version == 4:
		if oid := string(r.bytes(r.number(1))); oid != oidEd25519 {
			return fmt.Errorf("EdDSA curve %X is not accepted, expected Ed25519", oid)
		}
		point := r.integer()
		if len(point) != 1+ed25519.PublicKeySize || point[0] != 0x40 {
			return fmt.Errorf("Ed25519 key of %d bytes, expected 0x40 and 32", len(point))
		}
		k.public = ed25519.PublicKey(bytes.Clone(point[1:]))
	case k.algorithm == algEd25519:
		k.public = ed25519.PublicKey(bytes.Clone(r.bytes(ed25519.PublicKeySize)))
	default:
		return fmt.Errorf("key algorithm %d is not accepted, expected RSA, ECDSA or Ed25519", k.algorithm)
	}
	return nil
}

// hashed is the key as fingerprints and signatures cover it, RFC 9580 sections
// 5.2.4 and 5.5.4.
func (k *PublicKey) hashed() []byte {
	if k.version == 6 {
		return append(binary.BigEndian.AppendUint32([]byte{0x9B}, uint32(len(k.body))), k.body...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{0x99}, uint16(len(k.body))), k.body...)
}
