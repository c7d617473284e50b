package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/cassette"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/harness"
	"tallystick/internal/judge"
	"tallystick/internal/plain"
	"tallystick/internal/provider"
	"tallystick/internal/refusal"
	"tallystick/internal/scenario"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

type recordOptions struct {
	class, target, cases string
	unsafeRecord         bool
	onlyMissing          bool
	discard              bool
	unsafeAgent          bool
	maxCost              float64
	jobs                 int
}

func newRecord(env *Env) *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use:   "record CLASS --unsafe-record",
		Short: "Record cassettes from live models and tools",
		Long: `Drive the target through each case with live models and live MCP servers, and write
what they answered to cassettes/CLASS/CASE.cassette.zst. The network is on and money is
spent: where requests go and the most they can cost is shown first, and a person types
the answer at a terminal. Refused when CI is set.

Keys never leave this process except to their provider, and secrets are removed before
anything is written. Every recording, kept or thrown away, is an entry in the ledger.
A new cassette has a new digest: "tally bench digest" and two signatures come next.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runRecord(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.unsafeRecord, "unsafe-record", false, "allow the network and the cost; nothing is recorded without it")
	f.StringVar(&o.target, "target", agent.DefaultTarget, "`NAME` of the agent, from targets/NAME.yaml")
	f.StringVar(&o.cases, "case", "", "record only cases whose id matches `GLOB`")
	f.BoolVar(&o.onlyMissing, "only-missing", false, "replay what the cassette has, record just the calls that miss")
	f.BoolVar(&o.discard, "discard", false, "throw the recordings away; the ledger still has their entries")
	f.Float64Var(&o.maxCost, "max-cost", 0, "the most that all calls together may cost, in `USD` (default: the class's limit for a case, times the cases)")
	f.IntVar(&o.jobs, "jobs", 1, "record `N` cases at once")
	f.BoolVar(&o.unsafeAgent, "unsafe-agent", false, "run a command target without a sandbox")
	return cmd
}

func (o *recordOptions) validate() error {
	switch {
	case !o.unsafeRecord:
		return refusal.Newf(refusal.Usage, "tally record: --unsafe-record is missing: recording uses the network and costs money").
			WithHint("give --unsafe-record if that is meant; a replay of what is recorded is \"tally run\"")
	case o.maxCost < 0 || o.maxCost > 1e6:
		return refusal.Newf(refusal.Usage, "--max-cost %v: expected more than 0", o.maxCost)
	case o.jobs < 1:
		return refusal.Newf(refusal.Usage, "--jobs %d: expected 1 or more", o.jobs)
	}
	if _, err := path.Match(o.cases, ""); err != nil {
		return refusal.Newf(refusal.Usage, "--case %s: %w", o.cases, err)
	}
	return refuseShipped(o.class)
}

// mayRecord refuses where nobody can answer for what is sent and spent.
func (e *Env) mayRecord() error {
	if e.Getenv("CI") != "" {
		return refusal.Newf(refusal.RecordingInCI, "CI is set: a recording is made by a person, who reviews and signs it").
			WithHint(`record on your own machine and commit the cassette; "tally run --live" is for live runs in CI`)
	}
	if !isTerminal(e.Stdin) || !isTerminal(e.Stderr) {
		return refusal.Newf(refusal.RecordingNotConfirmed, "there is no terminal to confirm the recording at; nothing was sent").
			WithHint("run it in a terminal; no flag stands in for the answer")
	}
	return nil
}

func runRecord(ctx context.Context, env *Env, o recordOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := env.mayRecord(); err != nil {
		return err
	}
	p, err := env.openCorpus()
	if err != nil {
		return err
	}
	defer p.Root.Close()
	r, err := env.newRecording(p, o)
	if err != nil {
		return err
	}
	defer r.access.Close()
	if err := r.confirm(ctx); err != nil {
		return err
	}
	if r.ledger, err = p.OpenLedger(ctx); err != nil {
		return err
	}
	err = r.record(ctx)
	if cerr := r.ledger.Close(); err == nil {
		err = cerr
	}
	answer := r.answer()
	if aerr := env.Answer(answer, answer.print); aerr != nil {
		return aerr
	}
	if err == nil && answer.failed > 0 {
		err = refusal.Newf(refusal.Failed, "class %s: %d of %d recordings were not kept", o.class, answer.failed, len(answer.Recordings)).
			WithHint("the reasons are above; the ledger has an entry of each")
	}
	return err
}

// A recording is one "tally record".
type recording struct {
	env    *Env
	o      recordOptions
	runner *runner
	access *provider.Access
	chosen []string        // ids, in the order of the class
	judges *judge.Settings // nil if no model judges these cases
	most   int64           // micro-dollars
	budget *provider.Budget
	ledger *sequencer.Ledger

	mu    sync.Mutex
	begun map[string]*provider.Case // that have not ended
	done  []recordedCase
}

// A recordedCase is what became of one case, for the answer.
type recordedCase struct {
	Case       string          `json:"case"`
	Kept       bool            `json:"kept"`
	Outcome    string          `json:"outcome"` // how the case went, unrecorded as an attempt
	Reason     string          `json:"reason,omitempty"`
	Digest     *digest.Content `json:"digest,omitempty"`
	Provenance string          `json:"provenance,omitempty"`
	File       string          `json:"file,omitempty"`
	Calls      int64           `json:"calls"`
	CostMicro  int64           `json:"cost_microdollars"`
	Unpriced   int64           `json:"unpriced_calls"`
	Redactions int64           `json:"redactions"`
	Replayed   int             `json:"replayed"`
	Retries    int             `json:"retries"`
	Refused    int             `json:"refused"`
	Broken     int             `json:"broken"`
	Unused     int             `json:"unused"`
}

func (e *Env) newRecording(p *archive.Corpus, o recordOptions) (*recording, error) {
	run, err := e.newRunner(p, runOptions{class: o.class, target: o.target, cases: o.cases, repeat: 1, jobs: o.jobs, live: true, unsafeAgent: o.unsafeAgent})
	if err != nil {
		return nil, err
	}
	settings, err := provider.LoadSettings(p.Path(provider.SettingsFile))
	if err != nil {
		return nil, err
	}
	r := &recording{env: e, o: o, runner: run, begun: map[string]*provider.Case{}}
	if r.access, err = settings.Access(e.Getenv); err != nil {
		return nil, err
	}
	if b := run.target.Builtin; b != nil {
		if err := r.access.CheckModel(b.API, b.Model, b.MaxOutputTokens); err != nil {
			return nil, err
		}
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	if r.judges, err = run.recordedJudge(r.access, r.chosen); err != nil {
		return nil, err
	}
	limit := run.bench.Registration().Limits.CostMicroUSD
	if r.most = int64(o.maxCost * 1e6); r.most == 0 {
		if r.most = limit * int64(len(r.chosen)); limit <= 0 {
			return nil, refusal.Newf(refusal.Usage, "class %s has no limit on the cost of a case", o.class).WithHint("say with --max-cost how many dollars may be spent")
		}
	}
	r.budget = provider.NewBudget(r.most)
	return r, nil
}

// choose finds the cases that a recording makes sense for.
func (r *recording) choose() error {
	cases := scenario.Of(r.runner.bench)
	wanted := r.runner.o.selector()
	for i := range cases.Len() {
		c, err := cases.Case(i)
		if err != nil {
			return err
		}
		if wanted != nil && !wanted(c) {
			continue
		}
		if reason := r.notFor(c); reason != "" {
			r.env.Note("case %s is left out: %s", c.ID, reason)
			continue
		}
		r.chosen = append(r.chosen, c.ID)
	}
	if len(r.chosen) == 0 {
		return refusal.Newf(refusal.NotFound, "class %s has no case to record", r.o.class).
			WithHint(`"tally bench list %s" shows the cases; --case chooses among them`, r.o.class)
	}
	return nil
}

// notFor says why a case is not recorded. What somebody wrote by hand is never
// written over.
func (r *recording) notFor(c *scenario.Case) string {
	inFolder := slices.ContainsFunc(r.runner.bench.Cases(), func(v bench.VerifiedCase) bool { return v.Case().CaseID == c.ID })
	switch {
	case !inFolder:
		return "it is a line of the dataset, and those have no cassettes"
	case len(c.Scenario.Model) > 0:
		return "its scenario has the model's replies, which a run uses in place of a recording; take them out first"
	case c.Cassette != nil && c.Provenance == bench.Authored && !r.o.onlyMissing:
		return "its cassette was written by hand; remove " + bench.CassetteFile(r.o.class, c.ID) + " first, or add to it with --only-missing"
	}
	return ""
}

// confirm shows what will be sent where, and the most it can cost, and waits
// for a person to agree.
func (r *recording) confirm(ctx context.Context) error {
	var b strings.Builder
	target, s := r.runner.target, r.access.Settings
	fmt.Fprintf(&b, "\nRecording class %s with target %s.\n", r.o.class, target.Name)
	var api cassette.API
	if t := target.Builtin; t != nil {
		api = t.API
		fmt.Fprintf(&b, "  model    %s\n", t.Model)
	}
	if t := target.HTTP; t != nil {
		fmt.Fprintf(&b, "  agent    %s\n", t.URL)
	}
	if j := r.judges; j != nil {
		fmt.Fprintf(&b, "  judge    %s\n", j.Model)
		if j.API != api {
			api = "" // of another provider, perhaps: list all
		}
	}
	for _, line := range s.Destinations(api) {
		fmt.Fprintf(&b, "  calls    %s\n", line)
	}
	for _, name := range slices.Sorted(maps.Keys(s.MCP)) {
		fmt.Fprintf(&b, "  tools    MCP server %s, if a case uses it: %s\n", name, s.MCP[name].Destination())
	}
	shown := r.chosen
	if len(shown) > 10 {
		shown = append(slices.Clone(shown[:10]), "…")
	}
	fmt.Fprintf(&b, "  cases    %d: %s\n", len(r.chosen), strings.Join(shown, ", "))
	fmt.Fprintf(&b, "  costs    at most %s for tokens, by the prices in %s\n", provider.Dollars(r.most), provider.SettingsFile)
	if r.o.discard {
		fmt.Fprint(&b, "  writes   nothing but an entry in the ledger for each case\n")
	} else {
		fmt.Fprintf(&b, "  writes   cassettes/%s/, and an entry in the ledger for each case\n", r.o.class)
	}
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(r.env.Stderr, plain.Line(strings.TrimSuffix(line, "\n")))
	}
	fmt.Fprint(r.env.Stderr, `Type "record" to go on: `)
	answer, err := readAnswer(ctx, r.env.Stdin)
	if err != nil {
		return err
	}
	if answer != "record" {
		return refusal.Newf(refusal.RecordingNotConfirmed, "the answer was not %q; nothing was sent", "record").WithHint("run the same command again")
	}
	return nil
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

// record drives the cases. Whatever happens, every case that was begun has its
// entry in the ledger when it returns, unless the ledger itself fails.
func (r *recording) record(ctx context.Context) error {
	cfg, err := r.runner.rehearsal()
	if err != nil {
		return err
	}
	cfg.Select = func(c *scenario.Case) bool { return slices.Contains(r.chosen, c.ID) }
	cfg.Live = r.begin
	if err := r.runner.judgeOf(&cfg, judge.Record, nil); err != nil {
		return err
	}
	err = harness.Rehearse(ctx, cfg, func(h harness.Rehearsal) error {
		kept, reason := r.judge(h)
		return r.end(h.Case.ID, kept, string(h.Record.Outcome), reason)
	})
	why := "the recording was stopped"
	if err != nil {
		why = err.Error()
	}
	for _, id := range r.chosen {
		if r.begun[id] == nil {
			continue
		}
		if eerr := r.end(id, false, string(evidence.Errored), why); err == nil {
			err = eerr
		}
	}
	return err
}

// begin makes the live side of one case.
func (r *recording) begin(c *scenario.Case) (harness.Recording, error) {
	o := provider.CaseOptions{Budget: r.budget, Now: r.env.Now(), OnRetry: func(t provider.Retry) {
		r.env.Note("case %s: %s; trying again in %s", c.ID, t.Reason, t.Wait)
	}}
	if r.o.onlyMissing && c.Cassette != nil {
		data, err := c.Cassette.Data()
		if err != nil {
			return nil, err
		}
		if o.Base, err = cassette.Parse(data, cassette.Limits{}); err != nil {
			return nil, fmt.Errorf("%s: %w", bench.CassetteFile(r.o.class, c.ID), err)
		}
	}
	live, err := r.access.Case(o)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[c.ID] = live
	return live, nil
}

// judge decides whether a recording is kept: the agent must have come to its
// end. Whether it gave the right answer does not matter.
func (r *recording) judge(h harness.Rehearsal) (keep bool, reason string) {
	switch {
	case h.Suspended:
		return false, "it waits for an approval; answer it in the case's scenario"
	case h.Record.Outcome == evidence.Errored || h.Record.Outcome == evidence.Truncated:
		return false, h.Record.Reason
	case r.o.discard:
		return false, "--discard"
	}
	return true, ""
}

// end puts one recording away. The ledger comes first: a crash in between
// leaves an entry whose file is missing, which is seen, and never a cassette
// that no entry names.
func (r *recording) end(id string, keep bool, outcome, reason string) error {
	r.mu.Lock()
	live := r.begun[id]
	delete(r.begun, id)
	r.mu.Unlock()
	if live == nil {
		return refusal.Newf(refusal.Failed, "case %s ended and was never begun", id)
	}
	live.Close()
	out := recordedCase{Case: id, Kept: keep, Outcome: outcome, Reason: reason, Unused: live.Unused()}
	stats := live.Stats()
	out.Replayed, out.Retries, out.Refused, out.Broken = stats.Replayed, stats.Retries, stats.Refused, stats.Broken
	err := r.put(live, &out)
	r.mu.Lock()
	r.done = append(r.done, out)
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("case %s: %w", id, err)
	}
	r.env.Note("case %s %s, %d calls, %s%s", id, keptWord(out.Kept), out.Calls, provider.Dollars(out.CostMicro), colon(out.Reason))
	return nil
}

func colon(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func keptWord(kept bool) string {
	if kept {
		return "recorded"
	}
	return "thrown away"
}

func (r *recording) put(live *provider.Case, out *recordedCase) error {
	file, err := live.Cassette()
	if err != nil {
		return err
	}
	c, err := cassette.Parse(file, cassette.Limits{})
	if err != nil {
		return err
	}
	h, d := c.Header, cassette.Digest(file)
	out.Digest, out.Provenance, out.Redactions = &d, string(h.Provenance), h.Redactions
	out.Calls, out.CostMicro, out.Unpriced = int64(len(c.Interactions)), h.Totals.CostMicrodollars, h.Totals.UnpricedCalls
	entry := &evidence.CassetteRecorded{Class: r.o.class, CaseID: out.Case, Digest: d, Provenance: out.Provenance, Kept: out.Kept,
		Calls: len(c.Interactions), CostMicro: out.CostMicro}
	if _, err := r.ledger.AppendRecord(evidence.CassetteRecordedKind, entry); err != nil {
		return err
	}
	if !out.Kept {
		return nil
	}
	name := r.runner.place.Path(filepath.FromSlash(bench.CassetteFile(r.o.class, out.Case)))
	if err = store.MakeDir(store.OS{}, filepath.Dir(name), 0o755); err == nil {
		err = store.WriteFile(store.OS{}, name, file, 0o644)
	}
	if err != nil {
		out.Kept, entry.Kept, out.Reason = false, false, err.Error()
		_, lerr := r.ledger.AppendRecord(evidence.CassetteRecordedKind, entry)
		return errors.Join(err, lerr)
	}
	out.File = bench.CassetteFile(r.o.class, out.Case)
	return nil
}

type recordAnswer struct {
	Class      string         `json:"class"`
	Target     string         `json:"target"`
	Recordings []recordedCase `json:"recordings"`
	CostUSD    float64        `json:"cost_usd"`      // of the calls whose cost is known
	SpentUSD   float64        `json:"most_cost_usd"` // counting the others with the most they can have cost
	LimitUSD   float64        `json:"limit_usd"`

	failed int
}

func (r *recording) answer() *recordAnswer {
	a := &recordAnswer{Class: r.o.class, Target: r.o.target, Recordings: append([]recordedCase{}, r.done...),
		SpentUSD: float64(r.budget.Spent()) / 1e6, LimitUSD: float64(r.most) / 1e6}
	for _, c := range r.done {
		a.CostUSD += float64(c.CostMicro) / 1e6
		if !c.Kept && !r.o.discard {
			a.failed++
		}
	}
	return a
}

func (a *recordAnswer) print(out io.Writer) {
	kept := 0
	for _, c := range a.Recordings {
		fmt.Fprintf(out, "%-24s %-11s %s, %d calls, $%.6f", plain.Line(c.Case), keptWord(c.Kept), plain.Line(c.Outcome), c.Calls, float64(c.CostMicro)/1e6)
		for _, n := range []struct {
			count int64
			what  string
		}{{c.Redactions, "secrets removed"}, {c.Unpriced, "without a known cost"}, {int64(c.Retries), "retries"}, {int64(c.Refused), "error replies"}, {int64(c.Broken), "broken streams"}, {int64(c.Replayed), "replayed"}, {int64(c.Unused), "old ones not asked for"}} {
			if n.count > 0 {
				fmt.Fprintf(out, ", %d %s", n.count, n.what)
			}
		}
		fmt.Fprintln(out)
		if c.Kept {
			kept++
			fmt.Fprintf(out, "  %s %s\n", plain.Line(c.File), c.Digest)
		} else if c.Reason != "" {
			fmt.Fprintf(out, "  %s\n", plain.Line(c.Reason))
		}
	}
	fmt.Fprintf(out, "spent    at most $%.6f of $%.2f\n", a.SpentUSD, a.LimitUSD)
	if kept > 0 {
		fmt.Fprintf(out, "Next: look through the cassettes for secrets in plain words, then \"tally bench digest %s\" and two signatures\n", plain.Line(a.Class))
	}
}
