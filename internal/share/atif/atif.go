// Package atif reads trajectories in ATIF, the Agent Trajectory Interchange
// Format. docs/formats/telemetry.md has the mapping.
package atif

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

// maxSteps bounds the steps of a file.
const maxSteps = 50_000

// The JSON of ATIF 1.0 to 1.7. Numbers are read leniently: Python writes counts
// with a fraction and costs that are null.
type file struct {
	SchemaVersion string `json:"schema_version"`
	SessionID     string `json:"session_id"`
	TrajectoryID  string `json:"trajectory_id"`
	Agent         struct {
		Name      string           `json:"name"`
		Version   string           `json:"version"`
		ModelName string           `json:"model_name"`
		Tools     []jsontext.Value `json:"tool_definitions"`
		Extra     jsontext.Value   `json:"extra"`
	} `json:"agent"`
	Steps        []jsontext.Value `json:"steps"` // of atifStep
	Notes        jsontext.Value   `json:"notes"`
	FinalMetrics *struct {
		Prompt     jsontext.Value `json:"total_prompt_tokens"`
		Completion jsontext.Value `json:"total_completion_tokens"`
		Cost       jsontext.Value `json:"total_cost_usd"`
		Steps      jsontext.Value `json:"total_steps"`
	} `json:"final_metrics"`
	ContinuedRef jsontext.Value `json:"continued_trajectory_ref"`
	Subagents    []file         `json:"subagent_trajectories"`
	Extra        jsontext.Value `json:"extra"`
}

type step struct {
	ID          jsontext.Value `json:"step_id"`
	Timestamp   string         `json:"timestamp"`
	Source      string         `json:"source"`
	Model       string         `json:"model_name"`
	Message     jsontext.Value `json:"message"`
	Reasoning   jsontext.Value `json:"reasoning_content"`
	Effort      jsontext.Value `json:"reasoning_effort"`
	ToolCalls   []call         `json:"tool_calls"`
	Observation *struct {
		Results []result `json:"results"`
	} `json:"observation"`
	Metrics *struct {
		Prompt     jsontext.Value `json:"prompt_tokens"`
		Completion jsontext.Value `json:"completion_tokens"`
		Cost       jsontext.Value `json:"cost_usd"`
	} `json:"metrics"`
	Copied   bool           `json:"is_copied_context"`
	LLMCalls jsontext.Value `json:"llm_call_count"`
	Extra    jsontext.Value `json:"extra"`
}

type call struct {
	ID        string         `json:"tool_call_id"`
	Name      string         `json:"function_name"`
	Arguments jsontext.Value `json:"arguments"`
	Extra     jsontext.Value `json:"extra"`
}

type result struct {
	CallID  string         `json:"source_call_id"`
	Content jsontext.Value `json:"content"`
	Sub     []struct {
		SessionID    string `json:"session_id"`
		TrajectoryID string `json:"trajectory_id"`
	} `json:"subagent_trajectory_ref"`
}

// known tells the versions whose meaning is known. A later 1.x may have added
// something; it is read and noted.
func known(version string) bool {
	minor, ok := strings.CutPrefix(version, "ATIF-v1.")
	return ok && len(minor) == 1 && minor >= "0" && minor <= "7"
}

// Import converts every trajectory of a file that is known to be JSON within the
// bounds of package foreign.
func Import(src foreign.Source, data []byte) ([]foreign.Trajectory, error) {
	var out []foreign.Trajectory
	docs, steps := 0, 0
	err := foreign.Each(data, func(v jsontext.Value) error {
		docs++
		var f file
		if err := json.Unmarshal(v, &f); err != nil {
			return fmt.Errorf("document %d: %w", docs, err)
		}
		if !strings.HasPrefix(f.SchemaVersion, "ATIF-v1.") {
			return fmt.Errorf("document %d: schema_version is %q, expected ATIF-v1.0 to ATIF-v1.7", docs, foreign.Cut(f.SchemaVersion, 80))
		}
		return f.walk("", "", func(f *file, id, version string) error {
			if steps += len(f.Steps); steps > maxSteps || len(out) >= foreign.MaxRuns {
				return refusal.Newf(refusal.TooLarge, "more than %d steps or %d trajectories", maxSteps, foreign.MaxRuns)
			}
			one, err := f.convert(src, id, version)
			if err != nil {
				return fmt.Errorf("trajectory %q: %w", foreign.Cut(id, 80), err)
			}
			out = append(out, one)
			return nil
		})
	})
	if err != nil {
		return nil, foreign.Refused(src.Name, err, refusal.Malformed)
	}
	return out, nil
}

// id is the name of a trajectory within its file.
func (f *file) id() string {
	if f.TrajectoryID != "" {
		return f.TrajectoryID
	}
	return f.SessionID
}

// walk visits a trajectory and those of its subagents, which may leave out
// what they share with it.
func (f *file) walk(within, version string, visit func(f *file, id, version string) error) error {
	if f.SchemaVersion != "" {
		version = f.SchemaVersion
	}
	id := f.id()
	if id == "" {
		id = within
	}
	if id == "" {
		id = "trajectory"
	}
	if err := visit(f, id, version); err != nil {
		return err
	}
	for i := range f.Subagents {
		if err := f.Subagents[i].walk(fmt.Sprintf("%s/%d", id, i+1), version, visit); err != nil {
			return err
		}
	}
	return nil
}

// A run converts one trajectory.
type run struct {
	*foreign.Recorder
	f       *file
	begin   time.Time
	inTurn  bool
	answer  string
	fresh   []foreign.Message // since the last call of the model
	total   int               // messages so far
	open    map[string]*foreign.ToolCall
	in, out int64
	cost    int64
}

func (f *file) convert(src foreign.Source, id, version string) (foreign.Trajectory, error) {
	if len(f.Steps) == 0 {
		return foreign.Trajectory{}, fmt.Errorf("has no steps")
	}
	target := f.Agent.Name
	if f.Agent.Version != "" && target != "" {
		target += "@" + f.Agent.Version
	}
	r := &run{Recorder: foreign.Start(src, id, target), f: f, open: map[string]*foreign.ToolCall{}}
	if !known(version) {
		r.Notes.Add("schema_version that this program does not know", version)
	}
	r.leftOver("agent.extra", f.Agent.Extra)
	r.leftOver("extra", f.Extra)
	r.leftOver("notes", f.Notes)
	r.leftOver("continued_trajectory_ref", f.ContinuedRef)
	for range f.Agent.Tools {
		r.Notes.Add("tool definition", "")
	}
	for i := range f.Steps {
		var s step
		if err := json.Unmarshal(f.Steps[i], &s); err != nil {
			return foreign.Trajectory{}, fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := r.step(&s, i+1); err != nil {
			return foreign.Trajectory{}, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	r.endTurn()
	r.compareTotals()
	return r.Finish(&trajectory.RunCompleted{Answer: r.Optional(r.answer, trajectory.ArgumentHead), Status: "completed"}, src, id)
}

// leftOver notes a member that has no place.
func (r *run) leftOver(what string, v jsontext.Value) {
	if text, ok := foreign.TextOf(v); ok && text != "" {
		r.Notes.Add(what, text)
	}
}

func (r *run) step(s *step, number int) error {
	if n, ok := foreign.WholeOf(s.ID); !ok || n != int64(number) {
		r.Notes.Add("step_id out of order", string(s.ID))
	}
	r.clock(s.Timestamp)
	text, err := r.text(s.Message)
	if err != nil {
		return err
	}
	r.leftOver("step extra", s.Extra)
	r.leftOver("reasoning_effort", s.Effort)
	r.leftOver("reasoning_content", s.Reasoning)
	if s.Copied {
		// It happened in an earlier trajectory; here it is only shown to the
		// model again.
		r.Notes.Add("step that was copied from an earlier trajectory", text)
		r.show(s.Source, text)
		return nil
	}
	switch s.Source {
	case "user":
		r.endTurn()
		r.startTurn(text)
		r.show("user", text)
	case "system":
		r.show("system", text)
	case "agent":
		r.agentStep(s, text)
	default:
		return fmt.Errorf("source is %q, expected system, user or agent", foreign.Cut(s.Source, 80))
	}
	if s.Observation != nil {
		return r.observe(s)
	}
	return nil
}

func (r *run) show(role, text string) {
	r.fresh = append(r.fresh, foreign.Message{Role: role, Parts: []foreign.Part{{Kind: "text", Text: text}}})
	r.total++
}

func (r *run) startTurn(input string) {
	r.inTurn = true
	r.Event(&trajectory.TurnStarted{Agent: foreign.Cut(foreign.Clean(r.f.Agent.Name), foreign.MaxName), Input: r.Optional(input, trajectory.PromptHead)})
}

func (r *run) endTurn() {
	if r.inTurn {
		r.Event(&trajectory.TurnCompleted{Answer: r.Optional(r.answer, trajectory.ArgumentHead)})
	}
	r.inTurn = false
}

// agentStep is a call of the model, unless the step says that there was none,
// and the tools that it asks for.
func (r *run) agentStep(s *step, text string) {
	if !r.inTurn {
		r.startTurn("")
	}
	if text != "" {
		r.answer = text
	}
	var calls []foreign.Part
	for i := range s.ToolCalls {
		c := &s.ToolCalls[i]
		args, _ := foreign.TextOf(c.Arguments)
		calls = append(calls, foreign.Part{Kind: "tool_call", ID: c.ID, Name: c.Name, Args: []byte(args)})
		r.leftOver("tool call extra", c.Extra)
	}
	n, counted := foreign.WholeOf(s.LLMCalls)
	if !counted {
		n = 1
	}
	if n > 1 {
		r.Notes.Count("model calls that one step stands for", "", int(min(n-1, 1<<30)))
	}
	if n > 0 {
		r.modelStep(s, text, calls)
	}
	for _, c := range calls {
		call := &foreign.ToolCall{ID: r.CallID(c.ID), Name: c.Name, Args: c.Args}
		r.ProposeTool(call)
		if c.ID != "" {
			r.open[c.ID] = call
		}
	}
	r.fresh = append(r.fresh, foreign.Message{Role: "assistant", Parts: append([]foreign.Part{{Kind: "text", Text: text}}, calls...)})
	r.total++
}

func (r *run) modelStep(s *step, text string, calls []foreign.Part) {
	m := &foreign.ModelCall{ID: r.CallID("step-" + string(s.ID)), Model: s.Model, Messages: r.total, Prompt: foreign.PromptText(r.fresh), Reply: foreign.ReplyText(text, calls)}
	if m.Model == "" {
		m.Model = r.f.Agent.ModelName
	}
	if len(calls) > 0 {
		m.Finish = "tool_calls"
	}
	if s.Metrics != nil {
		m.In, m.Out = r.countOf("prompt_tokens", s.Metrics.Prompt), r.countOf("completion_tokens", s.Metrics.Completion)
		m.Cost, m.Priced = r.moneyOf("cost_usd", s.Metrics.Cost)
		r.in, r.out, r.cost = r.in+m.In, r.out+m.Out, r.cost+m.Cost
	}
	r.fresh = nil
	r.AskModel(m)
	r.ModelSaid(m)
}

// observe writes what tools gave back.
func (r *run) observe(s *step) error {
	for i := range s.Observation.Results {
		o := &s.Observation.Results[i]
		text, err := r.text(o.Content)
		if err != nil {
			return err
		}
		id := o.CallID
		if id == "" && len(s.ToolCalls) == 1 {
			id = s.ToolCalls[0].ID
		}
		call := r.open[id]
		for _, sub := range o.Sub {
			ref := sub.TrajectoryID
			if ref == "" {
				ref = sub.SessionID
			}
			r.Event(&trajectory.HandedOff{Call: r.CallID("handoff-" + ref), From: foreign.Name(r.f.Agent.Name), To: foreign.Name(ref)})
		}
		r.fresh = append(r.fresh, foreign.Message{Role: "tool", Parts: []foreign.Part{{Kind: "tool_call_response", ID: id, Text: text}}})
		r.total++
		if call == nil {
			r.Notes.Add("observation of no tool call", text)
			continue
		}
		delete(r.open, id)
		call.Result = text
		r.ToolGave(call)
	}
	return nil
}

// text reads a message: a text, or a list of parts of which only texts have a
// place.
func (r *run) text(v jsontext.Value) (string, error) {
	if v.Kind() != '[' {
		text, _ := foreign.TextOf(v)
		return text, nil
	}
	var parts []struct {
		Type string         `json:"type"`
		Text jsontext.Value `json:"text"`
	}
	if err := json.Unmarshal(v, &parts); err != nil {
		return "", fmt.Errorf("message: %w", err)
	}
	var texts []string
	for _, p := range parts {
		if p.Type != "text" {
			r.Notes.Add("message part "+p.Type, "")
			continue
		}
		t, _ := foreign.TextOf(p.Text)
		texts = append(texts, t)
	}
	return strings.Join(texts, "\n"), nil
}

// clock follows the timestamps. One without a zone is taken for UTC.
func (r *run) clock(stamp string) {
	if stamp == "" {
		return
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		if at, err = time.Parse("2006-01-02T15:04:05.999999999", stamp); err != nil {
			r.Notes.Add("timestamp that is none", stamp)
			return
		}
	}
	if r.begin.IsZero() {
		r.begin = at
	}
	if at.Sub(r.begin) < r.At {
		r.Notes.Add("timestamp before the one before it", stamp)
	}
	r.Until(at.Sub(r.begin))
}

func (r *run) countOf(what string, v jsontext.Value) int64 {
	n, ok := foreign.WholeOf(v)
	if (!ok || n < 0) && len(v) > 0 && v.Kind() != 'n' {
		r.Notes.Add(what+" that is no count", string(v))
	}
	return min(max(n, 0), 1<<40)
}

// moneyOf is an amount, if there is one.
func (r *run) moneyOf(what string, v jsontext.Value) (int64, bool) {
	if len(v) == 0 || v.Kind() == 'n' {
		return 0, false
	}
	usd, ok := foreign.NumberOf(v)
	micro, fits := foreign.MicroUSD(usd)
	if !ok || !fits {
		r.Notes.Add(what+" that is no amount of dollars", string(v))
		return 0, false
	}
	return micro, true
}

// compareTotals notes totals that the steps do not add up to: steps are
// missing, or were counted in another way.
func (r *run) compareTotals() {
	m := r.f.FinalMetrics
	if m == nil {
		return
	}
	for _, c := range []struct {
		what  string
		total jsontext.Value
		sum   int64
	}{{"total_prompt_tokens", m.Prompt, r.in}, {"total_completion_tokens", m.Completion, r.out}, {"total_steps", m.Steps, int64(len(r.f.Steps))}} {
		if n, ok := foreign.WholeOf(c.total); ok && n != c.sum {
			r.Notes.Add(c.what+" is not what the steps add up to", fmt.Sprintf("%d, the steps have %d", n, c.sum))
		}
	}
	if usd, ok := foreign.NumberOf(m.Cost); ok {
		if micro, ok := foreign.MicroUSD(usd); !ok || max(micro, r.cost)-min(micro, r.cost) > int64(len(r.f.Steps)) {
			r.Notes.Add("total_cost_usd is not what the steps add up to", fmt.Sprintf("%v, the steps have %v", usd, float64(r.cost)/1e6))
		}
	}
}
