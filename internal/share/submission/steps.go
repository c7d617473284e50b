package submission

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// The types of a step, and from where a tool call is known.
const (
	promptStep = "prompt"
	modelStep  = "llm_call"
	callStep   = "tool_call"
	resultStep = "tool_result"

	executed = "executed" // by the harness
	reported = "reported" // by the agent
	proposed = "proposed" // by a model, and nothing more is known
)

// A Step is one thing that an agent was shown or did. The members that Ruflo documents have
// those of the shipped recorder beside them, with the same bounded text, so that
// the original audit is not blind on the file.
type Step struct {
	Type string `json:"type"`
	Turn int    `json:"turn"`
	Name string `json:"name,omitempty"`

	Head      *string `json:"head,omitempty"`
	Bytes     *int64  `json:"bytes,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	Redacted  bool    `json:"redacted,omitempty"`
	Salted    bool    `json:"salted,omitempty"` // of the digest
	Lossy     bool    `json:"lossy,omitempty"`

	ContentSHA256 string `json:"content_sha256,omitempty"` // of a prompt
	InputSHA256   string `json:"input_sha256,omitempty"`   // of what a model was sent
	OutputSHA256  string `json:"output_sha256,omitempty"`
	// GoldHits are those in what the agent was shown: the prompt, what a model was
	// sent, what a tool gave. OutputHits are those in what a model said.
	GoldHits   *Hits `json:"gold_hits,omitempty"`
	OutputHits *Hits `json:"output_gold_hits,omitempty"`

	Content *string           `json:"content,omitempty"`
	Input   any               `json:"input,omitempty"`
	Output  *string           `json:"output,omitempty"`
	Args    *canon.RawMessage `json:"args,omitempty"`
	URL     string            `json:"url,omitempty"`
	IsError bool              `json:"is_error,omitempty"`
	Vantage string            `json:"vantage,omitempty"`

	Model     string `json:"model,omitempty"`
	TokensIn  *int64 `json:"tokens_in,omitempty"`
	TokensOut *int64 `json:"tokens_out,omitempty"`
}

// Hits are where the recorder found the expected answer in the whole text.
// Scanned tells "none found" from "not looked".
type Hits struct {
	Scanned bool    `json:"scanned"`
	Offsets []int64 `json:"offsets"`
	Count   int64   `json:"count,omitempty"` // if there are more than the offsets
}

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
}

type arguments struct {
	Cut      map[string]content          `json:"cut"`
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
	steps  []*Step
	models []string
	tools  []string
	in     int64
	out    int64
	asked  map[string]*Step // llm_calls under way, by call
	byID   map[string]*Step // tool_calls by the provider's id
	byCall map[string]*Step // and by the harness's
	bodies []content        // texts of which the steps have only a part

	// sum gives the SHA-256 of a text whose digest was not noted, from the evidence; nil if
	// the caller did not ask for whole texts.
	sum func(digest.Content) (digest.ID, bool)
}

// stepsOf reads a trajectory.
func stepsOf(trajectory []byte, watched *evidence.Watched, sum func(digest.Content) (digest.ID, bool)) (*walk, error) {
	w := &walk{sum: sum, gold: watched.Gold, notes: make(map[digest.Content]evidence.WatchedText, len(watched.Texts)),
		asked: map[string]*Step{}, byID: map[string]*Step{}, byCall: map[string]*Step{}}
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
	return w, nil
}

func (w *walk) event(e event, p *payload) {
	switch e.Type {
	case "turn_started":
		if p.Input != nil {
			s := w.add(&Step{Type: promptStep, Turn: e.Turn})
			s.ContentSHA256 = w.text(s, p.Input)
			s.Content = s.Head
		}
	case "model_call_started":
		w.models = appendNew(w.models, p.Model)
		s := w.add(&Step{Type: modelStep, Turn: e.Turn, Model: p.Model, Input: p.Prompt.Head, Truncated: p.Prompt.Truncated, Redacted: p.Prompt.Redacted})
		s.InputSHA256, s.GoldHits, s.Salted = w.noted(p.Prompt)
		w.asked[p.Call] = s
	case "model_call_completed":
		if s := w.asked[p.Call]; s != nil {
			shown := s.GoldHits
			s.OutputSHA256 = w.text(s, p.Output)
			s.GoldHits, s.OutputHits = shown, s.GoldHits
			s.Output, s.TokensIn, s.TokensOut = s.Head, &p.In, &p.Out
			w.in, w.out = w.in+p.In, w.out+p.Out
		}
	case "tool_observed":
		w.call(e.Turn, p, p.Vantage)
		if p.Vantage == reported {
			w.result(e.Turn, p, reported, string(p.Error) == "true")
		}
	case "tool_proposed":
		w.call(e.Turn, p, proposed)
	case "tool_executed":
		w.call(e.Turn, p, executed)
		w.result(e.Turn, p, executed, len(p.Error) > 0)
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
		if vantage != proposed {
			known.Vantage = vantage
		}
	} else {
		known = w.add(&Step{Type: callStep, Turn: turn, Name: p.Name, Args: &args, Input: args, Vantage: vantage,
			Truncated: p.Args.isCut(), Redacted: p.Args.Redacted, URL: urlIn(p.Args.Values)})
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
	s := w.add(&Step{Type: resultStep, Turn: turn, Name: p.Name, Vantage: vantage, IsError: failed, URL: urlIn(p.Args.Values)})
	s.OutputSHA256 = w.text(s, p.Result)
	s.Output = s.Head
}

func (w *walk) add(s *Step) *Step {
	w.steps = append(w.steps, s)
	return s
}

// text puts a text into a step and returns the digest of the whole.
func (w *walk) text(s *Step, c *content) (sha256 string) {
	var salted bool
	sha256, s.GoldHits, salted = w.noted(c)
	s.Head, s.Bytes = &c.Head, &c.Bytes
	s.Truncated, s.Redacted, s.Lossy = s.Truncated || c.Truncated, s.Redacted || c.Redacted, c.Lossy
	s.Salted = s.Salted || salted
	if c.Truncated && !c.Redacted {
		w.bodies = append(w.bodies, *c)
	}
	return sha256
}

// noted is what the recorder knows of a text.
func (w *walk) noted(c *content) (sha256 string, hits *Hits, salted bool) {
	note, ok := w.notes[c.Digest]
	if !ok && w.sum != nil && c.Truncated && !c.Redacted {
		if id, there := w.sum(c.Digest); there {
			return hex.EncodeToString(id[:]), &Hits{Offsets: []int64{}}, false
		}
	}
	if !ok {
		return "", &Hits{Offsets: []int64{}}, false
	}
	hits = &Hits{Scanned: w.gold, Offsets: append([]int64{}, note.Hits...)}
	if note.HitCount > int64(len(note.Hits)) {
		hits.Count = note.HitCount
	}
	return strings.TrimPrefix(note.SHA256.String(), "sha256:"), hits, note.Salted
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
