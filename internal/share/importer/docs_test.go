package importer

import (
	"bytes"
	"context"
	"os"
	"testing"

	"tallystick/internal/read/results"
)

// TestTheWorkedExampleOfImportIsTrue keeps docs/formats/import.md in step with
// the program.
func TestTheWorkedExampleOfImportIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/import.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(info string) []byte {
		_, rest, ok := bytes.Cut(page, []byte("```"+info+"\n"))
		text, _, closed := bytes.Cut(rest, []byte("```"))
		if !ok || !closed {
			t.Fatalf("the page has no block %q", info)
		}
		return text
	}
	t.Chdir(t.TempDir())
	write(t, "log.jsonl", block("jsonl openai-evals"))
	runs, err := Read(context.Background(), []string{"log.jsonl"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := results.Document{Runs: runs}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.TrimSpace(block("json run")); !bytes.Equal(got, want) {
		t.Errorf("the page has\n%s\nthe program writes\n%s", want, got)
	}
}
