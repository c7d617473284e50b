package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/harness"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
	"tallystick/internal/trajectory"
)

// goldenDir is the folder of golden traces, meant for git and for review.
const goldenDir = "golden"

// maxGolden bounds a golden file.
const maxGolden = 64 << 20

type goldenOptions struct {
	class, target, cases string
	jobs                 int
}

func newGolden(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "golden",
		Short: "Canonical traces of cases: update them, or find the first divergence",
		Long: `A golden trace is the event log of a case without what differs from run to run, as
text for people to review: golden/CLASS/CASE.golden. "update" writes them, "check"
drives every case again and reports the first divergence of each by turn and step.
Model and tools are answered from recordings, and nothing is recorded.`,
	}
	for _, sub := range []struct {
		use, short string
		run        func(context.Context, *Env, goldenOptions) error
	}{
		{"check CLASS", "Compare every case with its golden trace; exit 4 on the first difference", runGoldenCheck},
		{"update CLASS", "Write the golden trace of every case, for review", runGoldenUpdate},
	} {
		var o goldenOptions
		c := &cobra.Command{Use: sub.use, Short: sub.short, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			chooseTarget(cmd, o.class, &o.target)
			return sub.run(cmd.Context(), env, o)
		}}
		c.Flags().StringVar(&o.target, "target", agent.DefaultTarget, "`NAME` of the agent, from targets/NAME.yaml")
		c.Flags().StringVar(&o.cases, "case", "", "only cases whose id matches `GLOB`")
		c.Flags().IntVar(&o.jobs, "jobs", 0, "drive `N` cases at once")
		cmd.AddCommand(c)
	}
	return cmd
}

// words are the arguments that name the same cases and agent again.
func (o goldenOptions) words() string {
	if o.target == agent.DefaultTarget {
		return o.class
	}
	return o.class + " --target " + o.target
}

func goldenFile(w *archive.Place, class, caseID string) string {
	return w.Path(goldenDir, strings.ReplaceAll(class, ":", "-"), caseID+".golden")
}

// goldenTrace says what a golden trace keeps: costs too, as those of a recording
// do not change.
var goldenTrace = trajectory.Options{KeepCost: true}

// rehearse drives the cases of a class without recording anything.
func (e *Env) rehearse(ctx context.Context, o goldenOptions, visit func(*archive.Place, harness.Rehearsal) error) (*archive.Place, error) {
	run := runOptions{class: o.class, target: o.target, cases: o.cases, jobs: o.jobs, repeat: 1}
	if err := run.validate(); err != nil {
		return nil, err
	}
	p, err := e.openCorpus()
	if err != nil {
		return nil, err
	}
	defer p.Root.Close()
	r, err := e.newRunner(p, run)
	if err != nil {
		return nil, err
	}
	cfg, err := r.rehearsal()
	if err != nil {
		return nil, err
	}
	return p.Place, harness.Rehearse(ctx, cfg, func(h harness.Rehearsal) error { return visit(p.Place, h) })
}

type goldenAnswer struct {
	Class    string          `json:"class"`
	Target   string          `json:"target"`
	Checked  int             `json:"checked"`
	Equal    int             `json:"equal"`
	Met      bool            `json:"met"`
	Problems []goldenProblem `json:"problems"`
}

type goldenProblem struct {
	Case   string `json:"case"`
	Change string `json:"change"` // missing_golden, stale_golden, or the class of the divergence
	Turn   int    `json:"turn,omitempty"`
	Step   int    `json:"step,omitempty"`
	Detail string `json:"detail"`
}

func runGoldenCheck(ctx context.Context, env *Env, o goldenOptions) error {
	a := &goldenAnswer{Class: o.class, Target: o.target, Problems: []goldenProblem{}}
	seen := map[string]bool{}
	w, err := env.rehearse(ctx, o, func(w *archive.Place, h harness.Rehearsal) error {
		seen[h.Case.ID] = true
		a.Checked++
		problem, err := checkGolden(goldenFile(w, o.class, h.Case.ID), h)
		if err != nil {
			return fmt.Errorf("case %s: %w", h.Case.ID, err)
		}
		if problem == nil {
			a.Equal++
			return nil
		}
		a.Problems = append(a.Problems, *problem)
		return nil
	})
	if err != nil {
		return err
	}
	if o.cases == "" {
		if err := a.findStale(w, o.class, seen); err != nil {
			return err
		}
	}
	a.Met = len(a.Problems) == 0
	if err := env.Answer(a, a.print); err != nil || a.Met {
		return err
	}
	return refusal.Newf(refusal.GoldenDiverged, "class %s: %d of %d cases diverge from their golden traces", o.class, len(a.Problems), a.Checked).
		WithHint(`if the change is meant, run "tally golden update %s" and have the files reviewed`, o.words())
}

// checkGolden compares one case; a case without a golden file fails.
func checkGolden(file string, h harness.Rehearsal) (*goldenProblem, error) {
	golden, err := store.ReadFile(store.OS{}, file, maxGolden)
	if errors.Is(err, fs.ErrNotExist) {
		return &goldenProblem{Case: h.Case.ID, Change: "missing_golden", Detail: "there is no golden trace"}, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := trajectory.CheckGolden(golden, h.Verified, goldenTrace)
	if err != nil || d == nil {
		return nil, err
	}
	return &goldenProblem{Case: h.Case.ID, Change: string(d.Change), Turn: d.Turn, Step: d.Step, Detail: d.String()}, nil
}

// findStale reports golden traces of cases that the class no longer has: a
// check that compares nothing must not look like one that passed.
func (a *goldenAnswer) findStale(w *archive.Place, class string, seen map[string]bool) error {
	entries, err := os.ReadDir(filepath.Dir(goldenFile(w, class, "x")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.Unreadable, "listing the golden traces: %w", err)
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".golden"); ok && !seen[id] {
			a.Problems = append(a.Problems, goldenProblem{Case: id, Change: "stale_golden", Detail: "there is a golden trace and no such case"})
		}
	}
	return nil
}

func (a *goldenAnswer) print(out io.Writer) {
	for _, p := range a.Problems {
		at := ""
		if p.Step > 0 {
			at = fmt.Sprintf(" at turn %d, step %d", p.Turn, p.Step)
		}
		fmt.Fprintf(out, "%s: %s%s\n", plain.Line(p.Case), p.Change, at)
		detail := p.Detail
		if p.Step > 0 {
			_, detail, _ = strings.Cut(detail, "\n") // the first line says it again
		}
		for line := range strings.Lines(detail) {
			fmt.Fprintf(out, "    %s\n", plain.Line(strings.TrimRight(line, "\n")))
		}
	}
	fmt.Fprintf(out, "%d of %d cases equal their golden traces\n", a.Equal, a.Checked)
}

type goldenUpdateAnswer struct {
	Class   string   `json:"class"`
	Written []string `json:"written"`
	Same    int      `json:"same"`
}

func runGoldenUpdate(ctx context.Context, env *Env, o goldenOptions) error {
	a := goldenUpdateAnswer{Class: o.class, Written: []string{}}
	_, err := env.rehearse(ctx, o, func(w *archive.Place, h harness.Rehearsal) error {
		if h.Suspended {
			return refusal.Newf(refusal.ApprovalPending, "case %s waits for an approval, so it has no whole trace", h.Case.ID).
				WithHint("answer it in the case's scenario")
		}
		trace, err := trajectory.Canonical(h.Verified, goldenTrace)
		if err != nil {
			return err
		}
		text := trace.Format()
		file := goldenFile(w, o.class, h.Case.ID)
		if old, err := store.ReadFile(store.OS{}, file, maxGolden); err == nil && string(old) == string(text) {
			a.Same++
			return nil
		}
		if err := store.MakeDir(store.OS{}, filepath.Dir(file), 0o755); err != nil {
			return err
		}
		a.Written = append(a.Written, h.Case.ID)
		return store.WriteFile(store.OS{}, file, text, 0o644)
	})
	if err != nil {
		return err
	}
	return env.Answer(a, func(out io.Writer) {
		for _, id := range a.Written {
			fmt.Fprintf(out, "wrote %s\n", plain.Line(filepath.Join(goldenDir, strings.ReplaceAll(o.class, ":", "-"), id+".golden")))
		}
		fmt.Fprintf(out, "%d written, %d unchanged\nNext: review them and commit; \"tally golden check %s\" compares from now on\n", len(a.Written), a.Same, plain.Line(o.words()))
	})
}
