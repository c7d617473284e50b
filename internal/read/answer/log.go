package answer

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/read/conversation"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/journal"
)

// A Logged is one attempt at a glance.
type Logged struct {
	ID        string           `json:"id"`
	Class     string           `json:"class"`
	Target    string           `json:"target"`
	Number    int              `json:"number"`
	Of        int              `json:"of"`
	Mode      string           `json:"mode"`
	Level     history.Level    `json:"level"`
	StartedAt evidence.Time    `json:"started_at"`
	Finished  bool             `json:"finished"`
	Filtered  bool             `json:"filtered"`
	Reduce    evidence.Reducer `json:"reduce,omitempty"`
	Retries   string           `json:"retries,omitempty"` // the attempt whose errors it runs again
	Total     int              `json:"total"`
	Passed    int              `json:"passed"`
	Failed    int              `json:"failed"`
	Errors    int              `json:"errors"`
	Unscored  int              `json:"unscored"`
	Truncated int              `json:"truncated"`
	Skipped   int              `json:"skipped"`
	NotRun    int              `json:"not_run"`
	// Unanswered are those of the errors and the unscored that ask something new, which
	// is not recorded. Then the attempt has no score.
	Unanswered int `json:"unanswered,omitempty"`
	Priced         // of the scored executions
	// Paid is what a live attempt cost in all; before its end as far as its
	// journal is here and intact.
	Paid *history.Paid `json:"paid,omitempty"`

	// Qualifications are what must be known beside these numbers.
	Qualifications []history.Qualification `json:"qualifications,omitempty"`
	// Corrected are the scores that stand beside recorded ones, and PassedAsCorrected
	// how many passed with those that count; the numbers above are as recorded.
	Corrected         []scorecard.CorrectedRow `json:"corrected,omitempty"`
	PassedAsCorrected *int                     `json:"passed_as_corrected,omitempty"`
	// Decision is what the gates say, as "tally run" and "tally gate" have it; GateMet is
	// nil where it is not decided.
	Decision *gate.Decision `json:"decision"`
	GateMet  *bool          `json:"gate_met"`
	Problems []string       `json:"problems"` // with its records

	// Name and Note are what people call it; they decide nothing.
	Name string `json:"name,omitempty"`
	Note string `json:"note,omitempty"`
}

// LogOptions choose what is listed. Empty means all.
type LogOptions struct{ Class, Target string }

// Log lists attempts, the newest first.
func Log(r *dossier.Reading, o LogOptions) ([]Logged, error) {
	out := []Logged{}
	for _, a := range slices.Backward(r.History.Attempts) {
		if o.Class != "" && a.Class != o.Class || o.Target != "" && a.Target != o.Target {
			continue
		}
		l, err := logged(r.Dossier(a), gate.Of)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return out, nothingLogged(r, o)
	}
	return out, nil
}

// nothingLogged tells an unknown name from a ledger that is still empty.
func nothingLogged(r *dossier.Reading, o LogOptions) error {
	var classes, targets []string
	for _, a := range r.History.Attempts {
		classes, targets = append(classes, a.Class), append(targets, a.Target)
	}
	if err := unknownAmong("class", o.Class, classes); err != nil {
		return err
	}
	return unknownAmong("target", o.Target, targets)
}

// MaxGlance is how many tasks an attempt may have whose evidence is looked at for
// display.
const MaxGlance = 2000

// Glance is an attempt at a glance, as [Log] has it, for display.
func Glance(d *dossier.Display, a *history.Attempt) (Logged, error) {
	return logged(d.Reading().Dossier(a), func(*dossier.Dossier) (*gate.Decision, error) { return gate.Preview(d, a, MaxGlance) })
}

// unknownAmong refuses a name that no attempt has, and suggests one that some
// attempt has.
func unknownAmong(what, name string, known []string) error {
	if name == "" || len(known) == 0 || slices.Contains(known, name) {
		return nil
	}
	slices.Sort(known)
	known = slices.Compact(known)
	return refusal.Newf(refusal.UnknownName, "no attempt of the %s %q", what, name).
		Suggest(name, known, "there are attempts of %s", listed(known))
}

// logged counts what became of an attempt.
func logged(a *dossier.Dossier, decide func(*dossier.Dossier) (*gate.Decision, error)) (Logged, error) {
	l := Logged{ID: a.ID, Class: a.Class, Target: a.Target, Number: a.Ordinal, Of: a.Siblings, Mode: a.Mode, Level: a.Level, StartedAt: a.Time,
		Finished: a.Finished != nil, Filtered: a.Plan.Filtered, Reduce: a.Plan.Reduce, Retries: a.Plan.Retries, Total: a.Tasks(), NotRun: a.Unlisted(), Unanswered: a.Unanswered(), Problems: append([]string{}, a.Problems...), Name: a.Attempt.Name, Note: a.Attempt.Note}
	corrected := 0
	for c := range a.Cases() {
		l.count(c.Outcome())
		if c.Passed() {
			corrected++
		}
		rows, err := besideRows(c)
		if err != nil {
			return l, err
		}
		l.Corrected = append(l.Corrected, rows...)
		l.Priced = priced(l.Cost.Plus(c.Cost))
	}
	if l.Corrected != nil {
		l.PassedAsCorrected = &corrected
	}
	l.Paid, l.Qualifications = paidSoFar(a), history.Qualify(a.Attempt)
	var err error
	if l.Decision, err = decide(a); err == nil && !l.Decision.Undecided {
		l.GateMet = &l.Decision.Met
	}
	return l, err
}

// besideRows are what stands beside the record of a case, without what a reason would
// tell of a held-out one.
func besideRows(c *dossier.Case) ([]scorecard.CorrectedRow, error) {
	rows := c.Corrections(c.Dossier().ID)
	if rows == nil {
		return nil, nil
	}
	w, err := c.Hider()
	for i := range rows {
		rows[i].Reason = w.Text(rows[i].Reason)
	}
	return rows, err
}

// paidSoFar asks the journal where no record says it yet.
func paidSoFar(a *dossier.Dossier) *history.Paid {
	if a.Finished != nil {
		return history.PaidBy(a.Attempt)
	}
	r := a.Reading()
	paid, err := journal.Verify(store.OS{}, filepath.Join(r.RunsDir(), a.ID), journal.Owner{Attempt: a.ID, Origin: r.History.Origin})
	if err != nil {
		return nil
	}
	return history.PaidOf(&paid)
}

func (l *Logged) count(o evidence.Outcome) {
	switch o {
	case evidence.Passed:
		l.Passed++
	case evidence.Failed:
		l.Failed++
	case evidence.Skipped:
		l.Skipped++
	case evidence.Unscored:
		l.Unscored++
	case evidence.Truncated:
		l.Truncated++
	case history.NotRun:
		l.NotRun++
	default:
		l.Errors++
	}
}

// A ShownRow is one repetition of a case in the list of an attempt.
type ShownRow struct {
	Case    string           `json:"case"`
	Repeat  int              `json:"repeat"`
	Outcome evidence.Outcome `json:"outcome"`
	// Unanswered says that it has no score because it asks something new.
	Unanswered bool     `json:"unanswered,omitempty"`
	Score      *float64 `json:"score"`
	Reason     string   `json:"reason,omitempty"`
	Modes      []string `json:"failure_modes,omitempty"`
	Turns      int      `json:"turns"`
	LatencyMS  int64    `json:"latency_ms"`
	Priced
	Entry *int64 `json:"entry"` // null if there is no record
	// Corrected is what stands beside the recorded outcome and score.
	Corrected []history.Beside `json:"corrected,omitempty"`
}

// A Listing is an attempt with its cases, those that did not pass first.
type Listing struct {
	Logged
	// Endpoints are who answered the models' calls, as the operator's machine saw it.
	Endpoints []evidence.EndpointUse `json:"endpoints,omitempty"`
	Cases     []ShownRow             `json:"cases"`
}

// ShowAttempt gathers what there is to see of an attempt. It needs
// [dossier.Ask].Again.
func ShowAttempt(a *dossier.Dossier) (*Listing, error) {
	l, err := logged(a, gate.Of)
	if err != nil {
		return nil, err
	}
	cases, err := ShowCases(a, a.Attempt.Cases())
	if err != nil {
		return nil, err
	}
	out := &Listing{Logged: l, Endpoints: a.Reading().History.EndpointsOf(a.Attempt), Cases: cases}
	passed := slices.DeleteFunc(slices.Clone(out.Cases), func(c ShownRow) bool { return c.Outcome != evidence.Passed })
	failed := slices.DeleteFunc(out.Cases, func(c ShownRow) bool { return c.Outcome == evidence.Passed })
	out.Cases = append(failed, passed...)
	return out, nil
}

// ShowCases are some cases of an attempt in the list of it, in their order. It
// needs [dossier.Ask].Again.
func ShowCases(a *dossier.Dossier, cases iter.Seq[*history.Case]) ([]ShownRow, error) {
	records, err := a.Reading().Records(cases)
	if err != nil {
		return nil, err
	}
	out := []ShownRow{}
	for c := range cases {
		m := c.On(history.AsRecorded)
		s := ShownRow{Case: c.ID, Repeat: int(c.Repeat), Outcome: m.Outcome, Unanswered: c.Unanswered(), Score: m.Value(), Modes: c.FailureModes(), Turns: int(c.Turns),
			LatencyMS: c.LatencyMS, Priced: priced(c.Cost), Corrected: c.Beside()}
		if record := records[c.Index]; record != nil {
			w, err := a.Case(c).Hider()
			if err != nil {
				return nil, err
			}
			s.Reason, s.Entry = w.Text(record.Reason), &c.Index
			for i := range s.Corrected {
				s.Corrected[i].Reason = w.Text(s.Corrected[i].Reason)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// A ShownStep is one event of a trajectory in few words.
type ShownStep struct {
	Seq  int    `json:"seq"`
	Turn int    `json:"turn"`
	Type string `json:"type"`
	Text string `json:"text"`
}

// A ShownRun is one case of an attempt: why it ended as it did, and every step.
type ShownRun struct {
	*Why
	Class  string   `json:"class"`
	Target string   `json:"target"`
	Score  *float64 `json:"score"`
	Turns  int      `json:"turns"`
	Priced
	// Paid is what all executions of the case cost, if it was live; Resumed how
	// often the one of the record was resumed from its journal.
	Paid    *history.Paid `json:"paid,omitempty"`
	Resumed int           `json:"resumed,omitempty"`
	// Worker is who drove the case, if a fleet ran the attempt.
	Worker *evidence.Worker `json:"worker,omitempty"`
	Steps  []ShownStep      `json:"steps"`

	// Conversation is what was said, for people; nil where the case is hidden or the
	// evidence is missing.
	Conversation *conversation.Conversation `json:"-"`
}

// ShowCase gathers what there is to see of one case. It needs what [WhyOf] needs. Steps are empty if the evidence is missing, and Missing says so.
func ShowCase(c *dossier.Case) (*ShownRun, error) {
	a := c.Dossier()
	why, err := WhyOf(c)
	if err != nil {
		return nil, err
	}
	s := &ShownRun{Why: why, Class: a.Class, Target: a.Target, Turns: int(c.Turns), Priced: priced(c.Cost), Score: c.On(history.AsRecorded).Value(), Steps: []ShownStep{}}
	record, err := c.Record()
	if err != nil {
		return nil, err
	}
	if record != nil {
		s.Paid, s.Resumed, s.Worker = history.PaidOf(record.Paid), record.Resumed, record.Worker
	}
	v, err := c.Trajectory()
	switch {
	case err != nil && refusal.ExitCode(err) == refusal.ExitUnverified:
		return nil, a.Reading().Refused(err)
	case err != nil:
		s.Missing = err.Error()
		return s, nil
	}
	w, err := c.Hider()
	if err != nil {
		return nil, err
	}
	for e := range v.Events() {
		s.Steps = append(s.Steps, ShownStep{e.Seq, e.Turn, string(e.Type), w.Text(e.Payload.Summary())})
	}
	if w == nil {
		s.Conversation = conversation.Of(v.Events(), conversation.Options{Whole: a.Reading().Content})
	}
	return s, nil
}

// dollarsOf is an amount, nil if it is not known.
func priced(c cost.Cost) Priced { return Priced{c, c.Dollars(), c.Unpriced} }

// Priced is a cost in an answer: in dollars, null if a record does not tell it, and how
// many calls are not in it.
type Priced struct {
	Cost     cost.Cost `json:"-"`
	CostUSD  *float64  `json:"cost_usd"`
	Unpriced int64     `json:"unpriced_calls,omitempty"`
}

// listed gives the first few of some names.
func listed(names []string) string {
	const few = 10
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
