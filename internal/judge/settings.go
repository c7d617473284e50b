package judge

import (
	"errors"
	"fmt"
	"os"
	"time"

	"tallystick/internal/digest"
	"tallystick/internal/store"
	"tallystick/internal/strictyaml"
	"tallystick/internal/wire"
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
}

// settingsFile is judge.yaml as it is written.
type settingsFile struct {
	Version         int      `json:"version"`
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
	s := &Settings{Model: f.Model, API: f.API, Votes: f.Votes, Temperature: f.Temperature, MaxOutput: f.MaxOutputTokens, Reply: f.Reply,
		Timeout: time.Duration(f.TimeoutSeconds) * time.Second, Digest: digest.ContentOf(doc.JSON)}
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
	return s, nil
}

func (f *settingsFile) validate() error {
	bad := func(field, format string, args ...any) error {
		return strictyaml.At([]string{field}, fmt.Errorf(format, args...))
	}
	switch {
	case f.Version != 1:
		return bad("version", "version is %d, this program knows 1", f.Version)
	case f.Model == "" || len(f.Model) > 200:
		return bad("model", "model has %d characters, expected 1 to 200", len(f.Model))
	case !f.API.Known():
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
