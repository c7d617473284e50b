package provider

import (
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// Elsewhere reports whether a kept call was answered by another endpoint than
// the one that these settings name now, so that it must not answer again: the
// settings were changed, and the old server's word is not the new one's. Every
// reuse of a kept reply asks here. A recorded call that names no endpoint could
// be from anywhere; what people wrote by hand is from nowhere, and may answer.
// Settings without endpoints compare nothing: then no provider is asked.
func (s *Settings) Elsewhere(it *cassette.Interaction, how cassette.Provenance) bool {
	m := it.Model
	switch {
	case m == nil || s.isEmpty():
		return false
	case m.From == nil:
		return how == cassette.Recorded
	}
	place, ok := s.At(m.API)
	return !ok || !m.From.SamePlace(place)
}

func (s *Settings) isEmpty() bool { return len(s.Endpoints) == 0 && len(s.MCP) == 0 }

// CameFrom says where a kept call came from and where it would go now, for a message.
func (s *Settings) CameFrom(it *cassette.Interaction) string {
	was := "an endpoint that it does not name"
	if it.Model.From != nil {
		was = it.Model.From.Text()
	}
	return "came from " + was + ", and " + SettingsFile + " now names " + s.placeText(it.Model.API)
}

func (s *Settings) placeText(api wire.API) string {
	if place, ok := s.At(api); ok {
		return place.URL()
	}
	return "no endpoint for " + string(api)
}

// CheckBase refuses to add to a recording that has replies of another endpoint: one
// cassette would answer for two servers.
func (s *Settings) CheckBase(c *cassette.Cassette) error {
	for i := range c.Interactions {
		if it := &c.Interactions[i]; s.Elsewhere(it, c.Header.Provenance) {
			return refusal.Newf(refusal.CassetteMiss, "%s %s: nothing can be added to it", it.Describe(), s.CameFrom(it)).
				WithHint("record everything again with --overwrite, or put base_url in %s back", SettingsFile)
		}
	}
	return nil
}
