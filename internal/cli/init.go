package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/bench"
	"tallystick/internal/ceremony"
	"tallystick/internal/digest"
	"tallystick/internal/plain"
	"tallystick/internal/workspace"
)

func newInit(env *Env) *cobra.Command {
	var o ceremony.InitOptions
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a workspace: keys, example signers, a signed example bench, a ledger",
		Long: `Make a workspace in DIR (default: the current folder).

It makes an operator key, and two example signers whose keys lie in .tally/keys
so that you can try the ceremonies alone. Replace them with your people's own
SSH keys before you rely on a signature: give --signers FILE, an allowed_signers
file that names the people and the operator's key, or change the file later with
"tally signers".`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Dir = args[0]
			}
			return runInit(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.Origin, "origin", "", "name of the ledger, as in example.com/evals (default: a random local one)")
	cmd.Flags().StringVar(&o.Operator, "operator", "operator@local", "name of the person who runs evaluations here")
	cmd.Flags().StringVar(&o.Signers, "signers", "", "allowed_signers `FILE` to start from instead of the example people")
	return cmd
}

// initAnswer tells where things are.
type initAnswer struct {
	Workspace string    `json:"workspace"`
	Origin    string    `json:"origin"`
	TrustRoot digest.ID `json:"trust_root"`
	VKey      string    `json:"vkey"`
	Signers   []string  `json:"signers"`
}

func runInit(ctx context.Context, env *Env, o ceremony.InitOptions) error {
	if o.Dir == "" {
		o.Dir = env.WorkspaceDir
	}
	p, err := ceremony.Init(ctx, o, worldOf(env))
	if err != nil {
		return err
	}
	key, err := p.OperatorKey()
	if err != nil {
		return err
	}
	s, err := ceremony.ReadSigners(p)
	if err != nil {
		return err
	}
	a := initAnswer{Workspace: p.Dir, Origin: p.Settings.Origin, TrustRoot: p.Settings.TrustRoot, VKey: describeKey("operator", key, p.Settings.Origin).VKey}
	for _, entry := range s.InForce.Entries() {
		a.Signers = append(a.Signers, entry.Principals)
	}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "workspace   %s\nledger      %s\ntrust root  %s\nledger key  %s\n", plain.Line(a.Workspace), a.Origin, a.TrustRoot, a.VKey)
		for _, entry := range s.InForce.Entries() {
			fmt.Fprintf(out, "signer      %s %v\n", plain.Line(entry.Principals), entry.Roles)
		}
		next := "tally bench new CLASS"
		if workspace.Exists(p.Path(bench.Dir, ceremony.ExampleClass)) {
			next = "tally bench verify --all; tally run " + ceremony.ExampleClass
		}
		fmt.Fprintf(out, "\nNext: %s\n", next)
	})
}
