package agent

import (
	"fmt"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/wire"
)

// A Builtin is the reference loop: a stateful agent around a model. It is the
// part of a target of kind builtin that says how the loop works. Absent fields
// have the defaults that are given here; docs/builtin-agent.md describes all
// of it.
type Builtin struct {
	Model  string   `json:"model"`
	API    wire.API `json:"api"`
	System string   `json:"system,omitempty"`

	Context *ContextSize `json:"context,omitempty"`

	// MaxSteps bounds the model calls of one turn: 16.
	MaxSteps int `json:"max_steps,omitempty"`

	// Retries is how often a model call that failed for a passing reason is
	// made again: 2.
	Retries *int `json:"retries,omitempty"`

	// MaxOutputTokens bounds a reply. Absent, the server decides, except that
	// an API that wants a number gets 4096.
	MaxOutputTokens int64    `json:"max_output_tokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`

	// Tools are those of the case that the agent may use: all, if absent.
	Tools []string `json:"tools,omitempty"`

	// Abilities are tools of the loop itself: none, if absent.
	Abilities []Ability `json:"abilities,omitempty"`

	// Recall is how many entries of semantic and episodic memory a turn begins
	// with, at most: 8.
	Recall int `json:"recall,omitempty"`

	// Agents are those that the main agent, and they among each other, can
	// hand work to.
	Agents []Helper `json:"agents,omitempty"`

	// Pinned are the digests of the definitions of outside tools that a person
	// has read; see [ToolDigest].
	Pinned map[string]digest.ID `json:"pinned,omitempty"`

	Mitigations *Mitigations `json:"mitigations,omitempty"`
}

// A ContextSize is how much a model is given. Window is what the model can
// take, 128000 tokens. Budget is V_e, what the context compiler may use of it:
// two fifths of the window.
type ContextSize struct {
	Window int64 `json:"window,omitempty"`
	Budget int64 `json:"budget,omitempty"`
}

// A Helper is an agent that others hand work to. Without a model of its own it
// has the target's.
type Helper struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	System      string    `json:"system,omitempty"`
	Model       string    `json:"model,omitempty"`
	Tools       []string  `json:"tools,omitempty"`     // all of the case, if absent
	Abilities   []Ability `json:"abilities,omitempty"` // none, if absent
}

// An Ability is a set of tools that the loop itself has.
type Ability string

// The abilities. Handing work over is there whenever there are agents.
const (
	MemoryAbility   Ability = "memory"   // memory_write and memory_search
	PlanAbility     Ability = "plan"     // plan
	ApprovalAbility Ability = "approval" // ask_approval
)

// Mitigations are defences against what comes from outside. Each is on unless
// it is set to false. None of them trusts the model: they hold though it does
// everything that an attacker's text tells it.
type Mitigations struct {
	// FenceUntrusted marks results of outside tools in the prompt as data, in a
	// fence that the result cannot close.
	FenceUntrusted *bool `json:"fence_untrusted,omitempty"`

	// PinTools shows the words of outside tools about themselves only if a
	// person has read and pinned them, and refuses a tool that is not the one
	// that was pinned, or that hides characters.
	PinTools *bool `json:"pin_tools,omitempty"`

	// GuardMemory has a person approve a memory write that was proposed with
	// untrusted text in the context.
	GuardMemory *bool `json:"guard_memory,omitempty"`

	// ConfirmTainted has a person approve a call that can change or tell the
	// world (any class but read) and was proposed with untrusted text in the
	// context.
	ConfirmTainted *bool `json:"confirm_tainted,omitempty"`

	// IdempotentCalls gives financial calls an idempotency key, and does not
	// make one again that was made.
	IdempotentCalls *bool `json:"idempotent_calls,omitempty"`

	// NarrowHandoffs lets an agent that was handed work use only what the agent
	// before it may use too.
	NarrowHandoffs *bool `json:"narrow_handoffs,omitempty"`
}

// Defaults and bounds.
const (
	defaultWindow    = 128_000
	defaultMaxSteps  = 16
	defaultRetries   = 2
	defaultRecall    = 8
	defaultMaxTokens = 4096 // for an API that wants a number

	maxWindow   = 100_000_000
	maxMaxSteps = 1000
	maxRetries  = 10
	maxRecall   = 256
	maxAgents   = 32
	maxSystem   = 1 << 20
)

// mainAgent is the name of the agent that the user talks to.
const mainAgent = "main"

// Validate checks what the types do not say. Its errors name the field, for
// [strictyaml.Document.Refuse].
func (b *Builtin) Validate() error {
	at := func(format string, args ...any) func(path ...string) error {
		return func(path ...string) error { return strictyaml.At(path, fmt.Errorf(format, args...)) }
	}
	if !b.API.Converses() {
		return at("found %.40q, expected %s", b.API, wire.Expected())("api")
	}
	if b.Model == "" || len(b.Model) > 200 {
		return at("the model's name has %d bytes, expected 1 to 200", len(b.Model))("model")
	}
	if len(b.System) > maxSystem {
		return at("the text has %d bytes, at most %d are accepted", len(b.System), maxSystem)("system")
	}
	window, budget := b.contextSize()
	if window < 1 || window > maxWindow {
		return at("found %d, expected 1 to %d", window, maxWindow)("context", "window")
	}
	if budget < 1 || budget+b.MaxOutputTokens > window || budget >= window {
		return at("found %d, expected less than the window of %d, with room for %d tokens of output", budget, window, b.MaxOutputTokens)("context", "budget")
	}
	for _, n := range []struct {
		field           string
		value, from, to int
	}{{"max_steps", b.maxSteps(), 1, maxMaxSteps}, {"retries", b.retries(), 0, maxRetries}, {"recall", b.recall(), 1, maxRecall}} {
		if n.value < n.from || n.value > n.to {
			return at("found %d, expected %d to %d", n.value, n.from, n.to)(n.field)
		}
	}
	if b.MaxOutputTokens < 0 {
		return at("found %d, expected 1 or more", b.MaxOutputTokens)("max_output_tokens")
	}
	if t := b.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		return at("found %v, expected 0 to 2", *t)("temperature")
	}
	if err := validateAbilities(nil, b.Tools, b.Abilities); err != nil {
		return err
	}
	return b.validateAgents()
}

func validateAbilities(path []string, tools []string, abilities []Ability) error {
	at := func(list string, i int, err error) error {
		return strictyaml.At(append(slices.Clone(path), list, fmt.Sprint(i)), err)
	}
	for i, name := range tools {
		if name == "" || slices.Contains(tools[:i], name) {
			return at("tools", i, fmt.Errorf("the name %.80q is empty or there twice", name))
		}
	}
	for i, a := range abilities {
		switch a {
		case MemoryAbility, PlanAbility, ApprovalAbility:
		default:
			return at("abilities", i, fmt.Errorf("found %.40q, expected %s, %s or %s", a, MemoryAbility, PlanAbility, ApprovalAbility))
		}
		if slices.Contains(abilities[:i], a) {
			return at("abilities", i, fmt.Errorf("%s is there twice", a))
		}
	}
	return nil
}

func (b *Builtin) validateAgents() error {
	if len(b.Agents) > maxAgents {
		return strictyaml.At([]string{"agents"}, fmt.Errorf("found %d agents, at most %d are accepted", len(b.Agents), maxAgents))
	}
	names := []string{mainAgent}
	for i := range b.Agents {
		h, path := &b.Agents[i], []string{"agents", fmt.Sprint(i)}
		switch {
		case !validAgentName(h.Name):
			return strictyaml.At(append(path, "name"), fmt.Errorf("found %.80q, expected 1 to 64 of a-z 0-9 _ -", h.Name))
		case slices.Contains(names, h.Name):
			return strictyaml.At(append(path, "name"), fmt.Errorf("another agent is called %s", h.Name))
		case h.Description == "":
			return strictyaml.At(append(path, "description"), fmt.Errorf("it is empty, and no agent would know what to hand over"))
		case len(h.System) > maxSystem || len(h.Model) > 200 || len(h.Description) > 4096:
			return strictyaml.At(path, fmt.Errorf("system, model or description is too long"))
		}
		if err := validateAbilities(path, h.Tools, h.Abilities); err != nil {
			return err
		}
		names = append(names, h.Name)
	}
	return nil
}

func validAgentName(name string) bool {
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// The settings, with the defaults where nothing is said.

func (b *Builtin) contextSize() (window, budget int64) {
	if b.Context != nil {
		window, budget = b.Context.Window, b.Context.Budget
	}
	if window == 0 {
		window = defaultWindow
	}
	if budget == 0 {
		budget = window * 2 / 5 // an agent works well with about 0.4 of the window
	}
	return window, budget
}

func (b *Builtin) maxSteps() int { return orDefault(b.MaxSteps, defaultMaxSteps) }
func (b *Builtin) recall() int   { return orDefault(b.Recall, defaultRecall) }

func (b *Builtin) retries() int {
	if b.Retries == nil {
		return defaultRetries
	}
	return *b.Retries
}

func (b *Builtin) maxOutput() int64 {
	if b.MaxOutputTokens == 0 && b.API.WantsMaxOutput() {
		window, budget := b.contextSize()
		return min(defaultMaxTokens, window-budget)
	}
	return b.MaxOutputTokens
}

func (b *Builtin) temperature() ([]byte, error) {
	if b.Temperature == nil {
		return nil, nil
	}
	return canon.Marshal(*b.Temperature)
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// on says whether a mitigation is on.
func on(setting *bool) bool { return setting == nil || *setting }

func (b *Builtin) mitigations() Mitigations {
	if b.Mitigations == nil {
		return Mitigations{}
	}
	return *b.Mitigations
}

// Models are those that the target says it asks: the loop's and its helpers'. What
// model a program asks, nothing says.
func (t *Target) Models() []string {
	if t.Builtin == nil {
		return nil
	}
	models := []string{t.Builtin.Model}
	for _, helper := range t.Builtin.Agents {
		if helper.Model != "" {
			models = append(models, helper.Model)
		}
	}
	return models
}
