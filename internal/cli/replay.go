package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/app/lab"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/exchange"
)

type replayOptions struct {
	trajectory string
	pick       string
	until      int
	against    string
	pending    string
	id         string
	trust      bundleTrust

	showHeldOut bool
}

func newReplay(env *Env) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:         "replay TRAJECTORY",
		Annotations: readOnlyCommands,
		Short:       "Walk a trajectory, rebuild its state, run a changed agent against it",
		Example:     "tally replay latest:refund-7 --until 2",
		Long: `Verify a trajectory and walk through it. TRAJECTORY is a file, or ATTEMPT:CASE for one
of the evidence, whose head the ledger vouches for. A file may also be of another system:
OpenTelemetry GenAI or OpenInference spans (OTLP in JSON or protobuf, a Phoenix export) or
ATIF, or a folder of them. It is converted, the traces of a conversation into one
trajectory; what has no place in it is listed, and nothing vouches for it.

TRAJECTORY may be a bundle (RVF) too. It is verified first: each of --hmac-key-file, --signer
and --ledger-key that is given must hold. Then its specification, plan, tool calls, diff and
test log are shown, and its test log must support its outcome: solved needs a summary with
at least one test passed and none failed, failed is contradicted by one (exit 3).

--until stops at the end of a turn and shows memory, context and policy as they were
then. --against drives another target with the same words, model replies and tool
results and shows where it first does something else; of another system's run only tool
calls and answers are compared. --pending makes a draft case of it, which is never
scored until two people have signed it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.trajectory = args[0]
			if !cmd.Flags().Changed("until") {
				o.until = -1
			}
			return runReplay(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.pick, "pick", "", pickUsage)
	f.IntVar(&o.until, "until", -1, "show the state at the end of turn `N`")
	f.StringVar(&o.against, "against", "", "drive the target `NAME` with the same words and replies")
	f.StringVar(&o.pending, "pending", "", "make a draft case of it in `CLASS`")
	f.StringVar(&o.id, "id", "", "`ID` of the draft case (default: that of the trajectory's case)")
	o.trust.declare(cmd)
	addHeldOutFlag(cmd, &o.showHeldOut)
	return cmd
}

type replayAnswer struct {
	Source     string             `json:"source"`
	Imported   *exchange.Imported `json:"imported,omitempty"` // it is of another system
	Pinned     bool               `json:"pinned"`             // the ledger vouches for its head
	Head       digest.ID          `json:"head"`
	Events     int                `json:"events"`
	Turns      int                `json:"turns"`
	Complete   bool               `json:"complete"`
	Steps      []replayStep       `json:"steps"`
	State      replayState        `json:"state"`
	Against    string             `json:"against,omitempty"`
	Divergence *replayDivergence  `json:"divergence,omitempty"`
	Pending    string             `json:"pending,omitempty"`
}

type replayStep struct {
	Seq  int    `json:"seq"`
	Turn int    `json:"turn"`
	Type string `json:"type"`
	Text string `json:"text"`
}

type replayState struct {
	Turn       int            `json:"turn"`
	Memory     []replayMemory `json:"memory"`
	Peak       int64          `json:"context_peak"`
	OverBudget []int          `json:"over_budget_turns"`
	Decisions  int            `json:"decisions"`
	Violations int            `json:"violations"`
	Pending    []string       `json:"pending_approvals"`
	Tokens     int64          `json:"tokens"`
	Cost       cost.Cost      `json:"cost_microdollars"`
	Unpriced   int64          `json:"unpriced_calls,omitempty"` // not in the cost

	Context *trajectory.ContextCompiled `json:"context"` // the last that was compiled; null if none was
	// Unpermitted are actions that no decision of the policy permits. A run of
	// another system had no policy of ours, and none are listed.
	Unpermitted []replayStep `json:"unpermitted"`
}

type replayMemory struct {
	Tier       string `json:"tier"`
	Key        string `json:"key"`
	Value      string `json:"value"`
	Superseded bool   `json:"superseded"`
}

type replayDivergence struct {
	Change string `json:"change"`
	Turn   int    `json:"turn"`
	Step   int    `json:"step"`
	Detail string `json:"detail"`
}

func runReplay(ctx context.Context, env *Env, o replayOptions) error {
	if isBundle(o.trajectory) {
		return replayBundle(ctx, env, o.trust, o.trajectory)
	}
	if o.trust.named() {
		return refusal.Newf(refusal.Usage, "--hmac-key-file, --signer, --ledger-key and --unsafe-unsigned are for a bundle, which %s is not", o.trajectory)
	}
	if o.id != "" && o.pending == "" {
		return refusal.Newf(refusal.Usage, "--id names a draft, and --pending, which makes one, was not given")
	}
	loaded, err := loadTrajectory(env, o.trajectory, o.pick, o.showHeldOut)
	if err != nil {
		return err
	}
	v := loaded.Verified
	until := o.until
	if until < 0 {
		until = v.Turns()
	}
	if until > v.Turns() {
		return refusal.Newf(refusal.Usage, "--until %d: the trajectory has %d turns", until, v.Turns())
	}
	state, err := trajectory.Replay(v, until)
	if err != nil {
		return err
	}
	a := &replayAnswer{Source: o.trajectory, Imported: loaded.Imported, Pinned: v.Pinned(), Head: v.Head(), Events: v.Len(), Turns: v.Turns(), Complete: v.Complete(), State: stateOf(state), Against: o.against}
	if loaded.Imported != nil {
		a.State.Unpermitted = []replayStep{}
	}
	for e := range v.Events() {
		if e.Turn <= until {
			a.Steps = append(a.Steps, replayStep{e.Seq, e.Turn, string(e.Type), e.Payload.Summary()})
		}
	}
	if o.against != "" {
		if a.Divergence, err = driveAgainst(ctx, env, loaded, o.against); err != nil {
			return err
		}
	}
	if o.pending != "" {
		made, err := pendingOf(ctx, env, loaded, benchPendingOptions{class: o.pending, id: o.id})
		if err != nil {
			return err
		}
		a.Pending = made.Case
	}
	return env.Answer(a, a.print)
}

// driveAgainst drives a target with what happened, and says where it parts.
func driveAgainst(ctx context.Context, env *Env, loaded *exchange.Trajectory, name string) (*replayDivergence, error) {
	c, err := openCorpus(env)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	d, err := lab.DriveAgainst(ctx, c, happened(loaded), name)
	if err != nil || d == nil {
		return nil, err
	}
	return &replayDivergence{string(d.Change), d.Turn, d.Step, d.String()}, nil
}

// happened is the trajectory as the lab takes it.
func happened(l *exchange.Trajectory) lab.Happened {
	return lab.Happened{Verified: l.Verified, Content: l.Content, Foreign: l.Imported != nil}
}

// pendingOf makes a draft case of a trajectory.
func pendingOf(ctx context.Context, env *Env, loaded *exchange.Trajectory, o benchPendingOptions) (*ceremony.Pending, error) {
	incident, files, err := lab.Incident(happened(loaded), o.id)
	if err != nil {
		return nil, err
	}
	o.from = "trajectory " + loaded.Verified.Head().String()
	draft := o.draft()
	draft.Source, draft.Files = o.from, files
	return addPending(ctx, env, draft, incident)
}

func stateOf(s *trajectory.State) replayState {
	spent := s.Spending.Cost()
	tokens, _ := s.Spending.Tokens()
	out := replayState{Turn: s.Turn, Memory: []replayMemory{}, Peak: s.Peak, OverBudget: append([]int{}, s.OverBudget...), Decisions: len(s.Decisions),
		Violations: len(s.Violations), Pending: []string{}, Tokens: tokens, Cost: spent, Unpriced: spent.Unpriced, Context: s.Context, Unpermitted: []replayStep{}}
	for _, m := range s.Memory {
		out.Memory = append(out.Memory, replayMemory{string(m.Tier), m.Key, m.Value.Head, m.SupersededBy != ""})
	}
	for _, q := range s.Pending {
		out.Pending = append(out.Pending, string(q.Action)+" "+q.Name)
	}
	for _, u := range s.Unpermitted {
		out.Unpermitted = append(out.Unpermitted, replayStep{u.Seq, u.Turn, string(u.Type), u.Name})
	}
	return out
}

func (a *replayAnswer) print(out io.Writer) {
	trust := "nothing vouches for its head"
	if a.Pinned {
		trust = "the ledger vouches for its head"
	}
	fmt.Fprintf(out, "%s: %d events, %d turns; %s\n", plain.Line(a.Source), a.Events, a.Turns, trust)
	importedText(out, a.Imported)
	for _, s := range a.Steps {
		fmt.Fprintf(out, "%3d %5d  %-22s %s\n", s.Turn, s.Seq, s.Type, plain.Line(short(s.Text)))
	}
	st := a.State
	fmt.Fprintf(out, "at the end of turn %d: %d tokens, %s, %d decisions, %d violations, context peak %d\n", st.Turn, st.Tokens, st.Cost, st.Decisions, st.Violations, st.Peak)
	if c := st.Context; c != nil {
		fmt.Fprintf(out, "  context %d of a budget of %d tokens, the window has %d:", c.Used, c.Budget, c.Window)
		for _, name := range slices.Sorted(maps.Keys(c.Sections)) {
			fmt.Fprintf(out, " %s %d", name, c.Sections[name])
		}
		fmt.Fprintln(out)
	}
	for _, m := range st.Memory {
		gone := ""
		if m.Superseded {
			gone = " (superseded)"
		}
		fmt.Fprintf(out, "  memory  %s/%s: %s%s\n", m.Tier, plain.Line(m.Key), plain.Line(short(m.Value)), gone)
	}
	for _, p := range st.Pending {
		fmt.Fprintf(out, "  waits   for an approval of %s\n", plain.Line(p))
	}
	for _, u := range st.Unpermitted {
		fmt.Fprintf(out, "  NO DECISION PERMITS event %d in turn %d: %s %s\n", u.Seq, u.Turn, u.Type, plain.Line(u.Text))
	}
	switch {
	case a.Against != "" && a.Divergence == nil:
		fmt.Fprintf(out, "target %s does the same\n", plain.Line(a.Against))
	case a.Against != "":
		fmt.Fprintf(out, "target %s parts at turn %d, step %d (%s):\n%s\n", plain.Line(a.Against), a.Divergence.Turn, a.Divergence.Step, a.Divergence.Change, plain.Block(a.Divergence.Detail))
	}
	if a.Pending != "" {
		fmt.Fprintf(out, "draft %s made; it is NOT scored until two people have signed it\n", plain.Line(a.Pending))
	}
}
