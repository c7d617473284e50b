package wire

import "strings"

// An End says how a reply ended.
type End int

// The ends.
const (
	Finished End = iota // the model said what it had to say
	Cut                 // at the limit of output tokens: the end is missing
	Refused             // the model, or a filter, declined
	Failed              // the provider gave up
	Stopped             // for another reason
)

// A Reply is what a model said.
type Reply struct {
	Model  string // as the provider names it
	Parts  []Part // of the first choice, in order
	End    End
	Stop   string // the reason why it ended, in the API's own word
	Detail string // of Failed: what the provider says about it

	// Choices is how many alternatives there are. Most APIs have one.
	Choices int

	others []Part   // calls of the other choices: a client may act on any of them
	served []Result // calls that the provider carried out itself
}

// ReadReply reads the body of a reply. The error is about its shape; what could
// be read in spite of it is there as well.
func ReadReply(api API, body []byte) (Reply, error) {
	r, err := api.row()
	if err != nil {
		return Reply{}, err
	}
	n, err := ParseNode(body)
	if err != nil {
		return Reply{}, err
	}
	if n.Kind != '{' {
		return Reply{}, malformed("the reply is not a JSON object")
	}
	return r.reply(&n)
}

// ReadStream reads a reply that came as a stream.
func ReadStream(api API, chunks []string) (Reply, error) {
	body, err := Assemble(api, chunks)
	if err != nil {
		return Reply{}, err
	}
	return api.must().reply(body)
}

// Text is the words of the reply, those of a refusal included.
func (r *Reply) Text() string { return joinTexts(r.Parts) }

// Shown is everything that a reply has in the open: words, and the reasoning of
// models that do not hide it.
func (r *Reply) Shown() string {
	var b strings.Builder
	for i := range r.Parts {
		b.WriteString(r.Parts[i].Text)
	}
	return b.String()
}

// Calls lists the functions that the model wants called, in order.
func (r *Reply) Calls() []Call {
	var calls []Call
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Kind == ToolCall {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

// AllCalls lists the calls that the client is to carry out: functions, tools of
// other kinds that its API has, such as a shell, and those of every choice.
func (r *Reply) AllCalls() []Call {
	var calls []Call
	for _, parts := range [][]Part{r.Parts, r.others} {
		for i := range parts {
			if c := parts[i].Call; c != nil {
				calls = append(calls, *c)
			}
		}
	}
	return calls
}

// Served lists the calls that the provider carried out while it answered, such
// as a search of its own or a tool of an MCP server that it speaks to. Sent is
// the JSON of what the reply has about the result.
func (r *Reply) Served() []Result { return r.served }

// Refused reports whether the model declined, in whatever way the API says it.
func (r *Reply) Refused() bool {
	for i := range r.Parts {
		if r.Parts[i].Kind == Refusal {
			return true
		}
	}
	return r.End == Refused
}

// An Answer is a reply that an author made up, for [Body] to write.
type Answer struct {
	ID            string // behind the prefix that the API gives its replies
	Model         string
	Text, Refusal string
	Calls         []AnswerCall

	InputTokens, OutputTokens int64

	// Echo adds the members that repeat what a request has or leaves out.
	Echo bool
}

// An AnswerCall is a call in an [Answer].
type AnswerCall struct {
	Call
	Item string // the id of the item that is the call, where it has one of its own
}

// CallID is the id of a call as the API's servers write it. The API must be
// known.
func (a API) CallID(id string) string { return a.must().callPrefix + id }

// Body writes an answer as the body of a reply, in canonical JSON.
func Body(api API, a *Answer) ([]byte, error) {
	r, err := api.row()
	if err != nil {
		return nil, err
	}
	n, err := r.answer(a)
	if err != nil {
		return nil, err
	}
	return n.Canonical()
}
