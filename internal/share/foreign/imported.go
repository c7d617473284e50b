// Package foreign is what readers of other people's trajectories share: bounds
// of a file, a [Recorder] that tells what happened as a trajectory of ours, and
// notes of what has no place in one.
//
// Nothing vouches for what comes out. The chain of a [Trajectory] is made here,
// of whatever the file said, so its head proves nothing, its class is
// "imported" and its tools carry the trust label imported. Nothing was under a
// policy, so its policy digest is zero.
package foreign

import (
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// Bounds of a file, so that a hostile one cannot exhaust memory.
const (
	MaxBytes = 64 << 20
	MaxParts = 4_000_000 // JSON tokens or protobuf fields, texts within texts included
	// Lists are decoded one element at a time where elements are large, and
	// whole where they are small.
	MaxElements = 400_000
	MaxDepth    = 128
	MaxRuns     = 10_000
	maxNotes    = 1000 // distinct ones; more are counted together
)

// A Format is one that a reader here knows.
type Format string

// The formats.
const (
	OTLPJSON     Format = "otlp-json"
	OTLPProtobuf Format = "otlp-protobuf"
	OTLP         Format = "otlp" // several files of both encodings
	Phoenix      Format = "openinference-json"
	ATIF         Format = "atif"
)

// Class is the task class in the first event of everything that was imported.
// No bench may vouch for it.
const Class = "imported"

// ConversationNames are the attributes of spans that say to which conversation they belong.
// A conversation is less than a session, so if a trace has the first anywhere, the second
// says nothing about it.
var ConversationNames = []string{"gen_ai.conversation.id", "session.id"}

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

// An Evaluation is a gen_ai.evaluation.result: another system's score. It is
// shown and never counts.
type Evaluation struct {
	Name        string   `json:"name"`
	Score       *float64 `json:"score,omitempty"`
	Label       string   `json:"label,omitempty"`
	Explanation string   `json:"explanation,omitempty"`
}

// A Trajectory is one made of a file. Nothing vouches for its head.
type Trajectory struct {
	Source      Source
	ID          string // of the trace, session or trajectory
	Trajectory  []byte
	Verified    *trajectory.Verified
	Contents    map[digest.Content][]byte // whole texts of which events have the beginning
	Notes       []Note
	Evaluations []Evaluation
}

// Content gives the whole text that has a digest.
func (i *Trajectory) Content(d digest.Content) ([]byte, bool) {
	text, ok := i.Contents[d]
	return text, ok
}

// Refused gives an error of a parser a name, unless it has one.
func Refused(name string, err error, as refusal.Name) error {
	if r := refusal.Of(err); r.Name != refusal.Failed {
		as = r.Name
	}
	return refusal.Newf(as, "%s: %w", name, err).WithHint("docs/formats/telemetry.md says what is read")
}

// Notes counts what has no place.
type Notes struct {
	List []Note
	at   map[string]int
}

// Add counts something once. The first example of its kind is kept.
func (n *Notes) Add(what, example string) { n.Count(what, example, 1) }

// Count counts something several times.
func (n *Notes) Count(what, example string, times int) {
	what = Cut(Clean(what), 200)
	if n.at == nil {
		n.at = map[string]int{}
	}
	i, ok := n.at[what]
	if !ok && len(n.List) >= maxNotes {
		what, example = "more than is listed", ""
		i, ok = n.at[what]
	}
	if !ok {
		i = len(n.List)
		n.at[what] = i
		n.List = append(n.List, Note{What: what, Example: Cut(Clean(example), 200)})
	}
	n.List[i].Count += times
}

// Clean makes a text valid UTF-8, which names in a trajectory must be.
func Clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Cut shortens a valid text between two characters.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
