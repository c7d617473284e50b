package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/trajectory"
)

// watchFlags are the flags of "tally run" that go with --watch: a watched run leaves
// no attempt, so there is nothing to resume, report or compare with.
var watchFlags = []string{"watch", "target", "param", "case", "tag", "repeat", "jobs", "sandbox", "unsafe-agent", "show-held-out", "trust-root"}

// watchedSpec checks that the flags of a run are those of a watched one.
func watchedSpec(cmd *cobra.Command, spec *harness.Spec) error {
	for _, name := range givenFlags(cmd) {
		if !slices.Contains(watchFlags, name) {
			return refusal.Newf(refusal.Usage, "--%s does not go with --watch, which records no attempt", name).WithHint("with --watch: --%s", strings.Join(watchFlags[1:], ", --"))
		}
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
	place.Note = noteOnce(place.Note)
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &watchScreen{env: env, command: record, terminal: !env.JSON && isTerminal(env.Stdout), end: end, asks: make(chan lab.WatchAsk)}
	w := &lab.Watch{Spec: o.spec, TrustRoot: o.trustRoot, Began: s.began, Case: s.oneCase, Ended: s.ended, Asks: s.asks, Command: record}
	if k := openKeyboard(ctx, env); k != nil {
		defer k.close()
		s.keys = true
		go s.follow(ctx, k.keys)
	}
	return w.Loop(ctx, place)
}

// noteOnce tells a person each thing once: a class that is stale is so at every save.
func noteOnce(note func(string, ...any)) func(string, ...any) {
	told := map[string]bool{}
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if text := fmt.Sprintf(format, args...); !told[text] {
			told[text] = true
			note("%s", text)
		}
	}
}

// maxCasesShown is how many cases a run shows with all that differs; of more it lists names.
const maxCasesShown = 20

// A watchScreen shows runs as they happen: on a terminal the newest alone, with
// cases as they end; in a pipe a line for each.
type watchScreen struct {
	env      *Env
	command  string
	terminal bool
	keys     bool // a person can press some
	asks     chan lab.WatchAsk
	end      func()

	mu       sync.Mutex // of what follows: keys come while a run is under way
	last     *lab.Watched
	shown    int // cases of the run that is under way
	question *watchQuestion
	err      error // of writing
}

func (s *watchScreen) began(changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown, s.question = 0, nil // its numbers may mean something else soon
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown++; !s.terminal || c.Unanswered || s.shown > maxCasesShown {
		return
	}
	s.print(func(w io.Writer) { watchedCaseText(w, c, s.columns()) })
}

// columns are those beside the labels of an answer.
func (s *watchScreen) columns() int {
	_, columns := terminalSize(s.env.Stdout)
	return columns - labelWidth
}

func (s *watchScreen) ended(run *lab.Watched) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = run
	if s.err != nil {
		return s.err
	}
	return s.env.Answer(run, func(w io.Writer) {
		if s.terminal {
			watchedText(w, run, s.command, s.keys)
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
func changedText(changed []string) string { return someOf(changed, 5) }

// someOf lists the first few names and how many more there are.
func someOf(names []string, most int) string {
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return plain.Line(text)
}

// watchedName is a case, with its target if there are several.
func watchedName(c lab.WatchedResult) string {
	name := plain.Line(c.Case) + history.RepeatMark(c.Repeat)
	if c.Target != "" {
		name += " by " + plain.Line(bench.ShortTarget(c.Target))
	}
	return name
}

func watchedCaseText(w io.Writer, c lab.WatchedResult, columns int) {
	fmt.Fprintf(w, "%s%*s %s", outcomeText(c.Outcome), max(0, 8-len(c.Outcome)), "", watchedName(c))
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
	const margin = "         "
	if c.WasAnswer != "" {
		beside(w, []outline.Column{{Title: "before", Text: c.WasAnswer}, {Title: "now", Text: c.Answer}}, columns, margin)
	}
	if c.WasAnswer == "" || !strings.Contains(c.Divergence, string(trajectory.ChangedAnswer)) {
		divergenceText(w, c.Divergence, margin)
	}
}

// beside writes texts side by side behind a margin.
func beside(w io.Writer, columns []outline.Column, width int, margin string) {
	for line := range strings.Lines(outline.SideBySide(columns, width)) {
		io.WriteString(w, margin+line)
	}
}

func watchedText(w io.Writer, run *lab.Watched, command string, keys bool) {
	if run.Error != "" {
		fmt.Fprintf(w, "no run   %s\n", plain.Line(run.Error))
		if run.Hint != "" {
			fmt.Fprintf(w, "hint     %s\n", plain.Line(run.Hint))
		}
	} else {
		watchedSummary(w, run)
	}
	if run.Unsigned != "" {
		fmt.Fprintf(w, "note     not signed as it is: %s\n", plain.Line(run.Unsigned))
	}
	if len(run.Unseen) > 0 {
		fmt.Fprintf(w, "note     more files than are looked at: changes in %s may not be noticed\n", someOf(run.Unseen, 3))
	}
	fmt.Fprintf(w, "NOT RECORDED: to record an attempt, %s\n", plain.Line(command))
	if keys {
		fmt.Fprintln(w, "waiting for a change; r runs all, f the failing ones, ? lists the keys, q ends")
	} else {
		fmt.Fprintln(w, "waiting for a change; Ctrl-C ends")
	}
}

// watchedSummary is a run as a whole: what was done, and what is as it was and does not
// pass.
func watchedSummary(w io.Writer, run *lab.Watched) {
	fmt.Fprintf(w, "cases    %s\n", watchedCounts(run))
	fmt.Fprintf(w, "done     %s\n", watchedWork(run))
	var still, more []string
	for i, c := range run.Cases {
		switch {
		case c.Unanswered:
		case !c.Differs:
			still = append(still, watchedName(c))
		case i >= maxCasesShown:
			more = append(more, watchedName(c))
		}
	}
	if len(more) > 0 {
		fmt.Fprintf(w, "also     %s\n", someOf(more, 10))
	}
	if len(still) > 0 {
		fmt.Fprintf(w, "still    %s: as before\n", someOf(still, 10))
	}
	for _, q := range run.Questions {
		fmt.Fprintf(w, "new      %s\n", plain.Line(q.Text))
		fmt.Fprintf(w, "         not asked: %s\n", plain.Line(q.Why))
	}
	if run.PaidCalls > 0 {
		fmt.Fprintf(w, "paid     %s for %s\n", plain.Dollars(run.PaidMicro), plain.Plural(int(run.PaidCalls), "call"))
	}
	fmt.Fprintf(w, "today    %s paid in this workspace\n", plain.Dollars(run.TodayMicro))
	for _, g := range run.Accepted {
		fmt.Fprintf(w, "accepted golden trace of %s\n", plain.Line(g.Case+" by "+bench.ShortTarget(g.Target)))
		divergenceText(w, g.Detail, "         ")
	}
	if n := len(run.Golden); n > 0 {
		fmt.Fprintf(w, "golden   %s from the golden trace: %s; a accepts\n", plain.Plural(n, "case")+differ(n), someOf(goldenNames(run.Golden), 5))
	}
}

func differ(n int) string {
	if n == 1 {
		return " differs"
	}
	return " differ"
}

func goldenNames(changes []lab.GoldenChange) []string {
	var names []string
	for _, g := range changes {
		names = append(names, g.Case)
	}
	return names
}

// watchedWork is what was done for a run.
func watchedWork(run *lab.Watched) string {
	text := fmt.Sprintf("%d driven", run.Driven)
	if run.Regraded > 0 {
		text += fmt.Sprintf(", %d graded again with 0 calls", run.Regraded)
	}
	if run.Kept > 0 {
		text += fmt.Sprintf(", %d as they were", run.Kept)
	}
	return text
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
	target := run.Target
	if len(run.Targets) > 0 {
		target = plain.Plural(len(run.Targets), "target")
	}
	text := plain.Line(run.Class + " by " + target + ": ")
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
		text += "; " + watchedName(c) + " " + c.Outcome
		if c.Flipped() {
			text += ", was " + c.Was
		}
	}
	if run.Error == "" {
		text += "; " + watchedWork(run)
	}
	for _, q := range run.Questions {
		text += "; " + plain.Line(q.Text)
	}
	if run.PaidCalls > 0 {
		text += fmt.Sprintf("; paid %s for %s", plain.Dollars(run.PaidMicro), plain.Plural(int(run.PaidCalls), "call"))
	}
	if run.Unsigned != "" {
		text += "; not signed as it is"
	}
	if len(run.Changed) > 0 {
		text += "; changed " + changedText(run.Changed)
	}
	return text + " (not recorded)"
}
