package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
)

func newInit(env *Env) *cobra.Command {
	var o ceremony.ScaffoldOptions
	cmd := &cobra.Command{
		Use:     "init [DIR]",
		Short:   "Make a workspace: keys, example signers, a signed example bench, a ledger",
		Example: "tally init evals --agent python:agent.py",
		Long: `Make a workspace in DIR (default: the current folder).

It makes an operator key, and two example signers whose keys lie in .tally/keys
so that you can try the ceremonies alone. Replace them with your people's own
SSH keys before you rely on a signature: give --signers FILE, an allowed_signers
file that names the people and the operator's key, or change the file later with
"tally signers". templates/CODEOWNERS asks for review of what the signatures rest on.

With --agent it is for an agent that you have: it makes a target that starts it, with
its virtual environment or node_modules, and a class of five cases with a gate that
wants them all, in place of the example. Files that are there are kept. In a workspace
it adds the target, and the class if there is none of that name.

  tally init --agent python:agent.py
  tally init evals --agent typescript:src/agent.ts
  tally init --agent http://127.0.0.1:8080/turn
  tally init --agent "command:ruby agent.rb"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Dir = args[0]
			}
			if o.Agent != "" {
				return runScaffold(cmd.Context(), env, o)
			}
			if o.Name != "" || o.Class != "" {
				return refusal.Newf(refusal.Usage, "--name and --class are for an agent, and --agent is missing").WithHint("as in: tally init --agent python:agent.py")
			}
			return runInit(cmd.Context(), env, o.InitOptions)
		},
	}
	cmd.Flags().StringVar(&o.Origin, "origin", "", "`NAME` of the ledger, as in example.com/evals (default: a random local one)")
	cmd.Flags().StringVar(&o.Operator, "operator", "operator@local", "`NAME` of the person who runs evaluations here")
	cmd.Flags().StringVar(&o.Signers, "signers", "", "allowed_signers `FILE` to start from instead of the example people")
	cmd.Flags().StringVar(&o.Agent, "agent", "", "the agent to test: `KIND:WHERE`, with the kinds python, typescript, http and command")
	cmd.Flags().StringVar(&o.Name, "name", "", "`NAME` of its target (default: that of the file or folder)")
	cmd.Flags().StringVar(&o.Class, "class", "", "`CLASS` of the cases (default: the target's name)")
	return cmd
}

// initAnswer tells where things are.
type initAnswer struct {
	Workspace string    `json:"workspace"`
	Origin    string    `json:"origin"`
	TrustRoot digest.ID `json:"trust_root"`
	VKey      string    `json:"vkey"`
	Signers   []string  `json:"signers"`
	Next      []string  `json:"next"` // commands
}

func runInit(ctx context.Context, env *Env, o ceremony.InitOptions) error {
	if o.Dir == "" {
		o.Dir = env.WorkspaceDir
	}
	p, err := ceremony.Init(ctx, o, worldOf(env))
	if err != nil {
		return err
	}
	key, err := p.OperatorKey()
	if err != nil {
		return err
	}
	s, err := ceremony.ReadSigners(p)
	if err != nil {
		return err
	}
	a := initAnswer{Workspace: p.Dir, Origin: p.Settings.Origin, TrustRoot: p.Settings.TrustRoot, VKey: describeKey("operator", key, p.Settings.Origin).VKey}
	for _, entry := range s.InForce.Entries() {
		a.Signers = append(a.Signers, entry.Principals)
	}
	a.Next = afterInit(p, s.InForce)
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "workspace   %s\nledger      %s\ntrust root  %s\nledger key  %s\n", plain.Line(a.Workspace), a.Origin, a.TrustRoot, a.VKey)
		for _, entry := range s.InForce.Entries() {
			fmt.Fprintf(out, "signer      %s %v\n", plain.Line(entry.Principals), entry.Roles)
		}
		if len(a.Next) == 1 {
			fmt.Fprintf(out, "\nNext: %s\n", plain.Line(a.Next[0]))
			return
		}
		fmt.Fprint(out, "\nNext:\n")
		for _, command := range a.Next {
			fmt.Fprintf(out, "  %s\n", plain.Line(command))
		}
	})
}

// afterInit are the commands to type next. Only the people themselves can sign who the
// operator is; the examples have done so.
func afterInit(p *dossier.Place, signers *seal.Signers) []string {
	var next []string
	if _, _, err := p.VerifyOperators(signers); err != nil {
		next = append(next, "tally signers operators --sign KEY   # two people, each with their own key: it says who the operator is, and --strict asks for it")
	}
	if workspace.Exists(p.Path(bench.Dir, ceremony.ExampleClass)) {
		return append(next, "tally bench verify --all; tally run "+ceremony.ExampleClass)
	}
	return append(next, "tally bench new CLASS")
}

// scaffoldAnswer tells what was made for an agent.
type scaffoldAnswer struct {
	Workspace string   `json:"workspace"`
	Origin    string   `json:"origin"`
	Target    string   `json:"target"`
	Class     string   `json:"class"`
	Wrote     []string `json:"wrote"`
	Kept      []string `json:"kept"`
	Notes     []string `json:"notes"`
	Next      []string `json:"next"`
}

func runScaffold(ctx context.Context, env *Env, o ceremony.ScaffoldOptions) (err error) {
	if o.Dir == "" {
		o.Dir = env.WorkspaceDir
	}
	if o.Here, err = os.Getwd(); err != nil {
		return refusal.Newf(refusal.Unreadable, "finding the current folder: %w", err)
	}
	s, err := ceremony.Scaffold(ctx, o, worldOf(env))
	if err != nil {
		return err
	}
	a := scaffoldAnswer{Workspace: s.Dir, Origin: s.Settings.Origin, Target: s.Target, Class: s.Class, Wrote: s.Wrote, Kept: s.Kept, Notes: s.Notes, Next: nextCommands(s)}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "workspace  %s\n", plain.Line(a.Workspace))
		for _, name := range a.Wrote {
			fmt.Fprintf(out, "wrote      %s\n", plain.Line(name))
		}
		for _, name := range a.Kept {
			fmt.Fprintf(out, "kept       %s, which was there\n", plain.Line(name))
		}
		for _, note := range a.Notes {
			fmt.Fprintf(out, "note       %s\n", plain.Line(note))
		}
		fmt.Fprintf(out, "\nPut cases of your own into %s, one a line: an id, what the agent is asked, what a right\nanswer is and how it is compared. Everything but .tally can be committed.\n\nNext:\n", plain.Line(path.Join(bench.Dir, a.Class, bench.DatasetFile)))
		for _, command := range a.Next {
			fmt.Fprintf(out, "  %s\n", plain.Line(command))
		}
	})
}

// nextCommands are what to type next. An agent that calls no model needs no
// recording, and a run tells.
func nextCommands(s *ceremony.Scaffolded) []string {
	of := s.Class + " --target " + s.Target
	if s.Models {
		return []string{"tally run " + of + " --live   # once, with real models, and with --max-cost USD in a script", "tally run " + of + "          # free, from what was recorded", "tally why CASE"}
	}
	return []string{"tally run " + of, "tally why CASE", "tally run " + of + " --baseline ATTEMPT   # after a change"}
}
