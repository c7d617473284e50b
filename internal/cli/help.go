package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/record/refusal"
)

// A topic is a page of help that belongs to no single command.
type topic struct {
	name, short string
	text        func() string
}

var topics = []topic{
	{"exit-codes", "what each exit code means", exitCodesTopic},
	{"forks", "what to do when a ledger contradicts its past", forksTopic},
	{"refusals", "every named refusal and its exit code", refusalsTopic},
}

// newHelp replaces the flag library's help command, which answers an unknown
// topic with exit code 0.
func newHelp(root *cobra.Command) *cobra.Command {
	var long strings.Builder
	long.WriteString("Show help for a command, or one of these topics:\n")
	for _, t := range topics {
		fmt.Fprintf(&long, "\n  %-12s %s", t.name, t.short)
	}
	return &cobra.Command{
		Use:   "help [COMMAND... | TOPIC]",
		Short: "Help for a command or a topic",
		Long:  long.String(),
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return helpCompletions(root, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHelp(cmd.OutOrStdout(), root, args)
		},
	}
}

func runHelp(w io.Writer, root *cobra.Command, args []string) error {
	if len(args) == 1 {
		for _, t := range topics {
			if t.name == args[0] {
				_, err := io.WriteString(w, t.text())
				return err
			}
		}
	}
	cmd := root
	for _, name := range args {
		sub := subcommand(cmd, name)
		if sub == nil {
			return unknownTopic(cmd, name)
		}
		cmd = sub
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

func unknownTopic(parent *cobra.Command, name string) error {
	known := commandNames(parent)
	if !parent.HasParent() {
		for _, t := range topics {
			known = append(known, t.name)
		}
	}
	return refusal.Newf(refusal.Usage, "no help for %q in %q", name, parent.CommandPath()).
		Suggest(name, known, "list commands and topics with %q", "tally help help")
}

func helpCompletions(root *cobra.Command, args []string) []cobra.Completion {
	cmd := root
	for _, name := range args {
		if cmd = subcommand(cmd, name); cmd == nil {
			return nil
		}
	}
	var found []cobra.Completion
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			found = append(found, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	if cmd == root {
		for _, t := range topics {
			found = append(found, cobra.CompletionWithDesc(t.name, t.short))
		}
	}
	return found
}

// filled breaks a paragraph of help that is made of a table into lines.
func filled(width int, paragraph string) string {
	var b strings.Builder
	line := 0
	for _, word := range strings.Fields(paragraph) {
		switch {
		case line == 0:
		case line+1+len(word) > width:
			b.WriteByte('\n')
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}

func exitCodesTopic() string {
	return exitCodes() + `
The name of a refusal decides the code; see "tally help refusals". Codes are
never renumbered, so CI can tell "worse" (4) from "forged" (3).
`
}

func forksTopic() string {
	return `HistoryRolledBack: the ledger is shorter than something that was signed or published
before. An older copy was put back, or entries were cut off its end.
HistoryForked: the ledger has other entries than something that was signed or
published before. History was rewritten, or this is a different ledger.

Nothing was written to the ledger, and tally signs nothing more in it. What was
known is this machine's memory, an anchor or a witness; the message says which.

There is no ledger here at all ("found: 0 entries"): .tally is not in git, so a second
clone has none, and two clones that each append would be two histories of one origin.
Copy .tally/ledger and .tally/evidence from where the ledger is kept, and append in
one place only; or give the clone a ledger of its own, "tally init --origin NAME" in
a new folder. If the ledger was here, what follows is for you.

What to do:
  1. Keep the folder as it is. Both tree heads are in .tally/evidence/fork-*.json,
     and every refusal is in .tally/alarms.jsonl.
  2. Find the copy that contains what was published: compare each with the anchors
     in git, "tally anchor verify --against DIR".
  3. If you put an old copy back yourself, restore the newest one instead. If no copy
     has the missing entries, they are lost: begin a ledger of another origin, and
     say so where the anchors are published.
`
}

func refusalsTopic() string {
	var b strings.Builder
	b.WriteString("Every refusal has a name that never changes. With --json it is the field \"name\"\nof the error.\n")
	exit := -1
	for _, row := range refusal.Table() {
		if row.Exit != exit {
			exit = row.Exit
			fmt.Fprintf(&b, "\nExit code %d:\n", exit)
		}
		fmt.Fprintf(&b, "  %-24s %s\n", row.Name, row.Meaning)
	}
	return b.String()
}
