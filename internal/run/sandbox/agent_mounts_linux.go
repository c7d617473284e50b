package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/proc"
	"tallystick/internal/run/sandbox/runfolder"
)

// A place is where a file or folder really is: its path after links, and
// which part of which file system that is. The second stays the same however
// often a folder is mounted elsewhere.
type place struct {
	path   string
	device string // major:minor
	inner  string // path from the file system's own root
}

// holds reports whether q is p or below it.
func (p place) holds(q place) bool {
	return within(p.path, q.path) || p.device == q.device && p.device != "" && within(p.inner, q.inner)
}

func within(dir, name string) bool {
	return dir == name || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// A mountTable is this process's /proc/self/mountinfo.
type mountTable []mountEntry

type mountEntry struct{ device, root, at string }

func readMounts() (mountTable, error) {
	var table mountTable
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	err := proc.EachLine("/proc/self/mountinfo", func(line string) {
		if f := strings.Fields(line); len(f) > 5 {
			table = append(table, mountEntry{f[2], unescape.Replace(f[3]), unescape.Replace(f[4])})
		}
	})
	return table, err
}

// placeOf finds a file. What does not exist is judged by where it would be.
func (t mountTable) placeOf(name string) (place, error) {
	resolved, err := resolve(name)
	if err != nil {
		return place{}, err
	}
	p := place{path: resolved}
	// A later mount at or above a path covers an earlier one.
	best := -1
	for i, m := range t {
		if within(m.at, resolved) && (best < 0 || len(m.at) >= len(t[best].at)) {
			best = i
		}
	}
	if best >= 0 {
		p.device = t[best].device
		p.inner = path.Join(t[best].root, strings.TrimPrefix(resolved, t[best].at))
	}
	return p, nil
}

// resolve follows links, as far as the path exists.
func resolve(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) && abs != "/" {
		parent, err := resolve(filepath.Dir(abs))
		return filepath.Join(parent, filepath.Base(abs)), err
	}
	return resolved, err
}

// systemFolders are the host's programs and libraries. Where one is a link,
// the link is made inside instead.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives"}

// reservedFolders are ours to fill. Below /tmp a mount may be made.
var reservedFolders = []string{"/proc", "/sys", "/dev", "/etc", workDir, "/" + firstprocess.ProgramDir}

// neverShown is hidden from every agent: where the host's kernel shows itself,
// and where its services keep the sockets through which they take orders.
var neverShown = []string{"/proc", "/sys", "/dev", "/run"}

// checkMounts decides what the agent will see, and refuses a mount that would
// show it what is hidden.
func (o *AgentOptions) checkMounts(base *runfolder.Base) ([]mount, error) {
	table, err := readMounts()
	if err != nil {
		return nil, refusal.Newf(refusal.SandboxFailed, "reading the mount table: %w", err)
	}
	var hidden []place
	for _, h := range slices.Concat(o.Hidden, neverShown, []string{base.Dir}) {
		p, err := table.placeOf(h)
		if err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "looking at hidden folder %s: %w", h, err)
		}
		hidden = append(hidden, p)
	}
	var mounts []mount
	add := func(m Mount, writable bool) error {
		p, err := table.placeOf(m.Host)
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "looking at mount %s: %w", m.Host, err)
		}
		info, err := os.Stat(p.path)
		if err != nil {
			return refusal.Newf(refusal.NotFound, "mount %s: %w", m.Host, err)
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return refusal.Newf(refusal.Usage, "mount %s: neither a file nor a folder", m.Host)
		}
		if err := table.checkHidden(m, p, hidden, writable); err != nil {
			return err
		}
		mounts = append(mounts, mount{host: p.path, inside: m.Inside, folder: info.IsDir(), writable: writable})
		return nil
	}

	if o.WorkFolder != "" {
		if err := add(Mount{Host: o.WorkFolder, Inside: workDir}, true); err != nil {
			return nil, err
		}
		if !mounts[0].folder {
			return nil, refusal.Newf(refusal.Usage, "working folder %s: not a folder", o.WorkFolder)
		}
		o.WorkFolder = mounts[0].host
	}
	if o.System {
		for _, dir := range systemFolders {
			if info, err := os.Lstat(dir); err == nil && info.IsDir() {
				if err := add(Mount{Host: dir, Inside: dir}, false); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, m := range o.ReadOnly {
		if m.Inside == "" {
			m.Inside = m.Host
		}
		if m.Inside = path.Clean(m.Inside); !path.IsAbs(m.Inside) || m.Inside == "/" || m.Inside == "/tmp" {
			return nil, refusal.Newf(refusal.Usage, "mount %s: it cannot appear at %q", m.Host, m.Inside).
				WithHint("name an absolute path below /")
		}
		for _, r := range reservedFolders {
			if within(r, m.Inside) {
				return nil, refusal.Newf(refusal.Usage, "mount %s: %s is the sandbox's own", m.Host, r).
					WithHint("let it appear elsewhere")
			}
		}
		seen, err := shownAlready(m, mounts)
		if err != nil {
			return nil, err
		}
		if !seen {
			if err := add(m, false); err != nil {
				return nil, err
			}
		}
	}
	return mounts, nil
}

// shownAlready reports whether an earlier mount shows the same thing at the
// same path. Two mounts that overlap otherwise are refused: one of them would
// be covered.
func shownAlready(m Mount, mounts []mount) (bool, error) {
	host, err := resolve(m.Host)
	if err != nil {
		return false, refusal.Newf(refusal.Unreadable, "looking at mount %s: %w", m.Host, err)
	}
	for _, other := range mounts {
		switch {
		case within(other.inside, m.Inside) && host == path.Join(other.host, strings.TrimPrefix(m.Inside, other.inside)):
			return true, nil
		case within(other.inside, m.Inside) || within(m.Inside, other.inside):
			return false, refusal.Newf(refusal.Usage, "mount %s: at %s it would overlap with %s", m.Host, m.Inside, other.inside).
				WithHint("let it appear elsewhere")
		}
	}
	return false, nil
}

// checkHidden compares a mount with every hidden folder, and so each further
// file system that is mounted below it: that comes along.
func (t mountTable) checkHidden(m Mount, p place, hidden []place, inHiddenIsFine bool) error {
	var excepted place
	if m.Within != "" {
		var err error
		if excepted, err = t.placeOf(m.Within); err != nil {
			return refusal.Newf(refusal.Unreadable, "looking at %s: %w", m.Within, err)
		}
		if !excepted.holds(p) {
			return refusal.Newf(refusal.Usage, "mount %s: it leads to %s, outside %s", m.Host, p.path, excepted.path).
				WithHint("only what lies in that folder can be shown from there")
		}
	}
	shown := []place{p}
	for _, e := range t {
		if e.at != p.path && within(p.path, e.at) {
			shown = append(shown, place{path: e.at, device: e.device, inner: e.root})
		}
	}
	for _, s := range shown {
		for _, h := range hidden {
			if s.holds(h) {
				return refusal.Newf(refusal.Usage, "mount %s: it would show %s, which is hidden from agents", m.Host, h.path).
					WithHint("mount a folder beside it")
			}
			inside := h.holds(s)
			if inside && s.path == p.path && (inHiddenIsFine || m.Within != "" && h.holds(excepted)) {
				continue
			}
			if inside {
				return refusal.Newf(refusal.Usage, "mount %s: %s lies in %s, which is hidden from agents", m.Host, s.path, h.path).
					WithHint("move what the agent needs elsewhere")
			}
		}
	}
	return nil
}

// hiddenNames are the spellings under which an agent might try to reach what
// is hidden.
func (o *AgentOptions) hiddenNames() []string {
	names := []string{"/root", "/home"}
	if home, err := os.UserHomeDir(); err == nil && isHome(home) {
		names = append(names, home)
	}
	for _, h := range o.Hidden {
		abs, err := filepath.Abs(h)
		if err != nil {
			continue
		}
		names = append(names, abs)
		if r, err := resolve(h); err == nil && r != abs {
			names = append(names, r)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isHome reports whether a folder that the environment calls home is one of its
// own, and not a part of what every agent sees.
func isHome(dir string) bool {
	return path.IsAbs(dir) && path.Clean(dir) != "/" && !slices.ContainsFunc(slices.Concat(systemFolders, reservedFolders, []string{"/tmp"}), func(shown string) bool {
		return within(shown, dir) || within(dir, shown)
	})
}
