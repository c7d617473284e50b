package importer

import (
	"context"
	"fmt"
	"slices"
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
		return nil, refusal.Newf(refusal.UnknownName, "%s has no sample %q", path, sample).WithHint("without --row the rows are listed with their ids")
	}
	return a, nil
}

// OnlyWrong leaves the one row that is not right. None, or several, is refused: the
// reader of the refusal chooses a row.
func (a *ShownImport) OnlyWrong(path string) error {
	wrong := slices.DeleteFunc(slices.Clone(a.Rows), ShownRow.isRight)
	switch {
	case len(a.Rows) == 0:
		return refusal.Newf(refusal.NotFound, "%s has no rows", path).WithHint("give the file or folder with the samples too")
	case len(wrong) == 0:
		return refusal.Newf(refusal.Usage, "every row of %s is right", path).WithHint("name the row that you mean: --row %s", a.Rows[0].ID)
	case len(wrong) > 1 || a.LeftOut > 0:
		var ids []string
		for _, r := range wrong[:min(len(wrong), 10)] {
			ids = append(ids, r.ID)
		}
		return refusal.Newf(refusal.Usage, "%s has %d rows that are not right: %s", path, len(wrong), strings.Join(ids, ", ")).
			WithHint("name one of them: --row %s", wrong[0].ID)
	}
	a.Rows = wrong
	return nil
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
