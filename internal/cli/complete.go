package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/share/export"
)

// What a shell completes is decided here and nowhere else: by the word that
// stands for an argument in a command's usage line, and by the name of a flag.
// Outside of a workspace, and wherever something cannot be read, there is nothing
// to complete, and nothing is said about it.

// A partial line is what somebody has typed so far.
type partial struct {
	names  dossier.Names
	args   []string // complete ones
	prefix string   // of the one being typed
	cmd    *cobra.Command
}

// class is the task class that the command line names: the argument, or --class.
func (t partial) class() string {
	for i, word := range argumentWords(t.cmd) {
		if word == "CLASS" && i < len(t.args) {
			return t.args[i]
		}
	}
	if f := t.cmd.Flags().Lookup("class"); f != nil {
		return f.Value.String()
	}
	return ""
}

func completeClasses(t partial) []string  { return t.names.Classes() }
func completeTargets(t partial) []string  { return t.names.Targets(t.class()) }
func completeCases(t partial) []string    { return t.names.Cases(t.class()) }
func completeTags(t partial) []string     { return t.names.Tags(t.class()) }
func completeAttempts(t partial) []string { return t.names.Attempts() }
func completeKeys(t partial) []string     { return t.names.Keys() }
func completeTiers(partial) []string      { return words(bench.Tiers()...) }

// completeAttemptCases offers attempts, and once one is there its cases.
func completeAttemptCases(t partial) []string {
	attempts := t.names.Attempts()
	for i := range len(t.prefix) {
		if attempt := t.prefix[:i]; t.prefix[i] == ':' && slices.Contains(attempts, attempt) {
			var out []string
			for _, id := range t.names.Cases(t.names.ClassOf(attempt)) {
				out = append(out, attempt+":"+id)
			}
			return out
		}
	}
	return attempts
}

// completedArguments has the words of usage lines.
var completedArguments = map[string]func(partial) []string{
	"CLASS":        completeClasses,
	"CASE":         completeCases,
	"ATTEMPT":      completeAttempts,
	"A":            completeAttempts,
	"B":            completeAttempts,
	"ATTEMPT:CASE": completeAttemptCases,
	"TRAJECTORY":   completeAttemptCases,
	"TIER":         completeTiers,
}

// completedFlags has the names of flags, or of one command's: "export format".
var completedFlags = map[string]func(partial) []string{
	"class":              completeClasses,
	"target":             completeTargets,
	"case":               completeCases,
	"tag":                completeTags,
	"attempt":            completeAttempts,
	"retry-errors":       completeAttempts,
	"baseline":           completeAttempts,
	"require":            completeTiers,
	"format":             func(partial) []string { return export.All() },
	"sandbox":            func(partial) []string { return words(sandbox.Classes()...) },
	"sandbox-scope":      func(partial) []string { return words(sandbox.ScopeCase, sandbox.ScopeAttempt) },
	"require-level":      func(partial) []string { return history.Levels() },
	"outcome":            func(partial) []string { return words(evidence.Passed, evidence.Failed) },
	"ledger append kind": func(partial) []string { return words(evidence.Kinds()...) },
	"sandbox run class":  func(partial) []string { return words(sandbox.Classes()...) },
	"sandbox run scope":  func(partial) []string { return words(sandbox.ScopeCase, sandbox.ScopeAttempt) },
	"try case":           func(partial) []string { return nil },
	"bench import class": func(partial) []string { return nil },
}

// completeKeysOf are the commands whose argument NAME is a key.
const completeKeysOf = "keys export"

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
		// That it has one already is no mistake: flags of a parent are shared.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
}

// completeFlag finds what a flag may be: something of the table, a folder, a file,
// or nothing that we know.
func (p *program) completeFlag(cmd *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	path := strings.TrimPrefix(cmd.CommandPath(), "tally ")
	lookup, ok := completedFlags[path+" "+f.Name]
	if !ok {
		lookup, ok = completedFlags[f.Name]
	}
	placeholder, _ := pflag.UnquoteUsage(f)
	switch {
	case ok:
		return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return p.lookUp(cmd, args, prefix, lookup), cobra.ShellCompDirectiveNoFileComp
		}
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
	want := argumentWords(cmd)
	if len(want) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	at := len(args)
	if last := len(want) - 1; at > last {
		if !strings.HasSuffix(want[last], "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		at = last
	}
	word := strings.TrimSuffix(want[at], "...")
	if path := strings.TrimPrefix(cmd.CommandPath(), "tally "); path == completeKeysOf {
		return p.lookUp(cmd, args, prefix, completeKeys), cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	directive := cobra.ShellCompDirectiveNoFileComp
	for alternative := range strings.SplitSeq(word, "|") {
		if lookup := completedArguments[alternative]; lookup != nil {
			found = append(found, p.lookUp(cmd, args, prefix, lookup)...)
		}
		if slices.Contains([]string{"FILE", "PATH", "SOURCE", "LAYOUT", "TRAJECTORY", "DIR"}, alternative) {
			directive = cobra.ShellCompDirectiveDefault
		}
	}
	// A case is typed after the attempt, without a space between.
	if word == "ATTEMPT:CASE" && !strings.Contains(prefix, ":") {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return found, directive
}

// argumentWords are the words of a usage line that stand for arguments, without
// brackets: "show ATTEMPT[:CASE]" gives ATTEMPT:CASE.
func argumentWords(cmd *cobra.Command) []string {
	var out []string
	fields := strings.Fields(cmd.Use)
	for i, word := range fields[1:] {
		if strings.HasPrefix(word, "-") || word == "|" {
			continue
		}
		if strings.HasPrefix(fields[i], "-") && strings.ToUpper(word) == word {
			continue // the value of a flag
		}
		out = append(out, strings.NewReplacer("[", "", "]", "").Replace(word))
	}
	return out
}

// lookUp asks the workspace, if there is one.
func (p *program) lookUp(cmd *cobra.Command, args []string, prefix string, lookup func(partial) []string) []cobra.Completion {
	t := partial{args: args, prefix: prefix, cmd: cmd}
	if place, err := openPlace(p.env); err == nil {
		t.names = dossier.NamesOf(place)
	}
	var found []cobra.Completion
	for _, name := range lookup(t) {
		// A name with a line break or a tab would be read as two.
		if strings.HasPrefix(name, prefix) && !strings.ContainsAny(name, "\n\t\r") {
			found = append(found, name)
		}
	}
	return found
}
