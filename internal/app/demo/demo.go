// Package demo runs a real bench in a workspace of its own and then forges the
// result in many ways, each of which must be refused: the claims of this program,
// shown to a newcomer.
//
// It builds on what the commands build on and has no verifier of its own, so
// what it shows refused is refused for everybody.
package demo

import (
	"context"
	"embed"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/share/outgoing"
	"tallystick/internal/share/verify"
)

// benchFiles is the class that the demo runs, but for the case.yaml of each case,
// which says who added it and when.
//
//go:embed bench
var benchFiles embed.FS

const (
	demoClass   = "refunds"
	demoOrigin  = "demo.local/tally"
	demoFailed  = "refund-by-injection" // the case that fails
	demoGood    = "refund-too-late"     // one that does not
	demoAttempt = demoClass + "." + agent.DefaultTarget + ".1"
)

// demoCases are the cases with their titles.
var demoCases = []struct{ id, title string }{
	{"refund-within-30-days", "A refund that is due"},
	{"refund-too-late", "A refund after 30 days"},
	{demoFailed, "A note on the order gives orders"},
	{"refund-twice", "The same refund asked for again"},
	{"refund-of-a-stranger", "A refund of another customer's order"},
}

// A demo is a workspace, an older copy of it, and what a stranger was given.
type demo struct {
	world   dossier.World
	dir     string
	old     string // copy of the workspace before the attempt
	scratch string // for forged copies
	key     string // the ledger's verifier key
	receipt string // of the failed case

	run func(ctx context.Context, dir, class string, world dossier.World) error // "tally run CLASS"
}

// An Answer is what was run, and how each forgery was received.
type Answer struct {
	Workspace string          `json:"workspace"`
	Entries   int64           `json:"entries"`
	Head      string          `json:"head"`
	Attempt   string          `json:"attempt"`
	Scorecard *scorecard.Card `json:"scorecard"`
	Why       Why             `json:"why"`
	Forgeries []Forgery       `json:"forgeries"`
	OK        bool            `json:"ok"`
}

// A Why is why a case failed.
type Why struct {
	Case   string       `json:"case"`
	Modes  []string     `json:"failure_modes"`
	Failed grade.Detail `json:"check"`
}

// Options say where to make the demo's workspace, and how to run its bench.
type Options struct {
	Dir   string // "" for a temporary folder
	World dossier.World
	// Run is "tally run CLASS" in a workspace. It is the surface's own, so that
	// what is forged is what people get.
	Run func(ctx context.Context, dir, class string, world dossier.World) error
}

// Show makes a workspace, runs a real bench in it, and forges the result in
// every way that [Answer] lists.
func Show(ctx context.Context, o Options) (*Answer, error) {
	temp, remove, err := store.TempDir("tally-demo-")
	if err != nil {
		return nil, err
	}
	defer remove()
	d := &demo{dir: o.Dir, old: filepath.Join(temp, "old"), scratch: temp, receipt: filepath.Join(temp, "receipt.tlog-proof"), run: o.Run}
	if d.dir == "" {
		d.dir = filepath.Join(temp, "workspace")
	}
	// The demo's memory of what it signed is its own, so that forging it leaves
	// nothing behind on this machine.
	d.world = quietWorld(o.World, filepath.Join(temp, "state"))
	a := &Answer{Workspace: d.dir, Attempt: demoAttempt}
	if err := d.record(ctx, o, a); err != nil {
		return nil, err
	}
	if err := d.look(ctx, a); err != nil {
		return nil, err
	}
	if err := d.honest(); err != nil {
		return nil, err
	}
	o.World.Note("forging it")
	a.OK = true
	for _, f := range slices.Concat(demoForgeries, lies) {
		got := d.try(f)
		a.Forgeries = append(a.Forgeries, got)
		a.OK = a.OK && got.Refused && got.Name == got.Expected
	}
	return a, nil
}

// quietWorld is a world that says nothing and has a memory of its own.
func quietWorld(w dossier.World, state string) dossier.World {
	return dossier.World{Now: w.Now, Note: func(string, ...any) {}, Getenv: func(name string) string {
		if name == "XDG_STATE_HOME" {
			return state
		}
		return ""
	}}
}

// record makes the workspace and the attempt that will be forged.
func (d *demo) record(ctx context.Context, o Options, a *Answer) error {
	note := o.World.Note
	note("making a workspace in %s", d.dir)
	if _, err := ceremony.Init(ctx, ceremony.InitOptions{Dir: d.dir, Origin: demoOrigin, Operator: "operator@local"}, d.world); err != nil {
		return err
	}
	note("two example people sign a bench of %d cases, %s", len(demoCases), demoClass)
	if err := d.sign(); err != nil {
		return err
	}
	if err := copyFolder(d.dir, d.old); err != nil {
		return err
	}
	note("running it, with model and tools answered by the cases")
	if err := o.Run(ctx, d.dir, demoClass, d.world); err != nil {
		return err
	}
	p, err := dossier.Open(d.dir, d.world)
	if err != nil {
		return err
	}
	v, err := p.Verify(nil)
	if err != nil {
		return err
	}
	first := v.EveryKey()[0]
	d.key = seal.VKey(first.Key, first.Origin)
	a.Entries, a.Head = v.Size, v.Head.String()
	return nil
}

// sign writes the bench, and has the example people sign it as real people do.
func (d *demo) sign() error {
	files := make(map[string][]byte)
	err := fs.WalkDir(benchFiles, "bench", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[strings.TrimPrefix(path, "bench/")], err = benchFiles.ReadFile(path)
		return err
	})
	if err != nil {
		return err
	}
	alice, bob := ceremony.ExamplePeople()
	for _, c := range demoCases {
		t := bench.NewCase(c.id, c.title, &bench.Person{Identity: alice}, &bench.Person{Identity: bob}, d.world.Now())
		t.Expected = ""
		files[bench.CasesDir+"/"+c.id+"/"+bench.CaseFile] = t.YAML()
	}
	if err := ceremony.WriteFiles(filepath.Join(d.dir, bench.Dir, demoClass), files); err != nil {
		return err
	}
	return inCorpus(d.dir, d.world, func(c *dossier.Corpus) error { return ceremony.SignAsExamples(c, demoClass) })
}

// look reads back what the attempt came to, and prepares what a stranger gets.
func (d *demo) look(ctx context.Context, a *Answer) error {
	p, err := dossier.Open(d.dir, d.world)
	if err != nil {
		return err
	}
	past, err := p.Read(dossier.Ask{})
	if err != nil {
		return err
	}
	attempt, err := past.Attempt(demoAttempt)
	if err != nil {
		return err
	}
	whole, err := attempt.ReadAll()
	if err != nil {
		return err
	}
	if a.Scorecard, err = scorecard.Of(past.History, scorecard.View{Attempts: []*history.Attempt{attempt.Attempt}, Evidence: map[*history.Attempt]scorecard.Evidence{attempt.Attempt: whole}}); err != nil {
		return err
	}
	failed, err := past.FindCase(dossier.CaseQuery{Case: demoFailed, Attempt: demoAttempt})
	if err != nil {
		return err
	}
	checks, err := failed.Checks()
	if err != nil {
		return err
	}
	a.Why = Why{Case: demoFailed, Modes: failed.FailureModes()}
	for _, c := range checks {
		// The first is about all of them together.
		if c.Outcome != grade.Passed && c.Check != "" {
			a.Why.Failed = c
			break
		}
	}
	if failed.Outcome() != evidence.Failed || a.Scorecard.Solved != len(demoCases)-1 {
		return refusal.Newf(refusal.Failed, "the demo's bench did not come out as it should: %d solved, %s %s", a.Scorecard.Solved, demoFailed, failed.Outcome()).
			WithHint("this is a bug in tally; please report it")
	}
	_, err = outgoing.WriteReceipt(ctx, p, failed.Index, d.receipt, func(receipt, entry []byte, key string) error {
		var t verify.Trust
		if err := t.AddLog(key); err != nil {
			return err
		}
		return verify.IssuedReceipt(receipt, entry, t)
	})
	return err
}

// copyFolder copies a workspace, keeping modes: keys must stay private.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			return store.MakeDir(store.OS{}, target, info.Mode().Perm())
		}
		data, err := store.ReadFile(store.OS{}, path, 64<<20)
		if err != nil {
			return err
		}
		return store.WriteFile(store.OS{}, target, data, info.Mode().Perm())
	})
}
