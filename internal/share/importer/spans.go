package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
)

// The kinds of files.
const (
	otlpSpans    kind = "spans:otlp"
	phoenixSpans kind = "spans:phoenix"
)

var spansHarness = harness{
	name:       "OpenTelemetry and OpenInference spans",
	recognised: "`context.trace_id` and `context.span_id`; `resourceSpans`",
	runs:       "the spans of a folder; a row is a conversation (`gen_ai.conversation.id`, or else `session.id`) or else a trace; a trace of two conversations is refused",
	scores:     "annotations, and `gen_ai.evaluation.result` events",
	parts: []part{
		{kind: otlpSpans, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("resourceSpans") }},
		{kind: phoenixSpans, together: (*file).dir, fits: func(s *Shape) bool {
			return s.Has("context.trace_id", "context.span_id") && s.HasAny("span_kind", "attributes")
		}},
	},
	read: (*session).spans,
}

// A span is one of OpenTelemetry's, from a Phoenix export or from OTLP.
type span struct {
	trace, id, parent, name, began string
	failed                         bool
	message                        string
	attributes                     map[string]any // flat
	annotations                    []any
	evaluations                    []map[string]any // attributes of gen_ai.evaluation.result
}

// spanRun joins spans to conversations: spans of one conversation or session, or else of
// one trace, are one sample.
type spanRun struct {
	run    *run
	traces map[string]*spanSample
	models map[string]bool
}

// spanSample is a trace or a conversation while it is read.
type spanSample struct {
	results.Sample
	conversations map[string][]string // that the spans of a trace name, at most two, by attribute
	first, last   string              // when the roots began that Input and Answer are from
	spans         int64
}

func (s *session) spans(g []*file) error {
	harness := "opentelemetry"
	if !slices.ContainsFunc(g, func(f *file) bool { return f.kind != phoenixSpans }) {
		harness = "phoenix"
	}
	t := &spanRun{run: s.begin(harness), traces: map[string]*spanSample{}, models: map[string]bool{}}
	for _, f := range g {
		err := s.json(f, func(r *jsonstream.Reader) error {
			return f.rows(r, "", func() error {
				if f.kind == otlpSpans {
					return t.otlp(r)
				}
				sp, err := readPhoenix(r)
				if err != nil {
					return err
				}
				return t.add(r, sp)
			})
		})
		if err != nil {
			return err
		}
	}
	return t.finish(g)
}

func readPhoenix(r *jsonstream.Reader) (*span, error) {
	sp := &span{attributes: map[string]any{}}
	var status string
	var attributes, events, annotations any
	err := object(r, fields{
		"name": scalar(r, &sp.name), "parent_id": scalar(r, &sp.parent), "start_time": scalar(r, &sp.began),
		"context":     inside(r, fields{"trace_id": scalar(r, &sp.trace), "span_id": scalar(r, &sp.id)}),
		"status_code": scalar(r, &status), "status_message": excerpt(r, &sp.message),
		"attributes": anything(r, &attributes), "events": anything(r, &events), "annotations": anything(r, &annotations), "span_annotations": anything(r, &annotations),
	})
	flatAttributes("", attributes, sp.attributes, 0)
	sp.failed = strings.HasSuffix(status, "ERROR")
	sp.annotations = listOf(annotations)
	for _, e := range listOf(events) {
		if textOf(member(e, "name")) == "gen_ai.evaluation.result" {
			flat := map[string]any{}
			flatAttributes("", member(e, "attributes"), flat, 0)
			sp.evaluations = append(sp.evaluations, flat)
		}
	}
	return sp, err
}

// flatAttributes joins the names of nested attributes with dots, as they are
// where they are flat.
func flatAttributes(prefix string, v any, to map[string]any, depth int) {
	m, ok := v.(map[string]any)
	if !ok || depth > 16 {
		if prefix != "" {
			to[prefix] = v
		}
		return
	}
	for name, item := range m {
		if prefix != "" {
			name = prefix + "." + name
		}
		flatAttributes(name, item, to, depth+1)
	}
}

// otlp reads one document of resourceSpans.
func (t *spanRun) otlp(r *jsonstream.Reader) error {
	spans := func() error {
		return list(r, func(int) error {
			sp, err := readOTLP(r)
			if err != nil {
				return err
			}
			return t.add(r, sp)
		})
	}
	scopes := func() error { return list(r, func(int) error { return object(r, fields{"spans": spans}) }) }
	return object(r, fields{"resourceSpans": func() error {
		return list(r, func(int) error {
			return object(r, fields{"scopeSpans": scopes, "instrumentationLibrarySpans": scopes})
		})
	}})
}

func readOTLP(r *jsonstream.Reader) (*span, error) {
	sp := &span{}
	var status string
	var attributes, events any
	err := object(r, fields{
		"traceId": scalar(r, &sp.trace), "spanId": scalar(r, &sp.id), "parentSpanId": scalar(r, &sp.parent), "name": scalar(r, &sp.name), "startTimeUnixNano": scalar(r, &sp.began),
		"status":     inside(r, fields{"code": scalar(r, &status), "message": excerpt(r, &sp.message)}),
		"attributes": anything(r, &attributes), "events": anything(r, &events),
	})
	if ns, err := strconv.ParseInt(sp.began, 10, 64); err == nil { // of one width, so that texts compare as times do
		sp.began = time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
	}
	var twice error
	if sp.attributes, twice = otlpAttributes(attributes); err == nil && twice != nil {
		err = r.Refuse("%v", twice)
	}
	sp.failed = status == "2" || strings.HasSuffix(status, "ERROR")
	for _, e := range listOf(events) {
		if textOf(member(e, "name")) == "gen_ai.evaluation.result" {
			flat, twice := otlpAttributes(member(e, "attributes"))
			if err == nil && twice != nil {
				err = r.Refuse("%v", twice)
			}
			sp.evaluations = append(sp.evaluations, flat)
		}
	}
	return sp, err
}

// otlpAttributes reads [{key, value:{stringValue|intValue|doubleValue|boolValue}}]. A key
// that is there twice, or a value of two types, would be one thing to us and another to
// the next reader.
func otlpAttributes(v any) (map[string]any, error) {
	flat := map[string]any{}
	for _, a := range listOf(v) {
		key := textOf(member(a, "key"))
		value, _ := member(a, "value").(map[string]any)
		if _, twice := flat[key]; twice || len(value) > 1 {
			return flat, fmt.Errorf("the attribute %.60q is there twice, or has values of two types, expected one", key)
		}
		flat[key] = nil
		for _, x := range value {
			flat[key] = x
		}
	}
	return flat, nil
}

func (sp *span) get(names ...string) string {
	for _, name := range names {
		if s := textOf(sp.attributes[name]); s != "" {
			return s
		}
	}
	return ""
}

func (t *spanRun) add(r *jsonstream.Reader, sp *span) error {
	s, err := t.trace(sp.trace)
	if err != nil {
		return err
	}
	for _, name := range foreign.ConversationNames {
		if id := sp.get(name); strings.TrimSpace(id) != "" && !slices.Contains(s.conversations[name], id) && len(s.conversations[name]) < 2 {
			s.conversations[name] = append(s.conversations[name], id)
		}
	}
	s.spans++
	if model := sp.get("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"); model != "" && len(t.models) < 100 {
		t.models[model] = true
	}
	if sp.parent == "" {
		s.root(sp)
	}
	for _, e := range sp.evaluations {
		if err := t.evaluation(r, s, textOf(e["gen_ai.evaluation.name"]), e["gen_ai.evaluation.score.value"], textOf(e["gen_ai.evaluation.score.label"]), ""); err != nil {
			return err
		}
	}
	for _, a := range sp.annotations {
		judge := ""
		if textOf(member(a, "annotator_kind")) == "LLM" {
			judge = textOf(member(a, "name"))
		}
		if err := t.evaluation(r, s, textOf(member(a, "name")), member(a, "result", "score"), textOf(member(a, "result", "label")), judge); err != nil {
			return err
		}
	}
	return nil
}

// trace is what was read of a trace.
func (t *spanRun) trace(id string) (*spanSample, error) {
	s := t.traces[id]
	if s == nil {
		if len(t.traces) == maxHeld {
			return nil, refusal.Newf(refusal.TooLarge, "more than %d traces", maxHeld)
		}
		s = &spanSample{Sample: results.Sample{ID: id, Attempt: 1, Trajectory: id, Scores: map[string]results.Score{}}, conversations: map[string][]string{}}
		t.traces[id] = s
	}
	return s, nil
}

// samples joins the traces of one conversation, in the order in which they began.
func (t *spanRun) samples() ([]*spanSample, error) {
	inOrder := slices.SortedFunc(maps.Values(t.traces), func(a, b *spanSample) int {
		return cmp.Or(strings.Compare(a.first, b.first), strings.Compare(a.ID, b.ID))
	})
	byKey := map[string]*spanSample{}
	for _, s := range inOrder {
		key := "trace " + s.ID
		for _, name := range foreign.ConversationNames {
			ids := s.conversations[name]
			if len(ids) > 1 {
				return nil, refusal.Newf(refusal.Malformed, "the trace %.60q is in two conversations, %.60q and %.60q", s.ID, ids[0], ids[1]).
					WithHint("a row is of whole traces; \"tally replay\" and \"tally audit\" tell the conversations of a trace apart")
			}
			if len(ids) > 0 {
				key = "session " + ids[0]
				break
			}
		}
		if joined := byKey[key]; joined != nil {
			joined.merge(s)
			continue
		}
		_, s.ID, _ = strings.Cut(key, " ")
		byKey[key] = s
	}
	var out []*spanSample
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, byKey[key])
	}
	return out, nil
}

// root takes what was asked first and answered last from the roots of traces.
func (s *spanSample) root(sp *span) {
	if in := sp.get("input.value", "gen_ai.input.messages", "gen_ai.prompt"); in != "" && (s.first == "" || sp.began < s.first) {
		s.Input, s.first = results.TextOf(in), sp.began
	}
	if out := sp.get("output.value", "gen_ai.output.messages", "gen_ai.completion"); out != "" && sp.began >= s.last {
		s.Answer, s.last = results.TextOf(out), sp.began
	}
	if sp.failed {
		if s.Error = sp.message; s.Error == "" {
			s.Error = "the trace ended in an error"
		}
	}
}

// merge adds a trace of the same conversation.
func (s *spanSample) merge(other *spanSample) {
	s.spans += other.spans
	if other.Input != (results.Text{}) && (s.first == "" || other.first < s.first) {
		s.Input, s.first = other.Input, other.first
	}
	if other.Answer != (results.Text{}) && other.last >= s.last {
		s.Answer, s.last = other.Answer, other.last
	}
	if s.Error == "" {
		s.Error = other.Error
	}
	maps.Copy(s.Scores, other.Scores)
}

func (t *spanRun) evaluation(r *jsonstream.Reader, s *spanSample, name string, value any, label, judge string) error {
	score, err := results.AnyScore(value)
	if err != nil {
		return r.Refuse("the evaluation %s: %v", name, err)
	}
	if label != "" {
		score.Said = label
	}
	s.Scores[name] = score
	if judge != "" {
		t.run.Judge(judge, "", "")
	}
	return nil
}

func (t *spanRun) finish(files []*file) error {
	spans := int64(0)
	samples, err := t.samples()
	if err != nil {
		return fmt.Errorf("%s: %w", files[0].path, err)
	}
	for _, s := range samples {
		spans += s.spans
		if at := results.Moment(s.first); at != "" && (t.run.Run.StartedAt == "" || at < t.run.Run.StartedAt) {
			t.run.Run.StartedAt = at
		}
		if err := t.run.Add(s.Sample, ""); err != nil {
			return err
		}
	}
	if names := slices.Sorted(maps.Keys(t.models)); len(names) == 1 {
		t.run.Run.Model = results.Known(names[0])
	} else if len(names) > 1 {
		t.run.Note("spans of several models")
	}
	if t.run.Run.Scored == 0 {
		t.run.Check("scores", results.Skip, "the spans carry no evaluation")
	}
	t.run.Check("means", results.Skip, "spans state no means; the metrics are means of the conversations that have a score")
	if err := t.run.DeriveMeans(); err != nil {
		return err
	}
	t.run.finish(files...)
	return nil
}
