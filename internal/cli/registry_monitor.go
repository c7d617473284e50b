package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/serve/registry/monitor"
	"tallystick/internal/share/verify"
)

type registryMonitorOptions struct {
	registryAccess
	state       string
	once        bool
	every       time.Duration
	allReceipts bool
	all         bool
	listen      string
	peers       []string
	trust       verify.Trust
}

func newRegistryMonitor(env *Env) *cobra.Command {
	var o registryMonitorOptions
	cmd := &cobra.Command{
		Use:     "monitor URL",
		Short:   "Follow a registry from outside, and alarm when it lies",
		Example: "tally registry monitor https://registry.example.com --once",
		Long: `Follow a registry as every reader can, without an API key. Each look verifies its checkpoint and
every entry since the last look, computes again who was drawn to judge and what the votes
decide, and compares the catalogue with the entries: every row must have an entry with the
same content and a receipt that verifies, every published entry must have its row. Then it
makes every public answer again from the entries and the texts that they name, and compares
it with what is served, byte by byte; docs/registry.md lists what does not follow from
entries. Later looks compare what has changed, all lists, and a sample of the rest; --all
compares everything.

A fork, a rollback, a row without an entry, an entry without a row, changed metrics and a
draw or decision that the rules do not give end the command with exit 3. What was seen is
remembered in a folder of this machine, with a copy of the entries; after a fork or a
rollback both signed checkpoints are saved there.

Monitors compare what they saw directly with each other: one with --listen tells its
checkpoint and a digest of what each route answered, one with --peer asks. A registry that
signs two histories, or keeps from one what it signed for another, is found. The checkpoint
also has a time that the operator signs again within the hour; an older one alarms.

--key names the key that signs the ledger, as "tally registry init" printed it. Without it
the key that the ledger itself names is remembered at the first look, and the answer says so.
--once looks once, for cron; without it the command looks again until it finds something.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return runRegistryMonitor(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.Func("key", "trusted ledger key `NAME+ID+KEY`; may be given again", o.trust.AddLog)
	f.Func("witness", "trusted key `NAME+ID+KEY` of a cosigner, which must have cosigned; may be given again", o.trust.AddWitness)
	f.IntVar(&o.trust.Quorum, "quorum", 0, "`N` of the cosigners must have cosigned (default: all that are named)")
	f.StringVar(&o.state, "state", "", "folder `DIR` that remembers what was seen (default: one for the URL, in the state folder)")
	f.BoolVar(&o.once, "once", false, "look once and exit")
	f.DurationVar(&o.every, "every", time.Hour, "how long to wait between looks")
	f.BoolVar(&o.allReceipts, "all-receipts", false, "verify the receipts of all rows, not only of new ones")
	f.BoolVar(&o.all, "all", false, "compare every answer again, not only those about what has changed and a sample of the rest")
	f.StringVar(&o.listen, "listen", "", "tell other monitors at `ADDRESS`, HOST:PORT, what was seen; port 0 takes a free one")
	f.StringArrayVar(&o.peers, "peer", nil, "compare with what the monitor at `URL` saw; may be given again")
	f.BoolVar(&o.allowHTTP, "allow-http", false, "ask over plain http, where every machine on the way can change the answers")
	return cmd
}

func runRegistryMonitor(ctx context.Context, env *Env, o registryMonitorOptions) error {
	if o.every < time.Second {
		return refusal.Newf(refusal.Usage, "--every %v: expected a second or more", o.every)
	}
	if err := o.trust.Validate(); err != nil {
		return err
	}
	c, err := o.anonymous()
	if err != nil {
		return err
	}
	if o.state == "" {
		dir, err := workspace.StateDir(env.Getenv)
		if err != nil {
			return err
		}
		o.state = monitor.Folder(dir, c.Address())
	}
	m := &monitor.Monitor{Client: c, Keys: o.trust.Logs, Witnesses: o.trust.Policy(), Dir: o.state, AllReceipts: o.allReceipts || o.all, All: o.all, Now: env.Now}
	for _, peer := range o.peers {
		c, err := client.New(client.Options{URL: peer, AllowHTTP: o.allowHTTP})
		if err != nil {
			return fmt.Errorf("--peer: %w", err)
		}
		m.Peers = append(m.Peers, c)
	}
	if o.listen != "" {
		address, stop, err := m.Listen(o.listen)
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintf(env.Stderr, "other monitors find what was seen with --peer %s\n", address)
	}
	return errors.Join(watchRegistry(ctx, env, m, o), m.Close())
}

// watchRegistry looks until something is found. A registry that cannot be reached is
// told and asked again: it proves nothing.
func watchRegistry(ctx context.Context, env *Env, m *monitor.Monitor, o registryMonitorOptions) error {
	for {
		report, err := m.Once(ctx)
		if report != nil {
			if told := env.Answer(report, func(w io.Writer) { printMonitored(w, report) }); told != nil {
				return told
			}
		}
		if err != nil && (o.once || ctx.Err() != nil || refusal.ExitCode(err) != refusal.ExitFailed) {
			return err
		}
		if err != nil {
			env.printError(err)
		} else if o.once {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.every):
		}
	}
}

func printMonitored(w io.Writer, r *monitor.Report) {
	fmt.Fprintf(w, "%s: %d entries, root %s\n", plain.Line(r.Origin), r.Size, r.Root)
	switch {
	case r.Before == 0 && r.FirstUse:
		fmt.Fprintf(w, "first look, and no --key: the key was remembered, not verified: %s\n", plain.Line(fmt.Sprint(r.Keys)))
	case r.Before == 0:
		fmt.Fprintln(w, "first look: verified and remembered")
	default:
		fmt.Fprintf(w, "extends the %d entries seen before\n", r.Before)
	}
	fmt.Fprintf(w, "%d proposals, %d draws and %d decisions computed again, %d votes verified, %d rows compared, %d receipts verified, %d answers made again\n",
		r.Proposals, r.Draws, r.Decisions, r.Votes, r.Rows, r.Receipts, r.Answers)
	const most = 20
	for i, f := range r.Findings {
		if i == most {
			fmt.Fprintf(w, "… and %d more; --json has all\n", len(r.Findings)-most)
			return
		}
		fmt.Fprintf(w, "%s  entry %d  %s  %s\n", f.Name, f.Entry, plain.Line(f.Proposal), plain.Line(f.Detail))
	}
}

type registryRegisterOptions struct {
	registryAccess
	key  string
	name string
}

func newRegistryRegister(env *Env) *cobra.Command {
	var o registryRegisterOptions
	cmd := &cobra.Command{
		Use:     "register URL",
		Short:   "Register at a registry and keep the API key that it gives",
		Example: "tally registry register https://registry.example.com --name example",
		Long: `Register as an agent at a registry. The key pair that signs as this agent is made here, and
only its public half is sent. The API key that comes back is written to a file that only you
can read; "tally publish" and "tally registry judge" find it there.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return runRegistryRegister(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.apiKey, "api-key-file", "", "write the API key to `FILE` (default: one for the registry, in the state folder)")
	f.StringVar(&o.key, "key", "", "`FILE` with the agent's own key, which is made if it is not there (default: beside the API key)")
	f.StringVar(&o.name, "name", "", "`NAME` that others see")
	f.BoolVar(&o.allowHTTP, "allow-http", false, "take an API key over plain http from another machine")
	return cmd
}

func runRegistryRegister(ctx context.Context, env *Env, o registryRegisterOptions) error {
	c, err := o.anonymous()
	if err != nil {
		return err
	}
	dir, err := o.keyDir(env, c)
	if err != nil {
		return err
	}
	if o.apiKey == "" {
		o.apiKey = client.APIKeyFile(dir)
	}
	if o.key == "" {
		o.key = client.AgentKeyFile(dir)
	}
	made, err := c.Register(ctx, o.apiKey, o.key, o.name)
	if err != nil {
		return err
	}
	return env.Answer(made, func(w io.Writer) {
		fmt.Fprintf(w, "agent %s at %s\n", plain.Line(made.Agent), plain.Line(made.Registry))
		fmt.Fprintf(w, "API key    %s\n", plain.Line(made.APIKey))
		fmt.Fprintf(w, "agent key  %s (%s)\n", plain.Line(made.AgentKey), plain.Line(made.PublicKey))
	})
}
