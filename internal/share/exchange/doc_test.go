package exchange

import (
	"bytes"
	"os"
	"testing"
)

func block(t testing.TB, page []byte, info string) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte("```"+info+"\n"))
	text, _, closed := bytes.Cut(rest, []byte("```"))
	if !ok || !closed {
		t.Fatalf("the page has no block %q", info)
	}
	return text
}

// TestTheWorkedExampleIsTrue keeps docs/formats/telemetry.md in step with the
// program.
func TestTheWorkedExampleIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Import("example", bytes.TrimSpace(block(t, page, "json atif")))
	if err != nil {
		t.Fatal(err)
	}
	if want := block(t, page, "jsonl trajectory"); !bytes.Equal(got[0].Trajectory, want) {
		t.Errorf("the page has\n%s\nthe program writes\n%s", want, got[0].Trajectory)
	}
}
