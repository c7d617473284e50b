package cli

import (
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// refuseShipped is for commands that change a class, or its tier.
func refuseShipped(class string) error {
	if !bench.IsShipped(class) {
		return nil
	}
	return refusal.Newf(refusal.Usage, "class %s comes with the program: it cannot be recorded, changed or promoted", class).
		WithHint("copy its files into a class of your own; docs/suites.md says where they are")
}
