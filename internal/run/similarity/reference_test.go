package similarity

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestReferencePairs compares with what the reference programs said of the same
// texts. .ci/conformance.d/graders writes the file.
func TestReferencePairs(t *testing.T) {
	name := os.Getenv("TALLY_REFERENCE_PAIRS")
	if name == "" {
		t.Skip("TALLY_REFERENCE_PAIRS names no file; .ci/conformance graders makes one")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	measures := map[string]func(string, []string) float64{"exact_match": ExactMatch, "token_f1": TokenF1, "bleu": BLEU, "rouge_l": ROUGEL}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n, different := 0, 0
	for ; lines.Scan(); n++ {
		var pair struct {
			Measure, Answer string
			Right           []string
			Want            float64
		}
		if err := json.Unmarshal(lines.Bytes(), &pair); err != nil {
			t.Fatal(err)
		}
		if got := measures[pair.Measure](pair.Answer, pair.Right); math.Abs(got-pair.Want) > 1e-9 {
			if different++; different < 10 {
				t.Errorf("line %d: %s of %q against %q is %v, the reference says %v", n+1, pair.Measure, pair.Answer, pair.Right, got, pair.Want)
			}
		}
	}
	if n < 100 || lines.Err() != nil || different > 0 {
		t.Errorf("%d of %d differ (%v)", different, n, lines.Err())
	}
}
