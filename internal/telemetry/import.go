package telemetry

import (
	"bytes"
	"strings"

	"tallystick/internal/digest"
	"tallystick/internal/refusal"
	"tallystick/internal/trajectory"
)

// Bounds of a file, so that a hostile one cannot exhaust memory.
const (
	MaxBytes = 64 << 20
	maxParts = 4_000_000 // JSON tokens or protobuf fields, texts within texts included
	maxSpans = 100_000
	maxSteps = 50_000
	maxLogs  = 400_000
	// Lists are decoded one element at a time where elements are large, and
	// whole where they are small.
	maxElements = 400_000
	maxDepth    = 128
	maxRuns     = 10_000
	maxNotes    = 1000 // distinct ones; more are counted together
)

// A Format is one that [Import] reads.
type Format string

// The formats.
const (
	OTLPJSON     Format = "otlp-json"
	OTLPProtobuf Format = "otlp-protobuf"
	ATIF         Format = "atif"
)

// Class is the task class in the first event of everything that was imported.
// No bench may vouch for it.
const Class = "imported"

// A Source says where an imported trajectory comes from.
type Source struct {
	Name   string    `json:"name"`
	Digest digest.ID `json:"sha256"` // of the whole file
	Format Format    `json:"format"`
}

// A Note is something in the file that has no place in a trajectory.
type Note struct {
	What    string `json:"what"`  // as in: attribute server.address
	Count   int    `json:"count"` // how often
	Example string `json:"example,omitempty"`
}

// An Evaluation is a gen_ai.evaluation.result: somebody else's score. It is
// shown and never counts.
type Evaluation struct {
	Name        string   `json:"name"`
	Score       *float64 `json:"score,omitempty"`
	Label       string   `json:"label,omitempty"`
	Explanation string   `json:"explanation,omitempty"`
}

// An Imported is one trajectory made of a file. Nothing vouches for its head.
type Imported struct {
	Source      Source
	ID          string // of the trace, session or trajectory
	Trajectory  []byte
	Verified    *trajectory.Verified
	Contents    map[digest.Content][]byte // whole texts of which events have the beginning
	Notes       []Note
	Evaluations []Evaluation
}

// Content gives the whole text that has a digest.
func (i *Imported) Content(d digest.Content) ([]byte, bool) {
	text, ok := i.Contents[d]
	return text, ok
}

// IsOurs reports whether a file claims to be a trajectory of ours, so that it
// must verify as one: a damaged one must not be taken for somebody else's.
func IsOurs(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return bytes.HasPrefix(line, []byte(`{"payload":`)) || bytes.Contains(line, []byte(`"prev":"sha256:`))
}

// Import recognises a file and converts every trajectory in it. Name is for
// messages and goes to [Source]; it does not change the trajectories.
func Import(name string, data []byte) ([]Imported, error) {
	if len(data) > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are accepted", name, len(data), MaxBytes).
			WithHint("export fewer traces into one file")
	}
	src := Source{Name: name, Digest: digest.IDOf(data)}
	b := &budget{left: maxParts}
	// A protobuf message of traces begins with the tag of its only field, a
	// newline. A JSON text may begin with one too, but does not go on as
	// protobuf.
	if len(data) > 0 && data[0] == tracesTag {
		if spans, err := parseProtobuf(data, &budget{left: maxParts}); err == nil && len(spans.spans) > 0 {
			src.Format = OTLPProtobuf
			return importSpans(src, b, spans)
		} else if err != nil && !looksLikeJSON(data) {
			return nil, refused(name, err, refusal.Unrecognised)
		}
	}
	if !looksLikeJSON(data) {
		return nil, unrecognised(name)
	}
	if err := b.check(data); err != nil {
		return nil, refused(name, err, refusal.Malformed)
	}
	switch kind := kindOf(data); {
	case kind == OTLPJSON:
		src.Format = OTLPJSON
		spans, err := parseOTLP(data)
		if err != nil {
			return nil, refused(name, err, refusal.Malformed)
		}
		return importSpans(src, b, spans)
	case kind == ATIF:
		src.Format = ATIF
		return importATIF(src, data)
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

// refused gives an error of a parser a name, unless it has one.
func refused(name string, err error, as refusal.Name) error {
	if r := refusal.Of(err); r.Name != refusal.Failed {
		as = r.Name
	}
	return refusal.Newf(as, "%s: %w", name, err).WithHint("docs/formats/telemetry.md says what is read")
}

// notes counts what has no place.
type notes struct {
	list []Note
	at   map[string]int
}

func (n *notes) add(what, example string) { n.count(what, example, 1) }

func (n *notes) count(what, example string, times int) {
	what = cut(clean(what), 200)
	if n.at == nil {
		n.at = map[string]int{}
	}
	i, ok := n.at[what]
	if !ok && len(n.list) >= maxNotes {
		what, example = "more than is listed", ""
		i, ok = n.at[what]
	}
	if !ok {
		i = len(n.list)
		n.at[what] = i
		n.list = append(n.list, Note{What: what, Example: cut(clean(example), 200)})
	}
	n.list[i].Count += times
}

// clean makes a text valid UTF-8, which names in a trajectory must be.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cut shortens a valid text between two characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
