package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/app/fleet"
	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/recount"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
)

type runOptions struct {
	class   string
	targets []string
	params  []string
	cases   harness.Selection
	seeded  bool // --seed is given
	repeat  int
	reduce  string

	stopEarly bool
	jobs      int
	resume    bool
	errors    string // the attempt whose errors are run again
	again     string // the command that resumes this one
	maxCost   float64

	sandbox     string
	scope       string
	unsafeAgent bool
	live        bool
	cache       bool
	onMiss      string
	trustRoot   string

	junit, tap         string
	showHeldOut        bool
	baseline, markdown string

	requireLevel string
	required     []history.Property

	fleet fleet.Options

	submitIntent, record, bodies bool
	recordGiven                  bool
	secondView                   string
}

func newRun(env *Env) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run CLASS",
		Short: "Run a bench against a target and record every case",
		Long: `Run every case of a class against a target: verify the bench, the ledger and the
last anchor; register the attempt with its plan before the first case; drive the
agent with model and tools answered from recordings; grade; record; anchor.

builtin:adversarial and builtin:long-horizon come with the program and need no files;
their targets are mitigated (if none is named), vulnerable, forgetful and cramped, and
any other --target is one of the workspace. docs/suites.md describes them.

Several targets run one after the other, each as an attempt of its own, and are set side
by side: a table of cases by targets, totals, and each two compared. --case, --tag,
--limit and --sample select cases; --repeat runs each several times, and --reduce says
what the repetitions of a case amount to. An attempt with any of these four, or with a
--reduce that is not mean, never counts for promotion. docs/running.md has all of it.

Nothing touches the network unless --live or --on-miss live is given. Ctrl-C leaves an attempt that
"--resume" resumes; no recorded case is run again. A live case resumes at the call where
it was interrupted: calls that were answered are not paid again (docs/paid-work.md).`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"limit", "sample"} { // without the flag, 0 is all of them
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
					return refusal.Newf(refusal.Usage, "--%s 0: expected 1 or more", name)
				}
			}
			o.recordGiven = cmd.Flags().Changed("record-evidence")
			o.class, o.seeded, o.again = args[0], cmd.Flags().Changed("seed"), typed(cmd, "tally run", args)+" --resume"
			if len(o.targets) == 0 {
				o.targets = []string{agent.DefaultTarget}
				chooseTarget(cmd, o.class, &o.targets[0])
			}
			return runRun(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.submitIntent, "submit-intent", false, "register that the attempt is meant to be submitted; its texts are recorded")
	f.BoolVar(&o.record, "record-evidence", false, "note the SHA-256 of every text and where the expected answer stands in it (default with --submit-intent)")
	f.BoolVar(&o.bodies, "evidence-full-bodies", false, "a submission of the attempt carries whole texts, named by SHA-256")
	f.StringVar(&o.secondView, "second-view", "", "`WHO` is asked about each answer that the official scorer of GAIA did not take: judge, the model of judge.yaml, which costs money if live; it changes no score (default: nobody)")
	f.StringArrayVar(&o.targets, "target", nil, "`NAME` of the agent, from targets/NAME.yaml (default \"default\"); may be given several times, and with * and ?")
	f.StringArrayVar(&o.params, "param", nil, "run only the variants of a target that have the parameter `NAME=VALUE`; may be given several times")
	f.StringArrayVar(&o.cases.Cases, "case", nil, "run only cases whose id matches `GLOB`; !GLOB leaves them out; may be given several times")
	f.StringArrayVar(&o.cases.Tags, "tag", nil, "run only cases with this `TAG`; !TAG leaves them out; may be given several times")
	f.IntVar(&o.cases.Limit, "limit", 0, "run only the first `N` of the selected cases")
	f.IntVar(&o.cases.Sample, "sample", 0, "run only `N` of the selected cases, drawn at random with --seed")
	f.IntVar(&o.cases.Seed, "seed", 1, "draw the cases of --sample with the seed `S`")
	f.IntVar(&o.repeat, "repeat", 1, "run each case `N` times")
	f.BoolVar(&o.stopEarly, "stop-early", false, "run until the question of stop_early in the registration is answered")
	f.StringVar(&o.reduce, "reduce", reduceMean, "how the repetitions of a case count: `R` is mean, mode, max, all or at_least:K")
	f.IntVar(&o.jobs, "jobs", 0, "run `N` cases at once (default: a number that suits the target)")
	f.BoolVar(&o.resume, "resume", false, "resume the newest unfinished attempt of this class and target")
	f.StringVar(&o.errors, "retry-errors", "", "run only cases that ended as errors in the finished `ATTEMPT`, by default the newest of this class and target, as an attempt of its own, which never counts for promotion")
	f.Lookup("retry-errors").NoOptDefVal = lab.Newest
	f.Float64Var(&o.maxCost, "max-cost", 0, "spend at most `USD` dollars, counting every execution and calls whose outcome is unknown; what is left is recorded as truncated")
	f.StringVar(&o.sandbox, "sandbox", "", "isolation `CLASS` in place of those of the registration; none runs the agent without a sandbox: labelled, never counts")
	f.StringVar(&o.scope, "sandbox-scope", "", "how long a rubric's sandbox lives, as `SCOPE`: case (one case) or attempt (the whole attempt)")
	f.BoolVar(&o.unsafeAgent, "unsafe-agent", false, "the same as --sandbox none")
	f.BoolVar(&o.live, "live", false, "answer model calls from real models; the recording goes to the evidence")
	f.BoolVar(&o.cache, "cache", false, "answer model calls from what earlier live attempts and cassettes of this class and target have; with --live, pay for the rest")
	f.StringVar(&o.onMiss, "on-miss", "", "if no recording answers a call, `fail|live`: fail ends the case (the default without --live), live asks a provider and pays")
	f.StringVar(&o.junit, "junit", "", "write a JUnit XML report to `FILE`")
	f.StringVar(&o.tap, "tap", "", "write a TAP report to `FILE`")
	f.StringVar(&o.baseline, "baseline", "", "compare with the earlier attempt `ID`")
	f.StringVar(&o.markdown, "markdown", "", "write the comparison with --baseline to `FILE`, for a pull request")
	f.StringVar(&o.fleet.URL, "fleet", "", "have workers drive the cases: `URL` of NATS servers, or \"embedded\" for one inside this program; hands over to tally-fleet")
	f.StringVar(&o.fleet.Listen, "listen", "127.0.0.1:0", "`ADDRESS` of the embedded server")
	f.StringVar(&o.fleet.Access.Creds, "creds", "", "NATS credentials `FILE`, if the servers want one")
	f.Float64Var(&o.fleet.Double, "double", 0, "have a second worker run the share `P` of the cases, from 0 to 1; where the two do not agree the case is unscored")
	f.BoolVar(&o.fleet.AnyVersion, "any-version", false, "let workers of another version of tally take part")
	addHeldOutFlag(cmd, &o.showHeldOut)
	f.StringVar(&o.requireLevel, "require-level", "", "exit 4 unless the attempt is of `LEVEL`: signed, pinned or witnessed, or several with commas")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

func runRun(ctx context.Context, env *Env, o runOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.fleet.URL != "" && env.beyond == nil {
		return handOver(ctx, env, "tally run --fleet")
	}
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	local, err := openCheckout(ctx, env, place)
	if err != nil {
		return err
	}
	past, phase := &harness.Past{}, &runPhase{}
	c, err := place.ReadCorpus(o.trustRoot, o.asks(past, phase))
	if err != nil {
		return err
	}
	defer c.Close()
	options := o.setup()
	if options.Params, err = o.choice(); err != nil {
		return err
	}
	setups, err := lab.NewEach(c, options, o.targets)
	if err != nil {
		return err
	}
	r := &runner{env: env, o: o, origin: c.Settings.Origin, bench: setups[0].Bench, past: past, reading: c.Reading, local: local}
	if err := c.Reading.RequireProspect(o.required, r.bench); err != nil {
		return err
	}
	phase.began, phase.several, r.several = true, len(setups) > 1, len(setups) > 1
	if r.several {
		return r.matrix(ctx, setups)
	}
	one, err := r.one(ctx, setups[0], o.resume)
	if one == nil {
		return err
	}
	if aerr := env.Answer(one.answer, func(out io.Writer) { runText(out, one.answer, one.byRubric) }); aerr != nil {
		return aerr
	}
	return err
}

// A oneRun is an attempt that was run, as it is shown.
type oneRun struct {
	answer   *recount.Run
	byRubric bool
	failed   bool // something stopped the run, and not a gate
}

// one runs one attempt, reads it back and keeps the answer. What was recorded
// before an error is returned with it; nil if nothing was.
func (r *runner) one(ctx context.Context, setup *lab.Setup, resume bool) (*oneRun, error) {
	ran, err := r.run(ctx, setup, resume)
	if ran == nil {
		return nil, err
	}
	one := &oneRun{r.answer(ran), ran.ByRubric, err != nil}
	one.answer.LocalLedger = r.local
	// What stopped the run is said first; a gate that is not met comes after
	// everything was shown.
	reported := r.report(one.answer)
	if err == nil || one.answer.Scorecard == nil {
		err = cmp.Or(err, reported)
	}
	if serr := lab.KeepAnswer(r.reading.Place, one.answer.Attempt.ID, one.answer); serr != nil {
		return nil, serr
	}
	return one, err
}

// typed is a command with every flag that was given, as a shell reads it, without
// those that only say how the answer looks.
func typed(cmd *cobra.Command, command string, args []string) string {
	words := []string{command}
	for _, a := range args {
		words = append(words, plain.ShellWord(a))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Name == "resume", f.Name != "workspace" && cmd.InheritedFlags().Lookup(f.Name) != nil:
			case f.Value.Type() == "bool" && v == "true":
				words = append(words, "--"+f.Name)
			case f.Value.Type() != "bool" && f.NoOptDefVal != "": // a word of its own would be an argument
				words = append(words, plain.ShellWord("--"+f.Name+"="+v))
			case f.Value.Type() == "bool":
				words = append(words, "--"+f.Name+"="+v)
			default:
				words = append(words, "--"+f.Name, plain.ShellWord(v))
			}
		}
	})
	return strings.Join(words, " ")
}

// openCheckout begins a ledger in a checkout that has none, and says so. It
// returns nil where the workspace has its ledger.
func openCheckout(ctx context.Context, env *Env, place *dossier.Place) (*recount.LocalLedger, error) {
	begun, err := ceremony.OpenCheckout(ctx, place)
	if err != nil || place.Shared == nil {
		return nil, err
	}
	if begun {
		env.Note("this checkout has no ledger of %s; began a local one, %s: its attempts are scratch, whatever was signed, and never count for promotion", place.Shared.Origin, place.Settings.Origin)
	}
	return &recount.LocalLedger{Origin: place.Settings.Origin, Of: place.Shared.Origin, Begun: begun}, nil
}

// noSandbox stands for no isolation at all where a class can be named. It does what
// --unsafe-agent does.
const noSandbox = "none"

func (o *runOptions) validate() error {
	switch {
	case o.repeat < 1:
		return refusal.Newf(refusal.Usage, "--repeat %d: expected 1 or more", o.repeat)
	case o.jobs < 0:
		return refusal.Newf(refusal.Usage, "--jobs %d: expected 1 or more", o.jobs)
	case o.maxCost < 0:
		return refusal.Newf(refusal.Usage, "--max-cost %v: expected more than 0", o.maxCost)
	case o.scope != "" && o.scope != string(sandbox.ScopeCase) && o.scope != string(sandbox.ScopeAttempt):
		return unknownValue("sandbox-scope", o.scope, words(sandbox.ScopeCase, sandbox.ScopeAttempt))
	case o.sandbox == noSandbox:
		o.sandbox, o.unsafeAgent = "", true
	case o.sandbox != "" && !slices.Contains(sandbox.Classes(), sandbox.Class(o.sandbox)):
		return unknownValue("sandbox", o.sandbox, append(words(sandbox.Classes()...), noSandbox))
	}
	if o.secondView != "" && o.secondView != string(evidence.ViewedByJudge) {
		return unknownValue("second-view", o.secondView, words(evidence.ViewedByJudge))
	}
	if o.submitIntent && o.recordGiven && !o.record {
		return refusal.Newf(refusal.Usage, "--submit-intent with --record-evidence=false: what is not recorded cannot be submitted").WithHint("leave one of them out")
	}
	if err := o.checkFleet(); err != nil {
		return err
	}
	if err := o.checkLevel(); err != nil {
		return err
	}
	if err := o.checkReports(); err != nil {
		return err
	}
	if err := o.cases.Validate(); err != nil {
		return err
	}
	if o.seeded && o.cases.Sample == 0 {
		return refusal.Newf(refusal.Usage, "--seed draws the cases of --sample, which is not given")
	}
	return o.checkReduce()
}

// checkFleet refuses what a fleet cannot do.
func (o *runOptions) checkFleet() error {
	switch f := o.fleet; {
	case f.Double < 0 || f.Double > 1:
		return refusal.Newf(refusal.Usage, "--double %v: expected a share from 0 to 1", f.Double)
	case f.URL == "" && (f.Double > 0 || f.Access.Creds != "" || f.AnyVersion):
		return refusal.Newf(refusal.Usage, "--double, --creds and --any-version are about a fleet, and --fleet is not given")
	case f.URL == "":
		return nil
	case f.Double > 0 && (o.live || o.onMiss == evidence.OnMissLive):
		return refusal.Newf(refusal.Usage, "--double with --live or --on-miss live: two answers of a real model differ without anybody lying").WithHint("leave one of them out")
	case o.recording() != "":
		return refusal.Newf(refusal.Usage, "--fleet with --submit-intent or --record-evidence: where the expected answer stands in each text is noted while the agent runs, and workers do not have that answer").
			WithHint("run what is to be submitted on one machine")
	}
	return nil
}

// reduceMean is the default of --reduce, which plans do not name: each repetition
// counts by itself, so that rates and scores are means over all.
const reduceMean = "mean"

// reducer is what plans say of --reduce.
func (o *runOptions) reducer() evidence.Reducer {
	if o.reduce == reduceMean || o.reduce == "" {
		return ""
	}
	return evidence.Reducer(o.reduce)
}

func (o *runOptions) checkReduce() error {
	r := o.reducer()
	switch {
	case r == "":
	case r.Needed(1) == 0:
		return refusal.Newf(refusal.Usage, "--reduce %s: expected mean, mode, max, all or at_least:K", o.reduce)
	case o.repeat < 2:
		return refusal.Newf(refusal.Usage, "--reduce %s makes one outcome of several repetitions, and --repeat is %d", o.reduce, o.repeat).WithHint("give --repeat 3, for example")
	case r.Needed(o.repeat) > o.repeat:
		return refusal.Newf(refusal.Usage, "--reduce %s needs %d repetitions, and --repeat is %d", o.reduce, r.Needed(o.repeat), o.repeat)
	}
	return nil
}

// checkLevel reads --require-level.
func (o *runOptions) checkLevel() (err error) {
	if o.required, err = requiredLevel(o.requireLevel); err != nil {
		return err
	}
	if slices.Contains(o.required, history.ReproducedProperty) {
		return refusal.Newf(refusal.Usage, "--require-level reproduced: nobody can have run an attempt again that has not begun").
			WithHint(`run it, "tally reproduce" it, then "tally gate --require-level reproduced"`)
	}
	return nil
}

// requiredLevel reads the value of --require-level.
func requiredLevel(list string) ([]history.Property, error) {
	if list == "" {
		return nil, nil
	}
	needed, err := history.Required(list)
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "--require-level: %w", err).Suggest(list, history.Levels(), "give one or more of them, with commas")
	}
	return needed, nil
}

// choice reads --param.
func (o *runOptions) choice() (agent.Choice, error) {
	c := agent.Choice{}
	for _, p := range o.params {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return nil, refusal.Newf(refusal.Usage, "--param %s: expected NAME=VALUE", p)
		}
		c[name] = append(c[name], value)
	}
	return c, nil
}

// setup is what the flags say about the class, the target and how they are run.
func (o *runOptions) setup() lab.Options {
	return lab.Options{Class: o.class, Selection: o.cases, Errors: o.errors, Repeat: o.repeat, Reduce: o.reducer(), StopEarly: o.stopEarly, Jobs: o.jobs,
		Sandbox: sandbox.Class(o.sandbox), Scope: sandbox.Scope(o.scope), UnsafeAgent: o.unsafeAgent, Live: o.live, Cache: o.cache, OnMiss: o.onMiss, Version: thisBuild().Harness(),
		SubmitIntent: o.submitIntent, Recording: o.recording(), SecondView: evidence.SecondViewer(o.secondView)}
}

// recording is what is noted of the texts: nothing, unless it was asked for or the
// attempt is to be submitted.
func (o *runOptions) recording() evidence.RecordingKind {
	switch {
	case o.bodies && (o.record || !o.recordGiven):
		return evidence.RecordBodies
	case o.record || o.submitIntent:
		return evidence.RecordHeads
	}
	return ""
}

// A runner is one "tally run".
type runner struct {
	env    *Env
	o      runOptions
	origin string // of the ledger
	bench  *bench.Verified

	past    *harness.Past    // what the harness must know of earlier attempts
	reading *dossier.Reading // the ledger as it was before the run
	local   *recount.LocalLedger
	several bool  // targets
	spent   int64 // micro-dollars, by the attempts before
}

// run runs the attempt while the person looks on.
func (r *runner) run(ctx context.Context, setup *lab.Setup, resume bool) (*lab.Ran, error) {
	m := newMeter(r.env, r.o.live || r.o.onMiss == evidence.OnMissLive)
	o := lab.RunOptions{Resume: resume, Again: r.o.again, MaxCostMicroUSD: r.left(), Past: r.past, Progress: m, Admit: r.checkBaseline}
	if r.env.Interactive() {
		o.People = &asker{env: r.env, meter: m}
	}
	if r.o.fleet.URL != "" {
		f := r.o.fleet
		f.Dir, f.Version, f.Note = r.reading.Place.Private("fleet"), thisBuild().Harness(), r.env.Note
		f.Access = fleetAccess(r.env, f.Access.Creds)
		drivers, closeFleet, err := r.env.beyond.Fleet(ctx, setup, f)
		if err != nil {
			return nil, err
		}
		defer closeFleet()
		o.Drivers = drivers
	}
	ran, err := setup.Run(ctx, o)
	m.end()
	if ran != nil {
		r.spent += spentBy(ran.Paid, ran.CostMicroUSD)
		for _, id := range ran.Unfinished {
			r.env.Note("attempt %s was never finished; it stays in the ledger and counts against its class", id)
		}
	}
	return ran, err
}

// left is what is left of --max-cost, which is for all attempts of the command; 0
// if there is no limit.
func (r *runner) left() int64 {
	if r.o.maxCost == 0 {
		return 0
	}
	return max(1, int64(r.o.maxCost*1e6)-r.spent)
}

// spentBy is the most that an attempt can have cost.
func spentBy(paid *evidence.Paid, cost int64) int64 {
	if paid != nil {
		return paid.Most()
	}
	return cost
}

// checkBaseline refuses an attempt to compare with that the ledger does not have,
// before anything runs: a typing mistake must not cost an attempt.
func (r *runner) checkBaseline(known []string) error {
	if r.o.baseline == "" || slices.Contains(known, r.o.baseline) {
		return nil
	}
	return dossier.NoAttempt(r.origin, known, r.o.baseline)
}

// An asker puts approvals to the person at the terminal, one at a time.
type asker struct {
	env   *Env
	meter *meter
	mu    sync.Mutex
}

// Approve asks; what is neither yes nor no is not an answer.
func (a *asker) Approve(ctx context.Context, caseID string, q harness.Question) (approve, answered bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meter.pause()
	io.WriteString(a.env.Stderr, lab.ApprovalText(caseID, q))
	line, err := readAnswer(ctx, a.env.Stdin)
	if err != nil {
		return false, false, err
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		return true, true, nil
	case "n", "no":
		return false, true, nil
	}
	return false, false, nil
}
