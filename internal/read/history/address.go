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
// by its number, by its class and number as in "support.3", by the name that "tally name"
// gave it, or by the beginning of its id if only one attempt has it. What could be several
// attempts is refused.
func (h *History) Find(text string, within Scope) (*Attempt, error) {
	if a := h.byID[text]; a != nil {
		return a, nil
	}
	if back, ok := LatestBack(text); ok {
		return h.latest(back, text, within)
	}
	if slices.ContainsFunc(h.Attempts, func(a *Attempt) bool { return a.Class == text }) {
		return nil, h.Unknown(text, within) // a class is not the attempts whose ids begin with it
	}
	ways := []func(*Attempt) bool{
		func(a *Attempt) bool { return a.classAndNumber() == text },
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

// Latest addresses the newest attempt, or the one that is so many before it.
func Latest(back int) string {
	if back == 0 {
		return evidence.Latest
	}
	return evidence.Latest + "~" + strconv.Itoa(back)
}

// LatestBack reads "latest" and "latest~N".
func LatestBack(text string) (back int, ok bool) {
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
	return nil, refusal.Newf(refusal.UnknownName, "%s goes back further than there are attempts: %d", text, n).
		WithHint("did you mean %q? It is the oldest", Latest(n-1))
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
	last := found[len(found)-1]
	return refusal.Newf(refusal.UnknownName, "%q could be %d attempts: %s", text, len(found), strings.Join(ids, ", ")).
		WithHint("give more of the id, or its class and number, as in %q", last.classAndNumber())
}

// classAndNumber is the shortest address that stays right: the numbers of a class are its
// own, whatever target ran. The class is spelled as in ids, because a colon comes before
// a case.
func (a *Attempt) classAndNumber() string {
	class, _, _ := strings.Cut(a.ID, ".")
	return class + "." + strconv.Itoa(a.Number)
}

// Addresses are the attempts of a scope as people may type them: "latest", ids and names.
func (h *History) Addresses(within Scope) []string {
	var known []string
	for _, a := range h.Attempts {
		if !within.has(a) {
			continue
		}
		if known = append(known, a.ID); a.Name != "" {
			known = append(known, a.Name)
		}
	}
	if len(known) > 0 {
		known = append(known, evidence.Latest)
	}
	return known
}

// Unknown refuses a text that addresses no attempt, and suggests one that it may mean.
func (h *History) Unknown(text string, within Scope) error {
	err := refusal.Newf(refusal.UnknownName, "no attempt %q in the ledger %s", text, h.Origin)
	var newest, ofClass *Attempt
	for _, a := range h.Attempts {
		if within.has(a) {
			newest = a
		}
		if a.Class == text {
			ofClass = a
		}
	}
	switch n, notNumber := strconv.Atoi(text); {
	case ofClass != nil:
		return refusal.Newf(refusal.UnknownName, "no attempt %q in the ledger %s: it is a class", text, h.Origin).
			WithHint("its newest attempt is %s; gate, scorecard and why choose one with --class %s", ofClass.ID, text)
	case newest == nil && len(h.Attempts) > 0:
		return err.WithHint(`no attempt is of that class and target; "tally log" lists all`)
	case newest == nil:
		return err.WithHint(`"tally run CLASS" makes one`)
	case notNumber == nil:
		return err.WithHint("did you mean %q? The numbers of a class go from 1 up to that of its newest attempt", strconv.Itoa(h.nearestNumber(n, within)))
	}
	return err.Suggest(text, h.Addresses(within), "the newest is %s; \"tally log\" lists them", newest.ID)
}

// nearestNumber is the number of an attempt that is closest to n.
func (h *History) nearestNumber(n int, within Scope) int {
	nearest := 0
	for _, a := range h.Attempts {
		if within.has(a) && (nearest == 0 || abs(a.Number-n) < abs(nearest-n)) {
			nearest = a.Number
		}
	}
	return nearest
}

func abs(n int) int { return max(n, -n) }
