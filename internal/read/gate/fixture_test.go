package gate

import (
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

func ptr(v float64) *float64 { return &v }

// plainReport has one test of every kind.
func plainReport() Report {
	return Report{
		Class: "greet", Attempt: "greet.builtin.3", Target: "builtin", Level: "signed",
		Started: time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC),
		Cases: []Row{
			{ID: "hello", Outcome: evidence.Passed, Duration: 1500 * time.Millisecond, Score: ptr(1), Qualifications: []string{history.QualJudged, history.QualCached}},
			{ID: "bye", Repeat: 2, Outcome: evidence.Failed, Duration: 20 * time.Millisecond, Score: ptr(0.25), FailureModes: []string{"wrong_answer"},
				Got: "hello", Want: "goodbye", Divergence: "turn 2, step 5: changed arguments"},
			{ID: "later", Outcome: evidence.Skipped, Reason: "needs a printer"},
			{ID: "crash", Outcome: evidence.Errored, Reason: "the agent died"},
			{ID: "judge", Outcome: evidence.Unscored, Reason: "the judge timed out"},
			{ID: "long", Outcome: evidence.Truncated, Reason: "turn limit"},
			{ID: "never", Outcome: history.NotRun},
			{ID: "odd", Outcome: "unheard of"},
		},
		Gates: []Result{
			{Tag: "*", Metric: bench.SolveRate, Value: ptr(0.5), Threshold: 0.6, N: 8},
			{Tag: "slow", Metric: bench.P95LatencyMS, Value: ptr(1500), Threshold: 2000, Met: true, N: 3},
			{Tag: "empty", Metric: bench.SolveRate, Threshold: 0.6, Reason: "no case with this tag has a score"},
		},
		Qualifications: []history.Qualification{{Name: history.QualJudged, Tasks: 1, Text: "1 of 8 tasks judged by a model"}},
	}
}

// poison is what a hostile agent puts wherever a text of its own may go.
var poison = []string{
	"\x1b[2J\x1b[31mred\x07",
	"a\x00b\x08c\x0bd\x7f\u0085\ufffe\uffff",
	"\xff\xfe not UTF-8 \xc3",
	"\u202eesrever\u2066",
	"]]></failure><testcase name=\"won\"/><!-- & '\" -->",
	"::error file=x::owned\n::set-output name=a::b",
	"##[error]owned ##vso[task.complete result=Succeeded;]",
	"line\nok 99 - injected\n  ...\nBail out! now\n1..0",
	"x # SKIP not really",
	`x \# TODO \\# SKIP`,
	"a subtest {",
	"{",
	"# Subtest: x",
	"- 17",
	"\r\nTAP version 13\r",
	"pragma +bail",
	"&#0; &lt; %s %d",
	" ",
	"",
}

// hostileReport has every poison in every place.
func hostileReport() Report {
	r := plainReport()
	for _, p := range poison {
		for _, o := range []evidence.Outcome{evidence.Passed, evidence.Failed, evidence.Skipped, evidence.Errored, evidence.Unscored, evidence.Truncated, history.NotRun, evidence.Outcome(p)} {
			r.Cases = append(r.Cases, Row{ID: p, Repeat: 1, Outcome: o, Duration: -time.Second, Score: ptr(0.5), Reason: p, FailureModes: []string{p}, Got: p, Want: p, Divergence: p})
		}
		r.Gates = append(r.Gates, Result{Tag: p, Metric: bench.Metric(p), Reason: p})
	}
	r.Class, r.Attempt, r.Target, r.Level = poison[0], poison[5], poison[7], poison[2]
	return r
}

// wantStatus is how a reporter must see each test of a report.
func wantStatus(r Report) []status {
	var want []status
	for _, c := range r.Cases {
		switch c.Outcome {
		case evidence.Passed:
			want = append(want, pass)
		case evidence.Failed:
			want = append(want, fail)
		case evidence.Skipped:
			want = append(want, skip)
		default:
			want = append(want, broken)
		}
	}
	for _, g := range r.Gates {
		if g.Met {
			want = append(want, pass)
		} else {
			want = append(want, fail)
		}
	}
	return want
}
