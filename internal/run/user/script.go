package user

import (
	"context"
	"fmt"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
)

// Bounds of one reply of a script.
const (
	scriptTime   = 30 * time.Second
	scriptMemory = 256 << 20
)

// ScriptOptions are how a script runs: alone in a fresh sandbox for every reply.
func ScriptOptions(script string, accept []sandbox.Class) sandbox.Options {
	return sandbox.Options{Accept: accept, Scope: sandbox.ScopeCase, Rubric: sandbox.Rubric{Main: scenario.UserFile, Files: map[string][]byte{scenario.UserFile: []byte(script)}}}
}

// A Script plays the user by a program of the case. What it remembers is in the state
// that it gives with each move.
type Script struct {
	run   func(ctx context.Context, job sandbox.Job) (sandbox.Result, error)
	facts map[string]string
	state canon.RawMessage
}

// NewScript makes the player of one execution. Run gives the script one input.
func NewScript(s *scenario.Scenario, run func(context.Context, sandbox.Job) (sandbox.Result, error)) *Script {
	p := &Script{run: run, facts: map[string]string{}, state: canon.RawMessage("{}")}
	for _, f := range s.User.Facts {
		p.facts[f.Name] = f.Value
	}
	return p
}

// move has the script reply. An error that is not [unreadable] says that the sandbox
// could not do its work.
func (p *Script) move(ctx context.Context, h Heard) (Move, *trajectory.UserMoved, error) {
	event := &trajectory.UserMoved{By: trajectory.ByScript, Source: "script"}
	input, err := canon.Marshal(map[string]any{"state": p.state, "message": struct {
		Heard
		Facts map[string]string `json:"facts"`
	}{h, p.facts}})
	if err != nil {
		return Move{}, event, err
	}
	r, err := p.run(ctx, sandbox.Job{Stdin: input, Limits: sandbox.Limits{Timeout: scriptTime, MemoryBytes: scriptMemory}})
	if err != nil {
		return Move{}, event, err
	}
	if r.Verdict != sandbox.OK {
		return Move{}, event, &broken{fmt.Errorf("%s ended with %s, exit status %d: %s", scenario.UserFile, r.Verdict, r.ExitCode, head(r.StderrHead, 1000))}
	}
	m, state, err := parseScripted(r.Stdout)
	if err != nil {
		return Move{}, event, &unreadable{fmt.Errorf("%s: %w", scenario.UserFile, err)}
	}
	if state != nil {
		p.state = state
	}
	return m, event, nil
}
