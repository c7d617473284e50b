package archive

import (
	"context"
	"fmt"
	"os"
	"strings"

	"tallystick/internal/exchange/importer"
	"tallystick/internal/exchange/results"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
)

// AreFiles reports whether all of the names are of files or folders that are there.
func AreFiles(names ...string) bool {
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			return false
		}
	}
	return true
}

// LoadImportedRun reads the one run of a result file that is of a task, or the only
// one, for a comparison by a scorer.
func LoadImportedRun(ctx context.Context, path, task, scorer string) (*scorecard.ImportedRun, error) {
	byRun := map[int]*scorecard.ImportedRun{}
	runs, err := importer.Read(ctx, []string{path}, importer.Options{Each: func(i int, s results.Sample) error {
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
