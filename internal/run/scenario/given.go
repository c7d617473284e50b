package scenario

import (
	"encoding/json"

	"tallystick/internal/record/canon"
)

// Given are the texts that the case itself brings: what the user says, what the
// agent remembers, its tools with the answers of their fixtures, and the files of
// the working folder. What stands in them is part of the question, and not
// something that changes from run to run.
func (c *Task) Given() []string {
	s := &c.Scenario
	texts := []string{s.Start}
	for _, t := range s.Turns {
		texts = append(texts, t.Text)
	}
	for _, m := range s.Memory {
		texts = append(texts, m.Key, m.Value)
	}
	if data, err := canon.Marshal(s.Tools); err == nil {
		var tools any
		if json.Unmarshal(data, &tools) == nil {
			texts = appendStrings(texts, tools)
		}
	}
	if u := s.User; u != nil {
		texts = append(texts, u.Persona, u.Goal)
		for _, f := range u.Facts {
			texts = append(texts, f.Value)
		}
	}
	for _, f := range c.Files {
		texts = append(texts, f.Path, string(f.Data))
	}
	return texts
}

// appendStrings adds every string of a JSON value, names included.
func appendStrings(list []string, v any) []string {
	switch v := v.(type) {
	case string:
		list = append(list, v)
	case []any:
		for _, x := range v {
			list = appendStrings(list, x)
		}
	case map[string]any:
		for name, x := range v {
			list = appendStrings(append(list, name), x)
		}
	}
	return list
}
