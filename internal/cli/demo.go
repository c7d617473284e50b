package cli

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/ceremony"
	"tallystick/internal/evidence"
	"tallystick/internal/grade"
	"tallystick/internal/history"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/store"
)

func newDemo(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Offline, in seconds: run a bench, then try to forge the result in many ways",
		Long: `Make a workspace in DIR (default: a temporary folder, removed afterwards), have two
example people sign a small bench, run it, print the scorecard and why a case failed,
and then forge bench, ledger, evidence and totals in many ways. Exit 0 only if every
forgery is refused.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) == 1 {
				dir = args[0]
			}
			return runDemo(cmd.Context(), env, dir)
		},
	}
}

// demoBench is the class that the demo runs, but for the case.yaml of each case,
// which says who added it and when.
//
//go:embed demobench
var demoBench embed.FS

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
	{"refund-of-a-stranger", "A refund of somebody else's order"},
}

// A demo is a workspace, an older copy of it, and what a stranger was given.
type demo struct {
	env     *Env // of the workspace itself
	dir     string
	old     string // copy of the workspace before the attempt
	scratch string // for forged copies
	key     string // the ledger's verifier key
	receipt string // of the failed case
}

// demoAnswer is what a script gets.
type demoAnswer struct {
	Workspace string          `json:"workspace"`
	Entries   int64           `json:"entries"`
	Head      string          `json:"head"`
	Attempt   string          `json:"attempt"`
	Scorecard *scorecard.Card `json:"scorecard"`
	Why       demoWhy         `json:"why"`
	Forgeries []demoForgery   `json:"forgeries"`
	OK        bool            `json:"ok"`
}

// demoWhy is why a case failed.
type demoWhy struct {
	Case   string       `json:"case"`
	Modes  []string     `json:"failure_modes"`
	Failed grade.Detail `json:"check"`
}

func runDemo(ctx context.Context, env *Env, dir string) error {
	temp, remove, err := store.TempDir("tally-demo-")
	if err != nil {
		return err
	}
	defer remove()
	if dir == "" {
		dir = filepath.Join(temp, "workspace")
	}
	d := &demo{dir: dir, old: filepath.Join(temp, "old"), scratch: temp, receipt: filepath.Join(temp, "receipt.tlog-proof")}
	// The demo's memory of what it signed is its own, so that forging it leaves
	// nothing behind on this machine.
	d.env = env.inside(dir, filepath.Join(temp, "state"))
	a := demoAnswer{Workspace: dir, Attempt: demoAttempt}
	if err := d.record(ctx, env, &a); err != nil {
		return err
	}
	if err := d.look(&a); err != nil {
		return err
	}
	if err := d.honest(); err != nil {
		return err
	}
	env.Note("forging it")
	a.OK = true
	for _, f := range demoForgeries {
		got := d.try(f)
		a.Forgeries = append(a.Forgeries, got)
		a.OK = a.OK && got.Refused && got.Name == got.Expected
	}
	if err := env.Answer(a, a.text); err != nil {
		return err
	}
	if !a.OK {
		return refusal.Newf(refusal.ChainTamperDetected, "a forgery was not refused as it should be").WithHint("this is a bug in tally; please report it")
	}
	return nil
}

// inside returns an Env that works in dir, quietly, with a memory of its own.
func (e *Env) inside(dir, state string) *Env {
	return &Env{Stdin: bytes.NewReader(nil), Stdout: io.Discard, Stderr: io.Discard, Now: e.Now, Quiet: true, WorkspaceDir: dir,
		Getenv: func(name string) string {
			if name == "XDG_STATE_HOME" {
				return state
			}
			return ""
		}}
}

// record makes the workspace and the attempt that will be forged.
func (d *demo) record(ctx context.Context, env *Env, a *demoAnswer) error {
	env.Note("making a workspace in %s", d.dir)
	if err := runInit(ctx, d.env, ceremony.InitOptions{Dir: d.dir, Origin: demoOrigin, Operator: "operator@local"}); err != nil {
		return err
	}
	env.Note("two example people sign a bench of %d cases, %s", len(demoCases), demoClass)
	if err := d.sign(ctx); err != nil {
		return err
	}
	if err := copyFolder(d.dir, d.old); err != nil {
		return err
	}
	env.Note("running it, with model and tools answered by the cases")
	if err := runRun(ctx, d.env, runOptions{class: demoClass, target: agent.DefaultTarget, repeat: 1}); err != nil {
		return err
	}
	_, v, err := d.env.verifiedLedger(nil)
	if err != nil {
		return err
	}
	d.key = vkeyOf(v.EveryKey()[0])
	a.Entries, a.Head = v.Size, v.Head.String()
	return nil
}

// sign writes the bench, and has the example people sign it as real people do.
func (d *demo) sign(ctx context.Context) error {
	files := make(map[string][]byte)
	err := fs.WalkDir(demoBench, "demobench", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[strings.TrimPrefix(path, "demobench/")], err = demoBench.ReadFile(path)
		return err
	})
	if err != nil {
		return err
	}
	alice, bob := ceremony.ExamplePeople()
	for _, c := range demoCases {
		t := bench.NewCase(c.id, c.title, &bench.Person{Identity: alice}, &bench.Person{Identity: bob}, d.env.Now())
		t.Expected = ""
		files[bench.CasesDir+"/"+c.id+"/"+bench.CaseFile] = t.YAML()
	}
	if err := ceremony.WriteFiles(filepath.Join(d.dir, bench.Dir, demoClass), files); err != nil {
		return err
	}
	c, err := d.env.openCorpus()
	if err != nil {
		return err
	}
	defer c.Close()
	return ceremony.SignAsExamples(c, demoClass)
}

// look reads back what the attempt came to, and prepares what a stranger gets.
func (d *demo) look(a *demoAnswer) error {
	past, err := read(d.env, archive.Ask{})
	if err != nil {
		return err
	}
	attempt, err := past.Attempt(demoAttempt)
	if err != nil {
		return err
	}
	if a.Scorecard, err = scorecard.Of(past.History, scorecard.View{Attempts: []*history.Attempt{attempt}, Evidence: past.Evidence}); err != nil {
		return err
	}
	_, failed, err := past.FindCase(archive.CaseQuery{Case: demoFailed, Attempt: demoAttempt})
	if err != nil {
		return err
	}
	checks, err := past.Checks(failed)
	if err != nil {
		return err
	}
	a.Why = demoWhy{Case: demoFailed, Modes: failed.FailureModes()}
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
	return runLedgerProve(context.Background(), d.env, ledgerProveOptions{index: failed.Index, out: d.receipt})
}

func (a demoAnswer) text(w io.Writer) {
	c := a.Scorecard
	coverage := 0.0
	if c.EvidenceCoverage != nil {
		coverage = *c.EvidenceCoverage
	}
	fmt.Fprintf(w, "\nattempt %s (%s): %d of %d solved, %.2f [%.2f, %.2f] at 95 %%\n", plain.Line(a.Attempt), c.Level, c.Solved, c.TotalTasks, c.SolveRate, c.SolveRateCI95[0], c.SolveRateCI95[1])
	fmt.Fprintf(w, "  %s, %d tokens, %d policy violations, evidence of %.0f %% of what was solved\n", dollars(c.TotalCostMicro), c.TotalTokens, c.PolicyViolations, 100*coverage)
	fmt.Fprintf(w, "%s failed: %s\n", plain.Line(a.Why.Case), plain.Line(strings.Join(a.Why.Modes, ", ")))
	fmt.Fprintf(w, "  check %s, %s: %s\n", plain.Line(a.Why.Failed.Check), plain.Line(a.Why.Failed.Extractor), plain.Line(a.Why.Failed.Why))
	fmt.Fprintf(w, "All of it is in a ledger of %d entries, sealed and anchored:\n  %s\n\nNow forge it:\n", a.Entries, a.Head)
	for _, f := range a.Forgeries {
		word := "refused"
		if !f.Refused {
			word = "ACCEPTED"
		}
		fmt.Fprintf(w, "  %-8s %-58s %s\n", word, f.Forgery, f.Name)
	}
	if a.OK {
		fmt.Fprintf(w, "\nAll %d forgeries were refused.\n", len(a.Forgeries))
	}
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
