package evidence

import (
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/record/digest"
)

// A Selection says which cases of a bench an attempt is about, as the operator
// asked for them. The list of cases in the plan is what was selected.
type Selection struct {
	// Cases are patterns of case ids, of which any must match; one that begins
	// with "!" must not match. Tags are the same of tags.
	Cases []string `json:"cases,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	// Of what these select, Of cases, the first Limit are taken, or Sample of
	// them by Seed.
	Limit  int  `json:"limit,omitempty"`
	Sample int  `json:"sample,omitempty"`
	Seed   *int `json:"seed,omitempty"`
	Of     int  `json:"of"`
}

// Text says in words what was selected, given how many cases that is.
func (s *Selection) Text(cases int) string {
	if s == nil {
		return ""
	}
	var how []string
	if len(s.Cases) > 0 {
		how = append(how, "case "+strings.Join(s.Cases, " or "))
	}
	if len(s.Tags) > 0 {
		how = append(how, "tag "+strings.Join(s.Tags, " or "))
	}
	text := strings.Join(how, ", ")
	switch {
	case s.Sample > 0:
		text = fmt.Sprintf("sample of %d of %d cases, seed %d; %s", cases, s.Of, *s.Seed, text)
	case s.Limit > 0:
		text = fmt.Sprintf("first %d of %d cases; %s", cases, s.Of, text)
	}
	return strings.TrimSuffix(text, "; ")
}

// A Reducer says how the repetitions of one case make the outcome of the case:
// "mode", "max", "all" or "at_least:K". Empty, each repetition counts by itself.
type Reducer string

// The reducers. AtLeast is followed by a number.
const (
	ReduceMode Reducer = "mode"
	ReduceMax  Reducer = "max"
	ReduceAll  Reducer = "all"

	reduceAtLeast = "at_least:"
)

// Needed is how many of n repetitions must pass for the case to pass. It is 0 of
// a reducer that is empty or not known.
func (r Reducer) Needed(n int) int {
	switch r {
	case ReduceMode:
		return n/2 + 1
	case ReduceMax:
		return 1
	case ReduceAll:
		return n
	}
	digits, ok := strings.CutPrefix(string(r), reduceAtLeast)
	k, err := strconv.Atoi(digits)
	if !ok || err != nil || strconv.Itoa(k) != digits || k < 1 || len(digits) > 9 {
		return 0
	}
	return k
}

// ReducedText says in words how many repetitions of a case must pass, "" if each
// counts by itself.
func (p *Plan) ReducedText() string {
	if p.Reduce == "" {
		return ""
	}
	return fmt.Sprintf("%s, so %d of %d repetitions must pass", p.Reduce, p.Reduce.Needed(p.Repeat), p.Repeat)
}

// A PlannedParameter is one parameter of the variant of a target. One that names
// a file has the digest of the file's bytes.
type PlannedParameter struct {
	Digest *digest.Content `json:"digest,omitempty"`
	Name   string          `json:"name"`
	Value  string          `json:"value"`
}
