package cli

import (
	"github.com/spf13/cobra"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/suites"
)

// chooseTarget fills in the target of a command that names none.
func chooseTarget(cmd *cobra.Command, class string, target *string) {
	if bench.IsShipped(class) && !cmd.Flags().Changed("target") {
		*target = suites.DefaultTarget
	}
}

// refuseShipped is for commands that change a class, or its tier.
func refuseShipped(class string) error {
	if !bench.IsShipped(class) {
		return nil
	}
	return refusal.Newf(refusal.Usage, "class %s comes with the program: it cannot be recorded, changed or promoted", class).
		WithHint("copy its files into a class of your own; docs/suites.md says where they are")
}
