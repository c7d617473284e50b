package wire

import (
	"errors"
	"fmt"
	"strconv"

	"tallystick/internal/record/canon"
)

// The APIs that turn texts into vectors. They are recorded, replayed and paid for
// as the other APIs are, and no conversation: a judge asks for vectors only to
// compare texts. Many servers besides OpenAI's have the first.
const (
	Embeddings      API = "openai.embeddings"
	AzureEmbeddings API = "azure.embeddings"
	GeminiEmbed     API = "gemini.embed"
)

// EmbeddingsPath is where such a call goes.
const EmbeddingsPath = "/v1/embeddings"

var embeddingsRow = row{api: Embeddings, path: EmbeddingsPath, provider: &openAI, list: "input",
	irrelevant: []string{"user"}, elsewhere: func(*Node) bool { return false }, inName: "prompt_tokens", words: []string{"text"}, dialect: embeddings{}}

// silent are the APIs that are not conversations.
var silent = []*row{&embeddingsRow, &azureEmbeddingsRow, &geminiEmbedRow}

// Converses reports whether this program speaks the API, and one can hold a
// conversation in it.
func (a API) Converses() bool {
	for _, r := range table {
		if r.api == a {
			return true
		}
	}
	return false
}

// EmbeddingRequest asks a model for the vectors of some texts, in canonical JSON.
// The texts are sent as they are.
func EmbeddingRequest(model string, texts []string) []byte {
	b := []byte(`{"encoding_format":"float","input":[`)
	for i, text := range texts {
		b = canon.AppendString(append(b, separator(i, "")...), text)
	}
	return append(appendMember(append(b, ']'), "model", model), '}')
}

// maxDimensions bounds a vector. The largest of today have some thousands.
const maxDimensions = 1 << 16

// ReadEmbeddings reads the vectors of so many texts, in the order of the texts:
// as many as there are texts, of finite numbers, of one length, none of them zero.
func ReadEmbeddings(body []byte, texts int) ([][]float64, error) {
	n, err := ParseNode(body)
	if err != nil {
		return nil, err
	}
	data := n.Items("data")
	if len(data) != texts {
		return nil, fmt.Errorf("it has %d vectors, expected %d", len(data), texts)
	}
	vectors := make([][]float64, texts)
	for i := range data {
		at := int64(i)
		if index := data[i].Get("index"); index != nil {
			var ok bool
			if at, ok = wholeOf(index); !ok || at < 0 || at >= int64(texts) {
				return nil, fmt.Errorf("vector %d has the index %s, expected 0 to %d", i+1, Head(string(index.AppendJSON(nil))), texts-1)
			}
		}
		if vectors[at] != nil {
			return nil, fmt.Errorf("two vectors are of text %d", at+1)
		}
		if vectors[at], err = vectorOf(data[i].Get("embedding")); err != nil {
			return nil, fmt.Errorf("the vector of text %d: %w", at+1, err)
		}
		if len(vectors[at]) != len(data[0].Items("embedding")) {
			return nil, fmt.Errorf("the vectors have %d and %d numbers, expected one length", len(data[0].Items("embedding")), len(vectors[at]))
		}
	}
	return vectors, nil
}

func vectorOf(n *Node) ([]float64, error) {
	if n == nil || n.Kind != '[' {
		return nil, errors.New("it is not a list of numbers")
	}
	if len(n.List) == 0 || len(n.List) > maxDimensions {
		return nil, fmt.Errorf("it has %d numbers, expected 1 to %d", len(n.List), maxDimensions)
	}
	vector, zero := make([]float64, len(n.List)), true
	for i := range n.List {
		v := &n.List[i]
		x, err := strconv.ParseFloat(v.Text, 64)
		if v.Kind != '0' || err != nil { // ParseFloat fails for what is not finite
			return nil, fmt.Errorf("number %d is %s, expected a finite number", i+1, Head(string(v.AppendJSON(nil))))
		}
		vector[i], zero = x, zero && x == 0
	}
	if zero {
		return nil, errors.New("every number is 0, so it has no direction")
	}
	return vector, nil
}

// A mute is an API that is not a conversation: what only those have is empty.
type mute struct{}

var errNoConversation = errors.New("this is not an API of conversations")

func (mute) recognises(*Node) bool             { return false }
func (mute) ids(*Node) []*Node                 { return nil }
func (mute) request(*Node) Request             { return Request{Choices: 1} } // nothing is put out
func (mute) delivery([]byte) (Delivery, error) { return Delivery{}, nil }

func (mute) envelope(Options) Envelope        { return Envelope{} }
func (mute) system(string) []byte             { return nil }
func (mute) user(string) []byte               { return nil }
func (mute) say(string, []Call) []byte        { return nil }
func (mute) results([]Result) []byte          { return nil }
func (mute) tool(b []byte, _ Tool) []byte     { return b }
func (mute) ends(string) bool                 { return false }
func (mute) stream(*eventWriter, *Node, bool) {}

func (mute) assemble([]Event, bool) (*Node, error) { return nil, errNoConversation }

func (mute) reply(body *Node) (Reply, error) {
	return Reply{Model: body.Str("model")}, errNoConversation
}

// embeddings is how openai.embeddings says things. Its input is a text, a list of
// texts, a list of tokens or a list of these; a vector comes as numbers or, for
// clients that ask so, as the bytes of these in base64.
type embeddings struct{ mute }

func (embeddings) usage(c *counter, usage *Node) Usage {
	return Usage{InputTokens: c.at(usage, "prompt_tokens")}
}

// answer makes a reply of vectors that a person wrote as the text: a JSON list
// with a list of numbers for each text.
func (embeddings) answer(a *Answer) (Node, error) {
	list, err := ParseNode([]byte(a.Text))
	if err != nil || list.Kind != '[' {
		return Node{}, fmt.Errorf("the reply to a request for vectors is %s, expected a list of lists of numbers such as [[1,0],[0.6,0.8]]", Head(a.Text))
	}
	var data []Node
	for i, vector := range list.List {
		data = append(data, ObjectNode("object", StringNode("embedding"), "index", numberNode(int64(i)), "embedding", vector))
	}
	return ObjectNode("object", StringNode("list"), "data", ArrayNode(data...), "model", StringNode(a.Model),
		"usage", ObjectNode("prompt_tokens", numberNode(a.InputTokens), "total_tokens", numberNode(a.InputTokens))), nil
}
