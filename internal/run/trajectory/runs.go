package trajectory

import (
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/vantage"
)

// Format names the format, in every run_started.
const Format = "tallystick-trajectory/" + format.Version

// RunStartedType is the type of [RunStarted].
const RunStartedType Type = "run_started"

// RunStarted is the first event of every trajectory.
type RunStarted struct {
	Attempt     string           `json:"attempt"`
	Case        string           `json:"case"`
	Class       string           `json:"class"`
	Execution   int              `json:"execution"` // from 1
	Format      string           `json:"format"`
	Governance  policy.Mode      `json:"governance"`
	Input       *Content         `json:"input,omitempty"`
	Policy      digest.ID        `json:"policy"`
	PolicyShort policy.ShortHash `json:"policy_short"`
	Repeat      int              `json:"repeat"` // from 1
	Target      string           `json:"target"`
	Vantage     vantage.Vantage  `json:"vantage,omitempty"`
}

// Type is run_started.
func (*RunStarted) Type() Type { return RunStartedType }

// Summary tells it in a line.
func (p *RunStarted) Summary() string {
	return fmt.Sprintf("case %s of %s, repetition %d, by %s in %s mode", p.Case, p.Class, p.Repeat, p.Target, p.Governance)
}

// Subject reports that there is none.
func (*RunStarted) Subject() (string, bool) { return "", false }

func (*RunStarted) golden() golden {
	return golden{line: []string{"case", "governance"}, without: []string{"attempt", "execution", "repeat", "target", "vantage"}}
}

// RunCompletedType is the type of [RunCompleted].
const RunCompletedType Type = "run_completed"

// RunCompleted ends a run that came to its own end. Status is completed,
// refused (the agent would not do it) or suspended (an approval is open).
type RunCompleted struct {
	Answer *Content `json:"answer,omitempty"`
	Status string   `json:"status"`
}

// Type is run_completed.
func (*RunCompleted) Type() Type { return RunCompletedType }

// Summary tells it in a line.
func (p *RunCompleted) Summary() string { return p.Status }

// Subject reports that there is none.
func (*RunCompleted) Subject() (string, bool) { return "", false }

func (*RunCompleted) golden() golden {
	return golden{line: []string{"status"}, changes: []change{{ChangedAnswer, []string{"answer", "status"}}}}
}

// RunFailedType is the type of [RunFailed].
const RunFailedType Type = "run_failed"

// RunFailed ends a run that broke: the target died, a cassette missed, a limit
// was reached. Name is the stable name of the refusal.
type RunFailed struct {
	Detail string `json:"detail"`
	Name   string `json:"name"`
}

// Type is run_failed.
func (*RunFailed) Type() Type { return RunFailedType }

// Summary tells it in a line.
func (p *RunFailed) Summary() string { return p.Name + ": " + p.Detail }

// Subject reports that there is none.
func (*RunFailed) Subject() (string, bool) { return "", false }

func (*RunFailed) golden() golden {
	return golden{line: []string{"name"}}
}

// TurnStartedType is the type of [TurnStarted].
const TurnStartedType Type = "turn_started"

// TurnStarted begins a turn. It counts the turns: the first has turn 1. By says that a
// simulated user said it; without it these are the words of the case.
type TurnStarted struct {
	Agent string   `json:"agent,omitempty"`
	By    Speaker  `json:"by,omitempty"`
	Input *Content `json:"input,omitempty"`
}

// Type is turn_started.
func (*TurnStarted) Type() Type { return TurnStartedType }

// Summary tells it in a line.
func (p *TurnStarted) Summary() string {
	if p.Input != nil && p.By != "" {
		return "simulated user (" + string(p.By) + "): " + p.Input.Head
	}
	if p.Input != nil {
		return "user: " + p.Input.Head
	}
	return "the user said nothing"
}

// Subject reports that there is none.
func (*TurnStarted) Subject() (string, bool) { return "", false }

func (*TurnStarted) golden() golden {
	return golden{line: []string{"agent", "by"}}
}

// TurnCompletedType is the type of [TurnCompleted].
const TurnCompletedType Type = "turn_completed"

// TurnCompleted ends a turn with what the agent said. Scores are those that the
// process of the agent gave it, nothing that the harness saw; nil of every agent but
// one that runs in the process which asked for the run.
type TurnCompleted struct {
	Answer *Content        `json:"answer,omitempty"`
	Scores []ReportedScore `json:"scores,omitempty"`
}

// A ReportedScore is what a function of the agent's own process made of an answer.
// Without a score it says why there is none; skipped, it is not about this case.
type ReportedScore struct {
	Name    string   `json:"name"`
	Reason  string   `json:"reason,omitempty"`
	Score   *float64 `json:"score,omitempty"`
	Skipped bool     `json:"skipped,omitempty"`
}

// Type is turn_completed.
func (*TurnCompleted) Type() Type { return TurnCompletedType }

// Summary tells it in a line.
func (p *TurnCompleted) Summary() string {
	if p.Answer != nil {
		return "agent: " + p.Answer.Head
	}
	return "no answer"
}

// Subject reports that there is none.
func (*TurnCompleted) Subject() (string, bool) { return "", false }

func (*TurnCompleted) golden() golden {
	return golden{changes: []change{{ChangedAnswer, []string{"answer"}}}}
}

// ContextCompiledType is the type of [ContextCompiled].
const ContextCompiledType Type = "context_compiled"

// ContextCompiled says what of the budget V_e the context compiler used, in
// tokens by section, and which memory entries it let in. Passing the budget is not
// refused: it happened, and a grader should see it.
type ContextCompiled struct {
	Admitted    []string       `json:"admitted"`
	Budget      int64          `json:"budget"`
	Compression []string       `json:"compression"`
	Sections    map[string]int `json:"sections"`
	Used        int64          `json:"used"`
	Window      int64          `json:"window"` // of the model
}

// Type is context_compiled.
func (*ContextCompiled) Type() Type { return ContextCompiledType }

// Summary tells it in a line.
func (p *ContextCompiled) Summary() string {
	return fmt.Sprintf("context of %d of %d tokens", p.Used, p.Budget)
}

// Subject reports that there is none.
func (*ContextCompiled) Subject() (string, bool) { return "", false }

func (*ContextCompiled) golden() golden {
	return golden{line: []string{"used", "budget"}, changes: []change{{ChangedContext, anything}}}
}

// PlanType is the type of [Plan].
const PlanType Type = "plan"

// Plan is what the agent means to do.
type Plan struct {
	Text Content `json:"text"`
}

// Type is plan.
func (*Plan) Type() Type { return PlanType }

// Summary tells it in a line.
func (p *Plan) Summary() string { return "plans: " + p.Text.Head }

// Subject reports that there is none.
func (*Plan) Subject() (string, bool) { return "", false }

func (*Plan) golden() golden { return golden{} }
