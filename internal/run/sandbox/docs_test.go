//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
)

// codeBlocks returns the fenced blocks of a language in a page of docs.
func codeBlocks(t *testing.T, page, language string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	if os.IsNotExist(err) {
		t.Skip("the documentation is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(b), "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

func TestDocumentedRubricsGiveAScore(t *testing.T) {
	blocks := codeBlocks(t, "formats/rubric.md", "python")
	if len(blocks) != 2 {
		t.Fatalf("%d rubrics in the page, want a Starlark and a Python one", len(blocks))
	}
	for _, rubric := range []Rubric{star(blocks[0]), python(blocks[1])} {
		r := run(t, Namespace, rubric, `{"harness_output":{"answer":"hello"},"expected":{"answer":"hello"},"case_metadata":{}}`, Limits{})
		if score, err := evidence.ParseScore(r.Stdout); err != nil || !score.Passed || len(r.Attempted) != 0 {
			t.Errorf("%s: %v, %+v, attempted %v; %s", rubric.Main, err, score, r.Attempted, r.StderrHead)
		}
	}
}
