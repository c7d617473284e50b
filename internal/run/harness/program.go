package harness

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
)

// graderInside is where a program that grades finds its files.
const graderInside = "/grader"

// defaultProgramSeconds is how long a program may grade unless the case says otherwise.
const defaultProgramSeconds = 60

// runProgram grades with a program of the suite itself, in a sandbox that shares no file
// with the agent's or the world's: it is given all that a rubric is, the events, and the
// state of the world, as JSON on its standard input, and prints a score as a rubric does.
func (r *run) runProgram(ctx context.Context, g *Graded, v *trajectory.Verified, p grade.ProgramSpec, value extract.Value) (grade.Graded, error) {
	input, err := r.programInput(g, v, value)
	if err != nil {
		return grade.Graded{}, err
	}
	files, err := r.c.GraderFiles(p.Tree)
	if err != nil {
		return grade.Graded{}, err
	}
	of, err := programDigest(p, files)
	if err != nil {
		return grade.Graded{}, err
	}
	result, err := r.w.startProgram(ctx, p, files, input, func(class sandbox.Class) error { return r.announce(g, grade.Invoked(string(class))) })
	if err != nil {
		return grade.Graded{}, fmt.Errorf("the program that grades: %w", err)
	}
	g.Files.Rubric = &evidence.RubricFiles{Input: *g.put(input), Output: *g.put(result.Stdout)}
	if result.StderrHead != "" {
		g.Files.Rubric.Stderr = g.put([]byte(result.StderrHead))
	}
	g.Record.RubricDigest, g.Record.ImageDigest = &of, p.Image
	g.Record.IsolationClass, g.Record.IsolationScope = string(result.Class), string(sandbox.ScopeCase)
	run := grade.RubricRun{Class: string(result.Class), Verdict: grade.RubricVerdict(result.Verdict), ExitCode: result.ExitCode, Wall: result.Wall, Stdout: result.Stdout}
	for _, a := range result.Attempted {
		if a.Act != "" {
			run.Attempted = append(run.Attempted, a.What+" "+a.Detail)
		}
	}
	return grade.Rubric(run, r.w.cfg.Bench.Registration(), g.Record.CostMicroUSD), nil
}

// programInput is what a rubric is given, and the events with their whole texts.
func (r *run) programInput(g *Graded, v *trajectory.Verified, value extract.Value) ([]byte, error) {
	given, err := r.rubricInput(g, v, value)
	if err != nil {
		return nil, err
	}
	events := []any{}
	for e := range v.Events() {
		events = append(events, map[string]any{"payload": e.Payload, "seq": e.Seq, "turn": e.Turn, "type": string(e.Type)})
	}
	given["trajectory"] = events
	return canon.Marshal(given)
}

// programDigest names a program that grades: what is started, and all that it finds of the
// bench.
func programDigest(p grade.ProgramSpec, files []digest.File) (digest.Content, error) {
	tree := digest.Content{}
	if len(files) > 0 {
		var err error
		if tree, err = (&digest.Tree{Files: files}).Digest(); err != nil {
			return tree, err
		}
	}
	text, err := canon.Marshal(map[string]any{"command": p.Command, "files": tree, "image": p.Image})
	return digest.ContentOf(text), err
}

// startProgram runs a program that grades.
func (w *Worker) startProgram(ctx context.Context, p grade.ProgramSpec, files []digest.File, input []byte, invoked func(sandbox.Class) error) (result sandbox.AgentResult, err error) {
	shown, err := w.worldRoot(&scenario.World{Image: p.Image})
	if err != nil {
		return result, err
	}
	dir, remove, err := store.TempDir("tally-grader-")
	if err != nil {
		return result, err
	}
	defer remove()
	o := sandbox.AgentOptions{Accept: w.rubrics.accept(), Command: p.Command, Dir: graderInside, Env: testEnvironment, Stdin: bytes.NewReader(input), Hidden: w.cfg.Hidden,
		System: shown.Image() == nil, Image: shown.Image(), Expect: shown.Expect(), ReadOnly: []sandbox.Mount{{Host: filepath.Join(dir, "grader"), Inside: graderInside}},
		Limits: sandbox.AgentLimits{Timeout: time.Duration(p.TimeoutSeconds) * time.Second, OutputBytes: sandbox.DefaultOutputBytes}}
	if p.TimeoutSeconds == 0 {
		o.Limits.Timeout = defaultProgramSeconds * time.Second
	}
	if err := store.PlantTree(o.ReadOnly[0].Host, files); err != nil {
		return result, err
	}
	if err := invoked(""); err != nil {
		return result, err
	}
	err = shown.While(func() (err error) {
		result, err = sandbox.RunAgent(ctx, o)
		return err
	})
	if err == nil && result.NotStarted != "" {
		err = refusal.Newf(refusal.RubricFailed, "it could not be started: %s", result.NotStarted).
			WithHint("its files are those of the case's folder grader/ and of the tree, in %s", graderInside)
	}
	return result, err
}
