package importer

import (
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

const weaveCalls kind = "weave"

var weaveHarness = harness{
	name:       "Weave",
	recognised: "calls with `op_name`, `trace_id`, `inputs`",
	runs:       "the calls of one trace",
	scores:     "each scorer, parts as `<scorer>/<part>`",
	parts: []part{
		{kind: weaveCalls, fits: func(s *Shape) bool {
			return s.Has("op_name", "trace_id", "inputs") || s.Has("calls[].op_name", "calls[].trace_id")
		}},
	},
	read: alone(map[kind]func(*session, *file) error{weaveCalls: (*session).weave}),
}

// A weaveEval is one evaluation: the calls of one trace.
type weaveEval struct {
	run     *run
	models  map[string]bool
	summary map[string]any
}

// weave reads calls. Those of one trace are one evaluation.
func (s *session) weave(f *file) error {
	evals := map[string]*weaveEval{}
	var order []string
	err := s.json(f, func(r *jsonstream.Reader) error {
		return f.rows(r, "calls", func() error {
			c, err := readWeaveCall(r)
			if err != nil || !c.evaluation() {
				return err
			}
			e := evals[c.trace]
			if e == nil {
				if len(evals) == 10_000 {
					return refusal.Newf(refusal.TooLarge, "more than 10000 evaluations in one file")
				}
				e = &weaveEval{run: s.begin("weave"), models: map[string]bool{}}
				evals[c.trace] = e
				order = append(order, c.trace)
			}
			if err := e.add(c); err != nil {
				return r.Refuse("%v", err)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	if len(evals) == 0 {
		return unrecognised("%s: Weave calls, but none of an evaluation", f.path)
	}
	for _, trace := range order {
		if err := evals[trace].finish(f); err != nil {
			return refuseIn(f, "summary", err)
		}
	}
	return nil
}

// A weaveCall is one call.
type weaveCall struct {
	id, op, trace, display, started, exception string
	inputs, output                             any
}

// evaluation reports whether the call is part of an evaluation's frame.
func (c *weaveCall) evaluation() bool { return strings.HasPrefix(c.op, "Evaluation.") }

func readWeaveCall(r *jsonstream.Reader) (*weaveCall, error) {
	c := &weaveCall{}
	err := object(r, fields{
		"id": scalar(r, &c.id), "op_name": scalar(r, &c.op), "trace_id": scalar(r, &c.trace), "display_name": scalar(r, &c.display),
		"started_at": scalar(r, &c.started), "exception": excerpt(r, &c.exception), "inputs": anything(r, &c.inputs), "output": anything(r, &c.output),
	})
	// weave:///entity/project/op/NAME:digest
	if i := strings.LastIndex(c.op, "/op/"); i >= 0 {
		c.op = c.op[i+len("/op/"):]
	}
	c.op, _, _ = strings.Cut(c.op, ":")
	return c, err
}

func (e *weaveEval) add(c *weaveCall) error {
	switch c.op {
	case "Evaluation.evaluate":
		e.run.Run.StartedAt = results.Moment(c.started)
		if e.run.Run.Task = results.Known(refName(member(c.inputs, "self"))); e.run.Run.Task == "" {
			e.run.Run.Task = results.Known(c.display)
		}
		e.model(member(c.inputs, "model"))
		if m, ok := c.output.(map[string]any); ok && e.summary == nil {
			e.summary = m
		}
	case "Evaluation.summarize":
		if m, ok := c.output.(map[string]any); ok {
			e.summary = m
		}
	case "Evaluation.predict_and_score":
		e.model(member(c.inputs, "model"))
		return e.sample(c)
	}
	return nil
}

// refName is the name in a reference weave:///entity/project/object/NAME:digest,
// or of an object that is there whole.
func refName(v any) string {
	ref, ok := v.(string)
	if !ok {
		return textOf(member(v, "name"))
	}
	ref = ref[strings.LastIndex(ref, "/")+1:]
	name, _, _ := strings.Cut(ref, ":")
	return name
}

func (e *weaveEval) model(v any) {
	if name := refName(v); name != "" && len(e.models) < 100 {
		e.models[name] = true
	}
}

func (e *weaveEval) sample(c *weaveCall) error {
	s := results.Sample{ID: refOrDigest(member(c.inputs, "example")), Scores: map[string]results.Score{}, Error: c.exception, Trajectory: c.id}
	s.Input = results.TextOf(compact(member(c.inputs, "example")))
	answer := member(c.output, "output")
	if answer == nil {
		answer = member(c.output, "model_output")
	}
	s.Answer = results.TextOf(compact(answer))
	if c.exception == "" {
		scores, _ := member(c.output, "scores").(map[string]any)
		for scorer, v := range scores {
			if err := flatten(scorer, v, s.Scores, 0); err != nil {
				return err
			}
		}
	}
	return e.run.Add(s, "")
}

// refOrDigest names an example: its reference, or what its content is.
func refOrDigest(v any) string {
	if ref, ok := v.(string); ok {
		return ref
	}
	if id := textOf(member(v, "id")); id != "" {
		return id
	}
	return results.TextOf(compact(v)).SHA256
}

// compact is a value as text: a string itself, else its members in order.
func compact(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case map[string]any:
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(x)) {
			b.WriteString(name + ": " + compact(x[name]) + "\n")
		}
		return b.String()
	case []any:
		var b strings.Builder
		for _, item := range x {
			b.WriteString("- " + compact(item) + "\n")
		}
		return b.String()
	}
	return textOf(v)
}

// flatten gives the numbers and truths within a score by their path.
func flatten(name string, v any, to map[string]results.Score, depth int) error {
	if m, ok := v.(map[string]any); ok && depth < 8 {
		for key, item := range m {
			if err := flatten(name+"/"+key, item, to, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	score, err := results.AnyScore(v)
	if _, isText := v.(string); isText && score.Value == nil {
		return err // a reason
	}
	to[name] = score
	return err
}

func (e *weaveEval) finish(f *file) error {
	b := e.run
	if names := slices.Sorted(maps.Keys(e.models)); len(names) == 1 {
		b.Run.Model = results.Known(names[0])
	}
	stated := map[string]results.Score{}
	for name, v := range e.summary {
		if err := flatten(name, v, stated, 0); err != nil {
			return err
		}
	}
	if len(stated) == 0 {
		b.Check("means", results.Skip, "no summary of the evaluation is there; the metrics are means of the rows")
	}
	for _, path := range slices.Sorted(maps.Keys(stated)) {
		if stated[path].Value == nil {
			continue
		}
		i := strings.LastIndex(path, "/")
		if i < 0 {
			i = len(path)
		}
		scorer, metric := path[:i], strings.TrimPrefix(path[i:], "/")
		if err := b.State(scorer, metric, *stated[path].Value); err != nil {
			return err
		}
		t := b.Totals(scorer)
		name := "metric " + results.MetricKey(scorer, metric)
		switch {
		case t.N == 0:
			b.Check(name, results.Skip, "no row has a score %s", scorer)
		case metric == "mean", metric == "true_fraction":
			b.CheckNumber(name, *stated[path].Value, t.Mean())
		case metric == "true_count":
			b.CheckNumber(name, *stated[path].Value, t.Sum())
		default:
			b.Check(name, results.Skip, "%s is not recomputed", metric)
		}
	}
	if err := b.DeriveMeans(); err != nil {
		return err
	}
	b.CheckAttempts()
	b.finish(f)
	return nil
}
