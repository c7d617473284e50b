package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/exchange"
)

type benchPendingOptions struct {
	class, from, id string
	added, reviewed string
}

func newBenchPending(env *Env) *cobra.Command {
	var o benchPendingOptions
	cmd := &cobra.Command{
		Use:     "pending CLASS --from FILE",
		Short:   "Turn a production incident into a draft case that is never scored",
		Example: "tally bench pending support --from incident.json",
		Long: `Turn a production incident into a draft in bench/CLASS/cases-pending. FILE is a JSON
object with id, outcome and input, and maybe title, disposition (positive, negative
or ambiguous; the last if it is not given) and expected. The whole object is kept
beside the draft, and the ledger records that it was made.

FILE may also be a trajectory: its turns become the input, and the replies of the model
and the tools are used again. The draft gets the name of its case, or the one that --id
gives. For a trajectory of another system, or one in the evidence, use
"tally replay --pending".

A draft is never scored. It becomes a case when two people have signed it and
"tally bench accept" is run.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runBenchPending(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.from, "from", "", "the incident, a JSON `FILE` or a trajectory")
	cmd.Flags().StringVar(&o.id, "id", "", "`ID` of a draft made from a trajectory (default: that of its case)")
	cmd.MarkFlagRequired("from")
	addPeopleFlags(cmd, &o.added, &o.reviewed)
	return cmd
}

// maxIncident bounds the file that an incident comes in.
const maxIncident = 16 << 20

func runBenchPending(ctx context.Context, env *Env, o benchPendingOptions) error {
	data, err := dossier.ReadInput(o.from, maxIncident)
	if err != nil {
		return err
	}
	var answer *ceremony.Pending
	switch {
	case exchange.IsOurs(data):
		var loaded *exchange.Trajectory
		if loaded, err = loadTrajectory(env, o.from, "", false); err == nil {
			answer, err = pendingOf(ctx, env, loaded, o)
		}
	case o.id != "":
		err = refusal.Newf(refusal.Usage, "--id names the draft of a trajectory, and %s is not a trajectory", o.from).WithHint("leave --id out: the file of an incident has the id in it")
	default:
		answer, err = addPending(ctx, env, o.draft(), data)
	}
	if err != nil {
		return err
	}
	return env.Answer(answer, func(out io.Writer) { printPending(out, answer) })
}

// draft says what draft the flags ask for.
func (o benchPendingOptions) draft() ceremony.PendingOptions {
	return ceremony.PendingOptions{Class: o.class, From: o.from, AddedBy: o.added, ReviewedBy: o.reviewed}
}

func addPending(ctx context.Context, env *Env, o ceremony.PendingOptions, incident []byte) (*ceremony.Pending, error) {
	c, err := openCorpus(env)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return ceremony.AddPending(ctx, c, o, incident)
}

func printPending(out io.Writer, a *ceremony.Pending) {
	class, id := plain.Line(a.Class), plain.Line(a.Case)
	if a.Warning != "" {
		fmt.Fprintf(out, "WARNING   draft %s: %s\n", id, plain.Line(a.Warning))
	}
	fmt.Fprintf(out, "draft %s in %s, entry %d; it is NOT scored\n", id, plain.Line(filepath.Join(bench.Dir, a.Class, bench.PendingDir)), a.Index)
	if a.Scratch {
		fmt.Fprintf(out, "Next: fill in case.yaml. A scratch class is not signed: to have it scored, move the folder to %s\n", plain.Line(filepath.Join(bench.Dir, a.Class, bench.CasesDir)))
		return
	}
	fmt.Fprintf(out, "Next: fill in case.yaml, \"tally bench digest %s\", two people run \"tally bench sign %s %s --key K\", then \"tally bench accept %s %s\"\n",
		class, class, id, class, id)
}

func newBenchAccept(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "accept CLASS CASE",
		Short:   "Record a signed case in the ledger; a draft becomes a case",
		Example: "tally bench accept support refund-8",
		Long: `Verify the two signatures of a case and record them in the ledger. From then on they
are judged at that point, so that a key which expires later does not orphan the case.
A draft of cases-pending moves to cases; the manifest then needs "tally bench digest"
and two signatures.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBenchAccept(cmd.Context(), env, args[0], args[1])
		},
	}
}

func runBenchAccept(ctx context.Context, env *Env, class, id string) error {
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	a, err := ceremony.Accept(ctx, c, ceremony.AcceptOptions{Class: class, CaseID: id})
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"class": class, "case": id, "signed": a.Signed, "index": a.Position.Index, "head": a.Position.Head, "was_pending": a.WasPending}, func(out io.Writer) {
		fmt.Fprintf(out, "case %s of %s is accepted as of entry %d\n", plain.Line(id), plain.Line(class), a.Position.Index)
		if a.WasPending {
			fmt.Fprintf(out, "Next: tally bench digest %s, then two people run \"tally bench sign %s --key K\"\n", plain.Line(class), plain.Line(class))
		}
	})
}
