package viewer

import (
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"slices"

	"tallystick/internal/read/difference"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

type goldenData struct {
	Class, Target, Case string
	Record              *dossier.Case
	Lines               template.HTML
	Divergence          string
	Same                bool
	Missing             string
}

// contextLines is how many lines around a change are shown.
const contextLines = 4

// golden compares the golden trace of a case with its newest run.
func (v *Viewer) golden(req *http.Request) (*page, error) {
	data := &goldenData{Class: req.PathValue("class"), Target: req.PathValue("target"), Case: req.PathValue("case")}
	// Only names that the ledger has lead to a file.
	for _, a := range slices.Backward(v.r.History.Attempts) {
		if a.Class != data.Class || a.Target != data.Target || data.Record != nil {
			continue
		}
		if c := recordOf(a, data.Case); c != nil {
			data.Record = v.r.Dossier(a).Case(c)
		}
	}
	if data.Record == nil {
		return nil, refusal.Newf(refusal.UnknownName, "no attempt of class %q by target %q has a record of case %q", data.Class, data.Target, data.Case)
	}
	if err := v.compareGolden(data); err != nil {
		return nil, err
	}
	return &page{Title: "Golden trace of " + data.Case, Template: "golden", Section: "Attempts", Data: data,
		Crumbs: []link{{Text: data.Record.Dossier().ID, URL: attemptURL(data.Record.Dossier().ID)}, {Text: data.Case, URL: caseURL(data.Record.Dossier().ID, data.Case, int(data.Record.Repeat))}, {Text: "Golden trace", URL: ""}},
		Next: []command{{What: "Drive every case again and compare", Line: shell("tally", "golden", "check", data.Class, "--target", data.Target)},
			{What: "Take the present run, for review", Line: shell("tally", "golden", "update", data.Class, "--target", data.Target, "--case", data.Case)}}}, nil
}

func (v *Viewer) compareGolden(data *goldenData) error {
	if held, err := data.Record.IsHidden(); err != nil || held {
		data.Missing = "The case is held out: its trace would tell what it asks."
		return err
	}
	text, err := v.r.ReadGolden(data.Class, data.Target, data.Case)
	if errors.Is(err, fs.ErrNotExist) {
		data.Missing = "There is no golden trace of this case."
		return nil
	}
	if err != nil {
		return err
	}
	t, err := v.script(data.Record)
	if err != nil {
		return err
	}
	if t.Bytes > maxCompared {
		data.Missing = "The trajectory is too long to be compared for a page."
		return nil
	}
	run, err := data.Record.Trajectory()
	if err != nil {
		return err
	}
	d, err := outline.CheckGolden(text, run, "", dossier.GoldenTrace)
	if err != nil {
		return err
	}
	if data.Same = d.Equal(); data.Same {
		return nil
	}
	data.Divergence = d.Detail()
	got, err := goldenText(text, run)
	if err == nil {
		data.Lines = difference.Lines(string(text), string(got)).HTMLLines(contextLines, maxDiffLines, visibleAll)
	}
	return err
}

// goldenText is what a run would be written as, beside a golden file: what the agent
// did, or every event, as that file has it.
func goldenText(beside []byte, run *trajectory.Verified) ([]byte, error) {
	if outline.IsOutline(beside) {
		return outline.Of(run).Format(), nil
	}
	trace, err := trajectory.Canonical(run, dossier.GoldenTrace)
	if err != nil {
		return nil, err
	}
	return trace.Format(), nil
}
