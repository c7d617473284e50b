// Package otel reads OpenTelemetry GenAI and OpenInference spans as trajectories, and
// writes attempts of ours as GenAI spans.
//
// [ParseJSON] and [ParseProtobuf] read the two encodings of OTLP; [Import]
// makes a trajectory of each conversation, in however many traces it is. [Export] writes an attempt as OTLP JSON
// with gen_ai attributes and an evaluation result for each case and check.
// docs/formats/telemetry.md has the mapping.
package otel

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
)

// Bounds of a file, besides those of package foreign.
const (
	maxSpans = 100_000
	maxLogs  = 400_000
)

// A span is what the two encodings of OTLP have in common.
type span struct {
	trace         [16]byte
	id, parent    [8]byte
	name          string
	start, end    uint64 // nanoseconds since 1970
	attrs         attributes
	events        []spanEvent
	failed        bool // the status says so
	statusMessage string
	service       string // service.name of the resource
	dropped       int64  // attributes and events that the exporter left out itself
	traceName     string // of a trace whose id is any text
	evaluations   []foreign.Evaluation
}

// A spanEvent is an event of a span, or a log record that names its span.
type spanEvent struct {
	name  string
	at    uint64
	attrs attributes
	body  jsontext.Value // of a log record
}

// attributes are in the order of the file. None has the key of another.
type attributes []attribute

type attribute struct {
	key string
	value
}

// A value is a text, or any other JSON value.
type value struct {
	text   string
	isText bool
	json   jsontext.Value
}

func (v value) raw() jsontext.Value {
	if !v.isText {
		return v.json
	}
	quoted, err := jsontext.AppendQuote(nil, foreign.Clean(v.text))
	if err != nil {
		return nil
	}
	return quoted
}

// string gives the text of a value, whatever it is.
func (v value) string() string {
	if v.isText {
		return foreign.Clean(v.text)
	}
	return string(v.json)
}

// bytes gives a value as JSON, if it is JSON or a text that looks like it.
func (v value) bytes() []byte {
	if v.isText {
		return []byte(strings.TrimSpace(foreign.Clean(v.text)))
	}
	return v.json
}

func (a attributes) get(key string) (value, bool) {
	for i := range a {
		if a[i].key == key {
			return a[i].value, true
		}
	}
	return value{}, false
}

// text gives the first of some attributes that is there and not empty.
func (a attributes) text(keys ...string) string {
	for _, k := range keys {
		if v, ok := a.get(k); ok && v.string() != "" {
			return v.string()
		}
	}
	return ""
}

func (a attributes) whole(keys ...string) (int64, bool) {
	for _, k := range keys {
		if v, ok := a.get(k); ok {
			if n, ok := foreign.WholeOf(v.raw()); ok && n >= 0 {
				return n, true
			}
		}
	}
	return 0, false
}

// The JSON of OTLP. Unknown members are left alone, as its specification asks.
type otlpFile struct {
	ResourceSpans []struct {
		Resource   otlpResource `json:"resource"`
		ScopeSpans []otlpScope  `json:"scopeSpans"`
		// Until OTLP 0.15.
		LibrarySpans []otlpScope `json:"instrumentationLibrarySpans"`
	} `json:"resourceSpans"`
	ResourceLogs []struct {
		ScopeLogs []struct {
			LogRecords []jsontext.Value `json:"logRecords"`
		} `json:"scopeLogs"`
	} `json:"resourceLogs"`
}

type otlpResource struct {
	Attributes []otlpAttribute `json:"attributes"`
}

type otlpScope struct {
	Spans []jsontext.Value `json:"spans"`
}

type otlpSpan struct {
	TraceID           string          `json:"traceId"`
	SpanID            string          `json:"spanId"`
	ParentSpanID      string          `json:"parentSpanId"`
	Name              string          `json:"name"`
	Start             jsontext.Value  `json:"startTimeUnixNano"`
	End               jsontext.Value  `json:"endTimeUnixNano"`
	Attributes        []otlpAttribute `json:"attributes"`
	DroppedAttributes jsontext.Value  `json:"droppedAttributesCount"`
	DroppedEvents     jsontext.Value  `json:"droppedEventsCount"`
	Events            []struct {
		At         jsontext.Value  `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []otlpAttribute `json:"attributes"`
	} `json:"events"`
	Status struct {
		Code    jsontext.Value `json:"code"`
		Message string         `json:"message"`
	} `json:"status"`
}

type otlpLog struct {
	At         jsontext.Value  `json:"timeUnixNano"`
	Observed   jsontext.Value  `json:"observedTimeUnixNano"`
	EventName  string          `json:"eventName"`
	Body       otlpValue       `json:"body"`
	Attributes []otlpAttribute `json:"attributes"`
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
}

type otlpAttribute struct {
	Key   string    `json:"key"`
	Value otlpValue `json:"value"`
}

type otlpValue struct {
	String *string        `json:"stringValue"`
	Bytes  *string        `json:"bytesValue"`
	Bool   *bool          `json:"boolValue"`
	Int    jsontext.Value `json:"intValue"`
	Double jsontext.Value `json:"doubleValue"`
	Array  *struct {
		Values []otlpValue `json:"values"`
	} `json:"arrayValue"`
	List *struct {
		Values []otlpAttribute `json:"values"`
	} `json:"kvlistValue"`
}

// A logged is a log record and the span that it belongs to.
type logged struct {
	trace [16]byte
	span  [8]byte
	event spanEvent
}

// A Batch is everything of a file that matters here.
type Batch struct {
	spans []span
	logs  []logged
}

// Len is how many spans there are.
func (b *Batch) Len() int { return len(b.spans) }

// Join adds what another file has: a conversation may be in several.
func (b *Batch) Join(other *Batch) error {
	b.spans = append(b.spans, other.spans...)
	b.logs = append(b.logs, other.logs...)
	if len(b.spans) > maxSpans || len(b.logs) > maxLogs {
		return refusal.Newf(refusal.TooLarge, "more than %d spans or %d log records in all files", maxSpans, maxLogs)
	}
	return nil
}

// ParseJSON reads one document, or several one after the other as the
// collector writes them.
func ParseJSON(data []byte) (*Batch, error) {
	b := &Batch{}
	n := 0
	err := foreign.Each(data, func(v jsontext.Value) error {
		n++
		var f otlpFile
		if err := json.Unmarshal(v, &f); err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		if err := b.add(&f); err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		return nil
	})
	return b, err
}

func (b *Batch) add(f *otlpFile) error {
	for _, r := range f.ResourceSpans {
		resource, err := attributesOf(r.Resource.Attributes)
		if err != nil {
			return fmt.Errorf("resource of span %d: %w", len(b.spans)+1, err)
		}
		service := resource.text("service.name")
		for _, s := range append(r.ScopeSpans, r.LibrarySpans...) {
			for _, raw := range s.Spans {
				var o otlpSpan
				if err := json.Unmarshal(raw, &o); err != nil {
					return fmt.Errorf("span %d: %w", len(b.spans)+1, err)
				}
				sp, err := o.span()
				if err != nil {
					return fmt.Errorf("span %d %q: %w", len(b.spans)+1, foreign.Cut(o.Name, 80), err)
				}
				sp.service = service
				if b.spans = append(b.spans, sp); len(b.spans) > maxSpans {
					return refusal.Newf(refusal.TooLarge, "more than %d spans", maxSpans)
				}
			}
		}
	}
	for _, r := range f.ResourceLogs {
		for _, s := range r.ScopeLogs {
			for _, raw := range s.LogRecords {
				var o otlpLog
				if err := json.Unmarshal(raw, &o); err != nil {
					return fmt.Errorf("log record %d: %w", len(b.logs)+1, err)
				}
				l, err := o.logged()
				if err != nil {
					return fmt.Errorf("log record %d: %w", len(b.logs)+1, err)
				}
				if b.logs = append(b.logs, l); len(b.logs) > maxLogs {
					return refusal.Newf(refusal.TooLarge, "more than %d log records", maxLogs)
				}
			}
		}
	}
	return nil
}

func (o *otlpSpan) span() (span, error) {
	s := span{name: o.Name, statusMessage: o.Status.Message}
	var err error
	if s.attrs, err = attributesOf(o.Attributes); err != nil {
		return s, err
	}
	if err := idInto(s.trace[:], "traceId", o.TraceID); err != nil {
		return s, err
	}
	if err := idInto(s.id[:], "spanId", o.SpanID); err != nil {
		return s, err
	}
	if o.ParentSpanID != "" {
		if err := idInto(s.parent[:], "parentSpanId", o.ParentSpanID); err != nil {
			return s, err
		}
	}
	if s.trace == [16]byte{} || s.id == [8]byte{} {
		return s, fmt.Errorf("traceId or spanId is zero")
	}
	if s.start, err = nanos("startTimeUnixNano", o.Start); err != nil {
		return s, err
	}
	if s.end, err = nanos("endTimeUnixNano", o.End); err != nil {
		return s, err
	}
	for _, e := range o.Events {
		at, err := nanos("timeUnixNano", e.At)
		if err != nil {
			return s, err
		}
		attrs, err := attributesOf(e.Attributes)
		if err != nil {
			return s, fmt.Errorf("event %q: %w", foreign.Cut(e.Name, 80), err)
		}
		s.events = append(s.events, spanEvent{name: e.Name, at: at, attrs: attrs})
	}
	code, _ := foreign.TextOf(o.Status.Code)
	s.failed = code == "2" || code == "STATUS_CODE_ERROR"
	for _, v := range []jsontext.Value{o.DroppedAttributes, o.DroppedEvents} {
		if n, ok := foreign.WholeOf(v); ok && n > 0 {
			s.dropped += n
		}
	}
	return s, nil
}

func (o *otlpLog) logged() (logged, error) {
	attrs, err := attributesOf(o.Attributes)
	if err == nil {
		err = o.Body.check()
	}
	l := logged{event: spanEvent{name: o.EventName, attrs: attrs, body: o.Body.value().raw()}}
	if err != nil {
		return l, err
	}
	if l.event.name == "" {
		l.event.name = l.event.attrs.text("event.name")
	}
	if o.TraceID != "" {
		if err := idInto(l.trace[:], "traceId", o.TraceID); err != nil {
			return l, err
		}
	}
	if o.SpanID != "" {
		if err := idInto(l.span[:], "spanId", o.SpanID); err != nil {
			return l, err
		}
	}
	at := o.At
	if n, _ := nanos("", at); n == 0 {
		at = o.Observed
	}
	l.event.at, err = nanos("timeUnixNano", at)
	return l, err
}

// idInto reads an id: hexadecimal as OTLP asks for, or base64 as plain
// protobuf JSON has it. The lengths tell them apart.
func idInto(dst []byte, field, s string) error {
	switch {
	case len(s) == 2*len(dst):
		if _, err := hex.Decode(dst, []byte(s)); err == nil {
			return nil
		}
	case len(s) == base64.StdEncoding.EncodedLen(len(dst)):
		if b, err := base64.StdEncoding.DecodeString(s); err == nil && len(b) == len(dst) {
			copy(dst, b)
			return nil
		}
	}
	return fmt.Errorf("%s is %q, expected %d hexadecimal digits", field, foreign.Cut(s, 80), 2*len(dst))
}

func nanos(field string, v jsontext.Value) (uint64, error) {
	text, ok := foreign.TextOf(v)
	if !ok || text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, expected nanoseconds since 1970", field, foreign.Cut(text, 80))
	}
	return n, nil
}

// attributesOf refuses a key that is there twice: two readers would believe two values.
func attributesOf(list []otlpAttribute) (attributes, error) {
	out := make(attributes, 0, len(list))
	for i := range list {
		if err := list[i].Value.check(); err != nil {
			return nil, fmt.Errorf("attribute %q: %w", foreign.Cut(list[i].Key, 80), err)
		}
		out = append(out, attribute{list[i].Key, list[i].Value.value()})
	}
	return out, out.checkNames()
}

// check refuses a value that is of several types at once, and keys that are there twice
// within it.
func (o *otlpValue) check() error {
	types := 0
	for _, is := range []bool{o.String != nil, o.Bytes != nil, o.Bool != nil, o.Int.Kind() != 0 && o.Int.Kind() != 'n', o.Double.Kind() != 0 && o.Double.Kind() != 'n', o.Array != nil, o.List != nil} {
		if is {
			types++
		}
	}
	if types > 1 {
		return fmt.Errorf("has values of %d types, expected one", types)
	}
	if o.Array != nil {
		for i := range o.Array.Values {
			if err := o.Array.Values[i].check(); err != nil {
				return err
			}
		}
	}
	if o.List != nil {
		_, err := attributesOf(o.List.Values)
		return err
	}
	return nil
}

func (o *otlpValue) value() value {
	switch {
	case o.String != nil:
		return value{text: *o.String, isText: true}
	case o.Bytes != nil:
		return value{text: *o.Bytes, isText: true}
	}
	return value{json: o.appendJSON(nil)}
}

// appendJSON writes the value as the JSON that it stands for.
func (o *otlpValue) appendJSON(dst []byte) []byte {
	switch {
	case o.String != nil:
		return foreign.AppendText(dst, *o.String)
	case o.Bytes != nil:
		return foreign.AppendText(dst, *o.Bytes)
	case o.Bool != nil:
		return strconv.AppendBool(dst, *o.Bool)
	case o.Int.Kind() == '"' || o.Int.Kind() == '0':
		if n, ok := foreign.WholeOf(o.Int); ok {
			return strconv.AppendInt(dst, n, 10)
		}
		return append(dst, o.Int...)
	case o.Double.Kind() == '"' || o.Double.Kind() == '0':
		return append(dst, o.Double...)
	case o.Array != nil:
		dst = append(dst, '[')
		for i := range o.Array.Values {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = o.Array.Values[i].appendJSON(dst)
		}
		return append(dst, ']')
	case o.List != nil:
		dst = append(dst, '{')
		for i := range o.List.Values {
			kv := &o.List.Values[i]
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(foreign.AppendText(dst, kv.Key), ':')
			dst = kv.Value.appendJSON(dst)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}
