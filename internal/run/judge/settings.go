package judge

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/wire"
)

// SettingsFile is where a workspace says which model judges.
const SettingsFile = "judge.yaml"

// How a judge is asked for its reply.
const (
	ReplySchema = "schema" // by the means that the API has for a reply of a fixed shape
	ReplyText   = "text"   // by words alone, for servers that lack those
)

// What the file leaves out, and the bounds of what it says.
const (
	defaultVotes     = 1
	defaultOutput    = 1000
	defaultSeconds   = 120
	maxVotes         = 25
	maxOutput        = 100_000
	maxSeconds       = 3600
	maxSettingsBytes = 64 << 10
)

// Settings are what judge.yaml says.
type Settings struct {
	Model       string
	API         wire.API
	Votes       int // at least; a grader may ask for more
	Temperature *float64
	MaxOutput   int64
	Reply       string        // ReplySchema or ReplyText
	Timeout     time.Duration // of one call

	// Digest is of the canonical JSON of the file. An attempt's plan names it.
	Digest digest.Content

	// Others are the judges that a panel may have besides, by name. Their digest is
	// that of the file too.
	Others map[string]*Settings
}

// Named finds a judge of the file: "" and "default" are the one at the top.
func (s *Settings) Named(name string) (*Settings, error) {
	if name == "" || name == DefaultJudge {
		return s, nil
	}
	if other := s.Others[name]; other != nil {
		return other, nil
	}
	return nil, refusal.Newf(refusal.UnknownName, "%s has no judge called %.100q; it has %s", SettingsFile, name, strings.Join(append([]string{DefaultJudge}, slices.Sorted(maps.Keys(s.Others))...), ", ")).
		WithHint("add it under judges; docs/formats/judge.md has the format")
}

// DefaultJudge is what a panel calls the judge at the top of judge.yaml.
const DefaultJudge = "default"

// settingsFile is judge.yaml as it is written, and what it says of each judge
// besides, without version and judges.
type settingsFile struct {
	Version int                      `json:"version,omitempty"`
	Judges  map[string]*settingsFile `json:"judges,omitempty"`

	Model           string   `json:"model"`
	API             wire.API `json:"api"`
	Votes           int      `json:"votes,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	MaxOutputTokens int64    `json:"max_output_tokens,omitempty"`
	Reply           string   `json:"reply,omitempty"`
	TimeoutSeconds  int64    `json:"timeout_seconds,omitempty"`
}

// LoadSettings reads judge.yaml. Without the file there is no judge: nil.
func LoadSettings(name string) (*Settings, error) {
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	data, err := store.ReadFile(store.OS{}, name, maxSettingsBytes)
	if err != nil {
		return nil, err
	}
	return ParseSettings(name, data)
}

// ParseSettings reads the bytes of judge.yaml. The name is for messages.
func ParseSettings(name string, data []byte) (*Settings, error) {
	var f settingsFile
	doc, err := strictyaml.Decode(name, data, strictyaml.Rules{Hint: "correct the line; docs/formats/judge.md lists what may stand here",
		TooLargeHint: "judge.yaml is a few lines; see whether this is another file", MaxBytes: maxSettingsBytes}, &f)
	if err != nil {
		return nil, err
	}
	if err := f.validate(); err != nil {
		return nil, doc.Refuse(err)
	}
	whole := digest.ContentOf(doc.JSON)
	s := f.settings(whole)
	for name, other := range f.Judges {
		if s.Others == nil {
			s.Others = map[string]*Settings{}
		}
		s.Others[name] = other.settings(whole)
	}
	return s, nil
}

// settings fills in what the file leaves out.
func (f *settingsFile) settings(whole digest.Content) *Settings {
	s := &Settings{Model: f.Model, API: f.API, Votes: f.Votes, Temperature: f.Temperature, MaxOutput: f.MaxOutputTokens, Reply: f.Reply,
		Timeout: time.Duration(f.TimeoutSeconds) * time.Second, Digest: whole}
	if s.Votes == 0 {
		s.Votes = defaultVotes
	}
	if s.MaxOutput == 0 {
		s.MaxOutput = defaultOutput
	}
	if s.Reply == "" {
		s.Reply = ReplySchema
	}
	if s.Timeout == 0 {
		s.Timeout = defaultSeconds * time.Second
	}
	return s
}

// maxJudges bounds a panel.
const maxJudges = 15

func (f *settingsFile) validate() error {
	switch {
	case f.Version != 1:
		return strictyaml.At([]string{"version"}, fmt.Errorf("version is %d, this program knows 1", f.Version))
	case len(f.Judges) > maxJudges:
		return strictyaml.At([]string{"judges"}, fmt.Errorf("judges has %d, expected at most %d", len(f.Judges), maxJudges))
	}
	if err := f.validateOne(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(f.Judges)) {
		if name == DefaultJudge || !isJudgeName(name) {
			return strictyaml.At([]string{"judges", name}, fmt.Errorf("the name is %.80q, expected 1 to 40 of a-z 0-9 _ - and not %q, which is the judge at the top", name, DefaultJudge))
		}
		other := f.Judges[name]
		if other == nil || other.Version != 0 || other.Judges != nil {
			return strictyaml.At([]string{"judges", name}, errors.New("expected model, api and the like, without version and judges"))
		}
		if err := other.validateOne(); err != nil {
			return strictyaml.At(append([]string{"judges", name}, strictyaml.PathOf(err)...), errors.Unwrap(err))
		}
	}
	return nil
}

func isJudgeName(name string) bool {
	strange := strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	})
	return name != "" && len(name) <= 40 && !strange
}

func (f *settingsFile) validateOne() error {
	bad := func(field, format string, args ...any) error {
		return strictyaml.At([]string{field}, fmt.Errorf(format, args...))
	}
	switch {
	case f.Model == "" || len(f.Model) > 200:
		return bad("model", "model has %d characters, expected 1 to 200", len(f.Model))
	case !f.API.Converses():
		return bad("api", "api is %.40q, expected %s", f.API, wire.Expected())
	case f.Votes < 0 || f.Votes > maxVotes:
		return bad("votes", "votes is %d, expected 1 to %d", f.Votes, maxVotes)
	case f.Temperature != nil && !(*f.Temperature >= 0 && *f.Temperature <= 2):
		return bad("temperature", "temperature is %v, expected 0 to 2", *f.Temperature)
	case f.MaxOutputTokens < 0 || f.MaxOutputTokens > maxOutput:
		return bad("max_output_tokens", "max_output_tokens is %d, expected 1 to %d", f.MaxOutputTokens, maxOutput)
	case f.Reply != "" && f.Reply != ReplySchema && f.Reply != ReplyText:
		return bad("reply", "reply is %.40q, expected %s or %s", f.Reply, ReplySchema, ReplyText)
	case f.TimeoutSeconds < 0 || f.TimeoutSeconds > maxSeconds:
		return bad("timeout_seconds", "timeout_seconds is %d, expected 1 to %d", f.TimeoutSeconds, maxSeconds)
	}
	return nil
}
