package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/share/exchange"
)

// pickUsage is the help of --pick, wherever a trajectory is named.
const pickUsage = "the `ID` of a conversation, trace or trajectory, for a file of another system that has several"

// loadTrajectory reads a trajectory of the evidence, whose head the ledger
// holds, or a file, which nothing vouches for.
func loadTrajectory(env *Env, name, pick string, showHeldOut bool) (*exchange.Trajectory, error) {
	return exchange.Load(func() (*dossier.Place, error) { return openPlace(env) }, name, pick, showHeldOut)
}

// addHeldOutFlag declares --show-held-out, wherever the texts of a case are shown.
func addHeldOutFlag(cmd *cobra.Command, show *bool) {
	cmd.Flags().BoolVar(show, "show-held-out", false, "show what held-out cases ask and want, in place of salted digests")
}

func importedText(out io.Writer, a *exchange.Imported) {
	if a == nil {
		return
	}
	fmt.Fprintf(out, "IMPORTED from %s %s, %s; what it says is whatever its exporter wrote\n", a.Format, plain.Line(a.ID), a.Digest)
	for _, n := range a.Notes {
		fmt.Fprintf(out, "  not here  %s ×%d\n", plain.Line(n.What), n.Count)
	}
	for _, v := range a.Evaluations {
		score := "no score"
		if v.Score != nil {
			score = fmt.Sprint(*v.Score)
		}
		fmt.Fprintf(out, "  scored    %s: %s %s (not ours; it does not count)\n", plain.Line(v.Name), score, plain.Line(v.Label))
	}
}
