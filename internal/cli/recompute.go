package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/bench"
	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/gate"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/store"
	"tallystick/internal/verify"
)

// maxRunFile bounds the kept answer of a run, which has a line for each case
// that failed at most.
const maxRunFile = 256 << 20

// recomputeAnswer says what came of counting everything again.
type recomputeAnswer struct {
	Attempts        int `json:"attempts"`
	Runs            int `json:"runs"`            // kept answers of "tally run"
	Recommendations int `json:"recommendations"` // entries, with their files
	scorecard.Recomputed
}

func (a *recomputeAnswer) add(r *scorecard.Recomputed) {
	a.Checked += r.Checked
	a.Differences = append(a.Differences, r.Differences...)
	a.Unchecked = append(a.Unchecked, r.Unchecked...)
}

// recomputedAnswer is what "tally verify --recompute" says.
type recomputedAnswer struct {
	Items      []verify.Item    `json:"items"`
	Recomputed *recomputeAnswer `json:"recomputed"`
}

// runRecompute counts the workspace again, and verifies paths, among which may be
// kept answers.
func runRecompute(env *Env, paths []string, trust verify.Trust) error {
	r, err := env.newRecomputer()
	if err != nil {
		return err
	}
	a := recomputedAnswer{Items: []verify.Item{}}
	var worst error
	a.Recomputed, worst = r.all()
	if a.Recomputed == nil {
		return worst
	}
	for _, path := range paths {
		item, err := r.item(path, trust)
		a.Items = append(a.Items, item)
		if err != nil && (worst == nil || refusal.ExitCode(err) == refusal.ExitUnverified && refusal.ExitCode(worst) != refusal.ExitUnverified) {
			worst = err
		}
	}
	if err := env.Answer(a, a.text); err != nil {
		return err
	}
	return worst
}

// item verifies what is at a path: an answer that somebody kept, or anything
// else that this program knows.
func (r *recomputer) item(path string, trust verify.Trust) (verify.Item, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		item := verify.Path(path, trust)
		return item, item.Err()
	}
	kind, data, err := readKept(path)
	if kind == "" || err != nil {
		item := verify.Path(path, trust)
		return item, item.Err()
	}
	counted, err := r.kept(kind, path, data)
	switch {
	case err != nil:
	case counted.Checked == 0:
		err = refusal.Newf(refusal.NotFound, "%s: nothing in it could be counted again: %s", path, strings.Join(counted.Unchecked, "; ")).
			WithHint("bring back what is missing, for example the bench of then from git, and ask again")
	default:
		err = counted.Err()
	}
	item := verify.Item{Path: path, Type: kind, Verified: err == nil}
	if err != nil {
		item.Detail = err.Error()
		return item, err
	}
	item.Detail = fmt.Sprintf("%d numbers are what the ledger gives", counted.Checked)
	if n := len(counted.Unchecked); n > 0 {
		item.Detail += fmt.Sprintf("; not counted: %s", strings.Join(counted.Unchecked, "; "))
	}
	return item, nil
}

// maxShown bounds how many lines of one sort a person is shown.
const maxShown = 20

func (a recomputedAnswer) text(out io.Writer) {
	itemsText(out, a.Items)
	c := a.Recomputed
	fmt.Fprintf(out, "counted   %d numbers of this workspace: %d attempts, %d kept runs, %d recommendations\n", c.Checked, c.Attempts, c.Runs, c.Recommendations)
	for i, d := range c.Differences {
		if i == maxShown {
			fmt.Fprintf(out, "DIFFERS   and %d more\n", len(c.Differences)-i)
			break
		}
		fmt.Fprintf(out, "DIFFERS   %s\n", plain.Line(d.String()))
	}
	for i, u := range c.Unchecked {
		if i == maxShown {
			fmt.Fprintf(out, "not counted  and %d more\n", len(c.Unchecked)-i)
			break
		}
		fmt.Fprintf(out, "not counted  %s\n", plain.Line(u))
	}
	if len(c.Differences) == 0 {
		fmt.Fprintln(out, "All of these are what the ledger and its evidence give.")
	}
}

// A recomputer counts again what was written down, from the verified ledger and
// its evidence.
type recomputer struct {
	env  *Env
	past *pastReading          // of all attempts, as it is now
	then *pastReading          // as it was at some time: the last that was asked for
	seen *ledgerHeads          // every head, and the recommendations
	keys []ledger.LogKey       // of the ledger's operators
	by   map[string]benchOrWhy // by class
}

// benchOrWhy is a bench that verified, or why not.
type benchOrWhy struct {
	bench *bench.Verified
	err   error
}

// ledgerHeads is what a walk of the ledger remembers for later.
type ledgerHeads struct {
	heads   []digest.ID
	advised map[int64]advice
}

// An advice is a recommendation in the ledger.
type advice struct {
	evidence.Recommendation
	time evidence.Time
}

// newRecomputer verifies the workspace's ledger and reads it.
func (e *Env) newRecomputer() (*recomputer, error) {
	past, err := e.readPast(nil)
	if err != nil {
		return nil, err
	}
	r := &recomputer{env: e, past: past, seen: &ledgerHeads{advised: make(map[int64]advice)}, by: make(map[string]benchOrWhy)}
	v, err := past.w.Walk(func(rec ledger.Record) error {
		r.seen.heads = append(r.seen.heads, rec.Head)
		if rec.Envelope.Kind != evidence.RecommendationKind || rec.Envelope.Manual {
			return nil
		}
		body, err := evidence.DecodeBody(rec.Envelope.Kind, rec.Envelope.Body)
		if err != nil {
			return &ledger.Problem{Index: rec.Index, Kind: "entry", Detail: err.Error(), Name: refusal.EntryInvalid}
		}
		r.seen.advised[rec.Index] = advice{*body.(*evidence.Recommendation), rec.Envelope.Time}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.keys = v.EveryKey()
	return r, nil
}

// all counts everything in the workspace again: each attempt from its records
// and their evidence, the kept answers of runs, the recommendations. The error
// is a refusal if a number differs; the answer is there all the same.
func (r *recomputer) all() (*recomputeAnswer, error) {
	all := &recomputeAnswer{Recomputed: scorecard.Recomputed{Differences: []scorecard.Difference{}, Unchecked: []string{}}}
	for _, a := range r.past.history.Attempts {
		counted, err := scorecard.Recompute(a, scorecard.RecomputeOptions{Read: r.past.read})
		if err != nil {
			return nil, err
		}
		all.Attempts++
		all.add(counted)
	}
	runs, err := jsonFiles(r.past.w.Private("runs"))
	if err != nil {
		return nil, err
	}
	for _, name := range runs {
		counted, err := r.run(name)
		if err != nil {
			return nil, err
		}
		all.Runs++
		all.add(counted)
	}
	if err := r.recommendations(all); err != nil {
		return nil, err
	}
	if err := all.Err(); err != nil {
		return all, r.past.w.Alarm(err)
	}
	return all, nil
}

// jsonFiles lists the JSON files of a folder that may not be there.
func jsonFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", dir, cause(err))
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".json") {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// The kinds of answers that people keep.
const (
	keptRun            = "run"
	keptScorecard      = "scorecard"
	keptComparison     = "comparison"
	keptGate           = "gate"
	keptRecommendation = "recommendation"
)

// kindOfKept recognises a kept answer by what no other has; "" for none.
func kindOfKept(doc map[string]canon.RawMessage) string {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return doc[name] == nil })
	}
	switch {
	case has("mcnemar_p", "paired"):
		return keptComparison
	case has("total_tasks", "attempts"):
		return keptScorecard
	case has("recommended_tier", "index"):
		return keptRecommendation
	case has("gates", "met", "attempt"):
		return keptGate
	case has("attempt", "finished", "head"):
		return keptRun
	}
	return ""
}

// readKept reads a file that may be a kept answer. The kind is "" if it is not.
func readKept(name string) (kind string, data []byte, err error) {
	if data, err = store.ReadFile(store.OS{}, name, maxRunFile); err != nil {
		return "", nil, err
	}
	var doc map[string]canon.RawMessage
	if canon.Unmarshal(data, &doc) != nil {
		return "", data, nil
	}
	return kindOfKept(doc), data, nil
}

// run counts the kept answer of a run again. It must be of the attempt that its
// name says, or the answer of a better one could stand in for it.
func (r *recomputer) run(name string) (*scorecard.Recomputed, error) {
	data, err := store.ReadFile(store.OS{}, name, maxRunFile)
	if err != nil {
		return nil, err
	}
	counted, err := r.kept(keptRun, name, data)
	if err != nil {
		return nil, err
	}
	_, ids, err := describeKept(keptRun, name, data)
	if err != nil {
		return nil, err
	}
	counted.Checked++
	if want := strings.TrimSuffix(filepath.Base(name), ".json"); ids[0] != want {
		counted.Differences = append(counted.Differences, scorecard.Difference{Where: name, Field: "attempt.id", Written: fmt.Sprint(ids), Computed: want})
	}
	return counted, nil
}

// kept counts a kept answer again.
func (r *recomputer) kept(kind, name string, data []byte) (*scorecard.Recomputed, error) {
	if kind == keptRecommendation {
		return r.recommendation(name, data)
	}
	line, ids, err := describeKept(kind, name, data)
	if err != nil {
		return nil, err
	}
	out := &scorecard.Recomputed{Differences: []scorecard.Difference{}, Unchecked: []string{}}
	past := r.past
	if line != nil {
		if d := r.wrongLedger(name, line); d != nil {
			out.Checked, out.Differences = 1, append(out.Differences, *d)
			return out, nil
		}
		if scorecard.AmendedSince(past.history, line.Entries, ids...) {
			if past, err = r.asOf(line.Entries); err != nil {
				return nil, err
			}
		}
	}
	out, err = r.keptIn(past, kind, name, data, ids)
	if err != nil || line == nil || past != r.past || len(out.Differences) == 0 && out.Checked > 0 {
		return out, err
	}
	// What grows with the ledger may have been less then.
	if past, err = r.asOf(line.Entries); err != nil {
		return nil, err
	}
	return r.keptIn(past, kind, name, data, ids)
}

// keptIn counts a kept answer again with one history.
func (r *recomputer) keptIn(past *pastReading, kind, name string, data []byte, ids []string) (*scorecard.Recomputed, error) {
	o := scorecard.RecomputeOptions{Evidence: past.evidence, Divergence: past.divergence, Other: r.other(past, ids)}
	switch kind {
	case keptRun:
		return scorecard.RecomputeRun(past.history, name, data, o)
	case keptScorecard:
		return scorecard.RecomputeCard(past.history, name, data, o)
	case keptComparison:
		return scorecard.RecomputeComparison(past.history, name, data, o)
	case keptGate:
		return r.gate(past, name, data, ids)
	}
	return nil, scorecard.NotKept(name, errors.New("it is none of run, scorecard, compare, gate and promote recommend"))
}

// describeKept finds which attempts a kept answer is about, the one of a run or
// gate first, and what of the ledger it was made from; nil if it does not say.
func describeKept(kind, name string, data []byte) (*scorecard.LedgerLine, []string, error) {
	type id struct {
		ID string `json:"id"`
	}
	var doc struct {
		A, B     id
		Attempt  json.RawMessage       `json:"attempt"`
		Attempts []id                  `json:"attempts"`
		Ledger   *scorecard.LedgerLine `json:"ledger"`
		Card     *struct {
			Ledger *scorecard.LedgerLine `json:"ledger"`
		} `json:"scorecard"`
		Comparison *struct{ A, B id } `json:"comparison"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, scorecard.NotKept(name, err)
	}
	var one id
	var err error
	switch {
	case doc.Attempt == nil: // of a run or gate none is named then
	case kind == keptRun:
		err = json.Unmarshal(doc.Attempt, &one)
	case kind == keptGate:
		err = json.Unmarshal(doc.Attempt, &one.ID)
	}
	if err != nil {
		return nil, nil, scorecard.NotKept(name+": attempt", err)
	}
	ids := []string{one.ID, doc.A.ID, doc.B.ID}
	for _, a := range doc.Attempts {
		ids = append(ids, a.ID)
	}
	if c := doc.Comparison; c != nil {
		ids = append(ids, c.A.ID, c.B.ID)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return nil, nil, scorecard.NotKept(name, errors.New("it names no attempt"))
	}
	if doc.Ledger == nil && doc.Card != nil {
		return doc.Card.Ledger, ids, nil
	}
	return doc.Ledger, ids, nil
}

// wrongLedger compares what a kept answer says about the ledger with the ledger:
// an answer from another one, or from one that was longer, tells nothing here.
func (r *recomputer) wrongLedger(name string, line *scorecard.LedgerLine) *scorecard.Difference {
	h := r.past.history
	found := fmt.Sprintf("%s with %d entries", h.Origin, h.Entries)
	said := fmt.Sprintf("%s with %d entries, head %s", line.Origin, line.Entries, line.Head)
	if line.Origin == h.Origin && line.Entries >= 1 && line.Entries <= h.Entries {
		head := r.seen.heads[line.Entries-1]
		if head == line.Head {
			return nil
		}
		found = fmt.Sprintf("%s, which had the head %s then", h.Origin, head)
	}
	return &scorecard.Difference{Where: name, Field: "ledger", Written: said, Computed: found}
}

// asOf reads the past as it was when the ledger had so many entries. Only the
// last one is remembered: each may be as large as the ledger.
func (r *recomputer) asOf(entries int64) (*pastReading, error) {
	if entries == r.past.history.Entries {
		return r.past, nil
	}
	if r.then != nil && r.then.history.Entries == entries {
		return r.then, nil
	}
	var err error
	r.then = nil
	r.then, err = r.env.readPastUntil(entries, nil)
	return r.then, err
}

// other counts what the package scorecard knows nothing of.
func (r *recomputer) other(past *pastReading, ids []string) func(string, canon.RawMessage) (any, bool, string, error) {
	return func(field string, written canon.RawMessage) (any, bool, string, error) {
		switch field {
		case "head":
			var head digest.ID
			if json.Unmarshal(written, &head) == nil && slices.Contains(r.seen.heads, head) {
				return head, true, "", nil
			}
			return "no entry has it", true, "", nil
		case "failed_cases":
			var attempts []*scorecard.Attempt
			for _, id := range ids {
				if a := past.history.Attempt(id); a != nil {
					attempts = append(attempts, a)
				}
			}
			return failedCases(attempts), true, "", nil
		case "gate":
			results, why, err := r.gates(past, ids[0])
			if results == nil || err != nil {
				return nil, false, why, err
			}
			return runGates{gate.Met(results), results}, true, "", nil
		}
		return nil, false, "", nil
	}
}

// gates evaluates the gates of an attempt again. They are nil, with a reason, if
// the bench at hand is not the one that the attempt was held against.
func (r *recomputer) gates(past *pastReading, id string) ([]gate.Result, string, error) {
	a := past.history.Attempt(id)
	if a == nil {
		return nil, "there is no such attempt", nil
	}
	v, err := r.bench(a.Class)
	if err != nil {
		return nil, "the bench does not verify: " + err.Error(), nil
	}
	results, err := gate.Evaluate(gate.Input{Bench: v, History: past.history, Attempt: a, Evidence: past.evidence})
	if refusal.Is(err, refusal.BenchChanged) {
		return nil, err.Error(), nil
	}
	return append([]gate.Result{}, results...), "", err
}

// gate counts a kept answer of "tally gate" again.
func (r *recomputer) gate(past *pastReading, name string, data []byte, ids []string) (*scorecard.Recomputed, error) {
	out := &scorecard.Recomputed{Differences: []scorecard.Difference{}, Unchecked: []string{}}
	results, why, err := r.gates(past, ids[0])
	if err != nil {
		return nil, err
	}
	if results == nil {
		out.Unchecked = append(out.Unchecked, name+": "+why)
		return out, nil
	}
	a := past.history.Attempt(ids[0])
	var kept struct {
		Level scorecard.Level `json:"level"`
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, scorecard.NotKept(name, err)
	}
	// The level may have risen since; origin and head were compared before.
	return out, out.Document(name, data, map[string]any{"met": gate.Met(results), "gates": results, "attempt": a.ID, "class": a.Class, "level": min(kept.Level, a.Level)}, "ledger")
}

// bench verifies the bench of a class, once.
func (r *recomputer) bench(class string) (*bench.Verified, error) {
	if known, ok := r.by[class]; ok {
		return known.bench, known.err
	}
	var v *bench.Verified
	p, err := r.env.openCorpus()
	if err == nil {
		v, err = p.Bench(class)
		p.Root.Close()
	}
	r.by[class] = benchOrWhy{v, err}
	return v, err
}
