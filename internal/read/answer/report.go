package answer

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/run/grade"
)

// maxDivergences bounds how many failed cases are compared with earlier runs:
// after a few the reader knows, and each takes two trajectories.
const maxDivergences = 50

// Report gathers what a test reporter shows of an attempt. It needs
// [dossier.Ask].Again and the records of the attempt; with those of every attempt it
// tells where cases left the run in which they last passed.
func Report(a *dossier.Dossier, d Decided) (gate.Report, error) {
	report := gate.Report{Class: a.Class, Attempt: a.ID, Target: a.Target, Level: a.Level.String(), Started: a.Time.Go(), Gates: d.Results,
		Refused: d.Refused != nil, Unanswered: d.Unanswered > 0, Qualifications: history.Qualify(a.Attempt)}
	if d.Level != nil {
		report.LevelWanting = d.Level.Error()
	}
	// Why a case has no score is in its record and nowhere in the totals.
	records, err := a.Records()
	if err != nil {
		return report, err
	}
	if a.Plan.Reduce != "" {
		return report, reducedCases(&report, a, records)
	}
	looked := 0
	for c := range a.Cases() {
		m := c.On(history.AsRecorded)
		t := gate.Row{ID: c.ID, Outcome: m.Outcome, Unanswered: c.Unanswered(), Score: m.Value(), Duration: c.Latency(), FailureModes: c.FailureModes(), Qualifications: a.QualificationsOf(c.Case),
			Corrected: c.BesideText()}
		if record := records[c.Index]; record != nil {
			t.Reason = record.Reason
		}
		if a.Plan.Repeat > 1 {
			t.Repeat = int(c.Repeat)
		}
		if c.Index >= 0 && !m.Passed() {
			compared(c, &t)
		}
		if err := withholdIn(c, &t); err != nil {
			return report, err
		}
		if c.Index >= 0 && !m.Passed() {
			if looked++; looked <= maxDivergences {
				t.Divergence = parted(c)
			}
		}
		report.Cases = append(report.Cases, t)
	}
	for range a.Unlisted() {
		report.Cases = append(report.Cases, gate.Row{ID: "a case whose name is not known", Outcome: history.NotRun, Qualifications: []string{history.QualNotRun}})
	}
	return report, nil
}

// reducedCases adds one test for each case whose repetitions make one outcome.
func reducedCases(report *gate.Report, a *dossier.Dossier, records map[int64]*evidence.CaseScored) error {
	for _, x := range scorecard.ReducedCases(a.Attempt, history.AsRecorded) {
		t := gate.Row{ID: x.ID, Outcome: x.Outcome, Score: x.Score, Corrected: x.BesideChange()}
		var first *dossier.Case // that did not pass
		for _, c := range x.Cases {
			t.Duration += c.Latency()
			if first == nil && c.Outcome() != evidence.Passed {
				first = a.Case(c)
			}
			t.Unanswered = t.Unanswered || c.Unanswered()
		}
		if first != nil {
			t.FailureModes = first.FailureModes()
			if record := records[first.Index]; record != nil {
				t.Reason = record.Reason
			}
			compared(first, &t)
			if err := withholdIn(first, &t); err != nil {
				return err
			}
		}
		t.Reason = strings.TrimSuffix(fmt.Sprintf("%d of %d repetitions passed, reduced by %s: %s", x.Passed, x.Of, a.Plan.ReducedText(), t.Reason), ": ")
		t.Qualifications = a.QualificationsOf(x.Cases[0])
		report.Cases = append(report.Cases, t)
	}
	return nil
}

// compared adds to a case that did not pass what the grader compared that decided
// it. It is a help to people: without the evidence the report is shorter and as
// red.
func compared(c *dossier.Case, t *gate.Row) {
	checks, err := c.Checks()
	if err != nil {
		return
	}
	check := grade.Decisive(checks)
	if check == nil {
		return
	}
	t.Check = checkName(check)
	if t.Got = check.Missing; check.Extracted != nil {
		t.Got = check.Extracted.Head
	}
	if check.Expected != nil {
		t.Want = check.Expected.Head
	}
	if t.Reason == "" {
		t.Reason = check.Why
	}
}

// checkName tells which check it is: its name, if the author gave it one, and its grader.
func checkName(d *grade.Detail) string {
	if d.Check == "" {
		return string(d.Grader)
	}
	return d.Check + " (" + string(d.Grader) + ")"
}

// withholdIn hides what a report would tell of a held-out case.
func withholdIn(c *dossier.Case, t *gate.Row) error {
	if t.Reason == "" && t.Got == "" && t.Want == "" {
		return nil
	}
	w, err := c.Hider()
	t.Reason, t.Got, t.Want = w.Text(t.Reason), w.Text(t.Got), w.Text(t.Want)
	return err
}

// ReportFiles are where what test reporters and pull requests read is written; "" for
// nowhere. Cost and Comparison are for the pull request.
type ReportFiles struct {
	JUnit, TAP, Markdown string
	Cost                 cost.Cost
	Comparison           *scorecard.Comparison
}

// Any reports whether something is to be written.
func (f ReportFiles) Any() bool { return f.JUnit != "" || f.TAP != "" || f.Markdown != "" }

// A Decided is what was decided about an attempt, and what the command is refused for:
// Level, that its level is not the one asked for, and Refused, that or the decision.
type Decided struct {
	*gate.Decision
	Refused, Level error
}

// WriteReports writes what test reporters read. See [Report].
func WriteReports(a *dossier.Dossier, d Decided, files ReportFiles) error {
	if !files.Any() {
		return nil
	}
	report, err := Report(a, d)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path  string
		write func(io.Writer, gate.Report) error
	}{{files.JUnit, gate.WriteJUnit}, {files.TAP, gate.WriteTAP}, {files.Markdown, (&comment{d.Decision, files.Cost, files.Comparison}).write}} {
		if f.path == "" {
			continue
		}
		var b bytes.Buffer
		if err := f.write(&b, report); err != nil {
			return err
		}
		if err := store.WriteFile(store.OS{}, f.path, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
