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
	// The flag library has no types for these.
	text := err.Error()
	if names, ok := strings.CutPrefix(text, "required flag(s) "); ok {
		names = strings.NewReplacer(`"`, "", ", ", ", --").Replace(strings.TrimSuffix(names, " not set"))
		err = fmt.Errorf("required flag is missing: --%s", names)
	}
	if strings.HasPrefix(text, "at least one of the flags in the group [") || strings.HasPrefix(text, "if any flags in the group [") {
		_, names, _ := strings.Cut(text, "[")
		names, _, _ = strings.Cut(names, "]")
		err = fmt.Errorf("expected exactly one of --%s", strings.ReplaceAll(names, " ", ", --"))
	}
	return refusal.Newf(refusal.Usage, "%s: %w", cmd.CommandPath(), err)
}

// wrongArguments says how many arguments a command expects, and which, in place of the
// flag library's "accepts 1 arg(s)".
func wrongArguments(cmd *cobra.Command, args []string, err error) error {
	if text := err.Error(); !strings.HasPrefix(text, "accepts ") && !strings.HasPrefix(text, "requires ") {
		return err
	}
	var want []string
	for _, a := range argumentsOf(cmd) {
		word := strings.Join(a.words, " or ")
		if a.many {
			word += "..."
		}
		want = append(want, word)
	}
	got := "nothing"
	if len(args) > 0 {
		got = fmt.Sprintf("%d: %q", len(args), args)
	}
	return fmt.Errorf("expected %s, got %s", strings.Join(want, " and "), got)
}

// explained adds to a usage error how the command is used, where no better hint is
// known, and an example.
func explained(cmd *cobra.Command, err error) error {
	r := refusal.Of(err)
	if r.Name != refusal.Usage || cmd == nil || strings.Contains(r.Hint, "did you mean") {
		return err
	}
	if r.Hint == "" {
		r.Hint = "usage: " + cmd.UseLine()
	}
	if example := exampleOf(cmd); example != "" && !strings.Contains(r.Hint, example) {
		r.Hint += "; for example: " + example
	}
	return r
}

// exampleOf is the first example of a command.
func exampleOf(cmd *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	return first
}

// flagError says what is wrong with a flag and which one may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	// In "tally nonsense --flag" the flag is unknown because the command is.
	if args := cmd.Flags().Args(); onlyGroups(cmd) && len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	var value *pflag.InvalidValueError
	if errors.Is(err, errTwice) && errors.As(err, &value) {
		f := value.GetFlag()
		return refusal.Newf(refusal.Usage, "%s: --%s is given twice, as %q and %q: expected once", cmd.CommandPath(), f.Name, f.Value.String(), value.GetValue()).
			WithHint("give one --%s, and run the command again for the other", f.Name)
	}
	if errors.As(err, &value) {
		err = fmt.Errorf("--%s %s: expected %s", value.GetFlag().Name, value.GetValue(), expectedOf(value))
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

// A once is the value of a flag that takes one: a second one is refused, because with two
// targets or two keys on a command line nothing says which was meant.
type once struct {
	pflag.Value
	of    *program
	given bool
}

// Set takes the value.
func (o *once) Set(value string) error {
	if o.given && !o.of.completing {
		return errTwice
	}
	o.given = true
	return o.Value.Set(value)
}

var errTwice = errors.New("given twice")

// takeOnce makes every flag that holds one value refuse a second one. The flags of every
// command, such as --workspace, keep the last: a shell alias may set them.
func (p *program) takeOnce(cmd *cobra.Command) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		_, several := f.Value.(pflag.SliceValue)
		_, already := f.Value.(*once)
		if kind := f.Value.Type(); !several && !already && kind != "bool" && kind != "func" && kind != "count" {
			f.Value = &once{Value: f.Value, of: p}
		}
	})
}

// expectedOf says what the value of a flag must be, in place of what a parser of
// numbers says.
func expectedOf(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "bool":
		return "true or false"
	case "int", "int64":
		return "a whole number"
	case "uint", "uint64":
		return "a whole number from 0 up"
	case "float64":
		return "a number"
	case "duration":
		return "a duration, as in 30s, 10m or 2h"
	}
	return fmt.Sprintf("something else: %v", e.Unwrap())
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
			// "--json=maybe" is itself the mistake; the script that wrote it reads JSON.
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
