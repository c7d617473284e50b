package harness

import (
	"context"
	"fmt"
	"sync"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/scenario"
	"tallystick/internal/session"
	"tallystick/internal/trajectory"
)

// A Rehearsal is one case that was driven and graded, and not recorded.
type Rehearsal struct {
	Case   *scenario.Case
	Repeat int
	// Record is what the ledger would have got; its evidence is in Pieces.
	Record     evidence.CaseScored
	Files      evidence.CaseFiles
	Pieces     map[digest.Content][]byte
	Trajectory []byte
	Verified   *trajectory.Verified // the same, read
	Answer     string
	Live       Recording // nil in a replay
	Suspended  bool      // an approval is open
}

// Rehearse drives and grades cases without a ledger, as golden traces, tries,
// recordings and reproductions need it. It gives the cases in the order of the
// plan. The config needs no ledger, no keys and no folders.
func Rehearse(ctx context.Context, cfg Config, visit func(Rehearsal) error) error {
	a, err := prepare(cfg)
	if err != nil {
		return err
	}
	a.id = attemptID(cfg.Bench.Class(), cfg.Target.Name, 0)
	// Before models are paid for, if this is a recording.
	if err := a.openSandboxes(ctx); err != nil {
		return err
	}
	defer a.rubrics.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// Workers take the next job and leave the result in its place; results are
	// given away in order. The window keeps a slow case from piling up others.
	type place struct {
		r   Rehearsal
		err error
	}
	n := a.workers()
	places := make(chan chan place, 4*n)
	slots := make(chan struct{}, n)
	var workers sync.WaitGroup
	go func() {
		defer close(places)
		for _, j := range a.jobs {
			if ctx.Err() != nil {
				return
			}
			at := make(chan place, 1)
			places <- at
			slots <- struct{}{}
			workers.Go(func() {
				defer func() { <-slots }()
				r, err := a.rehearse(ctx, j)
				at <- place{r, err}
			})
		}
	}()
	var first error
	for at := range places {
		p := <-at
		if first == nil {
			if first = p.err; first == nil {
				first = visit(p.r)
			}
			if first != nil {
				cancel(first)
			}
		}
	}
	workers.Wait()
	if first != nil {
		return first
	}
	return context.Cause(ctx)
}

func (a *attempt) rehearse(ctx context.Context, j job) (Rehearsal, error) {
	r, out, err := a.executeRun(ctx, 0, j)
	if err != nil {
		return Rehearsal{}, fmt.Errorf("case %s: %w", j.id, err)
	}
	if err := ctx.Err(); err != nil {
		return Rehearsal{}, context.Cause(ctx)
	}
	index, err := canon.Marshal(&out.files)
	if err != nil {
		return Rehearsal{}, err
	}
	h := Rehearsal{Case: r.c, Repeat: j.repeat, Record: out.record, Files: out.files, Trajectory: r.result.Trajectory, Verified: r.result.Verified, Answer: r.driven.Answer,
		Live: r.live, Suspended: r.result.Stop != nil && r.result.Stop.Kind == session.Suspended, Pieces: map[digest.Content][]byte{}}
	for _, p := range append(out.pieces, index) {
		h.Pieces[digest.ContentOf(p)] = p
	}
	h.Record.EvidenceDigests = []digest.Content{digest.ContentOf(index)}
	return h, nil
}
