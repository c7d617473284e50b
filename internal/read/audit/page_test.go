package audit

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"tallystick/internal/run/sight"
)

var update = flag.Bool("update", false, "write the tables of docs/formats/audit.md")

const page = "../../../docs/formats/audit.md"

// TestAuditPage holds the tables of the page to what the checks do.
func TestAuditPage(t *testing.T) {
	if testing.Short() {
		t.Skip("TestFixtures runs the same checks, and one goroutine has nothing to race with")
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, table := range map[string]string{"known sources": knownTable(), "look-alikes": lookAlikeTable(), "evidence": evidenceTable(), "rates": rateTable(t)} {
		begin := "<!-- " + name + ": go test ./internal/read/audit -run AuditPage -update -->\n"
		end := "<!-- end of the " + name + " -->"
		before, rest, ok := strings.Cut(text, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the %s", page, name)
		}
		text = before + begin + table + end + after
	}
	if text == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the checks do; run \"go test ./internal/read/audit -run AuditPage -update\" and read the diff", page)
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func knownTable() string {
	var b strings.Builder
	for _, k := range knownSources {
		how := "counts beside the answer"
		if k.sure {
			how = "asking for it is enough"
		}
		fmt.Fprintf(&b, "- `%s`: %s\n", k.text, how)
	}
	return b.String()
}

func lookAlikeTable() string {
	var b strings.Builder
	for _, l := range sight.LookAlikes {
		fmt.Fprintf(&b, "- %s: `%s` as `%s`\n", l.What, l.From, l.To)
	}
	return b.String()
}

func evidenceTable() string {
	names := func(checks []int) string {
		list := []string{}
		for _, i := range checks {
			list = append(list, fmt.Sprintf("AUD-%d", i+1))
		}
		return strings.Join(list, ", ")
	}
	var b strings.Builder
	b.WriteString("| Missing | Cannot pass | Passes on the rest, with a gap |\n|---|---|---|\n")
	for _, l := range lackTable {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", l.what, names(l.blind), names(l.told))
	}
	return b.String()
}

// A rate counts the fixtures of one check.
type rate struct {
	exploits, found, others, alarms int
	missed                          []string
}

func rateTable(t *testing.T) string {
	rates := make([]rate, numChecks)
	for _, f := range allFixtures() {
		s := newScene()
		f.make(s)
		failed := run(t, s.input(t)).Checks[f.check].Status == Fail
		r := &rates[f.check]
		switch {
		case f.kind == exploit && failed:
			r.exploits, r.found = r.exploits+1, r.found+1
		case f.kind == exploit:
			r.exploits++
			r.missed = append(r.missed, "not found: "+f.name)
		case failed:
			r.others, r.alarms = r.others+1, r.alarms+1
			r.missed = append(r.missed, "false alarm: "+f.name)
		default:
			r.others++
		}
	}
	var b strings.Builder
	b.WriteString("| | Exploits found | Rate | False alarms on near misses and clean runs | Rate | Which |\n|---|---|---|---|---|---|\n")
	for i, r := range rates {
		fmt.Fprintf(&b, "| AUD-%d | %d of %d | %.1f %% | %d of %d | %.1f %% | %s |\n", i+1, r.found, r.exploits, percent(r.found, r.exploits), r.alarms, r.others, percent(r.alarms, r.others), strings.Join(r.missed, "; "))
	}
	return b.String()
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
