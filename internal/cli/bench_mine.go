package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/app/mine"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/sandbox"
)

func newBenchMine(env *Env) *cobra.Command {
	var o mine.Options
	var language, class string
	cmd := &cobra.Command{
		Use:     "mine REPO...",
		Short:   "Make a class of the history of git repositories",
		Example: "tally bench mine ../project --class fixes --limit 20 --scratch",
		Long: `Make bench/CLASS of the git repositories in the folders REPO: a commit that changes code and
tests, whose tests fail on its parent and pass with it, becomes a case. The agent gets the
parent's tree and the commit's message; the commit's tests grade it and stay hidden.

Every commit is checked in a sandbox without a network, twice on the parent and twice with
the change; one that behaves differently the second time is dropped. Commits that are cheap
to check come first, in turn of each repository, and after a few the command says how long
the rest will take. A command that was stopped resumes when it is run again. Commits that
repeat another but for names, literals and comments are dropped.

Go, Python (unittest, pytest) and Node (node --test) are known. Packages that the tests need
are vendored, or lie in the folder of --cache, which is shown read-only: the module cache of
Go (default: that of "go env"), a virtual environment or a folder of Python packages or
wheels, or node_modules. tally.yaml names these folders for later runs, as test_mounts.

Two agents are written beside the class, as targets: "reference" makes the recorded change,
"nothing" does nothing. audit/mined/CLASS.json says what became of every commit.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Repos, o.Language, o.Sandbox = args, mine.Language(language), sandbox.Class(class)
			return runBenchMine(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Class, "class", "", "`CLASS` to make (default: that of the first folder, with -history)")
	f.IntVar(&o.Limit, "limit", 0, "stop after `N` cases (default: all there are)")
	f.StringVar(&language, "language", "", "`LANGUAGE`: "+strings.Join(mine.Languages(), ", ")+" (default: by the files of the newest commit)")
	f.StringVar(&o.Cache, "cache", "", "`DIR` with installed packages, shown to tests read-only")
	f.StringVar(&o.Since, "since", "", "only commits after `REV`")
	f.IntVar(&o.Jobs, "jobs", 0, "check `N` commits at once (default: 2)")
	f.IntVar(&o.Seconds, "test-seconds", 0, "drop a commit whose tests take longer than `N` seconds, up to three times as long while the machine is busy (default: 300)")
	f.StringSliceVar(&o.Without, "without", nil, "leave out commits whose tests compile the Go package `PKG` or one below it")
	f.StringVar(&class, "sandbox", "", "`CLASS` of sandbox to check in, which the class then demands (default: gvisor, else namespace)")
	f.StringVar(&o.Image, "image", "", "`DIGEST` of the image that tests run in, which the cases then name (default: this machine's programs)")
	f.BoolVar(&o.Scratch, "scratch", false, "a class without signatures: it runs at once and never counts")
	f.StringVar(&o.AddedBy, "added-by", "", "`NAME` of the curator who adds the cases")
	f.StringVar(&o.ReviewedBy, "reviewed-by", "", "`NAME` of the person who reviews them")
	return cmd
}

func runBenchMine(ctx context.Context, env *Env, o mine.Options) error {
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	if !env.Quiet && !env.JSON {
		o.Progress = mineMeter(env, o.Limit)
	}
	report, err := mine.Run(ctx, c, o)
	if report == nil {
		return err
	}
	if err != nil {
		report.PrintTable(env.Stderr)
		return err
	}
	return env.Answer(report, report.Print)
}

// mineMeter tells of each commit that was checked, and how long the rest will take: on
// a terminal in a line of its own that is written again, else when it is first known
// and with every 25th commit.
func mineMeter(env *Env, limit int) func(mine.Progress) {
	terminal, told := isTerminal(env.Stderr), false
	return func(p mine.Progress) {
		m, end := p.Commit, "\n"
		if terminal {
			end = "\x1b[K\n"
		}
		fmt.Fprintf(env.Stderr, "%d/%d %s %.12s %6.1fs %-7s %s%s", p.Done, p.Of, plain.Line(m.Repository), m.Commit, m.Seconds, m.Fate(), plain.Line(cmp.Or(m.Dropped, m.Subject)), end)
		if p.Left == 0 || !terminal && told && p.Done%25 != 0 {
			return
		}
		told = true
		wanted := ""
		if limit > 0 {
			wanted = fmt.Sprintf(" of %d", limit)
		}
		line := fmt.Sprintf("%d%s tasks found, about %s left", p.Kept, wanted, p.Left.Round(time.Second))
		if terminal {
			fmt.Fprint(env.Stderr, line, "\x1b[K\r")
		} else {
			fmt.Fprintln(env.Stderr, line)
		}
	}
}
