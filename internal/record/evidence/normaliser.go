package evidence

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
)

// A Normaliser is a rule that takes what changes from run to run out of the match
// key of a request. The set is closed: what counts as the same question is part
// of what a ledger attests. Package cassette has what each of them does.
type Normaliser string

// The normalisers.
const (
	NormaliseDates      Normaliser = "dates"
	NormaliseIDs        Normaliser = "ids"
	NormaliseParallel   Normaliser = "parallel"
	NormalisePaths      Normaliser = "paths"
	NormaliseWhitespace Normaliser = "whitespace"
)

// Normalisers lists all of them.
func Normalisers() []Normaliser {
	return []Normaliser{NormaliseDates, NormaliseIDs, NormaliseParallel, NormalisePaths, NormaliseWhitespace}
}

// CheckNormalisers returns nil if every name is one of the closed set and stands
// there once, else what is wrong and at which place of the list.
func CheckNormalisers(names []Normaliser) (at int, err error) {
	for i, name := range names {
		if err := CheckNormaliser(name); err != nil {
			return i, err
		}
		if slices.Contains(names[:i], name) {
			return i, fmt.Errorf("%q is listed twice", string(name))
		}
	}
	return 0, nil
}

// CheckNormaliser returns nil if the name is one of the closed set, else which
// there are.
func CheckNormaliser(name Normaliser) error {
	if slices.Contains(Normalisers(), name) {
		return nil
	}
	return unknownNormaliser(name)
}

func unknownNormaliser(name Normaliser) error {
	var known []string
	near := ""
	for _, k := range Normalisers() {
		known = append(known, string(k))
		if near == "" && resembles(strings.ToLower(string(name)), string(k)) {
			near = fmt.Sprintf("; did you mean %s?", k)
		}
	}
	return refusal.Newf(refusal.UnknownName, "found the normaliser %.40q, expected some of %s%s", string(name), strings.Join(known, ", "), near).
		WithHint("docs/recording.md says what each of them does")
}

// resembles reports whether a name was probably meant to be another: one letter
// was added, dropped or changed, two were swapped, or only the end is different.
func resembles(name, known string) bool {
	if len(name) >= 3 && (strings.HasPrefix(known, name) || strings.HasPrefix(name, strings.TrimSuffix(known, "s"))) {
		return true
	}
	same := 0
	for same < min(len(name), len(known)) && name[same] == known[same] {
		same++
	}
	a, b := name[same:], known[same:]
	swapped := len(a) >= 2 && len(b) >= 2 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
	return swapped || len(a) > 0 && (a[1:] == b || len(b) > 0 && a[1:] == b[1:]) || len(b) > 0 && a == b[1:]
}

// A PlannedNormaliser is a normaliser in force in an attempt. Those that the
// signed class names may count for promotion; those of a target never do.
type PlannedNormaliser struct {
	From string     `json:"from"` // class or target
	Name Normaliser `json:"name"`
}

// The values of [PlannedNormaliser.From].
const (
	FromClass  = "class"
	FromTarget = "target"
)

// TargetNormalisers lists the normalisers that only the target names.
func (p *Plan) TargetNormalisers() []Normaliser {
	var names []Normaliser
	for _, n := range p.Normalisers {
		if n.From == FromTarget {
			names = append(names, n.Name)
		}
	}
	return names
}

// A NormalisedCount says how many replies of a case were found only because
// normalisers made their requests equal: those of the class alone, or with one of
// the target.
type NormalisedCount struct {
	Class  int `json:"class"`
	Target int `json:"target"`
}
