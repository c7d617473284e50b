package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tallystick/internal/digest"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/workspace"
)

type initOptions struct {
	dir      string
	origin   string
	operator string
	signers  string
}

func newInit(env *Env) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a workspace: keys, example signers, an empty ledger",
		Long: `Make a workspace in DIR (default: the current folder).

It makes an operator key, and two example signers whose keys lie in .tally/keys
so that you can try the ceremonies alone. Replace them with your people's own
SSH keys before you rely on a signature: give --signers FILE, an allowed_signers
file that names the people and the operator's key, or change the file later with
"tally signers".`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.dir = args[0]
			}
			return runInit(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.origin, "origin", "", "name of the ledger, as in example.com/evals (default: a random local one)")
	cmd.Flags().StringVar(&o.operator, "operator", "operator@local", "name of the person who runs evaluations here")
	cmd.Flags().StringVar(&o.signers, "signers", "", "allowed_signers `FILE` to start from instead of the example people")
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

// examplePeople sign in examples and demos. Their keys lie beside the ledger,
// so they prove nothing to anybody else, and their names say so.
var examplePeople = []struct {
	name  string
	roles []seal.Role
}{
	{"example-alice", []seal.Role{seal.Curator}},
	{"example-bob", []seal.Role{seal.Curator, seal.Security}},
}

func runInit(ctx context.Context, env *Env, o initOptions) error {
	dir, err := env.initDir(o.dir)
	if err != nil {
		return err
	}
	w := &workspace.Workspace{Dir: dir, Settings: workspace.Settings{Version: workspace.SettingsVersion, Origin: o.origin}}
	if w.Settings.Origin == "" {
		w.Settings.Origin = randomOrigin()
	}
	// The settings come last: a folder without them is no workspace, so a
	// crash half-way leaves something that init can be run on again.
	key, err := newKeyFile(filepath.Join(w.KeysDir(), "operator"), o.operator)
	if err != nil {
		return err
	}
	signers, err := initSigners(w, key, o)
	if err != nil {
		return err
	}
	w.Settings.TrustRoot = digest.IDOf(signers)
	cfg, err := env.config(w)
	if err != nil {
		return err
	}
	l, err := sequencer.Create(ctx, cfg, signers)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	if err := writeOperators(env, w, o.operator); err != nil {
		return err
	}
	if err := writeIfMissing(w.Path(".gitignore"), []byte("/.tally/\n"), 0o644); err != nil {
		return err
	}
	if err := store.WriteFile(store.OS{}, w.Path(workspace.SettingsFile), w.Settings.Format(), 0o644); err != nil {
		return err
	}
	return env.answerInit(w, key, signers)
}

func (e *Env) answerInit(w *workspace.Workspace, key *seal.Key, signers []byte) error {
	s, err := seal.ParseSigners("signers file", signers)
	if err != nil {
		return err
	}
	pub, _ := key.Public().Ed25519()
	a := initAnswer{Workspace: w.Dir, Origin: w.Settings.Origin, TrustRoot: w.Settings.TrustRoot, VKey: seal.VKey(pub, w.Settings.Origin)}
	for _, entry := range s.Entries() {
		a.Signers = append(a.Signers, entry.Principals)
	}
	return e.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "workspace   %s\nledger      %s\ntrust root  %s\nledger key  %s\n", plain.Line(a.Workspace), a.Origin, a.TrustRoot, a.VKey)
		for _, entry := range s.Entries() {
			fmt.Fprintf(out, "signer      %s %v\n", plain.Line(entry.Principals), entry.Roles)
		}
		fmt.Fprintf(out, "\nNext: tally ledger verify\n")
	})
}

// initDir makes the folder and refuses one that is a workspace already.
func (e *Env) initDir(given string) (string, error) {
	dir := given
	if dir == "" {
		dir = e.WorkspaceDir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "finding the folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, workspace.SettingsFile)); err == nil {
		return "", refusal.Newf(refusal.AlreadyExists, "%s is a workspace already", dir).
			WithHint(`"tally ledger verify" looks at it; init another folder`)
	}
	return dir, store.MakeDir(store.OS{}, dir, 0o755)
}

func randomOrigin() string {
	var b [8]byte
	rand.Read(b[:])
	return "local/" + hex.EncodeToString(b[:])
}

// newKeyFile makes a key, or reads the one that an interrupted init left.
func newKeyFile(path, comment string) (*seal.Key, error) {
	if _, err := os.Lstat(path); err == nil {
		return seal.LoadKey(path)
	}
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	data, err := key.MarshalPEM(comment)
	if err != nil {
		return nil, err
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := store.CreateFile(store.OS{}, path, data, 0o600); err != nil {
		return nil, err
	}
	return key, store.WriteFile(store.OS{}, path+".pub", []byte(key.Public().String()+" "+comment+"\n"), 0o644)
}

// initSigners writes version 1 of the signers file.
func initSigners(w *workspace.Workspace, operator *seal.Key, o initOptions) ([]byte, error) {
	var data []byte
	var err error
	if o.signers != "" {
		if data, err = store.ReadFile(store.OS{}, o.signers, 1<<20); err != nil {
			return nil, err
		}
		if _, err := seal.ParseSigners(o.signers, data); err != nil {
			return nil, err
		}
	} else {
		entries := []seal.Entry{{Principals: o.operator, Key: operator.Public(), Roles: []seal.Role{seal.Operator}}}
		for _, p := range examplePeople {
			key, err := newKeyFile(filepath.Join(w.KeysDir(), p.name), p.name)
			if err != nil {
				return nil, err
			}
			entries = append(entries, seal.Entry{Principals: p.name, Key: key.Public(), Roles: p.roles})
		}
		if data, err = seal.Compose(1, digest.ID{}, entries); err != nil {
			return nil, err
		}
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(w.SignersFile()), 0o755); err != nil {
		return nil, err
	}
	return data, store.WriteFile(store.OS{}, w.SignersFile(), data, 0o644)
}

func writeIfMissing(path string, data []byte, perm os.FileMode) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return store.WriteFile(store.OS{}, path, data, perm)
}
