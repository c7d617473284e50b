package lab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
)

// A tryView decides what the program of a try may see: the folder in which its
// files are, and never a workspace's answers and keys or a person's credentials.
type tryView struct{ hidden []string }

// credentials are the files and folders of a home folder that open doors.
var credentials = []string{".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/op", ".config/tallystick",
	".netrc", ".git-credentials", ".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".password-store", ".pgpass", ".vault-token",
	".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium", "Library/Keychains"}

// giveaways are names below a folder that say that it is not one to be shown:
// that of a workspace, of credentials, of a private key.
var giveaways = []string{workspace.SettingsFile, workspace.PrivateDir, ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".git-credentials", ".netrc",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}

// passedOver are folders of a program's own, in which users keep no keys and
// which have more files than the rest together.
var passedOver = []string{"node_modules", ".git", ".venv", "venv", "site-packages", "__pycache__", ".tox", "target", "vendor"}

// maxLooked bounds the search. A folder with more is not shown as a whole.
const maxLooked = 200_000

// newTryView looks around the current folder.
func newTryView(here string, getenv func(string) string) *tryView {
	v := &tryView{hidden: workspacesAround(resolved(here))}
	if state, err := workspace.StateDir(getenv); err == nil {
		v.hidden = append(v.hidden, resolved(state))
	}
	own, _ := os.UserHomeDir()
	for _, home := range []string{getenv("HOME"), own} {
		if !filepath.IsAbs(home) || filepath.Clean(home) == "/" {
			continue
		}
		for _, name := range credentials {
			v.hidden = append(v.hidden, filepath.Join(resolved(home), name))
		}
	}
	slices.Sort(v.hidden)
	v.hidden = slices.Compact(v.hidden)
	return v
}

// workspacesAround lists the workspaces that a path, without links in it, is or
// lies in, the innermost first.
func workspacesAround(path string) (found []string) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if workspace.Exists(filepath.Join(dir, workspace.SettingsFile)) || workspace.Exists(filepath.Join(dir, workspace.PrivateDir)) {
			found = append(found, dir)
		}
		if dir == filepath.Dir(dir) {
			return found
		}
	}
}

// resolved follows links, as far as the path exists.
func resolved(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

func holds(dir, path string) bool {
	return dir == path || dir == "/" || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// harmless reports whether a whole folder may be shown.
func (v *tryView) harmless(dir string) bool {
	dir = resolved(dir)
	if slices.ContainsFunc(v.hidden, func(h string) bool { return holds(dir, h) || holds(h, dir) }) || len(workspacesAround(dir)) > 0 {
		return false
	}
	if slices.ContainsFunc(strings.Split(dir, string(filepath.Separator)), func(part string) bool { return slices.Contains(giveaways, part) }) {
		return false
	}
	looked := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if looked++; looked > maxLooked || path != dir && slices.Contains(giveaways, d.Name()) {
			return errGiveaway
		}
		if err == nil && d.IsDir() && path != dir && slices.Contains(passedOver, d.Name()) {
			return fs.SkipDir
		}
		return nil // what we cannot read, the program cannot either
	})
	return err == nil
}

var errGiveaway = errors.New("not a folder to be shown")

// mounts shows the current folder, or if that holds what must not be seen, what
// of it the command line names.
func (v *tryView) mounts(here string, named []string, note func(format string, args ...any)) []agent.CommandMount {
	if v.harmless(here) {
		return []agent.CommandMount{{Host: here}}
	}
	var shown []agent.CommandMount
	var words []string
	for _, path := range named {
		if m, ok := v.part(path); ok && !slices.Contains(shown, m) {
			shown = append(shown, m)
			words = append(words, m.Host)
		}
	}
	sees := "nothing of this folder"
	if len(words) > 0 {
		sees = "only " + strings.Join(words, ", ") + " of this folder"
	}
	note("the program sees %s, in which there are keys or the answers of a bench: run it in a folder of its own, or name what else it needs with --mount", sees)
	return shown
}

// part finds what to show of a file or folder that the command line names: the
// folder that it is in, or itself alone.
func (v *tryView) part(path string) (agent.CommandMount, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return agent.CommandMount{}, false
	}
	dir := path
	if !info.IsDir() {
		dir = filepath.Dir(path)
	}
	if v.harmless(dir) {
		return agent.CommandMount{Host: dir}, true
	}
	real := resolved(path)
	if around := workspacesAround(real); len(around) > 0 {
		return ofWorkspace(around[0], path, dir, info)
	}
	secret := slices.ContainsFunc(v.hidden, func(h string) bool { return holds(h, real) }) || slices.Contains(giveaways, filepath.Base(real))
	return agent.CommandMount{Host: path}, info.Mode().IsRegular() && !secret
}

// ofWorkspace finds what to show of a workspace: what is in its targets folder,
// and programs that lie beside it. The rest are answers, keys and settings.
func ofWorkspace(around, path, dir string, info fs.FileInfo) (agent.CommandMount, bool) {
	targets := filepath.Join(around, agent.TargetsDir)
	if in := resolved(dir); in != targets && holds(targets, in) {
		return agent.CommandMount{Host: dir, Within: targets}, true
	}
	real := resolved(path)
	beside := filepath.Dir(real) == around || filepath.Dir(real) == targets
	isProgram := !slices.Contains([]string{".yaml", ".yml", ".pem", ".key"}, filepath.Ext(real)) && !strings.HasPrefix(filepath.Base(real), ".")
	return agent.CommandMount{Host: path, Within: real}, info.Mode().IsRegular() && beside && isProgram
}
