package registry

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
)

const (
	// calibrationAttempts is how often an agent may try.
	calibrationAttempts = 3
	// calibrationNeeded is the agreement beyond chance (Cohen's kappa) that passes.
	calibrationNeeded = 0.6
	// minQuestions is the least size of a set: with fewer, luck passes too often.
	minQuestions = 10
)

// A calibrationSet is proposals with known answers. It is never served: an agent
// sees a part of the questions, in an order and under names of its own.
type calibrationSet struct {
	text      []byte // canonical
	questions []calibrationQuestion
}

type calibrationQuestion struct {
	ID       string           `json:"id"`
	Proposal canon.RawMessage `json:"proposal"`
	Answer   string           `json:"answer"`
}

type calibrationFile struct {
	Version   int                   `json:"version"`
	Questions []calibrationQuestion `json:"questions"`
}

var calibrationRules = strictyaml.Rules{Hint: "correct the line; nothing was done", TooLargeHint: "a calibration set has at most 4 MiB", MaxBytes: 4 << 20}

// loadCalibration reads the operator's set, nil if the settings name none.
func loadCalibration(dir string, s Settings) (*calibrationSet, error) {
	if s.Calibration == "" {
		return nil, nil
	}
	name := s.Calibration
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	data, err := store.ReadFile(store.OS{}, name, 4<<20)
	if err != nil {
		return nil, err
	}
	var f calibrationFile
	if _, err := strictyaml.Decode(name, data, calibrationRules, &f); err != nil {
		return nil, err
	}
	set := &calibrationSet{questions: f.Questions}
	if err := f.validate(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", name, err)
	}
	set.text, err = canon.Marshal(f)
	return set, err
}

func (f *calibrationFile) validate() error {
	if f.Version != 1 {
		return fmt.Errorf("version is %d, this program reads 1", f.Version)
	}
	seen, accept := map[string]bool{}, 0
	for _, q := range f.Questions {
		switch {
		case q.ID == "" || seen[q.ID]:
			return fmt.Errorf("the id %q is empty or occurs twice", q.ID)
		case q.Answer != "accept" && q.Answer != "reject":
			return fmt.Errorf("question %s: the answer is %q, expected accept or reject", q.ID, q.Answer)
		case q.Proposal.Kind() != '{':
			return fmt.Errorf("question %s: the proposal must be an object", q.ID)
		case q.Answer == "accept":
			accept++
		}
		seen[q.ID] = true
	}
	if n := len(f.Questions); n < minQuestions || 5*accept < 2*n || 5*accept > 3*n {
		return fmt.Errorf("%d questions of which %d are to be accepted; expected at least %d, and two to three fifths of them", n, accept, minQuestions)
	}
	return nil
}

// digest names a set without giving its answers away: a reader who knows the questions
// could otherwise try all answers against it.
func (c *calibrationSet) digest(k *keyring) digest.ID {
	return digest.ID(k.mac("calibration set", c.text))
}

// A sheet is what one agent is asked in one try: as many questions of each answer,
// drawn and ordered for this agent alone, under names that mean nothing to others.
type sheet struct {
	questions []Question
	answers   map[string]string // by name
}

func (c *calibrationSet) sheet(k *keyring, agent string, try int) *sheet {
	lot := func(use, id string) []byte {
		return k.mac("calibration "+use, fmt.Appendf(nil, "%s\n%d\n%s", agent, try, id))
	}
	byLot := func(use string, list []calibrationQuestion) {
		slices.SortFunc(list, func(a, b calibrationQuestion) int { return bytes.Compare(lot(use, a.ID), lot(use, b.ID)) })
	}
	var picked []calibrationQuestion
	half := 1 << 30
	for _, answer := range []string{"accept", "reject"} {
		half = min(half, len(c.with(answer)))
	}
	half = max(minQuestions/2-1, half*4/5)
	for _, answer := range []string{"accept", "reject"} {
		list := c.with(answer)
		byLot("pick", list)
		picked = append(picked, list[:min(half, len(list))]...)
	}
	byLot("order", picked)
	s := &sheet{answers: map[string]string{}}
	for _, q := range picked {
		name := hex.EncodeToString(lot("name", q.ID)[:8])
		s.questions = append(s.questions, Question{name, q.Proposal})
		s.answers[name] = q.Answer
	}
	return s
}

func (c *calibrationSet) with(answer string) []calibrationQuestion {
	var out []calibrationQuestion
	for _, q := range c.questions {
		if q.Answer == answer {
			out = append(out, q)
		}
	}
	return out
}

// kappa is Cohen's kappa of the answers with the right ones: 0 is what chance
// gives, also to a judge who always answers the same.
func (s *sheet) kappa(given map[string]string) float64 {
	n, same, accept, should := float64(len(s.answers)), 0.0, 0.0, 0.0
	for name, right := range s.answers {
		if given[name] == right {
			same++
		}
		if given[name] == "accept" {
			accept++
		}
		if right == "accept" {
			should++
		}
	}
	chance := accept/n*should/n + (n-accept)/n*(n-should)/n
	if chance == 1 {
		return 0
	}
	return (same/n - chance) / (1 - chance)
}

// passed reports whether an agent passed a set. It is called with the lock held.
func (r *Registry) passed(agent string, set digest.ID) bool {
	return slices.ContainsFunc(r.state.calibrations[agent], func(c *evidence.RegistryCalibrated) bool { return c.Passed && c.Set == set })
}

// tries counts an agent's tries at a set.
func (r *Registry) tries(agent string, set digest.ID) int {
	n := 0
	for _, c := range r.state.calibrations[agent] {
		if c.Set == set {
			n++
		}
	}
	return n
}

func (r *Registry) noCalibration() error {
	if r.answers == nil {
		return refusal.Newf(refusal.NotFound, "this registry has no calibration set").WithHint("its operator admits judges without one")
	}
	return nil
}

// Questions are those of an agent's next try.
func (r *Registry) Questions(ctx context.Context, a *Agent) ([]Question, error) {
	if err := r.noCalibration(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	try, err := r.nextTry(a, r.answers.digest(r.ring))
	if err != nil {
		return nil, err
	}
	return r.answers.sheet(r.ring, a.ID, try).questions, nil
}

func (r *Registry) nextTry(a *Agent, set digest.ID) (int, error) {
	n := r.tries(a.ID, set)
	if r.passed(a.ID, set) {
		return 0, refusal.Newf(refusal.AlreadyExists, "agent %s has passed the calibration set", a.ID)
	}
	if n >= calibrationAttempts {
		return 0, refusal.Newf(refusal.CalibrationFailed, "agent %s has used all %d attempts at the calibration set", a.ID, n)
	}
	return n + 1, nil
}

// Calibrate scores an agent's answers. The right ones are never told.
func (r *Registry) Calibrate(ctx context.Context, a *Agent, given map[string]string, o Once) (*Calibrated, error) {
	if err := r.noCalibration(); err != nil {
		return nil, err
	}
	req, err := o.request(a, "calibrate")
	if err != nil {
		return nil, err
	}
	var made *evidence.RegistryCalibrated
	before, err := r.once(req, []string{"calibrate " + a.ID}, func() ([]evidence.Body, error) {
		set := r.answers.digest(r.ring)
		try, err := r.nextTry(a, set)
		if err != nil {
			return nil, err
		}
		s := r.answers.sheet(r.ring, a.ID, try)
		if err := s.check(given); err != nil {
			return nil, err
		}
		text, err := canon.Marshal(given)
		if err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the answers: %w", err)
		}
		score := s.kappa(given)
		made = &evidence.RegistryCalibrated{Agent: a.ID, Answers: digest.ID(r.ring.mac("calibration answers", text)), Attempt: try, Passed: score >= calibrationNeeded,
			Request: req, ScorePPM: int(score * 1e6), Set: set}
		return []evidence.Body{made}, nil
	})
	if err != nil {
		return nil, err
	}
	if before != nil {
		made = before.calibrated
	}
	return &Calibrated{Score: float64(made.ScorePPM) / 1e6, Needed: calibrationNeeded, Passed: made.Passed, Attempt: made.Attempt, Attempts: calibrationAttempts}, nil
}

// check refuses answers to other questions than the agent's own: copied ones.
func (s *sheet) check(given map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := s.answers[name]; !ok {
			return refusal.Newf(refusal.CalibrationFailed, "%.40q is not one of this agent's questions", name).WithHint("each agent has questions of its own; ask for them and answer those")
		}
		if v := given[name]; v != "accept" && v != "reject" {
			return refusal.Newf(refusal.Malformed, "the answer to %s is %.40q, expected accept or reject", name, v)
		}
	}
	if len(given) != len(s.answers) {
		return refusal.Newf(refusal.Malformed, "%d answers, expected %d: answer every question", len(given), len(s.answers))
	}
	return nil
}
