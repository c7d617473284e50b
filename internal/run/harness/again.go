package harness

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// An Again is something that happened and is to be driven once more.
type Again struct {
	Scenario *scenario.Scenario    // made of the trajectory
	First    trajectory.RunStarted // of the trajectory
	// Registration is that of its class, and Files are what the working folder of
	// its case begins with; nil if they are not at hand. Then the policy is that
	// of the governance mode.
	Registration *bench.Registration
	Files        []digest.File
}

// againLimit bounds how long a target is driven if no registration says.
const againLimit = 10 * time.Minute

// DriveAgain drives a target through a scenario that was made of a trajectory.
// Nothing is graded or recorded.
func DriveAgain(ctx context.Context, t *agent.Target, again Again, o agent.Options) (session.Result, error) {
	s := again.Scenario
	rules, err := policy.Compile(policy.ForMode(again.First.Governance))
	limits := session.Limits{Wall: againLimit}
	if reg := again.Registration; reg != nil {
		rules, err = rulesOf(*reg, offeredBy(again.First, *reg, s))
		limits = limitsOf(*reg)
	}
	if err != nil {
		return session.Result{}, err
	}
	start, err := s.StartTime()
	if err != nil {
		return session.Result{}, err
	}
	cfg := session.Config{Run: again.First, Rules: rules, Start: start, Models: session.NewScript(s.RepliesFor(cassette.ForAgent)), Source: "authored", Approvals: s.Approvals, Limits: limits}
	cfg.Run.Target = t.Name
	work := ""
	if needsFolder(t, s) {
		dir, remove, err := store.TempDir("tally-work-")
		if err != nil {
			return session.Result{}, err
		}
		defer remove()
		work = filepath.Join(dir, "work")
		if cfg.Folder, err = session.NewFolder(work, again.Files); err != nil {
			return session.Result{}, err
		}
	}
	box, err := tools.New(s.Tools, work, nil, nil)
	if err != nil {
		return session.Result{}, err
	}
	cfg.Tools = box
	run, err := session.New(cfg)
	if err != nil {
		return session.Result{}, err
	}
	if err := noteFindings(run, box); err != nil {
		return session.Result{}, err
	}
	within, cancel := context.WithTimeoutCause(ctx, limits.Wall, errWallClock)
	defer cancel()
	driven, err := t.Drive(within, run, s, o)
	if err != nil {
		return run.Fail(err), nil
	}
	return run.Complete(driven.Answer, driven.Refused), nil
}

// noteFindings records what is odd about the tools of a case.
func noteFindings(s *session.Session, box *tools.State) error {
	for _, f := range box.Findings() {
		if err := s.Security(trajectory.SecurityEvent{Name: f.Name, Detail: f.Detail, Severity: f.Severity}); err != nil {
			return err
		}
	}
	return nil
}

// offeredBy are the tools that the policy of a run allowed because its cases offer
// them: none if it was that of the mode alone.
func offeredBy(first trajectory.RunStarted, reg bench.Registration, s *scenario.Scenario) []string {
	alone, err := rulesOf(reg, nil)
	if err != nil || len(reg.Policy) > 0 || reg.Governance != bench.Restricted {
		return nil
	}
	if _, d := alone.Hashes(); d == first.Policy {
		return nil
	}
	names := slices.Concat(reg.AgentTools, s.AgentTools)
	for _, t := range s.Tools {
		names = append(names, t.Name)
	}
	return names
}
