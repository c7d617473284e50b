package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
)

// maxCarriedBytes bounds the folders of a target that travel, together.
const maxCarriedBytes = 2 << 30

// A FolderKind says what a target needs a folder for.
type FolderKind string

// The kinds of folders, in the order in which a target lists them: its mounts, its
// environment of Python, the folders of that one's interpreter, its packages of node.
const (
	MountFolder       FolderKind = "mount"
	VenvFolder        FolderKind = "venv"
	InterpreterFolder FolderKind = "interpreter"
	ModulesFolder     FolderKind = "node_modules"
)

// A CarriedFolder is a folder that a target needs, or a single file, by digest.
type CarriedFolder struct {
	Kind   FolderKind     `json:"kind"`
	Inside string         `json:"inside"` // where the program finds it
	Host   string         `json:"host"`   // where it was
	Digest digest.Content `json:"digest"` // of all of it, as [DigestMount] has it
	List   digest.Content `json:"list"`   // of its list, a piece
	Bytes  int64          `json:"bytes"`  // of its files

	made string // where it was, of one that has come
}

// An Interpreter is what the Python of an environment leads to, on this machine.
type Interpreter struct {
	Path   string         `json:"path"`
	Digest digest.Content `json:"digest"`
}

// A FolderSource gives the bytes of the files of a folder that travels, one after the
// other in the order of its list.
type FolderSource struct {
	real  string
	list  []store.Listed
	ends  []int64 // where the bytes of each entry end
	Bytes int64
}

// listFolder lists a folder and digests it on the way.
func listFolder(host string) (*FolderSource, digest.Content, error) {
	s := &FolderSource{}
	d, err := walkMount(host, func(real, rel string, e fs.DirEntry) error {
		s.real = real
		one := store.Listed{Path: store.EscapePath(filepath.ToSlash(rel)), Kind: store.FileEntry}
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.IsDir():
			one.Kind = store.FolderEntry
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(filepath.Join(real, rel))
			if err != nil {
				return err
			}
			one.Kind, one.To = store.LinkEntry, store.EscapePath(to)
		default:
			one.Executable, one.Size, one.Modified = info.Mode()&0o111 != 0, info.Size(), info.ModTime().Unix()
		}
		if s.Bytes += one.Size; s.Bytes > maxCarriedBytes {
			return refusal.Newf(refusal.TooLarge, "it has more than %d bytes", int64(maxCarriedBytes))
		}
		s.list, s.ends = append(s.list, one), append(s.ends, s.Bytes)
		return nil
	})
	return s, d, err
}

// ReadAt reads the bytes of the files. A file that is not as it was listed is noticed
// where the folder is made again.
func (s *FolderSource) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off < s.Bytes {
		i := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > off })
		got, err := s.readFile(i, p[n:], off-(s.ends[i]-s.list[i].Size))
		n, off = n+got, off+int64(got)
		if err != nil {
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (s *FolderSource) readFile(i int, p []byte, at int64) (int, error) {
	name, _ := store.UnescapePath(s.list[i].Path)
	f, err := store.Open(filepath.Join(s.real, filepath.FromSlash(name)))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(p[:min(int64(len(p)), s.list[i].Size-at)], at)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// carryFolders lists the folders that a target needs, with their digests.
func (t *Target) carryFolders(put func([]byte) digest.Content) (all []CarriedFolder, sources map[digest.Content]*FolderSource, err error) {
	sources = map[digest.Content]*FolderSource{}
	total := int64(0)
	for _, f := range t.folders() {
		source, d, err := listFolder(f.Host)
		if err != nil {
			name := refusal.Usage
			if refusal.Is(err, refusal.TooLarge) {
				name = refusal.TooLarge
			}
			return nil, nil, refusal.Newf(name, "target %s: %s %s cannot travel to workers: %w", t.Name, f.Kind, f.Host, err).
				WithHint("leave out of it what the agent does not need, or run it on this machine")
		}
		if total += source.Bytes; total > maxCarriedBytes {
			return nil, nil, refusal.Newf(refusal.TooLarge, "target %s: the folders that it needs have more than %d bytes; %s %s has %d", t.Name, int64(maxCarriedBytes), f.Kind, f.Host, source.Bytes).
				WithHint("leave out of it what the agent does not need, or run it on this machine")
		}
		text, err := canon.Marshal(source.list)
		if err != nil {
			return nil, nil, err
		}
		f.Digest, f.List, f.Bytes = d, put(text), source.Bytes
		sources[f.List] = source
		all = append(all, f)
	}
	return all, sources, nil
}

// folders are those that a target needs of this machine, without their digests.
func (t *Target) folders() (all []CarriedFolder) {
	if t.Command == nil {
		return nil
	}
	for i, m := range t.Command.Mounts {
		inside := m.Inside
		if inside == "" {
			inside = m.Host
		}
		all = append(all, CarriedFolder{Kind: MountFolder, Inside: inside, Host: t.mountHost(i)})
	}
	if t.venv != nil {
		all = append(all, CarriedFolder{Kind: VenvFolder, Inside: venvInside, Host: t.venv.dir})
		for _, m := range t.venv.prefixes {
			all = append(all, CarriedFolder{Kind: InterpreterFolder, Inside: m.Inside, Host: m.Host})
		}
	}
	if t.modules != nil {
		all = append(all, CarriedFolder{Kind: ModulesFolder, Inside: modulesInside, Host: t.modules.dir})
	}
	return all
}

// interpreter is what the Python of an environment leads to; nil if that is in one of
// the folders that travel with it.
func (v *venv) interpreter() (*Interpreter, error) {
	inside, err := v.resolve()
	if err != nil || v.carries(inside) {
		return nil, err
	}
	d, err := digestFile(inside)
	return &Interpreter{Path: inside, Digest: d}, err
}

// carries reports whether a path inside is in a folder of the environment.
func (v *venv) carries(inside string) bool {
	for _, m := range v.mounts() {
		if within(m.Inside, inside) {
			return true
		}
	}
	return false
}

// resolve follows bin/python as the program in the sandbox will, and gives the path
// inside that it ends at.
func (v *venv) resolve() (string, error) {
	at := venvInside + "/bin/python"
	for range maxHops {
		to, isLink, err := v.readlink(at)
		if err != nil {
			return "", refusal.Newf(refusal.NotFound, "the environment's python leads to %s: %w", at, refusal.WithoutPath(err))
		}
		if !isLink {
			return at, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		at = filepath.Clean(to)
		if within(v.madeIn(), at) && !v.carries(at) {
			at = venvInside + at[len(v.madeIn()):]
		}
	}
	return "", refusal.Newf(refusal.Malformed, "the environment's python leads through more than %d links", maxHops)
}

// readlink looks at a path inside. Folders that travelled are looked at through a root:
// a link in them means a path inside, and not one of this machine.
func (v *venv) readlink(inside string) (to string, isLink bool, err error) {
	for _, m := range v.mounts() {
		if !within(m.Inside, inside) {
			continue
		}
		root, err := os.OpenRoot(m.Host)
		if err != nil {
			return "", false, err
		}
		defer root.Close()
		rel, err := filepath.Rel(m.Inside, inside)
		if err != nil {
			return "", false, err
		}
		info, err := root.Lstat(rel)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return "", false, err
		}
		to, err = root.Readlink(rel)
		return to, true, err
	}
	if !within("/usr", inside) && !within("/bin", inside) {
		return "", false, errors.New("it is neither in the folders that come with the environment nor in /usr")
	}
	info, err := os.Lstat(inside)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", false, err
	}
	to, err = os.Readlink(inside)
	return to, true, err
}

func digestFile(name string) (digest.Content, error) {
	f, err := store.Open(name)
	if err != nil {
		return digest.Content{}, err
	}
	defer f.Close()
	d, _, err := digest.ContentOfReader(f)
	return d, err
}

// place gives a target that was carried the folders that were unpacked for it. Each is
// digested again, and so is what the target's own digest says of it.
func (t *Target) place(c *Carried, unpack func(CarriedFolder) (string, error)) error {
	if t.Command == nil {
		return nil
	}
	var left []CarriedFolder
	for _, f := range c.Folders {
		dir, err := unpack(f)
		if err != nil {
			return err
		}
		if got, err := DigestMount(dir); err != nil || got != f.Digest {
			return refusal.Newf(refusal.DigestMismatch, "%.20s %.200s of target %.100q is %s, expected %s (%v)", f.Kind, f.Host, t.Name, got, f.Digest, err)
		}
		f.Host, f.made = dir, f.Host
		left = append(left, f)
	}
	next := func(kind FolderKind) *CarriedFolder {
		if len(left) == 0 || left[0].Kind != kind {
			return nil
		}
		f := left[0]
		left = left[1:]
		return &f
	}
	missing := func(kind FolderKind) error {
		return refusal.Newf(refusal.Malformed, "target %.100q needs a folder of the kind %s, which did not come with it", t.Name, kind)
	}
	t.hosts = []string{}
	for range t.Command.Mounts {
		f := next(MountFolder)
		if f == nil {
			return missing(MountFolder)
		}
		t.hosts = append(t.hosts, f.Host)
	}
	if t.Command.Venv != "" {
		f := next(VenvFolder)
		if f == nil {
			return missing(VenvFolder)
		}
		t.venv = &venv{dir: f.Host, made: f.made}
		for f := next(InterpreterFolder); f != nil; f = next(InterpreterFolder) {
			t.venv.prefixes = append(t.venv.prefixes, sandbox.Mount{Host: f.Host, Inside: f.Inside, Within: f.Host})
		}
		if err := t.placeVenv(c.Interpreter); err != nil {
			return fmt.Errorf("target %.100q: venv: %w", t.Name, err)
		}
	}
	if t.Command.NodeModules != "" {
		f := next(ModulesFolder)
		if f == nil {
			return missing(ModulesFolder)
		}
		t.modules = &modules{dir: f.Host}
		var err error
		if t.modules.digest, err = digestInstalled(f.Host, []string{f.Host}); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return refusal.Newf(refusal.Malformed, "target %.100q came with the folder %.200s, which it does not need", t.Name, left[0].made)
	}
	return nil
}

// placeVenv digests what is installed, and refuses an environment whose interpreter this
// machine does not have: it would be another agent.
func (t *Target) placeVenv(want *Interpreter) error {
	var err error
	if t.venv.digest, err = t.venv.installed(); err != nil {
		return err
	}
	hint := "install the same Python as on the machine that made the environment, or make one with an interpreter of its own below its folder, such as uv's"
	found, err := t.venv.interpreter()
	switch {
	case want == nil && err == nil && found == nil:
		return nil
	case want == nil:
		return refusal.Newf(refusal.Malformed, "its interpreter was to come with it, and does not (%v)", err)
	case err != nil:
		return refusal.Newf(refusal.NotFound, "it needs %.200s with the digest %s: %w", want.Path, want.Digest, err).WithHint("%s", hint)
	case found == nil || found.Digest != want.Digest:
		have := "one that came with it"
		if found != nil {
			have = fmt.Sprintf("%s with the digest %s", found.Path, found.Digest)
		}
		return refusal.Newf(refusal.DigestMismatch, "it needs %.200s with the digest %s, and this machine has %s", want.Path, want.Digest, have).WithHint("%s", hint)
	}
	return nil
}
