package cheats

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/read/audit"
)

var (
	update = flag.Bool("update", false, "write the table of rates into docs/formats/audit.md")
	runs   = flag.Int("runs", committedRuns, "how many runs are made")
	seed   = flag.Uint64("seed", committedSeed, "another seed makes other runs; the goals are for the committed one")
	misses = flag.Bool("misses", false, "list what was missed and what was alarmed, by class and spelling")
)

// The set of runs for which the page states rates and the goals hold.
const (
	committedSeed = 29
	committedRuns = 2000

	wantRecall    = 0.95
	wantPrecision = 0.98
)

// A tally is what became of one check over all runs.
type tally struct {
	must       int // runs in which it has to fail
	found      int
	incomplete int // of these: did not fail, and the report says that this check lacks evidence
	refused    int // of these: the input was refused as a whole
	alarms     int // failures in runs in which it must not fail
	gaps       int // honest runs with all evidence for which the report says that this check lacks some

	missed, alarmed map[string]int // by class and spelling, for -misses
}

func (c *tally) recall() (float64, bool) {
	n := c.must - c.incomplete - c.refused
	return float64(c.found) / float64(n), n > 0
}

func (c *tally) precision() (float64, bool) {
	return float64(c.found) / float64(c.found+c.alarms), c.found+c.alarms > 0
}

// TestRates audits all runs and holds the critical checks to their goals.
func TestRates(t *testing.T) {
	n := *runs
	if testing.Short() {
		n /= 10
	}
	tallies := measure(t, *seed, n)
	table := tableOf(tallies)
	t.Logf("%d runs, seed %d\n%s", n, *seed, table)
	if *misses {
		t.Log(listOf(tallies))
	}
	if *seed != committedSeed || n != committedRuns {
		return
	}
	comparePage(t, table)
	for _, problem := range below(tallies) {
		t.Error(problem)
	}
}

// below says which critical checks miss a goal.
func below(tallies map[string]*tally) (problems []string) {
	for _, c := range Checks {
		if !c.Critical {
			continue
		}
		if r, ok := tallies[c.ID].recall(); !ok || r < wantRecall {
			problems = append(problems, fmt.Sprintf("%s finds %s of the cheats that it can see, want %.2f; -misses lists the others", c.ID, rate(r, ok), wantRecall))
		}
		if p, ok := tallies[c.ID].precision(); !ok || p < wantPrecision {
			problems = append(problems, fmt.Sprintf("%s: %s of its findings are cheats, want %.2f; -misses lists the others", c.ID, rate(p, ok), wantPrecision))
		}
	}
	return problems
}

func measure(t *testing.T, seed uint64, n int) map[string]*tally {
	tallies := newTallies()
	numbers := make(chan int)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range numbers {
				r := Make(seed, i)
				report, err := audit.Run(context.Background(), r.Input)
				mu.Lock()
				count(t, tallies, r, report, err)
				mu.Unlock()
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	return tallies
}

func newTallies() map[string]*tally {
	tallies := map[string]*tally{}
	for _, c := range Checks {
		tallies[c.ID] = &tally{missed: map[string]int{}, alarmed: map[string]int{}}
	}
	return tallies
}

// count enters one report into the tallies.
func count(t *testing.T, tallies map[string]*tally, r *Run, report *audit.Report, err error) {
	where := fmt.Sprintf("%s: %s [%s]", r.Class, r.Spelling, r.Recorder)
	if err != nil && (r.Honest || len(r.Must) == 0) {
		t.Errorf("run %d, %s: an honest run was refused: %v", r.Number, where, err)
		return
	}
	byID := map[string]audit.Check{}
	if report != nil {
		for _, c := range report.Checks {
			byID[c.ID] = c
		}
	}
	for id, c := range tallies {
		check, there := byID[id]
		failed := there && check.Status == audit.Fail
		switch {
		case slices.Contains(r.Must, id):
			c.must++
			switch {
			case err != nil:
				c.refused++
			case failed:
				c.found++
			case there && check.HarnessGap != "" && !report.Attestation.Complete:
				c.incomplete++
			default:
				c.missed[where]++
			}
		case failed && !slices.Contains(r.May, id):
			c.alarms++
			c.alarmed[where+" — "+first(check.Evidence)]++
		case r.Honest && check.HarnessGap != "" && r.Recorder != "bare" && r.Class != "answers-only":
			c.gaps++
		}
	}
}

func first(evidence []string) string {
	if len(evidence) == 0 {
		return ""
	}
	return evidence[0]
}

func tableOf(tallies map[string]*tally) string {
	var b strings.Builder
	b.WriteString("| Check | Cheats | Found | Missed | Said incomplete | Refused | False alarms | Honest, said incomplete | Recall | Precision |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for i, c := range Checks {
		y := tallies[c.ID]
		fmt.Fprintf(&b, "| AUD-%d `%s` | %d | %d | %d | %d | %d | %d | %d | %s | %s |\n", i+1, c.ID, y.must, y.found,
			y.must-y.found-y.incomplete-y.refused, y.incomplete, y.refused, y.alarms, y.gaps, rate(y.recall()), rate(y.precision()))
	}
	return b.String()
}

func rate(r float64, ok bool) string {
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%.3f", r)
}

func listOf(tallies map[string]*tally) string {
	var b strings.Builder
	for _, c := range Checks {
		for kind, found := range map[string]map[string]int{"missed": tallies[c.ID].missed, "false alarm": tallies[c.ID].alarmed} {
			for _, where := range slices.Sorted(maps.Keys(found)) {
				fmt.Fprintf(&b, "%s %s: %d of %s\n", c.ID, kind, found[where], where)
			}
		}
	}
	return b.String()
}

// The page has the table between these lines.
const (
	page       = "../../../docs/formats/audit.md"
	tableBegin = "<!-- rates: generated by go test ./internal/testing/cheats -run TestRates -update -->\n"
	tableEnd   = "<!-- end of the rates -->"
)

func comparePage(t *testing.T, table string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	old, after, end := strings.Cut(rest, tableEnd)
	if !ok || !end {
		t.Fatalf("docs/formats/audit.md does not have the lines that the table of rates stands between:\n%s%s", tableBegin, tableEnd)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+tableBegin+table+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table {
		t.Error("docs/formats/audit.md states other rates than these: go test ./internal/testing/cheats -run TestRates -update")
	}
}

// The same seed and number are the same bytes, and another seed is another run.
func TestMakeIsDrawnBySeed(t *testing.T) {
	for n := range 60 {
		a, b, c := bytesOf(t, Make(7, n)), bytesOf(t, Make(7, n)), bytesOf(t, Make(8, n))
		if !bytes.Equal(a, b) {
			t.Fatalf("run %d is not the same twice", n)
		}
		if bytes.Equal(a, c) {
			t.Fatalf("run %d is the same for two seeds", n)
		}
	}
}

func bytesOf(t *testing.T, r *Run) []byte {
	t.Helper()
	var b bytes.Buffer
	opens := []func() (io.ReadCloser, error){r.Input.Results.Open, r.Input.Trajectories.Open, r.Input.Metadata.Open}
	for _, s := range r.Input.Sources {
		opens = append(opens, s.Open)
	}
	for _, open := range opens {
		f, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// Half of the runs are honest, no honest run has a label, every cheating one
// has, and every class, every check and every spelling of lines/ has its turn.
func TestTheSetIsWhatItSays(t *testing.T) {
	classes, musts, spellings := map[string]int{}, map[string]int{}, map[string]bool{}
	honestRuns := 0
	for n := range committedRuns {
		r, c := draw(*seed, n)
		classes[c.name]++
		spellings[r.spelling] = true
		if n%2 == 0 {
			honestRuns++
		}
		if (n%2 == 0) != (len(r.must) == 0) {
			t.Fatalf("run %d of class %s must fail %v", n, c.name, r.must)
		}
		for id := range r.must {
			musts[id]++
		}
	}
	if honestRuns != committedRuns/2 {
		t.Errorf("%d of %d runs are honest", honestRuns, committedRuns)
	}
	for _, c := range slices.Concat(honest, cheating) {
		if classes[c.name] != c.share {
			t.Errorf("class %s has %d runs, want %d", c.name, classes[c.name], c.share)
		}
	}
	for _, c := range Checks {
		if musts[c.ID] < 30 {
			t.Errorf("%s must fail in %d runs only", c.ID, musts[c.ID])
		}
	}
	dynamicLines, honestLines := 0, 0
	for _, l := range languages {
		dynamicLines += len(l.dynamic)
		honestLines += len(l.honest)
		for _, line := range slices.Concat(l.dynamic, l.honest, l.keys, l.openKeys) {
			if !spellings[l.name+": "+strings.ReplaceAll(line, "\n", " ⏎ ")] {
				t.Errorf("no run has the %s line %q", l.name, line)
			}
		}
	}
	if dynamicLines < 60 || honestLines < 60 {
		t.Errorf("%d spellings of dynamic execution and %d look-alike lines, want 60 of each", dynamicLines, honestLines)
	}
}
