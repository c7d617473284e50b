package seal

import (
	"math/big"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
)

// base58Alphabet is Bitcoin's: no 0, O, I and l, which people misread.
const base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// Digits are worked on in groups of ten, the most that a machine word holds:
// dividing a large number digit by digit takes longer than an Ed25519 signature.
const (
	base58Digits = 10
	base58Group  = 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58
)

// maxBase58 bounds a text, since decoding takes quadratic time. The longest that
// we read is a signature, of 88 characters.
const maxBase58 = 256

// EncodeMultibase writes bytes as multibase base58-btc: "z" and base58, in which
// each zero byte at the front is a 1.
func EncodeMultibase(data []byte) string {
	text := make([]byte, 0, 2+len(data)*138/100)
	n, base, group := new(big.Int).SetBytes(data), big.NewInt(base58Group), new(big.Int)
	for n.Sign() > 0 {
		n.QuoRem(n, base, group)
		// The last group, which comes to stand first, has no zeros in front.
		for value, i := group.Uint64(), 0; i < base58Digits && (value > 0 || n.Sign() > 0); i++ {
			text = append(text, base58Alphabet[value%58])
			value /= 58
		}
	}
	for _, b := range data {
		if b != 0 {
			break
		}
		text = append(text, base58Alphabet[0])
	}
	text = append(text, 'z')
	slices.Reverse(text)
	return string(text)
}

// DecodeMultibase reads what [EncodeMultibase] writes. Other bases are refused:
// the formats that we read allow none.
func DecodeMultibase(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "z")
	if !ok {
		return nil, refusal.Newf(refusal.Malformed, "multibase: found %.1q at the beginning, expected \"z\" for base58-btc", text)
	}
	if len(digits) > maxBase58 {
		return nil, refusal.Newf(refusal.TooLarge, "multibase: %d characters, at most %d are read", len(digits), maxBase58)
	}
	n, base, group := new(big.Int), new(big.Int), new(big.Int)
	power, value := uint64(1), uint64(0)
	for i := range len(digits) {
		digit := strings.IndexByte(base58Alphabet, digits[i])
		if digit < 0 {
			return nil, refusal.Newf(refusal.Malformed, "multibase: %q at character %d is not a base58 digit", digits[i], i+2)
		}
		power, value = power*58, value*58+uint64(digit)
		if power == base58Group || i == len(digits)-1 {
			n.Mul(n, base.SetUint64(power))
			n.Add(n, group.SetUint64(value))
			power, value = 1, 0
		}
	}
	zeros := len(digits) - len(strings.TrimLeft(digits, base58Alphabet[:1]))
	return append(make([]byte, zeros), n.Bytes()...), nil
}
