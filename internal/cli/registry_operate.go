package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/operate"
)

// operatorCommands are what the operator does to the folder of a registry.
func operatorCommands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		newRegistryAdmit(env), newRegistryRemove(env), newRegistryTakeDown(env), newRegistryRevokeKey(env), newRegistryRevoke(env), newRegistryKey(env),
		newRegistryRebuild(env), newRegistryBackup(env), newRegistryRestore(env),
	}
}

// registryPlace is a registry whose operator one is.
type registryPlace struct{ dir, db string }

func (p *registryPlace) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.dir, "dir", "", "folder `DIR` of the registry")
	f.StringVar(&p.db, "db", "", "`URL` of its database, if that is not in the folder and no server runs")
	markRequired(cmd, "dir")
}

func (p registryPlace) options(env *Env) registry.Options {
	return registry.Options{Dir: p.dir, DB: p.db, Now: env.Now}
}

// operatorCommand makes one command of the operator: with a server running it is
// asked over its socket, otherwise the folder is opened.
func operatorCommand(env *Env, use, short, example, long string, args cobra.PositionalArgs, flags func(*cobra.Command, *operate.Request), fill func(*operate.Request, []string)) *cobra.Command {
	var place registryPlace
	ask := operate.Request{}
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: args,
		Long: long + "\n\nA server that runs is asked to do it, over a socket in the folder that only its user can\nreach; otherwise the folder is opened.",
		RunE: func(cmd *cobra.Command, args []string) error {
			fill(&ask, args)
			return runOperator(cmd.Context(), env, place, ask)
		},
	}
	place.flags(cmd)
	if flags != nil {
		flags(cmd, &ask)
	}
	return cmd
}

func runOperator(ctx context.Context, env *Env, place registryPlace, ask operate.Request) error {
	answer, err := operate.Do(ctx, place.options(env), ask)
	if err != nil {
		return err
	}
	return env.Answer(answer, func(w io.Writer) { fmt.Fprintln(w, plain.Line(answer.Done)) })
}

func newRegistryAdmit(env *Env) *cobra.Command {
	cmd := operatorCommand(env, "admit PERSON --holds AGENT --dir DIR", "Admit a person as a reviewer of proposals", "tally registry admit alice@example.com --holds agent-1 --dir registry",
		"Admit a person as a reviewer of proposals, with every agent that the person holds: one person is one vote.\nThe admission is an entry that the operator's key seals.", cobra.ExactArgs(1),
		func(cmd *cobra.Command, ask *operate.Request) {
			cmd.Flags().StringArrayVar(&ask.Agents, "holds", nil, "`AGENT` that the person holds; repeat it for all of them")
		},
		func(ask *operate.Request, args []string) { ask.Action, ask.Person = operate.Admit, args[0] })
	markRequired(cmd, "holds")
	return cmd
}

func newRegistryRemove(env *Env) *cobra.Command {
	return operatorCommand(env, "remove PERSON --dir DIR", "Remove a reviewer of proposals", `tally registry remove alice@example.com --reason "left the project" --dir registry`,
		"Remove a reviewer: the person is not drawn again and votes no more, also where they were drawn\nbefore. Votes that were cast stay.", cobra.ExactArgs(1),
		func(cmd *cobra.Command, ask *operate.Request) {
			cmd.Flags().StringVar(&ask.Reason, "reason", "", "`TEXT` that says why; every reader sees it")
		},
		func(ask *operate.Request, args []string) { ask.Action, ask.Person = operate.Remove, args[0] })
}

func newRegistryTakeDown(env *Env) *cobra.Command {
	cmd := operatorCommand(env, "takedown DIGEST --reason-code CODE --dir DIR", "Take a text down; a tombstone stays", "tally registry takedown sha256:0123... --reason-code privacy --dir registry",
		"Remove a text (a manifest, a reason, a profile, a credential) by its digest. The entries that\nname it stay, and so does an entry that says that it was taken down and why.", cobra.ExactArgs(1),
		func(cmd *cobra.Command, ask *operate.Request) {
			cmd.Flags().StringVar(&ask.Reason, "reason-code", "", "`CODE`: "+strings.Join(registry.ReasonCodes(), ", "))
		},
		func(ask *operate.Request, args []string) { ask.Action, ask.Blob = operate.TakeDown, args[0] })
	markRequired(cmd, "reason-code")
	return cmd
}

func newRegistryRevokeKey(env *Env) *cobra.Command {
	return operatorCommand(env, "revoke-key AGENT --dir DIR", "Revoke the API keys of an agent", "tally registry revoke-key agent-1 --dir registry",
		"Revoke the API keys of an agent at once. What the agent proposed stays.", cobra.ExactArgs(1), nil,
		func(ask *operate.Request, args []string) { ask.Action, ask.Agent = operate.RevokeKey, args[0] })
}

func newRegistryRevoke(env *Env) *cobra.Command {
	return operatorCommand(env, "revoke CREDENTIAL --dir DIR", "Revoke a credential that the registry issued", `tally registry revoke sha256:0123... --reason "issued in error" --dir registry`,
		"Revoke a credential by its digest. Its status list says so from then on.", cobra.ExactArgs(1),
		func(cmd *cobra.Command, ask *operate.Request) {
			cmd.Flags().StringVar(&ask.Reason, "reason", "revoked by the operator", "`TEXT` that says why")
		},
		func(ask *operate.Request, args []string) { ask.Action, ask.Credential = operate.Revoke, args[0] })
}

func newRegistryKey(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "The keys that a registry signs with", Example: "tally registry key rotate --dir registry"}
	cmd.AddCommand(operatorCommand(env, "rotate --dir DIR", "Make a new key and retire the one in use", "tally registry key rotate --purpose credential --dir registry",
		"Make a new key for credentials, for the manifest chain or for the operator, and retire the one\nin use. The old one stays published as retired, so that what it signed verifies for ever: a\ncredential with its receipt, a checkpoint or receipt with the key that sealed it.\n\nThe operator's key seals the ledger. Its change is an entry that both keys sign; cosigners must\nbe told the new ledger key, which is printed.", noArgs,
		func(cmd *cobra.Command, ask *operate.Request) {
			cmd.Flags().StringVar(&ask.Purpose, "purpose", registry.CredentialPurpose, "`PURPOSE`: "+registry.CredentialPurpose+", "+registry.ChainPurpose+" or "+registry.OperatorPurpose)
		},
		func(ask *operate.Request, _ []string) { ask.Action = operate.RotateKey }))
	return cmd
}

func newRegistryRebuild(env *Env) *cobra.Command {
	var place registryPlace
	cmd := &cobra.Command{
		Use:     "rebuild --dir DIR",
		Short:   "Make the database again from the ledger",
		Example: "tally registry rebuild --dir registry",
		Long: `Verify the ledger and make the database again from its entries and texts, to the same
answers. It prints the digest over all rows, which two databases of one ledger share, and
that of the database before, if there was one. No server may run.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRegistryRebuild(cmd.Context(), env, place) },
	}
	place.flags(cmd)
	return cmd
}

func runRegistryRebuild(ctx context.Context, env *Env, place registryPlace) error {
	made, err := registry.Rebuild(ctx, place.options(env))
	if err != nil {
		return err
	}
	return env.Answer(made, func(w io.Writer) {
		fmt.Fprintf(w, "%d rows from %d entries, digest %s\n", made.Rows, made.Entries, made.Digest)
		switch {
		case made.Before.IsZero():
			fmt.Fprintln(w, "there was no database before")
		case made.Before == made.Digest:
			fmt.Fprintln(w, "the database before had the same rows")
		default:
			fmt.Fprintf(w, "the database before had other rows, digest %s\n", made.Before)
		}
	})
}
