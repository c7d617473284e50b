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
	"tallystick/internal/run/sandbox/identity"
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

// A mountTable is this process's.
type mountTable []proc.Mount

func readMounts() (mountTable, error) { return proc.Mounts() }

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
		if within(m.At, resolved) && (best < 0 || len(m.At) >= len(t[best].At)) {
			best = i
		}
	}
	if best >= 0 {
		p.device = t[best].Device
		p.inner = path.Join(t[best].Root, strings.TrimPrefix(resolved, t[best].At))
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
		one := mount{host: p.path, inside: m.Inside, folder: info.IsDir(), writable: writable}
		if is, known := o.Expect[m.Host]; known {
			one.is = &is
			if err := one.check(p.path); err != nil {
				return err
			}
		}
		mounts = append(mounts, one)
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
	if o.Tree != "" {
		entries, err := os.ReadDir(o.WorkFolder)
		if err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "looking at %s: %w", o.Tree, err)
		}
		for _, e := range entries {
			inside := "/" + e.Name()
			if !e.IsDir() || inside != "/etc" && filledByUs(inside) {
				continue
			}
			if err := add(Mount{Host: filepath.Join(o.WorkFolder, e.Name()), Inside: inside}, true); err != nil {
				return nil, err
			}
		}
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
	if o.Image != nil {
		shown, err := o.imageMounts()
		if err != nil {
			return nil, err
		}
		for _, m := range shown {
			if err := add(m, false); err != nil {
				return nil, err
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

// imageMounts are the image's folders and files, each at its place. Those that the
// sandbox fills itself are left out, /etc is copied, and links and empty folders are
// made: see layOutImage.
func (o *AgentOptions) imageMounts() ([]Mount, error) {
	entries, err := os.ReadDir(o.Image.Root())
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "image %s: %w", o.Image.Digest, err)
	}
	var mounts []Mount
	for _, e := range entries {
		host, inside := filepath.Join(o.Image.Root(), e.Name()), "/"+e.Name()
		if e.Type()&fs.ModeSymlink != 0 || filledByUs(inside) || e.IsDir() && isEmpty(host) {
			continue
		}
		mounts = append(mounts, Mount{Host: host, Inside: inside, Within: o.Image.Root()})
	}
	return mounts, nil
}

// filledByUs reports whether a folder of the root is the sandbox's own.
func filledByUs(inside string) bool {
	return inside == "/tmp" || slices.Contains(reservedFolders, inside)
}

func isEmpty(dir string) bool {
	names, err := os.ReadDir(dir)
	return err == nil && len(names) == 0
}

// check refuses if at the path of a mount is not what is expected.
func (m *mount) check(at string) error { return checkPlace(at, m.host, m.is) }

func checkPlace(at, host string, is *identity.ID) error {
	err := identity.Expect(at, is)
	if err == nil {
		return nil
	}
	return refusal.Newf(refusal.ShownChanged, "mount %s: %w", host, refusal.WithoutPath(err)).
		WithHint("leave what the agent is shown alone while an attempt runs, and start a new one")
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
		if e.At != p.path && within(p.path, e.At) {
			shown = append(shown, place{path: e.At, device: e.Device, inner: e.Root})
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
