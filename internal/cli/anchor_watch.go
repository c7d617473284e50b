package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/record/cosign"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/share/verify"
)

type anchorWatchOptions struct {
	source string
	state  string
	once   bool
	every  time.Duration
	maxGap int
	trust  verify.Trust
}

func newAnchorWatch(env *Env) *cobra.Command {
	var o anchorWatchOptions
	cmd := &cobra.Command{
		Use:     "watch URL|DIR",
		Short:   "Follow the anchors that a ledger publishes, and alarm on a fork, a rollback or a missed day",
		Example: `tally ledger anchor watch https://example.com/anchors --key example.com/evals+cc5c539b+AaFyiJTzvrIM3ncBw7w69HMrmhcNtj4ndaPWsi9amgUQ --once`,
		Long: `Follow the anchors of any ledger, as they are published in a folder (a checkout of the
repository, or its audit/anchors) or under an http or https URL that serves <date>.json
files. Every anchor is verified with the keys that you name, compared with what was seen
before, and remembered in a file of this machine.

A fork (two anchors of one size, or a tree that does not begin with the one seen
before), a rollback (fewer entries, an anchor that is gone) and a missed day end the
command with exit 3 and say what was seen and what is there now. That the newest anchor
extends the one seen before is proved with the published tiles, if there are any beside
the anchors; without them the answer says that it was not proved.

--once looks once, for cron; without it the command looks again every hour until it is
stopped or finds something.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source = args[0]
			return runAnchorWatch(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.Func("key", "trusted ledger key `NAME+ID+KEY`; may be given again", o.trust.AddLog)
	f.Func("witness", "trusted key `NAME+ID+KEY` of a cosigner, which must have cosigned; may be given again", o.trust.AddWitness)
	f.IntVar(&o.trust.Quorum, "quorum", 0, "`N` of the cosigners must have cosigned (default: all that are named)")
	f.StringVar(&o.state, "remember", "", "`FILE` that remembers what was seen (default: one for the source, in the state folder)")
	f.BoolVar(&o.once, "once", false, "look once and exit")
	f.DurationVar(&o.every, "every", time.Hour, "how long to wait between looks")
	f.IntVar(&o.maxGap, "max-gap", 1, "how many `DAYS` may lie between two anchors")
	return cmd
}

func runAnchorWatch(ctx context.Context, env *Env, o anchorWatchOptions) error {
	if err := o.validate(env); err != nil {
		return err
	}
	w := &cosign.Watch{Source: o.source, Policy: o.trust.Policy(), State: o.state, MaxGap: o.maxGap, Now: env.Now}
	for {
		seen, err := w.Once(ctx)
		if err != nil {
			return err
		}
		if err := env.Answer(seen, func(out io.Writer) { watchText(out, seen) }); err != nil || o.once {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.every):
		}
	}
}

func (o *anchorWatchOptions) validate(env *Env) error {
	switch {
	case len(o.trust.Logs) == 0:
		return refusal.Newf(refusal.Usage, "no key of the ledger was named, so nothing that is published could be believed").
			WithHint("give --key NAME+ID+KEY, as \"tally keys export operator\" prints it where the ledger is kept")
	case o.maxGap < 1:
		return refusal.Newf(refusal.Usage, "--max-gap %d: expected 1 or more", o.maxGap)
	case o.every < time.Second:
		return refusal.Newf(refusal.Usage, "--every %v: expected a second or more", o.every)
	}
	if err := o.trust.Validate(); err != nil || o.state != "" {
		return err
	}
	dir, err := workspace.StateDir(env.Getenv)
	if err != nil {
		return err
	}
	o.state = cosign.WatchFile(dir, o.source, o.trust.Logs[0].Origin)
	return nil
}

func watchText(out io.Writer, s *cosign.Seen) {
	fmt.Fprintf(out, "%s: %d entries on %s, head %s\n", plain.Line(s.Origin), s.Size, s.Date, s.Head)
	switch {
	case s.Before == 0:
		fmt.Fprintf(out, "first look: %d anchors verified and remembered\n", s.Anchors)
	case s.Proved:
		fmt.Fprintf(out, "extends the %d entries seen before\n", s.Before)
	default:
		fmt.Fprintf(out, "%d entries were seen before; %s\n", s.Before, s.Note)
	}
}
