package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/user"
)

// RecordOptions say what becomes of recordings.
type RecordOptions struct {
	OnlyMissing bool // replay what is recorded, record just what is missing
	Overwrite   bool // record again what the target has a recording of
	Discard     bool // throw the recordings away; the ledger still has their entries
}

// A Recording drives cases with live models and tools and makes their cassettes.
type Recording struct {
	*Setup
	Providers *provider.Settings
	Judge     *judge.Settings // nil if no model judges these cases
	User      *user.Settings  // nil if no model plays the users of these cases
	Cases     []string        // ids, in the order of the class
	Most      int64           // micro-dollars that may be spent
	Unsigned  error           // why the class is not signed as it is; nil if it is
	Replaces  []string        // files that are written over

	o       RecordOptions
	access  *provider.Access
	budget  *provider.Budget
	ledger  *sequencer.Ledger
	sitting *sitting

	librarian *librarian

	mu    sync.Mutex
	begun map[string]*begun // that have not ended
	done  []Recorded
}

// A begun is a case that is being recorded.
type begun struct {
	*provider.LiveSide
	base *cassette.Cassette // that is added to; nil if there is none
	paid *journal.Running
}

// A Recorded is what became of the recording of one case.
type Recorded struct {
	Case       string          `json:"case"`
	Kept       bool            `json:"kept"`
	Unchanged  bool            `json:"unchanged,omitempty"` // nothing was missing, and nothing was written
	Outcome    string          `json:"outcome"`             // how the case went, unrecorded as an attempt
	Reason     string          `json:"reason,omitempty"`
	Digest     *digest.Content `json:"digest,omitempty"`
	Provenance string          `json:"provenance,omitempty"`
	File       string          `json:"file,omitempty"`
	Calls      int64           `json:"calls"`
	CostMicro  int64           `json:"cost_microdollars"`
	Unpriced   int64           `json:"unpriced_calls"`
	Redactions int64           `json:"redactions"`

	// Endpoints are who answered, as this machine saw it.
	Endpoints []evidence.EndpointUse `json:"endpoints,omitempty"`
	Replayed  int                    `json:"replayed"`
	Reused    *evidence.Reused       `json:"reused,omitempty"` // of the replayed, those of the library
	Retries   int                    `json:"retries"`
	Refused   int                    `json:"refused"`
	Broken    int                    `json:"broken"`
	Unused    int                    `json:"unused"`
}

// NewRecording finds out what would be recorded, and the most that it can cost.
// Without a limit in the spec that is the class's for a case, times the cases.
// Nothing is sent yet. The caller closes it.
func NewRecording(c *dossier.Corpus, spec harness.Spec, o RecordOptions) (*Recording, error) {
	spec.Live = true
	s, unsigned, err := newRecordable(c, spec)
	if err != nil {
		return nil, err
	}
	r := &Recording{Setup: s, Unsigned: unsigned, o: o, begun: map[string]*begun{}}
	if r.access, err = s.access(); err != nil {
		return nil, err
	}
	r.Providers = r.access.Settings
	if r.sitting, err = r.newestSitting(); err != nil {
		return nil, err
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	if r.Judge, r.User, err = s.modelsNeeded(cfg, r.access); err != nil {
		return nil, err
	}
	limit := s.Bench.Registration().Limits.CostMicroUSD
	if r.Most = s.Spec.MaxCostMicroUSD; r.Most == 0 && s.Spec.MaxCalls == 0 {
		if r.Most = limit * int64(len(r.Cases)); limit <= 0 {
			return nil, refusal.Newf(refusal.Usage, "class %s has no limit on the cost of a case", s.Spec.Class).WithHint("say with --max-cost how many dollars may be spent")
		}
	}
	r.budget = provider.NewLimited(provider.Limit{MicroUSD: r.Most, Calls: s.Spec.MaxCalls}, nil)
	return r, nil
}

// newRecordable is New for a class that people may sign afterwards, with its
// recordings.
func newRecordable(c *dossier.Corpus, spec harness.Spec) (s *Setup, unsigned, err error) {
	how := func(d digest.Content) bench.CassetteProvenance { return bench.CassetteProvenance(c.Recorded[d]) }
	v, unsigned, err := bench.VerifyForRecording(c.Root, spec.Class, c.Options, how)
	if err != nil {
		return nil, nil, c.Alarm(err)
	}
	s, err = setup(c, v, spec)
	return s, unsigned, err
}

// Close lets go of the providers.
func (r *Recording) Close() { r.access.Close() }

// Spent is the most that the calls can have cost until now, in micro-dollars.
func (r *Recording) Spent() int64 { return r.budget.Spent() }

// config is that of the setup, for the cases that are recorded.
func (r *Recording) config() (harness.Config, error) {
	cfg, err := r.Setup.config()
	cfg.Select = func(c *scenario.Task) bool { return slices.Contains(r.Cases, c.ID) }
	return cfg, err
}

// choose finds the cases that a recording makes sense for, without those that an
// interrupted recording has put away.
func (r *Recording) choose() error {
	cases := scenario.Of(r.Bench, r.Target.Name)
	passed := 0
	for i := range cases.Len() {
		c, err := cases.Case(i)
		if err != nil {
			return err
		}
		if !r.Spec.Matches(c.ID, c.Tags) {
			continue
		}
		if reason := r.notFor(c); reason != "" {
			r.place.Note("case %s is left out: %s", c.ID, reason)
			continue
		}
		if r.sitting.done(c.ID) {
			passed++
			continue
		}
		r.Cases = append(r.Cases, c.ID)
		// A recording of a case that was cut off is of this sitting, or one that it
		// was told to overwrite.
		if r.isThere(c.ID) && !r.sitting.open(c.ID) {
			r.Replaces = append(r.Replaces, r.cassetteFile(c.ID))
		}
	}
	if len(r.Cases) == 0 && passed > 0 {
		// It was cut off after its last case: nothing of it is left.
		err := r.sitting.finish()
		if err == nil {
			r.sitting, err = r.newestSitting()
		}
		if err != nil {
			return err
		}
		return r.choose()
	}
	if passed > 0 {
		r.place.Note("%d cases ended before the recording was interrupted, and are not recorded again", passed)
	}
	if len(r.Cases) == 0 {
		return refusal.Newf(refusal.NotFound, "class %s has no case to record", r.Bench.Class()).
			WithHint(`"tally bench list %s" shows the cases; --case chooses among them`, r.Bench.Class())
	}
	return r.checkReplaces()
}

// isThere reports whether the target has a recording of a case.
func (r *Recording) isThere(id string) bool {
	_, err := os.Lstat(r.place.Path(filepath.FromSlash(r.cassetteFile(id))))
	return err == nil
}

// checkReplaces refuses to write over recordings unless the operator said so. What
// is missing is added to a recording: that loses nothing.
func (r *Recording) checkReplaces() error {
	if r.o.OnlyMissing || r.o.Discard {
		r.Replaces = nil
	}
	if len(r.Replaces) == 0 || r.o.Overwrite {
		return nil
	}
	const most = 5
	shown := strings.Join(r.Replaces[:min(most, len(r.Replaces))], ", ")
	if more := len(r.Replaces) - most; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	command := fmt.Sprintf("tally record %s --target %s", r.Bench.Class(), plain.ShellWord(r.Target.Name))
	for _, pattern := range r.Spec.Cases {
		command += " --case " + plain.ShellWord(pattern)
	}
	return refusal.Newf(refusal.AlreadyExists, "this would overwrite %d of the recordings that target %s has: %s; nothing was sent", len(r.Replaces), r.Target.Name, shown).
		WithHint(`record only what is missing with "%s --only-missing", or everything again with "%s --overwrite"`, command, command)
}

// notFor says why a case is not recorded. What a person wrote by hand is never
// written over.
func (r *Recording) notFor(c *scenario.Task) string {
	switch {
	case c.Scenario.RepliesFor(cassette.ForUser).Len() > 0:
		return "its scenario has the replies of the model that plays its user, which a run uses in place of a recording; take them out first"
	case c.Scenario.RepliesFor(cassette.ForAgent).Len() > 0:
		return "its scenario has the model's replies, which a run uses in place of a recording; take them out first"
	case c.Cassette != nil && c.Provenance == bench.Authored && !r.o.OnlyMissing:
		file := r.cassetteFile(c.ID)
		if !r.isThere(c.ID) {
			file = bench.CassetteFile(r.Bench.Class(), "", c.ID)
		}
		return "its cassette was written by hand; remove " + file + " first, or add to it with --only-missing"
	}
	return ""
}

func (r *Recording) cassetteFile(id string) string {
	return bench.CassetteFile(r.Bench.Class(), r.Target.Name, id)
}

// Record drives the cases, with the network on. Whatever happens, every case that
// was begun has its entry in the ledger when it returns, unless the ledger itself
// fails.
func (r *Recording) Record(ctx context.Context) ([]Recorded, error) {
	var err error
	if r.ledger, err = r.place.OpenLedger(ctx); err != nil {
		return nil, err
	}
	if err = r.sitting.begin(r); err == nil {
		err = r.drive(ctx)
	}
	if cerr := r.sitting.close(err == nil); err == nil {
		err = cerr
	}
	if cerr := r.ledger.Close(); err == nil {
		err = cerr
	}
	return append([]Recorded{}, r.done...), err
}

func (r *Recording) drive(ctx context.Context) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	cfg.Live, cfg.Paid = r, r.sitting.of
	r.librarian = r.Setup.librarian(r.Providers.At, entering(r.ledger))
	r.librarian.user.Finds, r.librarian.user.Pays, r.librarian.user.Discard = !r.o.Overwrite, true, r.o.Discard
	if cfg.Judge, err = r.judge(judge.Record, nil, nil); err != nil {
		return err
	}
	crossed := r.unattempted()
	cfg.Crossed = crossed.write
	err = harness.Rehearse(ctx, cfg, func(g *harness.Graded) error {
		if err := crossed.add(g.Crossings, r.blocked); err != nil {
			return err
		}
		keep, reason := r.worthKeeping(g)
		paid := r.begun[g.Case.ID].paid
		if err := r.end(g.Case.ID, keep, string(g.Record.Outcome), reason); err != nil {
			return err
		}
		// After the recording itself: a crash in between gives the same one again,
		// from the journal.
		return paid.PutAway()
	})
	if cerr := crossed.close(); err == nil {
		err = cerr
	}
	why := "the recording was stopped"
	if err != nil {
		why = err.Error()
	}
	for _, id := range r.Cases {
		if r.begun[id] == nil {
			continue
		}
		if eerr := r.end(id, false, string(evidence.Errored), why); err == nil {
			err = eerr
		}
	}
	return err
}

// blocked appends what blocked to the ledger, which is open while cases are
// recorded.
func (r *Recording) blocked(e evidence.IntegrityEvent) error {
	_, err := r.ledger.AppendRecord(evidence.IntegrityEventKind, &e)
	return err
}

// Case begins the live side of one case, for the harness.
func (r *Recording) Case(c *scenario.Task, j harness.Job) (harness.Recording, error) {
	o := r.caseOptions(c, r.budget)
	o.Journal = j.Paid
	r.librarian.lend(&o, c, 0)
	if r.o.OnlyMissing && c.Cassette != nil {
		data, err := c.Cassette.Data()
		if err != nil {
			return nil, err
		}
		if o.Base, err = cassette.Parse(data, cassette.Limits{}); err != nil {
			return nil, fmt.Errorf("%s: %w", r.cassetteFile(c.ID), err)
		}
		if err := r.Providers.CheckBase(o.Base); err != nil {
			return nil, fmt.Errorf("%s: %w", r.cassetteFile(c.ID), err)
		}
		// What the ledger never saw recorded does not become a recording by having
		// something added.
		if h := &o.Base.Header; h.Provenance == cassette.Recorded && r.place.Recorded[c.Cassette.Digest] != string(cassette.Recorded) {
			h.Provenance = cassette.Edited
		}
	}
	live, err := r.access.Case(o)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first := r.begun[c.ID]; first != nil {
		first.Close() // it went another way than its journal, and is given up
	}
	r.begun[c.ID] = &begun{live, o.Base, j.Paid}
	return live, nil
}

// Redactor returns none: of a recording only the cassette is kept, which is redacted
// where it is made.
func (r *Recording) Redactor() *cassette.Redactor { return nil }

// worthKeeping decides whether a recording is kept: the agent must have come to
// its end. Whether it gave the right answer does not matter.
func (r *Recording) worthKeeping(g *harness.Graded) (keep bool, reason string) {
	switch {
	case g.Suspended:
		return false, "it waits for an approval; answer it in the case's scenario"
	case g.Record.Outcome == evidence.Errored || g.Record.Outcome == evidence.Truncated:
		return false, g.Record.Reason
	case r.o.Discard:
		return false, "--discard"
	}
	return true, ""
}

// end puts one recording away. The ledger comes first: a crash in between
// leaves an entry whose file is missing, which is seen, and never a cassette
// that no entry names.
func (r *Recording) end(id string, keep bool, outcome, reason string) error {
	r.mu.Lock()
	live := r.begun[id]
	delete(r.begun, id)
	r.mu.Unlock()
	if live == nil {
		return refusal.Newf(refusal.Failed, "case %s ended and was never begun", id)
	}
	live.Close()
	out := Recorded{Case: id, Kept: keep, Outcome: outcome, Reason: reason, Unused: live.Unused()}
	stats := live.Stats()
	out.Replayed, out.Retries, out.Refused, out.Broken = stats.Replayed, stats.Retries, stats.Refused, stats.Broken
	out.Reused = live.Reused()
	err := r.put(live, &out)
	r.mu.Lock()
	r.done = append(r.done, out)
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("case %s: %w", id, err)
	}
	if reason = out.Reason; reason != "" {
		reason = ": " + reason
	}
	r.place.Note("case %s %s, %d calls, %s%s%s", id, out.Fate(), out.Calls, cost.Of(out.CostMicro, out.Unpriced).Short(), reusedText(out.Reused), reason)
	return nil
}

// Fate says in words what became of a recording.
func (r *Recorded) Fate() string {
	switch {
	case r.Unchanged:
		return "unchanged"
	case r.Kept:
		return "recorded"
	}
	return "thrown away"
}

func (r *Recording) put(live *begun, out *Recorded) error {
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
	if live.base != nil && out.Kept && len(live.base.Interactions) == len(c.Interactions) {
		out.Unchanged, out.Digest = true, nil // that of another file, made now
		return nil
	}
	entry := harness.RecordingEntry(r.Bench.Class(), out.Case, c, d)
	entry.Kept, out.Endpoints = out.Kept, h.Endpoints
	if _, err := r.ledger.AppendRecord(evidence.CassetteRecordedKind, entry); err != nil {
		return err
	}
	if !out.Kept {
		return nil
	}
	name := r.place.Path(filepath.FromSlash(r.cassetteFile(out.Case)))
	if err = store.MakeDir(store.OS{}, filepath.Dir(name), 0o755); err == nil {
		err = store.WriteFile(store.OS{}, name, file, 0o644)
	}
	if err != nil {
		out.Kept, entry.Kept, out.Reason = false, false, err.Error()
		_, lerr := r.ledger.AppendRecord(evidence.CassetteRecordedKind, entry)
		return errors.Join(err, lerr)
	}
	out.File = r.cassetteFile(out.Case)
	return nil
}
