package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/isolation"
)

type sandboxRunOptions struct {
	class   string
	rubric  string
	with    []string
	image   string
	scope   string
	timeout time.Duration
	memory  int64
}

func newSandboxRun(env *Env) *cobra.Command {
	var o sandboxRunOptions
	cmd := &cobra.Command{
		Use:     "run --class C --rubric F",
		Short:   "Run one rubric by hand: JSON on standard input, verdict out",
		Example: "tally sandbox run --class gvisor --rubric rubric.py < case.json",
		Long: `Run a rubric in a sandbox. Standard input is
{"harness_output":...,"expected":...,"case_metadata":...}; the answer says how the
rubric ended, the score it gave, and what it tried that a rubric must not.
Exit 0 when the verdict is ok, 1 otherwise. Nothing is recorded.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSandboxRun(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.class, "class", string(sandbox.GVisor), "isolation `CLASS`: "+isolation.Expected()+"; never a weaker one instead")
	f.StringVar(&o.rubric, "rubric", "", "the rubric, a `FILE` ending in .star or .py")
	f.StringArrayVar(&o.with, "with", nil, "a helper `FILE` to put beside the rubric (may be repeated)")
	f.StringVar(&o.image, "image", "", "`DIGEST` of the Python image, or \"host\" (default: the built one, else host)")
	f.StringVar(&o.scope, "scope", string(sandbox.ScopeCase), "`SCOPE`: case or attempt")
	f.DurationVar(&o.timeout, "timeout", sandbox.DefaultTimeout, "wall clock limit, at most 5m")
	f.Int64Var(&o.memory, "memory", sandbox.DefaultMemoryBytes, "memory limit in `BYTES`, at most 4 GiB")
	cmd.MarkFlagRequired("rubric")
	return cmd
}

type sandboxRunAnswer struct {
	Class       sandbox.Class   `json:"class"`
	Verdict     sandbox.Verdict `json:"verdict"`
	ExitCode    int             `json:"exit_code"`
	WallMS      float64         `json:"wall_ms"`
	MaxRSSBytes int64           `json:"max_rss_bytes"`
	ImageDigest string          `json:"image_digest"`
	ImagePinned bool            `json:"image_pinned"`
	Score       *evidence.Score `json:"score"`
	Attempted   []attemptAnswer `json:"attempted"`
	Watched     bool            `json:"watched"`
	StderrHead  string          `json:"stderr_head"`
	Problem     string          `json:"problem,omitempty"` // why the answer is malformed
}

type attemptAnswer struct {
	What   string `json:"what"`
	Detail string `json:"detail"`
}

// maxRubricInput bounds a file of the rubric, and what it is given; chosen
// arbitrarily.
const maxRubricInput = 64 << 20

func runSandboxRun(ctx context.Context, env *Env, o sandboxRunOptions) error {
	rubric, err := loadRubric(o.rubric, o.with)
	if err != nil {
		return err
	}
	opts := sandbox.Options{Accept: []sandbox.Class{sandbox.Class(o.class)}, Scope: sandbox.Scope(o.scope), Rubric: rubric}
	if opts.Scope != sandbox.ScopeCase && opts.Scope != sandbox.ScopeAttempt {
		return refusal.Newf(refusal.Usage, "scope %q is unknown", o.scope).Suggest(o.scope, words(sandbox.ScopeCase, sandbox.ScopeAttempt), "the scopes are case and attempt")
	}
	if lang, err := rubric.Language(); err != nil {
		return err
	} else if lang == sandbox.Python {
		if opts.Image, err = lab.PickImage(o.image, env.Note); err != nil {
			return err
		}
	}
	stdin, err := io.ReadAll(io.LimitReader(env.Stdin, maxRubricInput+1))
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "reading standard input: %w", err)
	}
	if len(stdin) > maxRubricInput {
		return refusal.Newf(refusal.TooLarge, "standard input is over %d bytes", maxRubricInput)
	}
	s, err := sandbox.Open(ctx, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.Run(ctx, sandbox.Job{Stdin: stdin, Limits: sandbox.Limits{Timeout: o.timeout, MemoryBytes: o.memory}})
	if err != nil {
		return err
	}
	a := describeRun(r)
	a.ImagePinned = opts.Image != nil && opts.Image.About.Pinned
	if err := env.Answer(a, func(w io.Writer) { printRun(w, a) }); err != nil {
		return err
	}
	if a.Verdict != sandbox.OK {
		problem := a.Problem
		if problem == "" {
			problem = fmt.Sprintf("status %d", a.ExitCode)
		}
		return refusal.Newf(refusal.RubricFailed, "rubric %s: %s (%s)", o.rubric, a.Verdict, plain.Line(problem)).
			WithHint("a case scored so is recorded as failed, never as skipped")
	}
	return nil
}

// describeRun judges the answer: only what parses as a score counts.
func describeRun(r sandbox.Result) sandboxRunAnswer {
	a := sandboxRunAnswer{Class: r.Class, Verdict: r.Verdict, ExitCode: r.ExitCode, WallMS: milliseconds(r.Wall), MaxRSSBytes: r.MaxRSS,
		ImageDigest: r.ImageDigest, Attempted: []attemptAnswer{}, Watched: r.Watched, StderrHead: r.StderrHead}
	for _, t := range r.Attempted {
		a.Attempted = append(a.Attempted, attemptAnswer{t.What, t.Detail})
	}
	if r.Verdict != sandbox.OK {
		return a
	}
	score, err := evidence.ParseScore(r.Stdout)
	if err != nil {
		a.Verdict, a.Problem = sandbox.Malformed, err.Error()
		return a
	}
	// Time and money are the harness's to tell, not the rubric's.
	score.DurationSeconds, score.CostUSD = float64(r.Wall.Milliseconds())/1000, 0
	a.Score = &score
	return a
}

func printRun(w io.Writer, a sandboxRunAnswer) {
	fmt.Fprintf(w, "%s in %s, status %d, %.0f ms, %d MiB\n", a.Verdict, a.Class, a.ExitCode, a.WallMS, a.MaxRSSBytes>>20)
	if a.ImageDigest != "" {
		pinned := "pinned"
		if !a.ImagePinned {
			pinned = "unpinned"
		}
		fmt.Fprintf(w, "image %s (%s)\n", a.ImageDigest, pinned)
	}
	if a.Score != nil {
		fmt.Fprintf(w, "score %g, passed %v\n", a.Score.Score, a.Score.Passed)
	}
	for _, t := range a.Attempted {
		fmt.Fprintf(w, "attempted: %s: %s\n", t.What, plain.Line(t.Detail))
	}
	if a.StderrHead != "" {
		fmt.Fprintf(w, "the rubric said: %s\n", plain.Lines(a.StderrHead, said))
	}
}

func loadRubric(file string, helpers []string) (sandbox.Rubric, error) {
	r := sandbox.Rubric{Main: filepath.Base(file), Files: map[string][]byte{}}
	for _, f := range append([]string{file}, helpers...) {
		b, err := dossier.ReadInput(f, maxRubricInput)
		if err != nil {
			return r, err
		}
		name := filepath.Base(f)
		if _, twice := r.Files[name]; twice {
			return r, refusal.Newf(refusal.Usage, "two rubric files are called %s", name)
		}
		r.Files[name] = b
	}
	return r, nil
}
