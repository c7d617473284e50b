package attest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"tallystick/internal/record/canon"
)

// The cost of a credential beside that of the bare cryptography: canonical JSON of
// the same bytes, SHA-256 of both halves and Ed25519, with the standard library.
// Verify checks besides the body, the hash of its results and dates.
//
//	go test ./internal/share/attest -run '^$' -bench 'Issue|Verify'
//
// prints the ratio of the two, measured in turns in one loop.

// bare does for one proof what cannot be left out.
func bare(b *testing.B, text []byte, config []byte) [64]byte {
	document, err := canon.Canonicalize(text)
	if err != nil {
		b.Fatal(err)
	}
	options, err := canon.Canonicalize(config)
	if err != nil {
		b.Fatal(err)
	}
	first, second := sha256.Sum256(options), sha256.Sum256(document)
	return [64]byte(append(first[:], second[:]...))
}

// ratio runs the two in turns and compares the medians, so that what else runs on
// the machine falls out.
func ratio(b *testing.B, ours, bare func()) {
	var a, c []time.Duration
	for b.Loop() {
		start := time.Now()
		ours()
		middle := time.Now()
		bare()
		a, c = append(a, middle.Sub(start)), append(c, time.Since(middle))
	}
	slices.Sort(a)
	slices.Sort(c)
	mine, least := a[len(a)/2], c[len(c)/2]
	b.ReportMetric(float64(mine)/float64(least), "x-bare")
	b.ReportMetric(float64(mine.Nanoseconds()), "ns/ours")
	b.ReportMetric(float64(least.Nanoseconds()), "ns/bare")
}

func benchCredential(b *testing.B) (draft Draft, s Signer, text, config []byte) {
	s = signer(b, issuerKey)
	body, err := canon.Canonicalize([]byte(exampleBody(b)))
	if err != nil {
		b.Fatal(err)
	}
	draft = Draft{Issuer: didOf(s.Key), Body: body, ValidFrom: now.Add(-time.Hour)}
	text, err = Issue(draft, s)
	if err != nil {
		b.Fatal(err)
	}
	d, err := openDocument(text)
	if err != nil {
		b.Fatal(err)
	}
	return draft, s, text, d.proofs[0]
}

func BenchmarkIssue(b *testing.B) {
	draft, s, text, config := benchCredential(b)
	private := s.Key.Ed25519()
	ratio(b, func() {
		if _, err := Issue(draft, s); err != nil {
			b.Fatal(err)
		}
	}, func() {
		hash := bare(b, text, config)
		ed25519.Sign(private, hash[:])
	})
}

func BenchmarkVerify(b *testing.B) {
	_, s, text, config := benchCredential(b)
	hash := bare(b, text, config)
	signature := ed25519.Sign(s.Key.Ed25519(), hash[:])
	key := public(s.Key)
	ratio(b, func() {
		if _, err := Verify(text, trust()); err != nil {
			b.Fatal(err)
		}
	}, func() {
		hash := bare(b, text, config)
		if !ed25519.Verify(key, hash[:], signature) {
			b.Fatal("does not verify")
		}
	})
}
