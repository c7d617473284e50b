package importer

import (
	"context"
	"fmt"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
)

// LoadImportedRun reads the one run of a result file that is of a task, or the only
// one, for a comparison by a scorer.
func LoadImportedRun(ctx context.Context, path, task, scorer string) (*scorecard.ImportedRun, error) {
	byRun := map[int]*scorecard.ImportedRun{}
	runs, err := Read(ctx, []string{path}, Options{Each: func(i int, s results.Sample) error {
		if byRun[i] == nil {
			byRun[i] = &scorecard.ImportedRun{Scorer: scorer}
		}
		return byRun[i].Add(s)
	}})
	if err != nil {
		return nil, err
	}
	var tasks []string
	found := -1
	for i, r := range runs {
		if task == "" || string(r.Task) == task {
			tasks = append(tasks, fmt.Sprintf("%s by %s", r.Task, r.Model))
			found = i
		}
	}
	switch {
	case len(tasks) == 0:
		return nil, refusal.Newf(refusal.UnknownName, "%s has no run of the task %q", path, task)
	case len(tasks) > 1:
		return nil, refusal.Newf(refusal.Usage, "%s has %d runs, and two are compared", path, len(tasks)).
			WithHint("pick one with --task: %.400s", strings.Join(tasks, ", "))
	case byRun[found] == nil:
		return nil, refusal.Newf(refusal.NotComparable, "%s has no samples to pair", path).WithHint("give the file or folder with the samples too")
	}
	byRun[found].Run = runs[found]
	return byRun[found], nil
}

// maxShownRows bounds the rows that are kept in memory to be shown.
const maxShownRows = 500

// ShownImport is a result file of another harness with its rows.
type ShownImport struct {
	Runs []results.Run `json:"runs"`
	Rows []ShownRow    `json:"rows"`
	// LeftOut counts the rows that are not in Rows.
	LeftOut int `json:"rows_left_out"`
}

// A ShownRow is one sample of a run.
type ShownRow struct {
	Run   int    `json:"run"` // its place among the runs
	State string `json:"state"`
	results.Sample
}

// ShowImported reads a result file and its rows, or only those of one sample. Rows
// that are not right come first where there are too many to show.
func ShowImported(ctx context.Context, path, sample string) (*ShownImport, error) {
	a := &ShownImport{Rows: []ShownRow{}}
	var right []ShownRow
	runs, err := Read(ctx, []string{path}, Options{Each: func(i int, s results.Sample) error {
		if sample != "" && s.ID != sample {
			return nil
		}
		row := ShownRow{Run: i, State: s.State(), Sample: s}
		list := &a.Rows
		if row.isRight() {
			list = &right
		}
		if len(*list) == maxShownRows {
			a.LeftOut++
		} else {
			*list = append(*list, row)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	a.Runs = runs
	a.Rows = append(a.Rows, right...)
	if more := len(a.Rows) - maxShownRows; more > 0 {
		a.Rows, a.LeftOut = a.Rows[:maxShownRows], a.LeftOut+more
	}
	if sample != "" && len(a.Rows) == 0 {
		return nil, refusal.Newf(refusal.UnknownName, "%s has no sample %q", path, sample).WithHint("without --sample the rows are listed with their ids")
	}
	return a, nil
}

// isRight says that every score of a row is the best there is.
func (r ShownRow) isRight() bool {
	for _, s := range r.Scores {
		if s.Value == nil || *s.Value < 1 {
			return false
		}
	}
	return r.State == results.Scored
}
