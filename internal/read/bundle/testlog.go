package bundle

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/refusal"
)

// A TestSummary is what a test log says of itself, over all its summary lines.
type TestSummary struct {
	Passed, Failed uint64
	Runners        []string // whose lines were recognised, in order of appearance
}

// Found reports whether any line was recognised.
func (s TestSummary) Found() bool { return len(s.Runners) > 0 }

// String is the summary in our own words.
func (s TestSummary) String() string {
	if !s.Found() {
		return "no test summary"
	}
	return fmt.Sprintf("%d passed, %d failed (%s)", s.Passed, s.Failed, strings.Join(s.Runners, ", "))
}

// maxSummaryLine is more than any summary line has.
const maxSummaryLine = 512

// SummariseTests adds up every summary line in a log that is in one of the
// forms of docs/formats/bundle.md. It adds and does not pick the last, so that
// no later line can make a failure above it disappear. A log that tells the
// same tests twice counts them twice: what matters is whether a count is zero.
func SummariseTests(log []byte) TestSummary {
	var s TestSummary
	ran := uint64(0) // what unittest ran; whether it passed is told on another line
	for line := range bytes.SplitSeq(log, []byte("\n")) {
		if len(line) > maxSummaryLine {
			continue
		}
		text := uncoloured(string(line))
		indented := strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		for _, f := range summaryForms() {
			if f.leftmost && indented {
				continue
			}
			if m := f.pattern.FindStringSubmatch(text); m != nil {
				passed, failed := f.count(m[1:], &ran)
				s.add(f.runner, passed, failed)
				break
			}
		}
	}
	return s
}

// uncoloured removes the sequences that runners colour their lines with:
// ESC, [, digits and semicolons, m.
func uncoloured(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		s = after
		if rest := strings.TrimLeft(after, "0123456789;"); strings.HasPrefix(rest, "m") {
			s = rest[1:]
		}
	}
}

func (s *TestSummary) add(runner string, passed, failed uint64) {
	s.Passed, s.Failed = plus(s.Passed, passed), plus(s.Failed, failed)
	if !slices.Contains(s.Runners, runner) {
		s.Runners = append(s.Runners, runner)
	}
}

func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// A summaryForm is one form of summary line.
type summaryForm struct {
	runner   string
	leftmost bool // counts only at the left margin: indented it tells a part
	pattern  *regexp.Regexp
	count    func(m []string, ran *uint64) (passed, failed uint64)
}

// A list of counts: "1 failed, 3 passed, 2 skipped". The words are spelled out:
// "3 files" is not a summary, and neither is a compiler's "1 error".
const (
	countItem = `\d+ (?:passed|failed|errors?|failures?|skipped|xfailed|xpassed|deselected|warnings?|rerun|todo|total|pending|ignored)`
	countList = `(` + countItem + `(?:(?:, | \| )` + countItem + `)*)`
	countTold = `((?:` + countItem + `, )*\d+ (?:passed|failed)(?:, ` + countItem + `)*)`
)

// summaryForms are tried in this order; the first that fits counts. They are
// made when first needed: every start of the program would pay for them.
var summaryForms = sync.OnceValue(func() []summaryForm {
	return []summaryForm{
		// test result: FAILED. 4 passed; 1 failed; 0 ignored
		{"cargo", false, regexp.MustCompile(`^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed(?:;.*)?$`), func(m []string, _ *uint64) (uint64, uint64) {
			return number(m[1]), atLeast(number(m[2]), m[0] == "FAILED")
		}},
		// test auth::login ... ok
		{"cargo", false, regexp.MustCompile(`^test \S.* \.\.\. (ok|FAILED)$`), func(m []string, _ *uint64) (uint64, uint64) {
			return one(m[0] == "ok"), one(m[0] != "ok")
		}},
		// tests: 12 passed, 0 failed; Tests: 1 failed, 2 passed, 3 total; Tests  2 passed (2)
		{"tests", false, regexp.MustCompile(`^[Tt]ests(?::\s*|\s+)` + countList + `(?: \(\d+\))?$`), countWords},
		// ==== 1 failed, 3 passed, 1 error in 0.12s ====
		{"pytest", false, regexp.MustCompile(`^=*\s*` + countList + ` in \d[0-9.]*s(?: \([0-9:]+\))?\s*=*$`), countWords},
		// 3 passed, 1 failed
		{"counts", false, regexp.MustCompile(`^` + countTold + `$`), countWords},
		// Ran 5 tests in 0.001s, then OK or FAILED (failures=1, errors=1)
		{"unittest", true, regexp.MustCompile(`^Ran (\d+) tests? in [0-9.]+s$`), func(m []string, ran *uint64) (uint64, uint64) {
			*ran = number(m[0])
			return 0, 0
		}},
		{"unittest", true, regexp.MustCompile(`^OK(?: \([a-z0-9=, ]+\))?$`), func(_ []string, ran *uint64) (uint64, uint64) {
			n := *ran
			*ran = 0
			return n, 0
		}},
		{"unittest", true, regexp.MustCompile(`^FAILED \(([a-z0-9=, ]+)\)$`), func(m []string, ran *uint64) (uint64, uint64) {
			*ran = 0
			return 0, atLeast(failures(m[0]), true)
		}},
		// ok  	example.com/x	0.01s; FAIL	example.com/y [build failed]; --- FAIL: TestX (0.00s)
		{"go", true, regexp.MustCompile(`^ok\s+\S+\s+(?:\(cached\)|[0-9.]+s)(?:\s+coverage: .*)?$`), func([]string, *uint64) (uint64, uint64) { return 1, 0 }},
		{"go", true, regexp.MustCompile(`^FAIL(?:\s+\S+\s+(?:[0-9.]+s|\[[a-z ]+\]))?$`), func([]string, *uint64) (uint64, uint64) { return 0, 1 }},
		{"go", true, regexp.MustCompile(`^--- (PASS|FAIL): \S+ \([0-9.]+s\)$`), func(m []string, _ *uint64) (uint64, uint64) {
			return one(m[0] == "PASS"), one(m[0] == "FAIL")
		}},
		// [INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 1
		{"maven", false, regexp.MustCompile(`^(?:\[[A-Z]+\]\s+)?Tests run: (\d+), Failures: (\d+), Errors: (\d+)(?:, Skipped: (\d+))?(?:, .*)?$`), func(m []string, _ *uint64) (uint64, uint64) {
			failed := plus(number(m[1]), number(m[2]))
			return minus(number(m[0]), plus(failed, number(m[3]))), failed
		}},
		// 3 passing (10ms); 1 failing
		{"mocha", false, regexp.MustCompile(`^(\d+) (passing|failing)(?: \([0-9a-z]+\))?$`), func(m []string, _ *uint64) (uint64, uint64) {
			if m[1] == "passing" {
				return number(m[0]), 0
			}
			return 0, number(m[0])
		}},
		// ok 1 - name; not ok 2 - name; # pass 3; # fail 0
		{"tap", true, regexp.MustCompile(`^(not )?ok \d+\b(.*)$`), func(m []string, _ *uint64) (uint64, uint64) {
			if directive := strings.ToUpper(m[1]); strings.Contains(directive, "# SKIP") || strings.Contains(directive, "# TODO") {
				return 0, 0
			}
			return one(m[0] == ""), one(m[0] != "")
		}},
		{"tap", true, regexp.MustCompile(`^# (pass|fail) +(\d+)$`), func(m []string, _ *uint64) (uint64, uint64) {
			if m[0] == "pass" {
				return number(m[1]), 0
			}
			return 0, number(m[1])
		}},
		// 100% tests passed, 0 tests failed out of 5
		{"ctest", false, regexp.MustCompile(`^\d+% tests passed, (\d+) tests failed out of (\d+)$`), func(m []string, _ *uint64) (uint64, uint64) {
			return minus(number(m[1]), number(m[0])), number(m[0])
		}},
		// 5 examples, 1 failure, 2 pending
		{"rspec", false, regexp.MustCompile(`^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?(?:, (\d+) errors? occurred outside of examples)?$`), func(m []string, _ *uint64) (uint64, uint64) {
			return minus(number(m[0]), plus(number(m[1]), number(m[2]))), plus(number(m[1]), number(m[3]))
		}},
	}
})

// countWords reads "1 failed, 3 passed, 1 error".
func countWords(m []string, _ *uint64) (passed, failed uint64) {
	for item := range strings.SplitSeq(strings.ReplaceAll(m[0], " | ", ", "), ", ") {
		digits, word, _ := strings.Cut(item, " ")
		switch word {
		case "passed":
			passed = plus(passed, number(digits))
		case "failed", "error", "errors", "failure", "failures":
			failed = plus(failed, number(digits))
		}
	}
	return passed, failed
}

// failures reads "failures=1, errors=2, skipped=3".
func failures(list string) uint64 {
	var n uint64
	for item := range strings.SplitSeq(list, ", ") {
		key, digits, _ := strings.Cut(item, "=")
		switch key {
		case "failures", "errors", "unexpected successes":
			n = plus(n, number(digits))
		}
	}
	return n
}

// number reads digits; a number too large to hold is the largest.
func number(digits string) uint64 {
	n, _ := strconv.ParseUint(digits, 10, 64) // on overflow it gives the largest
	return n
}

func one(yes bool) uint64 { return atLeast(0, yes) }

func atLeast(n uint64, one bool) uint64 {
	if one {
		return max(n, 1)
	}
	return n
}

func minus(a, b uint64) uint64 { return a - min(a, b) }

// CheckOutcome refuses a bundle whose test log does not support its outcome:
//
//   - solved needs a test log that tells of at least one test passed and none
//     failed;
//   - failed is contradicted by such a log;
//   - skipped and errored say nothing about tests.
func CheckOutcome(b *Bundle) (TestSummary, error) {
	s := SummariseTests(b.TestLog)
	passing := s.Passed > 0 && s.Failed == 0
	mismatch := func(format string, args ...any) error {
		return refusal.Newf(refusal.OutcomeMismatch, "bundle: "+format, args...).
			WithHint("read the test log; the outcome is a claim, the log is the evidence")
	}
	switch {
	case b.Outcome == Solved && b.TestLog == nil:
		return s, mismatch("the outcome is solved and there is no test log")
	case b.Outcome == Solved && !s.Found():
		return s, mismatch("the outcome is solved and the test log has no summary line that this program knows")
	case b.Outcome == Solved && !passing:
		return s, mismatch("the outcome is solved and the test log says %s", s)
	case b.Outcome == Failed && passing:
		return s, mismatch("the outcome is failed and the test log says %s", s)
	}
	return s, nil
}
