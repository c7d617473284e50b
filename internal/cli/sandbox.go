package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/isolation"
)

func newSandbox(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sandbox",
		Short:   "Where rubrics run: what works here, the Python image, one run by hand",
		Example: "tally sandbox probe",
	}
	cmd.AddCommand(newSandboxProbe(env), newSandboxRun(env), newSandboxImage(env))
	return cmd
}

func newSandboxProbe(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "probe",
		Short:   "Try every isolation class by running something in it",
		Example: "tally sandbox probe",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSandboxProbe(cmd.Context(), env) },
	}
}

type probeAnswer struct {
	Classes []probedClass `json:"classes"`
}

type probedClass struct {
	Class   sandbox.Class `json:"class"`
	Works   bool          `json:"works"`
	Reason  string        `json:"reason"`
	StartMS float64       `json:"start_ms"`
	Shows   string        `json:"shows,omitempty"` // what a program in it can learn of the host
}

func runSandboxProbe(ctx context.Context, env *Env) error {
	statuses, err := sandbox.Probe(ctx, "", "")
	if err != nil {
		return err
	}
	var a probeAnswer
	for _, s := range statuses {
		about, _ := isolation.Find(string(s.Class))
		a.Classes = append(a.Classes, probedClass{s.Class, s.Works, s.Reason, milliseconds(s.Start), about.Shows})
	}
	return env.Answer(a, func(w io.Writer) {
		for _, c := range a.Classes {
			if c.Works {
				fmt.Fprintf(w, "%-10s works    %.0f ms\n", c.Class, c.StartMS)
				if c.Shows != "" {
					fmt.Fprintf(w, "%-10s shows    %s\n", "", c.Shows)
				}
			} else {
				fmt.Fprintf(w, "%-10s does not  %s\n", c.Class, plain.Line(c.Reason))
			}
		}
	})
}

// milliseconds keeps three decimals: enough for a start, short enough to read.
func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}
