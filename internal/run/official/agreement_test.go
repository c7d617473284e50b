package official

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// TestAgreement compares with verdicts of the official code, which lie in the file that
// OFFICIAL_ROWS names: a line of JSON for each, with scorer, expected, output and
// passed. .ci/conformance suites makes the file with the packages of the suites.
func TestAgreement(t *testing.T) {
	name := os.Getenv("OFFICIAL_ROWS")
	if name == "" {
		t.Skip("OFFICIAL_ROWS names no file; .ci/conformance suites makes one")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, equal := map[string]int{}, map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row struct {
			Scorer   string          `json:"scorer"`
			Expected json.RawMessage `json:"expected"`
			Output   string          `json:"output"`
			Passed   bool            `json:"passed"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		scorer, err := Find(row.Scorer)
		if err != nil {
			t.Fatal(err)
		}
		rows[row.Scorer]++
		score, err := scorer.Compile(row.Expected)
		if err != nil {
			t.Errorf("%s: %v", row.Scorer, err)
			continue
		}
		v := score(row.Output)
		if v.Passed != row.Passed {
			t.Errorf("%s: official %v, ours %v (%s)\nexpected %s\noutput %s", row.Scorer, row.Passed, v.Passed, v.Why, row.Expected, row.Output)
			continue
		}
		equal[row.Scorer]++
	}
	if err := lines.Err(); err != nil || len(rows) == 0 {
		t.Fatalf("%d scorers in %s, %v", len(rows), name, err)
	}
	for name, n := range rows {
		t.Logf("%s: %d rows, %d equal", name, n, equal[name])
	}
}
