package seal

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// minRSABits is the shortest RSA modulus accepted. 3072 bits give about 128
// bits of strength (NIST SP 800-57 part 1, table 2), as the elliptic curves
// here do, and it is what ssh-keygen makes unless told otherwise since 8.0.
const minRSABits = 3072

// minRSAExponent is the smallest public exponent of FIPS 186-5 (2^16 < e).
const minRSAExponent = 65537

const strongKeyHint = `make a key with "ssh-keygen -t ed25519"`

// checkKeyType refuses every type name that is not on the list, before the
// library is asked to decode such a key.
func checkKeyType(typ string) error {
	switch typ {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA:
		return nil
	case "ssh-dss":
		return refusal.Newf(refusal.WeakKey, "DSA keys are refused").WithHint(strongKeyHint)
	}
	if strings.Contains(typ, "-cert-v01@") {
		return refusal.Newf(refusal.Malformed, "%s is a certificate, expected a plain public key", typ).
			WithHint("list the authority that signed it on a cert-authority line")
	}
	return refusal.Newf(refusal.WeakKey, "key type %q is not accepted", typ).WithHint(strongKeyHint)
}

// checkStrength refuses keys under which a signature would prove little.
func checkStrength(key ssh.PublicKey) error {
	if err := checkKeyType(key.Type()); err != nil {
		return err
	}
	switch pub := key.(ssh.CryptoPublicKey).CryptoPublicKey().(type) {
	case ed25519.PublicKey:
		return CheckEd25519(pub)
	case *ecdsa.PublicKey:
		// The decoder has checked that the point is on the curve. None of the
		// three curves has a cofactor, so there are no small-order points.
		switch pub.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
		return refusal.Newf(refusal.WeakKey, "ECDSA curve %s is not accepted", pub.Curve.Params().Name).WithHint(strongKeyHint)
	case *rsa.PublicKey:
		return checkRSA(pub)
	}
	return refusal.Newf(refusal.WeakKey, "key type %q is not accepted", key.Type()).WithHint(strongKeyHint)
}

func checkRSA(pub *rsa.PublicKey) error {
	switch {
	case pub.N.BitLen() < minRSABits:
		return refusal.Newf(refusal.WeakKey, "RSA key has %d bits, needs at least %d", pub.N.BitLen(), minRSABits).WithHint(strongKeyHint)
	case pub.N.Sign() <= 0 || pub.N.Bit(0) == 0:
		return refusal.Newf(refusal.WeakKey, "RSA modulus is negative or even").WithHint(strongKeyHint)
	case pub.E < minRSAExponent || pub.E%2 == 0:
		return refusal.Newf(refusal.WeakKey, "RSA exponent is %d, needs to be odd and at least %d", pub.E, minRSAExponent).WithHint(strongKeyHint)
	}
	return nil
}

// smallOrderY are the y coordinates of the eight points of small order on the
// curve, little-endian. The sign bit of x is not part of them: each stands for
// both points with that y, and for the spellings of a point with x = 0 that
// set the sign bit all the same.
var smallOrderY = [5][32]byte{
	unhex("0000000000000000000000000000000000000000000000000000000000000000"), // order 4
	unhex("0100000000000000000000000000000000000000000000000000000000000000"), // order 1
	unhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), // order 2
	unhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), // order 8
	unhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), // order 8
}

func unhex(s string) (b [32]byte) {
	if n, err := hex.Decode(b[:], []byte(s)); n != len(b) || err != nil {
		panic("seal: bad constant " + s)
	}
	return b
}

// CheckEd25519 refuses Ed25519 public keys of small order, under which one
// signature fits many messages, and keys whose y coordinate is not reduced
// (RFC 8032 section 5.1.3 step 1), which are second spellings of other keys.
// crypto/ed25519 accepts both.
func CheckEd25519(pub ed25519.PublicKey) error {
	if len(pub) != ed25519.PublicKeySize {
		return refusal.Newf(refusal.Malformed, "Ed25519 public key has %d bytes, expected %d", len(pub), ed25519.PublicKeySize)
	}
	var y [32]byte
	copy(y[:], pub)
	y[31] &= 0x7f

	if !belowPrime(y) {
		return refusal.Newf(refusal.WeakKey, "Ed25519 public key is not in its canonical encoding").WithHint(strongKeyHint)
	}
	for _, small := range smallOrderY {
		if y == small {
			return refusal.Newf(refusal.WeakKey, "Ed25519 public key is of small order").WithHint(strongKeyHint)
		}
	}
	return nil
}

// belowPrime reports whether the little-endian y is less than 2^255 - 19.
// Since y < 2^255, it is not exactly when the upper 31 bytes are all ones and
// the lowest byte is at least 0xed.
func belowPrime(y [32]byte) bool {
	ones := bytes.Repeat([]byte{0xff}, 30)
	return y[0] < 0xed || y[31] != 0x7f || !bytes.Equal(y[1:31], ones)
}
