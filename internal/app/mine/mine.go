package mine

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
)

// Options say what is mined.
type Options struct {
	Repos    []string // folders of the repositories, all of one language
	Class    string   // of the cases; the name of the first folder if empty
	Language Language // guessed if empty
	Limit    int      // how many cases at most; 0 for all
	Since    string   // only what came after this commit
	Cache    string   // installed packages: modules of Go, a virtual environment, packages or wheels of Python, node_modules
	Jobs     int      // checks at once; 0 means 2
	Sandbox  sandbox.Class
	Seconds  int      // that one run of the tests may take on an idle machine; 0 means 300
	Image    string   // that tests run in, by its digest here; this machine's own programs if empty
	Without  []string // packages of Go: commits whose tests compile one, or one below it, are left out

	Scratch             bool // unsigned
	AddedBy, ReviewedBy string

	// Progress, if not nil, is told of each commit that was checked, one at a time.
	Progress func(Progress)
}

// A Progress is how far mining has come.
type Progress struct {
	Done, Of, Kept int
	Commit         Commit // the last that was checked
	// Left is how long the rest will take if it continues as it did; 0 while too few
	// were checked to tell.
	Left time.Duration
}

// defaultSeconds is how long one run of a task's tests may take.
const defaultSeconds = 300

// A Report is what became of every commit that was looked at.
type Report struct {
	Version    int         `json:"version"`
	Class      string      `json:"class"`
	Trust      bench.Trust `json:"trust"`
	Language   Language    `json:"language"`
	Toolchain  string      `json:"toolchain"`
	Sandbox    string      `json:"sandbox"`
	Kept       int         `json:"kept"`
	Checked    int         `json:"checked"`
	TreesBytes int         `json:"trees_bytes"` // of the file with the files of all trees
	TreeBytes  int64       `json:"tree_bytes"`  // of all trees, if each were written out
	Commits    []Commit    `json:"commits"`

	Repositories []From `json:"repositories"`
}

// A From is one of the repositories.
type From struct {
	Name    string `json:"name"` // of its folder
	Head    string `json:"head"`
	Commits int    `json:"commits"` // that were looked at
	Kept    int    `json:"kept"`
}

// A Commit is one of the report.
type Commit struct {
	Repository string  `json:"repository"`
	Commit     string  `json:"commit"`
	Subject    string  `json:"subject"`
	Case       string  `json:"case,omitempty"`    // if it was kept
	Dropped    string  `json:"dropped,omitempty"` // why not
	FailToPass int     `json:"fail_to_pass,omitempty"`
	PassToPass int     `json:"pass_to_pass,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"` // of the check
}

const reportVersion = 2

// limitReached is why a commit that may be a task was not checked.
const limitReached = "not checked: there were enough tasks already"

// Run mines a repository and writes a class of what it finds, the two reference
// agents and the report. What was checked is remembered: a run that was stopped
// resumes when it is started again.
func Run(ctx context.Context, c *dossier.Corpus, o Options) (*Report, error) {
	if err := o.settle(c); err != nil {
		return nil, err
	}
	r := &Report{Version: reportVersion, Class: o.Class, Trust: bench.Signed}
	if o.Scratch {
		r.Trust = bench.Scratch
	}
	tasks, err := r.candidates(ctx, c.Getenv("PATH"), &o)
	if err != nil {
		return nil, err
	}
	m, err := findMachine(ctx, c, &o, o.Language)
	if err != nil {
		return nil, err
	}
	r.Language, r.Toolchain, r.Sandbox = o.Language, m.version, string(m.class)
	memory := c.Private("mine")
	if err := store.MakeDir(store.OS{}, memory, 0o700); err != nil {
		return nil, err
	}
	alone, err := lockClass(ctx, memory, o.Class)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	kept, err := r.checkAll(ctx, &checker{machine: m, memory: memory, seconds: o.Seconds}, tasks, &o)
	if err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		return r, refusal.Newf(refusal.NotFound, "%s: none of %d commits is a task", r.names(), len(r.Commits)).
			WithHint("the table says why each was dropped; tests that need packages find them with --cache")
	}
	return r, r.write(c, &o, m, kept)
}

// lockClass keeps a second command from making the same class at the same time:
// they would compile into one folder, and the later would find the class taken.
func lockClass(ctx context.Context, memory, class string) (*store.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	lock, err := store.TakeLock(ctx, store.OS{}, filepath.Join(memory, class+".lock"))
	if err != nil {
		return nil, refusal.Newf(refusal.Of(err).Name, "class %s is being mined already: %w", class, err).WithHint("wait for the other command, or name another class with --class")
	}
	return lock, nil
}

const lockPatience = time.Second

func (o *Options) settle(c *dossier.Corpus) error {
	if len(o.Repos) == 0 || o.Since != "" && len(o.Repos) > 1 {
		return refusal.Newf(refusal.Usage, "expected a repository, and one only with --since")
	}
	var err error
	for i := range o.Repos {
		if o.Repos[i], err = filepath.Abs(o.Repos[i]); err != nil {
			return refusal.Newf(refusal.Usage, "%w", err)
		}
	}
	names := map[string]bool{}
	for _, dir := range o.Repos {
		if name := repositoryName(dir); names[name] {
			return refusal.Newf(refusal.Usage, "two of the repositories are called %s", name).WithHint("name each once, and clone one of them into a folder with another name")
		} else {
			names[name] = true
		}
	}
	o.Class = cmp.Or(o.Class, classNameOf(filepath.Base(o.Repos[0])))
	o.Jobs, o.Seconds = cmp.Or(o.Jobs, 2), cmp.Or(o.Seconds, defaultSeconds)
	if o.Cache != "" {
		if o.Cache, err = filepath.Abs(o.Cache); err != nil || !isFolder(o.Cache) {
			return refusal.Newf(refusal.NotFound, "--cache %s: there is no such folder", o.Cache)
		}
	}
	if o.Language != "" && !slices.Contains(Languages(), string(o.Language)) {
		return refusal.Newf(refusal.Usage, "--language %s: expected one of %s", o.Language, strings.Join(Languages(), ", "))
	}
	if err := bench.CheckID(o.Class); err != nil {
		return refusal.Newf(refusal.Usage, "class: %w", err).WithHint("name the class with --class")
	}
	// Before hours of work, not after.
	if taken, err := bench.Taken(c.Root, o.Class); err != nil {
		return err
	} else if taken != "" {
		return refusal.Newf(refusal.TaskClassAlreadyRegistered, "class %s: class %s is registered already", o.Class, taken).WithHint("name another with --class")
	}
	if !o.Scratch {
		_, _, err = bench.People(o.AddedBy, o.ReviewedBy, c.Options)
	}
	return err
}

// repositoryName is the name of a repository's folder.
func repositoryName(dir string) string { return strings.TrimSuffix(filepath.Base(dir), ".git") }

// classNameOf makes the name of a class of that of a folder.
func classNameOf(folder string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, strings.TrimSuffix(folder, ".git")), "-_")
	return cmp.Or(name, "mined") + "-history"
}

// candidates reads the commits of all repositories that may be tasks, and reports
// the others. Those that are cheap to check come first, and of equal ones the newer,
// one of each repository after the other.
func (r *Report) candidates(ctx context.Context, searchPath string, o *Options) ([]*task, error) {
	var tasks []*task
	known := originals{}
	for _, dir := range o.Repos {
		repo := openRepository(dir, searchPath)
		commits, err := repo.history(ctx, o.Since)
		if err != nil {
			return nil, err
		}
		if len(commits) == 0 {
			return nil, refusal.Newf(refusal.NotFound, "%s: no commit with a parent in its history", dir)
		}
		if o.Language == "" {
			entries, err := repo.tree(ctx, commits[0].id)
			if err != nil {
				return nil, err
			}
			if o.Language, err = languageOf(entries); err != nil {
				return nil, fmt.Errorf("%s: %w", dir, err)
			}
		}
		from := From{Name: repositoryName(dir), Head: commits[0].id, Commits: len(commits)}
		r.Repositories = append(r.Repositories, from)
		for place, c := range commits {
			t, why, err := repo.candidate(ctx, c, o, known)
			if err != nil {
				return nil, err
			}
			if why != "" {
				r.Commits = append(r.Commits, Commit{Repository: from.Name, Commit: c.id, Subject: c.subject(), Dropped: why})
				continue
			}
			t.repo, t.place = from.Name, place
			tasks = append(tasks, t)
		}
	}
	slices.SortStableFunc(tasks, func(a, b *task) int { return cmp.Or(a.cost-b.cost, a.place-b.place) })
	return tasks, nil
}

// candidate reads a commit that may be a task. Why says why it is not one.
func (r *repository) candidate(ctx context.Context, c *commit, o *Options, known originals) (t *task, why string, err error) {
	if why = c.unsuited(o.Language); why != "" {
		return nil, why, nil
	}
	if t, why, err = r.newTask(ctx, c, o.Language); err != nil || why != "" {
		return nil, why, err
	}
	if why = known.repeats(t); why != "" {
		return nil, why, nil
	}
	t.measure()
	if pkg := t.compilesOneOf(o.Without); pkg != "" {
		return nil, "its tests compile what --without names: " + pkg, nil
	}
	return t, "", nil
}

// originals are what tasks may not have in common, with the commit that had it first:
// acceptance counts a task once, and an agent is told which it is by its message.
type originals map[any]string

func (o originals) repeats(t *task) string {
	type (
		change digest.Content
		tests  digest.Content
	)
	has := []struct {
		what any
		why  string
	}{
		{t.issue, "it has the same message as"},
		{change(t.shapes[0]), "it makes the same change, but for names, literals and comments, as"},
		{tests(t.shapes[1]), "it has the same tests, but for names, literals and comments, as"},
	}
	for _, h := range has {
		if other := o[h.what]; other != "" {
			return h.why + ": " + other
		}
	}
	// What a copy has and its original has not is free: the copy does not become a task.
	for _, h := range has {
		o[h.what] = t.id
	}
	return ""
}

// A keptTask is one that is to become a case.
type keptTask struct {
	*task
	checked *checked
}

// checkAll checks tasks side by side until enough are kept. Which are kept does not
// depend on which check ends first: those that stand before count first.
func (r *Report) checkAll(ctx context.Context, k *checker, tasks []*task, o *Options) ([]keptTask, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]*checked, len(tasks))
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, done := 0, 0
	pace := pace{jobs: o.Jobs, limit: o.Limit, of: len(tasks)}
	enough := func() bool { // among those before the first that is not checked yet
		kept := 0
		for _, c := range results {
			if c == nil {
				return false
			}
			if c.Dropped == "" {
				kept++
			}
			if o.Limit > 0 && kept == o.Limit {
				return true
			}
		}
		return true
	}
	work := func() {
		for {
			mu.Lock()
			if next == len(tasks) || enough() || ctx.Err() != nil {
				mu.Unlock()
				return
			}
			i := next
			next++
			mu.Unlock()
			began := time.Now()
			c, fresh, err := k.check(ctx, tasks[i])
			mu.Lock()
			if err != nil {
				cancel(fmt.Errorf("checking %s: %w", tasks[i].id, err))
				mu.Unlock()
				return
			}
			results[i] = c
			done++
			pace.add(c, fresh, time.Since(began))
			if o.Progress != nil {
				o.Progress(Progress{done, len(tasks), pace.kept, commitOf(tasks[i], c), pace.left()})
			}
			mu.Unlock()
		}
	}
	for range o.Jobs {
		wg.Go(work)
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		if done > 0 && refusal.Of(err).Name == "" {
			return nil, refusal.Newf(refusal.Interrupted, "stopped after %d checks: %w", done, err).WithHint("run the same command again to resume where it stopped")
		}
		return nil, err
	}
	var kept []keptTask
	for i, t := range tasks {
		entry := commitOf(t, cmp.Or(results[i], &checked{Dropped: limitReached}))
		if results[i] != nil {
			r.Checked++
		}
		if entry.Dropped == "" && o.Limit > 0 && len(kept) == o.Limit {
			entry = commitOf(t, &checked{Dropped: limitReached})
		}
		if entry.Dropped == "" {
			kept = append(kept, keptTask{t, results[i]})
			r.from(t.repo).Kept++
		}
		r.Commits = append(r.Commits, entry)
	}
	r.Kept = len(kept)
	return kept, nil
}

func commitOf(t *task, c *checked) Commit {
	out := Commit{Repository: t.repo, Commit: t.id, Subject: t.subject(), Dropped: c.Dropped, FailToPass: len(c.FailToPass), PassToPass: len(c.PassToPass), Seconds: float64(c.Milliseconds) / 1000}
	if c.Dropped == "" {
		out.Case = t.caseID()
	}
	return out
}

// from is the line of a repository.
func (r *Report) from(name string) *From {
	return &r.Repositories[slices.IndexFunc(r.Repositories, func(f From) bool { return f.Name == name })]
}

// A pace is how fast checks go, measured.
type pace struct {
	jobs, limit, of   int
	done, kept, fresh int
	took              time.Duration // all fresh checks together
}

// enoughToTell is how many checks must have run before the rest is estimated.
const enoughToTell = 3

func (p *pace) add(c *checked, fresh bool, took time.Duration) {
	p.done++
	if c.Dropped == "" {
		p.kept++
	}
	if fresh {
		p.fresh++
		p.took += took
	}
}

// left estimates how long the rest takes: until there are enough tasks at the rate at
// which they were found, or until all are checked.
func (p *pace) left() time.Duration {
	if p.fresh < enoughToTell {
		return 0
	}
	rest := p.of - p.done
	if p.limit > 0 && p.kept > 0 {
		rest = min(rest, max(0, p.limit-p.kept)*p.done/p.kept)
	}
	return p.took / time.Duration(p.fresh) * time.Duration(rest) / time.Duration(p.jobs)
}
