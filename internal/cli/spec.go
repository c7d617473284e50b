package cli

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/suites"
)

// completeSpec adds to what the flags of a command said about a run what they did not,
// and validates it: before anything is opened, and nowhere after that. Class is "" if
// it is not among the arguments.
func completeSpec(cmd *cobra.Command, spec *harness.Spec, class string) error {
	given := cmd.Flags().Changed
	spec.Class, spec.Version = class, thisBuild().Harness()
	if bench.IsShipped(class) && !given("target") {
		spec.Targets = []string{suites.DefaultTarget}
	}
	for _, name := range []string{"limit", "sample", "repeat"} { // without the flag, 0 has a meaning
		if f := cmd.Flags().Lookup(name); given(name) && f.Value.String() == "0" {
			return refusal.Newf(refusal.Usage, "--%s 0: expected 1 or more", name)
		}
	}
	if given("seed") && spec.Sample == 0 {
		return refusal.Newf(refusal.Usage, "--seed draws the cases of --sample, which is not given")
	}
	return spec.Validate()
}

// addTargetFlag adds the flag of a command that runs one target.
func addTargetFlag(cmd *cobra.Command, spec *harness.Spec) {
	spec.Targets = []string{agent.DefaultTarget}
	cmd.Flags().Var((*single)(&spec.Targets), "target", "`NAME` of the agent, from targets/NAME.yaml")
}

// A single is a flag that is given once, where a list could be.
type single []string

// Set takes the value; "" is none.
func (s *single) Set(value string) error {
	if *s = nil; value != "" {
		*s = single{value}
	}
	return nil
}

func (s *single) String() string { return strings.Join(*s, "") }

// Type is that of other flags with a text.
func (s *single) Type() string { return "string" }

// dollars are a flag in dollars, kept in micro-dollars.
type dollars int64

// Set takes the value. One of less than a micro-dollar does not become 0, which has a
// meaning of its own.
func (d *dollars) Set(value string) error {
	v, err := strconv.ParseFloat(value, 64)
	if *d = dollars(v * 1e6); *d == 0 && v != 0 {
		*d = dollars(math.Copysign(1, v))
	}
	return err
}

func (d *dollars) String() string { return strconv.FormatFloat(float64(*d)/1e6, 'g', -1, 64) }

// Type is that of other flags with a number.
func (d *dollars) Type() string { return "float64" }

// recordingFlags say what is noted of the texts of an attempt.
type recordingFlags struct{ evidence, bodies bool }

func (r *recordingFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.evidence, "record-evidence", false, "note the SHA-256 of every text and where the expected answer stands in it (default with --submit-intent)")
	cmd.Flags().BoolVar(&r.bodies, "evidence-full-bodies", false, "a submission of the attempt carries whole texts, named by SHA-256")
}

// kind is what they come to: nothing, unless it was asked for or the attempt is to be
// submitted.
func (r *recordingFlags) kind(cmd *cobra.Command, submit bool) evidence.RecordingKind {
	switch refused := cmd.Flags().Changed("record-evidence") && !r.evidence; {
	case refused:
		return ""
	case r.bodies:
		return evidence.RecordBodies
	case r.evidence || submit:
		return evidence.RecordHeads
	}
	return ""
}
