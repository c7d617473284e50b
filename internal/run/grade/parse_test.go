package grade

import (
	"fmt"
	"testing"

	"tallystick/internal/record/canon"
)

// TestSpecsRememberWhatWasRead, and say where another case has the mistake.
func TestSpecsRememberWhatWasRead(t *testing.T) {
	var specs Specs
	var placed string
	refuse := func(name string) func([]string, error) error {
		return func(member []string, err error) error { placed = name; return err }
	}
	doc := canon.RawMessage(`{"grade":{"kind":"exact"}}`)
	for _, name := range []string{"first", "second"} {
		p, err := specs.Parse(doc, refuse(name))
		if err != nil {
			t.Fatal(err)
		}
		// Without an expected answer it does not compile, and the case that has
		// none is told.
		if _, err := p.Compile(Materials{}); err == nil || placed != name {
			t.Errorf("%s: %v, placed in %q", name, err, placed)
		}
	}
	for range 2 {
		if _, err := specs.Parse(canon.RawMessage(`{"grade":{"kind":"none"}}`), refuse("third")); err == nil || placed != "third" {
			t.Errorf("a spec that is wrong: %v, placed in %q", err, placed)
		}
	}
	for i := range maxSpecs + 10 {
		if _, err := specs.Parse(fmt.Appendf(nil, `{"grade":{"expected":%d,"kind":"exact"}}`, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(specs.known) > maxSpecs {
		t.Errorf("%d specs are remembered", len(specs.known))
	}
}
