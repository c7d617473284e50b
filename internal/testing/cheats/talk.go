package cheats

import (
	"encoding/json"
	"fmt"
	"strings"
)

// An act is one thing that happened, with its texts whole. What of it is
// written down is for a recorder to say.
type act struct {
	kind      string // prompt, llm_call, tool_call, tool_result
	turn      int
	name      string
	url       string
	vantage   string
	args      map[string]any
	text      string // of a prompt, of a result, what a model said
	input     string // what a model was sent
	isError   bool
	tokensIn  int64
	tokensOut int64
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A talk is an agent at work on one task: it keeps the conversation and the
// acts that a recorder sees.
type talk struct {
	d    *dice
	task *task
	acts []act

	messages []message
	turn     int

	style style
	// told are texts that a cheat puts into what the agent is shown.
	told told
}

// A style is how one agent speaks and is seen. It is the same for a whole run.
type style struct {
	system  string
	wire    int    // how a request is written: JSON, JSON with escapes, plain
	whole   bool   // each request carries the conversation so far
	vantage string // executed by the harness, or reported by the agent
}

type told struct {
	system, user, later string
	parts               []string // messages of their own, after the question
}

func (t *talk) prompt(text string) {
	t.turn++
	t.acts = append(t.acts, act{kind: "prompt", turn: t.turn, text: text})
	t.messages = append(t.messages, message{"user", text})
}

// begin opens the task: what the system says, then the question.
func (t *talk) begin(question string) {
	system := t.style.system + t.told.system
	if t.style.whole {
		t.messages = append(t.messages, message{"system", system})
		t.prompt(question + t.told.user)
	} else {
		t.prompt(system + "\n\n" + question + t.told.user)
	}
	for _, part := range t.told.parts {
		t.messages = append(t.messages, message{"user", part})
		t.acts = append(t.acts, act{kind: "prompt", turn: t.turn, text: part})
	}
}

// says is a call of a model with the conversation so far.
func (t *talk) says(output string) {
	input := t.request()
	t.acts = append(t.acts, act{kind: "llm_call", turn: t.turn, input: input, text: output, tokensIn: int64(len(input)/4 + 1), tokensOut: int64(len(output)/4 + 1)})
	t.messages = append(t.messages, message{"assistant", output})
}

func (t *talk) request() string {
	messages := t.messages
	if !t.style.whole && len(messages) > 2 {
		messages = messages[len(messages)-2:]
	}
	if t.style.wire == 2 {
		var b strings.Builder
		for _, m := range messages {
			fmt.Fprintf(&b, "%s: %s\n\n", m.Role, m.Content)
		}
		return b.String()
	}
	data, _ := json.Marshal(map[string]any{"messages": messages, "temperature": 0})
	if t.style.wire == 1 {
		return asciiJSON(data)
	}
	return string(data)
}

// uses is a tool call and its result.
func (t *talk) uses(name string, args map[string]any, result string) {
	url, _ := args["url"].(string)
	t.acts = append(t.acts, act{kind: "tool_call", turn: t.turn, name: name, args: args, url: url, vantage: t.style.vantage})
	t.acts = append(t.acts, act{kind: "tool_result", turn: t.turn, name: name, url: url, text: result, vantage: t.style.vantage, isError: strings.HasPrefix(result, "Traceback")})
	t.messages = append(t.messages, message{"tool", result})
}

// interject is a message of the harness in the middle of the work.
func (t *talk) interject() {
	if t.told.later != "" {
		t.prompt(t.told.later)
		t.told.later = ""
	}
}

// concludes is the last call, which gives the answer.
func (t *talk) concludes(answer string) {
	t.interject()
	t.says(strings.ReplaceAll(pick(t.d, t.task.tongue.says), "{g}", answer))
}

// asciiJSON is JSON as Python writes it: everything else escaped.
func asciiJSON(data []byte) string {
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
