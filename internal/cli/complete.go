package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/read/dossier"
)

// What a shell completes follows from the table of names in names.go: the word that
// stands for an argument in a command's usage line, and the name of a flag. Outside of a
// workspace, and wherever something cannot be read, there is nothing to complete, and
// nothing is said about it.

// A partial line is what a user has typed so far.
type partial struct {
	names  dossier.Names
	args   []string // complete ones
	prefix string   // of the one being typed
	cmd    *cobra.Command
}

// class is the task class that the command line names: the argument, or --class.
func (t partial) class() string {
	for i, want := range argumentsOf(t.cmd) {
		if slices.Contains(want.words, "CLASS") && i < len(t.args) {
			return t.args[i]
		}
	}
	return flagText(t.cmd, "class")
}

// addCompletion tells the flag library what a command's arguments and flags may be.
func (p *program) addCompletion(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && cmd.Runnable() && !onlyGroups(cmd) {
		cmd.ValidArgsFunction = p.completeArgument
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			return
		}
		complete := p.completeFlag(cmd, f)
		// A flag that has one already shares it with its parent.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
}

// completeFlag finds what a flag may be: something of the table, a folder, a file,
// or nothing that we know.
func (p *program) completeFlag(cmd *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	if named, ok := flagNaming(cmd, f.Name); ok {
		return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return p.lookUp(cmd, args, prefix, named), cobra.ShellCompDirectiveNoFileComp
		}
	}
	placeholder, _ := pflag.UnquoteUsage(f)
	switch {
	case strings.Contains(placeholder, "FILE"):
		return only(cobra.ShellCompDirectiveDefault)
	case strings.Contains(placeholder, "DIR"), strings.Contains(placeholder, "FOLDER"):
		return only(cobra.ShellCompDirectiveFilterDirs)
	}
	return only(cobra.ShellCompDirectiveNoFileComp)
}

func only(d cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) { return nil, d }
}

// completeArgument completes the next argument of a command by its usage line.
func (p *program) completeArgument(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	want, ok := argumentAt(cmd, len(args))
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(want.words, func(w string) bool { return slices.Contains(fileWords, w) }) {
		directive = cobra.ShellCompDirectiveDefault
	}
	for _, word := range want.words {
		if named, ok := argumentNaming(cmd, word); ok {
			found = append(found, p.lookUp(cmd, args, prefix, named)...)
		}
		// A case is typed after the attempt, without a space between.
		if word == "ATTEMPT:CASE" && !strings.Contains(prefix, ":") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	}
	return found, directive
}

// lookUp asks the workspace, if there is one.
func (p *program) lookUp(cmd *cobra.Command, args []string, prefix string, named naming) []cobra.Completion {
	t := partial{args: args, prefix: prefix, cmd: cmd}
	if place, err := openNames(p.env); err == nil {
		t.names = dossier.NamesOf(place)
	}
	list := named.list(t)
	before := ""
	if named.commas {
		if i := strings.LastIndexByte(prefix, ','); i >= 0 {
			before = prefix[:i+1]
		}
	}
	var found []cobra.Completion
	for _, name := range list {
		// A name with a line break or a tab would be read as two.
		if name = before + name; strings.HasPrefix(name, prefix) && !strings.ContainsAny(name, "\n\t\r") {
			found = append(found, name)
		}
	}
	return found
}
