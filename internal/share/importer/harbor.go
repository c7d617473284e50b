package importer

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// The kinds of files.
const (
	harborATIF  kind = "harbor:trajectory"
	harborTrial kind = "harbor:trial"
	harborJob   kind = "harbor:job"
)

var harborHarness = harness{
	name:       "Harbor",
	recognised: "`stats.evals`; trials with `trial_name`, `task_name`, `agent_info`; ATIF by `schema_version`",
	runs:       "one agent and model on one dataset",
	scores:     "each reward",
	parts: []part{
		{kind: harborATIF, together: func(f *file) string { // <job>/<trial>/agent/trajectory.json
			if path.Base(f.dir()) == "agent" {
				return path.Dir(path.Dir(f.dir()))
			}
			return f.dir()
		}, fits: func(s *Shape) bool {
			return strings.HasPrefix(s.Said["schema_version"], "ATIF") && s.Has("steps")
		}},
		{kind: harborTrial, together: func(f *file) string { return path.Dir(f.dir()) }, fits: func(s *Shape) bool { return s.Has("trial_name", "task_name", "agent_info") }}, // <job>/<trial>/result.json
		{kind: harborJob, together: (*file).dir, fits: func(s *Shape) bool {
			return s.Has("stats.evals") && s.HasAny("n_total_trials", "started_at", "id")
		}},
	},
	read: (*session).harbor,
}

// A harborTrialRow is one trial's result.json.
type harborTrialRow struct {
	file                              *file
	task, name, source, began, failed string
	agent, version, model, provider   string
	rewards                           any
	hasException                      bool
}

// harborGroup is a run: the trials of one agent and model on one dataset.
type harborGroup struct {
	run    *run
	trials []*harborTrialRow
	errors int64
}

// harbor reads a job folder: the job's result.json, those of its trials, and
// where the trajectories lie.
func (s *session) harbor(g []*file) error {
	var job *file
	var stats any
	var trials []*harborTrialRow
	trajectories := map[string]*file{} // by trial folder
	for _, f := range g {
		switch f.kind {
		case harborJob:
			err := s.json(f, func(r *jsonstream.Reader) error { return object(r, fields{"stats": anything(r, &stats)}) })
			if err != nil {
				return err
			}
			job = f
		case harborTrial:
			t := &harborTrialRow{file: f}
			if err := s.json(f, func(r *jsonstream.Reader) error { return t.read(r) }); err != nil {
				return err
			}
			trials = append(trials, t)
		case harborATIF:
			dir := f.dir()
			if path.Base(dir) == "agent" {
				dir = path.Dir(dir)
			}
			trajectories[dir] = f
		}
	}
	if job == nil && len(trials) == 0 {
		return s.trajectoriesAlone(g)
	}
	return s.harborRuns(job, stats, trials, trajectories)
}

func (t *harborTrialRow) read(r *jsonstream.Reader) error {
	return object(r, fields{
		"task_name": scalar(r, &t.task), "trial_name": scalar(r, &t.name), "source": scalar(r, &t.source), "started_at": scalar(r, &t.began),
		"agent_info": inside(r, fields{"name": scalar(r, &t.agent), "version": scalar(r, &t.version),
			"model_info": inside(r, fields{"name": scalar(r, &t.model), "provider": scalar(r, &t.provider)})}),
		"verifier_result": inside(r, fields{"rewards": anything(r, &t.rewards), "reward": func() error {
			v, err := r.Any(maxSmall)
			t.rewards = map[string]any{"reward": v}
			return err
		}}),
		"exception_info": func() error {
			k, err := r.Peek()
			if err != nil || k != jsonstream.Object {
				return err
			}
			t.hasException = true
			return object(r, fields{"exception_type": scalar(r, &t.failed)})
		},
	})
}

// key is how a job names the group of a trial in its stats.
func (t *harborTrialRow) key() string {
	dataset := t.source
	if dataset == "" {
		dataset = "adhoc"
	}
	if t.model == "" {
		return t.agent + "__" + dataset
	}
	return t.agent + "__" + t.model + "__" + dataset
}

func (s *session) harborRuns(job *file, stats any, trials []*harborTrialRow, trajectories map[string]*file) error {
	evals, _ := member(stats, "evals").(map[string]any)
	groups := map[string]*harborGroup{}
	var keys []string
	for _, t := range trials {
		key := t.key()
		if groups[key] == nil {
			groups[key] = &harborGroup{run: s.begin("harbor")}
			groups[key].run.KeepAttempts = true
			keys = append(keys, key)
		}
		groups[key].trials = append(groups[key].trials, t)
	}
	for _, key := range slices.Sorted(maps.Keys(evals)) {
		if groups[key] == nil && len(trials) == 0 { // the job alone: its own lists are the rows
			groups[key] = &harborGroup{run: s.begin("harbor")}
			groups[key].run.KeepAttempts = true
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		stated := evals[key]
		if stated == nil && len(evals) == 1 && len(keys) == 1 {
			for only := range maps.Values(evals) {
				stated = only
			}
		}
		if err := groups[key].finish(job, key, stated, trajectories); err != nil {
			return err
		}
	}
	return nil
}

func (g *harborGroup) finish(job *file, key string, stated any, trajectories map[string]*file) error {
	b := g.run
	var used []*file
	if job != nil {
		used = append(used, job)
	}
	for _, t := range g.trials {
		if err := g.add(t, trajectories[t.file.dir()]); err != nil {
			return refuseIn(t.file, "rewards", err)
		}
		used = append(used, t.file)
	}
	if len(g.trials) == 0 {
		if err := g.fromStats(stated); err != nil {
			return refuseIn(job, key, err)
		}
		b.Note("the trials' own files were not given; the rows are from the job's lists")
	}
	if err := g.check(stated); err != nil {
		return refuseIn(used[0], key, err)
	}
	if err := b.DeriveMeans(); err != nil {
		return err
	}
	b.finish(used...)
	return nil
}

func (g *harborGroup) add(t *harborTrialRow, trajectory *file) error {
	b := g.run
	b.Run.Task = results.Known(t.source)
	b.Run.Model = results.Known(t.model)
	if t.model != "" && t.provider != "" {
		b.Run.Model = results.Known(t.provider + "/" + t.model)
	}
	b.startedAt(t.began)
	b.Note(fmt.Sprintf("trials of the agent %s %s", results.Cut(t.agent), results.Cut(t.version)))
	s := results.Sample{ID: t.task, Scores: map[string]results.Score{}}
	rewards, _ := t.rewards.(map[string]any)
	for name, v := range rewards {
		score, err := results.AnyScore(v)
		if err != nil {
			return err
		}
		s.Scores[name] = score
	}
	if t.hasException {
		g.errors++
		if s.Error = t.failed; s.Error == "" {
			s.Error = "an exception"
		}
	}
	if trajectory != nil {
		s.Trajectory = trajectory.path
	}
	return b.Add(s, "")
}

// fromStats takes the rows from reward_stats {reward:{value:[trial]}}. A trial's
// name is its task and, after two underscores, which attempt it is.
func (g *harborGroup) fromStats(stated any) error {
	rewards, _ := member(stated, "reward_stats").(map[string]any)
	scores := map[string]map[string]results.Score{}
	for reward, values := range rewards {
		byValue, _ := values.(map[string]any)
		for value, trials := range byValue {
			score, err := results.TextScore(value)
			if err != nil {
				return err
			}
			for _, trial := range listOf(trials) {
				if scores[textOf(trial)] == nil {
					scores[textOf(trial)] = map[string]results.Score{}
				}
				scores[textOf(trial)][reward] = score
			}
		}
	}
	failed := map[string]string{}
	exceptions, _ := member(stated, "exception_stats").(map[string]any)
	for kind, trials := range exceptions {
		for _, trial := range listOf(trials) {
			failed[textOf(trial)] = kind
			if scores[textOf(trial)] == nil {
				scores[textOf(trial)] = nil
			}
		}
	}
	g.errors = int64(len(failed))
	for _, trial := range slices.Sorted(maps.Keys(scores)) {
		s := results.Sample{ID: taskOfTrial(trial), Scores: scores[trial], Error: failed[trial]}
		if err := g.run.Add(s, ""); err != nil {
			return err
		}
	}
	return nil
}

func taskOfTrial(trial string) string {
	for i := len(trial) - 2; i > 0; i-- {
		if trial[i:i+2] == "__" {
			return trial[:i]
		}
	}
	return trial
}

func (g *harborGroup) check(stated any) error {
	b := g.run
	if stated == nil {
		b.Check("trials", results.Skip, "the job's result.json was not given, or does not have this agent, model and dataset")
		return nil
	}
	if n, ok := intOf(member(stated, "n_trials")); ok {
		b.CheckCount("trials", n, b.Run.Samples)
	}
	if n, ok := intOf(member(stated, "n_errors")); ok {
		b.CheckCount("errors", n, g.errors)
	}
	scorer := "reward"
	if names := b.Scorers(); len(names) > 0 && !slices.Contains(names, scorer) {
		scorer = names[0]
	}
	for _, m := range listOf(member(stated, "metrics")) {
		if err := g.checkMean(scorer, m); err != nil {
			return err
		}
	}
	return b.passAtK(scorer, member(stated, "pass_at_k"))
}

// checkMean checks the job's mean. Harbor counts a trial without a reward as
// zero in it, which is said.
func (g *harborGroup) checkMean(scorer string, metric any) error {
	b := g.run
	v, err := floatOf(member(metric, "mean"))
	if err != nil || v == nil {
		return err
	}
	if err := b.State(scorer, "mean", *v); err != nil {
		return err
	}
	t := b.Totals(scorer)
	switch asZero := t.Sum() / float64(max(1, b.Run.Samples)); {
	case t.N > 0 && results.Close(*v, t.Mean()):
		b.Check("mean "+scorer, results.Pass, "stated %v, recomputed from %d trials", *v, t.N)
	case results.Close(*v, asZero):
		b.Check("mean "+scorer, results.Pass, "stated %v counts %d trials without a reward as 0; of those with one it is %v", *v, b.Run.Samples-t.N, t.Mean())
	default:
		b.Check("mean "+scorer, results.Fail, "stated %v, recomputed %v, or %v with trials without a reward as 0", *v, t.Mean(), asZero)
	}
	return nil
}

// trajectoriesAlone reads ATIF files that no trial belongs to: unscored
// samples.
func (s *session) trajectoriesAlone(g []*file) error {
	b := s.begin("atif")
	models := map[string]bool{}
	for _, f := range g {
		var agent, version, model string
		sample := results.Sample{Trajectory: f.path}
		err := s.json(f, func(r *jsonstream.Reader) error {
			return object(r, fields{
				"session_id": scalar(r, &sample.ID), "schema_version": known(r, &b.Run.HarnessVersion),
				"agent": inside(r, fields{"name": scalar(r, &agent), "version": scalar(r, &version), "model_name": scalar(r, &model)}),
				"steps": func() error { return list(r, func(int) error { return atifStep(r, &sample) }) },
			})
		})
		if err != nil {
			return err
		}
		models[model] = true
		b.Note("trajectories of the agent " + results.Cut(agent+" "+version))
		if err := b.Add(sample, f.path); err != nil {
			return err
		}
	}
	if names := slices.Sorted(maps.Keys(models)); len(names) == 1 {
		b.Run.Model = results.Known(names[0])
	}
	b.Check("scores", results.Skip, "trajectories have no scores; the trials' result.json do")
	b.finish(g...)
	return nil
}

// atifStep keeps the first thing the user said and the last thing the agent did.
func atifStep(r *jsonstream.Reader, s *results.Sample) error {
	var from, at string
	var message results.Text
	err := object(r, fields{"source": scalar(r, &from), "timestamp": scalar(r, &at), "message": text(r, &message)})
	if message == (results.Text{}) {
		return err
	}
	switch {
	case from == "user" && s.Input == (results.Text{}):
		s.Input = message
	case from == "agent":
		s.Answer = message
	}
	return err
}
