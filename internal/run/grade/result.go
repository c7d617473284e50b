package grade

import (
	"errors"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/trajectory"
)

// Input is what one case left behind, and what the harness does for a grader.
type Input struct {
	Source *extract.Source

	// Rubric runs the class's rubric on a value, which may be one that was not
	// found. An error says that it could not be run; that it ran and failed is
	// a score.
	Rubric func(extract.Value) (Graded, error)

	// Program runs a program of the suite itself on a value, as Rubric does the rubric.
	Program func(ProgramSpec, extract.Value) (Graded, error)

	// Judge asks a model about a value.
	Judge func(JudgeSpec, extract.Value) (JudgeOutcome, error)

	// SQL runs a query and the expected one against a fixture database. It says why
	// the query is wrong, "" if it is right; an error says that the comparison
	// itself failed. Nil if there is no database here.
	SQL func(s SQLSpec, query string) (wrong string, err error)

	// Embed asks a model for the vectors of some texts. Why says why there are none.
	// Nil if there is no model to ask.
	Embed func(model string, texts []string) (e Embedded, why string)

	// SecondView asks a model about a value that the official scorer did not take,
	// for a view beside the score. Nil if there is no judge.
	SecondView func(JudgeSpec, extract.Value) (JudgeOutcome, error)

	// Redact takes secrets out of a text. It may be nil. Digests in the
	// details are of the values with them.
	Redact func(string) string
}

// A Result is how a case was graded.
type Result struct {
	Passed bool
	Score  float64

	// Unscored says why there is no score; Passed and Score then mean nothing,
	// and the case is counted apart.
	Unscored string

	Breakdown    map[string]float64 // score of each named check that has one
	FailureModes []string
	Details      []Detail // a combination before its checks

	// JudgedByModel says that a model's opinion counts in the score.
	JudgedByModel bool

	// Events are what a rubric or a judge gave rise to.
	Events []evidence.IntegrityEvent
}

// A Detail is what one check looked at, what it compared it with, and why it
// ended as it did.
type Detail struct {
	Check       string              `json:"check,omitempty"` // its name, after those of the combinations around it
	Code        string              `json:"code,omitempty"`
	Expected    *trajectory.Content `json:"expected,omitempty"`
	Extracted   *trajectory.Content `json:"extracted,omitempty"`
	Extractor   string              `json:"extractor,omitempty"`
	FailureMode string              `json:"failure_mode,omitempty"`
	Grader      Kind                `json:"grader"`
	Kind        extract.ValueKind   `json:"kind,omitempty"`    // of the value
	Missing     string              `json:"missing,omitempty"` // why nothing was extracted
	Outcome     Outcome             `json:"outcome"`
	Score       *float64            `json:"score,omitempty"`
	Second      *SecondView         `json:"second_view,omitempty"` // what a judge said besides, which is not the score
	Votes       []float64           `json:"votes,omitempty"`
	Choice      string              `json:"choice,omitempty"`   // of a judge's scale
	Marked      *Marked             `json:"marked,omitempty"`   // of a judge that marks claims or passages
	Position    *Position           `json:"position,omitempty"` // of a judge that compares
	Panel       *PanelDetail        `json:"panel,omitempty"`    // what each judge said, and how they differ
	Embedding   *EmbeddingDetail    `json:"embedding,omitempty"`
	Weight      float64             `json:"weight"`
	Why         string              `json:"why"`
}

// Combines reports whether a grader adds up checks.
func Combines(k Kind) bool { return k == All || k == Any || k == Weighted }

// Decisive is the first check that kept the whole from passing, nil if none did.
// A check without weight is not it, nor is one inside a combination that passed
// nevertheless; a combination is, only if none of its own checks is.
func Decisive(details []Detail) *Detail {
	var around *Detail
	for i := 0; i < len(details); i++ {
		d := &details[i]
		switch {
		case d.Outcome == Passed || d.Weight == 0:
			for d.Check != "" && i+1 < len(details) && strings.HasPrefix(details[i+1].Check, d.Check+"/") {
				i++
			}
		case !Combines(d.Grader):
			return d
		default:
			around = d
		}
	}
	return around
}

// shownHead is how much of a value a detail shows.
const shownHead = trajectory.PromptHead

// breakdownKey is the key of the whole grade in a score's breakdown.
const breakdownKey = "grade"

// EvidenceScore makes the score that the ledger records. Of the breakdown it
// keeps what the registration lists, and the whole grade as "grade"; the
// grading document has all of it. There is none for a case that is unscored.
func (r *Result) EvidenceScore(reg bench.Registration, costMicroUSD int64, took time.Duration) (evidence.Score, error) {
	if r.Unscored != "" {
		return evidence.Score{}, errors.New("the case is unscored: " + r.Unscored)
	}
	s := evidence.Score{
		Passed: r.Passed, Score: r.Score, Breakdown: map[string]float64{}, FailureModes: append([]string{}, r.FailureModes...),
		CostUSD: float64(costMicroUSD) / 1e6, DurationSeconds: float64(took.Round(time.Millisecond).Milliseconds()) / 1000,
	}
	for key, value := range r.Breakdown {
		if key == breakdownKey || slices.Contains(reg.Breakdown, key) {
			s.Breakdown[key] = value
		}
	}
	return s, s.Validate()
}

// Document is the canonical JSON of a result, for the evidence.
func Document(r *Result) ([]byte, error) {
	type document struct {
		Breakdown     map[string]float64 `json:"breakdown"`
		Checks        []Detail           `json:"checks"`
		FailureModes  []string           `json:"failure_modes"`
		JudgedByModel bool               `json:"judged_by_model,omitempty"`
		Passed        *bool              `json:"passed,omitempty"`
		Score         *float64           `json:"score,omitempty"`
		Unscored      string             `json:"unscored,omitempty"`
		Version       string             `json:"v"`
	}
	d := document{Version: format.Version, Unscored: r.Unscored, Breakdown: r.Breakdown, FailureModes: r.FailureModes, JudgedByModel: r.JudgedByModel, Checks: r.Details}
	if r.Unscored == "" {
		d.Passed, d.Score = &r.Passed, &r.Score
	}
	return canon.Marshal(d)
}

// Grade grades a case. It always comes to a result: what cannot be graded is
// unscored, with the reason.
func (g *Grader) Grade(in Input) Result {
	r := &run{in: in, breakdown: map[string]float64{}}
	v := r.node(g.root, "", true)
	result := Result{Breakdown: r.breakdown, Details: r.details, JudgedByModel: r.judged, Events: r.events, FailureModes: []string{}}
	if v.outcome == Unscored {
		result.Unscored = v.why
		return result
	}
	result.Passed, result.Score = v.outcome == Passed, v.score
	if g.root.kind != ByRubric {
		result.Breakdown[breakdownKey] = v.score
	}
	modes := r.always
	if !result.Passed {
		modes = append(modes, v.codes...)
		if len(modes) == 0 {
			modes = append(modes, CodeMismatch)
		}
	}
	for _, mode := range modes {
		if !slices.Contains(result.FailureModes, mode) {
			result.FailureModes = append(result.FailureModes, mode)
		}
	}
	return result
}

// A run is the grading of one case.
type run struct {
	in        Input
	details   []Detail
	breakdown map[string]float64
	always    []string // failure modes of a rubric, recorded whatever comes of the rest
	judged    bool
	events    []evidence.IntegrityEvent
}

// A tally is what came of a node.
type tally struct {
	verdict
	codes []string // failure modes, if it did not pass

	// skipped says that the check is not about this case: it counts for nothing, as if
	// it had no weight, and is no reason why the whole has no score.
	skipped bool
}

// node grades one node and writes its detail. Counts says that the node and
// all combinations around it have weight.
func (r *run) node(n *node, prefix string, counts bool) tally {
	name := prefix
	if n.name != "" {
		name = n.name
		if prefix != "" {
			name = prefix + "/" + n.name
		}
	}
	counts = counts && n.weight.Sign() > 0
	at := len(r.details)
	weight, _ := n.weight.Float64()
	r.details = append(r.details, Detail{Check: name, Grader: n.kind, Weight: weight, FailureMode: n.failureMode})
	d := r.details[at]
	var t tally
	if rows[n.kind].combine != nil {
		t = r.combine(n, name, counts)
	} else {
		t = r.leaf(n, &d, counts)
	}
	if n.failureMode != "" && t.outcome != Passed && t.outcome != Unscored {
		t.codes = []string{n.failureMode}
	}
	d.Outcome, d.Code, d.Why = t.outcome, t.code, r.safe(t.why)
	t.why = d.Why
	if t.outcome != Unscored {
		score := t.score
		d.Score = &score
		if n.name != "" {
			r.breakdown[n.name] = score
		}
	}
	r.details[at] = d
	return t
}

func (r *run) safe(s string) string {
	if r.in.Redact == nil {
		return s
	}
	return r.in.Redact(s)
}

// leaf extracts a value and grades it.
func (r *run) leaf(n *node, d *Detail, counts bool) tally {
	if len(n.expected) > 0 {
		d.Expected = n.shown
		if r.in.Redact != nil {
			d.Expected = r.show(shownText(n.expected))
		}
	}
	if n.condition != nil {
		return single(n.condition.grade(r.in.Source))
	}
	if n.reported != nil {
		return n.reported.grade(r, d)
	}
	spec := n.extractor.Spec()
	d.Extractor = spec.String()
	v, err := n.extractor.Extract(r.in.Source)
	if err != nil {
		return single(unscored("extracting: %s", reasonOf(err)))
	}
	d.Missing = r.safe(v.Missing)
	if v.Found {
		text := v.Shown()
		d.Kind, d.Extracted = v.Kind, r.show(text)
		v.Redacted = v.Redacted || d.Extracted.Redacted
	}
	if grade := rows[n.kind].grade; grade != nil {
		return grade(r, n, d, v, counts)
	}
	if !v.Found {
		return notFound(v)
	}
	if v.Span != nil {
		return single(n.named(r.in.Source, &v))
	}
	official := n.grade(&v)
	if n.kind == GAIA && official.outcome == Mismatch {
		d.Second = r.secondView(n, d, v)
	}
	return single(official)
}

// reasonOf is an error with what to do about it, if it says so itself.
func reasonOf(err error) string {
	var refused *refusal.Error
	if errors.As(err, &refused) && strings.HasPrefix(refused.Hint, "did you mean") {
		return err.Error() + "; " + refused.Hint
	}
	return err.Error()
}

func notFound(v extract.Value) tally {
	return single(unusable(CodeNothingFound, "nothing was found: %s", quoted(v.Missing)))
}

func (r *run) absent(_ *node, _ *Detail, v extract.Value, _ bool) tally {
	if v.Found {
		return single(mismatch("there is a value, and none is expected"))
	}
	if v.There {
		return single(mismatch("something is there, and nothing is expected: %s", quoted(v.Missing)))
	}
	return single(passed("nothing was found: %s", quoted(v.Missing)))
}

// single makes the tally of a single verdict.
func single(v verdict) tally {
	t := tally{verdict: v}
	if v.code != "" {
		t.codes = []string{v.code}
	}
	return t
}

// show is the beginning of a text and the digest of all of it.
func (r *run) show(text string) *trajectory.Content {
	c := trajectory.NewRedacted([]byte(text), []byte(r.safe(text)), shownHead)
	return &c
}

// shownText is text as it is and anything else as JSON.
func shownText(raw canon.RawMessage) string {
	var s string
	if raw.Kind() == '"' && canon.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// combine grades the checks of a combination. All of them are graded, so that
// the details are complete.
func (r *run) combine(n *node, name string, counts bool) tally {
	c := combination{threshold: n.threshold}
	for _, child := range n.children {
		c.add(child.weight, r.node(child, name, counts))
	}
	if c.sum == nil && c.skipped > 0 {
		return tally{verdict: unscored("no check is about this case: %s", c.first), skipped: true}
	}
	return rows[n.kind].combine(&c)
}
