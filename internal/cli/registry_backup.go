package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/workspace"
	"tallystick/internal/serve/registry/backup"
)

func newRegistryBackup(env *Env) *cobra.Command {
	var o backup.Options
	cmd := &cobra.Command{
		Use:     "backup --dir DIR -o FILE",
		Short:   "Copy a registry into one file, while it is served",
		Example: "tally registry backup --dir registry -o registry.tar",
		Long: `Copy a registry into one file: the ledger up to what is sealed now, every text that its
entries name, settings, signers and anchors. A server may run meanwhile. The copy is verified
and its database made before the file is written, so that the file says what a restored
registry must come to.

Private keys are left out, and must be kept apart from it: with --with-keys every holder of the
file is the registry. The database is not copied: the ledger gives it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRegistryBackup(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder `DIR` of the registry")
	f.StringVarP(&o.Out, "out", "o", "", "`FILE` to write; it must not exist")
	f.BoolVar(&o.WithKeys, "with-keys", false, "copy the private keys too")
	markRequired(cmd, "dir", "out")
	return cmd
}

func runRegistryBackup(ctx context.Context, env *Env, o backup.Options) error {
	o.Now = env.Now
	m, err := backup.Make(ctx, o)
	if err != nil {
		return err
	}
	return env.Answer(m, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d entries of %s, root %s\n", plain.Line(o.Out), m.Size, plain.Line(m.Origin), m.Root)
		fmt.Fprintf(w, "%d texts, rows %s\n", m.Blobs, m.Rows)
		if m.Keys {
			fmt.Fprintln(w, "It has the private keys: every holder of the file can act as the registry.")
		} else {
			fmt.Fprintln(w, "The private keys are not in it; keep a copy of the folder keys elsewhere.")
		}
	})
}

func newRegistryRestore(env *Env) *cobra.Command {
	var o backup.RestoreOptions
	cmd := &cobra.Command{
		Use:     "restore FILE --dir DIR",
		Short:   "Make a registry of a backup again, and prove that it is the same",
		Example: "tally registry restore registry.tar --dir restored",
		Long: `Make a registry of a backup in a new folder. Every file is compared with the list in the
backup, the ledger is verified and must have the same signed tree head, every text must be
what its name says, and the database that the entries give must have the same digest over its
rows.

A backup without keys needs --keys to be served; without them the ledger and the texts are
proved and the rows are not. A backup that is older than what this machine remembers to have
signed is restored and said to be old: nothing can be written to it here, because that would
sign a second history.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			return runRegistryRestore(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder `DIR` to make; it must be empty or not there")
	f.StringVar(&o.Keys, "keys", "", "folder `DIR` with the private keys, for a backup that has none")
	f.StringVar(&o.DB, "db", "", "`URL` of an empty database (default: registry.db in the folder)")
	markRequired(cmd, "dir")
	return cmd
}

func runRegistryRestore(ctx context.Context, env *Env, o backup.RestoreOptions) error {
	var err error
	o.Now = env.Now
	if o.StateDir, err = workspace.StateDir(env.Getenv); err != nil {
		return err
	}
	r, err := backup.Restore(ctx, o)
	if err != nil {
		return err
	}
	return env.Answer(r, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d entries of %s, root %s: the same as in the backup\n", plain.Line(r.Dir), r.Size, plain.Line(r.Origin), r.Root)
		if r.Keys {
			fmt.Fprintf(w, "%d texts, rows %s: the same\n", r.Blobs, r.Rows)
		} else {
			fmt.Fprintf(w, "%d texts: the same. Rows were not compared: there are no keys to open the registry with\n", r.Blobs)
		}
		if r.Old {
			fmt.Fprintf(w, "OLD: this machine remembers %d entries. Serve it with --read-only; nothing can be written to it here.\n", r.Remembered)
		}
	})
}
