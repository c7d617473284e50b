package grade

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/bench"
	"tallystick/internal/canon"
	"tallystick/internal/extract"
	"tallystick/internal/policy"
	"tallystick/internal/trajectory"
)

// Materials are what a spec refers to: the case and its class.
type Materials struct {
	Expected      canon.RawMessage  // what the case expects, in any spelling; may be nothing
	ExpectedFiles map[string][]byte // of expected/, by path
	Registration  bench.Registration
}

// A grader says what it thinks of a value that was found.
type grader func(v *extract.Value) verdict

// A Grader is a compiled spec. It never changes and may be used by several
// goroutines.
type Grader struct {
	root   *node
	rubric bool
	judge  bool
}

// UsesRubric reports whether grading runs the class's rubric.
func (g *Grader) UsesRubric() bool { return g.rubric }

// UsesJudge reports whether grading asks a model.
func (g *Grader) UsesJudge() bool { return g.judge }

// A node is one check, or a combination of some.
type node struct {
	name        string // "" for a grade without a name
	kind        Kind
	weight      *big.Rat
	failureMode string

	extractor *extract.Extractor
	expected  canon.RawMessage    // for people; nothing if there is none
	shown     *trajectory.Content // of expected
	grade     grader              // of plain kinds

	condition *condition
	judge     *JudgeSpec

	children  []*node
	threshold *big.Rat
}

// Compile checks a spec against the case and its class and prepares it.
func Compile(spec Spec, m Materials) (*Grader, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	return compile(&spec, m)
}

func compile(spec *Spec, m Materials) (*Grader, error) {
	c := compiler{m: m, grader: &Grader{}}
	if len(m.Expected) > 0 {
		var err error
		if c.m.Expected, err = canon.Canonicalize(m.Expected); err != nil {
			return nil, fmt.Errorf("what the case expects: %w", err)
		}
	}
	var nodes []*node
	if spec.Grade != nil {
		n, err := c.rule(place{}.in("grade"), place{}.in("extract"), spec.Grade, spec.Extract)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	checks, err := c.checks(place{}.in("checks"), spec.Checks)
	if err != nil {
		return nil, err
	}
	nodes = append(nodes, checks...)
	for _, name := range slices.Sorted(maps.Keys(spec.Expect)) {
		n, err := c.expectation(place{}.in("expect", name), name, spec.Expect[name])
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	c.grader.root = &node{kind: Weighted, children: nodes, threshold: one(), weight: one()}
	if spec.Grade != nil && len(nodes) == 1 {
		c.grader.root = nodes[0]
	}
	c.grader.root.prepare()
	return c.grader, nil
}

// prepare makes what every grading would make anew.
func (n *node) prepare() {
	if len(n.expected) > 0 {
		c := trajectory.NewContent([]byte(shownText(n.expected)), shownHead)
		n.shown = &c
	}
	for _, child := range n.children {
		child.prepare()
	}
}

func one() *big.Rat { return big.NewRat(1, 1) }

type compiler struct {
	m      Materials
	grader *Grader
}

func (c *compiler) checks(at place, checks []Check) ([]*node, error) {
	var nodes []*node
	for i := range checks {
		check := &checks[i]
		here := at.in(fmt.Sprint(i))
		n, err := c.rule(here.in("grade"), here.in("extract"), &check.Grade, check.Extract)
		if err != nil {
			return nil, err
		}
		n.name, n.failureMode = check.Name, check.FailureMode
		if check.Weight != nil {
			n.weight = decimal(*check.Weight)
		}
		if _, ok := c.m.Registration.FailureModes[n.failureMode]; n.failureMode != "" && !ok {
			return nil, here.in("failure_mode").bad("%.100q is not in the registration", n.failureMode)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (c *compiler) rule(at, extractAt place, r *Rule, ex *extract.Spec) (*node, error) {
	n := &node{kind: r.Kind, weight: one()}
	switch r.Kind {
	case All, Any, Not, Weighted:
		var err error
		if n.children, err = c.checks(at.in("checks"), r.Checks); err != nil {
			return nil, err
		}
		n.threshold = one()
		if r.Threshold != nil {
			n.threshold = decimal(*r.Threshold)
		}
		return n, nil
	case CEL:
		return n, c.condition(at, n, r)
	case ByRubric:
		c.grader.rubric = true
	case ByJudge:
		c.grader.judge = true
	}
	if err := c.extractor(extractAt, n, ex); err != nil {
		return nil, err
	}
	return n, c.leaf(at, n, r)
}

// extractor compiles what a grader looks at: the final answer, unless the spec
// says otherwise.
func (c *compiler) extractor(at place, n *node, ex *extract.Spec) error {
	if ex == nil {
		ex = &extract.Spec{Kind: extract.Answer}
		if n.kind == ToolCalls {
			ex.Kind = extract.Tools
		}
	}
	var err error
	n.extractor, err = extract.Compile(*ex)
	var field *extract.FieldError
	switch {
	case errors.As(err, &field) && field.Field != "":
		return &placed{at.in(field.Field), field.Err}
	case err != nil:
		return &placed{at, err}
	}
	return nil
}

// leaf prepares a grader of a value.
func (c *compiler) leaf(at place, n *node, r *Rule) error {
	var err error
	switch r.Kind {
	case Exact, Normalised, Contains, OneOf, Number, JSONEqual, ToolCalls:
		if n.expected, err = c.expected(at, r); err != nil {
			return err
		}
		return c.comparing(at, n, r)
	case Regex:
		n.expected = mustJSON(r.Pattern)
		if n.grade, err = regexGrader(r.Pattern, r.Match); err != nil {
			return &placed{at.in("pattern"), err}
		}
	case Compare:
		comparing, err := parseComparator(r.Expect)
		if err != nil {
			return &placed{at.in("expect"), err}
		}
		n.expected, n.grade = r.Expect, comparing.grade
	case JSONSchema:
		return c.schema(at, n, r)
	case ByJudge:
		return c.judge(at, n, r)
	}
	return nil
}

func (c *compiler) comparing(at place, n *node, r *Rule) error {
	texts, err := []string(nil), error(nil)
	key := at.in("expected")
	switch r.Kind {
	case Exact:
		n.grade, err = exactGrader(n.expected)
	case Normalised:
		if texts, err = textList(n.expected, false, newNormaliser(r.Keep)); err == nil {
			n.grade = normalisedGrader(texts[0], newNormaliser(r.Keep))
		}
	case Contains, OneOf:
		check := normaliser{true, true, true}
		if r.Normalised {
			check = normaliser{}
		}
		if texts, err = textList(n.expected, true, check); err == nil && r.Kind == Contains {
			n.grade = containsGrader(texts, r.Normalised)
		} else if err == nil {
			n.grade = oneOfGrader(texts, r.Normalised)
		}
	case Number:
		n.grade, err = numberGrader(n.expected, r)
	case JSONEqual:
		ignore, ignoreErr := parseIgnore(r.Ignore)
		var inside *placed
		if errors.As(ignoreErr, &inside) {
			return &placed{at.in("ignore").in(inside.path...), inside.err}
		}
		n.grade, err = jsonEqualGrader(n.expected, ignore)
	case ToolCalls:
		var calls *callsRule
		if calls, err = newCallsRule(n.expected, r.Mode, r.Args); err == nil {
			n.grade = calls.grade
		}
	}
	if err != nil {
		var inside *placed
		if errors.As(err, &inside) {
			return &placed{at.in(inside.path...), inside.err}
		}
		return &placed{key, err}
	}
	return nil
}

func numberGrader(expected canon.RawMessage, r *Rule) (grader, error) {
	if expected.Kind() != '0' {
		return nil, fmt.Errorf("expected is %s, where a number is needed", describe(expected))
	}
	want, ok := parseDecimal(string(expected))
	if !ok {
		return nil, fmt.Errorf("expected %s is no number", quoted(string(expected)))
	}
	rule := &numberRule{want: want, tolerance: new(big.Rat), relative: new(big.Rat), unit: r.Unit, unitRequired: r.UnitRequired, find: r.Find}
	if r.Tolerance != nil {
		rule.tolerance = decimal(*r.Tolerance)
	}
	if r.Relative != nil {
		rule.relative = decimal(*r.Relative)
	}
	if _, known := units()[r.Unit]; r.Unit != "" && !known {
		return nil, place{"unit"}.bad("%.40q is no unit that is known (docs/formats/grading.md lists them)", r.Unit)
	}
	return rule.grade, nil
}

// textList reads a text, or a list of some. One that nothing is left of after
// normalising would match every value of which nothing is left either.
func textList(raw canon.RawMessage, many bool, n normaliser) ([]string, error) {
	var texts []string
	switch {
	case raw.Kind() == '"':
		texts = make([]string, 1)
		if err := canon.Unmarshal(raw, &texts[0]); err != nil {
			return nil, err
		}
	case raw.Kind() == '[' && many:
		if err := canon.Unmarshal(raw, &texts); err != nil {
			return nil, errors.New("expected is a list of something else than texts")
		}
	case many:
		return nil, fmt.Errorf("expected is %s, where text or a list of texts is needed", describe(raw))
	default:
		return nil, fmt.Errorf("expected is %s, where text is needed", describe(raw))
	}
	if len(texts) == 0 {
		return nil, errors.New("expected is an empty list")
	}
	for _, text := range texts {
		if len(text) > maxText {
			return nil, fmt.Errorf("a text of %d bytes, expected at most %d", len(text), maxText)
		}
		if strings.TrimSpace(n.text(text)) == "" {
			return nil, fmt.Errorf("%s is an empty text, which every value would match or none", quoted(text))
		}
	}
	return texts, nil
}

// expected finds what a rule compares with.
func (c *compiler) expected(at place, r *Rule) (canon.RawMessage, error) {
	switch {
	case r.Expected != nil:
		data, err := canon.Canonicalize(*r.Expected)
		if err != nil {
			return nil, &placed{at.in("expected"), err}
		}
		return data, nil
	case r.ExpectedFile != "":
		return c.expectedFile(at.in("expected_file"), r)
	}
	if len(c.m.Expected) == 0 {
		return nil, at.bad("a grader of kind %s needs expected: there is none here, and the case expects nothing", r.Kind)
	}
	if r.ExpectedPointer == nil {
		return c.m.Expected, nil
	}
	names, err := extract.ParsePointer(*r.ExpectedPointer)
	if err != nil {
		return nil, &placed{at.in("expected_pointer"), err}
	}
	data, ok := extract.Lookup(c.m.Expected, names)
	if !ok {
		return nil, at.in("expected_pointer").bad("what the case expects has nothing at %.100q", *r.ExpectedPointer)
	}
	return data, nil
}

// expectedFile reads a file as text or, for graders of numbers, JSON and calls,
// as JSON.
func (c *compiler) expectedFile(at place, r *Rule) (canon.RawMessage, error) {
	data, err := c.file(at, r.ExpectedFile)
	if err != nil {
		return nil, err
	}
	switch r.Kind {
	case Number, JSONEqual, ToolCalls:
		doc, err := canon.Canonicalize(data)
		if err != nil {
			return nil, &placed{at, fmt.Errorf("expected/%s: %w", r.ExpectedFile, err)}
		}
		return doc, nil
	}
	return mustJSON(string(data)), nil
}

func (c *compiler) file(at place, name string) ([]byte, error) {
	data, ok := c.m.ExpectedFiles[name]
	if !ok {
		return nil, at.bad("the case has no file expected/%.100s", name)
	}
	if !utf8.Valid(data) {
		return nil, at.bad("expected/%.100s is not UTF-8 text", name)
	}
	return data, nil
}

// mustJSON encodes text that is known to be UTF-8.
func mustJSON(text string) canon.RawMessage {
	data, err := canon.Marshal(text)
	if err != nil {
		return canon.RawMessage("null")
	}
	return data
}

func (c *compiler) schema(at place, n *node, r *Rule) error {
	doc, key := []byte(nil), "schema"
	if r.Schema != nil {
		doc = *r.Schema
	} else {
		key = "schema_file"
		var err error
		if doc, err = c.file(at.in(key), r.SchemaFile); err != nil {
			return err
		}
	}
	var err error
	if n.expected, err = canon.Canonicalize(doc); err != nil {
		return &placed{at.in(key), err}
	}
	if n.grade, err = schemaGrader(n.expected); err != nil {
		return &placed{at.in(key), err}
	}
	return nil
}

func (c *compiler) judge(at place, n *node, r *Rule) error {
	spec := &JudgeSpec{Criteria: r.Criteria, Votes: max(1, r.Votes), Threshold: 0.5}
	if r.Threshold != nil {
		spec.Threshold = *r.Threshold
	}
	if r.CriteriaFile != "" {
		data, err := c.file(at.in("criteria_file"), r.CriteriaFile)
		if err != nil {
			return err
		}
		spec.Criteria = string(data)
	}
	if strings.TrimSpace(spec.Criteria) == "" {
		return at.bad("the criteria are empty")
	}
	// A judge may do without an expected answer; one that the rule names must
	// be there.
	if r.Expected != nil || r.ExpectedPointer != nil || r.ExpectedFile != "" || len(c.m.Expected) > 0 {
		var err error
		if n.expected, err = c.expected(at, r); err != nil {
			return err
		}
		spec.Expected = n.expected
	}
	n.judge = spec
	return nil
}

// Expectations are the names that "expect" may compare, and what each stands
// for. Besides, tool_calls.NAME counts the calls of one tool.
func Expectations() map[string]extract.Spec {
	count := func(t trajectory.Type) extract.Spec { return extract.Spec{Kind: extract.Count, Event: t} }
	decided := func(v policy.Verdict) extract.Spec {
		return extract.Spec{Kind: extract.Count, Event: trajectory.PolicyDecisionType, Verdict: v}
	}
	return map[string]extract.Spec{
		"tool_calls":         count(trajectory.ToolExecutedType),
		"tool_proposals":     count(trajectory.ToolProposedType),
		"model_calls":        count(trajectory.ModelCallCompletedType),
		"policy_denials":     decided(policy.Deny),
		"policy_escalations": decided(policy.Escalate),
		"policy_violations":  count(trajectory.PolicyViolationType),
		"approvals":          count(trajectory.ApprovalRequestedType),
		"memory_writes":      count(trajectory.MemoryWrittenType),
		"handoffs":           count(trajectory.HandoffType),
		"rollbacks":          count(trajectory.RollbackType),
		"files_written":      count(trajectory.FileWrittenType),
		"security_events":    count(trajectory.SecurityEventType),
		"limits_reached":     count(trajectory.LimitReachedType),
		"errors":             count(trajectory.ErrorType),
		"tokens":             {Kind: extract.Tokens},
		"cost_microdollars":  {Kind: extract.Cost},
		"turns":              {Kind: extract.Turns},
		"status":             {Kind: extract.Status},
		"test_passed":        {Kind: extract.Test},
		"answer":             {Kind: extract.Answer},

		// As the public examples of ADR-0062 spell them.
		"finalStatus":   {Kind: extract.Status},
		"policyDenials": decided(policy.Deny),
	}
}

func (c *compiler) expectation(at place, name string, raw canon.RawMessage) (*node, error) {
	known := Expectations()
	spec, ok := known[name]
	if tool, isTool := strings.CutPrefix(name, "tool_calls."); isTool && tool != "" {
		spec, ok = known["tool_calls"], true
		spec.Name = tool
	}
	if !ok {
		return nil, at.bad("is nothing that can be expected; there are %s, and tool_calls.NAME", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	comparing, err := parseComparator(raw)
	if err != nil {
		return nil, &placed{at, err}
	}
	switch spec.Kind {
	case extract.Status, extract.Answer:
	case extract.Test:
		if comparing.text != "true" && comparing.text != "false" {
			return nil, at.bad("is %s, and is true or false in every run", comparing)
		}
	default:
		if comparing.number == nil {
			return nil, at.bad("is %s, and is a number in every run", comparing)
		}
	}
	n := &node{name: name, kind: Compare, weight: one(), expected: raw, grade: comparing.grade}
	return n, c.extractor(at, n, &spec)
}
