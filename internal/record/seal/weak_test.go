package seal

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// The curve of RFC 8032 section 5.1, in affine coordinates and slow, so that
// the list of weak points is derived here and not copied from anywhere.
var (
	fieldP = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	curveD = mod(new(big.Int).Mul(big.NewInt(-121665), new(big.Int).ModInverse(big.NewInt(121666), fieldP)))
)

func mod(x *big.Int) *big.Int      { return x.Mod(x, fieldP) }
func mul(x, y *big.Int) *big.Int   { return mod(new(big.Int).Mul(x, y)) }
func add(x, y *big.Int) *big.Int   { return mod(new(big.Int).Add(x, y)) }
func neg(x *big.Int) *big.Int      { return mod(new(big.Int).Neg(x)) }
func inverse(x *big.Int) *big.Int  { return new(big.Int).ModInverse(x, fieldP) }
func quo(x, y *big.Int) *big.Int   { return mul(x, inverse(y)) }
func isZero(x *big.Int) bool       { return x.Sign() == 0 }
func same(x, y *big.Int) bool      { return x.Cmp(y) == 0 }
func sqrt(x *big.Int) *big.Int     { return new(big.Int).ModSqrt(x, fieldP) }
func (p point) equal(q point) bool { return same(p.x, q.x) && same(p.y, q.y) }

type point struct{ x, y *big.Int }

// plus is the addition law of section 5.1.4 in affine form.
func (p point) plus(q point) point {
	k := mul(curveD, mul(mul(p.x, q.x), mul(p.y, q.y)))
	one := big.NewInt(1)
	return point{
		quo(add(mul(p.x, q.y), mul(q.x, p.y)), add(one, k)),
		quo(add(mul(p.y, q.y), mul(p.x, q.x)), add(one, neg(k))),
	}
}

// encodings returns every 32-byte string that decodes to p when the decoder
// reduces y and ignores the sign of x = 0: one or two spellings of y, and both
// signs if x is zero.
func (p point) encodings() (all [][]byte) {
	for y := new(big.Int).Set(p.y); y.BitLen() <= 255; y.Add(y, fieldP) {
		for sign := range uint(2) {
			if !isZero(p.x) && p.x.Bit(0) != sign {
				continue
			}
			b := y.FillBytes(make([]byte, 32))
			slices.Reverse(b)
			b[31] |= byte(sign << 7)
			all = append(all, b)
		}
	}
	return all
}

// smallOrderPoints finds the eight points whose eightfold is the identity.
func smallOrderPoints(t *testing.T) []point {
	zero, one := big.NewInt(0), big.NewInt(1)
	identity := point{zero, one}
	i := sqrt(neg(one))

	points := []point{identity, {zero, neg(one)}, {i, zero}, {neg(i), zero}}
	for _, sign := range []*big.Int{one, neg(one)} {
		// Doubling a point of order 8 gives y = 0, so y^2 + x^2 = 0. Put
		// x^2 = -y^2 into the curve's equation: d y^4 + 2 y^2 - 1 = 0. What
		// the algebra gives is checked below.
		root := sqrt(add(one, curveD))
		if root == nil {
			t.Fatal("1 + d is not a square")
		}
		y2 := quo(add(neg(one), mul(sign, root)), curveD)
		y := sqrt(y2)
		if y == nil {
			continue
		}
		x := sqrt(neg(y2))
		points = append(points, point{x, y}, point{neg(x), y}, point{x, neg(y)}, point{neg(x), neg(y)})
	}
	for _, p := range points {
		lhs := add(neg(mul(p.x, p.x)), mul(p.y, p.y))
		rhs := add(one, mul(curveD, mul(mul(p.x, p.x), mul(p.y, p.y))))
		if !same(lhs, rhs) {
			t.Fatalf("(%v, %v) is not on the curve", p.x, p.y)
		}
		twice := p.plus(p)
		eightfold := twice.plus(twice)
		eightfold = eightfold.plus(eightfold)
		if !eightfold.equal(identity) {
			t.Fatalf("(%v, %v) is not of small order", p.x, p.y)
		}
	}
	if len(points) != 8 {
		t.Fatalf("found %d points of small order, expected 8", len(points))
	}
	return points
}

func TestEverySpellingOfASmallOrderPointIsRefused(t *testing.T) {
	n := 0
	for _, p := range smallOrderPoints(t) {
		for _, enc := range p.encodings() {
			n++
			err := CheckEd25519(enc)
			refused(t, err, refusal.WeakKey, "Ed25519 public key is")
			if _, err := ParsePublicKey(authorizedLine(enc)); !refusal.Is(err, refusal.WeakKey) {
				t.Errorf("%x: ParsePublicKey: %v", enc, err)
			}
			if _, err := NewPublicKey(enc); !refusal.Is(err, refusal.WeakKey) {
				t.Errorf("%x: NewPublicKey: %v", enc, err)
			}
		}
	}
	// Eight points; y of 0 and 1 have a second spelling each, and x = 0 two
	// signs: 14 encodings, the number in ed25519-speccheck and libsodium.
	if n != 14 {
		t.Errorf("tried %d encodings, expected 14", n)
	}
}

// authorizedLine encodes raw bytes as an ssh-ed25519 key, whatever they are.
func authorizedLine(raw []byte) []byte {
	wire := ssh.Marshal(struct {
		Name string
		Key  []byte
	}{ssh.KeyAlgoED25519, raw})
	return []byte("ssh-ed25519 " + base64.StdEncoding.EncodeToString(wire))
}

func TestEd25519KeysAtOrAboveThePrimeAreRefused(t *testing.T) {
	for add := int64(-2); add < 19; add++ {
		y := new(big.Int).Add(fieldP, big.NewInt(add))
		raw := y.FillBytes(make([]byte, 32))
		slices.Reverse(raw)
		for _, sign := range []byte{0, 0x80} {
			key := slices.Clone(raw)
			key[31] |= sign
			err := CheckEd25519(key)
			switch {
			case add == -2 && err != nil:
				t.Errorf("p-2 is canonical and not of small order: %v", err)
			case add == -1:
				refused(t, err, refusal.WeakKey, "of small order")
			case add >= 0:
				refused(t, err, refusal.WeakKey, "not in its canonical encoding")
			}
		}
	}
	refused(t, CheckEd25519(make([]byte, 31)), refusal.Malformed, "31 bytes")
}

// TestOneSignatureForEveryMessageIsRefused makes the forgery that the check
// is for: under the identity as public key, R = identity and S = 0 verify for
// every message.
func TestOneSignatureForEveryMessageIsRefused(t *testing.T) {
	identity := make([]byte, 32)
	identity[0] = 1
	forged := append(slices.Clone(identity), make([]byte, 32)...)
	for _, m := range []string{"one message", "quite another"} {
		if !ed25519.Verify(identity, []byte(m), forged) {
			t.Fatal("crypto/ed25519 refuses the forgery by itself now; this test no longer shows anything")
		}
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(authorizedLine(identity))
	if err != nil {
		t.Fatal(err)
	}
	sig := sshsig.Signature{
		Version: 1, PublicKey: key, Namespace: string(NamespaceCase), HashAlgorithm: sshsig.HashSHA512,
		Signature: &ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: forged},
	}
	_, err = team(t).Verify(armor(sig.Marshal()), []byte("any message"), NamespaceCase, noon)
	refused(t, err, refusal.WeakKey, "small order")

	_, err = ParseSigners("signers", []byte(signersText("mallory "+string(authorizedLine(identity)))))
	refused(t, err, refusal.WeakKey, "signers line 3: Ed25519 public key is of small order")

	// The same point inside a security key.
	sk := base64.StdEncoding.EncodeToString(ssh.Marshal(struct {
		Name string
		Key  []byte
		App  string
	}{ssh.KeyAlgoSKED25519, identity, "ssh:"}))
	_, err = ParsePublicKey([]byte("sk-ssh-ed25519@openssh.com " + sk))
	refused(t, err, refusal.WeakKey, "small order")
}

func rsaLine(t *testing.T, n *big.Int, e int) []byte {
	t.Helper()
	key, err := ssh.NewPublicKey(&rsa.PublicKey{N: n, E: e})
	if err != nil {
		t.Fatal(err)
	}
	return ssh.MarshalAuthorizedKey(key)
}

func TestWeakKeysOfOtherKindsAreRefused(t *testing.T) {
	odd := func(bits uint) *big.Int {
		n := new(big.Int).Lsh(big.NewInt(1), bits)
		return n.Sub(n, big.NewInt(1))
	}
	even := new(big.Int).Sub(odd(3072), big.NewInt(1))
	dsaKey := ssh.Marshal(struct {
		Name       string
		P, Q, G, Y *big.Int
	}{"ssh-dss", odd(1024), odd(160), big.NewInt(2), big.NewInt(4)})
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := p224.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	p224Key := ssh.Marshal(struct {
		Name, Curve string
		Point       []byte
	}{"ecdsa-sha2-nistp224", "nistp224", point})

	tests := []struct {
		name    string
		line    []byte
		refusal refusal.Name // empty when accepted
		text    string
	}{
		{"RSA of 3072 bits", rsaLine(t, odd(3072), 65537), "", ""},
		{"RSA of 3071 bits", rsaLine(t, odd(3071), 65537), refusal.WeakKey, "RSA key has 3071 bits, needs at least 3072"},
		{"RSA of 2048 bits", rsaLine(t, odd(2048), 65537), refusal.WeakKey, "RSA key has 2048 bits"},
		{"RSA with exponent 3", rsaLine(t, odd(3072), 3), refusal.WeakKey, "RSA exponent is 3"},
		{"RSA with exponent 65535", rsaLine(t, odd(3072), 65535), refusal.WeakKey, "RSA exponent is 65535"},
		{"RSA with an even modulus", rsaLine(t, even, 65537), refusal.WeakKey, "negative or even"},
		{"DSA", []byte("ssh-dss " + base64.StdEncoding.EncodeToString(dsaKey)), refusal.WeakKey, "DSA keys are refused"},
		{"ECDSA on P-224", []byte("ecdsa-sha2-nistp224 " + base64.StdEncoding.EncodeToString(p224Key)), refusal.WeakKey, `"ecdsa-sha2-nistp224" is not accepted`},
		{"ML-DSA", []byte("ssh-mldsa-44 AAAA"), refusal.WeakKey, `"ssh-mldsa-44" is not accepted`},
		{"labelled as another kind", []byte("ssh-ed25519 " + string(rsaLine(t, odd(3072), 65537)[len("ssh-rsa "):])), refusal.Malformed, "labelled ssh-ed25519 and encodes a ssh-rsa key"},
		{"a certificate", []byte("ssh-ed25519-cert-v01@openssh.com AAAA"), refusal.Malformed, "is a certificate"},
		{"not base64", []byte("ssh-ed25519 AA*A"), refusal.Malformed, "not base64"},
		{"trailing bytes", append(authorizedLine(testKey(t, "alice").Ed25519()[32:]), []byte("AAAA")...), refusal.Malformed, "cannot be decoded"},
		{"no key", []byte("ssh-ed25519\n"), refusal.Malformed, "found 1 fields"},
		{"two lines", []byte("ssh-ed25519 AAAA\nssh-ed25519 AAAA\n"), refusal.Malformed, "more than one line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParsePublicKey(tt.line)
			if tt.refusal == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refused(t, err, tt.refusal, tt.text)
		})
	}
}

func TestRSAKeyWithPaddedNumbersIsNotCanonical(t *testing.T) {
	n := new(big.Int).Lsh(big.NewInt(1), 3072)
	n.Sub(n, big.NewInt(1))
	padded := ssh.Marshal(struct {
		Name string
		E, N []byte
	}{ssh.KeyAlgoRSA, []byte{0, 0, 1, 0, 1}, append([]byte{0, 0}, n.Bytes()...)})
	_, err := ParsePublicKey([]byte("ssh-rsa " + base64.StdEncoding.EncodeToString(padded)))
	refused(t, err, refusal.Malformed, "")
}

func TestKeyHasOneBase64Spelling(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// 104 bytes leave two bits of the last character unused, so it is one of
	// every fourth letter and the next letter decodes to the same bytes.
	text := []byte(keyText(mustSigner(t, key)))
	last := len(text) - 2
	if text[last+1] != '=' {
		t.Fatalf("%s does not end in one =", text)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text[last] = alphabet[strings.IndexByte(alphabet, text[last])+1]
	_, err = ParsePublicKey(text)
	refused(t, err, refusal.Malformed, "not base64")
}

func TestFingerprintIsThatOfSSHKeygen(t *testing.T) {
	// ssh-keygen -lf on the key of RFC 8032 section 7.1 test 1.
	raw, _ := hex.DecodeString("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
	key, err := NewPublicKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"
	if key.String() != line {
		t.Errorf("got %s", key)
	}
	const want = "SHA256:bbXpuKG6zhzdmnxq256TlqzFBzRl2f6OOg722cYNbU8"
	if got := key.Fingerprint(); got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
	var none PublicKey
	if none.Equal(none) || none.String() != "" || none.Fingerprint() != "" || none.Marshal() != nil {
		t.Error("the zero value passes for a key")
	}
}
