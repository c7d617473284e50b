package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"tallystick/internal/run/policy"
)

// The keys of the tests of the format's first implementation.
var (
	e2eKey  = []byte("e2e-test-key-for-witness-bundle!")
	testKey = []byte("test-signing-key-for-witness-ok!")
)

// testSigner is an Ed25519 key that everybody knows.
func testSigner() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

func testPublic() ed25519.PublicKey { return testSigner().Public().(ed25519.PublicKey) }

// sample is a small bundle with every section of the original format.
func sample() *Bundle {
	args, result := Hash{0x11, 1, 2, 3}, Hash{0x22, 4, 5, 6}
	hash := standardHash(Autonomous)
	return &Bundle{
		TaskID:     UUID(bytes.Repeat([]byte{0x42}, 16)),
		PolicyHash: hash.Short(),
		CreatedNS:  1700000000000000000,
		Outcome:    Failed,
		Mode:       Autonomous,
		Retries:    2,
		Spec:       []byte("fix the login"),
		Plan:       []byte("1. read 2. write"),
		Diff:       []byte("--- a\n+++ b\n"),
		TestLog:    []byte("tests: 1 passed, 1 failed\n"),
		Postmortem: []byte("wrong file"),
		Trace: []ToolCall{
			{Action: "Read", Check: Allowed, ArgsHash: args.Short(), ResultHash: result.Short(), LatencyMS: 150, CostMicrodollars: 500, Tokens: 200},
			{Action: "Bash", Check: Denied, ArgsHash: result.Short(), ResultHash: args.Short(), LatencyMS: 7, CostMicrodollars: 8, Tokens: 9},
		},
		Full: &FullHashes{Policy: hash, Calls: []CallHashes{{args, result}, {result, args}}},
	}
}

func pack(t testing.TB, b *Bundle, s Seals) []byte {
	t.Helper()
	data, err := b.Pack(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// find is where the section begins in a bundle.
func find(t testing.TB, data []byte, tag Tag) int {
	t.Helper()
	end := len(data)
	if binary.LittleEndian.Uint16(data[6:])&FlagSigned != 0 {
		end -= hmacSize
	}
	for at := headerSize; at+sectionHeaderSize <= end; {
		if Tag(binary.LittleEndian.Uint16(data[at:])) == tag {
			return at
		}
		at += sectionHeaderSize + int(binary.LittleEndian.Uint32(data[at+2:]))
	}
	t.Fatalf("no section %s", tag)
	return 0
}

// resign puts a new HMAC on bytes that were changed, as a holder of the key
// can.
func resign(data, key []byte) []byte {
	n := len(data) - hmacSize
	return append(data[:n:n], hmacOf(key, data[:n])...)
}

// insert puts a section in front of the HMAC, or at offset at if not zero, and
// makes size and count fit.
func insert(data []byte, at int, tag Tag, value []byte) []byte {
	if at == 0 {
		at = len(data) - hmacSize
	}
	le := binary.LittleEndian
	section := le.AppendUint32(le.AppendUint16(nil, uint16(tag)), uint32(len(value)))
	section = append(section, value...)
	out := append(append(bytes.Clone(data[:at]), section...), data[at:]...)
	le.PutUint16(out[0x3a:], le.Uint16(out[0x3a:])+1)
	le.PutUint32(out[0x3c:], uint32(len(out)))
	return out
}

// remove takes a section out and makes size, count and flags fit.
func remove(t testing.TB, data []byte, tag Tag) []byte {
	t.Helper()
	at := find(t, data, tag)
	end := at + sectionHeaderSize + int(binary.LittleEndian.Uint32(data[at+2:]))
	out := append(bytes.Clone(data[:at]), data[end:]...)
	le := binary.LittleEndian
	le.PutUint16(out[0x06:], le.Uint16(out[0x06:])&^tag.flag())
	le.PutUint16(out[0x3a:], le.Uint16(out[0x3a:])-1)
	le.PutUint32(out[0x3c:], uint32(len(out)))
	return out
}

// standardHash is the hash of the policy that RVF gives for a mode.
func standardHash(m Mode) Hash {
	p := policy.ForMode(policy.Mode(m))
	return Hash(p.SerialisedDigest())
}
