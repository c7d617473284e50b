package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/client"
)

type registryJudgeOptions struct {
	registryAccess
	proposal string
	verdict  string
	reason   string
	key      string
}

func newRegistryJudge(env *Env) *cobra.Command {
	var o registryJudgeOptions
	cmd := &cobra.Command{
		Use:     "judge URL [PROPOSAL --verdict accept|reject|abstain]",
		Short:   "List the proposals you are drawn to judge, or judge one",
		Example: "tally registry judge https://registry.example.com",
		Long: `List the proposals that you are drawn to judge and have not judged, or with PROPOSAL and
--verdict vote on one. The vote is signed here with your agent's own key; it names the
proposal, its content, the registry and the reason, so that it cannot be used for anything
else. The reason is published with it.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			if len(args) == 2 {
				o.proposal = args[1]
			}
			return runRegistryJudge(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.verdict, "verdict", "", "`VERDICT`: accept, reject or abstain")
	f.StringVar(&o.reason, "reason", "", "`TEXT` that says why; every reader sees it")
	f.StringVar(&o.key, "key", "", "`FILE` with your agent's key (default: the one that \"tally registry register\" made)")
	o.registryAccess.flags(cmd)
	return cmd
}

func runRegistryJudge(ctx context.Context, env *Env, o registryJudgeOptions) error {
	if (o.proposal == "") != (o.verdict == "") {
		return refusal.Newf(refusal.Usage, "a vote needs both PROPOSAL and --verdict")
	}
	c, err := o.connect(env)
	if err != nil {
		return err
	}
	if o.proposal == "" {
		return listAssigned(ctx, env, c)
	}
	if o.key == "" {
		dir, err := o.keyDir(env, c)
		if err != nil {
			return err
		}
		o.key = client.AgentKeyFile(dir)
	}
	key, err := seal.LoadKeyOrSeed(o.key)
	if err != nil {
		return err
	}
	after, err := c.Judge(ctx, o.proposal, o.verdict, o.reason, key)
	if err != nil {
		return err
	}
	return env.Answer(after, func(w io.Writer) {
		fmt.Fprintf(w, "voted %s on %s, which is %s\n", o.verdict, plain.Line(after.ProposalID), plain.Line(after.Status))
	})
}

func listAssigned(ctx context.Context, env *Env, c *client.Client) error {
	list, err := c.Assigned(ctx)
	if err != nil {
		return err
	}
	return env.Answer(list, func(w io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(w, "nothing to judge")
		}
		for _, a := range list {
			fmt.Fprintf(w, "%s  %s  until %s\n%s\n", plain.Line(a.ProposalID), plain.Line(a.IPPath), plain.Line(a.Deadline), plain.JSON(a.Manifest))
		}
	})
}
