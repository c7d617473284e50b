package wire

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Request is what a request says. What it says in an unknown way is a part of
// the kind [Other], or left out.
type Request struct {
	Model    string
	System   []Part // where the API has it apart from the messages
	Messages []Message

	MaxOutput int64 // tokens; -1 if the request does not say
	Choices   int64 // how many answers it asks for at once
}

// A Message is one message of a conversation.
type Message struct {
	Role  string // system, user, assistant, tool, ...; what the model said is assistant in every API
	Parts []Part
}

// ReadRequest reads the body of a request.
func ReadRequest(api API, body []byte) (Request, error) {
	r, err := api.row()
	if err != nil {
		return Request{}, err
	}
	n, err := ParseNode(body)
	if err != nil {
		return Request{}, err
	}
	if n.Kind != '{' {
		return Request{}, malformed("the request to %s is not a JSON object", api)
	}
	out := r.request(&n)
	out.Model = n.Str("model")
	return out, nil
}

// ToolsOf lists, in order, the calls of tools that a conversation shows in what
// the model said before, and the results that the agent sent back. A result has
// the name and the arguments of its call: the last one before it with this id
// that has no result yet. The body of a request may be only the end of a
// conversation that the provider keeps; then there are results without calls.
func ToolsOf(api API, request []byte) (calls []Call, results []Result, err error) {
	r, err := ReadRequest(api, request)
	if err != nil {
		return nil, nil, err
	}
	var open []openCall
	for i := range r.Messages {
		for _, p := range r.Messages[i].Parts {
			switch {
			case p.Call != nil:
				calls, open = append(calls, *p.Call), append(open, openCall{*p.Call, i})
			case p.Result != nil:
				open = p.Result.takeCall(open)
				results = append(results, *p.Result)
			}
		}
	}
	return calls, results, nil
}

// An Offered is a tool as a request tells the model about it.
type Offered struct {
	Name       string
	Definition []byte // canonical JSON of all that is said of it, the description first of all
}

// OfferedTools lists the tools that a request tells the model about, those inside
// namespaces and of the oldest form included. A tool that has no name, such as a
// shell of the API, is called by its type. The API must be known.
func OfferedTools(api API, request []byte) ([]Offered, error) {
	n, err := ParseNode(request)
	if err != nil {
		return nil, err
	}
	group := cmp.Or(api.must().toolGroup, "tools")
	var list []Offered
	add := func(t *Node) {
		if name := toolName(t); name != "" && err == nil {
			var definition []byte
			definition, err = t.Canonical()
			list = append(list, Offered{name, definition})
		}
	}
	owner := &n
	if name := api.must().toolOwner; name != "" {
		if owner = n.Get(name); owner == nil {
			return nil, nil
		}
	}
	for _, member := range []string{"tools", "functions"} {
		for _, t := range owner.Items(member) {
			inner := t.Items(group)
			if len(inner) > 0 {
				t = t.Clone()
				t.Drop(func(name string, _ *Node) bool { return name == group })
			}
			add(&t)
			for _, i := range inner {
				add(&i)
			}
		}
	}
	return list, err
}

// toolName is the name of a definition, which some APIs have one level deeper.
func toolName(t *Node) string {
	for _, owner := range []*Node{t, t.Get("function"), t.Get("custom"), t.Get("toolSpec")} {
		if owner != nil && owner.Str("name") != "" {
			return owner.Str("name")
		}
	}
	return t.Str("type")
}

// An openCall is a call without a result so far, and the message that it is in.
type openCall struct {
	Call
	message int
}

// takeCall finds the call that a result belongs to, and returns the others.
// Where calls have no ids, as in the oldest form of openai.chat, the name tells:
// of calls in one message the first of this name, of messages the last.
func (r *Result) takeCall(open []openCall) []openCall {
	found := -1
	for i := len(open) - 1; i >= 0; i-- {
		c := open[i]
		if c.ID != r.ID || r.ID == "" && c.Name != r.Name {
			continue
		}
		if found >= 0 && (r.ID != "" || c.message != open[found].message) {
			break
		}
		found = i
	}
	if found < 0 {
		return open
	}
	r.Name, r.Args = open[found].Name, open[found].Args
	return append(open[:found:found], open[found+1:]...)
}

// A Delivery is how a client wants its reply.
type Delivery struct {
	Stream bool

	// IncludeUsage asks for an event with the usage at the end, in an API
	// whose streams have it only for those who ask.
	IncludeUsage bool
}

// DeliveryOf reads how the reply to a request is to be delivered.
func DeliveryOf(api API, request []byte) (Delivery, error) {
	r, err := api.row()
	if err != nil {
		return Delivery{}, err
	}
	return r.delivery(request)
}

// outputLimit is the first of some members that is a number of tokens.
func outputLimit(n *Node, names ...string) int64 {
	for _, name := range names {
		if v, ok := wholeOf(n.Get(name)); ok && v >= 0 {
			return v
		}
	}
	return -1
}

func wholeOf(n *Node) (int64, bool) {
	if n == nil || n.Kind != '0' {
		return 0, false
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	return v, err == nil
}

// A Bounds is what limits the cost of a call.
type Bounds struct {
	Model     string
	MaxOutput int64 // tokens of one answer; a number beyond all if the request does not say
	Choices   int64

	// Elsewhere: the request names content that is not in it, such as stored
	// conversations, files, prompts, or addresses that the provider fetches.
	Elsewhere bool
}

// BoundsOf reads what limits the cost of a request.
func BoundsOf(api API, request []byte) (Bounds, error) {
	r, err := api.row()
	if err != nil {
		return Bounds{}, err
	}
	n, err := ParseNode(request)
	if err != nil {
		return Bounds{}, err
	}
	q := r.request(&n)
	b := Bounds{Model: n.Str("model"), MaxOutput: q.MaxOutput, Choices: min(max(q.Choices, 1), 1000), Elsewhere: r.refersElsewhere(&n)}
	if b.MaxOutput < 0 {
		b.MaxOutput = math.MaxInt64
	}
	return b, nil
}

func (r *row) refersElsewhere(n *Node) bool {
	if r.elsewhere == nil {
		return true
	}
	for i := range n.List {
		m := &n.List[i]
		if n.Kind == '{' && r.elsewhere(m) || r.refersElsewhere(m) {
			return true
		}
	}
	return false
}

// namesElsewhere knows the members of the first three APIs that name content
// outside of the request.
func namesElsewhere(m *Node) bool {
	switch m.Name {
	case "previous_response_id", "conversation", "file_id", "file_url", "container", "vector_store_ids":
		return m.Kind != 'n'
	case "type":
		return m.Kind == '"' && m.Text == "item_reference"
	case "url", "image_url":
		return m.Kind == '"' && !strings.HasPrefix(m.Text, "data:")
	case "prompt":
		return m.Kind == '{'
	}
	return false
}

// Words are the texts of a request as it was sent, for a caller that looks for
// a word in it.
type Words struct {
	Model string
	Tools string   // the definitions, as JSON
	Texts []string // in the order in which they stand
}

// commonWords are the members that hold words in the first three APIs.
var commonWords = []string{"content", "text", "arguments", "input", "output", "tool_calls", "function"}

// spoken lists the members of a request in which something is said.
func (r *row) spoken() []string {
	return slices.Concat([]string{"system", "instructions"}, r.instructions, []string{r.list})
}

// WordsOf collects the texts of a request, and apart from them its tool
// definitions. What is not JSON has none. The API must be known.
func WordsOf(api API, request []byte) Words {
	r := api.must()
	var members map[string]json.RawMessage
	var w Words
	if json.Unmarshal(request, &members) != nil {
		return w
	}
	_ = json.Unmarshal(members["model"], &w.Model)
	w.Tools = string(members[cmp.Or(r.toolOwner, "tools")])
	for _, name := range r.spoken() {
		var v any
		if json.Unmarshal(members[name], &v) == nil {
			w.collect(v, r.words)
		}
	}
	return w
}

func (w *Words) collect(v any, names []string) {
	switch v := v.(type) {
	case string:
		w.Texts = append(w.Texts, v)
	case []any:
		for _, x := range v {
			w.collect(x, names)
		}
	case map[string]any:
		for _, name := range names {
			if x, ok := v[name]; ok {
				w.collect(x, names)
			}
		}
	}
}
