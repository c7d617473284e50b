package provider

import (
	"fmt"
	"strings"

	"tallystick/internal/run/wire"
)

// Example is providers.yaml for an operator who has keys in the usual
// variables.
func Example() []byte {
	var b strings.Builder
	b.WriteString(`# Who answers model calls while "tally record" runs; a replay sends no call. The keys
# stay in your environment. A model that costs money needs its price, in micro-dollars
# for a million tokens, as in
#   prices: {"the-model": {input: 2500000, output: 10000000, max_output_tokens: 16384}}
# docs/recording.md has the rest, and other servers.
version: 1
`)
	for _, p := range wire.Providers() {
		if p.BaseURL == "" || strings.Contains(p.BaseURL, "{region}") {
			continue // each customer has an address of their own there
		}
		fmt.Fprintf(&b, "%s: {key_env: %s}\n", p.Name, p.KeyEnv)
	}
	return []byte(b.String())
}
