package verify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/share/browser/report"
)

// A report whose bench example people signed says so where it is verified, and not only
// "signed".
func TestAReportByExampleSignersSaysSo(t *testing.T) {
	text, err := os.ReadFile("../browser/report/testdata/data.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, examples := range []bool{false, true} {
		d := &report.Data{}
		if err := json.Unmarshal(text, d); err != nil {
			t.Fatal(err)
		}
		d.Renderer, d.Examples = report.Renderer(), examples
		page, err := report.Render(d)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "report.html")
		if err := os.WriteFile(path, page, 0o600); err != nil {
			t.Fatal(err)
		}
		var trust Trust
		if err := trust.AddLog(d.Key); err != nil {
			t.Fatal(err)
		}
		item := Path(path, trust)
		if item.Err() != nil {
			t.Fatal(item.Err())
		}
		people := strings.Contains(strings.Join(item.Assumed, "\n"), "people signed the bench, and not example people")
		if got := item.Level == "signed by example signers" && strings.Contains(item.Detail, "; signed by example signers; "); got != examples || people == examples {
			t.Errorf("examples %v: level %q, %s, assumed %q", examples, item.Level, item.Detail, item.Assumed)
		}
	}
}
