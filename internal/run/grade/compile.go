package grade

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// Materials are what a spec refers to: the case and its class.
type Materials struct {
	Expected      canon.RawMessage  // what the case expects, in any spelling; may be nothing
	ExpectedFiles map[string][]byte // of expected/, by path
	Registration  bench.Registration

	// Judges are the templates of the class, by the name of the file in judges/.
	Judges map[string][]byte

	// Tools are all the tools that there are in the case, if nothing else can
	// come up while it runs: then a check of any other is refused. It is nil
	// where an agent may bring its own.
	Tools []string
}

// A grader says what it thinks of a value that was found.
type grader func(v *extract.Value) verdict

// A Grader is a compiled spec. It never changes and may be used by several
// goroutines.
type Grader struct {
	root     *node
	rubric   bool
	programs []ProgramSpec
	judge    bool
	views    bool
	panel    []string
	embeds   []string // models
}

// UsesRubric reports whether grading runs the class's rubric.
func (g *Grader) UsesRubric() bool { return g.rubric }

// UsesJudge reports whether grading asks a model.
func (g *Grader) UsesJudge() bool { return g.judge }

// Judges names the judges of judge.yaml that panels of the spec have.
func (g *Grader) Judges() []string { return g.panel }

// Embedders names the models whose vectors the spec compares.
func (g *Grader) Embedders() []string { return g.embeds }

// ViewsWithJudge reports whether a model may be asked for a second view, which
// changes no score.
func (g *Grader) ViewsWithJudge() bool { return g.views }

// Gold lists the answers that would pass, as far as they are texts or numbers that
// stand in the case: who records a run looks for them in what the agent is shown.
func (g *Grader) Gold() []string { return g.root.gold(nil) }

func (n *node) gold(texts []string) []string {
	switch n.kind {
	case Exact, Normalised, Contains, OneOf, Number, GAIA:
		texts = append(texts, goldTexts(n.expected)...)
	case Official:
		texts = append(texts, officialGold(n.expected, n.scorer)...)
	}
	for _, child := range n.children {
		texts = child.gold(texts)
	}
	return texts
}

// goldTexts are a text, a number, or those of a list.
func goldTexts(expected canon.RawMessage) []string {
	switch expected.Kind() {
	case '"', '0':
		return []string{shownText(expected)}
	case '[':
		var items []canon.RawMessage
		if canon.Unmarshal(expected, &items) != nil {
			return nil
		}
		var texts []string
		for _, item := range items {
			texts = append(texts, goldTexts(item)...)
		}
		return texts
	}
	return nil
}

// A node is one check, or a combination of some.
type node struct {
	name        string // "" for a grade without a name
	kind        Kind
	weight      *big.Rat
	program     *ProgramSpec
	failureMode string

	extractor *extract.Extractor
	expected  canon.RawMessage    // for people; nothing if there is none
	shown     *trajectory.Content // of expected
	grade     grader              // of plain kinds

	condition *condition
	regex     *regexRule
	judge     *JudgeSpec
	sql       *SQLSpec
	embedding *embeddingRule
	calls     *callsRule // of tool_calls
	reported  *reportedRule
	scorer    string // of official

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
	c := compiler{m: m, grader: &Grader{}, context: spec.Context}
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
	// No threshold: every check passes by its own, and the score is their mean.
	c.grader.root = &node{kind: Weighted, children: nodes, weight: one()}
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
	m       Materials
	grader  *Grader
	context []string // passages that the case gives
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
	row := rows[r.Kind]
	n := &node{kind: r.Kind, weight: one(), scorer: r.Scorer}
	if row.combine != nil {
		return n, c.combination(at, n, r)
	}
	if row.looksAt != nothing {
		if r.Vantage != "" {
			if ex != nil {
				return nil, at.in("vantage").bad("there is an extractor too; write it there")
			}
			ex = &extract.Spec{Kind: row.looksAt, Vantage: r.Vantage}
		}
		if err := c.extractor(extractAt, n, ex); err != nil {
			return nil, err
		}
	}
	switch {
	case row.compare != nil:
		return n, c.comparing(at, n, r, row)
	case row.prepare != nil:
		return n, row.prepare(c, at, n, r)
	}
	return n, nil
}

func (c *compiler) combination(at place, n *node, r *Rule) (err error) {
	n.threshold = one()
	if r.Threshold != nil {
		n.threshold = decimal(*r.Threshold)
	}
	n.children, err = c.checks(at.in("checks"), r.Checks)
	return err
}

// extractor compiles what a grader looks at: the final answer, unless the spec
// says otherwise.
func (c *compiler) extractor(at place, n *node, ex *extract.Spec) error {
	if ex == nil {
		ex = &extract.Spec{Kind: cmp.Or(rows[n.kind].looksAt, extract.Answer)}
	}
	var err error
	if ex.Event == trajectory.ToolExecutedType || ex.Event == trajectory.ToolProposedType || ex.Kind == extract.Tools {
		if err := c.toolName(ex.Name); err != nil {
			return &placed{at.in("name"), err}
		}
	}
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

// comparing prepares a grader that compares with an expected value.
func (c *compiler) comparing(at place, n *node, r *Rule, row *kindRow) error {
	var err error
	if n.expected, err = c.expected(at, r, row.fileIsJSON); err != nil {
		return err
	}
	n.grade, err = row.compare(n.expected, r)
	c.grader.views = c.grader.views || r.Kind == GAIA
	if err == nil && r.Kind == ToolCalls {
		err = c.callNames(n, r)
	}
	var inside *placed
	switch {
	case errors.As(err, &inside):
		return &placed{at.in(inside.path...), inside.err}
	case err != nil:
		return &placed{at.in("expected"), err}
	}
	return nil
}

// callNames keeps the rule of a tool_calls and looks at the names in it.
func (c *compiler) callNames(n *node, r *Rule) (err error) {
	if n.calls, err = newCallsRule(n.expected, r.Mode, r.Args); err != nil {
		return err
	}
	for i := range n.calls.want {
		if err := c.toolName(n.calls.want[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// toolName refuses the name of a tool that cannot be called in the case.
func (c *compiler) toolName(name string) error {
	if c.m.Tools == nil || name == "" {
		return nil
	}
	if err := extract.UnknownTool(c.m.Tools, nil, name); err != nil {
		return errors.New(reasonOf(err))
	}
	return nil
}

// expected finds what a rule compares with.
func (c *compiler) expected(at place, r *Rule, fileIsJSON bool) (canon.RawMessage, error) {
	switch {
	case r.Expected != nil:
		data, err := canon.Canonicalize(*r.Expected)
		if err != nil {
			return nil, &placed{at.in("expected"), err}
		}
		return data, nil
	case r.ExpectedFile != "":
		return c.expectedFile(at.in("expected_file"), r.ExpectedFile, fileIsJSON)
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

func (c *compiler) expectedFile(at place, name string, isJSON bool) (canon.RawMessage, error) {
	data, err := c.file(at, name)
	if err != nil {
		return nil, err
	}
	if !isJSON {
		return mustJSON(string(data)), nil
	}
	doc, err := canon.Canonicalize(data)
	if err != nil {
		return nil, &placed{at, fmt.Errorf("expected/%s: %w", name, err)}
	}
	return doc, nil
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
		"files_deleted":      count(trajectory.FileDeletedType),
		"security_events":    count(trajectory.SecurityEventType),
		"limits_reached":     count(trajectory.LimitReachedType),
		"errors":             count(trajectory.ErrorType),
		"tokens":             {Kind: extract.Tokens},
		"cost_microdollars":  {Kind: extract.Cost},
		"turns":              {Kind: extract.Turns},
		"status":             {Kind: extract.Status},
		"test_passed":        {Kind: extract.Test},
		"answer":             {Kind: extract.Answer},

		// As the public examples of agent-fabric spell them.
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
		return nil, at.bad("cannot be expected; what can be: %s, and tool_calls.NAME", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
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
	if err := c.toolName(spec.Name); err != nil {
		return nil, &placed{at, err}
	}
	n := &node{name: name, kind: Compare, weight: one(), expected: raw, grade: comparing.grade}
	return n, c.extractor(at, n, &spec)
}
