package cassette

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/wire"
)

// maxTotal is the largest sum of tokens or micro-dollars: 2^53-1, the largest
// integer of canonical JSON.
const maxTotal = 1<<53 - 1

// maxNameBytes bounds names of tools, servers, methods and models.
const maxNameBytes = 1024

// KeptHeaders are the names of the response headers that a cassette keeps, the
// ones that clients act on. All others are dropped at recording: they may
// carry credentials, and they tie a cassette to an account.
var KeptHeaders = []string{"content-type", "openai-version", "retry-after", "retry-after-ms", "x-should-retry"}

// validate checks everything that decoding does not: one kind for each
// interaction, keys, ordinals, totals.
func (c *Cassette) validate(l Limits) error {
	h := &c.Header
	switch h.Provenance {
	case Recorded, Edited, Authored:
	default:
		return malformed("line 1: provenance is %.40q, expected recorded, edited or authored", h.Provenance)
	}
	if h.Redactions < 0 || h.Redactions > maxTotal {
		return malformed("line 1: redactions is %d", h.Redactions)
	}
	if len(c.Interactions) > l.MaxInteractions {
		return tooLarge("%d interactions, at most %d are accepted", len(c.Interactions), l.MaxInteractions)
	}

	count := map[digest.ID]int64{}
	for i := range c.Interactions {
		it := &c.Interactions[i]
		if err := it.validate(); err != nil {
			return fmt.Errorf("line %d: %w", i+2, err)
		}
		key, err := it.computeKey()
		if err != nil {
			return fmt.Errorf("line %d: %w", i+2, err)
		}
		if key != it.Key {
			return malformed("line %d: the key is %s, the request has %s", i+2, it.Key, key)
		}
		if it.Ordinal != count[key] {
			return malformed("line %d: the ordinal is %d, %d interactions before it have the same key", i+2, it.Ordinal, count[key])
		}
		count[key]++
	}

	models, totals, err := summarize(c.Interactions)
	if err != nil {
		return err
	}
	if totals != h.Totals {
		return malformed("line 1: the totals are %+v, the interactions add up to %+v", h.Totals, totals)
	}
	if !slices.Equal(models, h.Models) {
		return malformed("line 1: the models are %.200q, the interactions name %.200q", h.Models, models)
	}
	if found := endpointsOf(c.Interactions); !slices.EqualFunc(found, h.Endpoints, sameUse) {
		return malformed("line 1: the endpoints are %s, the interactions name %s", usesText(h.Endpoints), usesText(found))
	}
	if found := reachedBy(c.Interactions); !slices.EqualFunc(found, h.Reached, sameUse) {
		return malformed("line 1: reached are %s, the interactions name %s", usesText(h.Reached), usesText(found))
	}
	if h.Provenance == Authored && len(h.Endpoints)+len(h.Reached) > 0 {
		return malformed("line 1: the provenance is authored, and endpoints are named: what was written by hand no server answered")
	}
	return nil
}

func (it *Interaction) validate() error {
	kinds := 0
	for _, set := range []bool{it.HTTP != nil, it.Model != nil, it.Tool != nil, it.MCP != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return malformed("found %d of http, mcp, model and tool, expected one", kinds)
	}
	if it.LatencyMS < 0 || it.LatencyMS > maxTotal {
		return malformed("latency_ms is %d", it.LatencyMS)
	}
	if it.Purpose != "" && (it.Purpose != ForJudge && it.Purpose != ForAgent && it.Purpose != ForUser || it.Model == nil) {
		return malformed("purpose is %.40q, expected judge, user or agent, of a model call", it.Purpose)
	}
	switch {
	case it.Model != nil:
		return it.Model.validate()
	case it.Tool != nil:
		return it.Tool.validate()
	case it.HTTP != nil:
		return it.HTTP.validate()
	}
	return it.MCP.validate()
}

func (m *ModelCall) validate() error {
	if !m.API.Known() {
		return malformed("api is %.40q, expected %s", m.API, wire.Expected())
	}
	if len(m.Request) == 0 || m.Request[0] != '{' {
		return malformed("the request is not an object")
	}
	if len(m.ModelName()) > maxNameBytes {
		return malformed("the model's name has more than %d bytes", maxNameBytes)
	}
	if c := m.CostMicrodollars; c != nil && (*c < 0 || *c > maxTotal) {
		return malformed("cost_microdollars is %d", *c)
	}
	if err := m.Usage.Validate(); err != nil {
		return err
	}
	if m.From != nil {
		if err := m.From.Validate(); err != nil {
			return malformed("from: %v", err)
		}
	}
	if s := m.Said; s != nil && (*s == Said{} || len(s.Model) > maxNameBytes || len(s.RequestID) > maxNameBytes || !utf8.ValidString(s.Model+s.RequestID)) {
		return malformed("said is empty, or has a text of more than %d bytes", maxNameBytes)
	}
	return m.Response.validate()
}

func (r *Response) validate() error {
	if r.Status < 100 || r.Status > 599 {
		return malformed("status is %d, expected an HTTP status", r.Status)
	}
	forms := 0
	for _, set := range []bool{r.Body != nil, r.Stream != nil, r.Text != ""} {
		if set {
			forms++
		}
	}
	if forms > 1 {
		return malformed("the response has more than one of body, stream and text")
	}
	for name, value := range r.Headers {
		if !slices.Contains(KeptHeaders, name) {
			return malformed("the response has the header %.60q, expected none but %s", name, strings.Join(KeptHeaders, ", "))
		}
		if strings.ContainsAny(value, "\r\n\x00") || len(value) > maxNameBytes {
			return malformed("the value of the header %s is not one short line", name)
		}
	}
	for i, chunk := range r.Stream {
		if chunk == "" {
			return malformed("chunk %d of the stream is empty", i)
		}
	}
	return nil
}

func (t *ToolCall) validate() error {
	if err := validateName("the tool's name", t.Name); err != nil {
		return err
	}
	if (t.Error == "") == (t.Result == nil) {
		return malformed("the tool call has both or neither of error and result, expected one")
	}
	return nil
}

func (e *Exchange) validate() error {
	if err := validateName("the server's name", e.Server); err != nil {
		return err
	}
	if err := validateName("the method", e.Method); err != nil {
		return err
	}
	answers := 0
	for _, m := range []canon.RawMessage{e.Error, e.Result} {
		if m != nil {
			answers++
		}
	}
	want := 1
	if strings.HasPrefix(e.Method, "notifications/") {
		want = 0
	}
	if answers != want {
		return malformed("%s has %d of error and result, expected %d", e.Method, answers, want)
	}
	if e.Error != nil && e.Error[0] != '{' {
		return malformed("the error is not an object")
	}
	for i, n := range e.Notifications {
		if len(n) == 0 || n[0] != '{' {
			return malformed("notification %d is not an object", i)
		}
	}
	return nil
}

func validateName(what, name string) error {
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) {
		return malformed("%s is %.60q, expected 1 to %d bytes of text", what, name, maxNameBytes)
	}
	return nil
}
