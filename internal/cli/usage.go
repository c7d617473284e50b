package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/record/refusal"
)

// usage names an error that came up before a command began to work.
func usage(cmd *cobra.Command, err error) error {
	var r *refusal.Error
	if errors.As(err, &r) {
		return err
	}
	return refusal.Newf(refusal.Usage, "%s: %w", cmd.CommandPath(), err).
		WithHint("usage: %s", cmd.UseLine())
}

// flagError says what is wrong with a flag and which one may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	// In "tally nonsense --flag" the flag is unknown because the command is.
	if args := cmd.Flags().Args(); onlyGroups(cmd) && len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	r := refusal.Newf(refusal.Usage, "%s: %w", cmd.CommandPath(), err)
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		if near, ok := refusal.Closest(missing.GetSpecifiedName(), flagNames(cmd)); ok {
			return r.WithHint("did you mean --%s?", near)
		}
	}
	return r.WithHint("list the flags with %q", cmd.CommandPath()+" --help")
}

// words are values of a closed set as text.
func words[T ~string](values ...T) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

// givenFlags are the names of the command's own flags that were given.
func givenFlags(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if cmd.InheritedFlags().Lookup(f.Name) == nil {
			names = append(names, f.Name)
		}
	})
	return names
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// asksForJSON looks for --json in a command line that could not be parsed. As
// with parsed flags the last one counts, and nothing after "--" is a flag.
func asksForJSON(args []string) bool {
	asks := false
	for _, a := range args {
		if a == "--" {
			break
		}
		if a == "--json" {
			asks = true
		}
		if v, ok := strings.CutPrefix(a, "--json="); ok {
			on, err := strconv.ParseBool(v)
			// "--json=maybe" is itself the mistake; whoever wrote it reads JSON.
			asks = on || err != nil
		}
	}
	return asks
}

// exitCodes is printed at the end of every help text.
func exitCodes() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, c := range exitCodeMeanings {
		fmt.Fprintf(&b, "  %d  %s\n", c.code, c.meaning)
	}
	return b.String()
}

var exitCodeMeanings = []struct {
	code    int
	meaning string
}{
	{refusal.ExitDone, "done"},
	{refusal.ExitFailed, "could not do the work (unreadable or malformed input included)"},
	{refusal.ExitUsage, "usage error (flags, arguments, unknown names)"},
	{refusal.ExitUnverified, "evidence does not verify"},
	{refusal.ExitGate, "evidence verifies and the gate is not met"},
	{refusal.ExitUnanswered, "not answered: an offline run would have to ask a model something new"},
}
