package submission

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/step"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// What is read of an event. Its bytes have the digest that the ledger names, so
// its writer validated it.
type event struct {
	Turn    int             `json:"turn"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

type content struct {
	Bytes     int64          `json:"bytes"`
	Digest    digest.Content `json:"digest"`
	Head      string         `json:"head"`
	Lossy     bool           `json:"lossy"`
	Redacted  bool           `json:"redacted"`
	Truncated bool           `json:"truncated"`

	// optional is of arguments: of a long call that was denied the evidence has not
	// the whole.
	optional bool
}

type arguments struct {
	Bytes    int64                       `json:"bytes"`
	Cut      map[string]content          `json:"cut"`
	Digest   digest.Content              `json:"digest"`
	Raw      *content                    `json:"raw"`
	Redacted bool                        `json:"redacted"`
	Values   map[string]canon.RawMessage `json:"values"`
}

// payload has the members that steps are made of, of all types of events.
type payload struct {
	Args    *arguments      `json:"args"`
	Call    string          `json:"call"`
	Error   json.RawMessage `json:"error"` // a text or true
	ID      string          `json:"id"`
	Input   *content        `json:"input"`
	Model   string          `json:"model"`
	Name    string          `json:"name"`
	Output  *content        `json:"output"`
	Prompt  *content        `json:"prompt"`
	Result  *content        `json:"result"`
	Tokens  int64           `json:"tokens"`
	In      int64           `json:"tokens_in"`
	Out     int64           `json:"tokens_out"`
	Vantage string          `json:"vantage"`
}

// A walk makes the steps of one case.
type walk struct {
	notes  map[digest.Content]evidence.WatchedText
	gold   bool
	steps  []*step.Step
	models []string
	tools  []string
	in     int64
	out    int64
	asked  map[string]*step.Step // llm_calls under way, by call
	byID   map[string]*step.Step // tool_calls by the provider's id
	byCall map[string]*step.Step // and by the harness's
	bodies []content             // texts of which the steps have only a part
	before *step.Step            // the request that told of what is added now

	// sum gives the SHA-256 of a text whose digest was not noted, from the evidence; nil if
	// the caller did not ask for whole texts.
	sum func(digest.Content) (digest.ID, bool)
}

// stepsOf reads a trajectory.
func stepsOf(trajectory []byte, watched *evidence.Watched, sum func(digest.Content) (digest.ID, bool)) (*walk, error) {
	w := &walk{sum: sum, gold: watched.Gold, notes: make(map[digest.Content]evidence.WatchedText, len(watched.Texts)),
		asked: map[string]*step.Step{}, byID: map[string]*step.Step{}, byCall: map[string]*step.Step{}}
	for _, t := range watched.Texts {
		w.notes[t.Digest] = t
	}
	n := 0
	for line := range bytes.Lines(trajectory) {
		n++
		var e event
		var p payload
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("trajectory, line %d: %w", n, err)
		}
		switch e.Type {
		case "turn_started", "model_call_started", "model_call_completed", "tool_proposed", "tool_executed", "tool_observed":
		default:
			continue
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return nil, fmt.Errorf("trajectory, line %d: %w", n, err)
		}
		w.event(e, &p)
	}
	for _, s := range w.asked {
		s.IsError = true // no reply came
	}
	return w, nil
}

func (w *walk) event(e event, p *payload) {
	switch e.Type {
	case "turn_started":
		if p.Input != nil {
			s := w.add(&step.Step{Type: step.Prompt, Turn: e.Turn})
			s.ContentSHA256 = w.text(s, p.Input)
			s.Content = s.Head
		}
	case "model_call_started":
		w.models = appendNew(w.models, p.Model)
		s := w.add(&step.Step{Type: step.Model, Turn: e.Turn, Model: p.Model, Input: p.Prompt.Head})
		w.input(s, p.Prompt)
		w.asked[p.Call] = s
	case "model_call_completed":
		if s := w.asked[p.Call]; s != nil {
			s.OutputSHA256 = w.text(s, p.Output)
			s.Output, s.TokensIn, s.TokensOut = s.Head, &p.In, &p.Out
			w.in, w.out = w.in+p.In, w.out+p.Out
			delete(w.asked, p.Call)
		}
	case "tool_observed":
		if p.Vantage == step.Reported {
			// The agent told of it in a request, so it happened before the request. One
			// that the provider carried out comes with the reply.
			w.before = w.asked[p.Call]
		}
		w.call(e.Turn, p, p.Vantage)
		if p.Vantage == step.Reported {
			w.result(e.Turn, p, step.Reported, string(p.Error) == "true")
		}
		w.before = nil
	case "tool_proposed":
		w.call(e.Turn, p, step.Proposed)
	case "tool_executed":
		w.call(e.Turn, p, step.Executed)
		w.result(e.Turn, p, step.Executed, len(p.Error) > 0)
	}
}

// call adds a tool_call, or knows better of one that is there: a call is first
// proposed by a model, then by the agent, then made or reported. One that was made
// with other arguments than were proposed is a step of its own.
func (w *walk) call(turn int, p *payload, vantage string) {
	args := p.Args.object()
	known := w.byCall[p.Call]
	if p.ID != "" && w.byID[p.ID] != nil {
		known = w.byID[p.ID]
	}
	if known != nil && known.Name == p.Name && bytes.Equal(*known.Args, args) {
		if vantage != step.Proposed {
			known.Vantage = vantage
		}
	} else {
		known = w.add(&step.Step{Type: step.Call, Turn: turn, Name: p.Name, Args: &args, Input: args, Vantage: vantage, URL: urlIn(p.Args.Values)})
		w.input(known, p.Args.content())
		w.tools = appendNew(w.tools, p.Name)
	}
	if p.ID != "" {
		w.byID[p.ID] = known
	}
	if p.Vantage == "" { // of an observed one the call is the model's
		w.byCall[p.Call] = known
	}
}

func (w *walk) result(turn int, p *payload, vantage string, failed bool) {
	if p.Result == nil {
		return
	}
	s := w.add(&step.Step{Type: step.Result, Turn: turn, Name: p.Name, Vantage: vantage, IsError: failed, URL: urlIn(p.Args.Values)})
	s.OutputSHA256 = w.text(s, p.Result)
	s.Output = s.Head
}

// add puts a step behind those that are there, or before the request that told of
// it.
func (w *walk) add(s *step.Step) *step.Step {
	at := len(w.steps)
	if w.before != nil {
		at = slices.Index(w.steps, w.before)
	}
	w.steps = slices.Insert(w.steps, at, s)
	return s
}

// text puts the text that a step is named for into it and returns the digest of the
// whole.
func (w *walk) text(s *step.Step, c *content) (sha256 string) {
	sha256, s.GoldHits, s.Salted = w.noted(c)
	s.Head, s.Bytes = &c.Head, &c.Bytes
	s.Truncated, s.Redacted, s.Lossy = c.Truncated, c.Redacted, c.Lossy
	return sha256
}

// input says of the request to a model, or the arguments of a call, what the whole
// of it is.
func (w *walk) input(s *step.Step, c *content) {
	s.InputSHA256, s.InputGoldHits, s.InputSalted = w.noted(c)
	s.InputBytes, s.InputTruncated, s.InputRedacted, s.InputLossy = &c.Bytes, c.Truncated, c.Redacted, c.Lossy
}

// noted is what the recorder knows of a text.
func (w *walk) noted(c *content) (sha256 string, hits *step.Hits, salted bool) {
	if c.Truncated && !c.Redacted {
		w.bodies = append(w.bodies, *c)
	}
	note, ok := w.notes[c.Digest]
	if !ok && w.sum != nil && c.Truncated && !c.Redacted {
		if id, there := w.sum(c.Digest); there {
			return hex.EncodeToString(id[:]), &step.Hits{Offsets: []int64{}}, false
		}
	}
	if !ok {
		return "", &step.Hits{Offsets: []int64{}}, false
	}
	hits = &step.Hits{Scanned: w.gold, Offsets: append([]int64{}, note.Hits...), Question: note.Question}
	if note.HitCount > int64(len(note.Hits)) {
		hits.Count = note.HitCount
	}
	return strings.TrimPrefix(note.SHA256.String(), "sha256:"), hits, note.Salted
}

// content is what is known of the arguments as one text, in canonical JSON.
func (a *arguments) content() *content {
	c := &content{Bytes: a.Bytes, Digest: a.Digest, Redacted: a.Redacted, Truncated: a.isCut(), optional: true}
	if a.Raw != nil {
		c.Lossy = a.Raw.Lossy
	}
	return c
}

// object is the arguments as one JSON object. A value that was cut is its head
// and a mark, and arguments that are not an object are under "raw".
func (a *arguments) object() canon.RawMessage {
	out := map[string]any{}
	for name, v := range a.Values {
		out[name] = v
	}
	for name, c := range a.Cut {
		out[name] = cutText(&c)
	}
	if a.Raw != nil {
		out = map[string]any{"raw": a.Raw.Head}
		if a.Raw.Truncated {
			out["raw"] = cutText(a.Raw)
		}
	}
	data, err := canon.Marshal(out)
	if err != nil {
		return canon.RawMessage("{}") // the values were canonical JSON
	}
	return data
}

func cutText(c *content) string {
	return fmt.Sprintf("%s…[truncated %d bytes]", c.Head, c.Bytes-int64(len(c.Head)))
}

func (a *arguments) isCut() bool { return len(a.Cut) > 0 || a.Raw != nil && a.Raw.Truncated }

// urlIn is the address that a tool was called with, if its argument is called so.
func urlIn(values map[string]canon.RawMessage) string {
	for _, name := range []string{"url", "URL", "uri", "link"} {
		var s string
		if json.Unmarshal(values[name], &s) == nil && len(s) <= 2048 {
			return s
		}
	}
	return ""
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}
