package viewer

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/tools"
)

// corpusCaseData is a case as people wrote it, and how it did over time.
type corpusCaseData struct {
	Class, ID string
	Standing  string // of the class; "" if it does not verify
	Problem   string // why the case cannot be shown as it is
	HeldOut   bool
	Case      *bench.Case // of a case in a folder; nil for a line of a dataset
	Line      int         // of the dataset, from 1
	Signers   []string    // of the class
	Added     string
	Reviewed  string
	Validated string
	Tags      []string
	Digest    string

	Asked   *asked // nil of a held-out case
	History []caseAttempt
	Older   int // attempts that are not listed
	Before  *link
	After   *link
}

// asked is what a case asks and how it is graded. Nothing of a held-out case is in one.
type asked struct {
	Turns     []string
	Files     []writtenFile
	Memory    string
	Approvals string
	Tools     []toolShown
	Expected  string
	Documents []writtenFile // that are expected
	Grading   string
	Rubric    bool // the class's rubric grades it
	Test      string
	Model     string // authored replies
	Metadata  string
}

// A writtenFile is a file of a case. Text is "" if it is not text.
type writtenFile struct {
	Name, Text string
	Bytes      int64
}

type toolShown struct{ Name, Description, Class, Source, Schema, Replies string }

// caseAttempt is what became of the case in an attempt.
type caseAttempt struct {
	Row     attemptRow
	Record  *entry
	URL     string
	Passed  int // of Of repetitions
	Of      int
	Beside  string
	Another bool // the case was another then: its digest differs from that of now
}

// historyShown bounds the attempts of a case's history on one page.
const historyShown = 60

func (v *Viewer) corpusCase(req *http.Request) (*page, error) {
	data := &corpusCaseData{Class: req.PathValue("class"), ID: req.PathValue("case")}
	if err := isClass(data.Class); err != nil {
		return nil, err
	}
	if bench.CheckID(data.ID) != nil {
		return nil, refusal.Newf(refusal.UnknownName, "%q is not the name of a case", data.ID)
	}
	b, err := v.verified(data.Class)
	switch {
	case err == nil:
		err = data.fill(b)
	case refusal.Is(err, refusal.UnknownName):
	default:
		data.Problem = "The class does not verify as it is now, so its cases are not shown: " + err.Error()
		err = nil
	}
	if err != nil && !refusal.Is(err, refusal.UnknownName) {
		return nil, err
	}
	gone := err
	if err := v.caseHistory(data); err != nil {
		return nil, err
	}
	if gone != nil {
		if len(data.History) == 0 {
			return nil, gone
		}
		data.Problem = "The class has no such case now: " + gone.Error()
	}
	p := &page{Title: data.ID, Template: "corpus_case", Section: "Corpus", Data: data,
		Crumbs: []link{{Text: "Corpus", URL: "/corpus"}, {Text: data.Class, URL: address("corpus", data.Class)}, {Text: data.ID, URL: ""}},
		Next:   []command{{What: "Run this case", Line: shell("tally", "run", data.Class, "--case", data.ID)}}}
	p.Outside = len(data.History) == 0
	return p, nil
}

// fill takes the case from the verified class.
func (d *corpusCaseData) fill(b *bench.Verified) error {
	d.Standing, d.Signers = b.Standing(), b.Signers()
	set := scenario.Of(b, "")
	at := -1
	for i := range set.Len() {
		if set.Ref(i).ID == d.ID {
			at = i
			break
		}
	}
	if at < 0 {
		return refusal.Newf(refusal.UnknownName, "class %s has no case %q", d.Class, d.ID)
	}
	if at > 0 {
		d.Before = &link{Text: set.Ref(at - 1).ID, URL: corpusCaseURL(d.Class, set.Ref(at-1).ID)}
	}
	if at+1 < set.Len() {
		d.After = &link{Text: set.Ref(at + 1).ID, URL: corpusCaseURL(d.Class, set.Ref(at+1).ID)}
	}
	d.Digest = set.Ref(at).Digest.String()
	folders := b.Cases()
	if at < len(folders) {
		c := folders[at].Case()
		d.Case = &c
		d.Added, d.Reviewed = identity(c.Provenance.AddedBy), identity(c.Provenance.ReviewedBy)
		d.Validated = c.Provenance.LastValidatedAt.Go().Format(time.DateOnly)
	} else {
		d.Line = at - len(folders) + 1
	}
	task, err := set.Case(at)
	if err != nil {
		return err
	}
	d.Tags = task.Tags
	if d.HeldOut = task.HeldOut; d.HeldOut {
		if d.Case != nil { // a title tells what it is about
			d.Case = &bench.Case{CaseID: d.Case.CaseID, Disposition: d.Case.Disposition, Difficulty: d.Case.Difficulty, Provenance: bench.Provenance{Source: d.Case.Provenance.Source}}
		}
		return nil
	}
	d.Asked = askedBy(task)
	return nil
}

func askedBy(t *scenario.Task) *asked {
	s := &t.Scenario
	out := &asked{Files: filesOf(t.Files), Expected: indented(t.Expected), Grading: gradingOf(t), Rubric: len(t.Grading) == 0, Metadata: indented(t.Metadata)}
	for _, turn := range s.Turns {
		out.Turns = append(out.Turns, turn.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(t.ExpectedFiles)) {
		out.Documents = append(out.Documents, fileShown(name, t.ExpectedFiles[name]))
	}
	for i := range s.Tools {
		out.Tools = append(out.Tools, shownTool(&s.Tools[i]))
	}
	if len(s.Memory) > 0 {
		out.Memory = indentedOf(s.Memory)
	}
	if len(s.Approvals) > 0 {
		out.Approvals = indentedOf(s.Approvals)
	}
	if s.Test != nil {
		out.Test = indentedOf(s.Test)
	}
	if len(s.Model) > 0 {
		out.Model = indentedOf(s.Model)
	}
	return out
}

// gradingOf is how a case is graded, in the words of its file.
func gradingOf(t *scenario.Task) string { return indented(t.Grading) }

func shownTool(d *tools.Definition) toolShown {
	out := toolShown{Name: d.Name, Description: d.Description, Class: string(d.Class), Source: d.Source, Schema: indented(d.Schema)}
	if len(d.Replies) > 0 || d.Default != nil {
		out.Replies = indentedOf(struct {
			Replies any `json:"replies,omitempty"`
			Default any `json:"default,omitempty"`
		}{d.Replies, d.Default})
	}
	return out
}

func filesOf(list []digest.File) []writtenFile {
	var out []writtenFile
	for _, f := range list {
		out = append(out, fileShown(f.Path, f.Data))
	}
	return out
}

func fileShown(name string, data []byte) writtenFile {
	f := writtenFile{Name: name, Bytes: int64(len(data))}
	if utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
		f.Text = string(data)
	}
	return f
}

// indented is a JSON document for people; "" for none.
func indented(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

func indentedOf(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the template escapes
	if e.Encode(v) != nil {
		return ""
	}
	return indented(bytes.TrimSpace(b.Bytes()))
}

// caseHistory finds the case in the attempts of its class, the newest first.
func (v *Viewer) caseHistory(d *corpusCaseData) error {
	var attempts []*history.Attempt
	var found [][]*history.Case
	var indexes []int64
	for _, a := range slices.Backward(v.r.History.Attempts) {
		if a.Class != d.Class {
			continue
		}
		var own []*history.Case
		for c := range a.Cases() {
			if c.ID == d.ID {
				own = append(own, c)
			}
		}
		switch {
		case len(own) == 0:
			continue
		case len(attempts) == historyShown:
			d.Older++
			continue
		}
		if own[0].Index >= 0 {
			indexes = append(indexes, own[0].Index)
		}
		attempts, found = append(attempts, a), append(found, own)
	}
	rows, err := v.attemptRows(attempts)
	if err != nil {
		return err
	}
	entries, err := v.entries(indexes...)
	if err != nil {
		return err
	}
	for i, a := range attempts {
		own := found[i]
		x := caseAttempt{Row: rows[i], Record: entries[own[0].Index], URL: caseURL(a.ID, d.ID, int(own[0].Repeat)), Of: len(own), Beside: own[0].BesideChange(),
			Another: d.Digest != "" && own[0].Digest.String() != d.Digest}
		for _, c := range own {
			if c.Outcome() == evidence.Passed {
				x.Passed++
			}
		}
		d.History = append(d.History, x)
	}
	return nil
}

// Passed and Runs are how often the case passed, of the attempts that are listed.
func (d *corpusCaseData) Passed() int {
	n := 0
	for _, x := range d.History {
		if x.Passed == x.Of {
			n++
		}
	}
	return n
}

// Rule says in words how a grader judges, "" if it is not one of ours alone.
func (a *asked) Rule() string {
	var g struct {
		Grade struct {
			Kind grade.Kind `json:"kind"`
		} `json:"grade"`
		Checks []json.RawMessage `json:"checks"`
	}
	if json.Unmarshal([]byte(a.Grading), &g) != nil {
		return ""
	}
	switch {
	case g.Grade.Kind != "" && grade.IsJudged(g.Grade.Kind):
		return "a model judges it"
	case g.Grade.Kind != "":
		return "by the grader " + string(g.Grade.Kind)
	case len(g.Checks) > 0:
		return plural(len(g.Checks), "check")
	}
	return ""
}
