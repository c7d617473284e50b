package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/harness"
)

// watchFlags are the flags of "tally run" that go with --watch: a watched run leaves
// no attempt, so there is nothing to resume, report, compare or pay.
var watchFlags = []string{"watch", "target", "case", "tag", "repeat", "jobs", "sandbox", "unsafe-agent", "show-held-out", "trust-root"}

// watchedSpec checks that the flags of a run are those of a watched one.
func watchedSpec(cmd *cobra.Command, spec *harness.Spec) error {
	var wrong string
	for _, name := range givenFlags(cmd) {
		if !slices.Contains(watchFlags, name) {
			wrong = name
		}
	}
	switch {
	case wrong != "":
		return refusal.Newf(refusal.Usage, "--%s does not go with --watch, which records no attempt", wrong).WithHint("with --watch: --%s", strings.Join(watchFlags[1:], ", --"))
	case len(spec.Targets) > 1:
		return refusal.Newf(refusal.Usage, "--watch runs one target, and %d are named", len(spec.Targets))
	case len(spec.Targets) == 0:
		spec.Targets = []string{agent.DefaultTarget}
	}
	return nil
}

// runWatch runs a class again at each change; record is the command that would record
// an attempt.
func runWatch(ctx context.Context, env *Env, o runOptions, record string) error {
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	s := &watchScreen{env: env, command: record, terminal: !env.JSON && isTerminal(env.Stdout)}
	w := &lab.Watch{Spec: o.spec, TrustRoot: o.trustRoot, Began: s.began, Case: s.oneCase, Ended: s.ended}
	return w.Loop(ctx, place)
}

// A watchScreen shows runs as they happen: on a terminal the newest alone, with
// cases as they end; in a pipe a line for each.
type watchScreen struct {
	env      *Env
	command  string
	terminal bool
	err      error // of writing
}

func (s *watchScreen) began(changed []string) {
	if !s.terminal {
		return
	}
	s.print(func(w io.Writer) {
		io.WriteString(w, "\x1b[H\x1b[2J\x1b[3J")
		if len(changed) > 0 {
			fmt.Fprintf(w, "changed  %s\n", changedText(changed))
		}
		fmt.Fprintln(w, "running  ...")
	})
}

func (s *watchScreen) oneCase(c lab.WatchedResult) {
	if s.terminal {
		s.print(func(w io.Writer) { watchedCaseText(w, c) })
	}
}

func (s *watchScreen) ended(run *lab.Watched) error {
	if s.err != nil {
		return s.err
	}
	return s.env.Answer(run, func(w io.Writer) {
		if s.terminal {
			watchedText(w, run, s.command)
		} else {
			fmt.Fprintln(w, watchedLine(run))
		}
	})
}

func (s *watchScreen) print(text func(io.Writer)) {
	if s.err == nil {
		s.err = s.env.Answer(nil, text)
	}
}

// changedText lists a few of the files.
func changedText(changed []string) string {
	const most = 5
	text := strings.Join(changed[:min(most, len(changed))], ", ")
	if more := len(changed) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return plain.Line(text)
}

func watchedCaseText(w io.Writer, c lab.WatchedResult) {
	fmt.Fprintf(w, "%s%*s %s%s", outcomeText(c.Outcome), max(0, 8-len(c.Outcome)), "", plain.Line(c.Case), history.RepeatMark(c.Repeat))
	if c.Was != "" && c.Was != c.Outcome {
		fmt.Fprintf(w, ", %s before", c.Was)
	}
	switch {
	case c.HeldOut && c.Why == "" && c.Outcome != string(evidence.Passed):
		fmt.Fprint(w, ", held out")
	case c.Why != "":
		fmt.Fprintf(w, ": %s", plain.Lines(plain.Shorter(c.Why, 10), said))
	}
	fmt.Fprintln(w)
	divergenceText(w, c.Divergence, "         ")
}

func watchedText(w io.Writer, run *lab.Watched, command string) {
	if run.Error != "" {
		fmt.Fprintf(w, "no run   %s\n", plain.Line(run.Error))
		if run.Hint != "" {
			fmt.Fprintf(w, "hint     %s\n", plain.Line(run.Hint))
		}
	} else {
		fmt.Fprintf(w, "cases    %s\n", watchedCounts(run))
	}
	if run.Unsigned != "" {
		fmt.Fprintf(w, "note     not signed as it is: %s\n", plain.Line(run.Unsigned))
	}
	fmt.Fprintf(w, "NOT RECORDED: to record an attempt, %s\n", plain.Line(command))
	fmt.Fprintln(w, "waiting for a change; Ctrl-C ends")
}

func watchedCounts(run *lab.Watched) string {
	text := fmt.Sprintf("%d: %d passed, %d failed", run.Total, run.Passed, run.Failed)
	for _, n := range []plain.Count{{N: run.Other, What: "neither"}, {N: run.Flips, What: "changed sides"}} {
		if n.N > 0 {
			text += fmt.Sprintf(", %d %s", n.N, n.What)
		}
	}
	return text
}

// watchedLine is a run in a pipe.
func watchedLine(run *lab.Watched) string {
	text := plain.Line(run.Class + " by " + run.Target + ": ")
	if run.Error != "" {
		text += "no run: " + plain.Line(run.Error)
	} else {
		text += watchedCounts(run)
	}
	for i, c := range run.Cases {
		if i == 5 {
			text += fmt.Sprintf("; and %d more", len(run.Cases)-i)
			break
		}
		text += "; " + plain.Line(c.Case) + history.RepeatMark(c.Repeat) + " " + c.Outcome
		if c.Flipped() {
			text += ", was " + c.Was
		}
	}
	if run.Unsigned != "" {
		text += "; not signed as it is"
	}
	if len(run.Changed) > 0 {
		text += "; changed " + changedText(run.Changed)
	}
	return text + " (not recorded)"
}
