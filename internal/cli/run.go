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
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
)

// runOptions are what "tally run" is told: the run itself, over which fleet, and how
// its result is shown.
type runOptions struct {
	spec      harness.Spec
	fleet     fleet.Options
	trustRoot string

	junit, tap         string
	baseline, markdown string
	ci                 bool               // --ci: pay although CI is set
	fresh              bool               // --cache=false: a live run asks for everything anew
	required           []history.Property // of --require-level
}

func newRun(env *Env) *cobra.Command {
	var o runOptions
	var recording recordingFlags
	var level string
	var watch bool
	spec := &o.spec
	cmd := &cobra.Command{
		Use:     "run CLASS",
		Short:   "Run a bench against a target and record every case",
		Example: "tally run support --target default --junit report.xml",
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

Nothing touches the network unless --live or --on-miss live is given, or you permitted the
runs of scratch classes in this workspace to pay for what is not recorded (docs/live.md). Ctrl-C leaves an attempt that
"--resume" resumes; no recorded case is run again. A live case resumes at the call where
it was interrupted: calls that were answered are not paid again (docs/paid-work.md).

--watch runs the class again at each save of something that it depends on, and shows what
is different: failing cases first, cases that changed sides, answers side by side. Only what
the save touched is done: a grader's edit drives no agent and asks no model. No attempt is
recorded. A signed class that is being edited runs all the same, as a scratch class. What
asks something new is asked if this user permitted it for the workspace. On a terminal, r
runs all, f the failing cases, a accepts a golden change, c compares two targets, q ends. In
a pipe each run is one line, with --json one document a line. docs/watching.md has more.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.fresh = cmd.Flags().Changed("cache") && !spec.Cache
			spec.Recording, spec.ResumeCommand = recording.kind(cmd, spec.SubmitIntent), typed(cmd, "tally run", args)+" --resume"
			if watch {
				if err := watchedSpec(cmd, spec); err != nil {
					return err
				}
			}
			if err := completeSpec(cmd, spec, args[0]); err != nil {
				return err
			}
			if watch {
				return runWatch(cmd.Context(), env, o, typed(cmd, "tally run", args))
			}
			var err error
			if o.required, err = requiredOfRun(level); err != nil {
				return err
			}
			return runRun(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&watch, "watch", false, "run again at each save of the bench, the targets, their files, recordings, replies or golden traces; no attempt is recorded")
	f.BoolVar(&spec.SubmitIntent, "submit-intent", false, "register that the attempt is meant to be submitted; its texts are recorded")
	recording.add(cmd)
	f.StringVar((*string)(&spec.SecondView), "second-view", "", "`WHO` is asked about each answer that the official scorer of GAIA did not take: judge, the model of judge.yaml, which costs money if live; it changes no score (default: no second view)")
	f.StringArrayVar(&spec.Targets, "target", nil, "`NAME` of the agent, from targets/NAME.yaml (default \"default\"); may be given several times, and with * and ?")
	f.StringArrayVar(&spec.Params, "param", nil, "run only the variants of a target that have the parameter `NAME=VALUE`; may be given several times")
	f.StringArrayVar(&spec.Cases, "case", nil, "run only cases whose id matches `GLOB`; !GLOB leaves them out; may be given several times")
	f.StringArrayVar(&spec.Tags, "tag", nil, "run only cases with this `TAG`; !TAG leaves them out; may be given several times")
	f.IntVar(&spec.Limit, "limit", 0, "run only the first `N` of the selected cases")
	f.IntVar(&spec.Sample, "sample", 0, "run only `N` of the selected cases, drawn at random with --seed")
	f.IntVar(&spec.Seed, "seed", 1, "draw the cases of --sample with the seed `S`")
	f.IntVar(&spec.Repeat, "repeat", 1, "run each case `N` times")
	f.BoolVar(&spec.StopEarly, "stop-early", false, "run until the question of stop_early in the registration is answered")
	f.StringVar((*string)(&spec.Reduce), "reduce", string(harness.ReduceMean), "how the repetitions of a case count: `R` is mean, mode, max, all or at_least:K")
	f.IntVar(&spec.Jobs, "jobs", 0, "run `N` cases at once (default: a number that suits the target)")
	f.BoolVar(&spec.Resume, "resume", false, "resume the newest unfinished attempt of this class and target")
	f.StringVar(&spec.ErrorsOf, "retry-errors", "", "run only cases that ended as errors in the finished `ATTEMPT`, by default the newest of this class and target, as an attempt of its own, which never counts for promotion")
	f.Lookup("retry-errors").NoOptDefVal = harness.Newest
	f.Var((*dollars)(&spec.MaxCostMicroUSD), "max-cost", "spend at most `USD` dollars, counting every execution and calls whose outcome is unknown; what is left is recorded as truncated")
	f.Int64Var(&spec.MaxCalls, "max-calls", 0, "make at most `N` calls to models; calls of models without a price need it")
	f.BoolVar(&o.ci, "ci", false, "in a scratch class, pay for what is not recorded although CI is set; needs --max-cost or --max-calls")
	f.StringVar((*string)(&spec.Sandbox), "sandbox", "", "isolation `CLASS` in place of those of the registration; none runs the agent without a sandbox: labelled, never counts")
	f.StringVar((*string)(&spec.Scope), "sandbox-scope", "", "how long a rubric's sandbox lives, as `SCOPE`: case (one case) or attempt (the whole attempt)")
	f.BoolVar(&spec.UnsafeAgent, "unsafe-agent", false, "the same as --sandbox none")
	f.BoolVar(&spec.Live, "live", false, "answer model calls from real models; the recording goes to the evidence. Without --max-cost, only what is not recorded is asked, under the permission that you give at a terminal: docs/live.md")
	f.BoolVar(&spec.Cache, "cache", false, "answer model calls from what earlier live attempts and cassettes of this class and target have; with --live, pay for the rest; --live --cache=false asks for everything anew")
	f.StringVar(&spec.OnMiss, "on-miss", "", "if no recording answers a call, `fail|live`: fail ends the case (the default without --live), live asks a provider and pays")
	f.StringVar(&o.junit, "junit", "", "write a JUnit XML report to `FILE`")
	f.StringVar(&o.tap, "tap", "", "write a TAP report to `FILE`")
	f.StringVar(&o.baseline, "baseline", "", "compare with the earlier attempt `ID`, or with the newest in a folder that another job left")
	f.StringVar(&o.markdown, "markdown", "", "write the result, and the comparison with --baseline, to `FILE` for a pull request")
	f.StringVar(&o.fleet.URL, "fleet", "", "have workers drive the cases: `URL` of NATS servers, or \"embedded\" for one inside this program; hands over to tally-fleet")
	f.StringVar(&o.fleet.Listen, "listen", "127.0.0.1:0", "`ADDRESS` of the embedded server")
	f.StringVar(&o.fleet.Access.Creds, "creds", "", "NATS credentials `FILE`, if the servers want one")
	f.Float64Var(&o.fleet.Double, "double", 0, "have a second worker run the share `P` of the cases, from 0 to 1; where the two do not agree the case is unscored")
	f.BoolVar(&o.fleet.AnyVersion, "any-version", false, "let workers of another version of tally take part")
	addHeldOutFlag(cmd, &spec.ShowHeldOut)
	f.StringVar(&level, "require-level", "", "exit 4 unless the attempt is of `LEVEL`: signed, pinned or witnessed, or several with commas")
	addTrustRootFlag(cmd, &o.trustRoot)
	seldom(cmd, "second-view", "record-evidence", "evidence-full-bodies", "param", "seed", "stop-early", "reduce", "sandbox-scope", "unsafe-agent", "on-miss",
		"listen", "creds", "double", "any-version", "trust-root")
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
	r := &runner{env: env, o: o, past: &harness.Past{}, ran: map[string]bool{}, local: local}
	c, err := place.ReadCorpus(o.trustRoot, dossier.Ask{Git: true, Again: o.files().Any(), Recent: !r.needsRecords(), ShowHeldOut: o.spec.ShowHeldOut, Visit: r.visit, Want: r.wants})
	if err != nil {
		return err
	}
	defer c.Close()
	r.tellRecalled(c.Reading)
	setups, err := lab.Each(c, o.spec)
	if err != nil {
		return err
	}
	r.bench, r.reading, r.several = setups[0].Bench, c.Reading, len(setups) > 1
	if err := c.Reading.RequireProspect(o.required, r.bench); err != nil {
		return err
	}
	// Before anything runs: a typing mistake must not cost an attempt.
	if o.baseline != "" {
		if _, err := r.baseline(r.bench.Class(), setups[0].Target.Name); err != nil {
			return err
		}
	}
	if err := r.permit(ctx, setups); err != nil {
		return err
	}
	if r.several {
		return r.remember(r.matrix(ctx, setups))
	}
	one, err := r.one(ctx, setups[0], true)
	if one == nil {
		return err
	}
	if aerr := env.Answer(one.answer, func(out io.Writer) { runText(out, one.answer, one.byRubric) }); aerr != nil {
		return aerr
	}
	return r.remember(err)
}

// remember keeps what was verified for the next command, after the answer was given. What
// a whole reading finds out is worse than what the command ended with.
func (r *runner) remember(err error) error {
	if r.reading == nil {
		return err
	}
	if rerr := r.reading.Remember(); rerr != nil {
		return rerr
	}
	return err
}

// A oneRun is an attempt that was run, as it is shown.
type oneRun struct {
	answer   *recount.Run
	byRubric bool
	failed   bool // something stopped the run, and not a gate
}

// one runs one attempt, which may be the last of the command, reads it back and keeps
// the answer. What was recorded before an error is returned with it; nil if nothing
// was.
func (r *runner) one(ctx context.Context, setup *lab.Setup, last bool) (*oneRun, error) {
	ran, err := r.run(ctx, setup, last)
	if ran == nil {
		return nil, err
	}
	one := &oneRun{r.answer(ran), ran.ByRubric, err != nil}
	one.answer.LocalLedger = r.local
	// What stopped the run is said first; a gate that is not met comes after
	// everything was shown.
	reported := r.report(one.answer)
	if ran.Unanswered > 0 && (reported == nil || refusal.Is(reported, refusal.NotAnswered)) {
		reported = r.unanswered(one.answer, setup)
	}
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
			case f.Name == "resume", f.Name == "watch", f.Name != "workspace" && cmd.InheritedFlags().Lookup(f.Name) != nil:
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

// validate refuses what does not fit together besides the run itself.
func (o *runOptions) validate() error {
	if err := o.checkFleet(); err != nil {
		return err
	}
	if o.ci && o.spec.MaxCostMicroUSD == 0 && o.spec.MaxCalls == 0 {
		return refusal.Newf(refusal.Usage, "--ci pays without a person, and there is no limit").WithHint("say with --max-cost how many dollars may be spent, or with --max-calls how many calls may be made")
	}
	return nil
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
	case f.Double > 0 && (o.spec.Live || o.spec.OnMiss == evidence.OnMissLive):
		return refusal.Newf(refusal.Usage, "--double with --live or --on-miss live: two answers of a real model differ although no worker lies").WithHint("leave one of them out")
	case o.spec.Recording != "":
		return refusal.Newf(refusal.Usage, "--fleet with --submit-intent or --record-evidence: where the expected answer stands in each text is noted while the agent runs, and workers do not have that answer").
			WithHint("run what is to be submitted on one machine")
	}
	return nil
}

// requiredOfRun reads --require-level of an attempt that has not begun.
func requiredOfRun(list string) ([]history.Property, error) {
	required, err := requiredLevel(list)
	if err == nil && slices.Contains(required, history.ReproducedProperty) {
		return nil, refusal.Newf(refusal.Usage, "--require-level reproduced: an attempt that has not begun cannot have been run again").
			WithHint(`run it, "tally reproduce" it, then "tally gate --require-level reproduced"`)
	}
	return required, err
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

// A runner is one "tally run".
type runner struct {
	env   *Env
	o     runOptions
	bench *bench.Verified

	past    *harness.Past    // what the harness must know of earlier attempts; nil when the last has it
	ran     map[string]bool  // the attempts of this command
	reading *dossier.Reading // the ledger as it was before the run
	local   *recount.LocalLedger
	several bool  // targets
	spent   int64 // micro-dollars, by the attempts before
}

// visit shows the harness what the ledger has. It does not ask for what the last attempt
// brought, and decoding a hundred thousand records again costs.
func (r *runner) visit(rec ledger.Record) error {
	if r.past == nil {
		return nil
	}
	return r.past.Visit(rec)
}

// tellRecalled says that not every entry of the ledger was read.
func (r *runner) tellRecalled(past *dossier.Reading) {
	if past == nil {
		return
	}
	if entries, whole := past.Recalled(); entries > 0 {
		r.env.Note("the first %d entries of the ledger are as this machine sealed them; all were last read at %s (\"tally ledger verify\" reads them now)", entries, whole)
	}
}

// needsRecords reports whether the command reads records of attempts that are in the
// ledger before it begins.
func (r *runner) needsRecords() bool {
	spec := &r.o.spec
	return r.o.baseline != "" || r.o.files().Any() || spec.Resume || spec.Cache || spec.ErrorsOf != ""
}

// wants are the attempts whose records the reports of the command need: its own, those
// that it resumes, repeats or borrows from, and the one to compare with.
func (r *runner) wants(a *history.Attempt) bool {
	spec := &r.o.spec
	return r.ran[a.ID] || a.ID == r.o.baseline || r.o.files().Any() || (spec.Resume || spec.Cache || spec.ErrorsOf != "") && a.Class == spec.Class
}

// run runs the attempt while the person looks on.
func (r *runner) run(ctx context.Context, setup *lab.Setup, last bool) (*lab.RunResult, error) {
	m := newMeter(r.env, r.o.spec.Live || r.o.spec.OnMiss == evidence.OnMissLive)
	with, past := harness.Parties{Progress: m}, r.past
	if r.env.Interactive() {
		with.People = &asker{env: r.env, meter: m}
	}
	if r.o.fleet.URL != "" {
		f := r.o.fleet
		f.Dir, f.Version, f.Note = r.reading.Place.Private("fleet"), setup.Spec.Version, r.env.Note
		f.Access = fleetAccess(r.env, f.Access.Creds)
		drivers, closeFleet, err := r.env.beyond.Fleet(ctx, setup, f)
		if err != nil {
			return nil, err
		}
		defer closeFleet()
		with.Drivers = drivers
	}
	if last {
		r.past = nil
	}
	setup.Spec.MaxCostMicroUSD = r.left()
	ran, err := setup.Run(ctx, with, past)
	m.end()
	if ran != nil {
		r.ran[ran.Attempt] = true
		r.spent += spentBy(ran.Paid, ran.Cost.MicroUSD)
		for _, id := range ran.Unfinished {
			r.env.Note("attempt %s was never finished; it stays in the ledger and counts against its class", id)
		}
	}
	return ran, err
}

// left is what is left of --max-cost, which is for all attempts of the command; 0
// if there is no limit.
func (r *runner) left() int64 {
	if r.o.spec.MaxCostMicroUSD == 0 {
		return 0
	}
	return max(1, r.o.spec.MaxCostMicroUSD-r.spent)
}

// spentBy is the most that an attempt can have cost.
func spentBy(paid *evidence.Paid, cost int64) int64 {
	if paid != nil {
		return paid.Most()
	}
	return cost
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
