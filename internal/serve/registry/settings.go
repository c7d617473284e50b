package registry

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/record/workspace"
)

// SettingsFile marks the folder of a registry.
const SettingsFile = "registry.yaml"

// Settings are what registry.yaml says.
type Settings struct {
	PublicURL string // without a slash at the end; gives the did:web
	Origin    string // name of the ledger
	Operator  string // name of the person who operates it
	TrustRoot digest.ID

	Judges   int // drawn for each content; 0 publishes at once
	Quorum   int // of them who must accept
	Deadline time.Duration

	Witnesses     []workspace.Witness
	WitnessQuorum int

	Calibration string // file, relative to the folder; empty for none

	// IssueDocuments lets agents have any W3C credential signed ([Registry.IssueDocument]).
	IssueDocuments bool

	RatePerMinute    int // writes of one API key
	ReadsPerMinute   int // requests of one address
	RegistersPerHour int // registrations from one address
}

// Default are the settings of a new registry.
func Default() Settings {
	return Settings{Judges: 3, Quorum: 2, Deadline: 7 * 24 * time.Hour, RatePerMinute: 120, ReadsPerMinute: 6000, RegistersPerHour: 20}
}

// settingsFile is how settings are written.
type settingsFile struct {
	Version          int                 `json:"version"`
	Origin           string              `json:"origin"`
	Operator         string              `json:"operator"`
	TrustRoot        digest.ID           `json:"trust_root"`
	PublicURL        string              `json:"public_url,omitempty"`
	Judges           int                 `json:"judges"`
	Quorum           int                 `json:"quorum"`
	DeadlineHours    int                 `json:"deadline_hours"`
	Witnesses        []workspace.Witness `json:"witnesses,omitempty"`
	WitnessQuorum    *int                `json:"witness_quorum,omitempty"`
	Calibration      string              `json:"calibration,omitempty"`
	IssueDocuments   bool                `json:"issue_documents,omitempty"`
	RatePerMinute    int                 `json:"rate_per_minute"`
	ReadsPerMinute   int                 `json:"reads_per_minute"`
	RegistersPerHour int                 `json:"registers_per_hour"`
}

const maxSettingsBytes = 1 << 20

var settingsRules = strictyaml.Rules{
	Hint:         "correct the line; nothing was done",
	TooLargeHint: "settings are a page; see whether this is another file",
	MaxBytes:     maxSettingsBytes,
}

// LoadSettings reads the settings of the registry in dir.
func LoadSettings(dir string) (Settings, error) {
	name := filepath.Join(dir, SettingsFile)
	if !workspace.Exists(name) {
		return Settings{}, refusal.Newf(refusal.NotFound, "%s is not the folder of a registry: it has no %s", dir, SettingsFile).
			WithHint(`"tally registry init --dir DIR" makes one`)
	}
	data, err := store.ReadFile(store.OS{}, name, maxSettingsBytes)
	if err != nil {
		return Settings{}, err
	}
	var f settingsFile
	if _, err := strictyaml.Decode(name, data, settingsRules, &f); err != nil {
		return Settings{}, err
	}
	s := Settings{
		PublicURL: f.PublicURL, Origin: f.Origin, Operator: f.Operator, TrustRoot: f.TrustRoot, Judges: f.Judges, Quorum: f.Quorum,
		Deadline: time.Duration(f.DeadlineHours) * time.Hour, Witnesses: f.Witnesses, WitnessQuorum: len(f.Witnesses), Calibration: f.Calibration, IssueDocuments: f.IssueDocuments,
		RatePerMinute: f.RatePerMinute, ReadsPerMinute: f.ReadsPerMinute, RegistersPerHour: f.RegistersPerHour,
	}
	if f.WitnessQuorum != nil {
		s.WitnessQuorum = *f.WitnessQuorum
	}
	err = s.validate()
	switch {
	case err != nil:
	case f.Version != 1:
		err = fmt.Errorf("version is %d, this program reads 1", f.Version)
	case s.TrustRoot.IsZero():
		err = errors.New("trust_root is missing")
	}
	if err != nil {
		return Settings{}, refusal.Newf(refusal.Malformed, "%s: %w", name, err).WithHint("correct it; nothing was done")
	}
	return s, nil
}

func (s *Settings) validate() error {
	if err := evidence.CheckOrigin(s.Origin); err != nil {
		return err
	}
	switch {
	case s.Operator == "":
		return errors.New("operator is empty: name who operates the registry")
	case s.Judges < 0 || s.Judges > 99:
		return fmt.Errorf("judges is %d, expected 0 to 99", s.Judges)
	case s.Judges > 0 && (s.Quorum <= s.Judges/2 || s.Quorum > s.Judges):
		return fmt.Errorf("quorum is %d of %d judges, expected more than half and at most all", s.Quorum, s.Judges)
	case s.Judges == 0 && s.Quorum != 0:
		return fmt.Errorf("quorum is %d without judges, expected 0", s.Quorum)
	case s.Deadline < time.Hour || s.Deadline%time.Hour != 0:
		return fmt.Errorf("the deadline is %s, expected whole hours and at least one", s.Deadline)
	case s.WitnessQuorum < 0 || s.WitnessQuorum > len(s.Witnesses) || len(s.Witnesses) > 0 && s.WitnessQuorum == 0:
		return fmt.Errorf("witness_quorum is %d of %d witnesses, expected 1 to all", s.WitnessQuorum, len(s.Witnesses))
	case s.RatePerMinute < 1 || s.ReadsPerMinute < 1 || s.RegistersPerHour < 1:
		return errors.New("rate_per_minute, reads_per_minute and registers_per_hour are at least 1")
	}
	if s.PublicURL == "" {
		return nil
	}
	_, err := didWeb(s.PublicURL)
	return err
}

// format writes settings as a file that a person can edit.
func (s *Settings) format() []byte {
	public := "# public_url: https://registry.example.com"
	if s.PublicURL != "" {
		public = "public_url: " + strictyaml.Quote(s.PublicURL)
	}
	text := fmt.Appendf(nil, `# Settings of this Tallystick registry. Every unknown key is an error.
version: 1
# The ledger's name. It is part of every entry and never changes.
origin: %s
operator: %s
# Digest of version 1 of signers/allowed_signers: all trust starts here.
trust_root: %s
# Where others reach it. It gives the name of the issuer (did:web); without it the
# issuer is a did:key.
%s
# How many judges are drawn for a proposal, how many of them must accept, and how
# long they have. 0 and 0 publish at once, and every row says so.
judges: %d
quorum: %d
deadline_hours: %d
rate_per_minute: %d
reads_per_minute: %d
registers_per_hour: %d
# A set of proposals with known answers that judges must agree with:
# calibration: calibration.yaml
# Draws wait for witnesses, if there are any:
# witnesses:
#   - url: http://127.0.0.1:7380
#     key: witness.example+…
# witness_quorum: 1
`, strictyaml.Quote(s.Origin), strictyaml.Quote(s.Operator), s.TrustRoot, public, s.Judges, s.Quorum, int(s.Deadline/time.Hour),
		s.RatePerMinute, s.ReadsPerMinute, s.RegistersPerHour)
	if s.IssueDocuments {
		text = append(text, "issue_documents: true\n"...)
	}
	if s.Calibration != "" {
		text = fmt.Appendf(text, "calibration: %s\n", strictyaml.Quote(s.Calibration))
	}
	if len(s.Witnesses) > 0 {
		text = append(text, "witnesses:\n"...)
		for _, w := range s.Witnesses {
			text = fmt.Appendf(text, "  - url: %s\n    key: %s\n", strictyaml.Quote(w.URL), strictyaml.Quote(w.Key))
		}
		text = fmt.Appendf(text, "witness_quorum: %d\n", s.WitnessQuorum)
	}
	return text
}

// didWeb is the did:web of a public address (W3C CCG did:web method): the host,
// with %3A before a port, and the parts of the path after colons.
func didWeb(public string) (string, error) {
	u, err := url.Parse(public)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.HasSuffix(u.Path, "/") {
		return "", fmt.Errorf("public_url is %.200q, expected https://HOST or https://HOST/PATH without a slash at the end", public)
	}
	for _, c := range []byte(u.Host + u.Path) {
		if c <= ' ' || c > '~' || strings.IndexByte(`"%#?;\`, c) >= 0 {
			return "", fmt.Errorf("public_url %.200q has the character %q", public, c)
		}
	}
	return "did:web:" + strings.ReplaceAll(strings.ToLower(u.Host), ":", "%3A") + strings.ReplaceAll(u.Path, "/", ":"), nil
}
