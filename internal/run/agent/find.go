package agent

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// isEnvironment reports whether a folder is an environment of Python: venv,
// virtualenv, uv and poetry leave pyvenv.cfg in theirs, conda conda-meta.
func isEnvironment(dir string) bool {
	return exists(filepath.Join(dir, "bin", "python")) && (exists(filepath.Join(dir, "pyvenv.cfg")) || exists(filepath.Join(dir, "conda-meta")))
}

// findVenv finds the environment of an agent and how a target names it: in the
// repository, else the active one, else that of poetry or pyenv for this project.
// "" means that there is none.
func (d *drafting) findVenv(from string) (string, error) {
	for dir := from; ; dir = filepath.Dir(dir) {
		for _, name := range []string{".venv", "venv", "env"} {
			if env := filepath.Join(dir, name); isEnvironment(env) {
				return d.short(env)
			}
		}
		if dir == d.top || dir == filepath.Dir(dir) {
			break
		}
	}
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		env := d.Getenv(variable)
		if env == "" || !exists(filepath.Join(env, "bin", "python")) {
			continue
		}
		if within(d.top, filepath.Clean(env)) {
			return d.short(filepath.Clean(env))
		}
		d.note("the environment is $%s, which is %s now: each operator who runs this activates their own first", variable, env)
		return "$" + variable, nil
	}
	for _, find := range []func() string{d.poetry, d.pyenv} {
		if env := find(); env != "" {
			d.note("the environment %s is outside the repository, so the target works on this machine only. Make one inside: python3 -m venv .venv", env)
			return env, nil
		}
	}
	d.missing()
	return "", nil
}

// missing says how to get an environment, by what the project uses.
func (d *drafting) missing() {
	switch {
	case exists(filepath.Join(d.top, "uv.lock")):
		d.note("no environment was found, and uv.lock is here: run \"uv sync\", then add the line \"venv: .venv\" to the target")
	case d.usesPoetry():
		d.note("poetry's environment was not found: \"poetry env info --path\" prints it; add it to the target as \"venv: PATH\"")
	case exists(filepath.Join(d.top, "requirements.txt")) || exists(filepath.Join(d.top, "pyproject.toml")):
		d.note("no environment was found, so the agent runs on the system's Python: make one with \"python3 -m venv .venv && .venv/bin/pip install …\", then add the line \"venv: .venv\" to the target")
	}
}

func (d *drafting) usesPoetry() bool {
	text, err := store.ReadFile(store.OS{}, filepath.Join(d.top, "pyproject.toml"), maxSourceBytes)
	return err == nil && strings.Contains(string(text), "[tool.poetry") || exists(filepath.Join(d.top, "poetry.lock"))
}

var projectName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^name[ \t]*=[ \t]*["']([^"']+)["']`)
})

// poetry is the environment that poetry keeps for the project in its cache: its
// name has that of the project and a hash of the project's path.
func (d *drafting) poetry() string {
	text, err := store.ReadFile(store.OS{}, filepath.Join(d.top, "pyproject.toml"), maxSourceBytes)
	name := projectName().FindSubmatch(text)
	if err != nil || !d.usesPoetry() || name == nil {
		return ""
	}
	home := d.Getenv("HOME")
	cache := d.Getenv("POETRY_VIRTUALENVS_PATH")
	if cache == "" {
		cache = filepath.Join(firstOf(d.Getenv("POETRY_CACHE_DIR"), filepath.Join(firstOf(d.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "pypoetry")), "virtualenvs")
	}
	found, _ := filepath.Glob(filepath.Join(cache, strings.ToLower(string(name[1]))+"-"+poetryHash(d.top)+"-py*"))
	for _, env := range found {
		if isEnvironment(env) {
			return env
		}
	}
	return ""
}

func poetryHash(project string) string {
	if real, err := filepath.EvalSymlinks(project); err == nil {
		project = real
	}
	sum := sha256.Sum256([]byte(project))
	return base64.URLEncoding.EncodeToString(sum[:])[:8]
}

// pyenv is the version that .python-version names, in pyenv's folder.
func (d *drafting) pyenv() string {
	text, err := store.ReadFile(store.OS{}, filepath.Join(d.top, ".python-version"), maxSourceBytes)
	version := strings.TrimSpace(strings.SplitN(string(text), "\n", 2)[0])
	if err != nil || version == "" || strings.ContainsAny(version, "/\\") || strings.HasPrefix(version, ".") {
		return ""
	}
	env := filepath.Join(firstOf(d.Getenv("PYENV_ROOT"), filepath.Join(d.Getenv("HOME"), ".pyenv")), "versions", version)
	if !exists(filepath.Join(env, "bin", "python")) {
		return ""
	}
	return env
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// node is an agent in TypeScript or JavaScript.
func (d *drafting) node(name string) (string, error) {
	file, err := d.entry(name, "agent.ts", "agent.mjs", "agent.js", "index.ts", "index.mjs", "index.js", "main.ts", "main.mjs", "main.js")
	if err != nil {
		return "", err
	}
	top := filepath.Dir(file)
	modules := ""
	for dir := top; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "node_modules")) {
			modules = filepath.Join(dir, "node_modules")
			d.modules, err = d.short(modules)
			break
		}
		if dir == d.top || dir == filepath.Dir(dir) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	if exists(filepath.Join(top, "package.json")) {
		// It says what kind of module the file is, so it has to be there.
		d.source, err = d.folder(top)
	} else {
		d.source, err = d.sourceOf(file, top, nodeImports(), func(string) bool { return false })
	}
	if err != nil {
		return "", err
	}
	d.command, err = runnerOf(filepath.Base(file), modules)
	return stemOf(file, top), err
}

// runnerOf is how a file is started: by node, which reads TypeScript from 22.6
// on, or by tsx.
func runnerOf(file, modules string) ([]string, error) {
	inside := path.Join(filesInside, file)
	switch filepath.Ext(file) {
	case ".ts", ".mts", ".cts", ".tsx":
	default:
		return []string{"node", inside}, nil
	}
	if modules != "" && exists(filepath.Join(modules, ".bin", "tsx")) {
		return []string{"node", path.Join(modulesInside, "tsx", "dist", "cli.mjs"), inside}, nil
	}
	major, minor := nodeVersion()
	if major > 22 || major == 22 && minor >= 6 {
		return []string{"node", "--experimental-strip-types", inside}, nil
	}
	return nil, refusal.Newf(refusal.NotFound, "--agent: nothing here runs %s: node is %d.%d, and it reads TypeScript from 22.6 on", file, major, minor).
		WithHint("npm install --save-dev tsx, and try again; or name the compiled file")
}

// nodeVersion asks node; zero if there is none.
func nodeVersion() (major, minor int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err == nil {
		fmt.Sscanf(string(out), "v%d.%d", &major, &minor)
	}
	return major, minor
}
