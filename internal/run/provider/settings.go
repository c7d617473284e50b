package provider

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// SettingsFile is where a workspace says which live providers there are.
const SettingsFile = "providers.yaml"

// Settings are what providers.yaml says. They hold the names of keys, never a
// key.
type Settings struct {
	Endpoints []*Endpoint // in the order of [wire.Providers], those that the file has
	MCP       map[string]Server

	dir string // of the file; key_file and the servers' folder start here
}

// An Endpoint is one provider of models and what its models cost.
type Endpoint struct {
	Provider string // its name, as in the file
	BaseURL  string // without a slash at the end
	KeyEnv   string // name of the variable with the key; "" if KeyFile is set or there is no key
	KeyFile  string
	Signing  *Signing // of requests that are signed; nil if they carry a key, or nothing
	Limits   Limits
	CAFile   string // certificates besides those of the program; "" for none
	Headers  map[string]string
	Timeout  time.Duration // until a reply begins, and between two pieces of it
	Models   map[string]Model
}

// A Model is what a model costs and how much it can take and give in one call.
type Model struct {
	Price cassette.Price

	// The most tokens of one call; 0 if the file does not say.
	MaxInput, MaxOutput int64
}

// A Server is an MCP server: a command that speaks over its standard input and
// output, or a URL that speaks streamable HTTP, or the HTTP with SSE of before.
type Server struct {
	Command []string
	Env     map[string]string // given to the command as they are
	Secrets []string          // names of variables given to the command from our own environment

	URL     string
	SSE     bool
	KeyEnv  string // bearer token
	KeyFile string
	CAFile  string // certificates besides those of the program; "" for none

	Timeout time.Duration // of one exchange
}

// What the file leaves out.
const (
	defaultTimeout   = 10 * time.Minute
	defaultMCPWait   = time.Minute
	maxTimeoutSecond = 3600
	maxSettingsBytes = 256 << 10
)

// The file as it is written.
type settingsFile struct {
	version   int
	endpoints []*endpointFile // one for each of [wire.Providers], nil if the file lacks it
	mcp       map[string]serverFile
}

// decode reads the file into a struct that has a field for each provider, so
// that everything is checked where it stands.
func (f *settingsFile) decode(name string, data []byte) (*strictyaml.Document, error) {
	field := func(name, tag string, t reflect.Type) reflect.StructField {
		return reflect.StructField{Name: name, Type: t, Tag: reflect.StructTag(`json:"` + tag + `"`)}
	}
	fields := []reflect.StructField{field("Version", "version", reflect.TypeFor[int]())}
	for i, p := range wire.Providers() {
		fields = append(fields, field("Provider"+strconv.Itoa(i), p.Name+",omitempty", reflect.TypeFor[*endpointFile]()))
	}
	fields = append(fields, field("MCP", "mcp,omitempty", reflect.TypeFor[map[string]serverFile]()))
	file := reflect.New(reflect.StructOf(fields))
	doc, err := strictyaml.Decode(name, data, settingsRules, file.Interface())
	if err != nil {
		return nil, err
	}
	last := len(fields) - 1
	f.version = file.Elem().Field(0).Interface().(int)
	for i := 1; i < last; i++ {
		f.endpoints = append(f.endpoints, file.Elem().Field(i).Interface().(*endpointFile))
	}
	f.mcp = file.Elem().Field(last).Interface().(map[string]serverFile)
	return doc, nil
}

type endpointFile struct {
	BaseURL        string               `json:"base_url,omitempty"`
	KeyEnv         string               `json:"key_env,omitempty"`
	KeyFile        string               `json:"key_file,omitempty"`
	Region         string               `json:"region,omitempty"`
	AccessKeyEnv   string               `json:"access_key_env,omitempty"`
	SecretKeyEnv   string               `json:"secret_key_env,omitempty"`
	SessionEnv     string               `json:"session_token_env,omitempty"`
	Limits         *limitsFile          `json:"limits,omitempty"`
	CAFile         string               `json:"ca_file,omitempty"`
	Headers        map[string]string    `json:"headers,omitempty"`
	TimeoutSeconds int64                `json:"timeout_seconds,omitempty"`
	Prices         map[string]priceFile `json:"prices,omitempty"`
}

type priceFile struct {
	Input           int64  `json:"input"`
	Output          int64  `json:"output"`
	CacheRead       *int64 `json:"cache_read,omitempty"`
	CacheWrite      *int64 `json:"cache_write,omitempty"`
	CacheWriteLong  *int64 `json:"cache_write_long,omitempty"`
	MaxInputTokens  int64  `json:"max_input_tokens,omitempty"`
	MaxOutputTokens int64  `json:"max_output_tokens,omitempty"`
}

type serverFile struct {
	Command        []string          `json:"command,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	Secrets        []string          `json:"secrets,omitempty"`
	URL            string            `json:"url,omitempty"`
	KeyEnv         string            `json:"key_env,omitempty"`
	KeyFile        string            `json:"key_file,omitempty"`
	CAFile         string            `json:"ca_file,omitempty"`
	TimeoutSeconds int64             `json:"timeout_seconds,omitempty"`
	Transport      string            `json:"transport,omitempty"`
}

var settingsRules = strictyaml.Rules{
	Hint:         "correct the line; docs/recording.md lists what may stand here. Nothing was sent",
	TooLargeHint: "providers.yaml is a page; see whether this is another file",
	MaxBytes:     maxSettingsBytes,
}

// LoadSettings reads providers.yaml. Nothing is contacted and no key is read.
func LoadSettings(name string) (*Settings, error) {
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return nil, refusal.Newf(refusal.NotFound, "%s: there is no such file, so no live provider is known", name).
			WithHint(`write one that begins "version: 1", then "%s:" with the prices of the models; docs/recording.md has an example`, strings.Join(wire.ProviderNames(), `:" or "`))
	}
	data, err := store.ReadFile(store.OS{}, name, maxSettingsBytes)
	if err != nil {
		return nil, err
	}
	return ParseSettings(name, data)
}

// ParseSettings reads the bytes of providers.yaml. Files that it names are
// relative to the folder of name.
func ParseSettings(name string, data []byte) (*Settings, error) {
	var f settingsFile
	doc, err := f.decode(name, data)
	if err != nil {
		return nil, err
	}
	s := &Settings{dir: filepath.Dir(name), MCP: map[string]Server{}}
	if err := s.fill(&f); err != nil {
		return nil, doc.Refuse(err)
	}
	return s, nil
}

func (s *Settings) fill(f *settingsFile) (err error) {
	if f.version != 1 {
		return strictyaml.At([]string{"version"}, fmt.Errorf("found %d, this program reads 1", f.version))
	}
	for i, p := range wire.Providers() {
		if f.endpoints[i] == nil {
			continue
		}
		e, err := f.endpoints[i].endpoint(p)
		if err != nil {
			return err
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	if len(s.Endpoints) == 0 && len(f.mcp) == 0 {
		return fmt.Errorf("found no provider, expected %s or mcp", strings.Join(wire.ProviderNames(), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(f.mcp)) {
		if s.MCP[name], err = f.mcp[name].server(name); err != nil {
			return err
		}
	}
	return s.checkPrices()
}

func (f *endpointFile) endpoint(p *wire.Provider) (*Endpoint, error) {
	provider := p.Name
	at := func(field string, err error) error { return strictyaml.At([]string{provider, field}, err) }
	e := &Endpoint{Provider: provider, KeyEnv: f.KeyEnv, KeyFile: f.KeyFile, CAFile: f.CAFile, Headers: f.Headers, Models: map[string]Model{}}

	// The usual key goes to the usual provider only. A server of another
	// operator gets a key when the file says so.
	if f.BaseURL == "" && f.KeyEnv == "" && f.KeyFile == "" && !p.Signed {
		e.KeyEnv = p.KeyEnv
	}
	var err error
	if e.Signing, err = f.signing(p); err != nil {
		return nil, err
	}
	e.BaseURL = strings.TrimSuffix(f.BaseURL, "/")
	if f.BaseURL == "" {
		e.BaseURL = strings.ReplaceAll(p.BaseURL, "{region}", f.Region)
	}
	if e.BaseURL == "" {
		return nil, at("base_url", errors.New("is missing: this provider has no address of its own, give that of your resource"))
	}
	if err := checkURL(e.BaseURL); err != nil {
		return nil, at("base_url", err)
	}
	if e.Limits, err = f.Limits.limits(); err != nil {
		return nil, at("limits", err)
	}
	if err := checkKeyNames(f.KeyEnv, f.KeyFile); err != nil {
		return nil, at(err.field, err)
	}
	for name, value := range f.Headers {
		if err := checkHeader(name, value); err != nil {
			return nil, strictyaml.At([]string{provider, "headers", name}, err)
		}
	}
	if e.Timeout, err = timeout(f.TimeoutSeconds, defaultTimeout); err != nil {
		return nil, at("timeout_seconds", err)
	}
	for name, p := range f.Prices {
		if e.Models[name], err = p.model(); err != nil {
			return nil, strictyaml.At([]string{provider, "prices", name}, err)
		}
	}
	return e, e.addShipped(p)
}

func (p priceFile) model() (Model, error) {
	orZero := func(v *int64) int64 {
		if v == nil {
			return 0
		}
		return *v
	}
	m := Model{
		Price: cassette.Price{Input: p.Input, Output: p.Output, CacheRead: orZero(p.CacheRead),
			CacheWrite: orZero(p.CacheWrite), CacheWriteLong: orZero(p.CacheWriteLong)},
		MaxInput: p.MaxInputTokens, MaxOutput: p.MaxOutputTokens,
	}
	// What is not listed apart costs as much as other input. Zero would
	// understate what a call has cost.
	if p.CacheRead == nil {
		m.Price.CacheRead = p.Input
	}
	if p.CacheWrite == nil {
		m.Price.CacheWrite = p.Input
	}
	if p.CacheWriteLong == nil {
		m.Price.CacheWriteLong = max(p.Input, m.Price.CacheWrite)
	}
	for _, n := range []int64{m.MaxInput, m.MaxOutput} {
		if n < 0 || n > wire.MaxTokens {
			return Model{}, fmt.Errorf("found %d tokens, expected 1 to %d", n, int64(wire.MaxTokens))
		}
	}
	return m, cassette.Prices{"it": m.Price}.Validate()
}

func (f serverFile) server(name string) (Server, error) {
	at := func(field string, err error) error { return strictyaml.At([]string{"mcp", name, field}, err) }
	s := Server{Command: f.Command, Env: f.Env, Secrets: f.Secrets, URL: f.URL, SSE: f.Transport == "sse", KeyEnv: f.KeyEnv, KeyFile: f.KeyFile, CAFile: f.CAFile}
	if err := checkName(name); err != nil {
		return Server{}, strictyaml.At([]string{"mcp", name}, err)
	}
	var err error
	if s.Timeout, err = timeout(f.TimeoutSeconds, defaultMCPWait); err != nil {
		return Server{}, at("timeout_seconds", err)
	}
	switch {
	case (len(f.Command) == 0) == (f.URL == ""):
		return Server{}, strictyaml.At([]string{"mcp", name}, errors.New("found both or neither of command and url, expected one"))
	case f.Transport != "" && (f.URL == "" || f.Transport != "sse" && f.Transport != "http"):
		return Server{}, at("transport", fmt.Errorf("found %.40q, expected http or sse, of a url", f.Transport))
	case f.URL != "":
		if len(f.Env) > 0 || len(f.Secrets) > 0 {
			return Server{}, strictyaml.At([]string{"mcp", name}, errors.New("env and secrets are for a command; a URL takes key_env or key_file"))
		}
		if err := checkURL(f.URL); err != nil {
			return Server{}, at("url", err)
		}
	case f.KeyEnv != "" || f.KeyFile != "" || f.CAFile != "":
		return Server{}, strictyaml.At([]string{"mcp", name}, errors.New("key_env, key_file and ca_file are for a URL; a command takes its keys from secrets"))
	}
	if err := checkKeyNames(f.KeyEnv, f.KeyFile); err != nil {
		return Server{}, at(err.field, err)
	}
	for variable := range f.Env {
		if !isVariable(variable) || slices.Contains(f.Secrets, variable) {
			return Server{}, at("env", fmt.Errorf("%q is not the name of a variable, or stands in secrets too", variable))
		}
	}
	for _, variable := range f.Secrets {
		if !isVariable(variable) {
			return Server{}, at("secrets", fmt.Errorf("%q is not the name of a variable", variable))
		}
	}
	return s, nil
}

// checkPrices refuses one model with two prices: which one a call has would
// depend on who looks.
func (s *Settings) checkPrices() error {
	seen := map[string]*Endpoint{}
	for _, e := range s.Endpoints {
		for name, m := range e.Models {
			if other := seen[name]; other != nil && other.Models[name].Price != m.Price {
				return strictyaml.At([]string{e.Provider, "prices", name}, fmt.Errorf("the model has another price under %s", other.Provider))
			}
			seen[name] = e
		}
	}
	return nil
}

// model is what a model costs: by its name, or as every model that is not listed.
func (e *Endpoint) model(name string) (Model, bool) {
	m, ok := e.Models[name]
	if !ok && name != "" {
		m, ok = e.Models[cassette.AnyModel]
	}
	return m, ok
}

// Prices lists what the models cost, for a recorder.
func (s *Settings) Prices() cassette.Prices {
	prices := cassette.Prices{}
	for _, e := range s.Endpoints {
		for name, m := range e.Models {
			prices[name] = m.Price
		}
	}
	return prices
}

// At says where requests of an API go, false if nowhere.
func (s *Settings) At(api wire.API) (evidence.Endpoint, bool) {
	e, err := s.endpoint(api)
	if err != nil {
		return evidence.Endpoint{}, false
	}
	place, err := evidence.EndpointAt(e.BaseURL)
	return place, err == nil
}

// endpoint is the provider that speaks an API.
func (s *Settings) endpoint(api wire.API) (*Endpoint, error) {
	name := api.Provider().Name
	for _, e := range s.Endpoints {
		if e.Provider == name {
			return e, nil
		}
	}
	return nil, refusal.Newf(refusal.NotFound, "the agent calls %s, and %s has no %s", api, SettingsFile, name).
		WithHint("add %s: with its prices to %s, or use a target of another provider", name, SettingsFile)
}

func timeout(seconds int64, usual time.Duration) (time.Duration, error) {
	if seconds == 0 {
		return usual, nil
	}
	if seconds < 1 || seconds > maxTimeoutSecond {
		return 0, fmt.Errorf("found %d, expected 1 to %d", seconds, maxTimeoutSecond)
	}
	return time.Duration(seconds) * time.Second, nil
}

// A keyError is a mistake in the name of a key, and in which of the two fields.
type keyError struct{ field, text string }

func (e *keyError) Error() string { return e.text }

func checkKeyNames(env, file string) *keyError {
	switch {
	case env != "" && file != "":
		return &keyError{"key_file", "found key_env as well, expected one of the two"}
	case env != "" && !isVariable(env):
		// An operator who takes key_env for the place of the key itself must
		// not read it in a log.
		return &keyError{"key_env", "is not the name of a variable, expected one such as " + wire.Providers()[0].KeyEnv + "; the key itself never stands here"}
	}
	return nil
}

// isVariable accepts what a shell takes for the name of a variable, in the
// usual capitals: a key that was put here by mistake has other characters.
func isVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(c == '_' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && i > 0) {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

func checkName(name string) error {
	for _, c := range name {
		if !(c == '-' || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return fmt.Errorf("%q is not the name of a server, expected letters, digits, - and _", name)
		}
	}
	if len(name) > 64 {
		return errors.New("the name has more than 64 bytes")
	}
	return nil
}

// checkHeader accepts headers that say something about a request, and none
// that carries a key: those belong where they are looked for and removed.
func checkHeader(name, value string) error {
	for _, c := range name {
		if !(c == '-' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9') {
			return errors.New("is not the name of a header, expected lower-case letters, digits and -")
		}
	}
	// Kept in step with what send sets itself.
	for _, part := range []string{"authorization", "cookie", "key", "token", "secret", "host", "content-", "accept", "transfer-", "connection"} {
		if strings.Contains(name, part) {
			return errors.New("may not be set here: keys come from key_env or key_file, the rest is set by this program")
		}
	}
	for _, c := range value {
		if c < ' ' || c > '~' {
			return errors.New("its value is not one line of ASCII")
		}
	}
	return nil
}
