package audit

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"tallystick/internal/read/step"
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
	lacks        lacks

	unread []string // sources that are programs in other languages

	carrier *carrier // AUD-11, once there is a source
	nowhere nowhere  // AUD-12
}

// findings are what a check collects.
type findings struct {
	fails, notes []string
	auditable    int // what it could look at
	// Of the checks that look for answers: tasks whose answer can be told from
	// chance, and tasks whose answer cannot.
	decided, undecidable int

	gap   string   // an input that was not given
	lacks []string // evidence that was not recorded
	blind bool     // without which the check cannot pass
	// excused says why the data set makes the check impossible. Then nothing is missing.
	excused string
}

// decides counts a task of a check that looks for its answer.
func (f *findings) decides(own *taskInfo) {
	if !own.decidable() {
		f.undecidable++
		return
	}
	f.decided++
	f.auditable++
}

func (f *findings) add(g *findings) {
	f.fails = appendSome(f.fails, g.fails)
	f.notes = appendSome(f.notes, g.notes)
	f.auditable += g.auditable
	f.decided += g.decided
	f.undecidable += g.undecidable
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
	line int
	t    *step.Trajectory
	// of is the result of the task, and r what the checks compare with: the same, or
	// for an execution whose answer was not submitted what its own line says.
	of, r   *result
	found   [numChecks]findings
	oracle  oracleSeen
	nowhere nowhereSeen
	demands []BodyDemand
	lacks   lacks
	models  bool // model calls are recorded
	idle    bool // none are, and the answer is correct
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

// take merges one trajectory. An execution of a task twice is an error, and so is a
// trajectory of a task that the results do not have; the worker has said so of the
// latter.
func (a *auditor) take(o *outcome) error {
	place := func(line int) string { return placeOf(a.in.Trajectories.Name, line) }
	if had := o.of.already(o.t.Repeat); had != 0 {
		return refusal.Newf(refusal.Malformed, "%s: the trajectory of task %s%s%s is there already: %s", place(o.line), o.of.id, ofModel(o.of.model), ofRepeat(o.t.Repeat), place(had)).
			WithHint("a task has one line, or lines that each state another repeat")
	}
	if o.of.executions == nil {
		o.of.executions = map[int64]int{}
	}
	o.of.executions[o.t.Repeat] = o.line
	if o.t.Submitted {
		if o.of.trajectory != 0 {
			return refusal.Newf(refusal.Malformed, "%s: the answer of task %s%s is submitted of two executions: the other is %s", place(o.line), o.of.id, ofModel(o.of.model), place(o.of.trajectory)).
				WithHint("one answer of a task is submitted: one of its lines has submitted true")
		}
		o.of.trajectory = o.line
		o.of.trajectoryTurns, o.of.trajectoryTokens = o.t.Turns != nil, o.t.Out != nil
	}
	a.trajectories++
	for i := range o.found {
		a.found[i].add(&o.found[i])
	}
	a.takeModelCalls(o)
	a.oracle.take(&o.oracle, o.of.id)
	a.nowhere.take(o.of.id, o.nowhere)
	a.demands = append(a.demands, o.demands...)
	a.lacks.add(&o.lacks)
	return nil
}

// A worker checks trajectories. It has buffers of its own and reads what the
// auditor knows.
type worker struct {
	a     *auditor
	keep  step.Arena
	fold  []byte
	args  []byte
	sight sighting

	// encoded finds base64 of the answer of a task: that of the last one.
	encoded *sight.Encoded
	of      int
	// Of AUD-10.
	inject injectionBuffer
	seam   []byte
}

func newWorker(a *auditor) *worker { return &worker{a: a} }

func (w *worker) encodedOf(task int) *sight.Encoded {
	if w.encoded == nil || w.of != task {
		w.encoded, w.of = w.a.index.tasks[task].gold.Encoded(), task
	}
	return w.encoded
}

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
	w.keep.Reset()
	place := placeOf(w.a.in.Trajectories.Name, l.line)
	t, err := step.Read(l.data, &w.keep)
	if err != nil {
		return outcome{err: refuseJSON(place, l.data, err)}
	}
	o := outcome{line: l.line, t: t}
	if o.of, o.err = w.a.results.resultOf(place, t); o.err != nil {
		return o
	}
	o.r = o.of.execution(t)
	if o.err = w.resolve(t); o.err != nil {
		return o
	}
	task := w.a.index.taskOf(o.r)
	w.missing(&o)
	w.work(&o)
	w.leakage(&o, task)
	w.oracle(&o, task)
	w.calls(&o)
	w.injection(&o, task)
	w.nowhere(&o, task)
	if !t.Submitted {
		injectedAnswer(o.r, &o.found[aud10])
	}
	t.Steps = nil // the texts belong to the worker
	o.nameExecution()
	return o
}

// execution is what the checks compare an execution with. One whose answer was not
// submitted has an answer, turns and tokens of its own; if its line does not say
// whether it is correct, it counts as its task does.
func (r *result) execution(t *step.Trajectory) *result {
	if t.Submitted {
		return r
	}
	own := &result{place: r.place, id: r.id, model: r.model, question: r.question, gold: r.gold, hasGold: r.hasGold, correct: r.correct, graded: r.graded,
		turns: t.Turns, tokensIn: t.In, tokensOut: t.Out}
	if t.Answer != nil {
		own.answer = *t.Answer
	}
	if t.Correct != nil {
		own.correct = *t.Correct
	}
	return own
}

// already is the line that has the execution of this number, 0 if none has. A line
// that states no number is the only one of its task.
func (r *result) already(repeat int64) int {
	if line := r.executions[repeat]; line != 0 || repeat > 0 && r.executions[0] == 0 {
		return line
	}
	if repeat > 0 {
		return r.executions[0]
	}
	first := 0
	for _, line := range r.executions {
		if first == 0 || line < first {
			first = line
		}
	}
	return first
}

// nameExecution says in which execution something was found, if it is not the one
// that was submitted.
func (o *outcome) nameExecution() {
	if o.t.Submitted {
		return
	}
	task := "task " + o.of.id
	for i := range o.found {
		for _, list := range [][]string{o.found[i].fails, o.found[i].notes} {
			for k, s := range list {
				if rest, ok := strings.CutPrefix(s, task); ok {
					list[k] = task + ofRepeat(o.t.Repeat) + rest
				}
			}
		}
	}
	if o.oracle.hit != nil {
		o.oracle.hit.evidence = strings.Replace(o.oracle.hit.evidence, task, task+ofRepeat(o.t.Repeat), 1)
	}
}

func ofRepeat(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", execution %d", n)
}

// resultOf finds the result that a trajectory belongs to, and holds the two
// against each other.
func (c *corpus) resultOf(place string, t *step.Trajectory) (*result, error) {
	list := c.byID[t.ID]
	if len(list) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s: task %s is not in the results", place, t.ID).
			WithHint("results and trajectories must be of the same run")
	}
	var r *result
	if i, ok := c.byKey[taskKey{t.ID, t.Model}]; ok {
		r = c.list[i]
	} else if len(list) == 1 && (t.Model == "" || c.list[list[0]].model == "" || !t.Submitted) {
		r = c.list[list[0]]
	} else if t.Model == "" {
		return nil, refusal.Newf(refusal.Malformed, "%s: task %s names no model, and the results have it of %d models: %s, %s", place, t.ID, len(list), c.list[list[0]].place, c.list[list[1]].place)
	} else {
		r = c.list[list[0]]
		return nil, refusal.Newf(refusal.Malformed, "%s: task %s is of model %s, and of %s in the results: %s", place, t.ID, t.Model, r.model, r.place)
	}
	return r, contradiction(place, t, r)
}

// contradiction refuses a trajectory that says something else than its result.
func contradiction(place string, t *step.Trajectory, r *result) error {
	if !t.Submitted {
		return nil // it is another execution
	}
	differ := func(what, here, there string) error {
		return refusal.Newf(refusal.Malformed, "%s: task %s has %s %s, and %s in the results: %s", place, t.ID, what, here, there, r.place).
			WithHint("results and trajectories must be of the same run")
	}
	if t.Answer != nil && sight.Normalise(*t.Answer) != sight.Normalise(r.answer) {
		return differ("final_answer", quoted(*t.Answer), quoted(r.answer))
	}
	for _, n := range []struct {
		what        string
		here, there *float64
	}{{"turns", t.Turns, r.turns}, {"input tokens", t.In, r.tokensIn}, {"output tokens", t.Out, r.tokensOut}} {
		if n.here != nil && n.there != nil && *n.here != *n.there {
			return differ(n.what, showNumber(*n.here), showNumber(*n.there))
		}
	}
	return nil
}
