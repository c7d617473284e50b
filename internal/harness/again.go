package harness

import (
	"context"

	"tallystick/internal/agent"
	"tallystick/internal/bench"
	"tallystick/internal/policy"
	"tallystick/internal/scenario"
	"tallystick/internal/session"
	"tallystick/internal/tools"
	"tallystick/internal/trajectory"
)

// DriveAgain drives a target through a scenario that was made of a trajectory,
// under the policy of its class, or of its governance mode if the class is not
// at hand. Nothing is graded or recorded.
func DriveAgain(ctx context.Context, t *agent.Target, s *scenario.Scenario, first trajectory.RunStarted, reg *bench.Registration, o agent.Options) (session.Result, error) {
	rules, err := policy.Compile(policy.ForMode(first.Governance), nil)
	if reg != nil {
		rules, err = rulesOf(*reg)
	}
	if err != nil {
		return session.Result{}, err
	}
	box, err := tools.New(s.Tools, "", nil, nil)
	if err != nil {
		return session.Result{}, err
	}
	start, err := s.StartTime()
	if err != nil {
		return session.Result{}, err
	}
	first.Target = t.Name
	run, err := session.New(session.Config{Run: first, Rules: rules, Start: start, Models: session.NewScript(s.Model), Source: "authored", Tools: box, Approvals: s.Approvals})
	if err != nil {
		return session.Result{}, err
	}
	driven, err := t.Drive(ctx, run, s, o)
	if err != nil {
		return run.Fail(err), nil
	}
	return run.Complete(driven.Answer, driven.Refused), nil
}
