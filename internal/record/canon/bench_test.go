package canon

import (
	"fmt"
	"strings"
	"testing"
)

// A benchEntry has the shape and size of a ledger entry: about 2 KB, mostly
// digests, some numbers and text.
type benchEntry struct {
	Attempt  string             `json:"attempt"`
	Body     benchBody          `json:"body"`
	Digests  map[string]string  `json:"digests"`
	Index    int64              `json:"index"`
	Kind     string             `json:"kind"`
	Operator string             `json:"operator"`
	Prev     string             `json:"prev"`
	Scores   map[string]float64 `json:"scores"`
	Time     string             `json:"time"`
}

type benchBody struct {
	Case         string   `json:"case"`
	CostUSD      float64  `json:"cost_usd"`
	Duration     float64  `json:"duration_seconds"`
	FailureModes []string `json:"failure_modes"`
	Note         string   `json:"note"`
	Passed       bool     `json:"passed"`
	Score        float64  `json:"score"`
	Violations   int      `json:"violations"`
}

func sampleEntry() benchEntry {
	digest := "blake3:" + strings.Repeat("0123456789abcdef", 4)
	e := benchEntry{
		Attempt:  "sha256:" + strings.Repeat("fedcba9876543210", 4),
		Digests:  map[string]string{},
		Index:    123456,
		Kind:     "case.scored",
		Operator: "sha256:" + strings.Repeat("00112233aabbccdd", 4),
		Prev:     "sha256:" + strings.Repeat("8899aabbccddeeff", 4),
		Scores:   map[string]float64{"accuracy": 0.875, "safety": 1, "format": 0.333333},
		Time:     "2026-05-12T08:30:00.123456Z",
	}
	for i := range 12 {
		e.Digests[fmt.Sprintf("artefact-%02d", i)] = digest
	}
	e.Body = benchBody{
		Case: "axios-ssrf", CostUSD: 0.012345, Duration: 12.5, Passed: true, Score: 0.875, Violations: 2,
		FailureModes: []string{"missed_patch", "slow"},
		Note:         strings.Repeat("the agent read the file and said \"done\"; ", 8),
	}
	return e
}

func sampleBytes(tb testing.TB) []byte {
	tb.Helper()
	data, err := Marshal(sampleEntry())
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func BenchmarkValidate(b *testing.B) {
	data := sampleBytes(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Validate(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalCanonical(b *testing.B) {
	data := sampleBytes(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var e benchEntry
		if err := UnmarshalCanonical(data, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarshal(b *testing.B) {
	e := sampleEntry()
	b.SetBytes(int64(len(sampleBytes(b))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Marshal(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalize(b *testing.B) {
	data := append(sampleBytes(b), '\n')
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonicalize(data); err != nil {
			b.Fatal(err)
		}
	}
}
