package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/seal"
)

func newKeys(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "keys",
		Short:   "The workspace's own keys: operator, judge cache, credentials",
		Example: "tally keys list",
		Long: `The keys of this workspace lie in .tally/keys, one file each, readable only by you,
in OpenSSH's format. People sign with SSH keys of their own.`,
	}
	cmd.AddCommand(newKeysNew(env), newKeysList(env), newKeysExport(env))
	return cmd
}

// keyAnswer describes the public half of a key.
type keyAnswer struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	Public      string `json:"public"`
	VKey        string `json:"vkey,omitempty"`
}

func describeKey(name string, key *seal.Key, origin string) keyAnswer {
	pub, _ := key.Public().Ed25519()
	return keyAnswer{name, key.Fingerprint(), key.Public().String(), seal.VKey(pub, origin)}
}

func newKeysNew(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "new NAME",
		Short:   "Make a key (operator, judge-cache, credential or a name of yours)",
		Example: "tally keys new credential",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runKeysNew(cmd.Context(), env, args[0]) },
	}
}

func runKeysNew(_ context.Context, env *Env, name string) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	key, err := ceremony.NewKey(p, name)
	if err != nil {
		return err
	}
	a := describeKey(name, key, p.Settings.Origin)
	return env.Answer(a, func(out io.Writer) { fmt.Fprintf(out, "%s %s\n%s\n", a.Name, a.Fingerprint, a.Public) })
}

func newKeysList(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the workspace's keys",
		Example: "tally keys list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runKeysList(cmd.Context(), env) },
	}
}

func runKeysList(_ context.Context, env *Env) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	names, err := ceremony.KeyNames(p)
	if err != nil {
		return err
	}
	keys := []keyAnswer{}
	for _, name := range names {
		key, err := ceremony.LoadKey(p, name)
		if err != nil {
			return err
		}
		keys = append(keys, describeKey(name, key, p.Settings.Origin))
	}
	return env.Answer(map[string]any{"keys": keys}, func(out io.Writer) {
		for _, k := range keys {
			fmt.Fprintf(out, "%-20s %s\n", plain.Line(k.Name), k.Fingerprint)
		}
	})
}

func newKeysExport(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "export NAME",
		Short:   "Print the public half of a key: as an SSH key and as a verifier key",
		Example: "tally keys export operator",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runKeysExport(cmd.Context(), env, args[0]) },
	}
}

func runKeysExport(_ context.Context, env *Env, name string) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	key, err := ceremony.LoadKey(p, name)
	if err != nil {
		return err
	}
	a := describeKey(name, key, p.Settings.Origin)
	return env.Answer(a, func(out io.Writer) { fmt.Fprintf(out, "%s\n%s\n", a.Public, a.VKey) })
}
