package provider

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/cassette"
)

// An Access is settings with their keys. The keys are in no exported field and
// no message; [Access.Redactor] removes them from everything that is kept.
type Access struct {
	Settings *Settings

	clients  map[string]*http.Client // by the file of certificates, "" for none
	trusted  map[string]*roots
	keys     map[string]string // by the name of the variable or the path of the file
	lanes    map[string]*lane  // by the name of the provider
	redactor *cassette.Redactor
}

// Access reads the keys that the settings name, from the environment and from
// files that only their owner can read. A variable that is not set is not an
// error before a call needs it.
func (s *Settings) Access(getenv func(string) string) (*Access, error) {
	a := &Access{Settings: s, clients: map[string]*http.Client{}, trusted: map[string]*roots{}, keys: map[string]string{}, lanes: map[string]*lane{}}
	for _, e := range s.Endpoints {
		a.lanes[e.Provider] = newLane(e.Limits)
		err := a.load(getenv, e.KeyEnv, e.KeyFile)
		for _, variable := range e.Signing.variables() {
			if err == nil {
				err = a.load(getenv, variable, "")
			}
		}
		if err == nil {
			err = a.trust(e.CAFile)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", SettingsFile, e.Provider, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.MCP)) {
		server := s.MCP[name]
		err := a.load(getenv, server.KeyEnv, server.KeyFile)
		if err == nil {
			err = a.trust(server.CAFile)
		}
		for _, variable := range server.Secrets {
			if err == nil {
				err = a.load(getenv, variable, "")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: mcp %s: %w", SettingsFile, name, err)
		}
	}
	var err error
	a.redactor, err = cassette.NewRedactor(slices.Sorted(maps.Values(a.keys))...)
	return a, err
}

func (a *Access) load(getenv func(string) string, env, file string) error {
	name, key := env, ""
	switch {
	case env != "":
		if key = getenv(env); key == "" {
			return nil
		}
	case file != "":
		name = file
		if !filepath.IsAbs(file) {
			file = filepath.Join(a.Settings.dir, file)
		}
		data, err := seal.LoadSecret(file)
		if err != nil {
			return err
		}
		key = string(data)
	default:
		return nil
	}
	if err := checkKey(key); err != nil {
		return refusal.Newf(refusal.Malformed, "the key in %s: %w", name, err).
			WithHint("give the whole key on one line, without blanks or quotes around it")
	}
	a.keys[name] = key
	return nil
}

// checkKey accepts what can stand in a header and be looked for in text.
func checkKey(key string) error {
	if len(key) < 8 || len(key) > 8192 {
		return fmt.Errorf("has %d bytes, expected 8 to 8192", len(key))
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return errors.New("has a character that no key has")
		}
	}
	return nil
}

// key returns the key of a provider, "" if it takes none.
func (a *Access) key(owner, env, file string) (string, error) {
	if env == "" && file == "" {
		return "", nil
	}
	if key, ok := a.keys[env+file]; ok { // one of the two is empty
		return key, nil
	}
	return "", refusal.Newf(refusal.NotFound, "%s: the variable %s is not set", owner, env).
		WithHint("set %s to the key, or name a file with mode 0600 as key_file in %s", env, SettingsFile)
}

// Redactor removes the keys. It is for the recorder and for the session.
func (a *Access) Redactor() *cassette.Redactor { return a.redactor }

// trust makes the client of servers whose certificates may be signed by those of a
// file too.
func (a *Access) trust(file string) (err error) { return a.trustIn(a.Settings.dir, file) }

// trustIn is trust for a file whose name starts in dir.
func (a *Access) trustIn(dir, file string) (err error) {
	if a.clients[file] != nil {
		return nil
	}
	if a.trusted[file], err = loadRoots(dir, file); err == nil {
		a.clients[file] = newClient(a.trusted[file])
	}
	return err
}

// Close closes unused connections.
func (a *Access) Close() {
	for _, c := range a.clients {
		c.CloseIdleConnections()
	}
}

// clean takes the keys out of an error: the text of a network error can hold
// bytes that the server has sent.
func (a *Access) clean(err error) error {
	text, found := a.redactor.Text(err.Error())
	if found == 0 {
		return err
	}
	return errors.New(text)
}
