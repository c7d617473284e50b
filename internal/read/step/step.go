package step

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/record/jsonvalue"
)

// The types of a step.
const (
	Prompt = "prompt"
	Model  = "llm_call"
	Call   = "tool_call"
	Result = "tool_result"
)

// From where a tool call is known.
const (
	Executed = "executed" // by the harness
	Reported = "reported" // by the agent
	Proposed = "proposed" // by a model, and nothing more is known
)

// A Line is what an agent did in one execution of a task.
type Line struct {
	TaskID string `json:"task_id"`
	Model  string `json:"model,omitempty"`
	// Repeat is the number of the execution, from 1, and Submitted says that its
	// answer is that of the results. A line without them is the only one of its task.
	Repeat    int  `json:"repeat,omitempty"`
	Submitted bool `json:"submitted,omitempty"`
	// Correct says whether the answer of this execution is right.
	Correct *bool `json:"correct,omitempty"`

	Turns       *int     `json:"turns,omitempty"` // calls of a model
	UserTurns   *int     `json:"user_turns,omitempty"`
	FinalAnswer *string  `json:"final_answer,omitempty"`
	TokensIn    *int64   `json:"tokens_in,omitempty"`
	TokensOut   *int64   `json:"tokens_out,omitempty"`
	ToolsUsed   []string `json:"tools_used,omitzero"`
	Vantage     string   `json:"vantage,omitempty"`
	Steps       []*Step  `json:"steps"`
}

// A Step is one thing that an agent was shown or did. The members that Ruflo
// documents have those of the shipped recorder beside them, with the same bounded
// text, so that the original audit is not blind on the file.
//
// The text that a step is named for is that of head: the prompt, the reply, the
// result. What goes in, the request to a model or the arguments of a call, is that
// of input, and members about it begin with input_.
type Step struct {
	Type    string `json:"type"`
	Turn    int    `json:"turn,omitempty"`
	Name    string `json:"name,omitempty"`
	Vantage string `json:"vantage,omitempty"`

	Head      *string `json:"head,omitempty"`
	Bytes     *int64  `json:"bytes,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	Redacted  bool    `json:"redacted,omitempty"`
	Salted    bool    `json:"salted,omitempty"`
	Lossy     bool    `json:"lossy,omitempty"`

	ContentSHA256 string `json:"content_sha256,omitempty"`
	OutputSHA256  string `json:"output_sha256,omitempty"`
	GoldHits      *Hits  `json:"gold_hits,omitempty"`

	InputSHA256    string `json:"input_sha256,omitempty"`
	InputBytes     *int64 `json:"input_bytes,omitempty"`
	InputTruncated bool   `json:"input_truncated,omitempty"`
	InputRedacted  bool   `json:"input_redacted,omitempty"`
	InputSalted    bool   `json:"input_salted,omitempty"`
	InputLossy     bool   `json:"input_lossy,omitempty"`
	InputGoldHits  *Hits  `json:"input_gold_hits,omitempty"`

	Content *string           `json:"content,omitempty"`
	Input   any               `json:"input,omitempty"`
	Output  *string           `json:"output,omitempty"`
	Args    *canon.RawMessage `json:"args,omitempty"`
	URL     string            `json:"url,omitempty"`
	IsError bool              `json:"is_error,omitempty"`

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
	// Question says whether the text that holds the answer holds the question too.
	Question *bool `json:"question,omitempty"`
}

// A Member is one of a step as the documents have it. The reader goes by the same
// table: a member that is written and not listed here fails a test, and so does one
// that is listed and not written.
type Member struct {
	Name  string
	Of    []string // types of steps
	Means string
	take  func(r *reader, v value) error // nil: no check reads it
}

// Members lists the members of a step.
func Members() []Member {
	all := []string{Prompt, Model, Call, Result}
	both := []string{Model, Call}
	gave := []string{Prompt, Model, Result}
	return []Member{
		{"type", all, "`prompt`, `llm_call`, `tool_call` or `tool_result`", (*reader).kind},
		{"turn", all, "number of the user's turn", nil},
		{"name", []string{Call, Result}, "the tool", (*reader).name},
		{"vantage", []string{Call, Result}, "how the call is known: `executed` by the harness, `reported` by the agent, `proposed` by a model and no more", (*reader).vantage},
		{"content", []string{Prompt}, "the prompt, or its head", text(func(r *reader) *[]byte { return &r.parts.content })},
		{"output", []string{Model, Result}, "what the model said or the tool gave, or its head", text(func(r *reader) *[]byte { return &r.parts.output })},
		{"text", nil, "a text of a step that another recorder wrote", text(func(r *reader) *[]byte { return &r.parts.text })},
		{"head", gave, "the beginning of that text, without secrets", text(func(r *reader) *[]byte { return &r.parts.head })},
		{"bytes", gave, "of the whole text", func(r *reader, v value) error { return r.main.count(v) }},
		{"truncated", gave, "the head is not the whole text", func(r *reader, v value) error { return marks(&r.main.Cut, v) }},
		{"head_truncated", nil, "the same, as other recorders write it", func(r *reader, v value) error { return marks(&r.main.Cut, v) }},
		{"redacted", gave, "secrets were taken out of the head", nil},
		{"salted", gave, "random bytes, which were not kept, stand before the text of which the digest is", func(r *reader, v value) error { return marks(&r.main.Salted, v) }},
		{"lossy", gave, "the head has U+FFFD where the text is not UTF-8", nil},
		{"content_sha256", []string{Prompt}, "SHA-256 of the whole prompt, in hex", func(r *reader, v value) error { return r.main.sum(v) }},
		{"output_sha256", []string{Model, Result}, "SHA-256 of the whole output", func(r *reader, v value) error { return r.main.sum(v) }},
		{"gold_hits", gave, "where the recorder found the answer in the whole of that text: in what a model *said*, of an `llm_call`", func(r *reader, v value) error { return r.main.found(v) }},
		{"input", both, "what the model was sent, or the tool was called with, or its head; empty if a model was sent the steps before and nothing else", (*reader).takeInput},
		{"args", []string{Call}, "what the tool was called with, as an object", text(func(r *reader) *[]byte { return &r.parts.args })},
		{"input_bytes", both, "of the whole input", func(r *reader, v value) error { return r.input.count(v) }},
		{"input_truncated", both, "the input is not whole", func(r *reader, v value) error { r.marked = true; return marks(&r.input.Cut, v) }},
		{"input_redacted", both, "secrets were taken out of it", nil},
		{"input_salted", both, "the digest is salted", func(r *reader, v value) error { return marks(&r.input.Salted, v) }},
		{"input_lossy", both, "it has U+FFFD where it is not UTF-8", nil},
		{"input_sha256", both, "SHA-256 of the whole input", func(r *reader, v value) error { return r.input.sum(v) }},
		{"input_gold_hits", both, "where the recorder found the answer in the whole input: in what a model was *sent*, of an `llm_call`", func(r *reader, v value) error { return r.input.found(v) }},
		{"url", []string{Call, Result}, "the address that the tool was called with", text(func(r *reader) *[]byte { return &r.view.URL })},
		{"is_error", []string{Model, Result}, "the tool gave an error, or the model gave no reply", func(r *reader, v value) error { return marks(&r.view.Failed, v) }},
		{"model", []string{Model}, "its name", nil},
		{"tokens_in", []string{Model}, "tokens of the request", nil},
		{"tokens_out", []string{Model}, "tokens of the reply", func(r *reader, v value) error { return jsonvalue.NumberInto(&r.view.TokensOut, "it", v) }},
	}
}
