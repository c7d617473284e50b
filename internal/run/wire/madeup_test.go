package wire

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// MadeUp is an API that does not exist: everything that adding one takes. It
// says things in its own way on purpose: turns in place of messages, lines of
// text in place of blocks, sizes in place of tokens.
const MadeUp API = "acme.talk"

var madeUpRow = row{api: MadeUp, path: "/v1/talk", provider: &acme, list: "turns",
	irrelevant: []string{"live", "trace"}, words: []string{"said", "with"}, elsewhere: func(*Node) bool { return false }, idPrefixes: []string{"wish-"}, callPrefix: "wish-", inName: "in", outName: "out", dialect: madeUp{}}

var acme = Provider{
	Name:      "acme",
	BaseURL:   "https://talk.example.com",
	BaseEnv:   []string{"ACME_URL"},
	KeyEnv:    "ACME_KEY",
	KeyHeader: "X-Acme",
	KeyScheme: "Key ",
	failure: func(kind, message, code string) Node {
		return ObjectNode("oops", StringNode(kind+": "+message))
	},
	model:     func(name string) Node { return StringNode(name) },
	modelList: func(list []Node, _ []string) Node { return ArrayNode(list...) },
}

type madeUp struct{}

func (madeUp) recognises(n *Node) bool { return n.Get("turns") != nil }

func (madeUp) ids(n *Node) (ids []*Node) {
	for i := range n.Items("turns") {
		ids = appendMembers(ids, &n.Items("turns")[i], "wish")
	}
	return ids
}

func (madeUp) delivery(body []byte) (Delivery, error) {
	var asked struct {
		Live bool `json:"live"`
	}
	err := json.Unmarshal(body, &asked)
	return Delivery{Stream: asked.Live}, err
}

func (madeUp) request(n *Node) Request {
	r := Request{MaxOutput: outputLimit(n, "most"), Choices: 1}
	for i := range n.Items("turns") {
		turn := &n.Items("turns")[i]
		m := Message{Role: turn.Str("who")}
		switch {
		case turn.Get("do") != nil:
			m.Parts = []Part{{Kind: ToolCall, Call: &Call{ID: turn.Str("wish"), Name: turn.Str("do"), Args: []byte(turn.Str("with"))}}}
		case turn.Get("wish") != nil:
			m.Parts = []Part{{Kind: ToolResult, Result: resultOf(turn.Str("wish"), turn.Get("said"))}}
		default:
			m.Parts = contentParts(turn.Get("said"), partOf)
		}
		r.Messages = append(r.Messages, m)
	}
	return r
}

func (madeUp) envelope(o Options) Envelope {
	e := Envelope{head: []byte(`{`), systemInList: true}
	e.head = appendMember(e.head, "model", o.Model)
	if o.MaxOutput > 0 {
		e.head = appendRaw(e.head, "most", []byte(strconv.FormatInt(o.MaxOutput, 10)))
	}
	e.head = append(e.head, `,"turns":[`...)
	e.middle = []byte(`]`)
	return e
}

func (madeUp) system(text string) []byte { return madeUpTurn("boss", text) }
func (madeUp) user(text string) []byte   { return madeUpTurn("user", text) }

func madeUpTurn(who, text string) []byte {
	b := appendMember([]byte("{"), "said", text)
	return append(appendMember(b, "who", who), '}')
}

func (madeUp) say(text string, calls []Call) (b []byte) {
	if text != "" {
		b = madeUpTurn("model", text)
	}
	for _, c := range calls {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = appendMember(append(b, '{'), "do", c.Name)
		b = appendMember(appendMember(b, "who", "model"), "wish", c.ID)
		b = append(appendMember(b, "with", string(c.Args)), '}')
	}
	return b
}

func (madeUp) results(results []Result) (b []byte) {
	for i, r := range results {
		b = appendMember(append(b, separator(i, "")+"{"...), "said", r.Text)
		b = append(appendMember(appendMember(b, "who", "tool"), "wish", r.ID), '}')
	}
	return b
}

func (madeUp) tool(b []byte, t Tool) []byte {
	return append(appendMember(appendMember(append(b, '{'), "is", t.Description), "tool", t.Name), '}')
}

func (madeUp) reply(body *Node) (Reply, error) {
	out := Reply{Model: body.Str("model"), Choices: 1, Stop: body.Str("over")}
	if out.Stop == "" {
		return out, errors.New("it is not over")
	}
	if out.Stop == "full" {
		out.End = Cut
	}
	out.Parts = contentParts(body.Get("said"), partOf)
	for i := range body.Items("wishes") {
		w := &body.Items("wishes")[i]
		out.Parts = append(out.Parts, Part{Kind: ToolCall, Call: &Call{ID: w.Str("wish"), Name: w.Str("do"), Args: []byte(w.Str("with"))}})
	}
	return out, nil
}

func (madeUp) answer(a *Answer) (Node, error) {
	wishes := []Node{}
	for _, c := range a.Calls {
		wishes = append(wishes, ObjectNode("wish", StringNode(c.ID), "do", StringNode(c.Name), "with", StringNode(string(c.Args))))
	}
	return ObjectNode("model", StringNode(a.Model), "said", StringNode(a.Text+a.Refusal), "wishes", ArrayNode(wishes...), "over", StringNode("yes"),
		"usage", ObjectNode("in", numberNode(a.InputTokens), "out", numberNode(a.OutputTokens))), nil
}

func (madeUp) usage(c *counter, usage *Node) Usage {
	return Usage{InputTokens: c.at(usage, "in"), OutputTokens: c.at(usage, "out")}
}

// A stream is the body in two halves: what is said grows, the rest comes last.
func (madeUp) stream(w *eventWriter, body *Node, _ bool) {
	w.write("more", ObjectNode("said", StringNode(body.Str("said"))))
	last := body.Clone()
	last.Drop(func(name string, _ *Node) bool { return name == "said" })
	w.write("over", last)
}

func (madeUp) assemble(events []Event, _ bool) (*Node, error) {
	said := ""
	for i := range events {
		said += events[i].Data.Str("said")
		if events[i].Name == "over" {
			events[i].Data.Set("said", StringNode(said))
			return &events[i].Data, nil
		}
	}
	return nil, brokenStream(MadeUp, "it is not over")
}

func (madeUp) ends(chunk string) bool { return strings.HasPrefix(chunk, "event: over") }
