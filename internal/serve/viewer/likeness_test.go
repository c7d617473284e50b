package viewer

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/read/answer"
	"tallystick/internal/run/grade"
)

// What is said at once to be shared is shared by most that did not pass, and not as much by
// the others.
func TestWhatCasesShareIsSaidOnlyIfTheyShareIt(t *testing.T) {
	named := func(name string, groups ...caseGroup) sharing {
		return sharing{grouping: groupingOf(name), Groups: groups}
	}
	for _, tt := range []struct {
		name      string
		failed, n int
		sharing   sharing
		want      string
	}{
		{"all of them", 14, 40, named("tag", caseGroup{Label: "invoices", N: 14, NotPassed: 14}), "tag invoices all"},
		{"most of them", 14, 40, named("tag", caseGroup{Label: "invoices", N: 12, NotPassed: 9}), "tag invoices"},
		{"half of them", 14, 40, named("tool", caseGroup{Label: "find", N: 7, NotPassed: 7}), "tool find"},
		{"fewer than half", 14, 40, named("tag", caseGroup{Label: "invoices", N: 6, NotPassed: 6}), ""},
		{"a tag that every case has", 14, 40, named("tag", caseGroup{Label: "eu", N: 40, NotPassed: 14}), ""},
		{"a tag of which fewer fail than of all", 14, 40, named("tag", caseGroup{Label: "eu", N: 38, NotPassed: 13}), ""},
		{"one case", 1, 40, named("tag", caseGroup{Label: "eu", N: 1, NotPassed: 1}), ""},
		{"a failure mode where every case failed", 9, 9, named("mode", caseGroup{Label: "leak", N: 9, NotPassed: 9}), "failure mode leak all"},
		{"a tag where every case failed", 9, 9, named("tag", caseGroup{Label: "eu", N: 9, NotPassed: 9}), ""},
		{"no failure mode", 4, 9, named("mode", caseGroup{Label: "no failure mode", N: 5, NotPassed: 4}), ""},
		{"nothing", 4, 9, named("tool"), ""},
	} {
		d := attemptData{Sharings: []sharing{tt.sharing}, States: []stateTab{{N: tt.n}}, Failing: stateTab{N: tt.failed}}
		got := ""
		for _, c := range d.Common() {
			got += c.What + " " + c.Group.Label
			if c.All {
				got += " all"
			}
		}
		if got != tt.want {
			t.Errorf("%s: says %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A check that only adds up others is folded, and never the one that tells why.
func TestAChecksSumIsFoldedAndItsReasonIsNot(t *testing.T) {
	check := func(name string, kind grade.Kind, outcome grade.Outcome) grade.Detail {
		return grade.Detail{Check: name, Grader: kind, Outcome: outcome}
	}
	const bad = grade.Mismatch
	for _, tt := range []struct {
		name   string
		checks []grade.Detail
		want   string // failing, adding up, passing
	}{
		{"one check", []grade.Detail{check("", grade.Weighted, bad), check("amount", grade.Contains, bad)}, "[1] [0] []"},
		{"one of two", []grade.Detail{check("", grade.Weighted, bad), check("a", grade.Contains, grade.Passed), check("b", grade.Contains, bad)}, "[2] [0] [1]"},
		{"two checks of which one has no name", []grade.Detail{check("", grade.Contains, bad), check("b", grade.Contains, bad)}, "[0 1] [] []"},
		{"a check alone", []grade.Detail{check("", grade.Contains, bad)}, "[0] [] []"},
		{"a sum that is too small of checks that passed", []grade.Detail{check("", grade.Weighted, bad), check("a", grade.Contains, grade.Passed)}, "[0] [] [1]"},
		{"a sum whose checks stand elsewhere", []grade.Detail{check("", grade.Weighted, grade.Passed), check("x", grade.All, bad), check("y", grade.Contains, bad)}, "[1 2] [] [0]"},
		{"within", []grade.Detail{check("", grade.Weighted, bad), check("x", grade.All, bad), check("x/y", grade.Contains, bad)}, "[2] [0 1] []"},
	} {
		d := &caseData{Why: &answer.Why{Checks: tt.checks}}
		if got := strings.ReplaceAll(fmt.Sprint(d.Failing(), d.Combining(), d.Passing()), "<nil>", "[]"); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Marks colour what an agent said and leave nothing of it out; what is HTML in it is text.
func TestMarksAreColouredAndKept(t *testing.T) {
	for text, want := range map[string]string{
		"a [-b-] {+c+} d":           "<div>a <del>[-b-]</del> <ins>{+c+}</ins> d</div>",
		"  - said <script>":         `<div class="minus">  - said &lt;script&gt;</div>`,
		"  + {+<b>+}\n":             `<div class="plus">  + <ins>{+&lt;b&gt;+}</ins></div>`,
		"turn 1\n- x":               `<div>turn 1</div><div class="minus">- x</div>`,
		"-x [-open":                 "<div>-x [-open</div>",
		"{+ [-nested-] +}":          "<div><ins>{+ [-nested-] +}</ins></div>",
		"a \u202eb":                 `<div>a \u{202e}b</div>`,
		`[-"onclick=alert(1)-]`:     "<div><del>[-&#34;onclick=alert(1)-]</del></div>",
		strings.Repeat("x\n", 2001): strings.Repeat("<div>x</div>", 2000) + `<div class="fold">…</div>`,
	} {
		if got := string(markedLines(text)); got != want {
			t.Errorf("%.40q: %.200s, want %.200s", text, got, want)
		}
	}
}

// A chance is never written as none, and an id is broken after its dots only.
func TestSmallChancesAndLongIds(t *testing.T) {
	for p, want := range map[float64]string{0: "p < 0.001", 0.0004: "p < 0.001", 0.001: "p = 0.001", 0.031: "p = 0.031", 1: "p = 1.000"} {
		if got := chance(p); got != want {
			t.Errorf("%v is %q, want %q", p, got, want)
		}
	}
	if got := string(dotted("builtin+x.<b>.2")); got != "builtin+<wbr>x.<wbr>&lt;b&gt;.<wbr>2" {
		t.Errorf("the id is %s", got)
	}
}
