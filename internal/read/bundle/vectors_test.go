package bundle

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
)

// The vectors were made with the format's first implementation: crates rvf-types
// and rvf-runtime of github.com/ruvnet/RuVector, with created_ns set to
// 1700000000000000000. They are promises: never regenerated, only added to.

const headerVector = "575657520100130042424242424242424242424242424242aaaaaaaaaaaaaaaa00002a36fe9c971700010c00983a000094110000401f00000200030000080000"

// rvf-types, header_round_trip.
func TestHeaderVector(t *testing.T) {
	want := unhex(t, headerVector)
	h := Header{
		Version: 1, Flags: 0x13, TaskID: UUID(bytes.Repeat([]byte{0x42}, 16)), PolicyHash: ShortHash(bytes.Repeat([]byte{0xaa}, 8)),
		CreatedNS: 1700000000000000000, Outcome: Solved, Mode: Approved, ToolCalls: 12,
		CostMicrodollars: 15000, LatencyMS: 4500, Tokens: 8000, Retries: 2, Sections: 3, Size: 2048,
	}
	if got := h.append(nil); !bytes.Equal(got, want) {
		t.Errorf("encoded\n%x, want\n%x", got, want)
	}
	if got := readHeader((*[headerSize]byte)(want)); got != h {
		t.Errorf("decoded %+v, want %+v", got, h)
	}
}

// rvf-types, tool_call_entry.
func TestToolCallVector(t *testing.T) {
	want := unhex(t, "040000001111111111111111222222222222222296000000f4010000c800000042617368")
	call := ToolCall{
		Action: "Bash", ArgsHash: ShortHash(bytes.Repeat([]byte{0x11}, 8)), ResultHash: ShortHash(bytes.Repeat([]byte{0x22}, 8)),
		LatencyMS: 150, CostMicrodollars: 500, Tokens: 200, Check: Allowed,
	}
	if got := appendToolCall(nil, call); !bytes.Equal(got, want) {
		t.Errorf("encoded\n%x, want\n%x", got, want)
	}
	if got, err := parseTrace(want); err != nil || !reflect.DeepEqual(got, []ToolCall{call}) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, call)
	}
}

// rvf-runtime, a builder without sections.
func TestMinimalBundleVector(t *testing.T) {
	want := unhex(t, "575657520100000001010101010101010101010101010101f9210ee4856ff1e000002a36fe9c9717000200000000000000000000000000000000000040000000")
	b := &Bundle{
		TaskID: UUID(bytes.Repeat([]byte{1}, 16)), PolicyHash: standardHash(Autonomous).Short(),
		CreatedNS: 1700000000000000000, Outcome: Solved, Mode: Autonomous,
	}
	if got := pack(t, b, Seals{}); !bytes.Equal(got, want) {
		t.Errorf("packed\n%x, want\n%x", got, want)
	}
	p, err := Parse(want)
	if err != nil || !reflect.DeepEqual(&p.Bundle, b) {
		t.Errorf("parsed %+v, %v; want %+v", p, err, b)
	}
}

// rvf-runtime 0.5.0, build_and_sign with the key of its end-to-end tests: the
// restricted policy, every section, eight tool calls of which five are denied, a
// cost that saturates and one retry.
const signedVector = `
	5756575201007f001f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f66fb836fa37e48efa3326233971ae81801000800ffffffff
	b80b00002c01000001000600cb010000010008000000746865207370656302000000000003001e010000040000000000
	000000000000ffffffffffffffff00000000000000000000000052656164040001000101010101010101fefefefefefe
	fefe64000000e80300000a00000042617368050001000202020202020202fdfdfdfdfdfdfdfdc8000000d00700001400
	00005772697465000001000303030303030303fcfcfcfcfcfcfcfc2c010000b80b00001e000000040000000404040404
	040404fbfbfbfbfbfbfbfb90010000a00f00002800000052656164040001000505050505050505fafafafafafafafaf4
	010000881300003200000042617368050001000606060606060606f9f9f9f9f9f9f9f958020000701700003c00000057
	72697465040000000909090909090909f6f6f6f6f6f6f6f684030000ffffffff5a0000004772657004000c0000002d2d
	2d20610a2b2b2b20620a05001200000033207061737365642c2030206661696c6564060003000000776879a60ab99f71
	0e364ceb4fe8329e570329504d2a1ebc1e3dc5d35f14aff40c6022
`

func TestSignedBundleVector(t *testing.T) {
	want := unhex(t, signedVector)
	v, err := Verify(want, Trust{HMACKey: e2eKey})
	if err != nil {
		t.Fatal(err)
	}
	denied := 0
	for _, c := range v.Trace {
		if c.Check == Denied {
			denied++
		}
	}
	if v.Mode != Restricted || v.Outcome != Failed || v.Header.CostMicrodollars != math.MaxUint32 || v.Retries != 1 ||
		len(v.Trace) != 8 || denied != 5 || string(v.TestLog) != "3 passed, 0 failed" || v.Plan == nil || len(v.Plan) != 0 {
		t.Errorf("read %+v with %d of %d calls denied", v.Header, denied, len(v.Trace))
	}
	if got := pack(t, &v.Bundle, Seals{HMACKey: e2eKey}); !bytes.Equal(got, want) {
		t.Errorf("packed\n%x, want\n%x", got, want)
	}
}

// rvf-runtime, GovernancePolicy::hash.
func TestPolicyVectors(t *testing.T) {
	for _, tt := range []struct {
		mode       Mode
		text, hash string
	}{
		{Restricted, "mode=0+Read+Glob+Grep+WebFetch+WebSearch-Bash-Write-Edit|cost=10000|calls=50", "66fb836fa37e48ef"},
		{Approved, "mode=1|cost=100000|calls=200", "37174386ed336528"},
		{Autonomous, "mode=2|cost=1000000|calls=500", "f9210ee4856ff1e0"},
	} {
		p := policy.ForMode(policy.Mode(tt.mode))
		short := standardHash(tt.mode).Short()
		if got := p.Serialised(); got != tt.text {
			t.Errorf("%s: text %q, want %q", tt.mode, got, tt.text)
		}
		if got := hex.EncodeToString(short[:]); got != tt.hash {
			t.Errorf("%s: hash %s, want %s", tt.mode, got, tt.hash)
		}
	}
}

// RFC 4231 sections 4.2, 4.3 and 4.7, which the original has in its tests too.
func TestHMACVectors(t *testing.T) {
	for _, tt := range []struct{ key, data, want string }{
		{"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", hex.EncodeToString([]byte("Hi There")), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
		{hex.EncodeToString([]byte("Jefe")), hex.EncodeToString([]byte("what do ya want for nothing?")), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{hex.EncodeToString(bytes.Repeat([]byte{0xaa}, 131)), hex.EncodeToString([]byte("Test Using Larger Than Block-Size Key - Hash Key First")), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
	} {
		if got := hex.EncodeToString(hmacOf(unhex(t, tt.key), unhex(t, tt.data))); got != tt.want {
			t.Errorf("HMAC = %s, want %s", got, tt.want)
		}
	}
}

func TestSumsSaturate(t *testing.T) {
	b := sample()
	b.Full = nil
	b.Trace[0].CostMicrodollars, b.Trace[0].LatencyMS, b.Trace[0].Tokens = math.MaxUint32, math.MaxUint32-6, 1
	p, err := Parse(pack(t, b, Seals{}))
	if err != nil {
		t.Fatal(err)
	}
	if h := p.Header; h.CostMicrodollars != math.MaxUint32 || h.LatencyMS != math.MaxUint32 || h.Tokens != 10 {
		t.Errorf("totals are %d, %d, %d", h.CostMicrodollars, h.LatencyMS, h.Tokens)
	}
}

func TestPackedBundleReadsBackWhole(t *testing.T) {
	full := sample()
	full.Other = []Section{{0x7777, []byte("from the future")}}
	empty := sample()
	empty.Spec, empty.Plan, empty.Diff, empty.TestLog, empty.Postmortem = []byte{}, []byte{}, []byte{}, []byte{}, []byte{}
	bare := &Bundle{Outcome: Solved}
	for name, b := range map[string]*Bundle{"everything": full, "empty sections": empty, "nothing": bare} {
		for seals, s := range map[string]Seals{"unsigned": {}, "HMAC": {HMACKey: testKey}, "Ed25519": {Key: testSigner()}, "both": {HMACKey: testKey, Key: testSigner()}} {
			data := pack(t, b, s)
			p, err := Parse(data)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, seals, err)
			}
			if !reflect.DeepEqual(&p.Bundle, b) {
				t.Errorf("%s, %s: read %+v, want %+v", name, seals, &p.Bundle, b)
			}
			if again, err := p.Marshal(); err != nil || !bytes.Equal(again, data) {
				t.Errorf("%s, %s: written again it is %x, %v", name, seals, again, err)
			}
			if got := p.EvidenceComplete(); got != (name != "nothing") {
				t.Errorf("%s: evidence complete is %v", name, got)
			}
		}
	}
}

func TestEvidenceIsCompleteWithSpecDiffAndTestLog(t *testing.T) {
	for _, drop := range []func(*Bundle){
		func(b *Bundle) { b.Spec = nil }, func(b *Bundle) { b.Diff = nil }, func(b *Bundle) { b.TestLog = nil },
	} {
		b := sample()
		b.Plan, b.Trace, b.Full = nil, nil, nil
		if !b.EvidenceComplete() {
			t.Fatal("plan and trace are not needed")
		}
		if drop(b); b.EvidenceComplete() {
			t.Errorf("complete without one of the three: %+v", b)
		}
	}
}

func TestPackRefusesWhatAReaderWould(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Bundle, *Seals)
		want   refusal.Name
	}{
		{"a failure without a postmortem", func(b *Bundle, _ *Seals) { b.Postmortem = nil }, refusal.Malformed},
		{"a skip without a postmortem", func(b *Bundle, _ *Seals) { b.Outcome, b.Postmortem = Skipped, nil }, refusal.Malformed},
		{"an unknown outcome", func(b *Bundle, _ *Seals) { b.Outcome = 4 }, refusal.Malformed},
		{"an unknown mode", func(b *Bundle, _ *Seals) { b.Mode = 3 }, refusal.Malformed},
		{"an unknown policy check", func(b *Bundle, _ *Seals) { b.Trace[0].Check = 3 }, refusal.Malformed},
		{"an action that is not UTF-8", func(b *Bundle, _ *Seals) { b.Trace[0].Action = "\xff" }, refusal.Malformed},
		{"an action that its length cannot tell", func(b *Bundle, _ *Seals) { b.Trace[0].Action = string(make([]byte, 1<<16)) }, refusal.TooLarge},
		{"more calls than the header counts", func(b *Bundle, _ *Seals) { b.Full, b.Trace = nil, make([]ToolCall, 1<<16) }, refusal.TooLarge},
		{"more bytes than are read", func(b *Bundle, _ *Seals) { b.Diff = make([]byte, MaxBytes) }, refusal.TooLarge},
		{"full hashes of another policy", func(b *Bundle, _ *Seals) { b.Full.Policy[0] ^= 1 }, refusal.Malformed},
		{"full hashes of another call", func(b *Bundle, _ *Seals) { b.Full.Calls[1].Result[7] ^= 1 }, refusal.Malformed},
		{"full hashes of fewer calls", func(b *Bundle, _ *Seals) { b.Full.Calls = b.Full.Calls[:1] }, refusal.Malformed},
		{"a known section among the others", func(b *Bundle, _ *Seals) { b.Other = []Section{{TagSpec, nil}} }, refusal.Malformed},
		{"an unknown section twice", func(b *Bundle, _ *Seals) { b.Other = []Section{{9, nil}, {9, nil}} }, refusal.Malformed},
		{"an empty HMAC key", func(_ *Bundle, s *Seals) { s.HMACKey = []byte{} }, refusal.Malformed},
		{"an HMAC key that can be guessed", func(_ *Bundle, s *Seals) { s.HMACKey = []byte("secret") }, refusal.Malformed},
		{"a receipt that is not one", func(_ *Bundle, s *Seals) { s.Receipt = []byte("receipt") }, refusal.Malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, s := sample(), Seals{}
			tt.change(b, &s)
			if data, err := b.Pack(s); !refusal.Is(err, tt.want) {
				t.Errorf("Pack = %d bytes, %v; want %s", len(data), err, tt.want)
			}
		})
	}
	solved := sample()
	solved.Outcome, solved.Postmortem = Solved, nil
	pack(t, solved, Seals{})
}

func TestNamesAreReadBack(t *testing.T) {
	for i := range outcomeNames {
		if got, err := ParseOutcome(Outcome(i).String()); err != nil || got != Outcome(i) {
			t.Errorf("outcome %d: %v, %v", i, got, err)
		}
	}
	for i := range modeNames {
		if got, err := ParseMode(Mode(i).String()); err != nil || got != Mode(i) {
			t.Errorf("mode %d: %v, %v", i, got, err)
		}
	}
	for i := range checkNames {
		if got, err := ParsePolicyCheck(PolicyCheck(i).String()); err != nil || got != PolicyCheck(i) {
			t.Errorf("policy check %d: %v, %v", i, got, err)
		}
	}
	if got, err := ParseOutcome("error"); err != nil || got != Errored {
		t.Errorf("RVF's spelling of errored: %v, %v", got, err)
	}
	if _, err := ParseOutcome("Solved"); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("another case: %v", err)
	}
	id := UUID(unhex(t, "00112233445566778899aabbccddeeff"))
	for _, s := range []string{id.String(), "00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-AABBCCDDEEFF"} {
		if got, err := ParseUUID(s); err != nil || got != id {
			t.Errorf("ParseUUID(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "00", "00112233-4455-6677-8899-aabbccddeef", "00112233445566778899aabbccddeeff00", "0011223344556677-8899-aabbccddeeff--", "zz112233445566778899aabbccddeeff"} {
		if got, err := ParseUUID(s); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("ParseUUID(%q) = %v, %v", s, got, err)
		}
	}
}
