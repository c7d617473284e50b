package telemetry

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/refusal"
	"tallystick/internal/trajectory"
)

// The JSON of ATIF 1.0 to 1.7. Numbers are read leniently: Python writes counts
// with a fraction and costs that are null.
type atifFile struct {
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
	Subagents    []atifFile     `json:"subagent_trajectories"`
	Extra        jsontext.Value `json:"extra"`
}

type atifStep struct {
	ID          jsontext.Value `json:"step_id"`
	Timestamp   string         `json:"timestamp"`
	Source      string         `json:"source"`
	Model       string         `json:"model_name"`
	Message     jsontext.Value `json:"message"`
	Reasoning   jsontext.Value `json:"reasoning_content"`
	Effort      jsontext.Value `json:"reasoning_effort"`
	ToolCalls   []atifCall     `json:"tool_calls"`
	Observation *struct {
		Results []atifResult `json:"results"`
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

type atifCall struct {
	ID        string         `json:"tool_call_id"`
	Name      string         `json:"function_name"`
	Arguments jsontext.Value `json:"arguments"`
	Extra     jsontext.Value `json:"extra"`
}

type atifResult struct {
	CallID  string         `json:"source_call_id"`
	Content jsontext.Value `json:"content"`
	Sub     []struct {
		SessionID    string `json:"session_id"`
		TrajectoryID string `json:"trajectory_id"`
	} `json:"subagent_trajectory_ref"`
}

// atifVersions are those whose meaning is known. A later 1.x may have added
// something; it is read and noted.
func atifKnown(version string) bool {
	minor, ok := strings.CutPrefix(version, "ATIF-v1.")
	return ok && len(minor) == 1 && minor >= "0" && minor <= "7"
}

func importATIF(src Source, data []byte) ([]Imported, error) {
	var out []Imported
	docs, steps := 0, 0
	err := each(data, func(v jsontext.Value) error {
		docs++
		var f atifFile
		if err := json.Unmarshal(v, &f); err != nil {
			return fmt.Errorf("document %d: %w", docs, err)
		}
		if !strings.HasPrefix(f.SchemaVersion, "ATIF-v1.") {
			return fmt.Errorf("document %d: schema_version is %q, expected ATIF-v1.0 to ATIF-v1.7", docs, cut(f.SchemaVersion, 80))
		}
		return f.walk("", "", func(f *atifFile, id, version string) error {
			if steps += len(f.Steps); steps > maxSteps || len(out) >= maxRuns {
				return refusal.Newf(refusal.TooLarge, "more than %d steps or %d trajectories", maxSteps, maxRuns)
			}
			one, err := f.convert(src, id, version)
			if err != nil {
				return fmt.Errorf("trajectory %q: %w", cut(id, 80), err)
			}
			out = append(out, one)
			return nil
		})
	})
	if err != nil {
		return nil, refused(src.Name, err, refusal.Malformed)
	}
	return out, nil
}

// id is the name of a trajectory within its file.
func (f *atifFile) id() string {
	if f.TrajectoryID != "" {
		return f.TrajectoryID
	}
	return f.SessionID
}

// walk visits a trajectory and those of its subagents, which may leave out
// what they share with it.
func (f *atifFile) walk(within, version string, visit func(f *atifFile, id, version string) error) error {
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

// An atifRun converts one trajectory.
type atifRun struct {
	*recorder
	f       *atifFile
	begin   time.Time
	inTurn  bool
	answer  string
	fresh   []message // since the last call of the model
	total   int       // messages so far
	open    map[string]*toolCall
	in, out int64
	cost    int64
}

func (f *atifFile) convert(src Source, id, version string) (Imported, error) {
	if len(f.Steps) == 0 {
		return Imported{}, fmt.Errorf("has no steps")
	}
	target := f.Agent.Name
	if f.Agent.Version != "" && target != "" {
		target += "@" + f.Agent.Version
	}
	r := &atifRun{recorder: started(src, id, target), f: f, open: map[string]*toolCall{}}
	if !atifKnown(version) {
		r.notes.add("schema_version that this program does not know", version)
	}
	r.leftOver("agent.extra", f.Agent.Extra)
	r.leftOver("extra", f.Extra)
	r.leftOver("notes", f.Notes)
	r.leftOver("continued_trajectory_ref", f.ContinuedRef)
	for range f.Agent.Tools {
		r.notes.add("tool definition", "")
	}
	for i := range f.Steps {
		var s atifStep
		if err := json.Unmarshal(f.Steps[i], &s); err != nil {
			return Imported{}, fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := r.step(&s, i+1); err != nil {
			return Imported{}, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	r.endTurn()
	r.compareTotals()
	return r.finish(&trajectory.RunCompleted{Answer: r.optional(r.answer, trajectory.ArgumentHead), Status: "completed"}, src, id)
}

// leftOver notes a member that has no place.
func (r *atifRun) leftOver(what string, v jsontext.Value) {
	if text, ok := textOf(v); ok && text != "" {
		r.notes.add(what, text)
	}
}

func (r *atifRun) step(s *atifStep, number int) error {
	if n, ok := wholeOf(s.ID); !ok || n != int64(number) {
		r.notes.add("step_id out of order", string(s.ID))
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
		r.notes.add("step that was copied from an earlier trajectory", text)
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
		return fmt.Errorf("source is %q, expected system, user or agent", cut(s.Source, 80))
	}
	if s.Observation != nil {
		return r.observe(s)
	}
	return nil
}

func (r *atifRun) show(role, text string) {
	r.fresh = append(r.fresh, message{role: role, parts: []part{{kind: "text", text: text}}})
	r.total++
}

func (r *atifRun) startTurn(input string) {
	r.inTurn = true
	r.event(&trajectory.TurnStarted{Agent: cut(clean(r.f.Agent.Name), maxName), Input: r.optional(input, trajectory.PromptHead)})
}

func (r *atifRun) endTurn() {
	if r.inTurn {
		r.event(&trajectory.TurnCompleted{Answer: r.optional(r.answer, trajectory.ArgumentHead)})
	}
	r.inTurn = false
}

// agentStep is a call of the model, unless the step says that there was none,
// and the tools that it asks for.
func (r *atifRun) agentStep(s *atifStep, text string) {
	if !r.inTurn {
		r.startTurn("")
	}
	if text != "" {
		r.answer = text
	}
	var calls []part
	for i := range s.ToolCalls {
		c := &s.ToolCalls[i]
		args, _ := textOf(c.Arguments)
		calls = append(calls, part{kind: "tool_call", id: c.ID, name: c.Name, args: []byte(args)})
		r.leftOver("tool call extra", c.Extra)
	}
	n, counted := wholeOf(s.LLMCalls)
	if !counted {
		n = 1
	}
	if n > 1 {
		r.notes.count("model calls that one step stands for", "", int(min(n-1, 1<<30)))
	}
	if n > 0 {
		r.modelStep(s, text, calls)
	}
	for _, c := range calls {
		call := &toolCall{id: r.call(c.id), name: c.name, args: c.args}
		r.proposeTool(call)
		if c.id != "" {
			r.open[c.id] = call
		}
	}
	r.fresh = append(r.fresh, message{role: "assistant", parts: append([]part{{kind: "text", text: text}}, calls...)})
	r.total++
}

func (r *atifRun) modelStep(s *atifStep, text string, calls []part) {
	m := &modelCall{id: r.call("step-" + string(s.ID)), model: s.Model, messages: r.total, prompt: promptText(r.fresh), reply: replyText(text, calls)}
	if m.model == "" {
		m.model = r.f.Agent.ModelName
	}
	if len(calls) > 0 {
		m.finish = "tool_calls"
	}
	if s.Metrics != nil {
		m.in, m.out = r.countOf("prompt_tokens", s.Metrics.Prompt), r.countOf("completion_tokens", s.Metrics.Completion)
		m.cost = r.moneyOf("cost_usd", s.Metrics.Cost)
		r.in, r.out, r.cost = r.in+m.in, r.out+m.out, r.cost+m.cost
	}
	r.fresh = nil
	r.askModel(m)
	r.modelSaid(m)
}

// observe writes what tools gave back.
func (r *atifRun) observe(s *atifStep) error {
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
			r.event(&trajectory.HandedOff{Call: r.call("handoff-" + ref), From: name(r.f.Agent.Name), To: name(ref)})
		}
		r.fresh = append(r.fresh, message{role: "tool", parts: []part{{kind: "tool_call_response", id: id, text: text}}})
		r.total++
		if call == nil {
			r.notes.add("observation of no tool call", text)
			continue
		}
		delete(r.open, id)
		call.result = text
		r.toolGave(call)
	}
	return nil
}

// text reads a message: a text, or a list of parts of which only texts have a
// place.
func (r *atifRun) text(v jsontext.Value) (string, error) {
	if v.Kind() != '[' {
		text, _ := textOf(v)
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
			r.notes.add("message part "+p.Type, "")
			continue
		}
		t, _ := textOf(p.Text)
		texts = append(texts, t)
	}
	return strings.Join(texts, "\n"), nil
}

// clock follows the timestamps. One without a zone is taken for UTC.
func (r *atifRun) clock(stamp string) {
	if stamp == "" {
		return
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		if at, err = time.Parse("2006-01-02T15:04:05.999999999", stamp); err != nil {
			r.notes.add("timestamp that is none", stamp)
			return
		}
	}
	if r.begin.IsZero() {
		r.begin = at
	}
	if at.Sub(r.begin) < r.at {
		r.notes.add("timestamp before the one before it", stamp)
	}
	r.until(at.Sub(r.begin))
}

func (r *atifRun) countOf(what string, v jsontext.Value) int64 {
	n, ok := wholeOf(v)
	if (!ok || n < 0) && len(v) > 0 && v.Kind() != 'n' {
		r.notes.add(what+" that is no count", string(v))
	}
	return min(max(n, 0), 1<<40)
}

func (r *atifRun) moneyOf(what string, v jsontext.Value) int64 {
	if len(v) == 0 || v.Kind() == 'n' {
		return 0
	}
	usd, ok := numberOf(v)
	micro, fits := microUSD(usd)
	if !ok || !fits {
		r.notes.add(what+" that is no amount of dollars", string(v))
	}
	return micro
}

// compareTotals notes totals that the steps do not add up to: steps are
// missing, or were counted in another way.
func (r *atifRun) compareTotals() {
	m := r.f.FinalMetrics
	if m == nil {
		return
	}
	for _, c := range []struct {
		what  string
		total jsontext.Value
		sum   int64
	}{{"total_prompt_tokens", m.Prompt, r.in}, {"total_completion_tokens", m.Completion, r.out}, {"total_steps", m.Steps, int64(len(r.f.Steps))}} {
		if n, ok := wholeOf(c.total); ok && n != c.sum {
			r.notes.add(c.what+" is not what the steps add up to", fmt.Sprintf("%d, the steps have %d", n, c.sum))
		}
	}
	if usd, ok := numberOf(m.Cost); ok {
		if micro, ok := microUSD(usd); !ok || max(micro, r.cost)-min(micro, r.cost) > int64(len(r.f.Steps)) {
			r.notes.add("total_cost_usd is not what the steps add up to", fmt.Sprintf("%v, the steps have %v", usd, float64(r.cost)/1e6))
		}
	}
}
