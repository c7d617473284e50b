package scenario

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
)

// UserFile is the script of a case's simulated user, beside scenario.yaml.
const UserFile = "user.star"

// Bounds of a simulated user.
const (
	DefaultUserTurns = 20
	maxUserTurns     = 500
	maxFacts         = 200
	maxUserText      = 64 << 10
	minLookedFor     = 3 // letters and digits of what a message is looked through for
)

// A User answers the agent in place of fixed turns. The case's one turn is how the
// conversation begins; what follows is said by a model that plays the user or, if
// there is a script, by that. What it may say when is looked after by package user:
// one that breaks its rules makes the case unscored.
type User struct {
	// Script is a Starlark program with a function reply(state, message). In a case
	// folder it is the file user.star, and not written here.
	Script string `json:"script,omitempty"`

	Persona string `json:"persona,omitempty"`
	Goal    string `json:"goal"`

	// Facts are what the user knows, and Never what it must not say in any spelling.
	Facts []Fact   `json:"facts,omitempty"`
	Never []string `json:"never,omitempty"`

	// Tools are the user's own, such as a phone in its hand. The agent neither has nor
	// sees them.
	Tools []tools.Definition `json:"tools,omitempty"`

	// Reached says over state, what the user's tools remember, and answer, what the
	// agent said last, whether the goal is reached. Stop ends the conversation when it
	// holds after an answer of the agent.
	Reached string `json:"reached,omitempty"`
	Stop    string `json:"stop,omitempty"`

	// MaxTurns bounds what the user says, the beginning included: 20.
	MaxTurns int `json:"max_turns,omitempty"`
}

// A Fact is something that the user knows, and when it may be said. Without a rule it
// may be said at any time.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`

	// OnlyIfAsked are words of which the agent must have said one.
	OnlyIfAsked []string `json:"only_if_asked,omitempty"`
	// After is what must have happened before.
	After *After `json:"after,omitempty"`
}

// An After names one thing that must have happened: another fact was told, the user
// called a tool of its own without an error, or the agent has answered so many turns.
type After struct {
	Fact string `json:"fact,omitempty"`
	Tool string `json:"tool,omitempty"`
	Turn int    `json:"turn,omitempty"`
}

// HasRule reports whether the fact must not be said at any time.
func (f *Fact) HasRule() bool { return len(f.OnlyIfAsked) > 0 || f.After != nil }

// Most is how often the user may speak.
func (u *User) Most() int {
	if u.MaxTurns == 0 {
		return DefaultUserTurns
	}
	return u.MaxTurns
}

// IsScripted reports whether a script plays the user, and no model is asked.
func (u *User) IsScripted() bool { return u.Script != "" }

func (u *User) validate() error {
	switch {
	case strings.TrimSpace(u.Goal) == "":
		return field("goal", "it is empty, expected what the user wants")
	case u.Script == "" && strings.TrimSpace(u.Persona) == "":
		return field("persona", "it is empty, expected who the user is: a model plays it, since the case has no %s", UserFile)
	case len(u.Goal)+len(u.Persona) > maxUserText:
		return field("persona", "persona and goal have %d bytes, expected at most %d", len(u.Goal)+len(u.Persona), maxUserText)
	case len(u.Script) > maxTextBytes:
		return field("script", "it has %d bytes, expected at most %d", len(u.Script), maxTextBytes)
	case u.MaxTurns < 0 || u.MaxTurns > maxUserTurns:
		return field("max_turns", "found %d, expected 1 to %d", u.MaxTurns, maxUserTurns)
	case len(u.Facts) > maxFacts || len(u.Never) > maxFacts:
		return field("facts", "found %d facts and %d texts in never, expected at most %d of each", len(u.Facts), len(u.Never), maxFacts)
	}
	for i := range u.Facts {
		if err := u.validateFact(i); err != nil {
			return fieldAt("facts", i, err)
		}
	}
	for i, text := range u.Never {
		if err := canBeFound(text); err != nil {
			return fieldAt("never", i, err)
		}
	}
	return u.validateTools()
}

func (u *User) validateFact(i int) error {
	f := &u.Facts[i]
	switch {
	case f.Name == "" || len(f.Name) > 100 || strings.ContainsFunc(f.Name, func(r rune) bool { return !isNameRune(r) }):
		return fmt.Errorf("name: found %.120q, expected 1 to 100 of a-z A-Z 0-9 _ -", f.Name)
	case len(f.Value) > maxUserText || strings.TrimSpace(f.Value) == "":
		return fmt.Errorf("value: it has %d bytes, expected 1 to %d", len(f.Value), maxUserText)
	}
	for k := range u.Facts[:i] {
		if u.Facts[k].Name == f.Name {
			return fmt.Errorf("name: another fact is called %s", f.Name)
		}
	}
	if f.HasRule() {
		if err := canBeFound(f.Value); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	}
	for _, word := range f.OnlyIfAsked {
		if letters(word) == 0 {
			return fmt.Errorf("only_if_asked: found %.100q, expected a word that the agent asks with", word)
		}
	}
	return u.validateAfter(f)
}

func (u *User) validateAfter(f *Fact) error {
	a := f.After
	if a == nil {
		return nil
	}
	given := 0
	for _, is := range []bool{a.Fact != "", a.Tool != "", a.Turn != 0} {
		if is {
			given++
		}
	}
	if given != 1 || a.Turn < 0 {
		return errors.New("after: expected one of fact, tool and turn")
	}
	if a.Fact != "" && (a.Fact == f.Name || u.fact(a.Fact) == nil) {
		return fmt.Errorf("after: fact: found %.100q, expected the name of another fact", a.Fact)
	}
	if a.Fact != "" {
		if err := canBeFound(u.fact(a.Fact).Value); err != nil {
			return fmt.Errorf("after: fact: %s: %w", a.Fact, err)
		}
	}
	if a.Tool != "" && !u.hasTool(a.Tool) {
		return fmt.Errorf("after: tool: found %.100q, expected the name of a tool of the user", a.Tool)
	}
	return nil
}

// fact finds a fact by its name, nil if there is none.
func (u *User) fact(name string) *Fact {
	for i := range u.Facts {
		if u.Facts[i].Name == name {
			return &u.Facts[i]
		}
	}
	return nil
}

func (u *User) hasTool(name string) bool {
	for i := range u.Tools {
		if u.Tools[i].Name == name {
			return true
		}
	}
	return false
}

// validateTools allows fixtures alone: whatever else there is belongs to the agent.
func (u *User) validateTools() error {
	if err := tools.Validate(u.Tools); err != nil {
		return err // with its place, which begins with tools
	}
	for i := range u.Tools {
		if s := u.Tools[i].Source; s != "" && s != tools.Fixture {
			return strictyaml.At([]string{"tools", fmt.Sprint(i), "source"}, fmt.Errorf("found %.40q, expected %s: a tool of the user has its replies in the case", s, tools.Fixture))
		}
		if c := u.Tools[i].Class; c != "" && c != policy.Read && c != policy.Write {
			return strictyaml.At([]string{"tools", fmt.Sprint(i), "class"}, fmt.Errorf("found %.40q, expected %s or %s: no policy is asked about a tool of the user", c, policy.Read, policy.Write))
		}
	}
	return nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// canBeFound refuses a text that stands in every other message: a rule about it could
// not be looked after.
func canBeFound(text string) error {
	if n := letters(text); n < minLookedFor || len(text) > maxUserText || !utf8.ValidString(text) {
		return fmt.Errorf("%.60q has %d letters and digits, expected at least %d: a shorter text stands in every other message, so that the rule could not be looked after", text, n, minLookedFor)
	}
	return nil
}

func letters(text string) (n int) {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}
