package intake

import (
	"encoding/json"

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

// A Line is a line of the trajectories.
type Line struct {
	TaskID string `json:"task_id"`
	Model  string `json:"model,omitempty"`
	Steps  []Step `json:"steps"`
}

// A Step is one thing that an agent was shown or did.
type Step struct {
	Type      string          `json:"type"`
	Name      string          `json:"name,omitempty"`
	Content   string          `json:"content,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Output    string          `json:"output,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Truncated bool            `json:"truncated,omitempty"`
	Vantage   string          `json:"vantage,omitempty"`
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
	steps   []Step
	asked   map[string]string // prompts of model calls under way
	row     Row
}

// Tell makes a line of a trajectory in our format, and of the results what the
// trajectory says: the question, the answer, how many model calls there were.
// Whole texts are used where content has them.
func Tell(task, model string, v *trajectory.Verified, content func(digest.Content) ([]byte, bool)) (Row, Line) {
	t := &teller{content: content, left: maxTexts, asked: map[string]string{}, row: Row{TaskID: task, Model: model}, steps: []Step{}}
	for e := range v.Events() {
		t.event(e.Payload)
	}
	calls := 0
	for _, s := range t.steps {
		if s.Type == "llm_call" {
			calls++
		}
	}
	t.row.Turns = &calls
	return t.row, Line{TaskID: task, Model: model, Steps: t.steps}
}

func (t *teller) event(p trajectory.Payload) {
	switch p := p.(type) {
	case *trajectory.RunStarted:
		t.prompt(p.Input)
	case *trajectory.TurnStarted:
		t.prompt(p.Input)
	case *trajectory.ModelCallStarted:
		text, _ := t.text(&p.Prompt)
		t.asked[p.Call] = text
	case *trajectory.ModelCallCompleted:
		text, cut := t.text(&p.Output)
		s := Step{Type: "llm_call", Output: text, Truncated: cut}
		if asked := t.asked[p.Call]; asked != "" {
			s.Input, _ = json.Marshal(asked)
		}
		delete(t.asked, p.Call)
		t.steps = append(t.steps, s)
	case *trajectory.ToolProposed:
		t.steps = append(t.steps, Step{Type: "tool_call", Name: p.Name, Input: t.args(&p.Args)})
	case *trajectory.ToolExecuted:
		t.gave(p.Name, &p.Result, p.Error != "", "executed")
	case *trajectory.ToolObserved:
		t.steps = append(t.steps, Step{Type: "tool_call", Name: p.Name, Input: t.args(&p.Args), Vantage: string(p.Vantage)})
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
	t.steps = append(t.steps, Step{Type: "prompt", Content: text, Truncated: cut})
}

func (t *teller) gave(name string, c *trajectory.Content, failed bool, vantage string) {
	text, cut := t.text(c)
	t.steps = append(t.steps, Step{Type: "tool_result", Name: name, Output: text, Truncated: cut, IsError: failed, Vantage: vantage})
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

// args are the arguments of a call as one JSON value.
func (t *teller) args(a *trajectory.Args) json.RawMessage {
	if a.Raw != nil {
		text, _ := t.text(a.Raw)
		out, _ := json.Marshal(text)
		return out
	}
	all := map[string]any{}
	for name, v := range a.Values {
		all[name] = canon.RawMessage(v)
	}
	for name, c := range a.Cut {
		text, _ := t.text(&c)
		all[name] = text
	}
	if len(all) == 0 {
		return nil
	}
	out, err := canon.Marshal(all)
	if err != nil {
		return nil
	}
	return out
}
