package scorecard

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/testing/historytest"
)

// fillBook writes attempts of n cases each through the sequencer, with a start
// and a record for each case.
func fillBook(tb testing.TB, attempts, n int) *historytest.Book {
	b := historytest.New(tb)
	for k := 1; k <= attempts; k++ {
		r := historytest.Registration(fmt.Sprintf("repo-fix.agent.%d", k), "agent", k, 1, 1)
		var cases []evidence.PlannedCase
		for i := range n {
			cases = append(cases, evidence.PlannedCase{ID: historytest.CaseName(i), Digest: historytest.ContentOf("case %d", i)})
		}
		data, err := canon.Marshal(cases)
		if err != nil {
			tb.Fatal(err)
		}
		d := digest.ContentOf(data)
		r.Plan.Cases, r.Plan.CasesDigest, r.Plan.CaseCount = nil, &d, n
		b.Register(r)
		template, err := canon.Marshal(historytest.Score(r, 0, 1, 1))
		if err != nil {
			tb.Fatal(err)
		}
		var last *sequencer.Pending
		for i := range n {
			started := fmt.Appendf(nil, `{"attempt":%q,"case_id":%q,"execution":1,"repeat":1}`, r.Attempt, historytest.CaseName(i))
			b.Ledger.Submit(evidence.CaseStartedKind, started)
			line := strings.NewReplacer(historytest.ContentOf("case %d", 0).String(), cases[i].Digest.String(), historytest.CaseName(0), historytest.CaseName(i)).Replace(string(template))
			if (i+k)%3 == 0 {
				line = strings.NewReplacer(`"outcome":"passed"`, `"outcome":"failed"`, `"passed":true,"score":1`, `"passed":false,"score":0.5`).Replace(line)
			}
			last = b.Ledger.Submit(evidence.CaseScoredKind, []byte(line))
			if i%4096 == 0 {
				if _, err := last.Wait(); err != nil {
					tb.Fatal(err)
				}
			}
		}
		if _, err := last.Wait(); err != nil {
			tb.Fatal(err)
		}
		b.Finish(r)
	}
	return b
}

// listOf makes the case list that fillBook names.
func listOf(tb testing.TB, n int) func(digest.Content) ([]byte, error) {
	cases := make([]evidence.PlannedCase, n)
	for i := range cases {
		cases[i] = evidence.PlannedCase{ID: historytest.CaseName(i), Digest: historytest.ContentOf("case %d", i)}
	}
	data := historytest.Marshal(tb, cases)
	return func(digest.Content) ([]byte, error) { return data, nil }
}

// BenchmarkScorecardMillion reads a million case records (two million entries)
// and counts them. TALLY_RECORDS=n makes it n records, TALLY_ATTEMPTS=k spreads
// them over k attempts. Writing the ledger is not measured.
func BenchmarkScorecardMillion(b *testing.B) {
	records, attempts := envInt("TALLY_RECORDS", 1_000_000), envInt("TALLY_ATTEMPTS", 1)
	book, list := fillBook(b, attempts, records/attempts), listOf(b, records/attempts)
	for b.Loop() {
		start := time.Now()
		h := read(book, history.Options{CaseList: list})
		read := time.Since(start)
		card, err := Of(h, View{Attempts: h.Attempts})
		if err != nil {
			b.Fatal(err)
		}
		if card.TotalTasks != records/attempts*attempts || card.NotRun != 0 {
			b.Fatalf("%d tasks, %d not run", card.TotalTasks, card.NotRun)
		}
		b.ReportMetric(float64(h.Entries)/read.Seconds(), "entries/s")
		b.ReportMetric(read.Seconds(), "s-reading")
		b.ReportMetric((time.Since(start) - read).Seconds(), "s-counting")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/1e6, "MB-from-the-system")
}

func envInt(name string, fallback int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return fallback
}
