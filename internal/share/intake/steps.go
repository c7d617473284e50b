package intake

import (
	"encoding/json"

	"tallystick/internal/read/step"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/trajectory"
)

// A Row is a line of the results.
type Row struct {
	TaskID   string  `json:"task_id"`
	Model    string  `json:"model,omitempty"`
	Question string  `json:"question,omitempty"`
	Correct  *bool   `json:"correct,omitempty"`
	Answer   *string `json:"answer,omitempty"`
	Expected *string `json:"expected_output,omitempty"`
	Turns    *int    `json:"turns,omitempty"`
}

// Bounds of a line, which package audit refuses beyond 64 MiB: a text that would
// pass them is cut to its recorded beginning, and says so.
const (
	maxText  = 4 << 20
	maxTexts = 24 << 20
)

// A teller makes steps of a trajectory.
type teller struct {
	content func(digest.Content) ([]byte, bool) // whole texts; may be nil
	left    int
	steps   []*step.Step
	asked   map[string]*step.Step // model calls under way
	row     Row
}

// Tell makes a line of a trajectory in our format, and of the results what the
// trajectory says: the question, the answer, how many model calls there were.
// Whole texts are used where content has them.
func Tell(task, model string, v *trajectory.Verified, content func(digest.Content) ([]byte, bool)) (Row, step.Line) {
	t := &teller{content: content, left: maxTexts, asked: map[string]*step.Step{}, row: Row{TaskID: task, Model: model}, steps: []*step.Step{}}
	for e := range v.Events() {
		t.event(e.Payload)
	}
	calls := 0
	for _, s := range t.steps {
		if s.Type == step.Model {
			calls++
		}
	}
	t.row.Turns = &calls
	return t.row, step.Line{TaskID: task, Model: model, Steps: t.steps}
}

func (t *teller) event(p trajectory.Payload) {
	switch p := p.(type) {
	case *trajectory.RunStarted:
		t.prompt(p.Input)
	case *trajectory.TurnStarted:
		t.prompt(p.Input)
	case *trajectory.ModelCallStarted:
		text, cut := t.text(&p.Prompt)
		t.asked[p.Call] = &step.Step{Type: step.Model, InputTruncated: cut, InputBytes: &p.Prompt.Bytes}
		if text != "" {
			t.asked[p.Call].Input = text
		}
	case *trajectory.ModelCallCompleted:
		s := t.asked[p.Call]
		if s == nil {
			s = &step.Step{Type: step.Model}
		}
		delete(t.asked, p.Call)
		s.Output, s.Truncated = t.output(&p.Output)
		t.steps = append(t.steps, s)
	case *trajectory.ToolProposed:
		t.call(p.Name, &p.Args, "")
	case *trajectory.ToolExecuted:
		t.gave(p.Name, &p.Result, p.Error != "", step.Executed)
	case *trajectory.ToolObserved:
		t.call(p.Name, &p.Args, string(p.Vantage))
		if p.Result != nil {
			t.gave(p.Name, p.Result, p.Error, string(p.Vantage))
		}
	case *trajectory.TurnCompleted:
		t.answer(p.Answer)
	case *trajectory.RunCompleted:
		t.answer(p.Answer)
	}
}

func (t *teller) prompt(c *trajectory.Content) {
	if c == nil {
		return
	}
	text, cut := t.text(c)
	if t.row.Question == "" {
		t.row.Question = text
	}
	t.steps = append(t.steps, &step.Step{Type: step.Prompt, Content: &text, Truncated: cut})
}

func (t *teller) gave(name string, c *trajectory.Content, failed bool, vantage string) {
	s := &step.Step{Type: step.Result, Name: name, IsError: failed, Vantage: vantage}
	s.Output, s.Truncated = t.output(c)
	t.steps = append(t.steps, s)
}

func (t *teller) call(name string, a *trajectory.Args, vantage string) {
	s := &step.Step{Type: step.Call, Name: name, Vantage: vantage}
	var args json.RawMessage
	if args, s.InputTruncated = t.args(a); args != nil {
		s.Input = args
	}
	t.steps = append(t.steps, s)
}

// output is a text as a step has it.
func (t *teller) output(c *trajectory.Content) (*string, bool) {
	text, cut := t.text(c)
	return &text, cut
}

func (t *teller) answer(c *trajectory.Content) {
	if c != nil {
		text, _ := t.text(c)
		t.row.Answer = &text
	}
}

// text is the whole of a text, or its beginning.
func (t *teller) text(c *trajectory.Content) (text string, cut bool) {
	if c.Truncated && t.content != nil && c.Bytes <= maxText && int64(t.left) >= c.Bytes {
		if whole, ok := t.content(c.Digest); ok {
			t.left -= len(whole)
			return string(whole), false
		}
	}
	return c.Head, c.Truncated
}

// args are the arguments of a call as one JSON value, and whether one of them is
// cut.
func (t *teller) args(a *trajectory.Args) (args json.RawMessage, cut bool) {
	if a.Raw != nil {
		text, cut := t.text(a.Raw)
		out, _ := json.Marshal(text)
		return out, cut
	}
	all := map[string]any{}
	for name, v := range a.Values {
		all[name] = canon.RawMessage(v)
	}
	for name, c := range a.Cut {
		text, isCut := t.text(&c)
		all[name], cut = text, cut || isCut
	}
	out, err := canon.Marshal(all)
	if err != nil {
		return nil, true
	}
	return out, cut
}
