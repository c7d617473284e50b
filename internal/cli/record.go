package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/wire"
)

type recordOptions struct {
	spec    harness.Spec
	lab     lab.RecordOptions
	yes, ci bool // agree without a terminal, and where CI is set
	again   bool // draw the named cases again
}

func newRecord(env *Env) *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use:     "record CLASS",
		Short:   "Record cassettes from live models and tools",
		Example: "tally record support --target default --only-missing",
		Long: `Drive the target through each case with live models and live MCP servers, and write
what they answered to cassettes/CLASS/TARGET/CASE.cassette.zst, for cases in folders and
for lines of a dataset. A recording that is there is not overwritten without --overwrite,
and that of another target never. Several targets, patterns and all variants of a target
with parameters are recorded one after the other, after one question.

The network is on and money is spent: where requests go and the most they can cost is
shown first, and a person types the answer at a terminal. --yes with --max-cost or
--max-calls answers without one. Where CI is set, --ci with a limit is needed:
docs/nightly.md. --again draws the cases anew that --case names, and no others.

Keys never leave this process except to their provider, and secrets are removed before
anything is written. Every recording, kept or thrown away, is an entry in the ledger.
A new cassette has a new digest: "tally bench digest" and two signatures come next. The
class need not be signed before: read what would be sent, since no signer has vouched for it.

A recording that was killed is resumed by the same command: cases that had ended are
passed over, and calls that were answered are not paid for again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := completeSpec(cmd, &o.spec, args[0]); err != nil {
				return err
			}
			return runRecord(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	var unsafe bool
	f.BoolVar(&unsafe, "unsafe-record", false, "accepted as it always was; the question, or --yes, is what allows the network and the cost")
	f.BoolVar(&o.yes, "yes", false, "agree to what would be asked at a terminal; needs --max-cost or --max-calls")
	f.BoolVar(&o.ci, "ci", false, "record although CI is set, without a question; needs --max-cost or --max-calls")
	f.BoolVar(&o.again, "again", false, "draw the cases of --case again, in place of their recordings; every draw stays in the ledger")
	f.StringArrayVar(&o.spec.Targets, "target", nil, "`NAME` of the agent, from targets/NAME.yaml (default \"default\"); may be given several times, and with * and ?")
	f.StringArrayVar(&o.spec.Params, "param", nil, "record only the variants of a target that have the parameter `NAME=VALUE`; may be given several times")
	f.StringArrayVar(&o.spec.Cases, "case", nil, "record only cases whose id matches `GLOB`; !GLOB leaves them out; may be given several times")
	f.Int64Var(&o.spec.MaxCalls, "max-calls", 0, "make at most `N` calls to models; calls of models without a price need it")
	f.BoolVar(&o.lab.OnlyMissing, "only-missing", false, "record only what is missing: cases without a recording, and calls that a recording does not have")
	f.BoolVar(&o.lab.Overwrite, "overwrite", false, "record cases again that already have a recording of this target")
	f.BoolVar(&o.lab.Discard, "discard", false, "throw the recordings away; the ledger still has their entries")
	f.Var((*dollars)(&o.spec.MaxCostMicroUSD), "max-cost", "the most that all calls together may cost, in `USD` (default: the class's limit for a case, times the cases)")
	f.IntVar(&o.spec.Jobs, "jobs", 1, "record `N` cases at once")
	f.StringVar((*string)(&o.spec.Sandbox), "sandbox", "", "none runs the agent without a sandbox (`CLASS`)")
	f.BoolVar(&o.spec.UnsafeAgent, "unsafe-agent", false, "the same as --sandbox none")
	return cmd
}

func (o *recordOptions) validate() error {
	switch {
	case (o.yes || o.ci) && o.spec.MaxCostMicroUSD == 0 && o.spec.MaxCalls == 0:
		return refusal.Newf(refusal.Usage, "--yes and --ci spend without a question, and there is no limit").
			WithHint("say with --max-cost how many dollars may be spent, or with --max-calls how many calls may be made")
	case o.again && len(o.spec.Cases) == 0:
		return refusal.Newf(refusal.Usage, "--again draws cases again that --case names, and none is named").WithHint("name them with --case; --overwrite records all of them again")
	case o.again && o.lab.OnlyMissing:
		return refusal.Newf(refusal.Usage, "--only-missing and --again exclude each other").WithHint("--only-missing keeps what is recorded, --again draws it anew")
	case o.spec.MaxCostMicroUSD > 1e12:
		return refusal.Newf(refusal.Usage, "--max-cost %v: expected at most a million dollars", float64(o.spec.MaxCostMicroUSD)/1e6)
	case o.lab.OnlyMissing && o.lab.Overwrite:
		return refusal.Newf(refusal.Usage, "--only-missing and --overwrite exclude each other").WithHint("--only-missing keeps what is recorded, --overwrite records it again")
	case o.spec.Jobs < 1:
		return refusal.Newf(refusal.Usage, "--jobs %d: expected 1 or more", o.spec.Jobs)
	case o.spec.Classes() != nil:
		return refusal.Newf(refusal.Usage, "--sandbox %s: a recording takes the class of the registration, or %s", o.spec.Sandbox, harness.NoSandbox)
	}
	return refuseShipped(o.spec.Class)
}

// mayRecord refuses where no person answered for what is sent and spent: at a terminal,
// or beforehand, with a limit.
func (o *recordOptions) mayRecord(env *Env) error {
	switch {
	case env.Getenv("CI") != "" && !o.ci:
		return refusal.Newf(refusal.RecordingInCI, "CI is set: a recording is made by a person, who reviews and signs it; nothing was sent").
			WithHint(`record on your own machine and commit the cassette, or give --ci and --max-cost to a job whose recordings people review: docs/nightly.md`)
	case o.yes || o.ci:
		return nil
	case !isTerminal(env.Stdin) || !isTerminal(env.Stderr):
		return refusal.Newf(refusal.RecordingNotConfirmed, "there is no terminal to confirm the recording at; nothing was sent").
			WithHint("run it in a terminal, or give --yes and --max-cost")
	}
	return nil
}

func runRecord(ctx context.Context, env *Env, o recordOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	// A target that does not exist is said before a terminal is asked for.
	if err := lab.CheckTargets(c, o.spec); err != nil {
		return err
	}
	if err := o.mayRecord(env); err != nil {
		return err
	}
	o.lab.Overwrite = o.lab.Overwrite || o.again
	all, err := lab.Recordings(c, o.spec, o.lab)
	if err != nil {
		return err
	}
	for _, r := range all {
		defer r.Close()
	}
	if err := o.confirm(ctx, env, all); err != nil {
		return err
	}
	answers := recordAnswers{LimitUSD: float64(lab.MostOf(all)) / 1e6}
	for _, r := range all {
		var done []lab.Recorded
		if done, err = r.Record(ctx); done != nil {
			answers.Targets = append(answers.Targets, o.answer(r, done))
		}
		if err != nil {
			break
		}
	}
	answers.SpentUSD = float64(lab.SpentOn(all)) / 1e6
	if len(answers.Targets) == 0 {
		return err
	}
	if aerr := answers.show(env, len(all)); aerr != nil {
		return aerr
	}
	if failed, of := answers.failed(); err == nil && failed > 0 {
		err = refusal.Newf(refusal.Failed, "class %s: %d of %d recordings were not kept", o.spec.Class, failed, of).
			WithHint("the reasons are above; the ledger has an entry of each")
	}
	return err
}

// recordAnswers are what becomes of the recordings of several targets.
type recordAnswers struct {
	Targets  []*recordAnswer `json:"targets"`
	SpentUSD float64         `json:"most_cost_usd"`
	LimitUSD float64         `json:"limit_usd"`
}

func (a *recordAnswers) failed() (n, of int) {
	for _, t := range a.Targets {
		n, of = n+t.failed, of+len(t.Recordings)
	}
	return n, of
}

// show prints the answer, of one target in the form that it always had.
func (a *recordAnswers) show(env *Env, targets int) error {
	if targets == 1 {
		return env.Answer(a.Targets[0], a.Targets[0].print)
	}
	return env.Answer(a, func(out io.Writer) {
		for _, t := range a.Targets {
			fmt.Fprintf(out, "target   %s\n", plain.Line(t.Target))
			t.print(out)
		}
	})
}

// confirm shows what will be sent where, and the most it can cost, and waits
// for a person to agree.
func (o *recordOptions) confirm(ctx context.Context, env *Env, all []*lab.Recording) error {
	var b strings.Builder
	for _, r := range all {
		o.describe(&b, r)
	}
	if len(all) > 1 {
		fmt.Fprintf(&b, "\nAll %d targets together:\n", len(all))
	}
	if most := lab.MostOf(all); most > 0 {
		fmt.Fprintf(&b, "  costs    at most %s for tokens, by the prices in %s\n", plain.Dollars(most), provider.SettingsFile)
	}
	if n := o.spec.MaxCalls; n > 0 {
		fmt.Fprintf(&b, "  sends    at most %s\n", plain.Plural(int(n), "call"))
	}
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(env.Stderr, plain.Line(strings.TrimSuffix(line, "\n")))
	}
	if o.yes || o.ci {
		return nil
	}
	fmt.Fprint(env.Stderr, `Type "record" to go on: `)
	answer, err := readAnswer(ctx, env.Stdin)
	if err != nil {
		return err
	}
	if answer != "record" {
		return refusal.Newf(refusal.RecordingNotConfirmed, "the answer was not %q; nothing was sent", "record").WithHint("run the same command again")
	}
	return nil
}

// describe tells what is sent where for one target, and what is written.
func (o *recordOptions) describe(w io.Writer, r *lab.Recording) {
	b, target, s := w, r.Target, r.Providers
	fmt.Fprintf(b, "\nRecording class %s with target %s.\n", o.spec.Class, target.Name)
	if r.Unsigned != nil {
		fmt.Fprintf(b, "  NOT SIGNED as it is: %v\n", r.Unsigned)
	}
	var api wire.API
	if t := target.Builtin; t != nil {
		api = t.API
		fmt.Fprintf(b, "  model    %s\n", t.Model)
	}
	if t := target.HTTP; t != nil {
		fmt.Fprintf(b, "  agent    %s\n", t.URL)
	}
	if j := r.Judge; j != nil {
		fmt.Fprintf(b, "  judge    %s\n", j.Model)
		if j.API != api {
			api = "" // of another provider, perhaps: list all
		}
	}
	if u := r.User; u != nil {
		fmt.Fprintf(b, "  user     %s, which plays the user of cases\n", u.Model)
		if u.API != api {
			api = ""
		}
	}
	for _, line := range s.Destinations(api) {
		fmt.Fprintf(b, "  calls    %s\n", line)
	}
	for _, name := range slices.Sorted(maps.Keys(s.MCP)) {
		fmt.Fprintf(b, "  tools    MCP server %s, if a case uses it: %s\n", name, s.MCP[name].Destination())
	}
	for _, rule := range target.Egress {
		fmt.Fprintf(b, "  asks     %s\n", rule.Destination())
	}
	shown := r.Cases
	if len(shown) > 10 {
		shown = append(slices.Clone(shown[:10]), "…")
	}
	fmt.Fprintf(b, "  cases    %d: %s\n", len(r.Cases), strings.Join(shown, ", "))
	if o.lab.Discard {
		fmt.Fprint(b, "  writes   nothing but an entry in the ledger for each case\n")
	} else {
		fmt.Fprintf(b, "  writes   cassettes/%s/%s/, and an entry in the ledger for each case\n", o.spec.Class, target.Name)
	}
	for _, file := range r.Replaces {
		fmt.Fprintf(b, "  OVERWRITES  %s\n", file)
	}
}

// readAnswer reads one line. A read cannot be interrupted, and Ctrl-C must end
// the question all the same.
func readAnswer(ctx context.Context, in io.Reader) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n') // no answer is no agreement
		lines <- strings.TrimSpace(line)
	}()
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

type recordAnswer struct {
	Class      string         `json:"class"`
	Target     string         `json:"target"`
	Recordings []lab.Recorded `json:"recordings"`
	CostUSD    float64        `json:"cost_usd"` // of the calls whose cost is known
	Unpriced   int64          `json:"unpriced_calls,omitempty"`
	SpentUSD   float64        `json:"most_cost_usd"` // counting the others with the most they can have cost
	LimitUSD   float64        `json:"limit_usd"`

	failed  int
	scratch bool // the class is not signed
}

func (o *recordOptions) answer(r *lab.Recording, done []lab.Recorded) *recordAnswer {
	a := &recordAnswer{Class: o.spec.Class, Target: r.Target.Name, scratch: r.Bench.Level() == string(bench.Scratch), Recordings: done, SpentUSD: float64(r.Spent()) / 1e6, LimitUSD: float64(r.Most) / 1e6}
	for _, c := range done {
		a.CostUSD += float64(c.CostMicro) / 1e6
		a.Unpriced += c.Unpriced
		if !c.Kept && !o.lab.Discard {
			a.failed++
		}
	}
	return a
}

func (a *recordAnswer) print(out io.Writer) {
	kept := 0
	for _, c := range a.Recordings {
		fmt.Fprintf(out, "%-24s %-11s %s, %d calls, %s", plain.Line(c.Case), c.Fate(), plain.Line(c.Outcome), c.Calls, cost.Of(c.CostMicro, c.Unpriced))
		for _, n := range []struct {
			count int64
			what  string
		}{{c.Redactions, "secrets removed"}, {int64(c.Retries), "retries"}, {int64(c.Refused), "error replies"}, {int64(c.Broken), "broken streams"}, {int64(c.Replayed), "replayed"}, {int64(c.Unused), "old ones not asked for"}} {
			if n.count > 0 {
				fmt.Fprintf(out, ", %d %s", n.count, n.what)
			}
		}
		fmt.Fprintln(out)
		switch {
		case c.Unchanged:
		case c.Kept:
			kept++
			fmt.Fprintf(out, "  %s %s\n", plain.Line(c.File), c.Digest)
			for _, u := range c.Endpoints {
				fmt.Fprintf(out, "  from %s\n", plain.Line(u.Text()))
			}
		case c.Reason != "":
			fmt.Fprintf(out, "  %s\n", plain.Line(c.Reason))
		}
	}
	fmt.Fprintf(out, "spent    at most $%.6f of $%.2f\n", a.SpentUSD, a.LimitUSD)
	if kept > 0 && a.scratch {
		fmt.Fprintf(out, "Next: look through the cassettes for secrets in plain words, then replay them: tally run %s --target %s\n", plain.ShellWord(a.Class), plain.ShellWord(a.Target))
	} else if kept > 0 {
		fmt.Fprintf(out, "Next: look through the cassettes for secrets in plain words, then \"tally bench digest %s\" and two signatures\n", plain.Line(a.Class))
	}
}
