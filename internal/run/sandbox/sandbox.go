// Package sandbox runs one untrusted program, a rubric, and says what happened.
//
// The program gets bytes on its standard input and answers with bytes on its
// standard output. It has no network, no file of this machine, no variable of
// our environment, one process, and hard limits on time, memory and output
// that are kept from outside. [Open] prepares a sandbox for a rubric,
// [Sandbox.Run] gives it one input; a [Result] tells how it ended, what it
// used, and, where the class can see it, what it tried and was denied.
//
// [Classes] lists the kinds of isolation, strongest first, such as [GVisor] and
// [Namespace]; each is a file here with its row. A class counts as working only after it really ran something
// here. When none of the accepted classes works, Open refuses: there is no
// class that just executes the program.
//
// What is not promised: a Python rubric can read the clock; side channels are
// not closed; a hole in the host's kernel (namespace) or in gVisor's (gvisor)
// is a way out. docs/sandbox.md lists what each class does and does not stop.
//
// A program that uses this package must be statically linked and must call
// [Reexec] as the first statement of main, because the sandbox is started by
// running the same program again under another name.
package sandbox

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/isolation"
	"tallystick/internal/run/sandbox/runfolder"
)

// A Class is a kind of isolation.
type Class string

// Classes that are named in code. [Classes] lists all that there are.
const (
	MicroVM   Class = "microvm"   // a virtual machine with a kernel of its own
	GVisor    Class = "gvisor"    // gVisor's user-space kernel, linked into this program
	Namespace Class = "namespace" // namespaces, seccomp, Landlock, rlimits: shares the host's kernel
)

// Classes lists every class, strongest first.
func Classes() []Class {
	var list []Class
	for _, c := range worths() {
		list = append(list, Class(c.Name))
	}
	return list
}

// A Scope says how long one sandbox lives.
type Scope string

const (
	// ScopeCase starts a fresh sandbox for every run.
	ScopeCase Scope = "case"
	// ScopeAttempt keeps one sandbox and starts a fresh process in it, as
	// another user, for every run. Nothing in it is writable. Only gvisor has
	// this scope.
	ScopeAttempt Scope = "attempt"
)

// A Language is what a rubric is written in.
type Language string

// The languages, told apart by the name of the rubric's main file.
const (
	Starlark Language = "starlark" // rubric.star; interpreted by this program itself
	Python   Language = "python"   // rubric.py; needs an [Image]
)

// A Rubric is the untrusted program: its bytes, not paths, so that what was
// verified is what runs.
type Rubric struct {
	Main  string            // the file that is run, a key of Files
	Files map[string][]byte // every file, by slash-separated path below the rubric's folder
}

// UserMain is the main file of a script that plays the user of a case. It runs as a
// Starlark rubric does, and its function is reply(state, message).
const UserMain = "user.star"

// Language tells the language from the main file's extension.
func (r Rubric) Language() (Language, error) {
	switch path.Ext(r.Main) {
	case ".star":
		return Starlark, nil
	case ".py":
		return Python, nil
	}
	return "", refusal.Newf(refusal.Usage, "rubric %q: neither .star nor .py", r.Main).
		WithHint("name the rubric rubric.star (Starlark) or rubric.py (Python)")
}

// maxRubricBytes bounds a rubric with its helpers; chosen arbitrarily.
const maxRubricBytes = 64 << 20

func (r Rubric) validate() error {
	if _, ok := r.Files[r.Main]; !ok {
		return refusal.Newf(refusal.Malformed, "rubric %q is not among its own files", r.Main)
	}
	var total int
	for _, name := range r.names() {
		if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
			return refusal.Newf(refusal.Malformed, "rubric file %q: not a plain relative path", name)
		}
		if total += len(r.Files[name]); total > maxRubricBytes {
			return refusal.Newf(refusal.TooLarge, "rubric %q: its files are over %d bytes together", r.Main, maxRubricBytes)
		}
	}
	_, err := r.Language()
	return err
}

func (r Rubric) names() []string {
	names := make([]string, 0, len(r.Files))
	for name := range r.Files {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Limits bound one run. Zero fields take the defaults.
type Limits struct {
	Timeout     time.Duration // wall clock, the sandbox's own start included
	MemoryBytes int64         // for everything in the sandbox together
	OutputBytes int64         // of standard output and of standard error, each
}

// The defaults and the most that a case may ask for.
const (
	DefaultTimeout     = 60 * time.Second
	MaxTimeout         = 5 * time.Minute
	DefaultMemoryBytes = 1 << 30
	MaxMemoryBytes     = 4 << 30
	MinMemoryBytes     = 32 << 20 // CPython does not start in less
	DefaultOutputBytes = 1 << 20
)

// orDefaults fills what is zero and refuses what is out of bounds: a limit
// that is too large must not be quietly cut, or a case would seem to have had
// more than it had.
func (l Limits) orDefaults() (Limits, error) {
	if l.Timeout == 0 {
		l.Timeout = DefaultTimeout
	}
	if l.MemoryBytes == 0 {
		l.MemoryBytes = DefaultMemoryBytes
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = DefaultOutputBytes
	}
	switch {
	case l.Timeout < 0 || l.Timeout > MaxTimeout:
		return l, refusal.Newf(refusal.Usage, "timeout %v: must be above 0 and at most %v", l.Timeout, MaxTimeout)
	case l.MemoryBytes < MinMemoryBytes || l.MemoryBytes > MaxMemoryBytes:
		return l, refusal.Newf(refusal.Usage, "memory %d bytes: must be between %d and %d", l.MemoryBytes, MinMemoryBytes, int64(MaxMemoryBytes))
	case l.OutputBytes < 0 || l.OutputBytes > DefaultOutputBytes:
		return l, refusal.Newf(refusal.Usage, "output %d bytes: must be above 0 and at most %d", l.OutputBytes, DefaultOutputBytes)
	}
	return l, nil
}

// Options say what to run and in which isolation.
type Options struct {
	// Accept lists the classes that may be used; the strongest of them that
	// works is. Empty means gvisor only.
	Accept []Class
	Scope  Scope // empty means ScopeCase
	Rubric Rubric
	Image  *image.Image // for a Python rubric; a Starlark rubric needs none
	Jobs   int          // how many runs ScopeAttempt admits at once; 0 means 2

	// Blind turns the watching of attempts off. Nothing more is allowed by
	// it; the Result just cannot list what was tried.
	Blind bool

	// Executable is a static program that calls [Reexec] first. Empty means the
	// one that [MakeOf] was told of, or the running program.
	Executable string
	// TempDir is where run folders live. Empty means a folder of the user's
	// own below the system's temporary folder.
	TempDir string
}

// thisProgram names the program that runs, for the system to resolve.
const thisProgram = "/proc/self/exe"

// madeOf is the program that sandboxes are made of.
var madeOf = func() string { return thisProgram }

// MakeOf has sandboxes made of another program than the running one, which calls
// [Reexec] first and is of the same build. find is asked once, when the first sandbox
// is made; "" means the running program. It must be told before that.
func MakeOf(find func() string) {
	madeOf = sync.OnceValue(func() string { return cmp.Or(find(), thisProgram) })
}

// accepted returns the accepted classes, strongest first.
func accepted(accept []Class) ([]Class, error) {
	if len(accept) == 0 {
		return []Class{GVisor}, nil
	}
	var classes []Class
	for _, c := range Classes() {
		if slices.Contains(accept, c) {
			classes = append(classes, c)
		}
	}
	for _, c := range accept {
		if !slices.Contains(Classes(), c) {
			return nil, refusal.Newf(refusal.Usage, "isolation class %q is unknown", c).
				WithHint("the classes are %s", isolation.Expected())
		}
	}
	return classes, nil
}

// A Job is one input for the rubric.
type Job struct {
	Stdin  []byte
	Limits Limits
}

// A Verdict says how a run ended.
type Verdict string

// The verdicts. Malformed is never given by this package: it is for the
// caller, who knows what an answer must look like.
const (
	OK          Verdict = "ok"           // ended with status 0 within its limits
	Timeout     Verdict = "timeout"      // killed for time, or out of Starlark steps
	OOM         Verdict = "oom"          // killed for memory, or died of a refused allocation
	OutputLimit Verdict = "output_limit" // killed for too much output
	DiskLimit   Verdict = "disk_limit"   // killed for what it wrote to its working folder; agents only
	FileLimit   Verdict = "file_limit"   // killed for how many files it made in its working folder; agents only
	Malformed   Verdict = "malformed"    // the answer is not a score
	Killed      Verdict = "killed"       // died of a signal that we did not send
	Failed      Verdict = "error"        // ended with another status than 0
)

// An Attempt is something that the program tried and that it has no business
// doing. It was denied, or answered inside the sandbox.
type Attempt = calls.Trespass

// A Result is what one run did.
type Result struct {
	Class       Class
	Verdict     Verdict
	ExitCode    int           // 128+n when signal n ended it
	Wall        time.Duration // from before the sandbox's start to after its end
	MaxRSS      int64         // bytes; of the sandbox's processes, its own machinery included
	ImageDigest string        // empty for Starlark
	Stdout      []byte        // the answer as it came, cut at the output limit
	StderrHead  string        // its first and last 4 KiB, and how much is missing between them
	Attempted   []Attempt     // at most 100 different ones
	Watched     bool          // whether attempts could be seen at all
}

// A Sandbox runs one rubric. It is safe for concurrent use. Close it: until
// then it holds a folder, and in [ScopeAttempt] a running kernel.
type Sandbox struct {
	class   Class
	options Options
	backend backend
	base    *runfolder.Base
}

// backend is what differs between the classes.
type backend interface {
	run(ctx context.Context, stdin []byte, limits Limits) (Result, error)
	close() error
}

// Class is the isolation that was chosen.
func (s *Sandbox) Class() Class { return s.class }

// Open finds the strongest accepted class that works and prepares the rubric
// in it. Leftovers of runs that crashed earlier are removed first.
func Open(ctx context.Context, o Options) (*Sandbox, error) {
	if err := o.Rubric.validate(); err != nil {
		return nil, err
	}
	classes, err := accepted(o.Accept)
	if err != nil {
		return nil, err
	}
	if o.Scope == "" {
		o.Scope = ScopeCase
	}
	lang, err := o.Rubric.Language()
	if err != nil {
		return nil, err
	}
	if lang == Python && o.Image == nil {
		return nil, refusal.Newf(refusal.Usage, "rubric %q is Python and no image was given", o.Rubric.Main).
			WithHint(`make one with "tally sandbox image build"`)
	}
	if lang == Python && len(o.Image.About.Command) == 0 {
		return nil, refusal.Newf(refusal.Usage, "image %s has no Python in the usual places, and rubric %q is Python", o.Image.Digest, o.Rubric.Main).
			WithHint("import the image again and name its interpreter with --python")
	}
	if o.Executable, err = resolveExecutable(o.Executable); err != nil {
		return nil, err
	}
	base, err := runfolder.Open(o.TempDir)
	if err != nil {
		return nil, err
	}
	base.Sweep()
	class, err := firstThatWorks(ctx, classes, rubricProfile, o.Scope, o.Executable, base)
	if err != nil {
		return nil, err
	}
	b, err := openBackend(class, o, base)
	if err != nil {
		return nil, err
	}
	return &Sandbox{class: class, options: o, backend: b, base: base}, nil
}

// firstThatWorks tries classes in turn, for a program of profile p.
func firstThatWorks(ctx context.Context, classes []Class, p profile, scope Scope, executable string, base *runfolder.Base) (Class, error) {
	var reasons []string
	for _, class := range classes {
		why := p.unfit(class, scope)
		if why == "" {
			status := probe(ctx, class, executable, base)
			if status.Works {
				return class, nil
			}
			why = status.Reason
		}
		reasons = append(reasons, string(class)+": "+why)
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	return "", refusal.Newf(refusal.SandboxUnavailable, "no accepted isolation class works here: %s", strings.Join(reasons, "; ")).
		WithHint(`"tally sandbox probe" shows every class; nothing was run`)
}

// Run gives the rubric one input and waits for its end. A rubric that
// misbehaves is a Result with another verdict than OK; an error means that
// the sandbox itself could not do its work, and nothing can be said about the
// rubric. When ctx ends the run is killed and ctx's error returned.
func (s *Sandbox) Run(ctx context.Context, job Job) (Result, error) {
	limits, err := job.Limits.orDefaults()
	if err != nil {
		return Result{}, err
	}
	var shown *identity.Tree
	if s.options.Image != nil {
		// The image was read when it was opened; what runs is what is on disk
		// now.
		if shown, err = s.options.Image.Hold(); err != nil {
			return Result{}, err
		}
	}
	began := time.Now()
	r, err := s.backend.run(ctx, job.Stdin, limits)
	if err != nil {
		return Result{}, err
	}
	r.Class, r.Wall = s.class, time.Since(began)
	if shown != nil {
		// And what was on disk while it ran.
		if changed := shown.Changed(); changed != "" {
			return Result{}, refusal.Newf(refusal.ShownChanged, "image %s: %s, while a rubric ran in it", s.options.Image.Digest, changed).
				WithHint("what that rubric said does not count; leave the image alone and run this again")
		}
		r.ImageDigest = s.options.Image.Digest
	}
	return r, nil
}

// Close ends what still runs and removes every trace.
func (s *Sandbox) Close() error { return s.backend.close() }
