package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/read/results"
	"tallystick/internal/record/plain"
	"tallystick/internal/share/importer"
)

func newImport(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:         "import PATH... | -",
		Annotations: readOnlyCommands,
		Short:       "Read other harnesses' results, and check what can be computed again",
		Example:     "tally import results.json",
		Long: filled(85, "Read the result files of other harnesses: "+strings.Join(importer.Names(), ", ")+
			". They are recognised by what is in them, whatever they are called; a folder is searched, and - is standard input.") + `

What a file states and its rows show is computed again: means, pass@k, counts. Each
check says pass, fail or skip, and why. Nothing here was observed by Tallystick: the
numbers are whatever the file says. A check that fails is reported; it is not an error.
docs/formats/import.md has the formats.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runImport(cmd.Context(), env, args) },
	}
}

func runImport(ctx context.Context, env *Env, paths []string) error {
	runs, err := importer.Read(ctx, paths, importer.Options{Stdin: env.Stdin})
	if err != nil {
		return err
	}
	doc, err := results.Document{Runs: runs}.Encode()
	if err != nil {
		return fmt.Errorf("encoding the runs: %w", err)
	}
	return env.Answer(json.RawMessage(doc), func(out io.Writer) { importText(out, runs) })
}

func importText(out io.Writer, runs []results.Run) {
	for _, r := range runs {
		fmt.Fprintf(out, "%s %s: %s on %s\n", plain.Line(r.Harness), plain.Line(cmp.Or(string(r.HarnessVersion), "of unknown version")), plain.Line(cmp.Or(string(r.Model), "unknown model")), plain.Line(cmp.Or(string(r.Task), "unknown task")))
		fmt.Fprintf(out, "  IMPORTED, not observed  %s sha256:%s\n", plain.Line(r.Source.Path), r.Source.SHA256)
		fmt.Fprintf(out, "  samples  %d: %d scored, %d unscored, %d errors\n", r.Samples, r.Scored, r.Unscored, r.Errors)
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			fmt.Fprintf(out, "  metric   %s %v\n", plain.Line(name), r.Metrics[name])
		}
		for _, c := range r.Checks {
			fmt.Fprintf(out, "  %-4s     %s: %s\n", c.Status, plain.Line(c.Name), plain.Line(c.Detail))
		}
		for _, n := range r.Notes {
			fmt.Fprintf(out, "  note     %s\n", plain.Line(n))
		}
	}
}
