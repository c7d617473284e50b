// Package workspace knows where things are in a workspace and reads its
// settings. It makes no decisions and verifies nothing: what it returns are
// paths and the words of tally.yaml.
package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

// SettingsFile marks the top folder of a workspace.
const SettingsFile = "tally.yaml"

// SettingsVersion is the version of the settings that this program reads.
const SettingsVersion = 1

// A Workspace is a folder with settings.
type Workspace struct {
	Dir      string
	Settings Settings
}

// Settings are what tally.yaml says. Every unknown key is an error.
type Settings struct {
	Version   int       `yaml:"version"`
	Origin    string    `yaml:"origin"`     // the ledger's name
	TrustRoot digest.ID `yaml:"trust_root"` // version 1 of the signers file
	Witnesses []Witness `yaml:"witnesses,omitempty"`
	Quorum    int       `yaml:"quorum,omitempty"` // of witnesses that an anchor needs
}

// A Witness cosigns checkpoints.
type Witness struct {
	URL string `yaml:"url"`
	Key string `yaml:"key"`
}

// Load reads the settings of the workspace in dir.
func Load(dir string) (*Workspace, error) {
	name := filepath.Join(dir, SettingsFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return nil, refusal.Newf(refusal.NotFound, "%s is not a workspace: it has no %s", dir, SettingsFile).
			WithHint(`"tally init" makes one here; --workspace DIR names another`)
	}
	data, err := store.ReadFile(store.OS{}, name, 1<<20)
	if err != nil {
		return nil, err
	}
	w := &Workspace{Dir: dir}
	if err := yaml.UnmarshalWithOptions(data, &w.Settings, yaml.DisallowUnknownField(), yaml.Strict()); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %s", name, yaml.FormatError(err, false, false)).
			WithHint("correct the line; nothing was done")
	}
	if err := w.Settings.validate(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", name, err).WithHint("correct it; nothing was done")
	}
	return w, nil
}

func (s Settings) validate() error {
	if s.Version != SettingsVersion {
		return fmt.Errorf("version is %d, this program reads %d", s.Version, SettingsVersion)
	}
	if err := evidence.CheckOrigin(s.Origin); err != nil {
		return err
	}
	if s.TrustRoot.IsZero() {
		return errors.New("trust_root is missing")
	}
	if s.Quorum < 0 || s.Quorum > len(s.Witnesses) {
		return fmt.Errorf("quorum is %d, there are %d witnesses", s.Quorum, len(s.Witnesses))
	}
	return nil
}

// Format writes settings as a file that a person can edit.
func (s Settings) Format() []byte {
	return fmt.Appendf(nil, `# Settings of this Tallystick workspace. Every unknown key is an error.
version: %d
# The ledger's name. It is part of every entry and never changes.
origin: %s
# Digest of version 1 of signers/allowed_signers: all trust starts here.
trust_root: %s
# Witnesses cosign anchors, so that a rewritten history is noticed elsewhere:
# witnesses:
#   - url: http://127.0.0.1:7380
#     key: witness.example+…
# quorum: 1
`, s.Version, s.Origin, s.TrustRoot)
}

// Path joins names to the workspace's folder.
func (w *Workspace) Path(names ...string) string {
	return filepath.Join(append([]string{w.Dir}, names...)...)
}

// Private is the folder of the ledger, the evidence and the keys, closed to
// other users.
func (w *Workspace) Private(names ...string) string {
	return filepath.Join(append([]string{w.Dir, ".tally"}, names...)...)
}

// The places that more than one command uses.
func (w *Workspace) LedgerDir() string     { return w.Private("ledger") }
func (w *Workspace) EvidenceDir() string   { return w.Private("evidence") }
func (w *Workspace) KeysDir() string       { return w.Private("keys") }
func (w *Workspace) AlarmsFile() string    { return w.Private("alarms.jsonl") }
func (w *Workspace) AnchorsDir() string    { return w.Path("audit", "anchors") }
func (w *Workspace) OperatorsFile() string { return w.Path("audit", "operators.yaml") }
func (w *Workspace) SignersFile() string   { return w.Path("signers", "allowed_signers") }
