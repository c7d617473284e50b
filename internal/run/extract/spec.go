package extract

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A Spec says what to pick. Kind is always there; which of the other fields
// must be there, may be there and must not depends on it.
type Spec struct {
	Kind Kind `json:"kind"`

	Turn *int            `json:"turn,omitempty"`
	Tier trajectory.Tier `json:"tier,omitempty"`
	Key  string          `json:"key,omitempty"`

	// Event is a type of events; Name narrows it to those about one tool,
	// memory key, agent, rule, path or the like.
	Event trajectory.Type `json:"event,omitempty"`
	Name  string          `json:"name,omitempty"`
	Call  string          `json:"call,omitempty"` // the id of a call
	// Which of several decisions about the same thing: first or last. Without
	// it they must agree.
	Which   string         `json:"which,omitempty"`
	Verdict policy.Verdict `json:"verdict,omitempty"`

	// Vantage says which tool calls count: executed (here), reported (and
	// executed), any (and proposed, stopped or not). Without it a check must
	// hold for those that were made and for those that may have been.
	Vantage string `json:"vantage,omitempty"`

	Path       string `json:"path,omitempty"`
	Expression string `json:"expression,omitempty"`

	// Phase is when the world was asked: before the agent, or after it (if left out).
	Phase string `json:"phase,omitempty"`

	// What to take out of a text: the value at a JSON pointer, or what a
	// pattern matches first (its group, if it has one).
	Pointer *string `json:"pointer,omitempty"`
	Pattern string  `json:"pattern,omitempty"`
}

// maxSpecText bounds keys, names, paths and patterns.
const maxSpecText = 1024

// A field is one optional field of a spec.
type field struct {
	name string
	set  bool
}

func (s *Spec) fields() []field {
	return []field{
		{"turn", s.Turn != nil},
		{"tier", s.Tier != ""},
		{"key", s.Key != ""},
		{"event", s.Event != ""},
		{"name", s.Name != ""},
		{"call", s.Call != ""},
		{"which", s.Which != ""},
		{"verdict", s.Verdict != ""},
		{"vantage", s.Vantage != ""},
		{"path", s.Path != ""},
		{"expression", s.Expression != ""},
		{"phase", s.Phase != ""},
		{"pointer", s.Pointer != nil},
		{"pattern", s.Pattern != ""},
	}
}

// isIn reports whether a field is in a list of some, as a [row] has it.
func isIn(fields, name string) bool { return slices.Contains(strings.Fields(fields), name) }

// A FieldError is a mistake in one field of a spec.
type FieldError struct {
	Field string // "" for the spec as a whole
	Err   error
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *FieldError) Unwrap() error { return e.Err }

func bad(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

// validate checks everything that can be checked without compiling.
func (s *Spec) validate() error {
	row := rows[s.Kind]
	if row == nil {
		return bad("kind", "is %.40q, expected one of %s", string(s.Kind), join(Kinds()))
	}
	for _, f := range s.fields() {
		needed := isIn(row.needs, f.name)
		switch {
		case needed && !f.set:
			return bad("", "an extractor of kind %s needs %s", s.Kind, f.name)
		case f.set && !needed && !isIn(row.fields, f.name):
			return bad(f.name, "an extractor of kind %s has none", s.Kind)
		}
	}
	for _, t := range []struct{ name, value string }{
		{"key", s.Key}, {"name", s.Name}, {"call", s.Call}, {"path", s.Path}, {"pattern", s.Pattern},
	} {
		if len(t.value) > maxSpecText || !utf8.ValidString(t.value) {
			return bad(t.name, "has %d bytes, expected at most %d of UTF-8", len(t.value), maxSpecText)
		}
	}
	for _, check := range []func() error{s.checkTurn, s.checkWords, s.checkPath, s.checkPart} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) checkTurn() error {
	least := 1
	if rows[s.Kind].turnZero {
		least = 0 // before the first turn there is what the case gave
	}
	if s.Turn != nil && (*s.Turn < least || *s.Turn > trajectory.MaxEvents) {
		return bad("turn", "is %d, expected %d or more", *s.Turn, least)
	}
	return nil
}

func (s *Spec) checkWords() error {
	switch {
	case s.Tier != "" && !slices.Contains(tiers(), s.Tier):
		return bad("tier", "is %.40q, expected one of %s", string(s.Tier), join(tiers()))
	case s.Event != "" && !slices.Contains(trajectory.Types(), s.Event):
		return bad("event", "is %.40q, expected one of %s", string(s.Event), join(trajectory.Types()))
	case s.Kind == Tools && s.Event != "" && s.Event != trajectory.ToolProposedType && s.Event != trajectory.ToolExecutedType:
		return bad("event", "is %s, expected tool_proposed or tool_executed", s.Event)
	case s.Kind == Count && s.Name != "" && !isNamed(s.Event):
		return bad("name", "events of type %s have none", s.Event)
	case s.Verdict != "" && s.Event != trajectory.PolicyDecisionType:
		return bad("verdict", "only a policy_decision has one, and event is %s", s.Event)
	case s.Verdict != "" && !s.Verdict.Known():
		return bad("verdict", "is %.40q, expected allow, deny or escalate", string(s.Verdict))
	case s.Vantage != "" && !slices.Contains(vantages, s.Vantage):
		return bad("vantage", "is %.40q, expected %s", s.Vantage, strings.Join(vantages, ", "))
	case s.Vantage != "" && s.Kind == Count && s.Event != trajectory.ToolExecutedType:
		return bad("vantage", "only a tool_executed has one, and event is %s", s.Event)
	case s.Vantage != "" && s.Event == trajectory.ToolProposedType:
		return bad("vantage", "event is %s, which counts all of them", s.Event)
	case s.Phase != "" && s.Phase != trajectory.WorldBefore && s.Phase != trajectory.WorldAfter:
		return bad("phase", "is %.40q, expected before or after", s.Phase)
	case s.Which != "" && s.Which != "first" && s.Which != "last":
		return bad("which", "is %.40q, expected first or last", s.Which)
	}
	return nil
}

// checkPath wants a path that names one file in one way. The working folder is
// the agent's, and a path must not lead out of it.
func (s *Spec) checkPath() error {
	p := s.Path
	if p == "" {
		return nil
	}
	if path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsAny(p, "\\\x00") {
		return bad("path", "is %.100q, expected a path inside the working folder, such as out/report.txt", p)
	}
	return nil
}

func (s *Spec) checkPart() error {
	if s.Pointer != nil && s.Pattern != "" {
		return bad("pattern", "there is a pointer too; take one of them")
	}
	if s.Pointer != nil {
		if _, err := ParsePointer(*s.Pointer); err != nil {
			return &FieldError{"pointer", err}
		}
	}
	return nil
}

var vantages = []string{string(trajectory.Executed), string(trajectory.Reported), anyVantage}

// anyVantage stands for all of them.
const anyVantage = "any"

func tiers() []trajectory.Tier {
	return []trajectory.Tier{trajectory.Working, trajectory.Episodic, trajectory.Semantic, trajectory.Procedural}
}

func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// String describes the spec in a few words, for people.
func (s *Spec) String() string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	for _, part := range []struct{ name, value string }{
		{"", string(s.Event)}, {"", string(s.Verdict)}, {"", s.Name}, {"vantage", s.Vantage}, {"call", s.Call}, {"", s.Which}, {"", s.Path}, {"", s.Phase}, {"", s.Expression},
	} {
		if part.value == "" {
			continue
		}
		b.WriteByte(' ')
		if part.name != "" {
			b.WriteString(part.name + " ")
		}
		b.WriteString(part.value)
	}
	if s.Kind == Memory {
		fmt.Fprintf(&b, " %s:%s", s.Tier, s.Key)
	}
	if s.Turn != nil {
		fmt.Fprintf(&b, " at turn %d", *s.Turn)
	}
	if s.Pointer != nil {
		fmt.Fprintf(&b, ", pointer %q", *s.Pointer)
	}
	if s.Pattern != "" {
		fmt.Fprintf(&b, ", pattern %q", s.Pattern)
	}
	return b.String()
}
