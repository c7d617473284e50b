package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/plain"
	"tallystick/internal/share/importer"
)

func showImported(ctx context.Context, env *Env, o showOptions) error {
	a, err := importer.ShowImported(ctx, o.name, o.sample)
	if err != nil {
		return err
	}
	return env.showPaged(ctx, a, func(out io.Writer) { showImportedText(out, a) })
}

func showImportedText(out io.Writer, a *importer.ShownImport) {
	importText(out, a.Runs)
	for _, r := range a.Rows {
		attempt := ""
		if r.Attempt > 0 {
			attempt = fmt.Sprintf(" attempt %d", r.Attempt)
		}
		if len(a.Runs) > 1 {
			attempt += fmt.Sprintf(" of run %d", r.Run+1)
		}
		fmt.Fprintf(out, "\n%s%s  %s  %s\n", plain.Line(r.ID), attempt, r.State, plain.Line(scoresText(r.Scores)))
		shownText(out, "  input     ", r.Input)
		shownText(out, "  expected  ", r.Expected)
		shownText(out, "  answer    ", r.Answer)
		if r.Error != "" {
			fmt.Fprintf(out, "  error     %s\n", plain.Line(r.Error))
		}
	}
	if a.LeftOut > 0 {
		fmt.Fprintf(out, "\n%d more rows; --row ID shows one\n", a.LeftOut)
	}
}

// shownText prints a text that a file has behind its name, and nothing for one that it
// does not have.
func shownText(out io.Writer, name string, t results.Text) {
	if t.SHA256 != "" {
		fmt.Fprintf(out, "%s%s\n", name, plain.Line(t.Head)+cutMark(t))
	}
}

// cutMark says that a text goes on.
func cutMark(t results.Text) string {
	if int64(len(t.Head)) >= t.Bytes {
		return ""
	}
	return fmt.Sprintf(" … (%d bytes)", t.Bytes)
}

func scoresText(scores map[string]results.Score) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		value := "unscored"
		if v := scores[name].Value; v != nil {
			value = fmt.Sprint(*v)
		}
		out = append(out, name+" "+value)
	}
	return strings.Join(out, ", ")
}
