package exchange

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/atif"
	"tallystick/internal/share/foreign"
	"tallystick/internal/share/otel"
)

// IsOurs reports whether a file claims to be a trajectory of ours, so that it
// must verify as one: a damaged one must not be taken for another system's.
func IsOurs(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return bytes.HasPrefix(line, []byte(`{"payload":`)) || bytes.Contains(line, []byte(`"prev":"sha256:`))
}

// Import recognises a file and converts every trajectory in it. Name is for
// messages and goes to [Source]; it does not change the trajectories.
func Import(name string, data []byte) ([]foreign.Trajectory, error) {
	if len(data) > foreign.MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are accepted", name, len(data), foreign.MaxBytes).
			WithHint("export fewer traces into one file")
	}
	src := foreign.Source{Name: name, Digest: digest.IDOf(data)}
	b := &foreign.Budget{Left: foreign.MaxParts}
	// A protobuf message of traces begins with the tag of its only field, a
	// newline. A JSON text may begin with one too, but does not continue as
	// protobuf.
	if len(data) > 0 && data[0] == otel.TracesTag {
		if spans, err := otel.ParseProtobuf(data, &foreign.Budget{Left: foreign.MaxParts}); err == nil && spans.Len() > 0 {
			src.Format = foreign.OTLPProtobuf
			return otel.Import(src, b, spans)
		} else if err != nil && !looksLikeJSON(data) {
			return nil, foreign.Refused(name, err, refusal.Unrecognised)
		}
	}
	if !looksLikeJSON(data) {
		return nil, unrecognised(name)
	}
	if err := b.Check(data); err != nil {
		return nil, foreign.Refused(name, err, refusal.Malformed)
	}
	switch kind := kindOf(data); {
	case kind == foreign.OTLPJSON:
		src.Format = foreign.OTLPJSON
		spans, err := otel.ParseJSON(data)
		if err != nil {
			return nil, foreign.Refused(name, err, refusal.Malformed)
		}
		return otel.Import(src, b, spans)
	case kind == foreign.ATIF:
		src.Format = foreign.ATIF
		return atif.Import(src, data)
	}
	return nil, unrecognised(name)
}

func looksLikeJSON(data []byte) bool {
	text := bytes.TrimLeft(data, " \t\r\n")
	return len(text) > 0 && text[0] == '{'
}

func unrecognised(name string) error {
	return refusal.Newf(refusal.Unrecognised, "%s: found neither a trajectory of ours, nor OTLP traces in JSON or protobuf, nor ATIF", name).
		WithHint(`docs/formats/telemetry.md says what is read; OTLP JSON begins with {"resourceSpans":, ATIF has a "schema_version" of ATIF-v1`)
}

// kindOf looks at the names of the first object only.
func kindOf(data []byte) foreign.Format {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return ""
	}
	for {
		t, err := d.ReadToken()
		if err != nil || t.Kind() != '"' {
			return ""
		}
		switch t.String() {
		case "resourceSpans", "resourceLogs":
			return foreign.OTLPJSON
		case "schema_version":
			if v, err := d.ReadToken(); err == nil && v.Kind() == '"' && strings.HasPrefix(v.String(), "ATIF-") {
				return foreign.ATIF
			}
			return ""
		}
		if d.SkipValue() != nil {
			return ""
		}
	}
}
