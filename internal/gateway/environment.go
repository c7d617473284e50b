package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// NewToken makes the token of one case. It looks like a key of OpenAI's, since
// some agents check that, and since whatever looks like one is taken out of
// events and recordings.
func NewToken() string {
	var random [24]byte
	rand.Read(random[:]) // never fails
	return "sk-tally-" + hex.EncodeToString(random[:])
}

// Environment is what an agent is told, as variables: where the gateway is, and
// its token, under the names that SDKs read. BaseURL has no path, as in
// http://127.0.0.1:4000.
func Environment(baseURL, token string) []string {
	baseURL = strings.TrimRight(baseURL, "/")
	return []string{
		"OPENAI_BASE_URL=" + baseURL + "/v1",
		"OPENAI_API_BASE=" + baseURL + "/v1", // the name before 2023, which LangChain and LiteLLM still read
		"OPENAI_API_KEY=" + token,
		"ANTHROPIC_BASE_URL=" + baseURL,
		"ANTHROPIC_API_KEY=" + token,
		"TALLY_GATEWAY=" + baseURL,
		"TALLY_MCP_URL=" + baseURL + "/mcp",
		"TALLY_TOKEN=" + token,
	}
}
