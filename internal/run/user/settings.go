package user

import (
	"errors"
	"fmt"
	"os"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/wire"
)

// SettingsFile is where a workspace says which model plays users. It is a file of the
// workspace and not of a class, as judge.yaml is: who pays chooses the model, and a
// class that cares pins the digest.
const SettingsFile = "user.yaml"

// What the file leaves out, and the bounds of what it says.
const (
	defaultOutput    = 1000
	defaultSeconds   = 120
	maxOutput        = 100_000
	maxSeconds       = 3600
	maxSettingsBytes = 64 << 10
)

// Settings are what user.yaml says.
type Settings struct {
	Model       string
	API         wire.API
	Temperature *float64
	MaxOutput   int64
	Timeout     time.Duration // of one call

	// Digest is of the canonical JSON of the file and of the template of the prompt
	// ([PromptDigest]): all that decides what a model is asked besides the case.
	Digest digest.Content
}

type settingsFile struct {
	Version         int      `json:"version"`
	Model           string   `json:"model"`
	API             wire.API `json:"api"`
	Temperature     *float64 `json:"temperature,omitempty"`
	MaxOutputTokens int64    `json:"max_output_tokens,omitempty"`
	TimeoutSeconds  int64    `json:"timeout_seconds,omitempty"`
}

// LoadSettings reads user.yaml. Without the file there are none: nil.
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

// ParseSettings reads the bytes of user.yaml. The name is for messages.
func ParseSettings(name string, data []byte) (*Settings, error) {
	var f settingsFile
	doc, err := strictyaml.Decode(name, data, strictyaml.Rules{Hint: "correct the line; docs/users.md lists what may stand here",
		TooLargeHint: "user.yaml is a few lines; see whether this is another file", MaxBytes: maxSettingsBytes}, &f)
	if err != nil {
		return nil, err
	}
	if err := f.validate(); err != nil {
		return nil, doc.Refuse(err)
	}
	prompt := PromptDigest()
	pinned, err := canon.Marshal(struct {
		Prompt   digest.Content   `json:"prompt"`
		Settings canon.RawMessage `json:"settings"`
	}{prompt, doc.JSON})
	if err != nil {
		return nil, err
	}
	s := &Settings{Model: f.Model, API: f.API, Temperature: f.Temperature, MaxOutput: f.MaxOutputTokens, Timeout: time.Duration(f.TimeoutSeconds) * time.Second, Digest: digest.ContentOf(pinned)}
	if s.MaxOutput == 0 {
		s.MaxOutput = defaultOutput
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
	case !f.API.Converses():
		return bad("api", "api is %.40q, expected %s", f.API, wire.Expected())
	case f.Temperature != nil && !(*f.Temperature >= 0 && *f.Temperature <= 2):
		return bad("temperature", "temperature is %v, expected 0 to 2", *f.Temperature)
	case f.MaxOutputTokens < 0 || f.MaxOutputTokens > maxOutput:
		return bad("max_output_tokens", "max_output_tokens is %d, expected 1 to %d", f.MaxOutputTokens, maxOutput)
	case f.TimeoutSeconds < 0 || f.TimeoutSeconds > maxSeconds:
		return bad("timeout_seconds", "timeout_seconds is %d, expected 1 to %d", f.TimeoutSeconds, maxSeconds)
	}
	return nil
}
