package grade

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/extract"
)

// A Spec says how a case is graded: grading.yaml, or the members of a dataset
// line with the same names. There is a grade with an extractor, or a list of
// checks, and either may have expectations beside it.
type Spec struct {
	Version int           `json:"version,omitempty"` // 1
	Extract *extract.Spec `json:"extract,omitempty"` // the final answer, if absent
	Grade   *Rule         `json:"grade,omitempty"`
	Checks  []Check       `json:"checks,omitempty"`

	// Context are the passages that the answer should rest on, in their order. Only
	// judges see them.
	Context []string `json:"context,omitempty"`

	// Expect compares counts: {"tool_calls": ">=1", "status": "completed"}.
	// [Expectations] lists the names.
	Expect map[string]canon.RawMessage `json:"expect,omitempty"`
}

// A Check is one thing that is looked at.
type Check struct {
	Name    string        `json:"name"`
	Extract *extract.Spec `json:"extract,omitempty"`
	Grade   Rule          `json:"grade"`

	// Weight is 1 if absent. A check of weight 0 is looked at and written
	// down, and changes nothing.
	Weight *float64 `json:"weight,omitempty"`

	// FailureMode is recorded when the check does not pass, in place of a
	// code of this package. The registration must list it.
	FailureMode string `json:"failure_mode,omitempty"`
}

// A Rule is one grader. Kind is always there; which of the other fields must be
// there, may be there and must not depends on it.
type Rule struct {
	Kind Kind `json:"kind"`

	// What is expected: as it stands, at a pointer into what the case expects,
	// or a file of expected/. Without any of them, all that the case expects.
	Expected        *canon.RawMessage `json:"expected,omitempty"`
	ExpectedPointer *string           `json:"expected_pointer,omitempty"`
	ExpectedFile    string            `json:"expected_file,omitempty"`

	Normalised bool     `json:"normalised,omitempty"` // contains, one_of: as the grader normalised compares
	Words      bool     `json:"words,omitempty"`      // contains: as whole words, so that B is not in Be
	Keep       []string `json:"keep,omitempty"`       // normalised: case, space, punctuation

	Pattern string `json:"pattern,omitempty"`
	Match   string `json:"match,omitempty"` // whole (the default) or anywhere

	Tolerance    *float64 `json:"tolerance,omitempty"`
	Relative     *float64 `json:"relative,omitempty"`
	Unit         string   `json:"unit,omitempty"`
	UnitRequired bool     `json:"unit_required,omitempty"`
	Find         string   `json:"find,omitempty"` // whole (the default), first or last number in the text

	Expect canon.RawMessage `json:"expect,omitempty"`

	Schema     *canon.RawMessage `json:"schema,omitempty"`
	SchemaFile string            `json:"schema_file,omitempty"`
	Ignore     []string          `json:"ignore,omitempty"` // JSON pointers; * stands for any one name

	Mode string `json:"mode,omitempty"` // strict (the default), unordered, subset, superset
	Args string `json:"args,omitempty"` // exact (the default), subset, superset, ignore

	// Vantage says which calls count, see [extract.Spec].
	Vantage string `json:"vantage,omitempty"`

	Expression string `json:"expression,omitempty"`
	Always     bool   `json:"always,omitempty"`
	AtTurn     *int   `json:"at_turn,omitempty"`

	Criteria     string   `json:"criteria,omitempty"`
	CriteriaFile string   `json:"criteria_file,omitempty"`
	Votes        int      `json:"votes,omitempty"`
	Threshold    *float64 `json:"threshold,omitempty"` // judge, reported: 0.5, weighted: 1

	// What a judge is asked with, what it is shown beside the answer, and what it
	// chooses from. Template names a file of judges/ without its ending.
	Template string             `json:"template,omitempty"`
	Sees     []string           `json:"sees,omitempty"`
	Files    []string           `json:"files,omitempty"` // names or patterns in the working folder
	Scale    *Scale             `json:"scale,omitempty"`
	Choices  map[string]float64 `json:"choices,omitempty"` // label to score
	// ContextTool takes what a tool of the agent gave for the context.
	ContextTool string `json:"context_tool,omitempty"`

	// Panel names judges of judge.yaml, Combine says what their opinions come to,
	// and Quorum how many of them must have one: all, if it is absent.
	Panel   []string `json:"panel,omitempty"`
	Combine string   `json:"combine,omitempty"`
	Quorum  int      `json:"quorum,omitempty"`
	// sql: the script that makes the fixture database, or a file of expected/ with
	// it; whether rows are in order, and columns have names.
	Database     string `json:"database,omitempty"`
	DatabaseFile string `json:"database_file,omitempty"`
	Ordered      bool   `json:"ordered,omitempty"`
	Columns      bool   `json:"columns,omitempty"`

	Model string `json:"model,omitempty"` // embedding: whose vectors are compared

	// program: what is started, the image and the tree that it finds, and how long it
	// may take.
	Command        []string        `json:"command,omitempty"`
	Image          *digest.Content `json:"image,omitempty"`
	Tree           *digest.Content `json:"tree,omitempty"`
	TimeoutSeconds int             `json:"timeout_seconds,omitempty"`

	Scorer string `json:"scorer,omitempty"` // reported: the name of the score; official: whose code

	Checks []Check `json:"checks,omitempty"`
}

// A Scale is a range of whole numbers with anchors that say what some of them
// mean, the lowest and the highest at least.
type Scale struct {
	Anchors map[string]string `json:"anchors"`
}

// Bounds of a spec. It is signed by two people, so they keep mistakes small
// rather than attackers out.
const (
	maxChecks    = 256
	maxDepth     = 4
	maxWeight    = 1000
	maxSpecBytes = 64 << 10 // of criteria, patterns and the like
	maxVotes     = 25
	maxCheckName = 64
)

// A field is one optional field of a rule.
type field struct {
	name string
	set  bool
}

func (r *Rule) fields() []field {
	return []field{
		{"expected", r.Expected != nil},
		{"expected_pointer", r.ExpectedPointer != nil},
		{"expected_file", r.ExpectedFile != ""},
		{"normalised", r.Normalised},
		{"words", r.Words},
		{"keep", len(r.Keep) > 0},
		{"pattern", r.Pattern != ""},
		{"match", r.Match != ""},
		{"tolerance", r.Tolerance != nil},
		{"relative", r.Relative != nil},
		{"unit", r.Unit != ""},
		{"unit_required", r.UnitRequired},
		{"find", r.Find != ""},
		{"expect", len(r.Expect) > 0},
		{"schema", r.Schema != nil},
		{"schema_file", r.SchemaFile != ""},
		{"ignore", len(r.Ignore) > 0},
		{"mode", r.Mode != ""},
		{"args", r.Args != ""},
		{"vantage", r.Vantage != ""},
		{"expression", r.Expression != ""},
		{"always", r.Always},
		{"at_turn", r.AtTurn != nil},
		{"criteria", r.Criteria != ""},
		{"criteria_file", r.CriteriaFile != ""},
		{"votes", r.Votes != 0},
		{"threshold", r.Threshold != nil},
		{"template", r.Template != ""},
		{"sees", len(r.Sees) > 0},
		{"files", len(r.Files) > 0},
		{"scale", r.Scale != nil},
		{"choices", len(r.Choices) > 0},
		{"context_tool", r.ContextTool != ""},
		{"panel", len(r.Panel) > 0},
		{"combine", r.Combine != ""},
		{"quorum", r.Quorum != 0},
		{"database", r.Database != ""},
		{"database_file", r.DatabaseFile != ""},
		{"ordered", r.Ordered},
		{"columns", r.Columns},
		{"model", r.Model != ""},
		{"command", len(r.Command) > 0},
		{"image", r.Image != nil},
		{"tree", r.Tree != nil},
		{"timeout_seconds", r.TimeoutSeconds != 0},
		{"scorer", r.Scorer != ""},
		{"checks", len(r.Checks) > 0},
	}
}

// isIn reports whether a member is in a list of some, as a [kindRow] has it.
func isIn(members, name string) bool { return slices.Contains(strings.Fields(members), name) }

// A placed error is about one field of a spec: path has the keys, and the
// places in lists, that lead to it.
type placed struct {
	path []string
	err  error
}

func (e *placed) Error() string {
	if len(e.path) == 0 {
		return e.err.Error()
	}
	return strings.Join(e.path, ".") + ": " + e.err.Error()
}

func (e *placed) Unwrap() error { return e.err }

// A place is where in a spec something stands.
type place []string

func (p place) in(keys ...string) place { return append(slices.Clip(p), keys...) }

func (p place) bad(format string, args ...any) error { return &placed{p, fmt.Errorf(format, args...)} }

// validate checks everything that needs nothing but the spec.
func (s *Spec) validate() error {
	var at place
	switch {
	case s.Version != 0 && s.Version != 1:
		return at.in("version").bad("is %d, this program knows 1", s.Version)
	case s.Grade != nil && len(s.Checks) > 0:
		return at.in("checks").bad("there is a grade too; make it one of the checks")
	case s.Grade != nil && s.Grade.Kind == Ungraded && len(s.Expect) > 0:
		return at.in("expect").bad("there is something to grade by; take grade: {kind: %s} out", Ungraded)
	case s.Extract != nil && s.Grade == nil:
		return at.in("extract").bad("there is no grade for it")
	case s.Grade == nil && len(s.Checks) == 0 && len(s.Expect) == 0:
		return at.bad("there is no grade, no checks and no expect")
	}
	if err := s.checkContext(at.in("context")); err != nil {
		return err
	}
	names := map[string]bool{}
	if s.Grade != nil {
		if err := s.Grade.validate(at.in("grade"), s.Extract, 0, names); err != nil {
			return err
		}
	}
	if err := checkChecks(at.in("checks"), s.Checks, true, 0, names); err != nil {
		return err
	}
	if len(names)+len(s.Expect) > maxChecks {
		return at.bad("has %d checks, expected at most %d", len(names)+len(s.Expect), maxChecks)
	}
	return nil
}

func checkChecks(at place, checks []Check, weights bool, depth int, names map[string]bool) error {
	for i := range checks {
		c := &checks[i]
		here := at.in(fmt.Sprint(i))
		if err := checkName(here.in("name"), c.Name, names); err != nil {
			return err
		}
		if w := c.Weight; w != nil {
			switch {
			case !(*w >= 0 && *w <= maxWeight):
				return here.in("weight").bad("is %v, expected 0 to %d", *w, maxWeight)
			case !weights && *w != 0:
				return here.in("weight").bad("is %v, but only weighted checks have weights (0 leaves a check out of the count)", *w)
			}
		}
		if m := c.FailureMode; m != "" && isReserved(m) {
			return here.in("failure_mode").bad("%.100q is reserved", m)
		}
		if err := c.Grade.validate(here.in("grade"), c.Extract, depth, names); err != nil {
			return err
		}
	}
	if len(checks) > 0 && !slices.ContainsFunc(checks, func(c Check) bool { return c.Weight == nil || *c.Weight > 0 }) {
		return at.bad("every check has weight 0, so nothing could fail")
	}
	return nil
}

// checkName wants names that can be keys of a score's breakdown.
func checkName(at place, name string, names map[string]bool) error {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.') {
			return at.bad("is %.80q, expected a-z 0-9 . _ -", name)
		}
	}
	switch {
	case name == "" || len(name) > maxCheckName:
		return at.bad("has %d bytes, expected 1 to %d", len(name), maxCheckName)
	case name == breakdownKey:
		return at.bad("%q is the key of the whole grade", name)
	case names[name]:
		return at.bad("there are two checks called %q", name)
	}
	if word := evidence.BannedWord(name); word != "" {
		return at.bad("%q contains %q, which no score may claim", name, word)
	}
	names[name] = true
	return nil
}

func (r *Rule) validate(at place, ex *extract.Spec, depth int, names map[string]bool) error {
	row := rows[r.Kind]
	if row == nil {
		return at.in("kind").bad("is %.40q, expected one of %s", string(r.Kind), join(Kinds()))
	}
	for _, f := range r.fields() {
		needed := isIn(row.needs, f.name)
		switch {
		case needed && !f.set:
			return at.bad("a grader of kind %s needs %s", r.Kind, f.name)
		case f.set && !needed && !isIn(row.members, f.name):
			return at.in(f.name).bad("a grader of kind %s has none", r.Kind)
		}
	}
	for _, f := range []struct {
		name, value string
		words       []string
	}{
		{"match", r.Match, []string{"whole", "anywhere"}},
		{"find", r.Find, []string{"whole", "first", "last"}},
		{"mode", r.Mode, []string{"strict", "unordered", "subset", "superset"}},
		{"args", r.Args, []string{"exact", "subset", "superset", "ignore"}},
	} {
		if f.value != "" && !slices.Contains(f.words, f.value) {
			return at.in(f.name).bad("is %.40q, expected %s", f.value, strings.Join(f.words, ", "))
		}
	}
	for i, word := range r.Keep {
		if !slices.Contains([]string{"case", "space", "punctuation"}, word) || slices.Contains(r.Keep[:i], word) {
			return at.in("keep", fmt.Sprint(i)).bad("is %.40q, expected each of case, space, punctuation at most once", word)
		}
	}
	for _, f := range []struct{ name, value string }{{"pattern", r.Pattern}, {"criteria", r.Criteria}, {"expected_file", r.ExpectedFile}, {"schema_file", r.SchemaFile}, {"criteria_file", r.CriteriaFile}, {"database", r.Database}, {"database_file", r.DatabaseFile}} {
		if len(f.value) > maxSpecBytes || !utf8.ValidString(f.value) {
			return at.in(f.name).bad("has %d bytes, expected at most %d of UTF-8", len(f.value), maxSpecBytes)
		}
	}
	if err := r.checkNumbers(at); err != nil {
		return err
	}
	if err := r.checkExpected(at); err != nil {
		return err
	}
	if row.validate != nil {
		if err := row.validate(at, r); err != nil {
			return err
		}
	}
	if row.looksAt == nothing && ex != nil {
		return at.in("kind").bad("is %s, which takes no extractor", r.Kind)
	}
	if row.combine != nil {
		if depth+1 > maxDepth {
			return at.bad("checks are nested deeper than %d", maxDepth)
		}
		return checkChecks(at.in("checks"), r.Checks, row.weights, depth+1, names)
	}
	return nil
}

func (r *Rule) checkNumbers(at place) error {
	for _, f := range []struct {
		name  string
		value *float64
		most  float64
	}{{"tolerance", r.Tolerance, 1e300}, {"relative", r.Relative, 1e6}, {"threshold", r.Threshold, 1}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.most) {
			return at.in(f.name).bad("is %v, expected 0 to %v", *f.value, f.most)
		}
	}
	switch {
	case r.Threshold != nil && *r.Threshold == 0:
		return at.in("threshold").bad("is 0, which every value reaches")
	case r.AtTurn != nil && *r.AtTurn < 1:
		return at.in("at_turn").bad("is %d, expected 1 or more", *r.AtTurn)
	case r.Votes < 0 || r.Votes > maxVotes:
		return at.in("votes").bad("is %d, expected 1 to %d", r.Votes, maxVotes)
	}
	return nil
}

// checkExpected wants one answer where a rule could give two.
func (r *Rule) checkExpected(at place) error {
	given := 0
	for _, set := range []bool{r.Expected != nil, r.ExpectedPointer != nil, r.ExpectedFile != ""} {
		if set {
			given++
		}
	}
	if given > 1 {
		return at.bad("more than one of expected, expected_pointer and expected_file")
	}
	return nil
}

func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
