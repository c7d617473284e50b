// Package results is the one form that other harnesses' results take here.
//
// A [Run] is one model on one task: how many samples there were, what the file
// says about them, and [Check]s of what it says against what is in it. A
// [Sample] is one row. [Builder] makes a run of samples, keeps totals and not
// the samples, and compares.
//
// The rules, whatever the harness: a blank or NaN is unscored and not zero; an
// error is not a failure; what the file does not say is unknown (null) and is
// not filled in; a number that would be rounded is refused. A run was imported
// and not observed: a check that passes says that a file agrees with itself,
// not that anything happened.
package results

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/jsonstream"
)

// A Known is a text that the file may not have. No text is written as null.
type Known string

// MarshalJSON writes null for no text.
func (k Known) MarshalJSON() ([]byte, error) {
	if k == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(k))
}

// UnmarshalJSON is the inverse of [Known.MarshalJSON].
func (k *Known) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*k = ""
	if s != nil {
		*k = Known(*s)
	}
	return nil
}

// A Document is what "tally import --json" prints.
type Document struct {
	Runs []Run `json:"runs"`
}

// Encode writes the document, the same bytes for the same runs.
func (d Document) Encode() ([]byte, error) {
	return json.Marshal(d, json.Deterministic(true), jsontext.EscapeForHTML(false))
}

// A Run is one model on one task, as a file tells it.
type Run struct {
	Harness        string `json:"harness"`
	HarnessVersion Known  `json:"harness_version"`
	Task           Known  `json:"task"`
	Model          Known  `json:"model"`
	// StartedAt is in RFC 3339, or without a zone where the file has none.
	StartedAt Known `json:"started_at"`

	// Samples are the rows that are present. Each is one of the three below.
	Samples  int64 `json:"samples"`
	Scored   int64 `json:"scored"`
	Unscored int64 `json:"unscored"`
	Errors   int64 `json:"errors"`
	// Attempts is the most rows that one sample has: epochs, trials, retries.
	Attempts int64 `json:"attempts"`

	// Metrics are the file's own numbers by "<scorer>/<metric>", and those that
	// were computed from rows where the file has none of its own.
	Metrics map[string]float64 `json:"metrics"`
	Checks  []Check            `json:"checks"`
	Judges  []Judge            `json:"judges"`

	Source Source   `json:"source"`
	Files  []Source `json:"files"` // further files that the run was read from
	Notes  []string `json:"notes"` // what was in the files and has no place here

	// Setup is how the run was made. Readers fill it in where an attestation is
	// to be made of the run; it is not part of what is printed.
	Setup *Setup `json:"-"`
}

// A Source is a file that a run was read from.
type Source struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // lower-case hexadecimal
}

// A Status is how a check came out.
type Status string

// The statuses.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip" // could not be checked; the detail says why
)

// A Check is a statement of the file that was, or could not be, recomputed.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
}

// A Judge is a model that scored, and what it was asked.
type Judge struct {
	Scorer       string `json:"scorer"`
	Model        Known  `json:"model"`
	Prompt       Known  `json:"prompt"` // the template, or its beginning
	PromptSHA256 Known  `json:"prompt_sha256"`
}

// A Text is the identity and the beginning of a text. The zero value stands for
// a text that the file does not have.
type Text struct {
	Head   string `json:"head"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// HeadBytes is how much of a text is kept.
const HeadBytes = 240

// TextOf keeps what is kept of a text. An empty text is kept as one.
func TextOf(s string) Text { return TextFrom(jsonstream.DigestOf(s, HeadBytes)) }

// TextFrom is [TextOf] for a text that was read in pieces.
func TextFrom(d jsonstream.Digest) Text {
	return Text{Head: d.Head, SHA256: hex.EncodeToString(d.SHA256[:]), Bytes: d.Bytes}
}

// A Score is what one scorer said about one sample.
type Score struct {
	Value  *float64 `json:"value"`            // nil if unscored
	Said   string   `json:"said,omitempty"`   // as the file has it, where that is not the number
	Passed *bool    `json:"passed,omitempty"` // the file's own verdict
	Why    string   `json:"why,omitempty"`    // the beginning of the reason
}

// A Sample is one row of a run.
type Sample struct {
	ID      string `json:"id"`
	Attempt int64  `json:"attempt"` // epoch or trial, from 1; 0 if the file does not say

	Input    Text `json:"input"`
	Expected Text `json:"expected"`
	Answer   Text `json:"answer"`

	// Scores are by scorer, or "<scorer>/<metric>" where one gives several.
	Scores map[string]Score `json:"scores"`
	// Error is why the sample has no score that counts.
	Error string `json:"error,omitempty"`
	// Trajectory says where the sample's events are: a file, or an id in it.
	Trajectory string `json:"trajectory,omitempty"`
}

// The states of a sample.
const (
	Scored   = "scored"
	Unscored = "unscored"
	Errored  = "error"
)

// State says how the sample counts. A sample with a score is scored, even if
// something went wrong besides; a reader leaves out the scores that a harness
// writes for samples that it could not run.
func (s Sample) State() string {
	for _, score := range s.Scores {
		if score.Value != nil {
			return Scored
		}
	}
	if s.Error != "" {
		return Errored
	}
	return Unscored
}

// MetricKey is the name of a metric in [Run.Metrics]. The first slash divides
// scorer and metric, so that a slash in the scorer's name is written as %2F.
func MetricKey(scorer, metric string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(scorer) + "/" + metric
}

// Cut is the beginning of a text that is shown and not compared.
func Cut(s string) string { return TextOf(s).Head }

// String names a run in messages.
func (r Run) String() string {
	return fmt.Sprintf("%s %s %s", r.Harness, r.Task, r.Model)
}
