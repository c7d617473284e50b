package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

var hmacTrust = Trust{HMACKey: testKey}

func ed25519Trust() Trust { return Trust{Signers: []ed25519.PublicKey{testPublic()}} }

// Each row is a forgery and the exact refusal. Those marked with resign are by
// a forger who holds the HMAC key and gets no further with it than to a bundle
// that does not agree with itself.
func TestVerifyRefusesForgeries(t *testing.T) {
	le := binary.LittleEndian
	put16 := func(at int, v uint16) func([]byte) []byte {
		return func(d []byte) []byte { le.PutUint16(d[at:], v); return d }
	}
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(d []byte) []byte { le.PutUint32(d[at:], v); return d }
	}
	putByte := func(at int, v byte) func([]byte) []byte {
		return func(d []byte) []byte { d[at] = v; return d }
	}
	at := func(tag Tag, change func(d []byte, at int) []byte) func([]byte) []byte {
		return func(d []byte) []byte { return change(d, find(t, d, tag)) }
	}
	for _, tt := range []struct {
		name   string
		change func([]byte) []byte
		resign bool
		want   refusal.Name
		text   string
	}{
		{"no bytes", func([]byte) []byte { return nil }, false, refusal.Malformed, "begins with"},
		{"another magic", putByte(0, 'R'), false, refusal.Malformed, "expected 57565752"},
		{"the magic alone", func(d []byte) []byte { return d[:4] }, false, refusal.BundleInvalid, "header alone has 64"},
		{"a cut header", func(d []byte) []byte { return d[:63] }, false, refusal.BundleInvalid, "header alone has 64"},
		{"the header alone", func(d []byte) []byte { return d[:64] }, false, refusal.BundleInvalid, "there are 64"},

		{"flag cleared and tail cut", func(d []byte) []byte {
			d = d[:len(d)-hmacSize]
			le.PutUint16(d[6:], le.Uint16(d[6:])&^FlagSigned)
			le.PutUint32(d[0x3c:], uint32(len(d)))
			return d
		}, false, refusal.BundleUnsigned, "no HMAC signature"},
		{"flag cleared, tail kept", put16(6, 0x7e), false, refusal.BundleInvalid, ""},
		{"flag cleared, tail made a section", func(d []byte) []byte {
			tail := bytes.Clone(d[len(d)-hmacSize:])
			d = d[:len(d)-hmacSize]
			d = append(d, 0x77, 0x77, 32, 0, 0, 0)
			d = append(d, tail...)
			le.PutUint16(d[6:], le.Uint16(d[6:])&^FlagSigned)
			le.PutUint16(d[0x3a:], le.Uint16(d[0x3a:])+1)
			le.PutUint32(d[0x3c:], uint32(len(d)))
			return d
		}, false, refusal.BundleUnsigned, "no HMAC signature"},
		{"an HMAC of zeros", func(d []byte) []byte { clear(d[len(d)-hmacSize:]); return d }, false, refusal.SignatureInvalid, "HMAC"},
		{"an HMAC by another key", func(d []byte) []byte { return resign(d, e2eKey) }, false, refusal.SignatureInvalid, "HMAC"},
		{"signed, and no room for the signature", func(d []byte) []byte {
			d = d[:64]
			le.PutUint32(d[0x3c:], 64)
			return d
		}, false, refusal.BundleInvalid, "no room"},

		{"version 0", put16(4, 0), true, refusal.BundleInvalid, "version is 0"},
		{"version 2", put16(4, 2), true, refusal.BundleInvalid, "version is 2"},
		{"an outcome that there is not", putByte(0x28, 4), true, refusal.BundleInvalid, "outcome is 4"},
		{"a mode that there is not", putByte(0x29, 3), true, refusal.BundleInvalid, "governance_mode is 3"},
		{"failed made solved", putByte(0x28, 0), false, refusal.SignatureInvalid, "HMAC"},

		{"size too small", put32(0x3c, 100), true, refusal.BundleInvalid, "more follow"},
		{"size below the header", put32(0x3c, 3), true, refusal.BundleInvalid, "more follow"},
		{"size zero", put32(0x3c, 0), true, refusal.BundleInvalid, "more follow"},
		{"size too large", put32(0x3c, 1<<31), true, refusal.BundleInvalid, "the header says 2147483648 bytes"},
		{"a byte after the end", func(d []byte) []byte { return append(d, 0) }, false, refusal.BundleInvalid, "and 1 more follow"},
		{"a second bundle after the end", func(d []byte) []byte { return append(d, d...) }, false, refusal.BundleInvalid, "more follow"},
		{"cut by a byte", func(d []byte) []byte { return d[:len(d)-1] }, false, refusal.BundleInvalid, "there are"},

		{"one section too many in the count", put16(0x3a, 8), true, refusal.BundleInvalid, "counts 8 sections, there are 7"},
		{"one section too few in the count", put16(0x3a, 6), true, refusal.BundleInvalid, "counts 6 sections, and there are more"},
		{"no section in the count", put16(0x3a, 0), true, refusal.BundleInvalid, "counts 0 sections"},
		{"flag of a section that is there cleared", put16(6, 0x7d), true, refusal.BundleInvalid, "flags are 0x007d"},
		{"an unknown flag", put16(6, 0xff), true, refusal.BundleInvalid, "flags are 0x00ff"},
		{"flag of a section that is not there", func(d []byte) []byte {
			d = remove(t, d, TagPlan)
			le.PutUint16(d[6:], 0x7f)
			return d
		}, true, refusal.BundleInvalid, "flags are 0x007f, the sections say 0x007b"},

		{"five bytes left over", func(d []byte) []byte {
			n := len(d) - hmacSize
			d = append(d[:n:n], make([]byte, 5+hmacSize)...)
			le.PutUint32(d[0x3c:], uint32(len(d)))
			return d
		}, true, refusal.BundleInvalid, "5 bytes are left"},
		{"a section past the end", at(TagPostmortem, func(d []byte, at int) []byte { le.PutUint32(d[at+2:], 1<<20); return d }), true, refusal.BundleInvalid, "(POSTMORTEM) at offset"},
		{"a section of four gigabytes", at(TagSpec, func(d []byte, at int) []byte { le.PutUint32(d[at+2:], 1<<32-1); return d }), true, refusal.BundleInvalid, "has 4294967295 bytes"},
		{"a section into the signature", at(TagFullHashes, func(d []byte, at int) []byte {
			le.PutUint32(d[at+2:], le.Uint32(d[at+2:])+1)
			return d
		}), true, refusal.BundleInvalid, "are left"},
		{"a section twice", func(d []byte) []byte { return insert(d, find(t, d, TagPlan), TagSpec, []byte("another task")) }, true, refusal.BundleInvalid, "(SPEC) is there twice"},
		{"an unknown section twice", func(d []byte) []byte {
			return insert(insert(d, headerSize, 0x7777, nil), headerSize, 0x7777, nil)
		}, true, refusal.BundleInvalid, "section 0x7777 (UNKNOWN) is there twice"},
		{"sections in another order", func(d []byte) []byte {
			spec := find(t, d, TagSpec)
			value := bytes.Clone(d[spec+sectionHeaderSize : find(t, d, TagPlan)])
			d = remove(t, d, TagSpec)
			le.PutUint16(d[6:], 0x7f)
			return insert(d, find(t, d, TagTrace), TagSpec, value)
		}, true, refusal.BundleInvalid, "SPEC stands after PLAN"},
		{"a section after the full hashes", func(d []byte) []byte { return insert(remove(t, d, TagPlan), 0, TagPlan, nil) }, true, refusal.BundleInvalid, "PLAN stands after FULL_HASHES"},

		{"an empty trace", func(d []byte) []byte {
			d = insert(remove(t, d, TagTrace), find(t, d, TagTrace), TagTrace, nil)
			le.PutUint16(d[6:], 0x7f)
			return d
		}, true, refusal.BundleInvalid, "TRACE is there and empty"},
		{"a trace whose last entry is cut", at(TagDiff, func(d []byte, at int) []byte {
			trace := find(t, d, TagTrace)
			le.PutUint32(d[trace+2:], le.Uint32(d[trace+2:])-1)
			d = append(d[:at-1:at-1], d[at:]...)
			le.PutUint32(d[0x3c:], uint32(len(d)))
			return d
		}), true, refusal.BundleInvalid, "TRACE entry 1 has 36 bytes, 35 are left"},
		{"garbage after the trace's entries", at(TagDiff, func(d []byte, at int) []byte {
			trace := find(t, d, TagTrace)
			le.PutUint32(d[trace+2:], le.Uint32(d[trace+2:])+7)
			d = append(append(bytes.Clone(d[:at]), "garbage"...), d[at:]...)
			le.PutUint32(d[0x3c:], uint32(len(d)))
			return d
		}), true, refusal.BundleInvalid, "TRACE ends in 7 bytes after entry 2"},
		{"an entry longer than the trace", at(TagTrace, func(d []byte, at int) []byte { le.PutUint16(d[at+6:], 65535); return d }), true, refusal.BundleInvalid, "TRACE entry 0 has 65567 bytes"},
		{"a policy check that there is not", at(TagTrace, func(d []byte, at int) []byte { d[at+6+2] = 3; return d }), true, refusal.BundleInvalid, "policy_check is 3"},
		{"something in the padding", at(TagTrace, func(d []byte, at int) []byte { d[at+6+3] = 1; return d }), true, refusal.BundleInvalid, "padding byte"},
		{"an action that is not UTF-8", at(TagTrace, func(d []byte, at int) []byte { d[at+6+32] = 0xff; return d }), true, refusal.BundleInvalid, "not UTF-8"},
		{"a denied call made allowed", at(TagTrace, func(d []byte, at int) []byte { d[at+6+36+2] = 0; return d }), false, refusal.SignatureInvalid, "HMAC"},

		{"fewer tool calls in the header", put16(0x2a, 1), true, refusal.BundleInvalid, "tool_call_count is 1, the trace has 2"},
		{"a cheaper run", put32(0x2c, 1), true, refusal.BundleInvalid, "total_cost_microdollars is 1, the trace adds up to 508"},
		{"a faster run", put32(0x30, 1), true, refusal.BundleInvalid, "total_latency_ms is 1, the trace adds up to 157"},
		{"fewer tokens", put32(0x34, 1), true, refusal.BundleInvalid, "total_tokens is 1, the trace adds up to 209"},
		{"the trace stripped and the totals kept", func(d []byte) []byte { return remove(t, remove(t, d, TagFullHashes), TagTrace) }, true, refusal.BundleInvalid, "tool_call_count is 2, the trace has 0"},

		{"another policy under the same full hash", putByte(0x18, 0), true, refusal.BundleInvalid, "the policy's hash begins with"},
		{"other arguments under the same full hash", at(TagTrace, func(d []byte, at int) []byte { d[at+6+4] ^= 1; return d }), true, refusal.BundleInvalid, "entry 0 does not begin"},
		{"full hashes cut", at(TagFullHashes, func(d []byte, at int) []byte {
			value := bytes.Clone(d[at+sectionHeaderSize : len(d)-hmacSize-64])
			return insert(remove(t, d, TagFullHashes), 0, TagFullHashes, value)
		}), true, refusal.BundleInvalid, "FULL_HASHES has 96 bytes"},

		{"an Ed25519 section of another length", func(d []byte) []byte { return insert(d, 0, TagEd25519, make([]byte, 95)) }, true, refusal.BundleInvalid, "ED25519 has 95 bytes"},
		{"a receipt that is not one", func(d []byte) []byte { return insert(d, 0, TagReceipt, []byte("trust me")) }, true, refusal.BundleInvalid, "RECEIPT"},
		{"an empty receipt", func(d []byte) []byte { return insert(d, 0, TagReceipt, nil) }, true, refusal.BundleInvalid, "RECEIPT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			honest := pack(t, sample(), Seals{HMACKey: testKey})
			if _, err := Verify(honest, hmacTrust); err != nil {
				t.Fatalf("the honest bundle: %v", err)
			}
			forged := tt.change(bytes.Clone(honest))
			if bytes.Equal(forged, honest) {
				t.Fatal("the forger changed nothing")
			}
			if tt.resign {
				forged = resign(forged, testKey)
			}
			_, err := Verify(forged, hmacTrust)
			if !refusal.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Verify: %v, want %s with %q", err, tt.want, tt.text)
			}
		})
	}
}

// A forger who holds the HMAC key, and not the Ed25519 key, changes a bundle
// that both signed.
func TestEd25519CoversEverythingButTheHMAC(t *testing.T) {
	le := binary.LittleEndian
	for _, tt := range []struct {
		name   string
		change func([]byte) []byte
		want   refusal.Name
	}{
		{"failed made solved", func(d []byte) []byte { d[0x28] = 0; return d }, refusal.SignatureInvalid},
		{"another task", func(d []byte) []byte { d[8] ^= 1; return d }, refusal.SignatureInvalid},
		{"another time", func(d []byte) []byte { d[0x20] ^= 1; return d }, refusal.SignatureInvalid},
		{"a word in the test log", func(d []byte) []byte { d[find(t, d, TagTestLog)+6] ^= 1; return d }, refusal.SignatureInvalid},
		{"a section taken out", func(d []byte) []byte { return remove(t, d, TagPlan) }, refusal.SignatureInvalid},
		{"the postmortem taken out", func(d []byte) []byte { return remove(t, d, TagPostmortem) }, refusal.BundleInvalid},
		{"the full hashes taken out", func(d []byte) []byte { return remove(t, d, TagFullHashes) }, refusal.SignatureInvalid},
		{"an unknown section put in", func(d []byte) []byte { return insert(d, headerSize, 0x7777, []byte("x")) }, refusal.SignatureInvalid},
		{"an unknown section put behind", func(d []byte) []byte { return insert(d, 0, 0x7777, []byte("x")) }, refusal.BundleInvalid},
		{"the signature taken out", func(d []byte) []byte { return remove(t, d, TagEd25519) }, refusal.BundleUnsigned},
		{"a signature by another key", func(d []byte) []byte {
			other := ed25519.NewKeyFromSeed(make([]byte, 32))
			at := find(t, d, TagEd25519)
			payload := d[:len(d)-hmacSize]
			copy(d[at+6:], other.Public().(ed25519.PublicKey))
			copy(d[at+38:], ed25519.Sign(other, ed25519Message(payload, at)))
			return d
		}, refusal.SignerUnknown},
		{"the trusted key over another's signature", func(d []byte) []byte {
			at := find(t, d, TagEd25519)
			copy(d[at+38:], ed25519.Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), ed25519Message(d[:len(d)-hmacSize], at)))
			return d
		}, refusal.SignatureInvalid},
		{"the signature of another bundle", func(d []byte) []byte {
			b := sample()
			b.Retries++
			other := pack(t, b, Seals{HMACKey: testKey, Key: testSigner()})
			at := find(t, d, TagEd25519)
			copy(d[at:], other[at:at+6+ed25519Size])
			return d
		}, refusal.SignatureInvalid},
		{"the HMAC taken off", func(d []byte) []byte {
			d = d[:len(d)-hmacSize]
			le.PutUint16(d[6:], le.Uint16(d[6:])&^FlagSigned)
			le.PutUint32(d[0x3c:], uint32(len(d)))
			return d
		}, refusal.SignatureInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			honest := pack(t, sample(), Seals{HMACKey: testKey, Key: testSigner()})
			forged := tt.change(bytes.Clone(honest))
			if le.Uint16(forged[6:])&FlagSigned != 0 {
				forged = resign(forged, testKey)
			}
			if _, err := Verify(forged, ed25519Trust()); !refusal.Is(err, tt.want) {
				t.Errorf("Verify: %v, want %s", err, tt.want)
			}
		})
	}
}

// No single changed bit of a signed bundle may go unnoticed, whichever
// signature is asked about. The HMAC itself is not covered by the Ed25519
// signature and is reported as unchecked instead.
func TestVerifyRefusesEveryBitFlip(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	small := sample()
	small.Plan, small.Diff = nil, nil
	both := Trust{HMACKey: testKey, Signers: []ed25519.PublicKey{testPublic()}}
	for _, tt := range []struct {
		name  string
		seals Seals
		trust Trust
		spare int // bytes at the end that the trust does not ask about
	}{
		{"HMAC", Seals{HMACKey: testKey}, hmacTrust, 0},
		{"Ed25519", Seals{Key: testSigner()}, ed25519Trust(), 0},
		{"both", Seals{HMACKey: testKey, Key: testSigner()}, both, 0},
		{"Ed25519 of both", Seals{HMACKey: testKey, Key: testSigner()}, ed25519Trust(), hmacSize},
		{"HMAC of both", Seals{HMACKey: testKey, Key: testSigner()}, hmacTrust, 0},
		{"all with a receipt", Seals{HMACKey: testKey, Key: testSigner(), Receipt: []byte{}}, ed25519Trust(), hmacSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := small
			if tt.seals.Receipt != nil {
				b, tt.seals.Receipt, _ = receipted(t, nil)
			}
			data := pack(t, b, tt.seals)
			v, err := Verify(data, tt.trust)
			if err != nil {
				t.Fatal(err)
			}
			if unchecked := strings.Join(v.Unchecked(), " "); (tt.spare > 0) != strings.Contains(unchecked, "HMAC") {
				t.Errorf("unchecked is %q", unchecked)
			}
			for i := range (len(data) - tt.spare) * 8 {
				data[i/8] ^= 1 << (i % 8)
				if _, err := Verify(data, tt.trust); err == nil {
					t.Errorf("byte %d bit %d can be changed", i/8, i%8)
				}
				data[i/8] ^= 1 << (i % 8)
			}
		})
	}
}

// Every cut of a signed bundle is refused, and every cut of an unsigned one
// fails to parse.
func TestEveryCutIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	for _, s := range []Seals{{}, {HMACKey: testKey}, {HMACKey: testKey, Key: testSigner()}} {
		data := pack(t, sample(), s)
		for n := range data {
			if _, err := Parse(data[:n]); err == nil {
				t.Errorf("the first %d of %d bytes parse", n, len(data))
			}
		}
	}
}

func TestVerifyNeedsATrustedSigner(t *testing.T) {
	signed := pack(t, sample(), Seals{HMACKey: testKey, Key: testSigner()})
	unsigned := pack(t, sample(), Seals{})
	_, _, policy := receipted(t, nil)
	for _, tt := range []struct {
		name  string
		trust Trust
		want  refusal.Name
		text  string
	}{
		{"no signer", Trust{}, refusal.Usage, "whom you trust"},
		{"an empty HMAC key", Trust{HMACKey: []byte{}}, refusal.Usage, "is empty"},
		{"a ledger alone", Trust{Ledger: policy}, refusal.Usage, "a receipt alone"},
		{"a key of small order", Trust{Signers: []ed25519.PublicKey{make([]byte, 32)}}, refusal.WeakKey, ""},
	} {
		for _, data := range [][]byte{signed, unsigned} {
			if _, err := Verify(data, tt.trust); !refusal.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v, want %s with %q", tt.name, err, tt.want, tt.text)
			}
		}
	}
	both := Trust{HMACKey: testKey, Signers: []ed25519.PublicKey{testPublic()}}
	for name, tt := range map[string]struct {
		seals Seals
		trust Trust
	}{
		"unsigned, HMAC asked for":     {Seals{}, hmacTrust},
		"unsigned, Ed25519 asked for":  {Seals{}, ed25519Trust()},
		"HMAC only, Ed25519 asked for": {Seals{HMACKey: testKey}, ed25519Trust()},
		"Ed25519 only, HMAC asked for": {Seals{Key: testSigner()}, hmacTrust},
		"HMAC only, both asked for":    {Seals{HMACKey: testKey}, both},
		"Ed25519 only, both asked for": {Seals{Key: testSigner()}, both},
		"no receipt, one asked for":    {Seals{HMACKey: testKey}, Trust{HMACKey: testKey, Ledger: policy}},
	} {
		if _, err := Verify(pack(t, sample(), tt.seals), tt.trust); !refusal.Is(err, refusal.BundleUnsigned) {
			t.Errorf("%s: %v, want BundleUnsigned", name, err)
		}
	}
}

// What would take memory is refused before it does.
func TestHostileSizesAreRefused(t *testing.T) {
	large := make([]byte, MaxBytes+1)
	copy(large, pack(t, sample(), Seals{}))
	binary.LittleEndian.PutUint32(large[0x3c:], uint32(len(large)))
	if _, err := Parse(large); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("a bundle of %d bytes: %v, want TooLarge", len(large), err)
	}
	if _, err := parseTrace(make([]byte, 65536*toolCallSize)); !refusal.Is(err, refusal.BundleInvalid) || !strings.Contains(err.Error(), "more than 65535 entries") {
		t.Errorf("65536 tool calls: %v", err)
	}
	// Sections that hold nothing, as many as fit, all of one tag or each of its
	// own: the walk ends at the first that is too many.
	for name, tag := range map[string]func(i int) uint16{"one tag": func(int) uint16 { return 9 }, "every tag": func(i int) uint16 { return uint16(i + 0x200) }} {
		data := bytes.Clone(large[:1<<20])
		clear(data[headerSize:])
		for i, at := 0, headerSize; at+sectionHeaderSize <= len(data); i, at = i+1, at+sectionHeaderSize {
			binary.LittleEndian.PutUint16(data[at:], tag(i))
		}
		binary.LittleEndian.PutUint32(data[0x3c:], uint32(len(data)))
		binary.LittleEndian.PutUint16(data[0x3a:], 3)
		var err error
		allocated := testing.AllocsPerRun(1, func() { _, err = Parse(data) })
		if !refusal.Is(err, refusal.BundleInvalid) || allocated > 100 {
			t.Errorf("%s: %v after %v allocations", name, err, allocated)
		}
	}
}

// An unknown section is kept, signed and not understood.
func TestUnknownSectionsAreCarried(t *testing.T) {
	b := sample()
	b.Other = []Section{{0x7777, []byte("x")}}
	v, err := Verify(pack(t, b, Seals{HMACKey: testKey}), hmacTrust)
	if err != nil || len(v.Other) != 1 || v.Other[0].Tag != 0x7777 {
		t.Fatalf("%v, %v", v, err)
	}
	// Other writers may put it anywhere among the sections of the format.
	data := resign(insert(pack(t, sample(), Seals{HMACKey: testKey}), headerSize, 0x7777, []byte("x")), testKey)
	v, err = Verify(data, hmacTrust)
	if err != nil || fmt.Sprint(v.Sections[0].Tag) != "UNKNOWN" {
		t.Fatalf("%v, %v", v, err)
	}
	if again, err := v.Marshal(); err != nil || !bytes.Equal(again, data) {
		t.Errorf("written again it is %x, %v", again, err)
	}
}
