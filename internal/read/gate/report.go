package gate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// A Report is one attempt as a test reporter shows it: its cases, and its gates
// as tests of their own.
type Report struct {
	Class   string
	Attempt string
	Target  string
	Level   string // of assurance: scratch, signed, witnessed, reproduced
	Started time.Time
	Cases   []Row
	Gates   []Result
	// Refused says that the command is refused: what is not decided is then as red as
	// what is not met, so that a report is green only if the command is.
	Refused bool
	// Unanswered says that cases asked for replies that are not recorded: the attempt has
	// no verdict, and what was answered is a part of it.
	Unanswered bool
	// LevelWanting is the refusal of an attempt whose level is not the one that was
	// asked for; "" if none was, or if it is.
	LevelWanting string
	// Qualifications are what must be known beside these results: [history.Qualify].
	Qualifications []history.Qualification
}

// A Row is one repetition of a case in a report. A planned one without a record
// has the outcome [history.NotRun]. All texts may come from the agent, a
// rubric or a file; the writers make them safe.
type Row struct {
	ID           string
	Repeat       int // which repetition; 0 when there is only one
	Outcome      evidence.Outcome
	Duration     time.Duration
	Score        *float64 // nil when the case has none
	Reason       string   // why it has none, or did not pass
	Unanswered   bool     // it has none because it asks something new
	FailureModes []string
	Check        string // that decided: its name and its grader
	Got, Want    string // what the grader compared
	Divergence   string // where the run first left the baseline or golden trace

	// Qualifications name what must be known of this case.
	Qualifications []string
	Corrected      string // what stands beside the recorded score, "" if nothing does
}

// A status is how a test reporter sees a test. Only a pass is green.
type status int

const (
	pass status = iota
	fail
	broken // could not be judged: errors, unscored, truncated, never run
	skip
	allowed // did not pass, in an attempt that its gates take all the same
)

// A test is a case or a gate, reduced to what both writers need.
type test struct {
	group    string // "cases" or "gates"
	name     string
	kind     string // outcome, or "gate"
	status   status
	duration time.Duration
	message  string // one line, of our own words and escaped values
	said     string // qualifications, by name
	details  []detail
}

// A detail is a labelled value of a test that did not pass.
type detail struct {
	label, value string
	number       bool
}

// tests turns a report into tests. There is always at least one: a report in
// which nothing was run must not look like one in which all is well.
func (r Report) tests() []test {
	var all []test
	for _, c := range r.Cases {
		t := c.test()
		if t.status == fail || t.status == broken && c.Outcome != history.NotRun {
			t.add("see more", WhyCommand(r.Attempt, c.ID))
		}
		if r.Unanswered && (t.status == fail || t.status == broken) {
			t.status, t.message = skip, t.message+"; partial: the attempt is not answered and has no verdict"
		}
		if r.allowsFailures() && (t.status == fail || t.status == broken) {
			t.status, t.message = allowed, t.message+"; allowed by the gates"
		}
		all = append(all, t)
	}
	for _, g := range r.Gates {
		all = append(all, g.test(r.Refused && !r.Unanswered))
	}
	if r.LevelWanting != "" {
		all = append(all, test{group: "gates", name: "level of assurance", kind: "level", status: fail, message: r.LevelWanting})
	}
	if len(all) == 0 {
		all = append(all, test{group: "cases", name: "no case was run", kind: string(history.NotRun), status: broken, message: "the attempt has neither cases nor gates"})
	}
	return all
}

// allowsFailures reports whether the attempt is good enough all the same, so that no
// case which did not pass makes it red.
func (r Report) allowsFailures() bool {
	return len(r.Gates) > 0 && together(r.Gates) != IsNotMet && !r.Refused
}

// WhyCommand is what to type to see why a case of an attempt ended as it did.
func WhyCommand(attempt, caseID string) string { return "tally why " + attempt + ":" + caseID }

func (c Row) test() test {
	t := test{group: "cases", name: c.ID, kind: string(c.Outcome), duration: c.Duration, said: strings.Join(c.Qualifications, ", ")}
	if c.Repeat > 0 {
		t.name = fmt.Sprintf("%s (repeat %d)", c.ID, c.Repeat)
	}
	t.add("corrected", c.Corrected)
	switch c.Outcome {
	case evidence.Passed:
		t.status = pass
		return t
	case evidence.Failed:
		t.status = fail
		t.message = "failed"
	case evidence.Skipped:
		t.status = skip
		t.message = plain.Gist(c.Reason)
		return t
	case history.NotRun:
		t.status = broken
		t.message = "planned and never run"
	default:
		// An outcome that this program does not know is not a pass either.
		t.status = broken
		t.message = string(c.Outcome)
	}
	if c.Unanswered {
		t.kind, t.message = "unanswered", "asks something new"
	}
	if c.Score != nil {
		t.message += ", score " + plain.Number(*c.Score)
	}
	if c.Corrected != "" {
		t.message += ": " + c.Corrected
	}
	if c.Check != "" {
		t.message += ": check " + c.Check
	}
	if len(c.FailureModes) > 0 {
		t.message += ": " + strings.Join(c.FailureModes, ", ")
	}
	if c.Reason != "" {
		t.message += ": " + plain.Gist(c.Reason)
	}
	if strings.Contains(strings.TrimSpace(c.Reason), "\n") {
		t.add("reason", c.Reason)
	}
	// Most reasons name the values already.
	if (c.Got != "" || c.Want != "") && (c.Got == "" || !strings.Contains(c.Reason, c.Got)) {
		t.message += fmt.Sprintf(": got %s, want %s", quoted(c.Got, maxInMessage), quoted(c.Want, maxInMessage))
	}
	t.add("check", c.Check)
	t.add("got", c.Got)
	t.add("want", c.Want)
	t.add("first divergence", c.Divergence)
	return t
}

func (g Result) test(refused bool) test {
	t := test{group: "gates", name: g.Name(), kind: "gate", status: pass}
	t.details = []detail{{"value", valueText(g.Value), g.Value != nil}, {"threshold", plain.Number(g.Threshold), true}, {"n", strconv.Itoa(g.N), true}}
	switch g.State() {
	case IsNotMet:
		t.status, t.message = fail, g.Text()
	case IsNotDecided:
		if t.status, t.message = skip, string(IsNotDecided)+": "+g.Text(); refused {
			t.status = broken
		}
	}
	return t
}

func (t *test) add(label, value string) {
	if value != "" {
		t.details = append(t.details, detail{label: label, value: value})
	}
}

// The longest values that a report repeats. What is longer is in the evidence;
// a report that a CI server refuses to load is useless.
const (
	maxInMessage = 200
	maxInDetail  = 4096
)

// cut shortens s to at most limit bytes on a character's boundary, and says so.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes more)", s[:end], len(s)-end)
}

func quoted(s string, limit int) string { return `"` + cut(s, limit) + `"` }
