package exchange

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
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
	return ImportFiles(name, []File{{name, data}})
}

// A File is one file of another system.
type File struct {
	Name string
	Data []byte
}

// ImportFiles is [Import] for the files of a folder, which is called name. The spans of
// a conversation may be in several of them, so all spans are read before any is told.
func ImportFiles(name string, files []File) ([]foreign.Trajectory, error) {
	total := 0
	for _, f := range files {
		total += len(f.Data)
	}
	if total > foreign.MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are accepted", name, total, foreign.MaxBytes).
			WithHint("export fewer traces into one file or folder")
	}
	all := gathered{budget: &foreign.Budget{Left: foreign.MaxParts}, spans: &otel.Batch{}}
	for _, f := range files {
		if err := all.add(f); err != nil && (len(files) == 1 || !refusal.Is(err, refusal.Unrecognised)) {
			return nil, err
		} else if err != nil {
			all.others++
		}
	}
	out := all.told
	if len(all.formats) > 0 {
		src := foreign.Source{Name: name, Digest: digestOf(all.of), Format: all.formats[0]}
		if len(all.formats) > 1 {
			src.Format = foreign.OTLP
		}
		list, err := otel.Import(src, all.budget, all.spans)
		if err != nil {
			return nil, err
		}
		out = append(list, out...)
	}
	if len(out) == 0 {
		return nil, unrecognised(name)
	}
	if all.others > 0 {
		out[0].Notes = append(out[0].Notes, foreign.Note{What: "file that holds no traces", Count: all.others})
	}
	return out, nil
}

// digestOf names several files by the list of their digests, as sha256sum writes it.
func digestOf(files []File) digest.ID {
	if len(files) == 1 {
		return digest.IDOf(files[0].Data)
	}
	var list strings.Builder
	for _, f := range files {
		sum := digest.IDOf(f.Data)
		fmt.Fprintf(&list, "%x  %s\n", sum[:], f.Name)
	}
	return digest.IDOf([]byte(list.String()))
}

// gathered is what several files have.
type gathered struct {
	budget  *foreign.Budget
	spans   *otel.Batch
	of      []File           // that the spans are from
	formats []foreign.Format // of these files
	told    []foreign.Trajectory
	others  int // files that hold no traces
}

func (g *gathered) add(f File) error {
	format, spans, err := parse(f, g.budget)
	switch {
	case err != nil:
		return err
	case format == foreign.ATIF:
		list, err := atif.Import(foreign.Source{Name: f.Name, Digest: digest.IDOf(f.Data), Format: format}, f.Data)
		g.told = append(g.told, list...)
		return err
	}
	g.of = append(g.of, f)
	if !slices.Contains(g.formats, format) {
		g.formats = append(g.formats, format)
	}
	if err := g.spans.Join(spans); err != nil {
		return foreign.Refused(f.Name, err, refusal.TooLarge)
	}
	return nil
}

// parse recognises a file, and reads the spans of one that has some.
func parse(f File, b *foreign.Budget) (foreign.Format, *otel.Batch, error) {
	// A protobuf message of traces begins with the tag of its only field, a
	// newline. A JSON text may begin with one too, but does not continue as
	// protobuf.
	if len(f.Data) > 0 && f.Data[0] == otel.TracesTag {
		spans, err := otel.ParseProtobuf(f.Data, &foreign.Budget{Left: foreign.MaxParts})
		if err == nil && spans.Len() > 0 {
			return foreign.OTLPProtobuf, spans, nil
		}
		if err != nil && !looksLikeJSON(f.Data) {
			return "", nil, foreign.Refused(f.Name, err, refusal.Unrecognised)
		}
	}
	if !looksLikeJSON(f.Data) {
		return "", nil, unrecognised(f.Name)
	}
	if err := b.Check(f.Data); err != nil {
		return "", nil, foreign.Refused(f.Name, err, refusal.Malformed)
	}
	format := kindOf(f.Data)
	var spans *otel.Batch
	var err error
	switch format {
	case foreign.OTLPJSON:
		spans, err = otel.ParseJSON(f.Data)
	case foreign.Phoenix:
		spans, err = otel.ParsePhoenix(f.Data)
	case "":
		err = unrecognised(f.Name)
	}
	if err != nil && format != "" {
		err = foreign.Refused(f.Name, err, refusal.Malformed)
	}
	return format, spans, err
}

func looksLikeJSON(data []byte) bool {
	text := bytes.TrimLeft(data, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

func unrecognised(name string) error {
	return refusal.Newf(refusal.Unrecognised, "%s: found neither a trajectory of ours, nor OTLP traces in JSON or protobuf, nor spans of Phoenix, nor ATIF", name).
		WithHint(`docs/formats/telemetry.md says what is read; OTLP JSON begins with {"resourceSpans":, ATIF has a "schema_version" of ATIF-v1`)
}

// kindOf looks at the names of the first object only.
func kindOf(data []byte) foreign.Format {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	t, err := d.ReadToken()
	isList := err == nil && t.Kind() == '['
	if isList {
		t, err = d.ReadToken()
	}
	if err != nil || t.Kind() != '{' {
		return ""
	}
	for {
		t, err := d.ReadToken()
		if err != nil || t.Kind() != '"' {
			return ""
		}
		name := t.String()
		v, err := d.ReadValue()
		switch {
		case err != nil:
			return ""
		case name == "context" && isSpanContext(v):
			return foreign.Phoenix
		case isList:
		case name == "resourceSpans" || name == "resourceLogs":
			return foreign.OTLPJSON
		case name == "schema_version":
			if text, _ := foreign.TextOf(v); strings.HasPrefix(text, "ATIF-") {
				return foreign.ATIF
			}
			return ""
		}
	}
}

// isSpanContext reports whether a value says which span of which trace something is.
func isSpanContext(v jsontext.Value) bool {
	var context struct {
		Trace jsontext.Value `json:"trace_id"`
		Span  jsontext.Value `json:"span_id"`
	}
	return json.Unmarshal(v, &context) == nil && context.Trace.Kind() == '"' && context.Span.Kind() == '"'
}
