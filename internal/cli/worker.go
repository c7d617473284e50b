package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/app/fleet"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

type workerOptions struct {
	join, creds, key, trustRoot, label string
	jobs                               int
	once                               bool
}

func newWorker(env *Env) *cobra.Command {
	var o workerOptions
	cmd := &cobra.Command{
		Use:     "worker --join URL --trust-root DIGEST",
		Short:   "Drive cases for an attempt that another machine records",
		Example: "tally fleet worker --join nats://127.0.0.1:4222 --trust-root sha256:0123...",
		Long: `Work for the coordinator of a fleet ("tally run --fleet"): take cases, drive the agent in
this machine's sandbox, and send back what it did, signed. A worker has no workspace and
no ledger, and is never given an expected answer.

The worker's key is made the first time, in the state folder of this user. It must be in the
signers file of the workspace with roles=worker; the command prints the line. It trusts
only work that an operator signed who is in a signers file that follows from --trust-root.
docs/scale.md has all of it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorker(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.join, "join", "", "`URL` of the fleet's NATS servers, as the coordinator prints it")
	f.StringVar(&o.trustRoot, "trust-root", "", "trusted `DIGEST` of version 1 of the workspace's signers file")
	f.StringVar(&o.key, "key", "", "key `FILE` of this worker (default: one in the state folder of this user)")
	f.StringVar(&o.creds, "creds", "", "NATS credentials `FILE`, if the servers want one")
	f.StringVar(&o.label, "label", "", "`NAME` of this machine in the status of the fleet")
	f.IntVar(&o.jobs, "jobs", 0, "drive `N` cases at once (default: one for each processor)")
	f.BoolVar(&o.once, "once", false, "end when the first attempt ends")
	cmd.MarkFlagRequired("join")
	return cmd
}

func runWorker(ctx context.Context, env *Env, o workerOptions) error {
	if env.beyond == nil {
		return handOver(ctx, env, "tally fleet worker")
	}
	own, err := ceremony.OpenWorker(env.Getenv, o.key)
	if err != nil {
		return err
	}
	if own.Made {
		env.Note("made a key for this worker: %s", own.KeyFile)
	}
	if o.trustRoot == "" {
		return refusal.Newf(refusal.Usage, "--trust-root is missing: whose cases may this machine run?").
			WithHint("the coordinator prints it, and \"tally doctor\" in the workspace; in the workspace this worker is added with: tally signers add NAME --roles worker --ssh FILE, where FILE holds: %s", own.Line())
	}
	return env.beyond.Worker(ctx, fleet.WorkerOptions{URL: o.join, Access: fleetAccess(env, o.creds), Key: own.Key, Line: own.Line(), TrustRoot: o.trustRoot, Dir: own.Dir, Hidden: []string{own.State},
		Label: o.label, Jobs: o.jobs, Version: thisBuild().Harness(), Once: o.once, Now: env.Now, Note: env.Note})
}

// fleetAccess is what servers of one's own want to see. The names are those of NATS's
// own tools.
func fleetAccess(env *Env, creds string) fleet.Access {
	return fleet.Access{Creds: creds, CA: env.Getenv("NATS_CA"), Cert: env.Getenv("NATS_CERT"), CertKey: env.Getenv("NATS_KEY")}
}

type fleetStatusOptions struct {
	join, creds, key string
}

func newFleet(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "fleet", Short: "Attempts that run over many machines", Example: "tally fleet status"}
	var o fleetStatusOptions
	status := &cobra.Command{
		Use:     "status",
		Short:   "Workers, queue, rate, failures and cost of the attempt that runs now",
		Example: "tally fleet status --join nats://127.0.0.1:4222",
		Long: `Ask the coordinator of a fleet how its attempt stands. Without --join it is the one
that runs in this workspace with "--fleet embedded". Servers that ask for keys are shown
the operator's key of the workspace, or --key, or --creds, as the coordinator shows it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFleetStatus(cmd.Context(), env, o) },
	}
	status.Flags().StringVar(&o.join, "join", "", "`URL` of the fleet's NATS servers")
	status.Flags().StringVar(&o.creds, "creds", "", "NATS credentials `FILE`, if the servers want one")
	status.Flags().StringVar(&o.key, "key", "", "key `FILE` that the servers know (default: the operator's key of the workspace)")
	cmd.AddCommand(newWorker(env), status)
	return cmd
}

func runFleetStatus(ctx context.Context, env *Env, o fleetStatusOptions) error {
	if env.beyond == nil {
		return handOver(ctx, env, "tally fleet status")
	}
	asked := fleet.StatusOptions{URL: o.join, Access: fleetAccess(env, o.creds), Wait: 5 * time.Second}
	place, unopened := openPlace(env)
	switch {
	case o.join == "" && unopened != nil:
		return unopened
	case o.join == "":
		asked.Dir = place.Private("fleet")
	case o.key != "":
		var err error
		if asked.Key, err = seal.LoadKey(o.key); err != nil {
			return err
		}
	case unopened == nil && o.creds == "":
		asked.Key, _ = place.OperatorKey() // without one, the server says what it wants
	}
	s, err := env.beyond.Status(ctx, asked)
	if err != nil {
		return err
	}
	return env.Answer(s, func(out io.Writer) { fleetText(out, s) })
}

func fleetText(out io.Writer, s *fleet.Status) {
	fmt.Fprintf(out, "attempt %s: %d of %d cases done, %d running, %d waiting\n", plain.Line(s.Attempt), s.Done, s.Planned, s.Running, s.Waiting)
	left := "unknown"
	if s.SecondsLeft != nil {
		left = (time.Duration(*s.SecondsLeft) * time.Second).String()
	}
	fmt.Fprintf(out, "%.1f results a second, time left %s, cost %s, %d lost, %d refused\n", s.PerSecond, left, s.Cost().Short(), s.Lost, s.Refused)
	if s.Doubled > 0 {
		fmt.Fprintf(out, "%d cases run by two workers, %d of them with another result\n", s.Doubled, s.Disagreed)
	}
	for _, w := range s.Workers {
		fmt.Fprintf(out, "  %-20s %-16s %-10s seen %s  done %d  lost %d  %s\n", plain.Line(w.Name), plain.Line(w.Label), plain.Line(w.Isolation),
			w.LastSeen.Go().Format(time.RFC3339), w.Done, w.Lost, plain.Line(strings.Join(w.Cases, " ")))
		if w.Quarantined != "" {
			fmt.Fprintf(out, "    quarantined: %s\n", plain.Line(w.Quarantined))
		}
	}
}
