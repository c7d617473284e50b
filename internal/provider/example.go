package provider

import (
	"fmt"
	"strings"

	"tallystick/internal/wire"
)

// Example is providers.yaml for somebody who has keys in the usual variables.
func Example() []byte {
	var b strings.Builder
	b.WriteString(`# Who answers model calls while "tally record" runs; a replay asks nobody. The keys
# stay in your environment. docs/recording.md has other servers, prices and limits.
version: 1
`)
	for _, p := range wire.Providers() {
		fmt.Fprintf(&b, "%s: {key_env: %s}\n", p.Name, p.KeyEnv)
	}
	return []byte(b.String())
}
