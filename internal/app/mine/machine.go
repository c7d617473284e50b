package mine

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/isolation"
)

// A machine is what tests run with here: a class of sandbox, and the folders of
// compilers and packages.
type machine struct {
	language Language
	class    sandbox.Class
	mounts   []workspace.TestMount
	hidden   []string
	venv     bool
	pytest   bool
	version  string       // of the compiler or interpreter
	image    string       // the digest of the image that tests run in; "" for this machine's programs
	shown    *agent.Shown // what that is; nil for this machine's programs
	// workspace is a name for the workspace: two of them may have classes of one name.
	workspace string

	// build is the folder with packages that Go compiled; "" for other languages.
	// A writer holds the lock alone, and tests hold it together.
	build  string
	lock   sync.RWMutex
	warmed map[string]bool
}

// findMachine settles what tests of a language run with. A folder that tally.yaml
// names already comes before one that is found here.
func findMachine(ctx context.Context, c *dossier.Corpus, o *Options, l Language) (*machine, error) {
	state, err := workspace.StateDir(c.Getenv)
	if err != nil {
		return nil, err
	}
	m := &machine{language: l, workspace: nameOf(c.Dir), hidden: []string{c.Dir, state}, warmed: map[string]bool{}}
	if m.class, err = chooseSandbox(ctx, o.Sandbox); err != nil {
		return nil, err
	}
	find := map[Language]func(context.Context, *Options) error{Go: m.findGo, Python: m.findPython, Node: m.findNode}[l]
	if err := find(ctx, o); err != nil {
		return nil, err
	}
	if o.Image != "" {
		if m.shown, err = agent.ShowTests(o.Image, nil); err != nil {
			return nil, err
		}
		m.image, m.version, m.pytest = o.Image, m.version+" in "+o.Image, true
	}
	for i := range m.mounts {
		for _, known := range c.Settings.TestMounts {
			if known.Inside == m.mounts[i].Inside {
				m.mounts[i] = known
			}
		}
	}
	// Packages are compiled into a folder of our own, never into one that the
	// caller named.
	if m.build != "" && !slices.Contains(m.mounts, workspace.TestMount{Host: m.build, Inside: goBuildInside}) {
		m.build = ""
	}
	return m, nil
}

// nameOf is a short name for a folder, different for every folder.
func nameOf(dir string) string {
	d := digest.ContentOf([]byte(dir))
	return hex.EncodeToString(d[:6])
}

func chooseSandbox(ctx context.Context, wanted sandbox.Class) (sandbox.Class, error) {
	var try []sandbox.Class
	for _, c := range isolation.Classes() {
		if c.Agents && wanted == "" || c.Name == string(wanted) {
			try = append(try, sandbox.Class(c.Name))
		}
	}
	if len(try) == 0 {
		try = []sandbox.Class{wanted} // which CheckAgent refuses
	}
	var err error
	for _, class := range try {
		if err = sandbox.CheckAgent(ctx, []sandbox.Class{class}); err == nil {
			return class, nil
		}
	}
	return "", err
}

// findGo looks for the compiler, its modules and a place for compiled packages.
func (m *machine) findGo(ctx context.Context, o *Options) error {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE", "GOVERSION")
	cmd.Dir = "/" // not in a user's module
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 3 {
		return refusal.Newf(refusal.NotFound, "the repository is in Go, and there is no go command here").WithHint("install Go, and see that \"go version\" works")
	}
	cache := cmp.Or(o.Cache, lines[1])
	m.version = lines[2]
	user, err := os.UserCacheDir()
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "no place for compiled packages: %w", err)
	}
	m.build = filepath.Join(user, "tallystick", "mine", o.Class+"-"+m.workspace, "go-build")
	if err := store.MakeDir(store.OS{}, m.build, 0o755); err != nil {
		return err
	}
	m.mounts = []workspace.TestMount{{Host: lines[0], Inside: goInside}, {Host: m.build, Inside: goBuildInside}}
	if isFolder(cache) {
		m.mounts = append(m.mounts, workspace.TestMount{Host: cache, Inside: goModulesInside})
	}
	return nil
}

// findPython takes a virtual environment, with the interpreter that it links to, or
// the python3 that every sandbox has with a folder of packages or wheels, or python3
// alone.
func (m *machine) findPython(_ context.Context, o *Options) error {
	m.version = "python3 of the system"
	if o.Cache == "" {
		m.pytest = has("/usr/lib/python3*/*-packages/pytest", "/usr/local/lib/python3*/*-packages/pytest")
		return nil
	}
	m.pytest = has(o.Cache+"/lib/python3*/site-packages/pytest", o.Cache+"/pytest", o.Cache+"/pytest-*.whl")
	python, err := filepath.EvalSymlinks(filepath.Join(o.Cache, "bin", "python"))
	if err != nil {
		if !has(o.Cache+"/*.dist-info", o.Cache+"/*.whl") {
			return refusal.Newf(refusal.NotFound, "--cache %s: it is not a virtual environment, and has neither packages nor wheels", o.Cache).
				WithHint("name a folder that \"python3 -m venv\", \"pip install --target\" or \"pip download\" made")
		}
		m.mounts = []workspace.TestMount{{Host: o.Cache, Inside: packagesInside}}
		return nil
	}
	m.venv, m.version = true, filepath.Base(python)
	m.mounts = []workspace.TestMount{{Host: o.Cache, Inside: venvInside}}
	if home := filepath.Dir(filepath.Dir(python)); home != "/usr" && !strings.HasPrefix(home, "/usr/") {
		m.mounts = append(m.mounts, workspace.TestMount{Host: home, Inside: home})
	}
	return nil
}

// has reports whether a pattern of file names matches one.
func has(patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		found, _ := filepath.Glob(p)
		return len(found) > 0
	})
}

func (m *machine) findNode(ctx context.Context, o *Options) error {
	node, err := exec.LookPath("node")
	if err == nil {
		node, err = filepath.EvalSymlinks(node)
	}
	if err != nil || !strings.HasPrefix(node, "/usr/") {
		return refusal.Newf(refusal.NotFound, "the repository is for node, and no node is in /usr, which is what sandboxes show").WithHint("install node 20 or later in /usr or /usr/local")
	}
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return refusal.Newf(refusal.NotFound, "node --version: %w", err)
	}
	m.version = strings.TrimSpace(string(out))
	if o.Cache != "" {
		m.mounts = []workspace.TestMount{{Host: o.Cache, Inside: modulesInside}}
	}
	return nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// means are what a test runs with, as in a later run of the class.
func (m *machine) means() harness.TestMeans {
	t := harness.TestMeans{Accept: []sandbox.Class{m.class}, Hidden: m.hidden, Shown: m.shown}
	for _, mount := range m.mounts {
		t.Mounts = append(t.Mounts, sandbox.Mount{Host: mount.Host, Inside: mount.Inside})
	}
	return t
}

// alwaysCompiled are what every test of Go needs besides its own imports.
var alwaysCompiled = []string{"testing", "testing/internal/testdeps", "os", "reflect"}

// workInside is where a sandbox shows its working folder.
const workInside = "/work"

const warmTimeout = 20 * time.Minute

// warm compiles the packages that a task needs and that are not the repository's
// own, for all tests: in a sandbox, and no code of the repository runs there. What
// cannot be compiled is left to the test, which then says so.
func (m *machine) warm(ctx context.Context, t *task) error {
	if m.build == "" {
		return nil
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	gomod, gosum := t.file("go.mod"), t.file("go.sum")
	modules := digest.ContentOf(append(append([]byte{}, gomod...), gosum...)).String()
	var missing []string
	for _, p := range append(slices.Clone(alwaysCompiled), t.foreign...) {
		if !m.warmed[warmKey(p, modules)] {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	dir := filepath.Dir(m.build)
	src := filepath.Join(dir, "src")
	if err := store.PlantTree(src, []digest.File{{Path: "go.mod", Data: gomod}, {Path: "go.sum", Data: gosum}, {Path: "warm.sh", Data: []byte(warmScript)}}); err != nil {
		return err
	}
	o := sandbox.AgentOptions{Accept: []sandbox.Class{m.class}, Command: append([]string{"sh", "warm.sh"}, missing...), Dir: workInside + "/src", WorkFolder: dir, System: true, Hidden: m.hidden,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp"}, Limits: sandbox.AgentLimits{Timeout: warmTimeout, Files: 200_000, DiskBytes: 8 << 30}}
	for _, mount := range m.mounts {
		if mount.Inside != goBuildInside {
			o.ReadOnly = append(o.ReadOnly, sandbox.Mount{Host: mount.Host, Inside: mount.Inside})
		}
	}
	result, err := sandbox.RunAgent(ctx, o)
	if err != nil {
		return err
	}
	if result.Verdict != sandbox.OK && result.Verdict != sandbox.Failed {
		return refusal.Newf(refusal.SandboxFailed, "compiling packages for tests ended with %s: %s", result.Verdict, result.StderrHead)
	}
	for _, p := range missing {
		m.warmed[warmKey(p, modules)] = true
	}
	return nil
}

// warmKey names a compiled package: those of the standard library are the same for
// every module.
func warmKey(pkg, modules string) string {
	if isStandard(pkg) {
		return pkg
	}
	return pkg + " " + modules
}

// warmScript compiles what it can: one package that is not there must not keep the
// others from being compiled.
var warmScript = fmt.Sprintf(`export PATH=%[1]s/bin:$PATH GOROOT=%[1]s GOMODCACHE=%[2]s GOCACHE=%[3]s/go-build GOPATH=/tmp/go
export GOPROXY=off GOSUMDB=off GOVCS='*:off' GOENV=off GOWORK=off GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=0 GOTELEMETRY=off
go build "$@" || { for p in "$@"; do go build "$p"; done; }
`, goInside, goModulesInside, workInside)
