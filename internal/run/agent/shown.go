package agent

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/sandbox/image"
)

// Shown is what a program finds of this machine, by digest: the root file
// system and every mount. Between [Shown.Begin] and [Held.End] nothing of it
// may change: what was digested is then what was shown, even to a process that
// put back what it had taken. It is safe for concurrent use. A nil one shows
// nothing.
type Shown struct {
	mu    sync.Mutex
	parts []*part
	image *image.Image // that the root is of; nil if it is the host's own
	root  evidence.Root
}

// A part is one thing that is shown.
type part struct {
	inside string // where the program finds it
	host   string
	digest digest.Content // zero if it could not be digested, and why says why
	why    string
	held   held                 // nil if it was not digested
	again  func() (held, error) // looks at it anew, and refuses if its digest is another one
}

// A held is something whose identity is known.
type held interface{ Changed() string }

// Show digests everything that the target's program finds of this machine. Its own
// files are not among it: they are copied from memory for every case.
func (t *Target) Show() (*Shown, error) {
	if t.Command == nil {
		return nil, nil
	}
	s := &Shown{}
	if err := s.showRoot(t.Command.Image); err != nil {
		return nil, fmt.Errorf("target %s: %w", t.Name, err)
	}
	for _, f := range t.folders() {
		s.showMount(f.Inside, f.Host)
	}
	return s, nil
}

// ShowTests digests what the tests of cases find of this machine.
func ShowTests(image string, mounts []sandbox.Mount) (*Shown, error) {
	s := &Shown{}
	if err := s.showRoot(image); err != nil {
		return nil, fmt.Errorf("the tests of cases: %w", err)
	}
	for _, m := range mounts {
		s.showMount("tests:"+cmp.Or(m.Inside, m.Host), m.Host)
	}
	return s, nil
}

// ShowWorld digests what the world of a case finds of this machine: an image, or the
// host's programs.
func ShowWorld(image string) (*Shown, error) {
	s := &Shown{}
	if err := s.showRoot(image); err != nil {
		return nil, fmt.Errorf("the world of a case: %w", err)
	}
	return s, nil
}

// showRoot opens the image that a program runs from, or looks at the host's own
// programs.
func (s *Shown) showRoot(wanted string) error {
	if wanted == "" {
		return s.showHost()
	}
	cache, err := image.Cache()
	if err != nil {
		return err
	}
	if s.image, err = image.Find(cache, wanted); err != nil {
		if refusal.Is(err, refusal.NotFound) {
			return refusal.Newf(refusal.NotFound, "image %s is not on this machine", wanted).
				WithHint(`make it with "tally sandbox image pull", "tally sandbox image import" or "tally sandbox image build"; "tally sandbox image show" lists those that are here`)
		}
		return err
	}
	d, err := digest.ParseContent(wanted)
	if err != nil {
		return err
	}
	s.root = evidence.Root{Kind: evidence.ImageRoot, Digest: &d}
	if !s.image.About.Pinned {
		s.root.Kind = evidence.HostRoot // a copy of a machine's own
	}
	one := &part{inside: "/", host: s.image.Dir, digest: d}
	one.again = func() (held, error) { return s.image.Hold() }
	if one.held, err = s.image.Hold(); err != nil {
		return err
	}
	s.parts = append(s.parts, one)
	return nil
}

// showHost names the host's own root by what is cheap to know of it.
func (s *Shown) showHost() error {
	one := &part{inside: "/"}
	take := func() (held, error) {
		h, err := identity.TakeHost(sandbox.SystemFolders())
		if err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "looking at this machine's programs: %w", err)
		}
		release, _ := store.ReadFile(store.OS{}, "/etc/os-release", 1<<20) // a machine may have none
		one.digest = digest.ContentOf(append(release, strings.Join(h.Lines(), "\n")...))
		return h, nil
	}
	// Of another state of the host nothing is known, so later cases continue
	// with it; only those that ran while it changed do not count.
	one.again = take
	var err error
	if one.held, err = take(); err != nil {
		return err
	}
	s.root = evidence.Root{Kind: evidence.HostRoot, Digest: &one.digest}
	s.parts = append(s.parts, one)
	return nil
}

// showMount digests a mount. What cannot be digested is not refused: the plan says
// so, and the attempt does not count for promotion.
func (s *Shown) showMount(inside, host string) {
	one := &part{inside: inside, host: host}
	var err error
	if one.held, one.digest, err = digestShown(host); err != nil {
		one.why, one.held = err.Error(), nil
	}
	one.again = func() (held, error) {
		h, d, err := digestShown(host)
		if err == nil && d != one.digest {
			err = fmt.Errorf("it has the digest %s now, and had %s", d, one.digest)
		}
		return h, err
	}
	s.parts = append(s.parts, one)
}

// digestShown digests a mount, and its identity from before to after.
func digestShown(host string) (held, digest.Content, error) {
	tree, err := identity.Take(host, maxMountEntries)
	if err != nil {
		return nil, digest.Content{}, err
	}
	d, err := DigestMount(host)
	if err != nil {
		return nil, d, err
	}
	if changed := tree.Changed(); changed != "" {
		return nil, d, fmt.Errorf("%s, while it was read", changed)
	}
	return tree, d, nil
}

// Image is what the program finds as its root; nil if that is the host's.
func (s *Shown) Image() *image.Image {
	if s == nil {
		return nil
	}
	return s.image
}

// Root says which root file system the program finds, for the plan; nil if none is
// shown.
func (s *Shown) Root() *evidence.Root {
	if s == nil {
		return nil
	}
	root := s.root
	return &root
}

// Planned lists the mounts, for the plan.
func (s *Shown) Planned() []evidence.PlannedMount {
	if s == nil {
		return nil
	}
	var out []evidence.PlannedMount
	for _, p := range s.parts {
		if p.inside == "/" {
			continue
		}
		planned := evidence.PlannedMount{Inside: p.inside}
		if p.why == "" {
			d := p.digest
			planned.Digest, planned.Held = &d, evidence.HeldCompared
		}
		out = append(out, planned)
	}
	return out
}

// Why says of each mount that could not be digested why not.
func (s *Shown) Why() map[string]string {
	out := map[string]string{}
	if s != nil {
		for _, p := range s.parts {
			if p.why != "" {
				out[p.inside] = p.why
			}
		}
	}
	return out
}

// Expect is what a sandbox must find when it shows all this, by host path.
func (s *Shown) Expect() map[string]identity.ID {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	expect := map[string]identity.ID{}
	for _, p := range s.parts {
		switch h := p.held.(type) {
		case *identity.Host:
			for _, top := range sandbox.SystemFolders() {
				if id, ok := h.Root(top); ok {
					expect[top] = id
				}
			}
		case *identity.Tree:
			if p.inside == "/" {
				for name, id := range h.In(filepath.Join(h.Top(), "root")) {
					expect[name] = id
				}
				continue
			}
			expect[p.host], expect[h.Top()] = h.Root(), h.Root() // packages of node are mounted after links
		}
	}
	return expect
}

// While does something that is shown all this. What came of it does not count if something
// changed meanwhile, which is then the error, whatever else went wrong.
func (s *Shown) While(do func() error) error {
	held, err := s.Begin()
	if err != nil {
		return err
	}
	err = do()
	if changed := held.End(); changed != nil {
		return changed
	}
	return err
}

// A Held is what is shown to one case.
type Held struct {
	shown *Shown
	held  []held // one for each part
}

// Begin is called before something is shown. It refuses if something is not what
// was digested.
func (s *Shown) Begin() (*Held, error) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &Held{shown: s}
	for _, p := range s.parts {
		if p.held == nil && p.why == "" { // it changed during an earlier case
			var err error
			if p.held, err = p.again(); err != nil {
				p.held = nil
				return nil, p.refuse(err.Error())
			}
		}
		h.held = append(h.held, p.held)
	}
	return h, nil
}

// End is called when nothing is shown any more. It refuses if something changed
// since it was digested. That is enough: a change that was before, or was taken
// back, shows as well.
func (h *Held) End() error {
	if h == nil {
		return nil
	}
	h.shown.mu.Lock()
	defer h.shown.mu.Unlock()
	var err error
	for i, p := range h.shown.parts {
		if h.held[i] == nil {
			continue
		}
		changed := h.held[i].Changed()
		if changed == "" {
			continue
		}
		if p.held == h.held[i] {
			p.held = nil // it is looked at anew for the next case
		}
		if err == nil {
			err = p.refuse(changed)
		}
	}
	return err
}

// refuse says what changed, by the path that the program knows.
func (p *part) refuse(changed string) error {
	if p.host != "" {
		if real, err := filepath.EvalSymlinks(p.host); err == nil {
			changed = strings.ReplaceAll(changed, real, strings.TrimSuffix(p.inside, "/"))
		}
		changed = strings.ReplaceAll(changed, p.host, strings.TrimSuffix(p.inside, "/"))
	}
	return refusal.Newf(refusal.ShownChanged, "what the program finds at %s changed after it was digested: %s", p.inside, changed).
		WithHint("the case does not count; leave alone what is shown to the agent, the tests and the rubric while an attempt runs, and run the case again")
}
