package recipe

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/image"
)

// Options say how to make an image.
type Options struct {
	Cache      string
	Accept     []sandbox.Class // that commands may run in
	Packages   string          // a folder with Debian packages; "" for what apt-get fetches
	Once       bool            // do not compare: the image is not pinned then
	NoCache    bool            // run every command, whatever was run before
	Memory     int64           // that a command may take; 0 for the usual
	Executable string          // as in sandbox.Options
	TempDir    string          // as in sandbox.Options
	Log        io.Writer
}

// A Result is what was made.
type Result struct {
	Image  *image.Image
	Recipe string // its digest, with all that it takes
	Ran    int    // commands that were run; others were known
}

// maxStepGrowth bounds what one command may add.
const (
	maxStepGrowth = 8 << 30
	maxStepFiles  = 500_000
)

// standard are the folders that a command finds at the top, so that it can write there:
// the root itself is not writable.
var standard = []string{"bin", "etc", "home", "lib", "lib64", "opt", "root", "run", "sbin", "srv", "usr", "var"}

// Build makes the image of a recipe.
func Build(ctx context.Context, r *Recipe, o Options) (*Result, error) {
	store, err := image.OpenStore(o.Cache)
	if err != nil {
		return nil, err
	}
	var base *image.Image
	if r.From != Scratch {
		if base, err = image.Find(o.Cache, r.From); err != nil {
			return nil, err
		}
	}
	m := &maker{recipe: r, o: o, store: store, base: base}
	for _, s := range r.Steps {
		for _, p := range s.Packages {
			if err := m.fetch(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	first, err := m.pass(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer first.draft.Discard()
	kind := image.Made
	if first.ran > 0 && !o.Once {
		if err := m.again(ctx, first); err != nil {
			return nil, err
		}
	} else if first.ran > 0 {
		kind = image.Loose
	}
	if base != nil && !base.About.Pinned {
		kind = image.Loose
	}
	name, err := r.digestOf()
	if err != nil {
		return nil, err
	}
	i, err := first.draft.Finish(image.AboutMade(kind, name, first.draft))
	if err != nil {
		return nil, err
	}
	return &Result{Image: i, Recipe: name, Ran: first.ran}, nil
}

// A maker makes one recipe, once or twice.
type maker struct {
	recipe *Recipe
	o      Options
	store  *image.Store
	base   *image.Image
}

// A pass is one making.
type pass struct {
	draft  *image.Draft
	layers []image.OCIDescriptor // what each command changed, in order
	known  []string              // the names under which that is kept
	ran    int
}

// pass makes the image. The layers of earlier commands, if given, are compared.
func (m *maker) pass(ctx context.Context, compare *pass) (p *pass, err error) {
	draft, err := image.NewDraft(m.o.Cache, m.base)
	if err != nil {
		return nil, err
	}
	p = &pass{draft: draft}
	defer func() {
		if err != nil {
			draft.Discard()
		}
	}()
	for n, s := range m.recipe.Steps {
		if err := m.step(ctx, p, n, s, compare); err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
	}
	return p, nil
}

func (m *maker) step(ctx context.Context, p *pass, n int, s Step, compare *pass) error {
	for _, one := range s.Packages {
		if err := p.draft.Package(m.store, "sha256:"+one.SHA256); err != nil {
			return fmt.Errorf("package %s: %w", one.Name, err)
		}
	}
	for _, f := range s.Files {
		if err := p.draft.Put(image.File{Path: f.Path, Data: f.data, Executable: f.Executable, Link: f.Link, Folder: f.Folder}); err != nil {
			return err
		}
	}
	if len(s.Run) == 0 {
		return nil
	}
	// They are there whether the command is run or known.
	for _, dir := range standard {
		if _, err := os.Lstat(filepath.Join(p.draft.Root(), dir)); errors.Is(err, os.ErrNotExist) {
			if err := p.draft.Put(image.File{Path: "/" + dir, Folder: true}); err != nil {
				return err
			}
		}
	}
	// What a command changes follows from the inputs until then, the layers of the
	// commands before it, and itself.
	name, err := chain("step", m.recipe.From, m.recipe.inputs(n+1), p.layers)
	if err != nil {
		return err
	}
	p.known = append(p.known, name)
	if compare == nil && !m.o.NoCache {
		if l, ok := m.kept(name); ok {
			p.layers = append(p.layers, l)
			return p.draft.Layer(m.store, l)
		}
	}
	l, err := m.run(ctx, p.draft, s)
	if err != nil {
		return err
	}
	p.layers, p.ran = append(p.layers, l), p.ran+1
	if i := len(p.layers) - 1; compare != nil && compare.layers[i].Digest != l.Digest {
		return m.differ(compare.layers[i], l, s)
	}
	return nil
}

// again makes everything a second time, and remembers what the commands changed if
// both makings agree.
func (m *maker) again(ctx context.Context, first *pass) error {
	m.log("the same once more, to compare")
	second, err := m.pass(ctx, first)
	if err != nil {
		return err
	}
	second.draft.Discard()
	for i, name := range first.known {
		if err := m.keep(name, first.layers[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) log(format string, args ...any) {
	if m.o.Log != nil {
		fmt.Fprintf(m.o.Log, format+"\n", args...)
	}
}

// noteFile is where the layer of a command is noted. A note only saves time: the layer
// is compared with its digest, and what made it was compared before it was noted.
func (m *maker) noteFile(name string) string {
	return filepath.Join(m.o.Cache, "steps", strings.TrimPrefix(name, "blake3:")+".json")
}

func (m *maker) kept(name string) (image.OCIDescriptor, bool) {
	var l image.OCIDescriptor
	b, err := os.ReadFile(m.noteFile(name))
	if err != nil || canon.Unmarshal(b, &l) != nil {
		return l, false
	}
	return l, m.store.Has(l.Digest, l.Size)
}

func (m *maker) keep(name string, l image.OCIDescriptor) error {
	b, err := canon.Marshal(l)
	if err != nil {
		return err
	}
	file := m.noteFile(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return refusal.Newf(refusal.WriteFailed, "noting a step: %w", err)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return refusal.Newf(refusal.WriteFailed, "noting a step: %w", err)
	}
	return nil
}

// usualEnv is what a command finds, so that nothing of this machine is in it.
var usualEnv = map[string]string{
	"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
	"TZ": "UTC", "SOURCE_DATE_EPOCH": "0", "DEBIAN_FRONTEND": "noninteractive", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
}

// run runs a command in the draft, and gives what it changed as a layer.
func (m *maker) run(ctx context.Context, d *image.Draft, s Step) (image.OCIDescriptor, error) {
	before, err := d.List()
	if err != nil {
		return image.OCIDescriptor{}, err
	}
	env := maps.Clone(usualEnv)
	maps.Copy(env, s.Env)
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		pairs = append(pairs, name+"="+env[name])
	}
	m.log("running %s", plain.Line(strings.Join(s.Run, " ")))
	result, err := sandbox.RunAgent(ctx, sandbox.AgentOptions{
		Accept: m.o.Accept, Command: s.Run, Env: pairs, Tree: d.Root(), Blind: true, Dir: "/",
		Limits:     sandbox.AgentLimits{Timeout: s.timeout(), DiskBytes: maxStepGrowth, Files: maxStepFiles, MemoryBytes: m.o.Memory},
		Executable: m.o.Executable, TempDir: m.o.TempDir,
	})
	if err != nil {
		return image.OCIDescriptor{}, err
	}
	if result.Verdict != sandbox.OK {
		said := cmp.Or(result.NotStarted, result.StderrHead, string(result.Stdout[:min(len(result.Stdout), 4096)]))
		return image.OCIDescriptor{}, refusal.Newf(refusal.Failed, "%s: %s, status %d: %s", plain.Line(strings.Join(s.Run, " ")), result.Verdict, result.ExitCode, plain.Line(strings.TrimSpace(said))).
			WithHint("a step has no network, no other user than 0, and writes to the folders of the image alone")
	}
	for _, gone := range result.Discarded {
		m.log("left out %s", plain.Line(gone))
	}
	after, err := d.List()
	if err != nil {
		return image.OCIDescriptor{}, err
	}
	return m.difference(d, before, after)
}

// difference keeps what changed between two listings as a layer.
func (m *maker) difference(d *image.Draft, before, after map[string]string) (image.OCIDescriptor, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeLayer(w, d.Root(), before, after)) }()
	digest, size, err := m.store.PutStream(r, image.MaxBlob)
	r.Close()
	if err != nil {
		return image.OCIDescriptor{}, err
	}
	return image.OCIDescriptor{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: digest, Size: size}, nil
}

// writeLayer writes a tar of what changed: the same change gives the same bytes.
func writeLayer(out io.Writer, root string, before, after map[string]string) error {
	t := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[name]; still || name != "." && gone(path.Dir(name), after) {
			continue
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(path.Dir(name), ".wh."+path.Base(name)), Mode: 0o644}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			if err := writeEntry(t, root, name, after[name]); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

// gone reports whether a folder is not in a listing any more, so that what was in it
// need not be named.
func gone(dir string, after map[string]string) bool {
	return dir != "." && after[dir] != "d"
}

func writeEntry(t *tar.Writer, root, name, line string) error {
	file := filepath.Join(root, name)
	if strings.HasPrefix(path.Base(name), ".wh.") {
		return fmt.Errorf("/%s: layers keep names that begin with .wh. for what they hide", name)
	}
	switch {
	case line == "d":
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
	case strings.HasPrefix(line, "l "):
		target, err := os.Readlink(file)
		if err != nil {
			return err
		}
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
	}
	fields := strings.Fields(line) // f, mode, size, digest
	mode, err := strconv.ParseInt(fields[1], 8, 64)
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// differ says where two runs of a command differ.
func (m *maker) differ(one, two image.OCIDescriptor, s Step) error {
	where := "in what it removed"
	a, errA := m.entries(one)
	b, errB := m.entries(two)
	if errA == nil && errB == nil {
		for _, name := range slices.Sorted(maps.Keys(b)) {
			if a[name] != b[name] {
				where = "first at /" + name
				break
			}
		}
	}
	return refusal.Newf(refusal.DigestMismatch, "%s: two runs differ, %s", plain.Line(strings.Join(s.Run, " ")), plain.Line(where)).
		WithHint("a step may not depend on the time, on random numbers or on the order of what runs at once; --once takes it as it is, and the image is not pinned")
}

// entries gives a digest of each entry of a layer.
func (m *maker) entries(l image.OCIDescriptor) (map[string]string, error) {
	r, err := m.store.Open(l.Digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := map[string]string{}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return out, err
		}
		b, err := io.ReadAll(io.LimitReader(t, 64<<20))
		if err != nil {
			return nil, err
		}
		sum, err := chain(h.Typeflag, h.Mode, h.Size, h.Linkname, string(b))
		if err != nil { // not UTF-8
			sum = fmt.Sprintf("%d %d %x", h.Typeflag, h.Size, b)
		}
		out[h.Name] = sum
	}
}
