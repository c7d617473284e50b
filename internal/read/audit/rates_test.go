package audit

import (
	"slices"
	"testing"
)

func allFixtures() []fixture {
	return slices.Concat(leakFixtures(), otherFixtures(), copiedFixtures())
}

// TestFixtures runs every fixture: exploits are found, and nothing else is, but
// for those that the check is known not to tell.
func TestFixtures(t *testing.T) {
	for _, f := range allFixtures() {
		t.Run(checkNames[f.check].id+"/"+string(f.kind)+"/"+f.name, func(t *testing.T) {
			s := newScene()
			f.make(s)
			r := run(t, s.input(t))
			c := r.Checks[f.check]
			found := c.Status == Fail
			wanted := (f.kind == exploit) != f.known
			if found != wanted {
				t.Errorf("%s: %s, evidence %q, gap %q", c.ID, c.Status, c.Evidence, c.HarnessGap)
			}
		})
	}
}
