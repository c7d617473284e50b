package audit

import (
	"context"
	"io"
	"runtime"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sight"
)

// An auditor is one audit while it runs.
type auditor struct {
	in         Input
	inputs     Inputs
	meta       metadata
	outerModel string
	results    *corpus
	index      *index

	found [numChecks]findings

	// Of the trajectories.
	trajectories int
	modelCalls   bool // some trajectory records llm_call steps
	noModelCalls []string
	oracle       oracle
	demands      []BodyDemand

	unread []string // sources that are programs in other languages

	carrier *carrier // AUD-11, once there is a source
	nowhere nowhere  // AUD-12
}

// findings are what a check collects.
type findings struct {
	fails, notes []string
	auditable    int // what it could look at
	dark         int // what it could not, because it was not recorded
	gap          string
}

func (f *findings) add(g *findings) {
	f.fails = appendSome(f.fails, g.fails)
	f.notes = appendSome(f.notes, g.notes)
	f.auditable += g.auditable
	f.dark += g.dark
}

// appendSome keeps a bounded number of findings. They come in the order of the
// file, so that the same ones are kept each time.
func appendSome(list, more []string) []string {
	if len(list) >= 10*maxEvidence {
		return list
	}
	return append(list, more...)
}

func newAuditor(in Input) *auditor {
	return &auditor{in: in, results: newCorpus()}
}

// An outcome is what checking one trajectory gave.
type outcome struct {
	t       *trajectory
	r       *result
	found   [numChecks]findings
	oracle  oracleSeen
	nowhere nowhereSeen
	demands []BodyDemand
	err     error
}

// A batch is some lines that one worker checks.
type batch struct {
	lines []numbered
	done  chan []outcome
	busy  *sync.WaitGroup
}

type numbered struct {
	line int
	data []byte
}

const (
	batchBytes = 1 << 20
	// aloneBytes is from where on a line is checked with no other line in memory.
	aloneBytes = 8 << 20
)

// readTrajectories checks every line, several at once, and takes what was found
// in the order of the file, so that the report does not depend on who was faster.
func (a *auditor) readTrajectories(ctx context.Context) error {
	a.index = newIndex(a.results)
	a.resultChecks()
	if !a.in.Trajectories.Given() {
		return nil
	}
	return a.digested(a.in.Trajectories, &a.inputs.Trajectories, func(src io.Reader) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		return a.checkLines(ctx, src)
	})
}

func (a *auditor) checkLines(ctx context.Context, src io.Reader) error {
	workers := a.in.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	jobs := make(chan batch, workers)
	order := make(chan batch, workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			w := newWorker(a)
			for b := range jobs {
				b.done <- w.batch(ctx, b.lines)
				b.busy.Done()
			}
		})
	}
	var readErr error
	group.Go(func() {
		defer close(order)
		defer close(jobs)
		readErr = a.sendLines(ctx, src, jobs, order)
	})
	err := a.takeOutcomes(order)
	if err != nil {
		for b := range order { // let the others end
			<-b.done
		}
	}
	group.Wait()
	if err == nil {
		err = readErr
	}
	return err
}

// sendLines reads the file and hands out its lines.
func (a *auditor) sendLines(ctx context.Context, src io.Reader, jobs, order chan<- batch) error {
	lines, err := newLineReader(a.in.Trajectories.Name, src)
	if err != nil {
		return err
	}
	var b batch
	var busy sync.WaitGroup
	size := 0
	send := func() {
		if len(b.lines) == 0 {
			return
		}
		b.done = make(chan []outcome, 1)
		b.busy = &busy
		busy.Add(1)
		jobs <- b
		order <- b
		b, size = batch{}, 0
	}
	for ctx.Err() == nil {
		data, err := lines.next()
		if err != nil {
			send()
			if err == io.EOF {
				return nil
			}
			return err
		}
		if len(data) >= aloneBytes {
			send()
			busy.Wait()
		}
		b.lines = append(b.lines, numbered{lines.line, data})
		if size += len(data); size >= batchBytes {
			send()
		}
		if len(data) >= aloneBytes {
			busy.Wait()
		}
	}
	return ctx.Err()
}

// takeOutcomes merges what the workers found. The first error in the order of
// the file is the one that is told.
func (a *auditor) takeOutcomes(order <-chan batch) error {
	for b := range order {
		for _, o := range <-b.done {
			if o.err != nil {
				return o.err
			}
			if err := a.take(&o); err != nil {
				return err
			}
		}
	}
	return nil
}

// take merges one trajectory. A task twice is an error, and so is a trajectory of
// a task that the results do not have; the worker has said so of the latter.
func (a *auditor) take(o *outcome) error {
	if o.r.trajectory != 0 {
		return refusal.Newf(refusal.Malformed, "%s: the trajectory of task %s%s is there already: %s", o.t.place, o.r.id, ofModel(o.r.model), placeOf(a.in.Trajectories.Name, o.r.trajectory))
	}
	o.r.trajectory = o.t.line
	a.trajectories++
	for i := range o.found {
		a.found[i].add(&o.found[i])
	}
	a.takeModelCalls(o)
	a.oracle.take(&o.oracle)
	a.nowhere.take(o.r, o.nowhere)
	a.demands = append(a.demands, o.demands...)
	return nil
}

// A worker checks trajectories. It has buffers of its own and reads what the
// auditor knows.
type worker struct {
	a     *auditor
	keep  arena
	fold  []byte
	args  []byte
	sight sighting
}

func newWorker(a *auditor) *worker { return &worker{a: a} }

func (w *worker) batch(ctx context.Context, lines []numbered) []outcome {
	out := make([]outcome, 0, len(lines))
	for _, l := range lines {
		if err := ctx.Err(); err != nil {
			return append(out, outcome{err: err})
		}
		o := w.check(l)
		out = append(out, o)
		if o.err != nil {
			break
		}
	}
	return out
}

// check runs every check that reads trajectories on one of them.
func (w *worker) check(l numbered) outcome {
	w.keep.reset()
	place := placeOf(w.a.in.Trajectories.Name, l.line)
	t, err := parseTrajectory(place, l.line, l.data, &w.keep)
	if err != nil {
		return outcome{err: err}
	}
	o := outcome{t: t}
	if o.r, o.err = w.a.results.resultOf(t); o.err != nil {
		return o
	}
	task := w.a.index.taskOf(o.r)
	w.work(&o)
	if o.err = w.leakage(&o, task); o.err != nil {
		return o
	}
	w.oracle(&o, task)
	w.calls(&o)
	w.injection(&o, task)
	w.nowhere(&o, task)
	t.steps = nil // the texts belong to the worker
	return o
}

// resultOf finds the result that a trajectory belongs to, and holds the two
// against each other.
func (c *corpus) resultOf(t *trajectory) (*result, error) {
	list := c.byID[t.id]
	if len(list) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s: task %s is not in the results", t.place, t.id).
			WithHint("results and trajectories must be of the same run")
	}
	var r *result
	if i, ok := c.byKey[taskKey{t.id, t.model}]; ok {
		r = c.list[i]
	} else if len(list) == 1 && (t.model == "" || c.list[list[0]].model == "") {
		r = c.list[list[0]]
	} else if t.model == "" {
		return nil, refusal.Newf(refusal.Malformed, "%s: task %s names no model, and the results have it of %d models: %s, %s", t.place, t.id, len(list), c.list[list[0]].place, c.list[list[1]].place)
	} else {
		r = c.list[list[0]]
		return nil, refusal.Newf(refusal.Malformed, "%s: task %s is of model %s, and of %s in the results: %s", t.place, t.id, t.model, r.model, r.place)
	}
	return r, contradiction(t, r)
}

// contradiction refuses a trajectory that says something else than its result.
func contradiction(t *trajectory, r *result) error {
	differ := func(what, here, there string) error {
		return refusal.Newf(refusal.Malformed, "%s: task %s has %s %s, and %s in the results: %s", t.place, t.id, what, here, there, r.place).
			WithHint("results and trajectories must be of the same run")
	}
	if t.answer != nil && sight.Normalise(*t.answer) != sight.Normalise(r.answer) {
		return differ("final_answer", quoted(*t.answer), quoted(r.answer))
	}
	for _, n := range []struct {
		what        string
		here, there *float64
	}{{"turns", t.turns, r.turns}, {"input tokens", t.in, r.tokensIn}, {"output tokens", t.out, r.tokensOut}} {
		if n.here != nil && n.there != nil && *n.here != *n.there {
			return differ(n.what, showNumber(*n.here), showNumber(*n.there))
		}
	}
	return nil
}
