package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"tallystick/internal/app/lab"
	"tallystick/internal/app/spend"
	"tallystick/internal/read/recount"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// permit finds out of each setup whether it may pay for what is not recorded, and under
// which limit: that of the command line, or the permission of this user.
func (r *runner) permit(ctx context.Context, setups []*lab.Setup) error {
	for _, s := range setups {
		if err := r.permitOne(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) permitOne(ctx context.Context, s *lab.Setup) error {
	spec := &s.Spec
	limited := spec.MaxCostMicroUSD > 0 || spec.MaxCalls > 0
	said := spec.Cache || spec.OnMiss != ""
	r.askOnce(s)
	switch {
	case r.o.fleet.URL != "" || said || spec.Live && limited:
		return nil // the command line says everything
	case r.o.ci && s.Bench.Level() != string(bench.Scratch) && !spec.Live:
		r.env.Note("class %s is signed, and a signed class replays unless --live is given: --ci changes nothing", spec.Class)
		return nil
	case r.o.ci:
		spec.OnMiss = evidence.OnMissLive
		return nil
	case spec.Resume && !spec.Live && !r.resumesMixed(s):
		return nil
	}
	p, err := s.Permit()
	if err != nil {
		return err
	}
	if len(p.Lacking) > 0 && spec.Live && r.env.Interactive() {
		if err := askPermission(ctx, r.env, s, p); err != nil {
			return err
		}
		if p, err = s.Permit(); err != nil {
			return err
		}
	}
	if p.Why == "" {
		s.Under(p)
	}
	return nil // without a permission a plain run replays, and a live one is refused for its limit
}

// askOnce has a live run of a class that is not signed ask only for what was not answered
// before: it is prompt work, and proves nothing by paying again. A signed class is run
// live to see what the models say now.
func (r *runner) askOnce(s *lab.Setup) {
	spec := &s.Spec
	if !spec.Live || spec.Cache || spec.OnMiss != "" || r.o.fresh || r.o.fleet.URL != "" || s.Bench.Level() != string(bench.Scratch) {
		return
	}
	if spec.Resume && !r.resumesMixed(s) {
		return // its plan stands
	}
	spec.OnMiss = evidence.OnMissLive
}

// resumesMixed reports whether the attempt that is to be resumed asks models for what is
// not recorded. Its plan stands.
func (r *runner) resumesMixed(s *lab.Setup) bool {
	for i := len(r.reading.History.Attempts) - 1; i >= 0; i-- {
		if a := r.reading.History.Attempts[i]; a.Class == s.Bench.Class() && a.Target == s.Target.Name && a.Finished == nil {
			return recount.MixedOf(a) != nil
		}
	}
	return false
}

// askPermission asks the person at the terminal how much runs of this workspace may pay.
func askPermission(ctx context.Context, env *Env, s *lab.Setup, p *lab.Permission) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nRuns in this workspace would pay for what is not recorded.\n")
	fmt.Fprintf(&b, "  workspace  %s\n", p.Lacking[0].Workspace)
	for _, x := range p.Lacking {
		fmt.Fprintf(&b, "  asks       %s\n", x.Text())
	}
	for _, server := range p.Lacking[0].MCP {
		fmt.Fprintf(&b, "  tools      MCP server %s\n", server)
	}
	for _, server := range p.Lacking[0].Egress {
		fmt.Fprintf(&b, "  programs   %s\n", server)
	}
	fmt.Fprintf(&b, "  calls      at most %d a day, unless you say another number; another endpoint, key name, MCP command or server asks again\n", spend.DefaultCalls)
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(env.Stderr, plain.Line(strings.TrimSuffix(line, "\n")))
	}
	fmt.Fprintf(env.Stderr, `How many dollars a day? "yes" is %s, "N calls" and "D and N calls" are for models without a price, anything else is no: `, plain.Dollars(spend.DefaultMicroUSD))
	line, err := readAnswer(ctx, env.Stdin)
	if err != nil {
		return err
	}
	limit, ok := parseLimit(line)
	if !ok {
		return refusal.Newf(refusal.SpendingNotPermitted, "the answer %.40q is not a limit; nothing was permitted and nothing was sent", line).
			WithHint(`run the same command again and answer "yes", an amount such as 2.50, or "20 calls"`)
	}
	return p.Give(limit)
}

// parseLimit reads what a person types: yes, dollars, a number of calls, or dollars and
// calls.
func parseLimit(line string) (limit spend.Limit, ok bool) {
	line = strings.ToLower(strings.TrimSpace(line))
	dollars, calls, both := strings.Cut(line, " and ")
	if !both && (strings.HasSuffix(line, "calls") || strings.HasSuffix(line, "call")) {
		dollars, calls = "", line
	}
	if calls != "" {
		number, named := strings.CutSuffix(strings.TrimSuffix(strings.TrimSpace(calls), "s"), "call")
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if !named || err != nil || n < 1 || n > spend.MostCalls {
			return spend.Limit{}, false
		}
		limit.Calls = n
	}
	switch dollars = strings.TrimSpace(dollars); {
	case dollars == "" && limit.Calls > 0 && !both:
		return limit, true
	case dollars == "yes":
		limit.MicroUSD = spend.DefaultMicroUSD
		return limit, true
	}
	v, err := strconv.ParseFloat(strings.TrimPrefix(dollars, "$"), 64)
	if err != nil || math.IsNaN(v) || v < 1e-6 || v*1e6 > spend.MostMicroUSD {
		return spend.Limit{}, false
	}
	limit.MicroUSD = int64(v * 1e6)
	return limit, true
}

// unanswered fills in what it would take to answer the attempt, and is its refusal.
func (r *runner) unanswered(a *recount.Run, s *lab.Setup) error {
	var asks, failed []string
	if attempt := r.reading.History.Attempt(a.Attempt.ID); attempt != nil {
		for c := range attempt.Cases() {
			switch {
			case c.Unanswered():
				asks = append(asks, c.ID)
			case c.Index >= 0 && c.Outcome() != evidence.Passed:
				failed = append(failed, c.ID)
			}
		}
	}
	a.Missing = s.Missing(asks, failed, r.commandFor(s), !r.env.Interactive())
	return refusal.Newf(refusal.NotAnswered, "attempt %s: %s", a.Attempt.ID, missingText(a)).
		WithHint(`there is no score and no verdict; "tally why %s CASE" shows what a case asks`, a.Attempt.ID)
}

// commandFor is the command for one target with the selection of cases that was given.
func (r *runner) commandFor(s *lab.Setup) string {
	spec := &s.Spec
	words := []string{"tally run", plain.ShellWord(spec.Class), "--target", plain.ShellWord(s.Target.Name)}
	for _, list := range []struct {
		flag   string
		values []string
	}{{"--case", spec.Cases}, {"--tag", spec.Tags}} {
		for _, v := range list.values {
			words = append(words, list.flag, plain.ShellWord(v))
		}
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"--limit", spec.Limit}, {"--sample", spec.Sample}} {
		if n.value > 0 {
			words = append(words, n.flag, strconv.Itoa(n.value))
		}
	}
	if spec.Repeat > 1 {
		words = append(words, "--repeat", strconv.Itoa(spec.Repeat))
	}
	return strings.Join(words, " ")
}

// missingText is the question that an attempt ends with, in a line.
func missingText(a *recount.Run) string {
	text := fmt.Sprintf("%d of %d cases ask something new", a.Unanswered, a.Total)
	if m := a.Missing; m != nil {
		text += fmt.Sprintf(": %q would pay %s", m.Command, m.Estimate)
	}
	return text
}

// unansweredText tells what there is of an attempt that was not answered: a part, by
// name, and no number that could be taken for a result.
func unansweredText(out io.Writer, a *recount.Run) {
	answered := a.Total - a.Unanswered - a.NotRun
	fmt.Fprintf(out, "partial  %d of %d cases could be answered: %d passed", answered, a.Total, a.Passed)
	if m := a.Missing; m != nil && len(m.Failed) > 0 {
		const most = 10
		shown := m.Failed[:min(most, len(m.Failed))]
		fmt.Fprintf(out, ", %d did not: %s", len(m.Failed), plain.Line(strings.Join(shown, ", ")))
		if more := len(m.Failed) - most; more > 0 {
			fmt.Fprintf(out, " and %d more", more)
		}
	}
	fmt.Fprintln(out)
	fmt.Fprintf(out, "new      %s\n", plain.Line(missingText(a)))
}
