package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// realistic is a bundle of about the given size: a hundred tool calls, and the
// rest a diff and a test log.
func realistic(b *testing.B, size int) *Bundle {
	b.Helper()
	w := &Bundle{Outcome: Solved, Mode: Autonomous, Spec: bytes.Repeat([]byte("fix it\n"), 100), Plan: []byte("plan")}
	for range 100 {
		w.Trace = append(w.Trace, ToolCall{Action: "Bash", LatencyMS: 10, CostMicrodollars: 20, Tokens: 30})
	}
	w.Diff = bytes.Repeat([]byte("+ one more line of a diff\n"), size/3/26)
	w.TestLog = bytes.Repeat([]byte("ok  \texample.com/x\t0.01s\n"), size*2/3/25)
	return w
}

// shareOfSHA256 reports the speed of parsing and verifying as a share of the
// speed of SHA-256 over the same bytes. They take turns, and the fastest turn of
// each counts: on a busy machine the others measure the neighbours.
func shareOfSHA256(b *testing.B, data []byte, trust Trust) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	verifying, hashing := time.Hour, time.Hour
	for b.Loop() {
		start := time.Now()
		if _, err := Verify(data, trust); err != nil {
			b.Fatal(err)
		}
		verified := time.Now()
		sha256.Sum256(data)
		verifying, hashing = min(verifying, verified.Sub(start)), min(hashing, time.Since(verified))
	}
	b.ReportMetric(100*float64(hashing)/float64(verifying), "%ofSHA256")
	b.ReportMetric(float64(len(data))/1e6/verifying.Seconds(), "bestMB/s")
}

// BenchmarkVerify verifies bundles whose bytes are mostly diff and test log.
func BenchmarkVerify(b *testing.B) {
	signers := []ed25519.PublicKey{testPublic()}
	for _, mode := range []struct {
		name  string
		seals Seals
		trust Trust
	}{
		{"HMAC", Seals{HMACKey: testKey}, hmacTrust},
		{"Ed25519", Seals{Key: testSigner()}, Trust{Signers: signers}},
		{"both", Seals{HMACKey: testKey, Key: testSigner()}, Trust{HMACKey: testKey, Signers: signers}},
	} {
		for _, size := range []int{16 << 10, 256 << 10, 4 << 20} {
			data, err := realistic(b, size).Pack(mode.seals)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%dKiB", mode.name, size>>10), func(b *testing.B) {
				shareOfSHA256(b, data, mode.trust)
			})
		}
	}
}

// BenchmarkParseTrace is the worst case for the parser: nothing but tool calls.
func BenchmarkParseTrace(b *testing.B) {
	w := &Bundle{Outcome: Solved, Trace: make([]ToolCall, 65535)}
	for i := range w.Trace {
		w.Trace[i].Action = "Bash"
	}
	data, err := w.Pack(Seals{HMACKey: testKey})
	if err != nil {
		b.Fatal(err)
	}
	shareOfSHA256(b, data, hmacTrust)
}
