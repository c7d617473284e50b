// Package workspace knows where things are in a workspace and reads its
// settings. It makes no decisions and verifies nothing: what it returns are
// paths and the words of tally.yaml.
package workspace

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
)

// SettingsFile marks the top folder of a workspace.
const SettingsFile = "tally.yaml"

// PrivateDir is the folder of a workspace with its ledger, evidence and keys.
const PrivateDir = ".tally"

// SettingsVersion is the version of the settings that this program reads.
const SettingsVersion = 1

// A Workspace is a folder with settings.
type Workspace struct {
	Dir      string
	Settings Settings
	// Shared, if not nil, is what tally.yaml says, in a checkout that has a
	// ledger of its own: Settings then name that ledger. See checkout.go.
	Shared *Settings
}

// Settings are what tally.yaml says. Every unknown key is an error.
type Settings struct {
	Version   int
	Origin    string    // the ledger's name
	TrustRoot digest.ID // version 1 of the signers file
	Witnesses []Witness
	Quorum    int // of witnesses that an anchor needs
	// Ledger is where the ledger is kept, s3://…; "" is the folder of the workspace.
	Ledger string

	TestMounts []TestMount
	// TestImage is the root file system that tests find, by the digest of an image of
	// "tally sandbox image"; "" is that of whatever machine they run on.
	TestImage string

	// Live lowers what a permission of this user lets a run spend; it gives none.
	Live Live
}

// Live are limits on what runs may pay, in micro-dollars and calls; 0 sets none.
type Live struct {
	MaxCostPerRun, MaxCostPerDay int64
	MaxCallsPerDay               int64
}

// liveFile is how they are written, in dollars.
type liveFile struct {
	MaxCostPerRun  *float64 `json:"max_cost_per_run,omitempty"`
	MaxCostPerDay  *float64 `json:"max_cost_per_day,omitempty"`
	MaxCallsPerDay *int64   `json:"max_calls_per_day,omitempty"`
}

func (f *liveFile) limits() (l Live, err error) {
	if f == nil {
		return l, nil
	}
	for _, x := range []struct {
		name string
		is   *float64
		to   *int64
	}{{"max_cost_per_run", f.MaxCostPerRun, &l.MaxCostPerRun}, {"max_cost_per_day", f.MaxCostPerDay, &l.MaxCostPerDay}} {
		if x.is == nil {
			continue
		}
		// Nothing less than a micro-dollar: 0 would be no limit.
		if !(*x.is >= 1e-6 && *x.is <= 1e6) {
			return l, fmt.Errorf("live: %s is %v, expected more than 0 and at most a million dollars", x.name, *x.is)
		}
		*x.to = int64(*x.is * 1e6)
	}
	if n := f.MaxCallsPerDay; n != nil {
		if l.MaxCallsPerDay = *n; *n < 1 {
			return l, fmt.Errorf("live: max_calls_per_day is %d, expected 1 or more", *n)
		}
	}
	return l, nil
}

// A TestMount is a folder of this machine that the tests of coding cases find,
// read-only: a compiler, packages that are installed.
type TestMount struct {
	Host   string `json:"host"`
	Inside string `json:"inside,omitempty"` // the same as Host if absent
}

// A Witness cosigns checkpoints.
type Witness struct {
	URL string `json:"url"`
	Key string `json:"key"`
}

// settingsFile is how settings are written.
type settingsFile struct {
	Version   int       `json:"version"`
	Origin    string    `json:"origin"`
	TrustRoot digest.ID `json:"trust_root"`
	Witnesses []Witness `json:"witnesses,omitempty"`
	Quorum    *int      `json:"quorum,omitempty"` // absent is 0
	Ledger    string    `json:"ledger,omitempty"`

	TestMounts []TestMount `json:"test_mounts,omitempty"`
	TestImage  string      `json:"test_image,omitempty"`
	Live       *liveFile   `json:"live,omitempty"`
}

const maxSettingsBytes = 1 << 20

var settingsRules = strictyaml.Rules{
	Hint:         "correct the line; nothing was done",
	TooLargeHint: "settings are a page; see whether this is another file",
	MaxBytes:     maxSettingsBytes,
}

// Load reads the settings of the workspace in dir.
func Load(dir string) (*Workspace, error) {
	name := filepath.Join(dir, SettingsFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return nil, refusal.Newf(refusal.NotFound, "%s is not a workspace: it has no %s", dir, SettingsFile).
			WithHint(`"tally init" makes one here; --workspace DIR names another`)
	}
	data, err := store.ReadFile(store.OS{}, name, maxSettingsBytes)
	if err != nil {
		return nil, err
	}
	settings, err := parseSettings(name, data)
	if err != nil {
		return nil, err
	}
	w := &Workspace{Dir: dir, Settings: settings}
	return w, w.loadCheckout()
}

func parseSettings(name string, data []byte) (Settings, error) {
	var f settingsFile
	if _, err := strictyaml.Decode(name, data, settingsRules, &f); err != nil {
		return Settings{}, err
	}
	s := Settings{Version: f.Version, Origin: f.Origin, TrustRoot: f.TrustRoot, Witnesses: f.Witnesses, Ledger: f.Ledger, TestMounts: f.TestMounts, TestImage: f.TestImage}
	if f.Quorum != nil {
		s.Quorum = *f.Quorum
	}
	live, err := f.Live.limits()
	if s.Live = live; err == nil {
		err = s.validate()
	}
	if err != nil {
		return Settings{}, refusal.Newf(refusal.Malformed, "%s: %w", name, err).WithHint("correct it; nothing was done")
	}
	return s, nil
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
	seen := make(map[string]string)
	for _, w := range s.Witnesses {
		key, err := seal.WitnessKey(w.Key)
		if err != nil {
			return fmt.Errorf("witness %s: %w", w.URL, err)
		}
		if other, ok := seen[string(key)]; ok {
			return fmt.Errorf("witnesses %s and %s have the same key, so they are one", other, w.URL)
		}
		seen[string(key)] = w.URL
	}
	for _, m := range s.TestMounts {
		if !filepath.IsAbs(m.Host) || m.Inside != "" && !path.IsAbs(m.Inside) {
			return fmt.Errorf("test_mounts: found host %q and inside %q, expected absolute paths", m.Host, m.Inside)
		}
	}
	if _, err := digest.ParseContent(s.TestImage); s.TestImage != "" && err != nil {
		return fmt.Errorf("test_image: found %q, expected blake3: and 64 hex digits", s.TestImage)
	}
	if s.Ledger != "" {
		if _, err := bucket.ParseAddress(s.Ledger); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
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
`, s.Version, strictyaml.Quote(s.Origin), s.TrustRoot)
}

// SetLedger writes into tally.yaml where the ledger is kept, "" for the folder of
// the workspace, and leaves everything else in the file as it is.
func (w *Workspace) SetLedger(address string) error {
	name := w.Path(SettingsFile)
	data, err := store.ReadFile(store.OS{}, name, maxSettingsBytes)
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "ledger:") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "")
	if address != "" {
		text = strings.TrimRight(text, "\n") + "\nledger: " + strictyaml.Quote(address) + "\n"
	}
	settings, err := parseSettings(name, []byte(text))
	if err != nil {
		return err
	}
	if settings.Ledger != address {
		return refusal.Newf(refusal.Malformed, "%s: the key ledger is not on a line of its own", name).WithHint("write the line \"ledger: %s\" by hand", address)
	}
	if err := store.WriteFile(store.OS{}, name, []byte(text), 0o644); err != nil {
		return err
	}
	w.Settings = settings
	return nil
}

// WitnessVerifiers are the keys of the witnesses that the settings trust.
func (s Settings) WitnessVerifiers() ([]note.Verifier, error) {
	var out []note.Verifier
	for _, witness := range s.Witnesses {
		v, err := seal.CosignatureVerifier(witness.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: witness %s: %w", SettingsFile, witness.URL, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// Path joins names to the workspace's folder.
func (w *Workspace) Path(names ...string) string {
	return filepath.Join(append([]string{w.Dir}, names...)...)
}

// Private is the folder of the ledger, the evidence and the keys, closed to
// other users.
func (w *Workspace) Private(names ...string) string {
	return filepath.Join(append([]string{w.Dir, PrivateDir}, names...)...)
}

// The places that more than one command uses.
func (w *Workspace) LedgerDir() string     { return w.Private("ledger") }
func (w *Workspace) EvidenceDir() string   { return w.Private("evidence") }
func (w *Workspace) KeysDir() string       { return w.Private("keys") }
func (w *Workspace) AlarmsFile() string    { return w.Private("alarms.jsonl") }
func (w *Workspace) OperatorsFile() string { return w.Path("audit", "operators.yaml") }
func (w *Workspace) SignersFile() string   { return w.Path("signers", "allowed_signers") }

// CheckpointsDir is the folder of the checkpoints that witnesses cosigned.
func (w *Workspace) CheckpointsDir() string { return w.Private("checkpoints") }

// AnchorsDir is the folder of the ledger's anchors. Those of a checkout's own
// ledger concern only this checkout and stay out of git.
func (w *Workspace) AnchorsDir() string {
	if w.Shared != nil {
		return w.Private("anchors")
	}
	return w.SharedAnchorsDir()
}

// SharedAnchorsDir is the folder of the anchors that everybody has.
func (w *Workspace) SharedAnchorsDir() string { return w.Path("audit", "anchors") }

// Exists reports whether there is something at path: a link counts, wherever it
// leads.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
