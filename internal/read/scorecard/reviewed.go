package scorecard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/agreement"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
)

// A ReviewedRow is a task that people looked at, and what each said last. It
// stands beside the score and changes nothing of it.
type ReviewedRow struct {
	Attempt string       `json:"attempt"`
	CaseID  string       `json:"case_id"`
	Repeat  int          `json:"repeat"`
	Entry   int64        `json:"entry"` // the record
	Labels  []GivenLabel `json:"labels"`
}

// A GivenLabel is the last word of one person about a task.
type GivenLabel struct {
	By    string   `json:"by"`
	Label string   `json:"label"`
	Score *float64 `json:"score,omitempty"`
	Blind bool     `json:"blind"`
	Note  string   `json:"note,omitempty"`
	Index int64    `json:"entry"` // of the label
	// OwnRunner says that the person ran the attempt.
	OwnRunner bool `json:"own_runner,omitempty"`

	question string
}

// Text says who said what in one line, as "2 people: pass, fail".
func (c ReviewedRow) Text() string {
	var words []string
	for _, l := range c.Labels {
		words = append(words, l.Label)
	}
	people := "1 person"
	if len(words) != 1 {
		people = fmt.Sprint(len(words)) + " people"
	}
	return fmt.Sprintf("%s of %s: %s: %s", c.CaseID, c.Attempt, people, strings.Join(words, ", "))
}

// ReviewedCases lists the tasks of attempts that people labelled, by name; nil if there are none.
func ReviewedCases(h *history.History, attempts ...*history.Attempt) []ReviewedRow {
	var out []ReviewedRow
	for _, a := range attempts {
		at := map[int64]int{}
		first := len(out)
		for _, v := range h.Reviews(a) {
			if !v.Counts() {
				continue
			}
			i, ok := at[v.Entry]
			if !ok {
				i = len(out)
				at[v.Entry] = i
				out = append(out, ReviewedRow{Attempt: a.ID, CaseID: v.CaseID, Repeat: v.Repeat, Entry: v.Entry})
			}
			out[i].Labels = append(out[i].Labels, GivenLabel{v.By, v.Label, v.Score, v.Blind, v.Note, v.Index, v.OwnRunner, v.Question})
		}
		slices.SortFunc(out[first:], func(x, y ReviewedRow) int {
			return cmp.Or(cmp.Compare(x.CaseID, y.CaseID), cmp.Compare(x.Repeat, y.Repeat))
		})
	}
	return out
}

// withoutNotes leaves out what people wrote beside their labels: a note may quote a
// held-out case, and a card is handed round.
func withoutNotes(cases []ReviewedRow) []ReviewedRow {
	for _, c := range cases {
		for i := range c.Labels {
			c.Labels[i].Note = ""
		}
	}
	return cases
}

// A ReviewReport says how far people got with an attempt, and how far they agree
// with each other and with the automatic score.
type ReviewReport struct {
	Attempt  string   `json:"attempt"`
	Class    string   `json:"class"`
	Question string   `json:"question"`
	Labels   []string `json:"labels"` // in the order of their scale

	Records   int              `json:"records"`  // that can be labelled
	Labelled  int              `json:"labelled"` // of these, by a reviewer
	ByTwo     int              `json:"by_two"`   // of these, by two or more
	Reviewers []ReviewerLine   `json:"reviewers"`
	Pairs     []ReviewPair     `json:"pairs"`
	Automatic []AgainstMachine `json:"automatic"`

	Disagreements []ReviewedRow `json:"disagreements"`

	Superseded int             `json:"superseded"`      // labels that their person replaced
	Otherwise  int             `json:"asked_otherwise"` // labels given to another question, or not of this scale
	Refused    []RefusedReview `json:"refused"`         // entries that do not count
	Ledger     history.Line    `json:"ledger"`
}

// A ReviewerLine is what one person did.
type ReviewerLine struct {
	By        string `json:"by"`
	Labels    int    `json:"labels"`
	Blind     int    `json:"blind"` // of these
	OwnRunner bool   `json:"own_runner,omitempty"`
}

// A RefusedReview is an entry that is not a reviewer's label.
type RefusedReview struct {
	Index int64  `json:"entry"`
	Why   string `json:"why"`
}

// A ReviewPair says how far two people agree about what both labelled.
type ReviewPair struct {
	First  string `json:"first"`
	Second string `json:"second"`
	Agreed
}

// Agreed is a table and its measures. A kappa is nil where it is not defined, and
// weighted ones are left out for two labels, where they are the same.
type Agreed struct {
	Table     *agreement.Table `json:"table"`
	Rate      float64          `json:"rate"`
	Kappa     *agreement.Kappa `json:"kappa"`
	Linear    *agreement.Kappa `json:"kappa_linear,omitempty"`
	Quadratic *agreement.Kappa `json:"kappa_quadratic,omitempty"`
}

// AgainstMachine compares a person with the automatic outcome: a label worth half
// or more is a pass.
type AgainstMachine struct {
	By string `json:"by"`
	Agreed
	Unscored int `json:"unscored"` // labelled tasks that have no automatic score
}

// A ReviewScale is what people were asked, and how much each label is worth.
type ReviewScale struct {
	Question string
	Labels   []string
	Worth    func(label string) (float64, bool)
}

// machineLabels are the two outcomes that a label is compared with.
var machineLabels = []string{string(evidence.Passed), string(evidence.Failed)}

// ReviewsOf reports on the labels of an attempt.
func ReviewsOf(h *history.History, a *history.Attempt, scale ReviewScale) (*ReviewReport, error) {
	r := &ReviewReport{Attempt: a.ID, Class: a.Class, Question: scale.Question, Labels: scale.Labels, Reviewers: []ReviewerLine{}, Pairs: []ReviewPair{},
		Automatic: []AgainstMachine{}, Disagreements: []ReviewedRow{}, Refused: []RefusedReview{}, Ledger: h.Line()}
	outcomes := map[int64]evidence.Outcome{}
	for c := range a.Cases() {
		if c.Index >= 0 {
			r.Records++
			outcomes[c.Index] = c.Uncorrected()
		}
	}
	for _, v := range h.Reviews(a) {
		switch {
		case v.Problem != "":
			r.Refused = append(r.Refused, RefusedReview{v.Index, v.Problem})
		case v.Superseded:
			r.Superseded++
		}
	}
	cases := r.ofThisScale(ReviewedCases(h, a), scale)
	r.Labelled = len(cases)
	for _, c := range cases {
		if len(c.Labels) > 1 {
			r.ByTwo++
		}
		if slices.ContainsFunc(c.Labels, func(l GivenLabel) bool { return l.Label != c.Labels[0].Label }) {
			r.Disagreements = append(r.Disagreements, c)
		}
	}
	names := reviewersOf(cases)
	for i, name := range names {
		r.Reviewers = append(r.Reviewers, lineOf(name, cases))
		against, err := againstMachine(name, cases, outcomes, scale)
		if err != nil {
			return nil, err
		}
		r.Automatic = append(r.Automatic, against)
		for _, other := range names[i+1:] {
			pair, err := twoPeople(name, other, cases, scale.Labels)
			if err != nil {
				return nil, err
			}
			r.Pairs = append(r.Pairs, pair)
		}
	}
	return r, nil
}

// ofThisScale leaves out and counts the labels that answer another question.
func (r *ReviewReport) ofThisScale(cases []ReviewedRow, scale ReviewScale) []ReviewedRow {
	var out []ReviewedRow
	for _, c := range cases {
		kept := slices.DeleteFunc(slices.Clone(c.Labels), func(l GivenLabel) bool {
			_, known := scale.Worth(l.Label)
			return l.question != scale.Question || !known
		})
		r.Otherwise += len(c.Labels) - len(kept)
		if c.Labels = kept; len(kept) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func reviewersOf(cases []ReviewedRow) []string {
	seen := map[string]bool{}
	var names []string
	for _, c := range cases {
		for _, l := range c.Labels {
			if !seen[l.By] {
				seen[l.By] = true
				names = append(names, l.By)
			}
		}
	}
	slices.Sort(names)
	return names
}

// by is what one person said about a task.
func (c *ReviewedRow) by(name string) (GivenLabel, bool) {
	i := slices.IndexFunc(c.Labels, func(l GivenLabel) bool { return l.By == name })
	if i < 0 {
		return GivenLabel{}, false
	}
	return c.Labels[i], true
}

func lineOf(name string, cases []ReviewedRow) ReviewerLine {
	line := ReviewerLine{By: name}
	for _, c := range cases {
		if l, ok := c.by(name); ok {
			line.Labels++
			line.OwnRunner = l.OwnRunner
			if l.Blind {
				line.Blind++
			}
		}
	}
	return line
}

func twoPeople(first, second string, cases []ReviewedRow, labels []string) (ReviewPair, error) {
	var pairs []agreement.Pair
	for _, c := range cases {
		x, ok := c.by(first)
		y, both := c.by(second)
		if ok && both {
			pairs = append(pairs, agreement.Pair{First: x.Label, Second: y.Label})
		}
	}
	agreed, err := measure(labels, pairs)
	return ReviewPair{first, second, agreed}, err
}

func againstMachine(name string, cases []ReviewedRow, outcomes map[int64]evidence.Outcome, scale ReviewScale) (AgainstMachine, error) {
	out := AgainstMachine{By: name}
	var pairs []agreement.Pair
	for _, c := range cases {
		l, ok := c.by(name)
		if !ok {
			continue
		}
		said := string(evidence.Failed)
		if worth, _ := scale.Worth(l.Label); worth >= 0.5 {
			said = string(evidence.Passed)
		}
		switch o := outcomes[c.Entry]; o {
		case evidence.Passed, evidence.Failed:
			pairs = append(pairs, agreement.Pair{First: said, Second: string(o)})
		default:
			out.Unscored++
		}
	}
	var err error
	out.Agreed, err = measure(machineLabels, pairs)
	return out, err
}

func measure(labels []string, pairs []agreement.Pair) (Agreed, error) {
	t, err := agreement.NewTable(labels, pairs)
	if err != nil {
		return Agreed{}, err
	}
	a := Agreed{Table: t, Rate: t.Rate(), Kappa: kappaOf(t, agreement.Unweighted)}
	if len(labels) > 2 {
		a.Linear, a.Quadratic = kappaOf(t, agreement.Linear), kappaOf(t, agreement.Quadratic)
	}
	return a, nil
}

func kappaOf(t *agreement.Table, w agreement.Weights) *agreement.Kappa {
	k, ok := t.Kappa(w)
	if !ok {
		return nil
	}
	return &k
}
