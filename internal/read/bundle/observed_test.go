package bundle

import (
	"encoding/binary"
	"strings"
	"testing"
)

func observedBundle() *Bundle {
	return &Bundle{Outcome: Solved, Spec: []byte("x"), Diff: []byte{}, TestLog: []byte("tests: 1 passed, 0 failed\n"),
		Trace:    []ToolCall{{Action: "look", CostMicrodollars: 7, LatencyMS: 40, Tokens: 3}, {Action: "issue_refund", Check: Denied}},
		Observed: &Observed{ModelCalls: 2, CostMicrodollars: 500, LatencyMS: 900, Tokens: 77, Vantages: []Vantage{Executed, Reported}}}
}

func TestObservedSectionReadsBack(t *testing.T) {
	data, err := observedBundle().Pack(Seals{HMACKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if o := p.Observed; o == nil || o.ModelCalls != 2 || p.Header.CostMicrodollars != 507 || p.Header.LatencyMS != 940 || p.Header.Tokens != 80 {
		t.Errorf("%+v, %+v", p.Observed, p.Header)
	}
	if v, ok := p.VantageOf(1); !ok || v != Reported {
		t.Errorf("the second call is %s", v)
	}
	again, err := p.Marshal()
	if err != nil || string(again) != string(data) {
		t.Errorf("it has another spelling: %v", err)
	}
}

// TestObservedForgeriesAreRefused changes the section in the bytes, as a forger
// would who has no key: what a parser accepts must agree with itself.
func TestObservedForgeriesAreRefused(t *testing.T) {
	data, err := observedBundle().Pack(Seals{})
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(data), string(binary.LittleEndian.AppendUint32([]byte{0x03, 0x01}, observedSize+2))) + sectionHeaderSize
	if at < sectionHeaderSize {
		t.Fatal("the bundle has no OBSERVED")
	}
	for name, change := range map[string]func([]byte){
		"model work left out":  func(b []byte) { binary.LittleEndian.PutUint32(b[at+4:], 0) },
		"model time left out":  func(b []byte) { binary.LittleEndian.PutUint32(b[at+8:], 0) },
		"model tokens added":   func(b []byte) { binary.LittleEndian.PutUint32(b[at+12:], 9999) },
		"an unknown vantage":   func(b []byte) { b[at+observedSize] = 3 },
		"the header's cost":    func(b []byte) { binary.LittleEndian.PutUint32(b[0x2c:], 7) },
		"a section cut short":  func(b []byte) { b[at-4]-- },
		"another trace's size": func(b []byte) { binary.LittleEndian.PutUint16(b[0x2a:], 1) },
	} {
		forged := append([]byte{}, data...)
		change(forged)
		if _, err := Parse(forged); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	b := observedBundle()
	b.Observed.Vantages = b.Observed.Vantages[:1]
	if _, err := b.Pack(Seals{}); err == nil {
		t.Error("a call without a vantage is packed")
	}
}
