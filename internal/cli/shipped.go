package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/refusal"
	"tallystick/internal/suites"
)

// target finds the agent under test. Of a shipped class it is one that came with
// it or, if there is none of that name, one of the workspace: people want to see
// how their own agent does.
func (e *Env) target(p *archive.Corpus, class, name string) (*agent.Target, error) {
	if !bench.IsShipped(class) {
		return agent.Load(p.Root, name)
	}
	t, err := suites.Target(name)
	if t == nil && err == nil {
		t, err = agent.Load(p.Root, name)
		if refusal.Is(err, refusal.UnknownName) {
			err = refusal.Newf(refusal.UnknownName, "%w", err).WithHint("with %s come %s; one of your own is a file, and docs/agents.md shows one of each kind", class, strings.Join(suites.Targets(), ", "))
		}
		return t, err
	}
	if fileExists(p.Path(agent.TargetsDir, name+".yaml")) {
		e.Note("target %s is the one that comes with %s; give yours another name to run it", name, class)
	}
	return t, err
}

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
