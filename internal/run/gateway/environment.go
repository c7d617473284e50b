package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"tallystick/internal/run/wire"
)

// NewToken makes the token of one case. It looks like a key that many servers give out, since
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
	var list []string
	for _, p := range wire.Providers() {
		for _, name := range p.BaseEnv {
			list = append(list, name+"="+baseURL+p.BasePath)
		}
		for _, name := range append([]string{p.KeyEnv}, p.MoreKeyEnv...) {
			list = append(list, name+"="+token)
		}
		for _, fixed := range p.FixedEnv {
			list = append(list, fixed[0]+"="+fixed[1])
		}
	}
	list = append(list, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+baseURL+"/v1/traces", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization=Bearer%20"+token, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf")
	return append(list, "TALLY_GATEWAY="+baseURL, "TALLY_MCP_URL="+baseURL+"/mcp", "TALLY_TOKEN="+token)
}
