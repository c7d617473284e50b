package wire

import "fmt"

// geminiEmbedRow is embedContent, and batchEmbedContents for many contents at
// once: a request for these has the member requests.
var geminiEmbedRow = row{api: GeminiEmbed, provider: &google, path: "/v1beta/models/{model}:embedContent",
	batchPath: "/v1beta/models/{model}:batchEmbedContents", batchName: "requests",
	usageName: "usageMetadata", modelName: "modelVersion", inName: "promptTokenCount",
	list: "requests", instructions: []string{"content"}, notTexts: []string{"mimeType", "fileUri", "taskType", "outputDimensionality"},
	words: []string{"content", "parts", "text"}, elsewhere: geminiElsewhere, dialect: geminiEmbed{}}

// geminiEmbed is how gemini.embed says things.
type geminiEmbed struct{ mute }

// usage is told by the newer models only; of others what a call cost is unknown.
func (geminiEmbed) usage(c *counter, usage *Node) Usage {
	return Usage{InputTokens: c.at(usage, "promptTokenCount")}
}

// answer makes a reply of vectors that a person wrote as the text, as
// openai.embeddings does: one vector answers one content, a list of them a batch.
func (geminiEmbed) answer(a *Answer) (Node, error) {
	list, err := ParseNode([]byte(a.Text))
	if err != nil || list.Kind != '[' || len(list.List) == 0 {
		return Node{}, fmt.Errorf("the reply to a request for vectors is %s, expected a list of numbers such as [1,0], or for a batch a list of those", Head(a.Text))
	}
	usage := ObjectNode("promptTokenCount", numberNode(a.InputTokens))
	if list.List[0].Kind != '[' {
		return ObjectNode("embedding", ObjectNode("values", list), "usageMetadata", usage), nil
	}
	var vectors []Node
	for _, vector := range list.List {
		vectors = append(vectors, ObjectNode("values", vector))
	}
	return ObjectNode("embeddings", ArrayNode(vectors...), "usageMetadata", usage), nil
}
