package grade

import (
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/question"
)

// An asking is everything of a check that decides what a judge is asked and what
// comes of its replies, but for what belongs to the one case: the task, the expected
// answer, passages and files. Two checks with equal ones ask the same of a judge.
type asking struct {
	Combine     string          `json:"combine"`
	ContextTool string          `json:"context_tool"`
	Criteria    digest.Content  `json:"criteria"`
	Expects     bool            `json:"expects"` // the judge is shown an expected answer
	Files       []string        `json:"files"`
	Form        question.Form   `json:"form"`
	How         digest.Content  `json:"how"` // the program's text on how to judge
	Panel       []string        `json:"panel"`
	Prompt      *digest.Content `json:"prompt,omitempty"` // the template of the class
	Quorum      int             `json:"quorum"`
	Scale       question.Scale  `json:"scale"`
	Sees        []string        `json:"sees"`
	Threshold   float64         `json:"threshold"`
	Votes       int             `json:"votes"`
}

// Askings names what the judges of the spec are asked, each check once.
func (g *Grader) Askings() ([]digest.Content, error) { return g.root.askings(nil) }

func (n *node) askings(list []digest.Content) ([]digest.Content, error) {
	if n.judge != nil {
		text, err := canon.Marshal(n.judge.asking())
		if err != nil {
			return nil, err
		}
		list = append(list, digest.ContentOf(text))
	}
	var err error
	for _, child := range n.children {
		if list, err = child.askings(list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *JudgeSpec) asking() *asking {
	a := &asking{Combine: s.combine, ContextTool: s.contextTool, Criteria: digest.ContentOf([]byte(strings.TrimSpace(s.Criteria))), Expects: len(s.Expected) > 0, Files: s.files, Form: s.Form,
		How: s.Form.Texts(), Panel: s.panel, Quorum: s.quorum, Scale: s.Scale, Sees: s.sees, Threshold: s.Threshold, Votes: s.Votes}
	if s.Template != nil {
		a.Prompt = &s.Template.Digest
	}
	return a
}
