package trajectory

import (
	"github.com/go-json-experiment/json"

	"tallystick/internal/record/canon"
)

// A Said is what a reply of a model comes to in the output of
// [ModelCallCompleted]: the text alone, or a JSON object if there are calls.
type Said struct {
	Text  string     `json:"text,omitempty"`
	Calls []SaidCall `json:"tool_calls"`
}

// A SaidCall is a tool that the model wants called, with its arguments as the
// model wrote them.
type SaidCall struct {
	Args string `json:"args"`
	Name string `json:"name"`
}

// Output writes what was said. It fails on text that is not UTF-8.
func (s Said) Output() (string, error) {
	if len(s.Calls) == 0 {
		return s.Text, nil
	}
	out, err := canon.Marshal(s)
	return string(out), err
}

// ParseSaid reads an output. What is not such an object is the text itself.
func ParseSaid(output string) Said {
	var s Said
	if len(output) > 0 && output[0] == '{' && json.Unmarshal([]byte(output), &s, json.RejectUnknownMembers(true)) == nil && len(s.Calls) > 0 {
		return s
	}
	return Said{Text: output}
}
