package scorecard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
)

// NotKept refuses a document that has not the form of a kept answer.
func NotKept(where string, err error) error {
	why := err.Error()
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		why = "found a JSON " + kind.Value
		if kind.Field != "" {
			why += " at " + kind.Field
		}
	}
	return refusal.Newf(refusal.Malformed, "%s: no answer of this program: %s", where, why).
		WithHint("an answer is what a command prints with --json; what is none does not belong among them")
}

// RecomputeRun counts again what a kept answer of "tally run --json" says.
func RecomputeRun(h *History, name string, data []byte, o RecomputeOptions) (*Recomputed, error) {
	r := &Recomputed{Differences: []Difference{}, Unchecked: []string{}}
	var doc map[string]canon.RawMessage
	if err := canon.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var line struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(doc["attempt"], &line); err != nil {
		return nil, NotKept(name+": attempt", err)
	}
	a := h.Attempt(line.ID)
	if a == nil {
		r.compare(name, "attempt.id", line.ID, "no such attempt", false)
		return r, nil
	}
	s, err := sumOf(a)
	if err != nil {
		return nil, err
	}
	if string(doc["finished"]) == "false" && a.Finished != nil {
		r.Unchecked = append(r.Unchecked, name+": written before the attempt had finished")
		return r, nil
	}
	if string(doc["scorecard"]) == "null" {
		delete(doc, "scorecard")
	}
	want := map[string]any{
		"class": a.Class, "target": a.Target, "total": a.Tasks(), "finished": a.Finished != nil,
		"passed": s.outcomes[evidence.Passed], "failed": s.outcomes[evidence.Failed], "skipped": s.outcomes[evidence.Skipped],
		"unscored": s.outcomes[evidence.Unscored], "truncated": s.outcomes[evidence.Truncated], "errors": s.outcomes[evidence.Errored],
		"mean_score": s.mean, "failure_modes": s.modes, "cost_usd": float64(s.cost) / 1e6, "isolation_class": s.isolation,
	}
	for _, field := range slices.Sorted(maps.Keys(want)) {
		if doc[field] == nil {
			r.compare(name, field, "nothing", want[field], false)
		}
	}
	entries, err := entriesIn(doc["scorecard"], h)
	if err != nil {
		return nil, NotKept(name+": scorecard", err)
	}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		switch computed, known := want[field]; {
		case field == "scorecard":
			err = r.card(name+": scorecard", doc[field], h, []*Attempt{a}, o)
		case field == "comparison":
			err = r.comparison(name+": comparison", doc[field], h, entries, o)
		case field == "attempt":
			err = r.attemptLine(name, doc[field], a)
		case known:
			err = r.value(name, field, doc[field], computed)
		default:
			err = r.other(name, field, doc[field], o)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Document compares the members of a kept JSON object with those counted now. What
// is not among these is named as not checked, unless it is to be skipped.
func (r *Recomputed) Document(where string, data []byte, computed map[string]any, skip ...string) error {
	var doc map[string]canon.RawMessage
	if err := canon.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		now, known := computed[field]
		switch {
		case slices.Contains(skip, field):
		case known:
			if err := r.value(where, field, doc[field], now); err != nil {
				return err
			}
		default:
			r.Unchecked = append(r.Unchecked, where+": "+field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(computed)) {
		if doc[field] == nil {
			r.compare(where, field, "nothing", computed[field], false)
		}
	}
	return nil
}

// other compares a field that this package knows nothing of.
func (r *Recomputed) other(where, field string, written canon.RawMessage, o RecomputeOptions) error {
	why := ""
	if o.Other != nil {
		computed, known, reason, err := o.Other(field, written)
		if err != nil {
			return err
		}
		if known {
			return r.value(where, field, written, computed)
		}
		why = reason
	}
	if why != "" {
		why = ": " + why
	}
	r.Unchecked = append(r.Unchecked, where+": "+field+why)
	return nil
}

// card compares a kept scorecard with the one counted now. One for which nobody
// looked at the evidence is counted without it too.
func (r *Recomputed) card(where string, data canon.RawMessage, h *History, attempts []*Attempt, o RecomputeOptions) error {
	var kept struct {
		Checked *bool `json:"evidence_checked"`
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return NotKept(where, err)
	}
	v := View{Attempts: attempts, Evidence: o.Evidence}
	if kept.Checked != nil && !*kept.Checked {
		v.Evidence = nil
	}
	card, err := Of(h, v)
	if err != nil {
		return err
	}
	return r.document(where, data, h, card, o)
}

// attemptLine compares {"id","number","level"}. A level may have risen since,
// and never is higher than what the ledger gives now.
func (r *Recomputed) attemptLine(where string, data canon.RawMessage, a *Attempt) error {
	var line struct {
		ID     string `json:"id"`
		Number int    `json:"number"`
		Level  Level  `json:"level"`
	}
	if err := json.Unmarshal(data, &line); err != nil {
		return NotKept(where+": attempt", err)
	}
	r.compare(where, "attempt.id", line.ID, a.ID, line.ID == a.ID)
	r.compare(where, "attempt.number", line.Number, a.Ordinal, line.Number == a.Ordinal)
	r.compare(where, "attempt.level", line.Level, a.Level, line.Level <= a.Level)
	return nil
}

// entriesIn finds how many entries the ledger had when a kept card or comparison
// was made; as many as it has now if that does not say.
func entriesIn(data canon.RawMessage, h *History) (int64, error) {
	var kept struct {
		Ledger *LedgerLine `json:"ledger"`
	}
	if data == nil {
		return h.Entries, nil
	}
	if err := json.Unmarshal(data, &kept); err != nil || kept.Ledger == nil {
		return h.Entries, err
	}
	return kept.Ledger.Entries, nil
}

// document compares the fields of a kept card with the one counted now. One that
// is not there any more is a difference: somebody left out what a reader should
// have seen.
func (r *Recomputed) document(where string, data canon.RawMessage, h *History, card *Card, o RecomputeOptions) error {
	entries, err := entriesIn(data, h)
	if err != nil {
		return NotKept(where+": ledger", err)
	}
	doc, now, err := bothMembers(where, data, card)
	if err != nil {
		return err
	}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		written, known := doc[field], now[field] != nil
		switch {
		case field == "level":
			err = r.level(where, written, card.Level)
		case field == "attempts":
			err = r.attempts(where, field, written, h, entries, lines(card.Attempts))
		case field == "other_attempts":
			err = r.attempts(where, field, written, h, entries, before(card.Siblings, entries))
		case field == "ledger":
			err = r.ledgerLine(where, written, h)
		case field == "evidence_checked": // it says how the card was counted
		case !known:
			err = r.other(where, field, written, o)
		case field == "evidence_missing":
			err = r.missing(where, written, card.EvidenceMissing)
		case (field == "evidence_coverage" || field == "acceptance") && o.Evidence == nil && string(doc["evidence_checked"]) == "true":
			r.Unchecked = append(r.Unchecked, where+": "+field+", because the evidence was not read")
		default:
			err = r.value(where, field, written, now[field])
		}
		if err != nil {
			return err
		}
	}
	r.absent(where, doc, now)
	return nil
}

// bothMembers takes a kept object and what is counted now apart.
func bothMembers(where string, data canon.RawMessage, counted any) (doc, now map[string]canon.RawMessage, err error) {
	if err := canon.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", where, err)
	}
	fresh, err := json.Marshal(counted)
	if err != nil {
		return nil, nil, err
	}
	return doc, now, canon.Unmarshal(fresh, &now)
}

// absent names what is counted now and is not in a kept object.
func (r *Recomputed) absent(where string, doc, now map[string]canon.RawMessage) {
	for _, field := range slices.Sorted(maps.Keys(now)) {
		if doc[field] == nil {
			r.compare(where, field, "nothing", now[field], false)
		}
	}
}

// level compares a level. It may have risen since, and never is higher than what
// the ledger gives now.
func (r *Recomputed) level(where string, written canon.RawMessage, now Level) error {
	var level Level
	if err := json.Unmarshal(written, &level); err != nil {
		return NotKept(where+": level", err)
	}
	r.compare(where, "level", level, now, level <= now)
	return nil
}

// ledgerLine compares what a kept answer says was read, but for the head, which
// the caller compares with the entry of then.
func (r *Recomputed) ledgerLine(where string, written canon.RawMessage, h *History) error {
	var line LedgerLine
	if err := json.Unmarshal(written, &line); err != nil {
		return NotKept(where+": ledger", err)
	}
	r.compare(where, "ledger.manual_entries", line.Manual, h.Manual, line.Manual == h.Manual)
	r.compare(where, "ledger.orphan_records", line.Orphans, h.Orphans, line.Orphans == h.Orphans)
	return nil
}

// missing compares which solved tasks had no evidence. Why not may be told in
// other words.
func (r *Recomputed) missing(where string, written canon.RawMessage, now []MissingEvidence) error {
	var kept []MissingEvidence
	if err := json.Unmarshal(written, &kept); err != nil {
		return NotKept(where+": evidence_missing", err)
	}
	same := slices.EqualFunc(kept, now, func(a, b MissingEvidence) bool {
		a.Reason, b.Reason = "", ""
		return a == b
	})
	r.compare(where, "evidence_missing", kept, now, same)
	return nil
}

// lines are the ids of attempts.
func lines(all []AttemptLine) []string {
	ids := []string{}
	for _, l := range all {
		ids = append(ids, l.ID)
	}
	return ids
}

// before are the ids of those that were registered when the ledger had so many
// entries.
func before(all []AttemptLine, entries int64) []string {
	return lines(slices.DeleteFunc(slices.Clone(all), func(l AttemptLine) bool { return l.Entry >= entries }))
}

// attempts compares a list of attempts, of which those must be there that were
// expected, with what the ledger says about each. That it is "number 1 of 1" is
// as much a claim as how many it solved.
func (r *Recomputed) attempts(where, field string, written canon.RawMessage, h *History, entries int64, expected []string) error {
	var kept []canon.RawMessage
	if err := json.Unmarshal(written, &kept); err != nil {
		return NotKept(where+": "+field, err)
	}
	ids := []string{}
	of := countedAt(h, entries)
	for _, data := range kept {
		id, err := r.line(where+": "+field, data, h, of, field == "attempts")
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	r.compare(where, field, ids, expected, slices.Equal(ids, expected))
	return nil
}

// An attemptCount is how many attempts there were at some time.
type attemptCount struct {
	entries int64
	kinds   map[[2]string]int // by class and target
	plans   map[digest.Content]int
}

func countedAt(h *History, entries int64) attemptCount {
	n := attemptCount{entries, make(map[[2]string]int), make(map[digest.Content]int)}
	for _, a := range h.Attempts {
		if a.Index < entries {
			n.kinds[[2]string{a.Class, a.Target}], n.plans[a.PlanID] = a.Ordinal, a.PlanOrdinal
		}
	}
	return n
}

// line compares what a kept answer says about one attempt. Of an attempt whose
// records were not read, nobody knew what is wrong with them.
func (r *Recomputed) line(where string, data canon.RawMessage, h *History, of attemptCount, read bool) (id string, err error) {
	var kept AttemptLine
	if err := json.Unmarshal(data, &kept); err != nil {
		return "", NotKept(where, err)
	}
	a := h.Attempt(kept.ID)
	if a == nil || a.Index >= of.entries {
		r.compare(where, "id", kept.ID, "no such attempt", false)
		return kept.ID, nil
	}
	now := lineOf(a)
	now.Of, now.PlanOf = of.kinds[[2]string{a.Class, a.Target}], of.plans[a.PlanID]
	now.Finished = a.Finished != nil && a.Finished.Index < of.entries
	if !read {
		now.Excluded, now.Problems = kept.Excluded, kept.Problems
		if n := max(0, a.Executions-a.Records); kept.Abandoned == n {
			now.Abandoned = n
		}
	}
	// Both may have risen since.
	now.Level, now.Witnessed = min(now.Level, kept.Level), now.Witnessed && kept.Witnessed
	// Every card lists all other attempts of its day, so there are many of these.
	if !read && reflect.DeepEqual(kept, now) {
		r.Checked++
		return kept.ID, nil
	}
	var computed map[string]any
	fresh, err := json.Marshal(now)
	if err == nil {
		err = json.Unmarshal(fresh, &computed)
	}
	if err != nil {
		return "", err
	}
	return kept.ID, r.Document(fmt.Sprintf("%s: %s", where, a.ID), data, computed)
}

// value compares a kept JSON value with a computed one. Numbers are compared
// as numbers, whatever their spelling.
func (r *Recomputed) value(where, field string, written canon.RawMessage, computed any) error {
	fresh, err := json.Marshal(computed)
	if err != nil {
		return err
	}
	var a, b any
	if err := json.Unmarshal(written, &a); err != nil {
		return NotKept(where+": "+field, err)
	}
	if err := json.Unmarshal(fresh, &b); err != nil {
		return err
	}
	r.compare(where, field, a, b, sameValue(a, b))
	return nil
}

func sameValue(a, b any) bool {
	switch x := a.(type) {
	case float64:
		y, ok := b.(float64)
		return ok && (x == y || nearly(x, y))
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameValue)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, sameValue)
	}
	return a == b
}

// AmendedSince reports whether a record of one of the attempts was amended when
// the ledger already had so many entries. An answer from before is counted
// again with the history of then; see [Options.Until].
func AmendedSince(h *History, entries int64, ids ...string) bool {
	for _, id := range ids {
		a := h.Attempt(id)
		if a == nil {
			continue
		}
		for c := range a.Cases() {
			if c.Amendment != nil && c.Amendment.Index >= entries {
				return true
			}
		}
	}
	return false
}

// RecomputeCard counts again what a kept scorecard, as "tally scorecard --json"
// prints it, says about its attempts.
func RecomputeCard(h *History, name string, data []byte, o RecomputeOptions) (*Recomputed, error) {
	var ids struct {
		Attempts []struct {
			ID string `json:"id"`
		} `json:"attempts"`
	}
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, NotKept(name, err)
	}
	r := &Recomputed{Differences: []Difference{}, Unchecked: []string{}}
	var attempts []*Attempt
	for _, x := range ids.Attempts {
		a := h.Attempt(x.ID)
		if a == nil || slices.Contains(attempts, a) {
			r.compare(name, "attempts", x.ID, "no such attempt, or one that is named twice", false)
			return r, nil
		}
		attempts = append(attempts, a)
	}
	return r, r.card(name, data, h, attempts, o)
}

// RecomputeComparison counts again what a kept comparison, as "tally compare
// --json" prints it, says.
func RecomputeComparison(h *History, name string, data []byte, o RecomputeOptions) (*Recomputed, error) {
	r := &Recomputed{Differences: []Difference{}, Unchecked: []string{}}
	entries, err := entriesIn(data, h)
	if err != nil {
		return nil, NotKept(name+": ledger", err)
	}
	return r, r.comparison(name, data, h, entries, o)
}

func (r *Recomputed) comparison(name string, data canon.RawMessage, h *History, entries int64, o RecomputeOptions) error {
	var kept struct {
		A, B  struct{ ID string }
		Cases []CaseChange
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return NotKept(name, err)
	}
	a, b := h.Attempt(kept.A.ID), h.Attempt(kept.B.ID)
	if a == nil || b == nil || a == b {
		r.compare(name, "attempts", []string{kept.A.ID, kept.B.ID}, "no two such attempts", false)
		return nil
	}
	c, err := Compare(a, b, CompareOptions{AcrossBenches: true, AllCases: true})
	if refusal.Is(err, refusal.NotComparable) {
		r.compare(name, "paired", "some cases", err.Error(), false)
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.changes(name, kept.Cases, c, o); err != nil {
		return err
	}
	doc, now, err := bothMembers(name, data, c)
	if err != nil {
		return err
	}
	of := countedAt(h, entries)
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		switch written := doc[field]; {
		case field == "cases":
		case field == "a" || field == "b":
			_, err = r.line(name+": "+field, written, h, of, true)
		case field == "ledger":
			err = r.ledgerLine(name, written, h)
		case now[field] == nil:
			err = r.other(name, field, written, o)
		default:
			err = r.value(name, field, written, now[field])
		}
		if err != nil {
			return err
		}
	}
	r.absent(name, doc, now)
	return nil
}

// changes compares the cases of a kept comparison. It lists at least those that
// changed.
func (r *Recomputed) changes(name string, kept []CaseChange, now *Comparison, o RecomputeOptions) error {
	type key struct {
		id     string
		digest digest.Content
	}
	counted := make(map[key]*CaseChange, len(now.Cases))
	for i := range now.Cases {
		counted[key{now.Cases[i].CaseID, now.Cases[i].Digest}] = &now.Cases[i]
	}
	for _, x := range kept {
		where := fmt.Sprintf("%s: case %s", name, x.CaseID)
		c := counted[key{x.CaseID, x.Digest}]
		if c == nil {
			r.compare(where, "cases", x.CaseID, "no such pair, or one that is listed twice", false)
			continue
		}
		delete(counted, key{x.CaseID, x.Digest})
		r.compare(where, "change", x.Change, c.Change, x.Change == c.Change)
		r.compare(where, "a", x.A, c.A, sameNumbers(x.A, c.A))
		r.compare(where, "b", x.B, c.B, sameNumbers(x.B, c.B))
		if x.Divergence == "" || o.Divergence == nil {
			continue
		}
		d, err := o.Divergence(c.a, c.b)
		if err != nil && !refusal.Is(err, refusal.NotFound) {
			return err
		}
		r.compare(where, "divergence", x.Divergence, d, x.Divergence == d)
	}
	left := 0
	for _, c := range counted {
		if c.Change != Same {
			left++
		}
	}
	r.compare(name, "cases", "listed", fmt.Sprintf("%d cases that changed are not listed", left), left == 0)
	return nil
}

func sameNumbers(a, b Side) bool {
	score := (a.Score == nil) == (b.Score == nil) && (a.Score == nil || nearly(*a.Score, *b.Score))
	a.Score, b.Score = nil, nil
	return score && a == b
}
