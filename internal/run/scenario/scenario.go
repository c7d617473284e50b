// Package scenario reads what a case asks of an agent: what the user says, the
// tools there are, how approvals are answered, what the working folder holds.
//
// A case is written as a folder (scenario.yaml beside input/ and expected/) or
// as one line of dataset.jsonl. Both become a [Task]. Everything comes from
// verified bytes of a bench; this package checks shape and meaning and runs
// nothing. docs/formats/scenario.md has the format.
package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/pattern"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// Bounds that keep a case within what one run can hold.
const (
	maxTurns     = 10_000
	maxReplies   = 100_000
	maxSeconds   = 24 * 60 * 60
	maxTextBytes = 1 << 20
	maxTestName  = 1000
)

// A Scenario is scenario.yaml.
type Scenario struct {
	Version int `json:"version"`

	// Turns are what the user says, one after the other.
	Turns []Turn `json:"turns"`

	// User, if there is one, says everything after the first turn.
	User *User `json:"user,omitempty"`

	// Approvals answer what the policy escalates. The first that fits answers.
	Approvals []Approval `json:"approvals,omitempty"`

	// Start is the logical date and time at which the case begins, for rules
	// with a time window.
	Start string `json:"start,omitempty"`

	// Memory is what the agent knows before the first turn.
	Memory []Memory `json:"memory,omitempty"`

	// Tree names a list of files in the class's [bench.TreesFile]. The working
	// folder begins with them, and with those of input/.
	Tree *digest.Content `json:"tree,omitempty"`

	// Repository says which commit of which repository the case is made of.
	Repository *Repository `json:"repository,omitempty"`

	Tools []tools.Definition `json:"tools,omitempty"`

	// AgentTools are tools that the agent has in its own process, so that
	// checks can name them. The registration may list some for all cases.
	AgentTools []string `json:"agent_tools,omitempty"`

	// Model stands in for a recording: replies that a person wrote, chosen by
	// what is asked. A run that used them is authored and shows nothing about a
	// model's ability.
	Model []Reply `json:"model,omitempty"`

	// Test is the command of a coding case. The harness runs it on the working
	// folder after the agent has ended, and the outcome follows from it.
	Test *Test `json:"test,omitempty"`

	// World is the program that the agent acts on.
	World *World `json:"world,omitempty"`
}

// A Turn is one message of the user.
type Turn struct {
	Text string `json:"text"`
}

// An Approval is the case's answer to an escalation.
type Approval struct {
	Action  policy.Action `json:"action"`
	Name    string        `json:"name"` // of the tool, memory key, agent or question; "*" for any
	Approve bool          `json:"approve"`
	Note    string        `json:"note,omitempty"`
	Times   int           `json:"times,omitempty"` // how often it answers; always if absent
}

// A Memory is an entry that is there from the start.
type Memory struct {
	Tier  trajectory.Tier `json:"tier"`
	Key   string          `json:"key"`
	Value string          `json:"value"`
}

// A Test is the command that decides a coding case.
type Test struct {
	Command        []string `json:"command"`
	TimeoutSeconds int      `json:"timeout_seconds"`

	// Editable are patterns of the paths that an agent may change, all but
	// those that steer tests if there are none; see [Control]. Files are
	// patterns of further files that belong to the test.
	Editable []string `json:"editable,omitempty"`
	Files    []string `json:"files,omitempty"`

	// Output is an RE2 pattern that the output of a test that passes matches,
	// besides an exit status of 0.
	Output string `json:"output,omitempty"`

	// Overlay puts the hidden tests into the folder, over whatever is there,
	// besides showing them.
	Overlay bool `json:"overlay,omitempty"`

	// MustPass names tests that the output has to report as passed, and none of
	// them as failed: a line of JSON for each, as "go test -json" prints it. A
	// name is that of the package and that of the test, with a blank between.
	MustPass []string `json:"must_pass,omitempty"`

	// Image is the root file system that the test finds, by the digest of an image in the
	// cache. The workspace's test_image if empty.
	Image string `json:"image,omitempty"`
}

func (t *Test) validate() error {
	if len(t.Command) == 0 || t.Command[0] == "" || t.TimeoutSeconds < 1 || t.TimeoutSeconds > maxSeconds {
		return fmt.Errorf("expected a command and timeout_seconds of 1 to %d", maxSeconds)
	}
	for _, p := range append(slices.Clone(t.Editable), t.Files...) {
		parts := strings.Split(p, "/")
		if _, err := path.Match(p, ""); err != nil || !fs.ValidPath(p) || p == "." || len(parts) > 32 || strings.Count(p, "**") > 2 {
			return fmt.Errorf("found the pattern %.100q, expected a relative path with slashes, *, ? and at most two **", p)
		}
	}
	for _, name := range t.MustPass {
		if pkg, test, ok := strings.Cut(name, " "); !ok || pkg == "" || test == "" || len(name) > maxTestName {
			return fmt.Errorf("must_pass: found %.100q, expected a package, a blank and a test, in at most %d bytes", name, maxTestName)
		}
	}
	if _, err := digest.ParseContent(t.Image); t.Image != "" && err != nil {
		return fmt.Errorf("image: found %.100q, expected blake3: and 64 hex digits", t.Image)
	}
	if _, err := t.OutputPattern(); err != nil || len(t.Output) > 1000 {
		return fmt.Errorf("output: found %.100q, expected an RE2 pattern of at most 1000 bytes", t.Output)
	}
	return nil
}

// OutputPattern is what the output of a test that passes has in it.
func (t *Test) OutputPattern() (*pattern.Pattern, error) { return pattern.Compile(t.Output) }

// A Reply is one answer of an authored model. Replies are tried in order; the
// first that fits and has not been used up answers.
type Reply struct {
	// For is the party that may be given the reply: agent, judge or user. See
	// [Parties] for one that does not say.
	For       cassette.Purpose `json:"for,omitempty"`
	When      *When            `json:"when,omitempty"`
	Text      string           `json:"text,omitempty"`
	ToolCalls []Call           `json:"tool_calls,omitempty"`
	Refusal   string           `json:"refusal,omitempty"`

	// Repeat lets the reply answer any number of times, not just once.
	Repeat bool `json:"repeat,omitempty"`

	TokensIn     int64 `json:"tokens_in,omitempty"`
	TokensOut    int64 `json:"tokens_out,omitempty"`
	CostMicroUSD int64 `json:"cost_microdollars,omitempty"`
	LatencyMS    int64 `json:"latency_ms,omitempty"`
	// Unpriced says that what the reply cost is not known: one that was made of a
	// run whose call had no price or no usage.
	Unpriced bool `json:"unpriced,omitempty"`

	// Status answers with an HTTP error instead.
	Status int `json:"status,omitempty"`
}

// When says what a request must be like. All that is given must hold.
type When struct {
	Contains string `json:"contains,omitempty"` // somewhere in the request: tools, system text, messages
	Lacks    string `json:"lacks,omitempty"`    // nowhere in them
	Last     string `json:"last,omitempty"`     // in the last text
	Turn     int    `json:"turn,omitempty"`
	Agent    string `json:"agent,omitempty"` // the model that is asked for
}

// A Call is a tool call that an authored reply makes.
type Call struct {
	Name string          `json:"name"`
	Args *map[string]any `json:"args,omitempty"`
	// Arguments is another name of Args, the one that every API has.
	Arguments *map[string]any `json:"arguments,omitempty"`
}

// Given are the arguments, by whichever name.
func (c *Call) Given() map[string]any {
	switch {
	case c.Args != nil:
		return *c.Args
	case c.Arguments != nil:
		return *c.Arguments
	}
	return nil
}

func (c *Call) validate() error {
	if c.Args != nil && c.Arguments != nil {
		return field("arguments", "args is there too, expected one of the two")
	}
	return nil
}

func field(name string, format string, args ...any) error {
	return strictyaml.At([]string{name}, fmt.Errorf(format, args...))
}

func fieldAt(name string, i int, err error) error {
	return strictyaml.At([]string{name, fmt.Sprint(i)}, err)
}

// Validate checks what the types do not say.
func (s *Scenario) Validate() error {
	if s.Version != 1 {
		return field("version", "found %d, this program knows 1", s.Version)
	}
	if len(s.Turns) == 0 || len(s.Turns) > maxTurns {
		return field("turns", "found %d turns, expected 1 to %d", len(s.Turns), maxTurns)
	}
	for i, t := range s.Turns {
		if t.Text == "" || len(t.Text) > maxTextBytes {
			return fieldAt("turns", i, fmt.Errorf("the text has %d bytes, expected 1 to %d", len(t.Text), maxTextBytes))
		}
	}
	if s.User != nil {
		if len(s.Turns) > 1 {
			return field("turns", "found %d turns and a user, expected one turn: how the user begins", len(s.Turns))
		}
		if err := s.User.validate(); err != nil {
			if at := strictyaml.PathOf(err); at != nil {
				return strictyaml.At(append([]string{"user"}, at...), errors.Unwrap(err))
			}
			return field("user", "%w", err)
		}
	}
	for i, a := range s.Approvals {
		if err := a.validate(); err != nil {
			return fieldAt("approvals", i, err)
		}
	}
	if _, err := s.StartTime(); err != nil {
		return field("start", "%w", err)
	}
	for i, m := range s.Memory {
		if err := m.validate(); err != nil {
			return fieldAt("memory", i, err)
		}
	}
	if err := tools.Validate(s.Tools); err != nil {
		return err // with its place, which begins with tools
	}
	if err := s.validateWorld(); err != nil {
		return err
	}
	if err := bench.CheckAgentTools("agent_tools", s.AgentTools); err != nil {
		return err
	}
	if len(s.Model) > maxReplies {
		return field("model", "found %d replies, at most %d are accepted", len(s.Model), maxReplies)
	}
	for i := range s.Model {
		if err := s.Model[i].validate(); err != nil {
			return fieldAt("model", i, err)
		}
	}
	if s.Test != nil {
		if err := s.Test.validate(); err != nil {
			return field("test", "%w", err)
		}
	}
	return nil
}

// StartTime is when the case begins, the zero time if it does not say.
func (s *Scenario) StartTime() (time.Time, error) {
	if s.Start == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse("2006-01-02T15:04:05Z", s.Start)
	if err != nil {
		return time.Time{}, fmt.Errorf("found %q, expected a time such as 2026-05-01T09:00:00Z", s.Start)
	}
	return t, nil
}

func (a *Approval) validate() error {
	switch {
	case !a.Action.Known():
		return fmt.Errorf("no action is called %q, expected one of %v", a.Action, policy.Actions())
	case a.Name == "":
		return fmt.Errorf(`the name is empty, expected a name or "*"`)
	case a.Times < 0:
		return fmt.Errorf("times is %d, expected 1 or more", a.Times)
	}
	return nil
}

func (m *Memory) validate() error {
	switch m.Tier {
	case trajectory.Working, trajectory.Episodic, trajectory.Semantic, trajectory.Procedural:
	default:
		return fmt.Errorf("no tier is called %q, expected working, episodic, semantic or procedural", m.Tier)
	}
	if m.Key == "" || m.Value == "" {
		return fmt.Errorf("key or value is empty")
	}
	return nil
}

func (r *Reply) validate() error {
	kinds := 0
	for _, given := range []bool{r.Text != "" || len(r.ToolCalls) > 0, r.Refusal != "", r.Status != 0} {
		if given {
			kinds++
		}
	}
	switch {
	case r.For != "" && r.For != cassette.ForAgent && r.For != cassette.ForJudge && r.For != cassette.ForUser:
		return fmt.Errorf("for is %.40q, expected %s, %s or %s", r.For, cassette.ForAgent, cassette.ForJudge, cassette.ForUser)
	case kinds != 1:
		return fmt.Errorf("expected text or tool_calls, or a refusal, or a status")
	case r.Status != 0 && (r.Status < 400 || r.Status > 599):
		return fmt.Errorf("status is %d, expected 400 to 599", r.Status)
	case r.Unpriced && r.CostMicroUSD != 0:
		return fmt.Errorf("the reply has a cost and is unpriced, expected one of them")
	case r.TokensIn < 0 || r.TokensOut < 0 || r.CostMicroUSD < 0 || r.LatencyMS < 0:
		return fmt.Errorf("tokens, cost or latency is negative")
	}
	for _, c := range r.ToolCalls {
		if c.Name == "" {
			return fmt.Errorf("a tool call without a name")
		}
		if err := c.validate(); err != nil {
			return err
		}
	}
	return nil
}
