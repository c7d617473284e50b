package cassette

import (
	"slices"
	"strings"

	"tallystick/internal/record/evidence"
)

// endpointsOf adds up who answered the model calls.
func endpointsOf(interactions []Interaction) []evidence.EndpointUse {
	var all []evidence.EndpointUse
	for i := range interactions {
		m := interactions[i].Model
		if m == nil || m.From == nil {
			continue
		}
		use := evidence.EndpointUse{Endpoint: *m.From, Replies: 1}
		if m.Said != nil && m.Said.Model != "" {
			use.Models = []string{m.Said.Model}
		}
		all = append(all, use)
	}
	return evidence.AddEndpoints(all)
}

func sameUse(a, b evidence.EndpointUse) bool {
	return a.Endpoint == b.Endpoint && a.Replies == b.Replies && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Models, b.Models)
}

func usesText(uses []evidence.EndpointUse) string {
	texts := []string{}
	for _, u := range uses {
		texts = append(texts, u.Text())
	}
	return "[" + strings.Join(texts, "; ") + "]"
}
