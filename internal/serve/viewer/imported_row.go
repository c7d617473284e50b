package viewer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"

	"tallystick/internal/read/history"
	"tallystick/internal/read/results"
	"tallystick/internal/read/scorecard"
	logstep "tallystick/internal/read/step"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/importer"
	"tallystick/internal/share/intake"
)

// importedFileOf is the path of a file that a page is about.
func (v *Viewer) importedFileOf(req *http.Request) (string, error) {
	n, err := strconv.Atoi(req.PathValue("id"))
	if err != nil || n < 1 || n > len(v.config.Files) {
		return "", refusal.Newf(refusal.UnknownName, "no imported file %q", req.PathValue("id")).WithHint("files are named on the command line: tally view FILE")
	}
	return v.config.Files[n-1], nil
}

// An importedRowData is one sample of an imported file. Nothing on its page is in the
// ledger, so the page is never marked as verified.
type importedRowData struct {
	Name string
	Row  importer.ShownRow
	Run  results.Run
	Said []importedSaid
	None string // why there is no transcript
}

// An importedSaid is something that was said or done: a message, or a call of a tool with
// its result.
type importedSaid struct {
	Role     string // system, user, assistant or tool
	Tool     string
	Args     string
	Text     string
	Cut, Bad bool
}

// rowURL is the address of a row of a file.
func rowURL(file string, r importer.ShownRow) string {
	return address("imported", file, "row", strconv.Itoa(r.Run), strconv.FormatInt(r.Attempt, 10), r.ID)
}

func (v *Viewer) importedRow(req *http.Request) (*page, error) {
	path, err := v.importedFileOf(req)
	if err != nil {
		return nil, err
	}
	id := req.PathValue("sample")
	shown, err := importer.ShowImported(req.Context(), path, id)
	if err != nil {
		return nil, err
	}
	data := &importedRowData{Name: filepath.Base(path)}
	nth, found := 0, false
	for _, r := range shown.Rows {
		if strconv.Itoa(r.Run) != req.PathValue("run") {
			continue
		}
		// "0" is the first, for those who know the sample and not how often it ran.
		if nth++; req.PathValue("attempt") == "0" || strconv.FormatInt(r.Attempt, 10) == req.PathValue("attempt") {
			data.Row, data.Run, found = r, shown.Runs[r.Run], true
			break
		}
	}
	if !found {
		return nil, refusal.Newf(refusal.UnknownName, "%s has no such repetition of sample %q", path, id)
	}
	if data.Row.Attempt > 0 {
		nth = int(data.Row.Attempt)
	}
	line, err := intake.Transcript(path, id, nth)
	switch {
	case err != nil:
		data.None = err.Error()
	case line == nil || len(line.Steps) == 0:
		data.None = "the file has none for this sample"
	default:
		data.Said = saidIn(line.Steps)
	}
	file := address("imported", req.PathValue("id"))
	return &page{Title: id, Template: "imported_row", Section: "Imported", Outside: true, Data: data,
		Crumbs: []link{{Text: "Imported", URL: "/imported"}, {Text: data.Name, URL: file}, {Text: id}},
		Next:   []command{{What: "The same in the terminal", Line: shell("tally", "show", path, "--row", id)}}}, nil
}

// saidIn puts steps together: a call of a tool and its result are one.
func saidIn(steps []*logstep.Step) []importedSaid {
	var all []importedSaid
	open := []int{} // calls without a result
	for _, s := range steps {
		said := importedSaid{Role: "user", Cut: s.Truncated}
		switch s.Type {
		case logstep.Prompt:
			said.Text = textOf(s.Content)
		case logstep.Model:
			if said.Role, said.Text = "assistant", textOf(s.Output); said.Text == "" {
				continue // it only called tools, which follow
			}
		case logstep.Call:
			open = append(open, len(all))
			said = importedSaid{Role: "tool", Tool: s.Name, Args: argumentsText(s), Cut: s.InputTruncated}
		case logstep.Result:
			if at := callOf(all, open, s.Name); at >= 0 {
				call := &all[open[at]]
				call.Text, call.Bad, call.Cut = textOf(s.Output), s.IsError, call.Cut || s.Truncated
				open = append(open[:at], open[at+1:]...)
				continue
			}
			said = importedSaid{Role: "tool", Tool: s.Name, Text: textOf(s.Output), Cut: s.Truncated, Bad: s.IsError}
		}
		all = append(all, said)
	}
	return all
}

// callOf is the place among the open calls of the one that a result is of, -1 if none.
func callOf(all []importedSaid, open []int, name string) int {
	for i, at := range open {
		if name == "" || all[at].Tool == name {
			return i
		}
	}
	return -1
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// argumentsText is what a tool was called with.
func argumentsText(s *logstep.Step) string {
	if s.Args != nil {
		return string(*s.Args)
	}
	if text, ok := s.Input.(string); ok {
		return text
	}
	data, err := json.MarshalIndent(s.Input, "", "  ")
	if err != nil || s.Input == nil {
		return ""
	}
	return string(data)
}

// An importedCompareData is an imported run beside an attempt.
type importedCompareData struct {
	Name, File string
	Runs       []results.Run
	Run        int
	Attempt    string
	Attempts   []string // to choose from
	Scorer     string
	Problem    string
	*scorecard.ImportedComparison
	Rows []importedCompareRow
}

type importedCompareRow struct {
	scorecard.ImportedRow
	FileURL, AttemptURL string
}

// importedCompare pairs an imported run with an attempt by the ids of samples and cases:
// A is the file, B the attempt.
func (v *Viewer) importedCompare(req *http.Request) (*page, error) {
	path, err := v.importedFileOf(req)
	if err != nil {
		return nil, err
	}
	q := req.URL.Query()
	data := &importedCompareData{Name: filepath.Base(path), File: req.PathValue("id"), Attempt: q.Get("b"), Scorer: q.Get("scorer")}
	p := &page{Title: data.Name + " beside an attempt", Template: "imported_compare", Section: "Imported", Outside: true, Data: data,
		Crumbs: []link{{Text: "Imported", URL: "/imported"}, {Text: data.Name, URL: address("imported", data.File)}, {Text: "Compare"}},
		Next:   []command{{What: "Two files in the terminal", Line: "tally compare FILE FILE"}}}
	shown, err := importer.ShowImported(req.Context(), path, "")
	if err != nil {
		return nil, err
	}
	data.Runs = shown.Runs
	data.Run, _ = strconv.Atoi(q.Get("run"))
	if data.Run < 0 || data.Run >= len(data.Runs) {
		return nil, refusal.Newf(refusal.UnknownName, "%s has no run %d", path, data.Run)
	}
	all := v.r.History.Attempts
	for i := len(all) - 1; i >= 0 && len(data.Attempts) < 200; i-- {
		data.Attempts = append(data.Attempts, all[i].ID)
	}
	if data.Attempt == "" {
		return p, nil
	}
	a, err := v.attemptNamed(data.Attempt)
	if err != nil {
		return nil, err
	}
	err = v.compareWith(req, data, path, a)
	if e := refusal.Of(err); e != nil && (e.Name == refusal.Usage || e.Name == refusal.NotComparable || e.Name == refusal.NotFound) {
		data.Problem = err.Error()
		return p, nil
	}
	return p, err
}

// compareWith adds what an imported run and an attempt are compared to.
func (v *Viewer) compareWith(req *http.Request, data *importedCompareData, path string, a *history.Attempt) error {
	if err := scorecard.RequireAnswered(a); err != nil {
		return err
	}
	file := &scorecard.ImportedRun{Scorer: data.Scorer, Run: data.Runs[data.Run]}
	names := map[string]bool{}
	_, err := importer.Read(req.Context(), []string{path}, importer.Options{Each: func(i int, s results.Sample) error {
		if i != data.Run {
			return nil
		}
		for name := range s.Scores {
			names[name] = true
		}
		return file.Add(s)
	}})
	if err != nil {
		return err
	}
	beside := &scorecard.ImportedRun{Scorer: data.Scorer, Run: results.Run{Harness: "tallystick", Task: results.Known(a.Class), Model: results.Known(a.Target)}}
	for c := range a.Cases() {
		if err := beside.Add(sampleOf(c, names)); err != nil {
			return err
		}
	}
	if data.ImportedComparison, err = scorecard.CompareImported(file, beside); err != nil {
		return err
	}
	for _, row := range data.Cases {
		data.Rows = append(data.Rows, importedCompareRow{row, address("imported", data.File, "row", strconv.Itoa(data.Run), "0", row.ID), caseURL(a.ID, row.ID, 1)})
	}
	return nil
}

// sampleOf is a case as a sample with the score of an attempt under the names of the
// scorers of a file: what an attempt records is one score, whoever the file asked.
func sampleOf(c *history.Case, scorers map[string]bool) results.Sample {
	s := results.Sample{ID: c.ID, Attempt: int64(c.Repeat), Scores: map[string]results.Score{}}
	mark := c.On(history.AsRecorded)
	for name := range scorers {
		score := results.Score{Value: mark.Value()}
		if mark.Scored {
			passed := mark.Passed()
			score.Passed = &passed
		}
		s.Scores[name] = score
	}
	if !mark.Scored {
		s.Error = fmt.Sprint(mark.Outcome)
	}
	return s
}
