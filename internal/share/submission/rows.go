package submission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/step"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
)

// A Result is a line of results.jsonl: the members of the leaderboard, and those
// that an audit of the file alone needs.
type Result struct {
	TaskID         string   `json:"task_id"`
	ModelAnswer    string   `json:"model_answer"`
	ReasoningTrace string   `json:"reasoning_trace"`
	ToolsUsed      []string `json:"tools_used"`
	Turns          int      `json:"turns"`
	WallSeconds    float64  `json:"wall_seconds"`

	Question       string  `json:"question"`
	Level          int     `json:"level,omitempty"`
	Model          string  `json:"model"`
	Correct        *bool   `json:"correct"` // null if the bench does not have the answer
	Answer         *string `json:"answer"`
	ExpectedOutput *string `json:"expected_output"`
	Outcome        string  `json:"outcome"`
	Error          string  `json:"error,omitempty"`
	InputTokens    int64   `json:"inputTokens"`
	OutputTokens   int64   `json:"outputTokens"`

	Entry      int64 `json:"entry"` // of the record, in the ledger
	Repeat     int   `json:"repeat"`
	Executions int   `json:"executions"` // that the answer was chosen from

	// Corrections are what people or later grading set beside the records of the
	// task, and Corrected what Correct is with them.
	Corrected   *bool        `json:"corrected,omitempty"`
	Corrections []Correction `json:"corrections,omitempty"`
}

// AttachedFile stands between a question and the name of its file in what the
// agent is told; see exchange/gaia.
const AttachedFile = "\n\nAttached file: "

// grading is what is read of the grading document.
type grading struct {
	Checks []struct {
		Grader    string   `json:"grader"`
		Expected  *content `json:"expected"`
		Extracted *content `json:"extracted"`
	} `json:"checks"`
}

// noAnswer are the graders whose expectation is not an answer but what one must be
// like.
var noAnswer = []string{"regex", "compare", "json_schema", "tool_calls", "cel", "absent", "not"}

// A told is one record in the words of a package.
type told struct {
	Result
	line   step.Line
	steps  *walk
	whole  bool // what was noted of its texts is there
	answer string
}

// tell reads the evidence of a record.
func (b *builder) tell(r Record) (*told, error) {
	t, err := b.read(r)
	if err != nil {
		return nil, fmt.Errorf("case %s, entry %d: %w", r.CaseID, r.Entry, err)
	}
	return t, nil
}

func (b *builder) read(r Record) (*told, error) {
	var files evidence.CaseFiles
	if err := b.document(r.EvidenceDigests[0], &files); err != nil {
		return nil, err
	}
	watched := evidence.Watched{Version: format.Version}
	if files.Watch != nil {
		if err := b.document(*files.Watch, &watched); err != nil {
			return nil, err
		}
		if err := watched.Validate(); err != nil {
			return nil, err
		}
	}
	lines, err := b.Read(files.Trajectory.Digest)
	if err != nil {
		return nil, err
	}
	t := &told{whole: files.Watch != nil}
	if t.steps, err = stepsOf(lines, &watched, b.sum()); err != nil {
		return nil, err
	}
	if files.Answer != nil {
		data, err := b.Read(*files.Answer)
		if err != nil {
			return nil, err
		}
		t.answer = string(data)
	}
	var graded grading
	if files.Grading != nil {
		data, err := b.Read(*files.Grading)
		if err == nil {
			err = json.Unmarshal(data, &graded)
		}
		if err != nil {
			return nil, err
		}
	}
	t.fill(r, &graded)
	return t, nil
}

func (a *Source) document(d digest.Content, v any) error {
	data, err := a.Read(d)
	if err != nil {
		return err
	}
	return canon.UnmarshalCanonical(data, v)
}

// fill makes the lines.
func (t *told) fill(r Record, graded *grading) {
	w := t.steps
	model, tools, calls := strings.Join(w.models, ", "), w.tools, 0
	if tools == nil {
		tools = []string{}
	}
	var last string
	for _, s := range w.steps {
		if s.Type == step.Model {
			calls++
			if s.Output != nil {
				last = *s.Output
			}
		}
	}
	t.Result = Result{TaskID: r.CaseID, ModelAnswer: t.answer, ReasoningTrace: last, ToolsUsed: tools, Turns: calls, Level: level(r.Tags), Model: model,
		WallSeconds: r.FinishedAt.Go().Sub(r.StartedAt.Go()).Seconds(), Outcome: string(r.Outcome), InputTokens: w.in, OutputTokens: w.out,
		Entry: r.Entry, Repeat: r.Repeat}
	if len(w.steps) > 0 && w.steps[0].Type == step.Prompt {
		t.Question, _, _ = strings.Cut(*w.steps[0].Head, AttachedFile)
	}
	for _, c := range graded.Checks {
		if c.Extracted != nil {
			t.ModelAnswer = c.Extracted.Head
		}
		if c.Expected != nil && !slices.Contains(noAnswer, c.Grader) {
			t.ExpectedOutput = &c.Expected.Head
		}
		if c.Extracted != nil {
			break
		}
	}
	if r.Outcome == evidence.Passed || r.Outcome == evidence.Failed {
		correct := r.Outcome == evidence.Passed
		t.Correct = &correct
	} else if r.Outcome != evidence.Unscored {
		correct := false
		t.Correct, t.Error = &correct, r.Reason
	}
	if t.ModelAnswer != "" {
		t.Answer = &t.ModelAnswer
	}
	t.line = step.Line{TaskID: r.CaseID, Model: model, Repeat: r.Repeat, Correct: t.Correct, Turns: &calls, UserTurns: &r.Turns, FinalAnswer: &t.ModelAnswer,
		TokensIn: &w.in, TokensOut: &w.out, ToolsUsed: tools, Vantage: r.Vantage, Steps: w.steps}
	if t.line.Steps == nil {
		t.line.Steps = []*step.Step{}
	}
}

// withheld is what may be told of a task that is held out.
func (t *told) withheld() Result {
	return Result{TaskID: t.Result.TaskID, ToolsUsed: []string{}, Level: t.Level, Model: t.Result.Model, Correct: t.Correct, Outcome: t.Outcome,
		Turns: t.Result.Turns, InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, Entry: t.Entry, Repeat: t.Repeat, Executions: t.Executions}
}

// chosen is the repetition whose answer is submitted: that which most of them
// gave, and of several the first. Answers are the same if they are without regard
// to case and white space.
func chosen(all []*told) *told {
	votes := map[string]int{}
	same := func(t *told) string { return strings.ToLower(strings.Join(strings.Fields(t.ModelAnswer), " ")) }
	for _, t := range all {
		votes[same(t)]++
	}
	best := all[0]
	for _, t := range all {
		if votes[same(t)] > votes[same(best)] {
			best = t
		}
	}
	return best
}
