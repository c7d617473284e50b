package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Scope narrows what a bare number or "latest" may mean. The zero value is the whole
// ledger.
type Scope struct{ Class, Target string }

func (s Scope) has(a *Attempt) bool {
	return (s.Class == "" || a.Class == s.Class) && (s.Target == "" || a.Target == s.Target)
}

// Find returns the attempt that a text addresses: by its id, by "latest" or "latest~N",
// by its number, by the name that "tally name" gave it, or by the beginning of its id if
// only one attempt has it. What could be several attempts is refused.
func (h *History) Find(text string, within Scope) (*Attempt, error) {
	if a := h.byID[text]; a != nil {
		return a, nil
	}
	if back, ok := latest(text); ok {
		return h.latest(back, text, within)
	}
	if slices.ContainsFunc(h.Attempts, func(a *Attempt) bool { return a.Class == text }) {
		return nil, h.Unknown(text, within) // a class is not the attempts whose ids begin with it
	}
	ways := []func(*Attempt) bool{
		func(a *Attempt) bool { return a.Name == text },
		func(a *Attempt) bool { return strings.HasPrefix(a.ID, text) },
	}
	if n, err := strconv.Atoi(text); err == nil {
		ways = []func(*Attempt) bool{func(a *Attempt) bool { return a.Number == n }}
	}
	for _, means := range ways {
		var found []*Attempt
		for _, a := range h.Attempts {
			if text != "" && within.has(a) && means(a) {
				found = append(found, a)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, ambiguous(text, found)
		}
	}
	return nil, h.Unknown(text, within)
}

// latest reads "latest" and "latest~N".
func latest(text string) (back int, ok bool) {
	rest, ok := strings.CutPrefix(text, evidence.Latest)
	if !ok || rest == "" {
		return 0, ok
	}
	n, err := strconv.Atoi(strings.TrimPrefix(rest, "~"))
	return n, err == nil && n >= 0 && rest[0] == '~'
}

func (h *History) latest(back int, text string, within Scope) (*Attempt, error) {
	n := 0
	for _, a := range slices.Backward(h.Attempts) {
		if !within.has(a) {
			continue
		}
		if n == back {
			return a, nil
		}
		n++
	}
	if n == 0 {
		return nil, h.Unknown(text, within)
	}
	return nil, refusal.Newf(refusal.UnknownName, "%s goes back further than there are attempts: %d", text, n)
}

func ambiguous(text string, found []*Attempt) error {
	const most = 5
	var ids []string
	for _, a := range found[max(0, len(found)-most):] {
		ids = append(ids, a.ID)
	}
	if more := len(found) - most; more > 0 {
		ids = append(ids, fmt.Sprintf("and %d more", more))
	}
	return refusal.Newf(refusal.UnknownName, "%q could be %d attempts: %s", text, len(found), strings.Join(ids, ", ")).WithHint("give more of the id")
}

// Unknown refuses a text that addresses no attempt.
func (h *History) Unknown(text string, within Scope) error {
	err := refusal.Newf(refusal.UnknownName, "no attempt %q in the ledger %s", text, h.Origin)
	var known []string
	newest := "" // of the class, if that is what was named
	for _, a := range h.Attempts {
		if within.has(a) {
			known = append(known, a.ID)
		}
		if a.Name != "" {
			known = append(known, a.Name)
		}
		if a.Class == text {
			newest = a.ID
		}
	}
	switch {
	case newest != "":
		return refusal.Newf(refusal.UnknownName, "no attempt %q in the ledger %s: it is a class", text, h.Origin).
			WithHint("its newest attempt is %s; gate, scorecard and why choose one with --class %s", newest, text)
	case len(known) > 0:
		return err.Suggest(text, known, "the newest is %s; \"tally log\" lists them", known[len(known)-1])
	}
	return err.WithHint(`"tally run CLASS" makes one`)
}
