package recount

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/record/refusal"
)

// A Recounted says what came of counting again.
type Recounted struct {
	// Checked counts the numbers that were compared.
	Checked     int          `json:"checked"`
	Differences []Difference `json:"differences"`
	// Unchecked says what could not be compared, and why.
	Unchecked []string `json:"unchecked"`
	// Notes are what a reader should know besides, such as that the answer of a
	// run is not kept.
	Notes []string `json:"notes,omitempty"`
}

// A Difference is a number that was written down and is another when it is
// counted again.
type Difference struct {
	Where    string `json:"where"` // an entry or a file
	Field    string `json:"field"`
	Written  string `json:"written"`
	Computed string `json:"computed"`
}

// String is the difference on one line, of which long values are not the whole.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s is %s, the records give %s", d.Where, d.Field, shortened(d.Written), shortened(d.Computed))
}

// maxValue is how much of a value is shown to a person.
const maxValue = 300

func shortened(value string) string {
	if len(value) <= maxValue {
		return value
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(value[:maxValue], ""), len(value))
}

// Err is the refusal of the first difference, or nil.
func (r *Recounted) Err() error {
	if len(r.Differences) == 0 {
		return nil
	}
	err := refusal.Newf(refusal.RecomputeMismatch, "%s", r.Differences[0])
	if n := len(r.Differences); n > 1 {
		err = refusal.Newf(refusal.RecomputeMismatch, "%d numbers differ, the first: %s", n, r.Differences[0])
	}
	return err.WithHint("trust the records, which are sealed, and not the total; find out who wrote it")
}

// NotRecounted is the refusal of an answer of which not everything could be made
// again, or nil. Nothing in it is known to be wrong; it cannot be said that it is
// right.
func (r *Recounted) NotRecounted() error {
	if len(r.Unchecked) == 0 {
		return nil
	}
	return refusal.Newf(refusal.NotFound, "not recounted: %s", strings.Join(r.Unchecked, "; ")).
		WithHint("bring back what is missing, for example the bench as it was when the answer was given (from git), or use the version of the program that gave the answer; then ask again")
}

// maxDifferences bounds the list; one is enough to refuse.
const maxDifferences = 1000

func newRecounted() *Recounted { return &Recounted{Differences: []Difference{}, Unchecked: []string{}} }

// Add puts what came of counting something else beside it.
func (r *Recounted) Add(other *Recounted) {
	r.Checked += other.Checked
	r.Differences = append(r.Differences, other.Differences...)
	r.Unchecked = append(r.Unchecked, other.Unchecked...)
	r.Notes = append(r.Notes, other.Notes...)
}

// Compare notes that something was compared.
func (r *Recounted) Compare(where, field string, written, computed any, equal bool) {
	r.Checked++
	if !equal && len(r.Differences) < maxDifferences {
		r.Differences = append(r.Differences, Difference{where, field, show(written), show(computed)})
	}
}

func show(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
