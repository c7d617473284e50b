package otel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
)

// A phoenixSpan is a span as Phoenix exports it and as the documents of OpenInference
// show it. Ids are any text, attributes may be nested.
type phoenixSpan struct {
	Name    string `json:"name"`
	Context struct {
		Trace string `json:"trace_id"`
		Span  string `json:"span_id"`
	} `json:"context"`
	Kind          string         `json:"span_kind"`
	Parent        *string        `json:"parent_id"`
	Start         string         `json:"start_time"`
	End           string         `json:"end_time"`
	Status        string         `json:"status_code"`
	StatusMessage string         `json:"status_message"`
	Attributes    map[string]any `json:"attributes"`
	Events        []struct {
		Name       string         `json:"name"`
		At         string         `json:"timestamp"`
		Attributes map[string]any `json:"attributes"`
	} `json:"events"`
	Annotations     []phoenixAnnotation `json:"annotations"`
	SpanAnnotations []phoenixAnnotation `json:"span_annotations"`
}

type phoenixAnnotation struct {
	Name   string `json:"name"`
	Result struct {
		Score       jsontext.Value `json:"score"`
		Label       string         `json:"label"`
		Explanation string         `json:"explanation"`
	} `json:"result"`
}

// ParsePhoenix reads spans that are JSON objects: in a list, or one after the other.
func ParsePhoenix(data []byte) (*Batch, error) {
	b := &Batch{}
	add := func(v jsontext.Value) error {
		var p phoenixSpan
		if err := json.Unmarshal(v, &p); err != nil {
			return fmt.Errorf("span %d: %w", len(b.spans)+1, err)
		}
		s, err := p.span()
		if err != nil {
			return fmt.Errorf("span %d %q: %w", len(b.spans)+1, foreign.Cut(p.Name, 80), err)
		}
		if b.spans = append(b.spans, s); len(b.spans) > maxSpans {
			return refusal.Newf(refusal.TooLarge, "more than %d spans", maxSpans)
		}
		return nil
	}
	err := foreign.Each(data, func(v jsontext.Value) error {
		if v.Kind() != '[' {
			return add(v)
		}
		var list []jsontext.Value
		if err := json.Unmarshal(v, &list); err != nil {
			return err
		}
		for _, one := range list {
			if err := add(one); err != nil {
				return err
			}
		}
		return nil
	})
	return b, err
}

func (p *phoenixSpan) span() (span, error) {
	s := span{name: p.Name, traceName: p.Context.Trace, statusMessage: p.StatusMessage, failed: strings.HasSuffix(p.Status, "ERROR")}
	if p.Context.Trace == "" || p.Context.Span == "" {
		return s, fmt.Errorf("context.trace_id or context.span_id is missing")
	}
	namedID(s.trace[:], p.Context.Trace)
	namedID(s.id[:], p.Context.Span)
	if p.Parent != nil && *p.Parent != "" {
		namedID(s.parent[:], *p.Parent)
	}
	var err error
	if s.start, err = clockTime("start_time", p.Start); err != nil {
		return s, err
	}
	if s.end, err = clockTime("end_time", p.End); err != nil {
		return s, err
	}
	s.attrs = nestedAttributes(p.Attributes)
	if _, known := s.attrs.get(openInferenceKind); !known && p.Kind != "" {
		s.attrs = append(s.attrs, attribute{openInferenceKind, value{text: p.Kind, isText: true}})
	}
	for _, e := range p.Events {
		at, err := clockTime("timestamp", e.At)
		if err != nil {
			return s, err
		}
		s.events = append(s.events, spanEvent{name: e.Name, at: at, attrs: nestedAttributes(e.Attributes)})
	}
	for _, a := range slices.Concat(p.Annotations, p.SpanAnnotations) {
		e := foreign.Evaluation{Name: a.Name, Label: a.Result.Label, Explanation: a.Result.Explanation}
		if f, ok := foreign.NumberOf(a.Result.Score); ok {
			e.Score = &f
		}
		s.evaluations = append(s.evaluations, e)
	}
	return s, s.attrs.checkNames()
}

// namedID makes an id of a text: the bytes that it spells, or a digest of it.
func namedID(dst []byte, name string) {
	if len(name) == 2*len(dst) {
		if _, err := hex.Decode(dst, []byte(name)); err == nil {
			return
		}
	}
	sum := sha256.Sum256([]byte(name))
	copy(dst, sum[:])
}

// clockTime reads a time. One without a zone is UTC; none is not known.
func clockTime(field, s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if at, err := time.Parse(layout, s); err == nil && at.Unix() >= 0 && at.Year() < 2262 {
			return uint64(at.UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("%s is %q, expected a time as 2026-07-09T00:00:00Z", field, foreign.Cut(s, 80))
}

// nestedAttributes joins the names of nested attributes with dots, as they are where they
// are flat.
func nestedAttributes(nested map[string]any) attributes {
	var out attributes
	for _, name := range slices.Sorted(maps.Keys(nested)) {
		out = spread(out, name, nested[name], 0)
	}
	return out
}
