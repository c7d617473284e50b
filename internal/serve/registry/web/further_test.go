package web

import (
	"strings"
	"testing"
)

// TestAFurtherEndpointIsOneFileAndOneRow adds one to a copy of the table.
func TestAFurtherEndpointIsOneFileAndOneRow(t *testing.T) {
	p := newPlace(t, nil)
	madeUp := route{method: "GET", path: "/api/weather/{day}", name: "weather", summary: "The weather of a day", access: anAgent,
		gives:   ok(typeJSON, "Weather", "the weather"),
		schemas: map[string]string{"Weather": `{"type":"object","properties":{"day":{"type":"string"}},"required":["day"]}`},
		handle:  func(c *call) (*reply, error) { return asJSON(200, map[string]string{"day": c.path("day")}) },
	}
	if rec := ask(p.h, "GET", "/api/weather/monday", ""); rec.Code != 404 {
		t.Errorf("it answers without its row: %d", rec.Code)
	}
	s, err := New(Config{Writer: p.reg, PublicURL: base, Now: p.clock, routes: append(routes(), madeUp)})
	if err != nil {
		t.Fatal(err)
	}
	if rec := ask(s, "GET", "/api/weather/monday", ""); rec.Code != 401 {
		t.Errorf("without a key: %d %s", rec.Code, rec.Body)
	}
	key := p.register().key
	rec := ask(s, "GET", "/api/weather/monday", "", "Authorization", "Bearer "+key)
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"day":"monday"`) {
		t.Errorf("with one: %d %s", rec.Code, rec.Body)
	}
	d := readDescription(t, s.spec)
	if _, described := d.schemas["Weather"]; !described || !strings.Contains(string(s.spec), `"operationId":"weather"`) {
		t.Error("the OpenAPI document does not describe it")
	}
	if rec := ask(s, "GET", "/.well-known/ip-knowledge.json", ""); !strings.Contains(rec.Body.String(), `"weather":"GET `+base+`/api/weather/{day}"`) {
		t.Errorf("what the registry says about itself does not have it: %s", rec.Body)
	}
	if rec := ask(s, "POST", "/api/weather/monday", "{}"); rec.Code != 405 {
		t.Errorf("another method: %d", rec.Code)
	}
}
