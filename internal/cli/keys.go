package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/store"
)

func newKeys(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "The workspace's own keys: operator, judge cache, credentials",
		Long: `The keys of this workspace lie in .tally/keys, one file each, readable only by you,
in OpenSSH's format. People sign with SSH keys of their own.`,
	}
	cmd.AddCommand(newKeysNew(env), newKeysList(env), newKeysExport(env))
	return cmd
}

// isKeyName reports whether a key may be called that: it becomes a file's name.
func isKeyName(name string) bool {
	const letters, more = "abcdefghijklmnopqrstuvwxyz0123456789", "._-"
	return name != "" && len(name) <= 64 && strings.Trim(name, letters+more) == "" && !strings.ContainsAny(name[:1], more)
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
		Use:   "new NAME",
		Short: "Make a key (operator, judge-cache, credential or a name of yours)",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runKeysNew(cmd.Context(), env, args[0]) },
	}
}

func runKeysNew(_ context.Context, env *Env, name string) error {
	w, path, err := env.keyPath(name)
	if err != nil {
		return err
	}
	if fileExists(path) {
		return refusal.Newf(refusal.AlreadyExists, "key %s exists already and is not overwritten", name).
			WithHint("what it signed needs it; make a key of another name")
	}
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, w.KeysDir(), 0o700); err != nil {
		return err
	}
	if err := (keyFile{path, name, key}).write(); err != nil {
		return err
	}
	a := describeKey(name, key, w.Settings.Origin)
	return env.Answer(a, func(out io.Writer) { fmt.Fprintf(out, "%s %s\n%s\n", a.Name, a.Fingerprint, a.Public) })
}

func (e *Env) keyPath(name string) (*archive.Place, string, error) {
	if !isKeyName(name) || strings.HasSuffix(name, ".pub") || strings.HasSuffix(name, ".salt") {
		return nil, "", refusal.Newf(refusal.Usage, "%q cannot be the name of a key", name).WithHint("use a-z, 0-9, dot, dash, underscore")
	}
	w, err := e.open()
	if err != nil {
		return nil, "", err
	}
	return w, filepath.Join(w.KeysDir(), name), nil
}

func newKeysList(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workspace's keys",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runKeysList(cmd.Context(), env) },
	}
}

func runKeysList(_ context.Context, env *Env) error {
	w, err := env.open()
	if err != nil {
		return err
	}
	// An operator's key that lies elsewhere leaves a workspace without any.
	entries, err := os.ReadDir(w.KeysDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.Unreadable, "listing keys: %w", err)
	}
	keys := []keyAnswer{}
	for _, e := range entries {
		if e.IsDir() || strings.HasSuffix(e.Name(), ".pub") || strings.HasSuffix(e.Name(), ".salt") {
			continue
		}
		key, err := seal.LoadKey(filepath.Join(w.KeysDir(), e.Name()))
		if err != nil {
			return err
		}
		keys = append(keys, describeKey(e.Name(), key, w.Settings.Origin))
	}
	return env.Answer(map[string]any{"keys": keys}, func(out io.Writer) {
		for _, k := range keys {
			fmt.Fprintf(out, "%-20s %s\n", plain.Line(k.Name), k.Fingerprint)
		}
	})
}

func newKeysExport(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "export NAME",
		Short: "Print the public half of a key: as an SSH key and as a verifier key",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runKeysExport(cmd.Context(), env, args[0]) },
	}
}

func runKeysExport(_ context.Context, env *Env, name string) error {
	w, path, err := env.keyPath(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.UnknownName, "no key %s in %s", name, w.KeysDir()).WithHint(`"tally keys list" lists them`)
	}
	key, err := seal.LoadKey(path)
	if err != nil {
		return err
	}
	a := describeKey(name, key, w.Settings.Origin)
	return env.Answer(a, func(out io.Writer) { fmt.Fprintf(out, "%s\n%s\n", a.Public, a.VKey) })
}

// vkeyOf is a ledger's key as a verifier is given it.
func vkeyOf(k ledger.LogKey) string { return seal.VKey(k.Key, k.Origin) }
