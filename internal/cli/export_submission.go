package cli

import (
	"fmt"
	"io"
	"strings"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
)

// exportSubmission makes the package of an attempt that goes to a leaderboard.
func exportSubmission(env *Env, asked exportOptions) error {
	o := asked.submit
	o.Attempt, o.Out, o.ShowHeldOut, o.Accept = asked.attempt, asked.out, asked.showHeldOut, acceptPackage(env)
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	c, err := place.ReadCorpus("", dossier.Ask{Prove: true, ShowHeldOut: o.ShowHeldOut, Want: func(a *history.Attempt) bool { return a.ID == o.Attempt }})
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := lab.Submit(c, o)
	if s == nil {
		return err
	}
	if aerr := env.Answer(s, func(out io.Writer) { submitText(out, s) }); aerr != nil {
		return aerr
	}
	return err
}

func submitText(out io.Writer, s *lab.Submitted) {
	word := "submittable"
	if !s.Submittable {
		word = "NOT submittable"
	}
	fmt.Fprintf(out, "attempt  %s, %s (%s): %s\n", plain.Line(s.Attempt.ID), s.Attempt.Text(), s.Attempt.Level, word)
	fmt.Fprintf(out, "because  %s\n", plain.Line(s.Reason))
	if s.PassRate != nil {
		fmt.Fprintf(out, "result   pass rate %s, n %d, 95 %% interval %.4f to %.4f", plain.Score(*s.PassRate, 4), s.N, s.CI95[0], s.CI95[1])
	} else {
		fmt.Fprintf(out, "result   unscored, n %d", s.N)
	}
	fmt.Fprintf(out, "; mean steps %.2f, empty %.4f\n", s.MeanSteps, s.EmptyRate)
	if s.Corrected != nil {
		fmt.Fprintf(out, "as corrected  %s; the result above is as recorded\n", s.Corrected.Text(s.N))
	}
	fmt.Fprintf(out, "audit    clean %t, strictly %t, complete %t\n", s.Audit.Clean, s.Audit.StrictClean, s.Audit.Complete)
	if len(s.Audit.HarnessGaps) > 0 {
		fmt.Fprintf(out, "gaps     %s\n", plain.Line(strings.Join(s.Audit.HarnessGaps, "; ")))
	}
	if s.Package == "" {
		fmt.Fprintf(out, "nothing written; it would have %d files, %d bytes\n", s.Files, s.Bytes)
		return
	}
	fmt.Fprintf(out, "package  %s: %d files, %d bytes\nCheck it with: tally-verify --key %s %s\n", plain.Line(s.Package), s.Files, s.Bytes, s.LedgerKey, plain.Line(s.Package))
}
