package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// Credentials are where those for registries come from.
type Credentials struct {
	Config string // docker's config.json; "" for $DOCKER_CONFIG, else ~/.docker
	// Helpers allows programs that the file names to be run: docker-credential-NAME,
	// looked for on the path. Without it they are named and not run.
	Helpers bool
}

// dockerHub is the name by which docker keeps credentials for the registry that a name
// without one means.
const dockerHub = "https://" + name.DefaultRegistry + "/v1/"

// maxConfig bounds config.json, and what a helper says.
const maxConfig = 1 << 20

type dockerConfig struct {
	Auths       map[string]authn.AuthConfig `json:"auths"`
	CredHelpers map[string]string           `json:"credHelpers"`
	CredsStore  string                      `json:"credsStore"`
}

func (c Credentials) file() string {
	if c.Config != "" {
		return c.Config
	}
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker", "config.json")
}

// find gives the credentials for a registry, and what a person may do if they do not
// open it.
func (c Credentials) find(ctx context.Context, registry string) (authn.Authenticator, string, error) {
	file := c.file()
	hint := fmt.Sprintf(`log in with "docker login %s", or write auths into %s`, registry, file)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || file == "" {
		return authn.Anonymous, hint, nil
	}
	if err != nil {
		return nil, "", refusal.Newf(refusal.Unreadable, "reading credentials for registries: %w", err)
	}
	if len(b) > maxConfig {
		return nil, "", refusal.Newf(refusal.TooLarge, "%s has %d bytes, expected at most %d", file, len(b), maxConfig)
	}
	var d dockerConfig
	if err := json.Unmarshal(b, &d); err != nil {
		// The error could quote a secret.
		return nil, "", refusal.Newf(refusal.Malformed, "%s is not the JSON that docker login writes", file)
	}
	names := []string{registry, "https://" + registry, "http://" + registry, "https://" + registry + "/v1/", "https://" + registry + "/v2/"}
	if registry == name.DefaultRegistry {
		names = append(names, dockerHub, strings.TrimPrefix(registry, "index."))
	}
	helper, asked := d.CredsStore, registry
	for _, n := range names {
		if h := d.CredHelpers[n]; h != "" {
			helper, asked = h, n
			break
		}
	}
	if registry == name.DefaultRegistry && helper == d.CredsStore {
		asked = dockerHub
	}
	if helper != "" {
		if c.Helpers {
			return askHelper(ctx, helper, asked)
		}
		hint = fmt.Sprintf("%s leaves credentials to the program docker-credential-%s, which was not run; --credential-helpers runs it", file, plain.Line(helper))
	}
	for _, n := range names {
		if a, ok := d.Auths[n]; ok && a != (authn.AuthConfig{}) {
			return authn.FromConfig(a), fmt.Sprintf("the credentials for %s in %s did not open it", registry, file), nil
		}
	}
	return authn.Anonymous, hint, nil
}

var helperName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) })

// askHelper runs a credential helper: it is told the registry, and says user and secret.
func askHelper(ctx context.Context, helper, registry string) (authn.Authenticator, string, error) {
	if !helperName().MatchString(helper) {
		return nil, "", refusal.Newf(refusal.Malformed, "the credential helper %.80q: expected a name", helper)
	}
	program := "docker-credential-" + helper
	ctx, cancel := context.WithTimeout(ctx, helpersLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Stdin = strings.NewReader(registry)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if err != nil && strings.Contains(out.String(), "credentials not found") {
		return authn.Anonymous, fmt.Sprintf("%s has no credentials for %s", program, registry), nil
	}
	if err != nil {
		return nil, "", refusal.Newf(refusal.Failed, "running %s: %w", program, err).WithHint("run it by hand: echo %s | %s get", registry, program)
	}
	var said struct{ Username, Secret string }
	if out.Len() > maxConfig || json.Unmarshal(out.Bytes(), &said) != nil || said.Secret == "" {
		return nil, "", refusal.Newf(refusal.Malformed, "%s did not answer with Username and Secret", program)
	}
	hint := fmt.Sprintf("the credentials of %s did not open %s", program, registry)
	if said.Username == "<token>" {
		return authn.FromConfig(authn.AuthConfig{IdentityToken: said.Secret}), hint, nil
	}
	return authn.FromConfig(authn.AuthConfig{Username: said.Username, Password: said.Secret}), hint, nil
}
