package scenario

import (
	"strings"
	"testing"

	"tallystick/internal/run/tools"
)

// TestAUserThatCannotBeLookedAfterIsRefused, each with where it is wrong.
func TestAUserThatCannotBeLookedAfterIsRefused(t *testing.T) {
	look := tools.Definition{Name: "look", Class: "read", Replies: []tools.Reply{{Error: "no"}}}
	for name, tt := range map[string]struct {
		change func(*Scenario)
		want   string // "" if it is accepted
	}{
		"as it should be":              {func(*Scenario) {}, ""},
		"two turns":                    {func(s *Scenario) { s.Turns = append(s.Turns, Turn{"more"}) }, "expected one turn: how the user begins"},
		"no goal":                      {func(s *Scenario) { s.User.Goal = " " }, "user.goal: it is empty"},
		"a model without a persona":    {func(s *Scenario) { s.User.Persona = "" }, "user.persona: it is empty"},
		"a script without a persona":   {func(s *Scenario) { s.User.Persona, s.User.Script = "", "x" }, ""},
		"too many turns":               {func(s *Scenario) { s.User.MaxTurns = 501 }, "user.max_turns: found 501"},
		"a short secret":               {func(s *Scenario) { s.User.Never = []string{"sunflower", "- 4 -"} }, "user.never.1: \"- 4 -\" has 1 letters"},
		"a short fact with a rule":     {func(s *Scenario) { s.User.Facts[0].Value = "on" }, "user.facts.0: value: \"on\" has 2 letters"},
		"a short fact without one":     {func(s *Scenario) { s.User.Facts[0] = Fact{Name: "a", Value: "on"} }, ""},
		"two facts of one name":        {func(s *Scenario) { s.User.Facts = append(s.User.Facts, s.User.Facts[0]) }, "user.facts.1: name: another fact is called number"},
		"a word that asks for nothing": {func(s *Scenario) { s.User.Facts[0].OnlyIfAsked = []string{"?"} }, "only_if_asked: found \"?\""},
		"after itself":                 {func(s *Scenario) { s.User.Facts[0].After = &After{Fact: "number"} }, "after: fact: found \"number\""},
		"after no tool":                {func(s *Scenario) { s.User.Facts[0].After = &After{Tool: "press"} }, "after: tool: found \"press\""},
		"after two things":             {func(s *Scenario) { s.User.Facts[0].After = &After{Tool: "look", Turn: 1} }, "after: expected one of"},
		"after a tool":                 {func(s *Scenario) { s.User.Facts[0].After = &After{Tool: "look"} }, ""},
		"after a fact that nobody could hear": {func(s *Scenario) {
			s.User.Facts = append(s.User.Facts, Fact{Name: "b", Value: "no"})
			s.User.Facts[0].After = &After{Fact: "b"}
		}, "after: fact: b: \"no\" has 2 letters"},
		"a tool that acts on money": {func(s *Scenario) { s.User.Tools[0].Class = "financial" }, "user.tools.0.class: found \"financial\""},
		"a tool of a server":        {func(s *Scenario) { s.User.Tools[0].Source, s.User.Tools[0].Replies = "mcp:x", nil }, "user.tools.0.source: found \"mcp:x\""},
	} {
		s := &Scenario{Version: 1, Turns: []Turn{{Text: "hello"}}, User: &User{Goal: "g", Persona: "p", Tools: []tools.Definition{look},
			Facts: []Fact{{Name: "number", Value: "0151 2345", OnlyIfAsked: []string{"number"}}}}}
		tt.change(s)
		err := s.Validate()
		if got := errorText(err); tt.want == "" && err != nil || tt.want != "" && !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, expected %q", name, got, tt.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
