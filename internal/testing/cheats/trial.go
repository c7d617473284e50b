package cheats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"tallystick/internal/read/audit"
	"tallystick/internal/read/step"
	"tallystick/internal/run/sight"
)

// The checks, by their ids in a report.
const (
	AnswerLeakage  = "answer-leakage"
	NoWork         = "no-work-pass"
	OracleLeakage  = "oracle-leakage"
	Grader         = "grader-isolation"
	Collision      = "normalization-collision"
	Voting         = "voting-disclosure"
	Split          = "split-integrity"
	KeyReads       = "answer-key-reads"
	DynamicEval    = "dynamic-eval"
	JudgeInjection = "judge-injection"
	Carried        = "answers-carried"
	Nowhere        = "answers-from-nowhere"
)

// Checks are all of them, in the order of a report, with whether they are
// critical.
var Checks = []struct {
	ID       string
	Critical bool
}{
	{AnswerLeakage, true}, {NoWork, true}, {OracleLeakage, true}, {Grader, true}, {Collision, false}, {Voting, false},
	{Split, false}, {KeyReads, true}, {DynamicEval, true}, {JudgeInjection, false}, {Carried, true}, {Nowhere, true},
}

// A Run is what one run left, and what is true of it.
type Run struct {
	Number int
	// Class and Spelling say what was done: of an honest run which shape it has.
	Class, Spelling string
	Recorder        string
	Honest          bool
	// Must are the checks that have to fail. May are those that the same act
	// touches, or of which nobody can say: they count neither way.
	Must, May []string

	Input audit.Input
}

// A trial is a run while it is made.
type trial struct {
	d        *dice
	number   int
	turn     int // how many runs of its class were made before it
	spelling string
	recorder recorder
	agent    agent
	style    style

	tasks    []*outcome
	metadata map[string]any
	// executions of each task; one answer of each is submitted.
	executions int
	elsewhere  bool // a cheat happens in an execution that is not submitted
	files      []file
	gaps       []string
	published  map[string]string // files of the data set: paths by SHA-256
	keyless    bool              // nobody has the expected answers
	model      string
	vouched    *audit.Vouched

	must, may map[string]bool
}

// An outcome is a task with what came of it.
type outcome struct {
	*task
	talk    *talk
	answer  string
	correct bool
	done    bool // a cheat has worked on it

	// What the results claim instead of what the acts come to, if a cheat says so.
	turns     *int
	tokensOut *int64

	// discarded are other executions of the task, whose answers were not submitted.
	discarded []*outcome
}

// discard sets the work on a task aside as an execution that was not submitted.
func (o *outcome) discard() {
	o.discarded = append(o.discarded, &outcome{task: o.task, talk: o.talk, answer: o.answer, correct: o.correct, turns: o.turns, tokensOut: o.tokensOut})
	o.talk, o.done, o.turns, o.tokensOut = nil, false, nil, nil
}

type file struct{ path, data string }

// newTrial is the honest run that everything starts from: an agent of one kind
// and tasks that it takes.
func newTrial(d *dice, number int) *trial {
	t := &trial{d: d, number: number, model: "m-" + d.hex(3), recorder: pick(d, recorders), agent: pick(d, agents), must: map[string]bool{}, may: map[string]bool{}}
	t.style = style{system: pick(d, systems), wire: d.IntN(3), whole: d.chance(70), vantage: "executed"}
	if d.chance(35) { // tools in the agent's own process
		t.style.vantage = "reported"
		t.style.whole = true
	}
	tongue := tongues[0]
	if d.chance(40) {
		tongue = pick(d, tongues)
	}
	for n := d.between(4, 9); len(t.tasks) < n; {
		if k := d.task(pick(d, taskKinds), tongue); t.agent.takes(k) {
			t.tasks = append(t.tasks, &outcome{task: k})
		}
	}
	t.metadata = map[string]any{
		"harness": "bench-" + d.hex(4), "model": t.model, "gaia_split": "validation", "voting_attempts": 1,
		"submitted_at":    fmt.Sprintf("2026-%02d-%02dT10:00:00Z", d.between(1, 12), d.between(1, 28)),
		"total_questions": len(t.tasks), "judge_cache_integrity_events": 0,
	}
	t.executions = 1
	if d.chance(12) {
		t.executes(d.between(2, 3))
	}
	t.files = d.program()
	return t
}

// executes sets how often each task is executed, and says so.
func (t *trial) executes(n int) { t.executions, t.metadata["voting_attempts"] = n, n }

func (t *trial) mustFail(ids ...string) {
	for _, id := range ids {
		t.must[id] = true
	}
}

func (t *trial) mayFail(ids ...string) {
	for _, id := range ids {
		t.may[id] = true
	}
}

// talkOf begins the work on a task.
func (t *trial) talkOf(o *outcome) *talk {
	o.talk = &talk{d: t.d, task: o.task, style: t.style}
	return o.talk
}

// distinctive are tasks whose answer says something where it stands; there is
// at least n of them, made if need be.
func (t *trial) distinctive(n int) []*outcome {
	var out []*outcome
	for _, o := range t.tasks {
		if distinctive(o.gold) && t.agent.takes(o.task) {
			out = append(out, o)
		}
	}
	for len(out) < n {
		o := &outcome{task: t.d.task(pick(t.d, []string{entityTask, textTask, listTask, numberTask}), t.tasks[0].tongue)}
		if distinctive(o.gold) {
			t.tasks = append(t.tasks, o)
			out = append(out, o)
		}
	}
	return out
}

// marked are one to all of some tasks: those that the cheat is applied to.
func (t *trial) marked(from []*outcome) []*outcome { return some(t.d, from, t.d.between(1, len(from))) }

// honestly lets the agent work on what no cheat has worked on, as often as the
// run executes each task.
func (t *trial) honestly() {
	for _, o := range t.tasks {
		for len(o.discarded)+1 < t.executions {
			other := &outcome{task: o.task}
			t.work(other, t.d.chance(75))
			o.discarded = append(o.discarded, other)
		}
		if !o.done {
			t.work(o, t.d.chance(75))
		}
	}
}

// work is the honest agent on a task, that gets it right or not.
func (t *trial) work(o *outcome, right bool) {
	if o.talk == nil {
		t.talkOf(o)
	}
	said := o.gold
	if !right {
		said = t.d.wrong(o.task)
	}
	a := t.agent
	if !a.takes(o.task) {
		a = agents[0]
	}
	a.work(o.talk, said)
	o.answer, o.correct, o.done = said, right, true
}

// run writes everything down.
func (t *trial) run(class string, honest bool) *Run {
	r := &Run{Number: t.number, Class: class, Spelling: t.spelling, Recorder: t.recorder.name, Honest: honest}
	for _, c := range Checks {
		switch {
		case t.must[c.ID]:
			r.Must = append(r.Must, c.ID)
		case t.may[c.ID]:
			r.May = append(r.May, c.ID)
		}
	}
	var results []map[string]any
	var lines bytes.Buffer
	bodies := map[string]string{}
	for _, o := range t.tasks {
		gold := &sought{sight.NewSearch(o.gold), sight.NewQuestion(o.question)}
		if t.keyless {
			gold = &sought{sight.NewSearch(), sight.NewQuestion(o.question)}
		}
		submitted := t.line(o, gold, bodies)
		all := []*step.Line{submitted}
		for _, d := range o.discarded {
			all = append(all, t.line(d, gold, bodies))
		}
		if len(all) > 1 {
			submitted.Submitted = true
			all = some(t.d, all, len(all))
		}
		for i, line := range all {
			if len(all) > 1 {
				line.Repeat = i + 1
			}
			data, _ := json.Marshal(line)
			lines.Write(data)
			lines.WriteByte('\n')
		}
		if t.vouched != nil {
			t.vouched.Recorded[o.id] = len(all)
		}
		result := map[string]any{"task_id": o.id, "model": t.model, "question": o.question,
			"answer": o.answer, "turns": submitted.Turns, "inputTokens": submitted.TokensIn, "outputTokens": submitted.TokensOut}
		if !t.keyless {
			result["correct"], result["expected_output"] = o.correct, o.gold
		}
		results = append(results, result)
	}
	r.Input = audit.Input{
		Results:      source("results", t.results(results)),
		Trajectories: source("trajectories.jsonl", lines.Bytes()),
		HasSources:   true,
		SourceGaps:   t.gaps,
		Published:    t.published,
		Vouched:      t.vouched,
		Workers:      1,
	}
	if t.metadata != nil {
		data, _ := json.Marshal(t.metadata)
		r.Input.Metadata = source("metadata.json", data)
	}
	for _, f := range t.files {
		r.Input.Sources = append(r.Input.Sources, audit.SourceFile{Path: f.path, Agent: true, Open: opener([]byte(f.data))})
	}
	if t.recorder.bodies {
		r.Input.Bodies = func(sum string) (io.ReadCloser, error) {
			text, ok := bodies[sum]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(strings.NewReader(text)), nil
		}
	}
	return r
}

// line is one execution of a task.
func (t *trial) line(o *outcome, gold *sought, bodies map[string]string) *step.Line {
	turns, in, out := 0, int64(0), int64(0)
	for _, a := range o.talk.acts {
		if a.kind == step.Model {
			turns, in, out = turns+1, in+a.tokensIn, out+a.tokensOut
		}
	}
	if o.turns != nil {
		turns = *o.turns
	}
	if o.tokensOut != nil {
		out = *o.tokensOut
	}
	line := &step.Line{TaskID: o.id, Model: t.model, Turns: &turns, FinalAnswer: &o.answer, TokensIn: &in, TokensOut: &out,
		ToolsUsed: toolsOf(o.talk.acts), Steps: t.recorder.steps(o.talk.acts, gold, bodies)}
	if !t.keyless {
		line.Correct = &o.correct
	}
	return line
}

// results are written in one of the shapes that are read.
func (t *trial) results(records []map[string]any) []byte {
	switch t.d.IntN(3) {
	case 0:
		data, _ := json.Marshal(records)
		return data
	case 1:
		data, _ := json.Marshal(map[string]any{"results": records})
		return data
	}
	var b bytes.Buffer
	for _, r := range records {
		line, _ := json.Marshal(r)
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func toolsOf(acts []act) []string {
	tools := []string{}
	seen := map[string]bool{}
	for _, a := range acts {
		if a.kind == "tool_call" && !seen[a.name] {
			seen[a.name] = true
			tools = append(tools, a.name)
		}
	}
	return tools
}

func source(name string, data []byte) audit.Source {
	return audit.Source{Name: name, Open: opener(data)}
}

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}
