package viewer

import "strings"

// A likeness is what most of the cases share that did not pass, and fewer of the
// others.
type likeness struct {
	What  string // the kind of thing, in the words of a sentence
	Group caseGroup
	All   bool // every case that did not pass has it
}

// Common picks of each kind of thing the one that most of the cases have that did not
// pass: at least two and half of them, if of those that have it more fail than of all. It
// is an answer to be read at once; the lists beside the cases have the rest.
func (d *attemptData) Common() (list []likeness) {
	notPassed, all := d.Failing.N, d.States[0].N
	for _, s := range d.Sharings {
		if len(s.Groups) == 0 || s.Groups[0].Label == s.None {
			continue
		}
		g := s.Groups[0] // the most that did not pass
		if g.NotPassed < 2 || 2*g.NotPassed < notPassed || s.Name != modes && g.NotPassed*all <= notPassed*g.N {
			continue
		}
		list = append(list, likeness{What: strings.ToLower(s.Title), Group: g, All: g.NotPassed == notPassed})
	}
	return list
}
