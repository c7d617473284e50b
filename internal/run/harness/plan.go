package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/user"
)

// longPlan is how many cases a plan lists in the registration itself. The list
// of a longer one lies in the evidence, under its digest.
const longPlan = 500

// manyAtOnce is how many cases of the built-in agent run side by side if they are
// recorded: they wait for the disk most of the time, and commits that come
// together share one sync.
const manyAtOnce = 256

// waitingAtOnce is how many cases that may ask a live model run side by side: an
// agent that waits for an answer needs no processor, so that their number says
// nothing. How much a provider is asked at once its limits say.
const waitingAtOnce = 16

// A prospect is a run of which nothing has run yet: who does it, the plan that its
// config promises, and the jobs of the plan in their order.
type prospect struct {
	worker *Worker
	plan   evidence.Plan
	jobs   []job
}

// prepare checks everything that can be checked before anything runs: each case
// can be read, each has a way to be graded, the policy compiles. A mistake in
// the last case should not show after an hour.
func prepare(cfg Config) (*prospect, error) {
	reg := cfg.Bench.Registration()
	w := &Worker{cfg: cfg, class: cfg.Bench.Class(), reg: reg, cases: scenario.Of(cfg.Bench, cfg.Target.Name), limits: limitsOf(reg), memory: session.NewMemory()}
	p := &prospect{worker: w}
	var err error
	if w.rules, err = rulesOf(reg, nil); err != nil {
		return nil, err
	}
	chosen, offered, err := w.choose()
	if err != nil {
		return nil, err
	}
	if p.plan, err = w.planOf(chosen); err != nil {
		return nil, err
	}
	if p.plan.Policy, err = w.allow(offered); err != nil {
		return nil, err
	}
	for _, i := range drawOrder(&p.plan, w.cases, chosen) {
		ref := w.cases.Ref(i)
		p.plan.Cases = append(p.plan.Cases, evidence.PlannedCase{ID: ref.ID, Digest: ref.Digest, Cassette: ref.Cassette})
		for repeat := 1; repeat <= p.plan.Repeat; repeat++ {
			p.jobs = append(p.jobs, job{index: i, id: ref.ID, repeat: repeat, execution: 1})
		}
	}
	w.tasks = len(p.jobs)
	return p, nil
}

// planOf is the plan of a run of the chosen cases: what the spec says, and the
// digests of everything that decides a score. The policy and the list of cases, in
// their order, come after it.
func (w *Worker) planOf(chosen []int) (evidence.Plan, error) {
	cfg, spec := &w.cfg, &w.cfg.Spec
	p := evidence.Plan{BenchDigest: cfg.Bench.Digest(), RegistrationDigest: cfg.Bench.RegistrationDigest(), TargetDigest: cfg.Target.Digest,
		CaseCount: len(chosen), Repeat: spec.repeats(), Filtered: cfg.Select != nil || !spec.IsAll(), Selection: spec.planned(w.of), Reduce: spec.reducer(),
		Retries: spec.ErrorsOf, Replies: spec.Replies(), SubmitIntent: spec.SubmitIntent, Recording: spec.Recording,
		Floor: w.reg.Floor, Parameters: parametersOf(cfg.Target), Normalisers: normalisersOf(cfg.Bench, cfg.Target)}
	if err := w.show(&p); err != nil {
		return p, err
	}
	var err error
	if p.StopEarly, err = w.stopEarly(&p); err != nil {
		return p, err
	}
	if pricer, ok := cfg.Live.(Pricer); ok {
		prices, err := pricer.PricesDigest()
		if err != nil {
			return p, err
		}
		p.PricesDigest = &prices
	}
	p.ScoringDigest, err = cfg.Bench.ScoringDigest()
	if err != nil {
		return p, err
	}
	if r := cfg.Bench.Rubric(); r.Main != "" {
		p.RubricDigest = &r.Digest
	}
	if image, ok := cfg.Bench.Image(); ok && cfg.Bench.Rubric().Main == "rubric.py" {
		p.ImageDigest = &image
	}
	if err := w.needUser(&p); err != nil {
		return p, err
	}
	err = w.planJudge(&p)
	return p, err
}

// planJudge names the judge in the plan of cases that one is asked about, its
// templates and what it is asked.
func (w *Worker) planJudge(p *evidence.Plan) error {
	cfg := &w.cfg
	if (w.judged || w.viewed) && cfg.Judge != nil {
		judge := cfg.Judge.Digest()
		p.JudgeDigest = &judge
		if err := checkJudge(w.reg, judge); err != nil {
			return err
		}
		if w.viewed {
			p.SecondView = cfg.Spec.SecondView
		}
		for _, name := range w.panel {
			if err := cfg.Judge.Knows(name); err != nil {
				return err
			}
		}
	}
	if templates := cfg.Bench.Judges(); w.judged && templates.Files != nil {
		p.JudgesDigest = &templates.Digest
	}
	var err error
	p.JudgeQuestion, err = w.judgeQuestion(p.JudgeDigest)
	return err
}

// parametersOf are the parameters of a target's variant, for the plan.
func parametersOf(t *agent.Target) []evidence.PlannedParameter {
	var out []evidence.PlannedParameter
	for _, p := range t.Parameters {
		out = append(out, evidence.PlannedParameter{Name: p.Name, Value: p.Text, Digest: p.Digest})
	}
	return out
}

// show digests what the target's program finds of this machine and, if a case has a
// test, what tests find, for the plan and for every case. What workers of a fleet
// find, they look at themselves.
func (w *Worker) show(p *evidence.Plan) error {
	var err error
	if w.shown, err = w.cfg.Target.Show(); err != nil {
		return err
	}
	p.AgentRoot, p.Mounts = w.shown.Root(), w.shown.Planned()
	for _, spec := range slices.Concat(w.worlds, w.programs) {
		shown, err := w.worldRoot(spec)
		if err != nil {
			return err
		}
		root := *shown.Root()
		if !slices.ContainsFunc(p.WorldRoots, func(r evidence.Root) bool { return r.Text() == root.Text() }) {
			p.WorldRoots = append(p.WorldRoots, root)
		}
	}
	if p.AgentRoot != nil && p.AgentRoot.Kind == evidence.HostRoot && w.cfg.Drivers != nil {
		p.AgentRoot.Digest = nil // of this machine, where no case is driven
	}
	if !w.usesTest {
		return nil
	}
	if w.tested, err = agent.ShowTests(w.cfg.TestImage, w.cfg.TestMounts); err != nil {
		return err
	}
	p.TestRoot, p.Mounts = w.tested.Root(), append(p.Mounts, w.tested.Planned()...)
	// An image that a case names is in no plan: it is in the case, which is signed.
	w.testedIn = map[string]*agent.Shown{}
	for _, image := range w.testImages {
		if w.testedIn[image], err = agent.ShowTests(image, w.cfg.TestMounts); err != nil {
			return err
		}
	}
	return nil
}

// allow lets agents use the tools that cases of the class offer them, and those of
// their own that agent_tools lists, where the class has the restricted policy and none
// of its own: the people who signed the cases put them there to be used. It is one policy for the whole class, whichever cases are
// run. The plan names it; nil if it is that of the registration.
func (w *Worker) allow(offered []string) (*digest.ID, error) {
	if len(offered) == 0 || w.cfg.FirstPolicy || len(w.reg.Policy) > 0 || w.reg.Governance != bench.Restricted {
		return nil, nil
	}
	rules, err := rulesOf(w.reg, offered)
	if err != nil {
		return nil, err
	}
	_, was := w.rules.Hashes()
	_, now := rules.Hashes()
	if now == was {
		return nil, nil
	}
	w.rules, w.offered = rules, offered
	return &now, nil
}

// choose reads every case once and returns the places of those that are wanted,
// and the names of the tools that any case offers.
func (w *Worker) choose() (chosen []int, offered []string, err error) {
	names := map[string]bool{}
	looked := lookAtAll(w, func(l look) look { return l })
	for i, l := range looked {
		if l.err != nil {
			return nil, nil, l.err
		}
		for _, name := range l.tools {
			names[name] = true
		}
		w.askings = append(w.askings, l.askings...)
		w.parties.Judged = w.parties.Judged || l.judged || l.viewed || len(l.embedders) > 0
		w.parties.Judges = append(w.parties.Judges, l.embedders...)
		if l.selected {
			chosen = append(chosen, i)
		}
	}
	if err := w.cfg.Spec.check(w.cfg.Bench.Class(), looked); err != nil {
		return nil, nil, err
	}
	w.parties.Agents = w.cfg.Target.Models()
	if w.cfg.Judge != nil {
		w.parties.Judges = append(w.parties.Judges, w.cfg.Judge.Models()...)
	}
	w.of = len(chosen)
	chosen = w.cfg.Spec.take(chosen, func(i int) string { return looked[i].id })
	for _, i := range chosen {
		l := looked[i]
		if w.cfg.Drivers != nil && l.stays != "" {
			return nil, nil, refusal.Newf(refusal.Usage, "case %s cannot be run over a fleet: %s", l.id, l.stays).
				WithHint("run the class on one machine, without --fleet; or leave such cases out with --case '!GLOB'")
		}
		if l.script != "" {
			w.userScripts = append(w.userScripts, l.script)
		}
		w.modelUser = w.modelUser || l.modelUser
		w.judged, w.viewed, w.usesRubric, w.usesTest = w.judged || l.judged, w.viewed || l.viewed, w.usesRubric || l.rubric, w.usesTest || l.test
		if l.world != nil {
			if err := w.checkWorld(l.id, l.world); err != nil {
				return nil, nil, err
			}
			w.worlds = append(w.worlds, l.world)
		}
		for _, p := range l.programs {
			w.programs = append(w.programs, &scenario.World{Image: p.Image})
		}
		if l.testImage != "" && !slices.Contains(w.testImages, l.testImage) {
			w.testImages = append(w.testImages, l.testImage)
		}
		for _, name := range l.embedders {
			if !slices.Contains(w.embedders, name) {
				w.embedders = append(w.embedders, name)
			}
		}
		for _, name := range l.panel {
			if !slices.Contains(w.panel, name) {
				w.panel = append(w.panel, name)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, nil, refusal.Newf(refusal.UnknownName, "no case of class %s is selected", w.cfg.Bench.Class()).
			WithHint(`"tally bench list %s" shows the cases`, w.cfg.Bench.Class())
	}
	return chosen, slices.Sorted(maps.Keys(names)), nil
}

// A look is what choosing has to know of a case.
type look struct {
	id                             string
	tags                           []string
	selected, judged, rubric, test bool
	testImage                      string   // that the case's test names; "" if none
	viewed                         bool     // a judge may be asked for a second view
	panel                          []string // the judges that panels name
	embedders                      []string // the models whose vectors are compared
	askings                        []digest.Content
	tools                          []string // that the case offers, and agent_tools
	trees                          []digest.Content
	script                         string // that plays the user
	modelUser                      bool   // a model plays the user
	world                          *scenario.World
	programs                       []grade.ProgramSpec
	stays                          string // why the case cannot be driven elsewhere; "" if it can
	err                            error
}

// lookAtAll takes every case apart once, on all processors: a long dataset would
// keep one of them busy for seconds before anything runs. It gives what keep takes of
// each, in order.
func lookAtAll[T any](w *Worker, keep func(look) T) []T {
	looked := make([]T, w.cases.Len())
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(looked)); i = next.Add(1) - 1 {
				looked[i] = keep(w.lookAt(int(i)))
			}
		})
	}
	workers.Wait()
	return looked
}

func (w *Worker) lookAt(i int) look {
	c, err := w.cases.Case(i)
	if err != nil {
		return look{err: err}
	}
	if _, err := c.Issue(); err != nil {
		return look{err: err}
	}
	tools, closed := w.toolsOf(c)
	if !closed {
		tools = nil
	}
	grader, err := w.graderOf(c, tools)
	if err != nil {
		return look{err: fmt.Errorf("case %s: %w", c.ID, err)}
	}
	selected := w.cfg.Spec.Matches(c.ID, c.Tags) && (w.cfg.Select == nil || w.cfg.Select(c))
	l := look{id: c.ID, tags: c.Tags, selected: selected, judged: grader.UsesJudge(), viewed: w.cfg.Spec.SecondView == evidence.ViewedByJudge && grader.ViewsWithJudge(), panel: grader.Judges(), embedders: grader.Embedders(), rubric: grader.UsesRubric(), test: c.Scenario.Test != nil, world: c.Scenario.World, programs: grader.Programs(), trees: c.Scenario.Trees()}
	if l.test {
		l.testImage = c.Scenario.Test.Image
	}
	l.tools, _ = w.toolsOf(c)
	if u := c.Scenario.User; u != nil {
		if err := user.Check(&c.Scenario); err != nil {
			return look{err: fmt.Errorf("case %s: %w", c.ID, err)}
		}
		l.script, l.modelUser = u.Script, !u.IsScripted()
	}
	l.stays = staysHere(c)
	if l.askings, err = grader.Askings(); err != nil {
		return look{err: fmt.Errorf("case %s: %w", c.ID, err)}
	}
	return l
}

// checkJudge refuses a judge that is not the one that the class pins. Without any
// judge its cases are unscored, from which the operator gains nothing.
func checkJudge(reg bench.Registration, judge digest.Content) error {
	if reg.JudgeDigest == nil || judge == *reg.JudgeDigest {
		return nil
	}
	return refusal.Newf(refusal.JudgeDigestMismatch, "class %s: judge.yaml is %s, the registration says %s", reg.Class, judge, reg.JudgeDigest).
		WithHint(`restore judge.yaml; if the change is meant, put the digest that "tally judges digest" prints into the registration and have two people sign`)
}

// limitsOf are the limits that a class sets to each of its cases.
func limitsOf(reg bench.Registration) session.Limits {
	return session.Limits{Turns: reg.Limits.Turns, Tokens: reg.Limits.Tokens, CostMicroUSD: reg.Limits.CostMicroUSD,
		Wall:      time.Duration(reg.Limits.WallClockSeconds) * time.Second,
		KeptBytes: reg.Limits.KeptBytes, Events: reg.Limits.Events, ReadBytes: reg.Limits.ReadBytes}
}

// rulesOf compiles the policy that the bench sets, with further tools that the
// restricted one allows. A target has no say in it.
func rulesOf(reg bench.Registration, offered []string) (*policy.Ruleset, error) {
	mode, err := policy.ParseMode(string(reg.Governance))
	if err != nil {
		return nil, err
	}
	p := policy.ForMode(mode)
	for _, name := range offered {
		if !slices.Contains(p.Allow, name) && !slices.Contains(p.Deny, name) {
			p.Allow = append(p.Allow, name)
		}
	}
	if len(reg.Policy) > 0 {
		if p, err = policy.Parse("policy of the registration", reg.Policy); err != nil {
			return nil, err
		}
		if p.Mode != mode {
			return nil, refusal.Newf(refusal.Malformed, "registration: the policy's mode is %s, governance is %s; expected the same", p.Mode, mode)
		}
	}
	return policy.Compile(p)
}

// register makes the attempt known, with its plan, before the first case; or
// finds the one to resume.
func (a *attempt) register(ctx context.Context) error {
	class, target := a.cfg.Bench.Class(), a.cfg.Target.Name
	// A machine that cannot run the rubric, or the agent, must not leave an
	// attempt behind that was never going to finish.
	if err := a.worker.openSandboxes(ctx); err != nil {
		return err
	}
	if a.cfg.Spec.Resume {
		return a.resume()
	}
	if open := a.books.Past.newestOpen(class, target); open != nil && open.done() < open.total() {
		a.books.Past.note(open)
	}
	a.number = a.books.Past.count(class) + 1
	a.id = attemptID(class, target, a.number)
	plan, named, err := a.registeredPlan()
	if err != nil {
		return err
	}
	if err := a.open(1, named...); err != nil {
		return err
	}
	r := &evidence.AttemptRegistered{SchemaVersion: evidence.SchemaVersion, Attempt: a.id, Origin: a.books.Origin, Class: class, Target: target,
		Number: a.number, Mode: a.worker.mode(), Scratch: a.books.Scratch || a.cfg.Bench.Registration().Trust == bench.Scratch, Plan: plan, Operator: a.cfg.Operator, Journal: a.pays()}
	if a.worker.judged {
		n := a.books.Past.calibrations[class]
		r.JudgeCalibrations = &n
	}
	if err := a.sign(r); err != nil {
		return err
	}
	if _, err := a.books.Ledger.AppendRecord(evidence.AttemptRegisteredKind, r); err != nil {
		return err
	}
	// A kill before this leaves an attempt of which no case was started.
	if err := a.openPaid(r, false); err != nil {
		return err
	}
	a.registered = r
	if err := a.begin(); err != nil {
		return err
	}
	return a.books.Ledger.Cosign(ctx)
}

// sign puts the operator's signature under a registration.
func (a *attempt) sign(r *evidence.AttemptRegistered) error {
	message, err := r.Message()
	if err != nil {
		return err
	}
	signature, err := seal.SignWith(a.books.Key.Signer(), seal.NamespaceAttempt, message)
	r.Signature = string(signature)
	return err
}

// mode says where models answer from.
func (w *Worker) mode() string { return modeOf(w.cfg.Live != nil) }

func modeOf(live bool) string {
	if live {
		return "live"
	}
	return "replay"
}

// attemptID names an attempt. The number is the ledger's, one for each attempt of a
// class, and no name of a class has a "~" or a "+", so the id is of one attempt only.
// The target is there for people to read, a variant in its short form: class
// "tickets.x" with target "router" is "tickets~x.router.1", class "tickets" with
// target "x.router" is "tickets.x~router.1", and a class that comes with the
// program is "builtin+adversarial".
func attemptID(class, target string, number int) string {
	plain := strings.NewReplacer(".", "~", ":", "+")
	return fmt.Sprintf("%s.%s.%d", plain.Replace(class), plain.Replace(bench.ShortTarget(target)), number)
}

// registeredPlan is the plan as the ledger gets it, and the pieces of evidence that
// it names: a long list of cases, and what decides the score of an attempt that is
// recorded.
func (a *attempt) registeredPlan() (plan evidence.Plan, pieces [][]byte, err error) {
	plan = a.plan
	if len(plan.Cases) > longPlan {
		data, err := canon.Marshal(plan.Cases)
		if err != nil {
			return plan, nil, err
		}
		d := digest.ContentOf(data)
		plan.Cases, plan.CasesDigest = nil, &d
		pieces = append(pieces, data)
	}
	if plan.Recording == "" {
		target, err := a.targetPieces()
		return plan, append(pieces, target...), err
	}
	sources, list, err := a.sources()
	plan.Sources = &list
	return plan, append(pieces, sources...), err
}

// maxTargetBytes bounds the files of the target that are kept with every attempt.
const maxTargetBytes = 256 << 10

// targetPieces are the target as it is now: its settings, which the plan names by their
// digest, and, unless they are long or hold a secret, the files that the settings and the
// parameters name by theirs. So a comparison shows what changed of the agent, and not two digests. Pieces are
// kept once, whatever the number of attempts.
func (a *attempt) targetPieces() (pieces [][]byte, err error) {
	settings, err := a.cfg.Target.Settings()
	if err != nil {
		return nil, err
	}
	left := maxTargetBytes
	keep := func(data []byte) {
		// What holds a secret is not kept: its digest leaves nothing to take out.
		if left -= len(data); left >= 0 && redact(string(data)) == string(data) {
			pieces = append(pieces, data)
		}
	}
	keep(settings)
	for _, p := range a.cfg.Target.Parameters {
		if p.Digest != nil {
			keep(p.Data)
		}
	}
	files := digest.Tree{Files: a.cfg.Target.Files()}
	bytesOfAll := 0
	for _, f := range files.Files {
		bytesOfAll += len(f.Data)
	}
	if len(files.Files) == 0 || bytesOfAll > left {
		return pieces, nil
	}
	var stream bytes.Buffer
	if _, err := files.WriteTo(&stream); err != nil {
		return nil, err
	}
	keep(stream.Bytes())
	return pieces, nil
}

// sources are what decides the score, as it is now: registration and settings of
// the target, which the plan names by their digests, and the files of the target
// and of the rubric, which a list names. So an audit reads what ran, whatever the
// workspace has later.
func (a *attempt) sources() (pieces [][]byte, named digest.Content, err error) {
	registration, err := canon.Marshal(a.cfg.Bench.Registration())
	if err != nil {
		return nil, named, err
	}
	settings, err := a.cfg.Target.Settings()
	if err != nil {
		return nil, named, err
	}
	pieces = append(pieces, registration, settings)
	files, missing := a.cfg.Target.Sources()
	for name, data := range a.cfg.Bench.Judges().Files {
		files = append(files, digest.File{Path: bench.JudgesDir + "/" + name, Data: data})
	}
	for name, data := range a.cfg.Bench.Rubric().Program() {
		files = append(files, digest.File{Path: "rubric/" + name, Data: data})
	}
	slices.SortFunc(files, func(x, y digest.File) int { return strings.Compare(x.Path, y.Path) })
	list := evidence.Sources{Version: format.Version, Files: []evidence.Source{}, Missing: missing}
	for _, f := range files {
		if list.Add(f.Path, f.Data) {
			pieces = append(pieces, f.Data)
		}
	}
	data, err := canon.Marshal(&list)
	if err != nil {
		return nil, named, err
	}
	return append(pieces, data), digest.ContentOf(data), nil
}

// open makes the pack, with its first pieces, and the journals. An attempt that is
// resumed gets a further pack.
func (a *attempt) open(part int, first ...[]byte) error {
	var err error
	a.part = part - 1
	if a.pack, err = a.newPack(first...); err != nil {
		return err
	}
	dir := filepath.Join(a.books.Runs, a.id)
	if a.journal, err = store.OpenJournal(a.eventsFile()); err != nil {
		return err
	}
	if err := a.readList(); err != nil {
		return err
	}
	a.cfg.Crossed = a.crossed
	if a.replaysBuiltin() || a.cfg.Drivers != nil {
		return nil // what a crash interrupts can be had again, all of it, or is elsewhere
	}
	a.spools = make([]*store.Journal, a.atOnce())
	for i := range a.spools {
		if a.spools[i], err = store.OpenJournal(filepath.Join(dir, fmt.Sprintf("spool-%d.jsonl", i))); err != nil {
			return err
		}
	}
	return nil
}

// newPack makes the next pack of the attempt. One that a kill before the
// registration left is not in the way: the next name is taken.
func (a *attempt) newPack(first ...[]byte) (*store.Pack, error) {
	disk := a.books.Disk
	if disk == nil {
		disk = store.OS{}
	}
	for {
		a.part++
		name := a.id
		if a.part > 1 {
			name = fmt.Sprintf("%s.part%d", a.id, a.part)
		}
		p, err := store.CreatePack(disk, filepath.Join(a.books.Packs, name+".pack"), first...)
		if !errors.Is(err, fs.ErrExist) {
			return p, err
		}
	}
}

// atOnce is how many cases run side by side.
func (a *attempt) atOnce() int {
	n := a.cfg.Spec.Jobs
	switch {
	case n >= 1:
	case a.plan.StopEarly != nil:
		n = 1 // what runs beside the case that decides is run for nothing
	case a.cfg.Drivers != nil:
		n = a.cfg.Drivers.AtOnce()
	case a.replaysBuiltin():
		n = manyAtOnce
	case a.cfg.Live != nil && a.cfg.Spec.Pays():
		n = max(waitingAtOnce, runtime.NumCPU())
	}
	return atOnce(n, len(a.left))
}

// replaysBuiltin reports whether cases are replayed by the agent that is part of
// this program: nothing is waited for, nothing is paid for, and the same comes
// of it each time.
func (a *attempt) replaysBuiltin() bool { return a.cfg.Target.Builtin != nil && a.cfg.Live == nil }

func atOnce(wanted, jobs int) int {
	if wanted < 1 {
		wanted = runtime.NumCPU()
	}
	return max(1, min(wanted, jobs))
}

func (a *attempt) close() {
	a.ending.Lock()
	a.over = true
	a.ending.Unlock()
	a.worker.Close()
	for _, j := range a.spools {
		if j != nil {
			j.Close()
		}
	}
	if a.journal != nil {
		a.journal.Close()
	}
	if a.paid != nil {
		a.paid.Close()
	}
	if a.pack != nil {
		a.pack.Close()
	}
	if a.finished {
		for i := range a.spools {
			store.RemoveTree(filepath.Join(a.books.Runs, a.id, fmt.Sprintf("spool-%d.jsonl", i)))
		}
	}
}

func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
