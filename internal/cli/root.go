package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/record/refusal"
)

func newRoot(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tally",
		Short: "Evaluate agents and leave a score that every reader can check",
		Long: `Tallystick runs an evaluation, watches every step, and leaves a score that
every reader can check and no operator can quietly change.`,
		// Errors and usage are printed in one place, by Main.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&env.WorkspaceDir, "workspace", "", "workspace `DIR` (default: the nearest parent folder with tally.yaml, else the current one)")
	flags.BoolVar(&env.JSON, "json", false, "answer with one JSON document, errors included")
	flags.BoolVar(&env.Quiet, "quiet", false, "print the answer and errors only")
	flags.BoolVar(&env.NoColor, "no-color", false, "print without colours (so does NO_COLOR in the environment)")
	return cmd
}

// needsCommand runs where a command only groups others. The bare program name
// is a newcomer's question and gets help; anything else was asked wrongly.
func (p *program) needsCommand(cmd *cobra.Command, _ []string) error {
	if cmd == p.root && !p.env.JSON {
		return cmd.Help()
	}
	return refusal.Newf(refusal.Usage, "%s: needs a command", cmd.CommandPath()).
		WithHint("one of: %s", strings.Join(commandNames(cmd), ", "))
}

// groupsOthers marks the commands that do nothing themselves.
var groupsOthers = map[string]string{"groups": "others"}

// onlyGroups reports whether a command only groups others.
func onlyGroups(cmd *cobra.Command) bool { return cmd.Annotations["groups"] != "" }

// noSuchCommand refuses the arguments of a command that only groups others.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args[0])
}

func unknownCommand(parent *cobra.Command, name string) error {
	err := refusal.Newf(refusal.Usage, "unknown command %q for %q", name, parent.CommandPath())
	if near, ok := refusal.Closest(name, commandNames(parent)); ok {
		return err.WithHint("did you mean %q?", parent.CommandPath()+" "+near)
	}
	for _, group := range parent.Commands() {
		if sub := subcommand(group, name); sub != nil && !sub.Hidden {
			return err.WithHint("did you mean %q?", sub.CommandPath())
		}
	}
	return err.WithHint("list the commands with %q", parent.CommandPath()+" --help")
}

// commandNames lists what a person may type after cmd.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return names
}

// noArgs is for commands that take none. The flag library's own says "unknown
// command", which sends people looking for a typing mistake.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("takes no arguments, got %q", args[0])
	}
	return nil
}
