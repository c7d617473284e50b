package harness

import (
	"context"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
)

// A Judging is a value that a model is asked about.
type Judging struct {
	Attempt string
	Class   string
	Case    *scenario.Task
	Spec    grade.JudgeSpec
	Value   extract.Value
	// Models answers the model calls of this case: real models, or the
	// recording. It is nil if the case has neither.
	Models session.Models
}

// A Judged is what a judge said, and the evidence of it: the verdict's document
// first, then what it names. There is none if no model was asked.
type Judged struct {
	grade.JudgeOutcome
	Evidence [][]byte
	// Unanswered says that there is no score because a reply is not recorded, and that
	// no model might be asked for it.
	Unanswered bool
}

// judge is the judge of this case, nil if there is none. An error of it goes to
// broken as well: the judge could not do its work, which says nothing about the
// agent.
func (r *run) judge(ctx context.Context, g *Graded, broken *error) func(grade.JudgeSpec, extract.Value) (grade.JudgeOutcome, error) {
	judge := r.w.cfg.Judge
	if r.job.Offline && r.w.cfg.Replayer != nil {
		judge = r.w.cfg.Replayer
	}
	if judge == nil {
		return nil
	}
	return func(spec grade.JudgeSpec, value extract.Value) (grade.JudgeOutcome, error) {
		q := Judging{Attempt: r.job.Attempt, Class: r.w.cfg.Bench.Class(), Case: r.c, Spec: spec, Value: value}
		q.Models = r.judgeModels()
		judged, err := judge.Ask(ctx, q)
		if isUnanswered(err) {
			// No model might be asked. That is no fault of the judge.
			judged, err = Judged{JudgeOutcome: grade.JudgeOutcome{Unscored: err.Error()}, Unanswered: true}, nil
		}
		r.unjudged = r.unjudged || judged.Unanswered
		if err != nil {
			*broken = err
			return judged.JudgeOutcome, err
		}
		if len(judged.Evidence) > 0 {
			files := evidence.VerdictFiles{Document: *g.put(judged.Evidence[0])}
			for _, piece := range judged.Evidence[1:] {
				files.Pieces = append(files.Pieces, *g.put(piece))
			}
			g.Files.Verdicts = append(g.Files.Verdicts, files)
		}
		return judged.JudgeOutcome, nil
	}
}

// isUnanswered reports whether a call failed because no recording has its reply and no
// model might be asked.
func isUnanswered(err error) bool {
	return refusal.Is(err, refusal.CassetteMiss) || refusal.Is(err, refusal.NotAnswered)
}

// judgeModels answers the judge: from calls that are recorded as the judge's,
// which the agent cannot ask for, nil if the case has nothing to answer with.
func (r *run) judgeModels() session.Models {
	switch live, apart := r.live.(JudgeRecording); {
	case apart:
		return live.JudgeModels()
	case r.live != nil:
		return r.live
	case r.judges != nil || r.judgeKept != nil:
		return &session.Replay{Player: r.judges, Kept: r.judgeKept}
	}
	return nil
}

// judgeQuestion names everything that decides what the judges of the class are asked,
// nil if none is asked. It is of all cases of the class, so that a selection of them
// does not make another judge.
func (w *Worker) judgeQuestion(judge *digest.Content) (*digest.Content, error) {
	if !w.judged || judge == nil {
		return nil, nil
	}
	slices.SortFunc(w.askings, func(a, b digest.Content) int { return strings.Compare(a.String(), b.String()) })
	text, err := canon.Marshal(struct {
		Askings []digest.Content `json:"askings"`
		Judge   digest.Content   `json:"judge"`
		Texts   digest.Content   `json:"texts"`
		Version string           `json:"v"`
	}{slices.Compact(w.askings), *judge, w.cfg.Judge.Texts(), format.Version})
	if err != nil {
		return nil, err
	}
	d := digest.ContentOf(text)
	return &d, nil
}

// A question is what draws of a judge are counted by.
type question struct{ caseID, key string }

// A drawn is what the ledger has of a question.
type drawn struct {
	count   int
	verdict digest.Content
}

// Drawn says how many verdicts the ledger has on a question of a case, and
// which is the last.
func (p *Past) Drawn(caseID, key string) (count int, last digest.Content) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.draws[question{caseID, key}]
	return d.count, d.verdict
}

// NoteDraw counts a draw that the ledger has.
func (p *Past) NoteDraw(b *evidence.JudgeDrawn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draws == nil {
		p.draws = map[question]drawn{}
	}
	q := question{b.CaseID, b.Key}
	p.draws[q] = drawn{p.draws[q].count + 1, b.Verdict}
}

// ModelsAsked are which models a run may ask besides the agent's own.
type ModelsAsked struct {
	Judge, View bool     // a judge, for a score or for a second view
	Panel       []string // the judges that panels name
	Embedders   []string // the models whose vectors are compared
	User        bool     // a model plays the user of a case
}

// ModelsAskedBy says which models the cases may ask that a config selects, besides the
// agent's own.
func ModelsAskedBy(cfg Config) (ModelsAsked, error) {
	p, err := prepare(cfg)
	if err != nil {
		return ModelsAsked{}, err
	}
	w := p.worker
	return ModelsAsked{w.judged, w.viewed, w.panel, w.embedders, w.modelUser}, nil
}
