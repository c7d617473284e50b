package intake

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/read/audit"
	"tallystick/internal/read/step"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/exchange"
	"tallystick/internal/share/foreign"
)

// Log opens the log of another harness: an Inspect log, a Harbor job or trial
// folder, ATIF or OpenTelemetry traces in a file or in a folder. Nothing vouches for it. The
// sources are those that f names.
func (f Files) Log(path string) (audit.Input, error) {
	rest, err := f.Input()
	if err != nil {
		return rest, err
	}
	in, err := log(path)
	in.Sources, in.HasSources = rest.Sources, rest.HasSources
	return in, err
}

func log(path string) (audit.Input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return audit.Input{}, refusal.Newf(refusal.Unreadable, "%s: %w", path, refusal.WithoutPath(err))
	}
	if info.IsDir() {
		return harbor(path)
	}
	sum, head, err := identify(path, path)
	if err != nil {
		return audit.Input{}, err
	}
	in, err := logOf(path, head)
	in.Log = sum
	return in, err
}

// logOf recognises a file by its beginning.
func logOf(path string, head []byte) (audit.Input, error) {
	var in audit.Input
	archive := bytes.HasPrefix(head, []byte("PK\x03\x04"))
	if !archive && !isInspect(head) {
		list, err := traces(path, path)
		if err != nil {
			return in, err
		}
		in.Results, in.Trajectories = Derive(path, ofTraces(list, nil))
		return in, nil
	}
	l, err := openInspect(path, archive)
	if err != nil {
		return in, err
	}
	in.Results, in.Trajectories = Derive(path, l.each)
	in.AuditedAt = l.when
	return in, nil
}

// isInspect tells an Inspect log by the members that it begins with.
func isInspect(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) == 0 || head[0] != '{' {
		return false
	}
	head = head[:min(len(head), 4096)]
	return bytes.Contains(head, []byte(`"eval"`)) && bytes.Contains(head, []byte(`"status"`))
}

// identify takes the digest of a file in a folder that was given, or of one that was
// given itself, and its beginning.
func identify(given, path string) (sum string, head []byte, err error) {
	f, err := openBelow(given, path)
	if err != nil {
		return "", nil, refusal.Newf(refusal.Unreadable, "%s: %w", path, refusal.WithoutPath(err))
	}
	defer f.Close()
	h := sha256.New()
	head = make([]byte, 64<<10)
	n, err := io.ReadFull(io.TeeReader(f, h), head)
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		_, err = io.Copy(h, f)
	}
	if err != nil {
		return "", nil, refusal.Newf(refusal.Unreadable, "%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), head[:n], nil
}

// traces reads a file of ATIF or OpenTelemetry, which is bounded, whole.
func traces(given, path string) ([]foreign.Trajectory, error) {
	f, err := openBelow(given, path)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", path, refusal.WithoutPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, foreign.MaxBytes+1))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", path, err)
	}
	if exchange.IsOurs(data) {
		return nil, refusal.Newf(refusal.Unrecognised, "%s: is a trajectory of ours, which says nothing about results", path).WithHint(`audit its attempt: "tally audit ATTEMPT"`)
	}
	list, err := exchange.Import(path, data)
	if refusal.Is(err, refusal.Unrecognised) {
		return nil, refusal.Newf(refusal.Unrecognised, "%s: found neither an Inspect log, nor ATIF, nor OpenTelemetry traces", path).
			WithHint("results in the shapes of docs/formats/audit.md are named with --results")
	}
	return list, err
}

// ofTraces visits trajectories. trial, which may be nil, says what a harness found
// of one.
func ofTraces(list []foreign.Trajectory, trial *trial) Each {
	return func(visit func(Row, *step.Line) error) error {
		for i := range list {
			t := &list[i]
			id, model := t.ID, ""
			if trial != nil {
				id, model = trial.id(i), trial.model
			}
			row, line := Tell(id, model, t.Verified, t.Content)
			row.Correct = verdictOf(t.Evaluations)
			if trial != nil {
				row.Correct = trial.correct
			}
			if err := visit(row, &line); err != nil {
				return err
			}
		}
		return nil
	}
}

// verdictOf reads the evaluations of a trace: correct if one says pass, or has a
// score of 1; nil without any.
func verdictOf(list []foreign.Evaluation) *bool {
	var verdict *bool
	for _, e := range list {
		label := strings.ToLower(e.Label)
		correct := label == "pass" || label == "passed" || label == "correct" || e.Score != nil && *e.Score >= 1
		if verdict == nil || correct {
			verdict = &correct
		}
	}
	return verdict
}

// A trial is one trial of Harbor: its folder, with result.json and the trajectory.
type trial struct {
	dir, name, task, model, trajectory string
	correct                            *bool
	sum                                string
}

// id names a task. A trial's name is its own; of several trajectories the later
// ones say which they are.
func (t *trial) id(i int) string {
	id := cmp.Or(t.name, t.task, filepath.Base(t.dir))
	if i > 0 {
		return fmt.Sprintf("%s/%d", id, i+1)
	}
	return id
}

// maxTrials bounds a job.
const maxTrials = 100_000

// harbor reads the folder of a job or of a trial.
func harbor(dir string) (audit.Input, error) {
	trials, err := findTrials(dir)
	if err != nil {
		return audit.Input{}, err
	}
	if len(trials) == 0 {
		return folderOfTraces(dir)
	}
	all := sha256.New()
	for _, t := range trials {
		fmt.Fprintf(all, "%s  %s\n", t.sum, filepath.ToSlash(t.dir))
	}
	var in audit.Input
	in.Log = hex.EncodeToString(all.Sum(nil))
	in.Results, in.Trajectories = Derive(dir, func(visit func(Row, *step.Line) error) error {
		for _, t := range trials {
			if err := t.visit(dir, visit); err != nil {
				return err
			}
		}
		return nil
	})
	return in, nil
}

// folderOfTraces reads a folder of OpenTelemetry traces or ATIF, in which a conversation may
// be in several files.
func folderOfTraces(dir string) (in audit.Input, err error) {
	list, err := exchange.ImportFolder(dir)
	if refusal.Is(err, refusal.Unrecognised) {
		return in, refusal.Newf(refusal.Unrecognised, "%s: holds neither a result.json of a Harbor trial, nor OpenTelemetry traces or ATIF", dir).
			WithHint("name the folder of a job or a trial, a folder of traces, or a file: an Inspect log, ATIF, OpenTelemetry traces")
	}
	if err != nil {
		return in, err
	}
	all := sha256.New()
	for i := range list {
		fmt.Fprintf(all, "%s  %s\n", list[i].Source.Digest, list[i].Source.Name)
	}
	in.Log = hex.EncodeToString(all.Sum(nil))
	in.Results, in.Trajectories = Derive(dir, ofTraces(list, nil))
	return in, nil
}

func (t *trial) visit(dir string, visit func(Row, *step.Line) error) error {
	if t.trajectory == "" {
		return visit(Row{TaskID: t.id(0), Model: t.model, Correct: t.correct}, nil)
	}
	list, err := traces(dir, t.trajectory)
	if err != nil {
		return err
	}
	return ofTraces(list, t)(visit)
}

// findTrials finds the folders that have a result.json of a trial.
func findTrials(dir string) ([]*trial, error) {
	var list []*trial
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || d.Name() != "result.json" || !d.Type().IsRegular() {
			return nil
		}
		t, err := readTrial(dir, name)
		if err != nil || t == nil {
			return err
		}
		if len(list) == maxTrials {
			return refusal.Newf(refusal.TooLarge, "%s: more than %d trials", dir, maxTrials)
		}
		list = append(list, t)
		return nil
	})
	var named *refusal.Error
	if err != nil && !errors.As(err, &named) {
		err = refusal.Newf(refusal.Unreadable, "%s: %w", dir, refusal.WithoutPath(err))
	}
	slices.SortFunc(list, func(a, b *trial) int { return strings.Compare(a.dir, b.dir) })
	return list, err
}

// readTrial reads a result.json; nil if it is that of a job.
func readTrial(top, name string) (*trial, error) {
	sum, _, err := identify(top, name)
	if err != nil {
		return nil, err
	}
	f, err := openBelow(top, name)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", name, refusal.WithoutPath(err))
	}
	defer f.Close()
	r, err := jsonstream.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	v, err := r.Any(maxSample)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rel, err := filepath.Rel(top, filepath.Dir(name))
	if err != nil {
		rel = filepath.Dir(name)
	}
	t := &trial{dir: rel, sum: sum, name: jsonstream.TextOf(jsonstream.Member(v, "trial_name")), task: jsonstream.TextOf(jsonstream.Member(v, "task_name"))}
	if t.name == "" && t.task == "" {
		return nil, nil
	}
	t.model = jsonstream.TextOf(jsonstream.Member(v, "agent_info", "model_info", "name"))
	t.correct = rewarded(jsonstream.Member(v, "verifier_result"))
	for _, at := range []string{"agent/trajectory.json", "trajectory.json"} {
		file := filepath.Join(filepath.Dir(name), at)
		f, err := openBelow(top, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f.Close()
		t.trajectory = file
		break
	}
	return t, nil
}

// rewarded says whether a trial has its whole reward; nil if it has none.
func rewarded(v any) *bool {
	reward := jsonstream.Member(v, "rewards", "reward")
	if reward == nil {
		reward = jsonstream.Member(v, "reward")
	}
	n, ok := reward.(jsonstream.Number)
	if !ok {
		return nil
	}
	value, finite, err := n.Float()
	if err != nil || !finite {
		return nil
	}
	correct := value >= 1
	return &correct
}
