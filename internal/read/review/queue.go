// Package review finds the cases of an attempt that people are to look at, shows
// them as a person sees them, and reports on what people said.
//
// What it shows is verified against the record first, so that no reviewer is asked about
// something else. Blind, it leaves out everything that another person or a program
// already thinks of a case. It signs and writes nothing: package ceremony does.
package review

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

// The choices of cases to look at.
const (
	All      = "all"
	Failing  = "failing"  // that did not pass
	Unscored = "unscored" // without an automatic score
	Disputed = "disputed" // whose judge's votes differ, or two people's labels
	Unsure   = "unsure"   // whose judge gave a score from 0.25 to 0.75
)

// Choices lists them.
func Choices() []string {
	return []string{All, Failing, Unscored, Disputed, Unsure}
}

// An Ask says which cases a reviewer is to look at.
type Ask struct {
	Name   string // an attempt, or a class for its newest attempt with records
	Only   string // one of the choices
	Sample int    // so many of them; 0 for all
	Seed   string // that the sample is drawn by
	Blind  bool
}

// A Queue is the cases of an attempt that a reviewer is to look at, in the
// order of the plan, or in that of the draw.
type Queue struct {
	Attempt *dossier.Dossier
	Scale   bench.Review
	Blind   bool
	Cases   []*dossier.Case
	HeldOut int // cases that are left out because they are held out

	only string // which cases were asked for
}

// A Item is one case as a person sees it, and where the answer goes. A line
// of an exported queue is one.
type Item struct {
	Attempt string         `json:"attempt"`
	Case    string         `json:"case"`
	Repeat  int            `json:"repeat"`
	Head    digest.ID      `json:"head"` // of the record
	Seen    digest.Content `json:"seen"` // the index of its evidence
	Blind   bool           `json:"blind"`

	Question string   `json:"question"`
	Labels   []string `json:"labels"`

	Asked   []string `json:"asked"`  // what the agent was told, turn by turn
	Answer  string   `json:"answer"` // its last
	Steps   []string `json:"steps"`  // what it did, in short
	Changed []string `json:"changed"`

	// Machine is left out of what is shown blind.
	Machine *Machine `json:"automatic,omitempty"`

	Label string `json:"label"` // for the person to fill in
	Note  string `json:"note"`
}

// A Machine is what others said about a case before.
type Machine struct {
	Outcome string   `json:"outcome"`
	Score   *float64 `json:"score"`
	// Corrected is what stands beside the recorded outcome and score.
	Corrected []history.Beside       `json:"corrected,omitempty"`
	Checks    []grade.Detail         `json:"checks"`
	People    []scorecard.GivenLabel `json:"people"`
}

// Bounds of what is shown of a case. What is left out is said.
const (
	maxShown = 64 << 10
	maxSteps = 200
)

// Open finds the cases to look at.
func Open(r *dossier.Reading, ask Ask) (*Queue, error) {
	a, err := attemptNamed(r, ask.Name)
	if err != nil {
		return nil, err
	}
	scale, err := scaleOf(r, a.Class)
	if err != nil {
		return nil, err
	}
	q := &Queue{Attempt: a, Scale: *scale, Blind: ask.Blind, only: ask.Only}
	if q.Blind && q.tells() {
		return nil, refusal.Newf(refusal.Usage, "a blind queue of cases that are %s would tell of each that it is", q.only).
			WithHint("look blind at all cases or at a sample of them, or look at these without --blind")
	}
	labels := map[int64][]scorecard.GivenLabel{}
	for _, c := range scorecard.ReviewedCases(r.History, a.Attempt) {
		labels[c.Entry] = c.Labels
	}
	for c := range a.Cases() {
		if c.Index < 0 {
			continue
		}
		wanted, err := chosen(ask.Only, c, labels[c.Index])
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		if held, err := c.IsHidden(); err != nil {
			return nil, err
		} else if held {
			q.HeldOut++
			continue
		}
		q.Cases = append(q.Cases, c)
	}
	if ask.Sample > 0 {
		q.Cases = drawn(q.Cases, ask.Sample, ask.Seed, a.ID)
	}
	return q, nil
}

// tells reports whether a case's being in the queue tells what the machine or other people
// said of it.
func (q *Queue) tells() bool { return q.only != "" && q.only != All }

// scaleOf is what people are asked about the cases of a class now.
func scaleOf(r *dossier.Reading, class string) (*bench.Review, error) {
	v, err := r.Bench(class)
	if err != nil {
		return nil, err
	}
	reg := v.Registration()
	scale := reg.ReviewOrDefault()
	return &scale, nil
}

// attemptNamed finds an attempt, or the newest of a class that has a record.
func attemptNamed(r *dossier.Reading, name string) (*dossier.Dossier, error) {
	if a := r.History.Attempt(name); a != nil {
		return r.Dossier(a), nil
	}
	for _, a := range slices.Backward(r.History.Attempts) {
		if a.Class == name && a.Records > 0 {
			return r.Dossier(a), nil
		}
	}
	return r.Attempt(name)
}

// chosen reports whether a case is one of those that were asked for.
func chosen(only string, c *dossier.Case, labels []scorecard.GivenLabel) (bool, error) {
	switch only {
	case "", All:
		return true, nil
	case Failing:
		return !c.Passed(), nil
	case Unscored:
		return !c.IsScored(), nil
	case Disputed:
		if slices.ContainsFunc(labels, func(l scorecard.GivenLabel) bool { return l.Label != labels[0].Label }) {
			return true, nil
		}
		return anyCheck(c, func(d *grade.Detail) bool {
			return len(d.Votes) > 1 && slices.Min(d.Votes) != slices.Max(d.Votes)
		})
	case Unsure:
		return anyCheck(c, func(d *grade.Detail) bool {
			return d.Grader == grade.ByJudge && d.Score != nil && *d.Score >= 0.25 && *d.Score <= 0.75
		})
	}
	return false, refusal.Newf(refusal.Usage, "cases to look at: found %q, expected one of %s", only, strings.Join(Choices(), ", "))
}

func anyCheck(c *dossier.Case, holds func(*grade.Detail) bool) (bool, error) {
	checks, err := c.Checks()
	if err != nil && !dossier.SpeaksOfEvidence(err) {
		return false, err
	}
	for i := range checks {
		if holds(&checks[i]) {
			return true, nil
		}
	}
	return false, nil
}

// drawn draws n cases. The seed and the names decide, so that every reader who knows the
// seed draws the same ones, and the reviewer cannot pick the cases that suit.
func drawn(cases []*dossier.Case, n int, seed, attempt string) []*dossier.Case {
	lot := func(c *dossier.Case) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "tallystick-review-sample-v1\x00%s\x00%s\x00%s\x00%d", seed, attempt, c.ID, c.Repeat))
		return hex.EncodeToString(sum[:])
	}
	sorted := slices.Clone(cases)
	slices.SortFunc(sorted, func(x, y *dossier.Case) int { return cmp.Compare(lot(x), lot(y)) })
	return sorted[:min(n, len(sorted))]
}

// Item is a case of the queue as a person sees it. The evidence is verified
// against the record, so that the reviewer is asked about nothing else.
func (q *Queue) Item(c *dossier.Case) (*Item, error) {
	files, err := c.Files()
	if err == nil {
		var v *trajectory.Verified
		if v, err = c.Trajectory(); err == nil {
			return q.item(c, files, v)
		}
	}
	return nil, fmt.Errorf("case %s (entry %d): %w", c.ID, c.Index, err)
}

func (q *Queue) item(c *dossier.Case, files *evidence.CaseFiles, v *trajectory.Verified) (*Item, error) {
	r := q.Attempt.Reading()
	item := &Item{Attempt: q.Attempt.ID, Case: c.ID, Repeat: int(c.Repeat), Head: c.Head, Seen: c.Evidence[0], Blind: q.Blind,
		Question: q.Scale.Question, Labels: q.Scale.Names(), Asked: []string{}, Steps: []string{}, Changed: []string{}}
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.TurnStarted:
			if p.Input != nil {
				item.Asked = append(item.Asked, wholeText(r, p.Input))
			}
		case *trajectory.TurnCompleted:
			if p.Answer != nil {
				item.Answer = wholeText(r, p.Answer)
			}
		}
	}
	if files.Answer != nil {
		data, err := r.Piece(*files.Answer)
		if err != nil {
			return nil, fmt.Errorf("case %s (entry %d): answer: %w", c.ID, c.Index, err)
		}
		item.Answer = shownText(string(data))
	}
	item.Steps = stepsOf(v, q.Blind)
	if files.Folder != nil {
		for _, f := range files.Folder.Changed[:min(len(files.Folder.Changed), maxSteps)] {
			item.Changed = append(item.Changed, f.Path)
		}
	}
	if q.Blind {
		return item, nil
	}
	return item, q.addMachine(item, c)
}

// addMachine adds what a blind reviewer is not shown.
func (q *Queue) addMachine(item *Item, c *dossier.Case) error {
	checks, err := c.Checks()
	if err != nil {
		return fmt.Errorf("case %s (entry %d): %w", c.ID, c.Index, err)
	}
	m := c.On(history.AsRecorded)
	item.Machine = &Machine{Outcome: string(m.Outcome), Score: m.Value(), Corrected: c.Beside(), Checks: checks, People: []scorecard.GivenLabel{}}
	for _, x := range scorecard.ReviewedCases(q.Attempt.Reading().History, q.Attempt.Attempt) {
		if x.Entry == c.Index {
			item.Machine.People = x.Labels
		}
	}
	return nil
}

// stepsOf says what the agent did. Tests of the case belong to its score, and a
// blind reviewer is not told how they ended.
func stepsOf(v *trajectory.Verified, blind bool) []string {
	steps := []string{}
	for _, m := range outline.Of(v).Moves {
		if !m.IsDeed() || blind && m.Kind == outline.Tested {
			continue
		}
		if len(steps) == maxSteps {
			return append(steps, `… there is more: "tally show ATTEMPT:CASE" has every step`)
		}
		steps = append(steps, strings.Join(strings.Fields(fmt.Sprintf("turn %d: %s %s %s %s", m.Turn, m.Kind, m.What, m.Detail, m.Outcome)), " "))
	}
	return steps
}

// wholeText is a text of the trajectory, whole if the evidence has it.
func wholeText(r *dossier.Reading, c *trajectory.Content) string {
	if c.Truncated {
		if data, ok := r.Content(c.Digest); ok {
			return shownText(string(data))
		}
		return fmt.Sprintf("%s … (%d bytes in all)", c.Head, c.Bytes)
	}
	return shownText(c.Head)
}

func shownText(text string) string {
	if len(text) <= maxShown {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s … (%d bytes in all)", strings.ToValidUTF8(text[:cut], "\uFFFD"), len(text))
}

// Report says how far people got with an attempt and how far they agree.
func Report(r *dossier.Reading, name string) (*scorecard.ReviewReport, error) {
	a, err := attemptNamed(r, name)
	if err != nil {
		return nil, err
	}
	scale, err := scaleOf(r, a.Class)
	if err != nil {
		return nil, err
	}
	return scorecard.ReviewsOf(r.History, a.Attempt, scorecard.ReviewScale{Question: scale.Question, Labels: scale.Names(), Worth: func(label string) (float64, bool) {
		l, ok := scale.Find(label)
		return l.Score, ok
	}})
}

// Match finds the record that a line of a queue is about. What the person saw must
// still be what the ledger names, and whole.
func (q *Queue) Match(item *Item) (*dossier.Case, error) {
	if item.Attempt != q.Attempt.ID {
		return nil, refusal.Newf(refusal.Usage, "found a label for attempt %q, expected %s", item.Attempt, q.Attempt.ID)
	}
	var c *dossier.Case
	var known []string
	for x := range q.Attempt.Cases() {
		if x.Index >= 0 && x.ID == item.Case && int(x.Repeat) == item.Repeat {
			c = x
		}
		known = append(known, x.ID)
	}
	if c == nil {
		return nil, refusal.Newf(refusal.UnknownName, "attempt %s has no record of case %q, repetition %d", q.Attempt.ID, item.Case, item.Repeat).
			Suggest(item.Case, known, `"tally show %s" lists the cases`, q.Attempt.ID)
	}
	if !slices.ContainsFunc(q.Cases, func(x *dossier.Case) bool { return x.Index == c.Index }) {
		return nil, refusal.Newf(refusal.Usage, "case %s, repetition %d, is not in this queue of %d cases", c.ID, c.Repeat, len(q.Cases)).
			WithHint("give --only, --sample and --seed as for --export; held-out cases need --show-held-out")
	}
	switch {
	case item.Question != q.Scale.Question:
		return nil, refusal.Newf(refusal.BenchChanged, "case %s: the person was asked %q, the registration asks %q", c.ID, item.Question, q.Scale.Question).
			WithHint("export the queue again")
	case item.Blind && q.tells():
		return nil, refusal.Newf(refusal.Usage, "case %s: the line says that the person looked blind, and the queue is of cases that are %s, which tells of each that it is", c.ID, q.only).
			WithHint("give --from without --only, for the lines of a blind queue")
	case item.Head != c.Head:
		return nil, refusal.Newf(refusal.DigestMismatch, "case %s: the label is for the record with the head %s, the ledger has %s", c.ID, item.Head, c.Head).
			WithHint("the queue is of another ledger, or it was changed: export it again")
	case item.Seen != c.Evidence[0]:
		return nil, refusal.Newf(refusal.DigestMismatch, "case %s: the person saw the evidence %s, the ledger names %s", c.ID, item.Seen, c.Evidence[0]).
			WithHint("export the queue again: a label is for what the ledger names")
	}
	if err := c.CheckEvidence(); err != nil {
		return nil, fmt.Errorf("case %s: what was seen: %w", c.ID, err)
	}
	return c, q.matchShown(item, c)
}

// matchShown refuses a line that shows something else than the evidence: a person who
// changes the answer in an exported queue has a person sign a label of a text that
// the agent never wrote.
func (q *Queue) matchShown(item *Item, c *dossier.Case) error {
	again := *q
	again.Blind = item.Blind
	shown, err := again.Item(c)
	if err != nil {
		return err
	}
	changed := ""
	switch {
	case !slices.Equal(item.Asked, shown.Asked):
		changed = "asked"
	case item.Answer != shown.Answer:
		changed = "answer"
	case !slices.Equal(item.Steps, shown.Steps):
		changed = "steps"
	case !slices.Equal(item.Changed, shown.Changed):
		changed = "changed"
	case !slices.Equal(item.Labels, shown.Labels):
		changed = "labels"
	case item.Blind && item.Machine != nil:
		changed = "blind"
	default:
		return nil
	}
	return refusal.Newf(refusal.DigestMismatch, "case %s: %q of the line is not what the evidence gives: the person saw something else", c.ID, changed).
		WithHint("export the queue again, and change only label and note of its lines")
}
