package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const contrib = "../../contrib/registry"

// requireCommand wants a command line of a file for operators to be one that the
// program takes, as far as that can be told without running it.
func requireCommand(t *testing.T, args []string) {
	t.Helper()
	p := newProgram(newEnv(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, os.Getenv))
	cmd, rest, err := p.root.Find(args)
	if err != nil || !cmd.Runnable() || cmd == p.root {
		t.Fatalf("%q is not a command: %v", args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

func TestTheSystemdUnitStartsTheProgram(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(contrib, "tally-registry.service"))
	if err != nil {
		t.Fatal(err)
	}
	line := ""
	for l := range strings.Lines(string(unit)) {
		if rest, ok := strings.CutPrefix(l, "ExecStart=/usr/bin/tally "); ok {
			line = strings.TrimSpace(rest)
		}
	}
	args := strings.Fields(strings.Replace(line, "$TALLY_REGISTRY_ARGS", "--public-url https://registry.example --db postgres://x/y --proxy 10.0.0.0/8", 1))
	requireCommand(t, args)

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the unit's commands are checked; whether systemd takes the unit is not: there is no systemd-analyze here")
	}
	// The program is not installed where the unit starts it.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "tally-registry.service")
	if err := os.WriteFile(copied, bytes.Replace(unit, []byte("/usr/bin/tally"), []byte(program), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

func TestTheComposeFileStartsTheProgram(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(contrib, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image     string
			Command   []string
			Volumes   []string
			DependsOn any `yaml:"depends_on"`
			Secrets   []string
			Ports     []string
		}
		Volumes map[string]any
		Secrets map[string]struct{ File string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"registry", "reader"} {
		requireCommand(t, file.Services[name].Command)
		if metrics := "--metrics=0.0.0.0:7392"; !slices.Contains(file.Services[name].Command, metrics) || strings.Contains(strings.Join(file.Services[name].Ports, " "), "7392") {
			t.Errorf("%s: %s is missing, or its port is given out: %q", name, metrics, file.Services[name].Ports)
		}
	}
	for name, service := range file.Services {
		for _, v := range service.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, declared := file.Volumes[from]; !declared && !strings.HasPrefix(from, "./") {
				t.Errorf("%s: volume %s is not declared", name, v)
			}
		}
		for _, s := range service.Secrets {
			if file.Secrets[s].File == "" {
				t.Errorf("%s: secret %s is not declared", name, s)
			}
		}
	}
}
