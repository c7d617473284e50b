package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/results"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/importer"
)

// A bundleWhy is what a bundle says about how its task ended. Nothing in it was
// verified.
type bundleWhy struct {
	Bundle     string          `json:"bundle"`
	Outcome    string          `json:"outcome"`
	Verified   bool            `json:"verified"` // never: the command says what the file says
	Refused    []bundleWhyCall `json:"calls_not_allowed"`
	TestLog    string          `json:"test_log,omitempty"`
	Postmortem string          `json:"postmortem,omitempty"`
	Missing    []string        `json:"missing"`
}

// A bundleWhyCall is a tool call that the policy did not simply allow.
type bundleWhyCall struct {
	Call  int    `json:"call"` // from 1
	Name  string `json:"name"`
	Check string `json:"policy_check"`
	How   string `json:"vantage,omitempty"`
}

// whyBundle tells why the task of a bundle ended as it did, as far as the bundle says.
func whyBundle(env *Env, path string) error {
	p, err := parseBundle(path)
	if err != nil {
		return err
	}
	a := bundleWhyOf(path, p)
	return env.Answer(a, func(out io.Writer) { bundleWhyText(out, a) })
}

func bundleWhyOf(path string, p *bundle.Parsed) *bundleWhy {
	a := &bundleWhy{Bundle: path, Outcome: p.Header.Outcome.String(), Refused: []bundleWhyCall{}, Missing: []string{}}
	for i, c := range p.Trace {
		if c.Check == bundle.Allowed {
			continue
		}
		call := bundleWhyCall{Call: i + 1, Name: c.Action, Check: c.Check.String()}
		if v, ok := p.VantageOf(i); ok {
			call.How = v.String()
		}
		a.Refused = append(a.Refused, call)
	}
	for _, s := range p.Sections {
		switch s.Tag {
		case bundle.TagTestLog:
			a.TestLog = string(s.Value)
		case bundle.TagPostmortem:
			a.Postmortem = string(s.Value)
		}
	}
	if a.TestLog == "" {
		a.Missing = append(a.Missing, "test log")
	}
	if a.Postmortem == "" && p.Header.Outcome != bundle.Solved {
		a.Missing = append(a.Missing, "postmortem")
	}
	return a
}

// shownLogLines is how much of a log is shown: the end of it, where the failure stands.
const shownLogLines = 40

func bundleWhyText(out io.Writer, a *bundleWhy) {
	fmt.Fprintf(out, "bundle   %s: %s, as the file says (\"tally verify\" verifies it)\n", plain.Line(a.Bundle), a.Outcome)
	for _, c := range a.Refused {
		how := ""
		if c.How == bundle.Reported.String() {
			how = ", reported by the agent: seen, not prevented"
		}
		fmt.Fprintf(out, "%-8s call %d, %s%s\n", c.Check, c.Call, plain.Line(c.Name), how)
	}
	endOfText(out, "postmortem", a.Postmortem)
	endOfText(out, "test log", a.TestLog)
	if len(a.Missing) > 0 {
		fmt.Fprintf(out, "missing  the bundle has no %s\n", strings.Join(a.Missing, " and no "))
	}
	fmt.Fprintln(out, "A bundle has digests of what tools were called with, and not the texts; \"tally why ATTEMPT:CASE\" in its workspace tells more.")
}

func endOfText(out io.Writer, name, text string) {
	if text == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	from := max(0, len(lines)-shownLogLines)
	fmt.Fprintf(out, "%s\n", name)
	if from > 0 {
		fmt.Fprintf(out, "  … %d lines before\n", from)
	}
	for _, line := range lines[from:] {
		fmt.Fprintf(out, "  %s\n", plain.Line(line))
	}
}

// whyImported tells why a row of another harness's results is not right, as far as its
// file says. Without a row the only one that is not right is meant.
func whyImported(ctx context.Context, env *Env, path, row string) error {
	a, err := importer.ShowImported(ctx, path, row)
	if err != nil {
		return err
	}
	if row == "" {
		if err := a.OnlyWrong(path); err != nil {
			return err
		}
	}
	return env.showPaged(ctx, a, func(out io.Writer) { whyImportedText(out, a) })
}

func whyImportedText(out io.Writer, a *importer.ShownImport) {
	importText(out, a.Runs)
	for _, r := range a.Rows {
		fmt.Fprintf(out, "row      %s: %s\n", plain.Line(r.ID), r.State)
		if r.Error != "" {
			fmt.Fprintf(out, "reason   %s\n", plain.Lines(r.Error, said))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Scores)) {
			fmt.Fprintf(out, "check    %s\n", plain.Line(name+" "+scoreWhy(r.Scores[name])))
		}
		shownText(out, "  asked  ", r.Input)
		shownText(out, "  got    ", r.Answer)
		shownText(out, "  want   ", r.Expected)
		if r.Answer.SHA256 == "" && r.Error == "" {
			fmt.Fprintln(out, "  got    nothing: the file has no answer of this row")
		}
		if r.Trajectory != "" {
			fmt.Fprintf(out, "steps    %s\n", plain.Line(r.Trajectory))
		}
	}
}

// scoreWhy is a score with the reason that the file gives for it.
func scoreWhy(s results.Score) string {
	text := "unscored"
	if s.Value != nil {
		text = fmt.Sprint(*s.Value)
	}
	if s.Said != "" {
		text += " (" + s.Said + ")"
	}
	if s.Why != "" {
		return text + ": " + s.Why
	}
	return text + ": the file gives no reason"
}

// refuseCaseFlags refuses flags that choose an attempt where a file is named.
func (o *whyOptions) refuseCaseFlags() error {
	if o.attempt != "" || o.class != "" {
		return refusal.Newf(refusal.Usage, "%s is a file, and --attempt and --class choose an attempt of this workspace", o.caseID).WithHint("leave them out; --row chooses a row of a file")
	}
	return nil
}
