package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"tallystick/internal/record/refusal"
)

// Rehearse drives and grades cases without recording anything, as golden traces,
// tries, recordings and reproductions need it. It gives the cases in the order of
// the plan.
func Rehearse(ctx context.Context, cfg Config, visit func(*Graded) error) error {
	// The sandboxes are opened before models are paid for, if this is a recording.
	ready, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	w, jobs := ready.worker, ready.jobs
	if cfg.Rank != nil {
		slices.SortStableFunc(jobs, func(a, b job) int { return cfg.Rank(a.id) - cfg.Rank(b.id) })
	}
	defer w.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// Workers take the next job and leave the result in its place; results are
	// given away in order. The window keeps a slow case from piling up others.
	type place struct {
		g   *Graded
		err error
	}
	n := atOnce(cfg.Spec.Jobs, len(jobs))
	places := make(chan chan place, 4*n)
	slots := make(chan struct{}, n)
	var workers sync.WaitGroup
	go func() {
		defer close(places)
		for _, j := range jobs {
			if ctx.Err() != nil {
				return
			}
			at := make(chan place, 1)
			places <- at
			slots <- struct{}{}
			workers.Go(func() {
				defer func() { <-slots }()
				g, err := w.rehearse(ctx, j)
				at <- place{g, err}
			})
		}
	}()
	var first error
	for at := range places {
		p := <-at
		if first == nil {
			if first = p.err; first == nil {
				first = visit(p.g)
			}
			p.g.release()
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

func (w *Worker) rehearse(ctx context.Context, j job) (*Graded, error) {
	g, err := w.rehearseOnce(ctx, j)
	if ctx.Err() == nil && refusal.Is(err, refusal.JournalDiffers) {
		// It went another way than before it was cut off: from the beginning, once.
		g, err = w.rehearseOnce(ctx, j)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", j.id, err)
	}
	return g, nil
}

func (w *Worker) rehearseOnce(ctx context.Context, j job) (*Graded, error) {
	given := Job{Attempt: w.unnumbered(), Case: j.id, Repeat: j.repeat, Execution: j.execution}
	if w.cfg.Paid == nil {
		return w.do(ctx, j.index, given)
	}
	var err error
	if given.Paid, err = w.cfg.Paid(j.id, j.repeat); err != nil {
		return nil, err
	}
	g, err := w.do(ctx, j.index, given)
	if ctx.Err() == nil && refusal.Is(err, refusal.JournalDiffers) {
		if gerr := given.Paid.GiveUp(err.Error()); gerr != nil {
			return nil, gerr
		}
	}
	return g, err
}
