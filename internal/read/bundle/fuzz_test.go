package bundle

import (
	"bytes"
	"crypto/ed25519"
	"reflect"
	"testing"
)

// Whatever parses must be written again to exactly the bytes given.
func FuzzParse(f *testing.F) {
	b, receipt, _ := receipted(f, nil)
	for _, s := range []Seals{{}, {HMACKey: testKey}, {Key: testSigner()}, {HMACKey: testKey, Key: testSigner()}, {Receipt: receipt}} {
		f.Add(pack(f, b, s))
	}
	f.Add(pack(f, &Bundle{Outcome: Solved}, Seals{}))
	f.Add(unhex(f, headerVector))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			return
		}
		again, err := p.Marshal()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("parsed\n%x\nwritten again\n%x\n%v", data, again, err)
		}
	})
}

// Whatever is packed verifies, and says what was packed.
func FuzzPack(f *testing.F) {
	f.Add([]byte("spec"), []byte("plan"), []byte("diff"), []byte("log"), []byte("why"), "Read", uint32(1), uint32(2), uint16(3), uint8(0), uint8(2))
	f.Fuzz(func(t *testing.T, spec, plan, diff, log, why []byte, action string, cost, tokens uint32, retries uint16, outcome, mode uint8) {
		b := &Bundle{Outcome: Outcome(outcome), Mode: Mode(mode), Retries: retries, Spec: spec, Plan: plan, Diff: diff, TestLog: log, Postmortem: why,
			Trace: []ToolCall{{Action: action, CostMicrodollars: cost, Tokens: tokens}, {Action: action, CostMicrodollars: tokens, Tokens: cost}}}
		data, err := b.Pack(Seals{HMACKey: testKey, Key: testSigner()})
		if err != nil {
			return
		}
		v, err := Verify(data, Trust{HMACKey: testKey, Signers: []ed25519.PublicKey{testPublic()}})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&v.Bundle, b) {
			t.Fatalf("packed %+v, read %+v", b, &v.Bundle)
		}
	})
}

// A failure told anywhere in a log cannot be taken back by what stands around
// it.
func FuzzSummariseTests(f *testing.F) {
	f.Add([]byte("ok \ta\t0.1s\n"), []byte("tests: 1 passed, 0 failed\n"))
	f.Add([]byte("Ran 5 tests in 0.001s\n\nOK\n"), []byte("\x1b[32m3 passed\x1b[0m"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		log := bytes.Join([][]byte{before, []byte("tests: 1 passed, 1 failed"), after}, []byte("\n"))
		if s := SummariseTests(log); s.Failed == 0 || s.Passed == 0 {
			t.Fatalf("%q gives %s", log, s)
		}
	})
}
