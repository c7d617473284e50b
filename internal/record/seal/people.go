package seal

import (
	"maps"
	"slices"
	"strings"
)

// People knows which names and keys belong to one person: every version of a signers
// file says which key is whose, and a name that gets another's key later, or a key
// that gets another name, is still the same person. What no version says cannot be
// known. The zero value knows nothing. It is not changed once it is made, so that
// who was known at one place of a ledger stays so.
type People struct {
	next map[string]string
	// operators are the marks of all lines that had the role, and patterns those of the
	// names that authorities could give it to.
	operators [][]string
	patterns  []string
}

// With also knows what a version of the signers file says.
func (p People) With(s *Signers) People {
	known := People{maps.Clone(p.next), slices.Clip(p.operators), slices.Clip(p.patterns)}
	if known.next == nil {
		known.next = make(map[string]string)
	}
	for _, e := range s.entries {
		runs := slices.Contains(e.Roles, Operator)
		if e.Authority { // its lines have patterns in place of names
			if runs {
				known.patterns = append(known.patterns, e.Principals)
			}
			continue
		}
		marks := marksOf(e.Principals, e.Key)
		known.join(marks)
		if runs {
			known.operators = append(known.operators, marks)
		}
	}
	return known
}

// Ran reports whether the person behind a signature was an operator in some version of
// the signers file, or may have been by the certificate of an authority: whose role was
// taken away ran what they ran.
func (p People) Ran(s Signature) bool {
	marks := marksOf(s.principal, s.key)
	return s.Holds(Operator) || slices.ContainsFunc(p.operators, func(m []string) bool { return p.meet(marks, m) }) ||
		slices.ContainsFunc(p.patterns, func(list string) bool { return matchList(s.principal, list) })
}

// Same reports whether two signatures are by one person.
func (p People) Same(a, b Signature) bool {
	return p.meet(marksOf(a.principal, a.key), marksOf(b.principal, b.key))
}

// Holds reports whether the key of this fingerprint is the signer's.
func (p People) Holds(s Signature, fingerprint string) bool {
	return p.meet(marksOf(s.principal, s.key), []string{keyMark + fingerprint})
}

// The marks of a person. A key is known by its fingerprint and by the secrets behind
// it: one secret in two wrappings has two fingerprints.
const (
	nameMark   = "name "
	keyMark    = "key "
	secretMark = "secret "
)

func marksOf(name string, key PublicKey) []string {
	marks := []string{nameMark + strings.ToLower(name), keyMark + key.Fingerprint()}
	for _, m := range key.materials() {
		marks = append(marks, secretMark+m)
	}
	return marks
}

// meet reports whether a mark of one list is of the same person as one of the other.
func (p People) meet(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if p.person(x) == p.person(y) {
				return true
			}
		}
	}
	return false
}

// person follows a mark to the one that stands for its person.
func (p People) person(mark string) string {
	for {
		next, ok := p.next[mark]
		if !ok {
			return mark
		}
		mark = next
	}
}

func (p People) join(marks []string) {
	for _, m := range marks[1:] {
		if a, b := p.person(marks[0]), p.person(m); a != b {
			p.next[b] = a
		}
	}
}
