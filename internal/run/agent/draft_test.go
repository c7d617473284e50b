package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// A repo is a person's repository, with files by path; a name that ends in a
// slash is a folder, and one with an arrow a link.
func repo(t *testing.T, files ...string) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, ".git/") {
		name, text, _ := strings.Cut(f, "=")
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestDraftOfAnAgentThatIsThere(t *testing.T) {
	t.Parallel()
	env := []string{".venv/pyvenv.cfg", ".venv/bin/python"}
	for _, tt := range []struct {
		name   string
		files  []string
		agent  string
		in     string // folder of the workspace
		getenv map[string]string
		target string
		want   []string // lines
		notes  string
	}{
		{"a file with an environment", append(env, "agent.py=import os\n"), "python:agent.py", "", nil, "agent",
			[]string{"command: [python, /agent/agent.py]", "source: agent.py", "venv: .venv"}, ""},
		{"the workspace in a folder of its own", append(env, "agent.py=import os\n"), "python:agent.py", "evals", nil, "agent",
			[]string{"source: agent.py", "venv: .venv"}, ""},
		{"a function of the package tallystick", append(env, "agent.py=from tallystick import agent\n@agent\ndef f(text): pass\n"), "python:agent.py", "", nil, "agent",
			[]string{`command: [python, "-m", tallystick, /agent/agent.py]`}, ""},
		{"a decorator of another package", append(env, "agent.py=from other import agent\n@agent\ndef f(text): pass\n"), "python:agent.py", "", nil, "agent",
			[]string{"command: [python, /agent/agent.py]"}, ""},
		{"what it imports lies beside it", append(env, "bot/agent.py=from tools import x\n", "bot/tools.py"), "python:bot/agent.py", "", nil, "agent",
			[]string{"command: [python, /agent/agent.py]", "source: bot"}, ""},
		{"a module of a package", append(env, "src/shop/__init__.py", "src/shop/main.py=from . import y\n"), "python:src/shop/main.py", "", nil, "shop",
			[]string{`command: [python, "-m", shop.main]`, "source: src", "env: {PYTHONPATH: /agent}"}, ""},
		{"a folder", append(env, "bot/main.py=import os\n"), "python:bot", "", nil, "bot",
			[]string{"command: [python, /agent/main.py]", "source: bot/main.py"}, ""},
		{"the system's Python", []string{"My Agent.py=import os\n", "requirements.txt"}, "python:My Agent.py", "", nil, "my-agent",
			[]string{`command: [python3, "/agent/My Agent.py"]`, `source: "My Agent.py"`}, "python3 -m venv .venv"},
		{"the active environment", []string{"a.py=", "elsewhere/bin/python"}, "python:a.py", "", map[string]string{"VIRTUAL_ENV": "TOP/elsewhere"}, "a",
			[]string{"venv: elsewhere"}, ""},
		{"conda, outside", []string{"a.py="}, "python:a.py", "", map[string]string{"CONDA_PREFIX": "OUT"}, "a",
			[]string{`venv: "$CONDA_PREFIX"`}, "$CONDA_PREFIX"},
		{"pyenv", []string{"a.py=", ".python-version=3.9.9\n", "pyenv/versions/3.9.9/bin/python"}, "python:a.py", "", map[string]string{"PYENV_ROOT": "TOP/pyenv"}, "a",
			[]string{"pyenv/versions/3.9.9"}, "outside the repository"},
		{"poetry without an environment", []string{"a.py=", "pyproject.toml=[tool.poetry]\nname = \"shop\"\n"}, "python:a.py", "", nil, "a",
			[]string{"command: [python3, /agent/a.py]"}, "poetry env info --path"},
		{"uv before it is synced", []string{"a.py=", "uv.lock="}, "python:a.py", "", nil, "a", nil, "uv sync"},
		{"JavaScript with packages", []string{"agent.mjs=import x from 'openai'\n", "node_modules/openai/index.js"}, "typescript:agent.mjs", "", nil, "agent",
			[]string{"command: [node, /agent/agent.mjs]", "source: agent.mjs", "node_modules: node_modules"}, ""},
		{"TypeScript with tsx", []string{"src/agent.ts=import './x'\n", "node_modules/.bin/tsx"}, "typescript:src/agent.ts", "", nil, "agent",
			[]string{"command: [node, /node_modules/tsx/dist/cli.mjs, /agent/agent.ts]", "source: src"}, ""},
		{"any command", []string{"agent.rb="}, "command:ruby agent.rb --fast", "", nil, "agent",
			[]string{`command: [ruby, /agent/agent.rb, "--fast"]`, "source: agent.rb"}, ""},
		{"a URL", nil, "http:http://127.0.0.1:8080/turn", "", nil, "agent", []string{`http: {url: "http://127.0.0.1:8080/turn"}`}, ""},
		{"a URL as it is", nil, "http://127.0.0.1:8080/turn", "", nil, "agent", []string{"kind: http"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := repo(t, tt.files...)
			out := repo(t, "bin/python")
			fix := strings.NewReplacer("TOP", top, "OUT", out)
			d, err := NewDraft(DraftOptions{Agent: tt.agent, Root: filepath.Join(top, tt.in), Here: top, Getenv: func(name string) string { return fix.Replace(tt.getenv[name]) }})
			if err != nil {
				t.Fatal(err)
			}
			if d.Name != tt.target {
				t.Errorf("named %s", d.Name)
			}
			for _, line := range tt.want {
				if !strings.Contains(string(d.YAML), line) {
					t.Errorf("there is no %q in\n%s", line, d.YAML)
				}
			}
			if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, tt.notes) || tt.notes == "" && notes != "" {
				t.Errorf("notes: %q", notes)
			}
		})
	}
}

// Poetry names an environment after the project and a hash of its path.
func TestDraftFindsPoetrysEnvironment(t *testing.T) {
	t.Parallel()
	top := repo(t, "a.py=", "pyproject.toml=[tool.poetry]\nname = \"Shop\"\n")
	d := &drafting{DraftOptions: DraftOptions{Root: top, Here: top}, top: top}
	cache := t.TempDir()
	d.Getenv = func(name string) string { return map[string]string{"POETRY_VIRTUALENVS_PATH": cache}[name] }
	other := filepath.Join(cache, "shop-AAAAAAAA-py3.11")
	for _, dir := range []string{other, filepath.Join(cache, "shop-"+poetryHash(top)+"-py3.11")} {
		if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"pyvenv.cfg", "bin/python"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if env := d.poetry(); env == "" || env == other {
		t.Errorf("found %q", env)
	}
}

func TestDraftsRefused(t *testing.T) {
	t.Parallel()
	top, out := repo(t, "agent.py=", "empty/"), repo(t, "agent.py=")
	for _, tt := range []struct {
		agent string
		name  refusal.Name
		want  string
	}{
		{"agent.py", refusal.Usage, "expected python:PATH"},
		{"perl:agent.pl", refusal.Usage, "expected python:PATH"},
		{"python:", refusal.Usage, "expected python:PATH"},
		{"python:agnet.py", refusal.NotFound, "there is no file"},
		{"python:empty", refusal.NotFound, "has none of __main__.py"},
		{"python:" + filepath.Join(out, "agent.py"), refusal.Usage, "is not in " + top},
		{"http://example.com/turn", refusal.Usage, "use https://"},
		{"http:ftp://example.com", refusal.Usage, "expected http:// or https://"},
	} {
		_, err := NewDraft(DraftOptions{Agent: tt.agent, Root: top, Here: top, Getenv: func(string) string { return "" }})
		if !refusal.Is(err, tt.name) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.agent, err)
		}
	}
}
