package viewer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/suites"
)

type corpusData struct {
	Classes []corpusRow
	From    string // where the signers come from
	Shipped []string
}

// A corpusRow is a class; Checking says that it is still being verified.
type corpusRow struct {
	ceremony.VerifiedClass
	Checking bool
}

// withCorpus opens the workspace's benches for as long as they are looked at.
func (v *Viewer) withCorpus(look func(*dossier.Corpus) error) error {
	c, err := v.r.Corpus()
	if err != nil {
		return err
	}
	defer c.Close()
	return look(c)
}

func (v *Viewer) corpus(req *http.Request) (*page, error) {
	data := &corpusData{Shipped: suites.Classes()}
	var classes []string
	err := v.withCorpus(func(c *dossier.Corpus) (err error) {
		classes, err = ceremony.EveryClass(c)
		data.From = c.From
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Corpus", Template: "corpus", Section: "Corpus", Outside: true, Data: data,
		Next: []command{{What: "Verify every class", Line: "tally bench verify --all"}, {What: "Add a class", Line: "tally bench new CLASS"}}}
	looked := make([]*shelf, len(classes))
	for i, class := range classes {
		if looked[i], err = v.shelf(class); err != nil {
			return nil, err
		}
	}
	wait := time.After(shelfWait)
	for i, class := range classes {
		row := corpusRow{VerifiedClass: ceremony.VerifiedClass{Class: class}, Checking: true}
		if looked[i].within(wait) {
			row = corpusRow{VerifiedClass: looked[i].result}
		} else {
			wait = past
		}
		if row.Checking && req != nil {
			p.Live = req.URL.RequestURI()
		}
		data.Classes = append(data.Classes, row)
	}
	return p, nil
}

// past is a time that has come.
var past = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()

type classData struct {
	Class        string
	Shipped      bool
	Verified     bool
	Problem      string
	Registration *bench.Registration
	Standing     string // of the verified class
	Missing      []bench.Missing
	Cases        []classRow
	Total        int // cases as folders
	Lines        int
	Warnings     []bench.Warning
	Signers      []string
	Bars         []tagPicture
	Pending      []string
	Pager        pager
	Filter       string
	HeldOut      int
	Oldest       string
}

// A classRow is a case with who vouches for it.
type classRow struct {
	ID, URL                         string
	Title, Difficulty, Source       string
	Tags                            []string
	HeldOut                         bool
	Added, Reviewed, Validated, Age string
	Stale                           bool
	Digest                          string
}

// staleAfter is the age from which a case that no curator looked at is marked.
const staleAfter = 180 * 24 * time.Hour

func (v *Viewer) class(req *http.Request) (*page, error) {
	data := &classData{Class: req.PathValue("class"), Filter: req.URL.Query().Get("q")}
	if err := isClass(data.Class); err != nil {
		return nil, err
	}
	data.Shipped = bench.IsShipped(data.Class)
	b, err := v.verified(data.Class)
	switch {
	case err == nil:
		data.Verified = true
		reg := b.Registration()
		data.Registration, data.Standing, data.Warnings, data.Signers = &reg, b.Standing(), b.Warnings(), b.Signers()
		var cases []bench.Case
		for _, c := range b.Cases() {
			cases = append(cases, c.Case())
		}
		data.list(cases, b.Dataset(), v.config.Now(), req.URL.Query())
		data.HeldOut = len(b.HeldOut())
	case refusal.Is(err, refusal.UnknownName):
		return nil, err
	default:
		data.Problem = err.Error()
	}
	if !data.Shipped {
		err := v.withCorpus(func(c *dossier.Corpus) error {
			if data.Verified {
				data.waiting(c, b)
			} else {
				data.draft(c, v.config.Now(), req.URL.Query())
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	data.Bars = v.tagPictures(data.Class)
	p := &page{Title: data.Class, Template: "class", Section: "Corpus", Outside: len(data.Bars) == 0, Data: data, Crumbs: []link{{Text: "Corpus", URL: "/corpus"}, {Text: data.Class, URL: ""}},
		Next: []command{{What: "Run it", Line: shell("tally", "run", data.Class)}}}
	if !data.Shipped {
		p.Next = append(p.Next, command{What: "Verify it", Line: shell("tally", "bench", "verify", data.Class)}, command{What: "Sign it", Line: shell("tally", "bench", "sign", data.Class, "--key", "KEY")})
	}
	return p, nil
}

// isClass refuses what cannot be the name of a class: it would be that of a file.
func isClass(name string) error {
	if bench.IsShipped(name) || bench.CheckID(name) == nil {
		return nil
	}
	return refusal.Newf(refusal.UnknownName, "%q is not the name of a class", name)
}

// A statused is a class, verified or not, of which is known what it lacks.
type statused interface {
	PendingIDs() []string
	Status(*os.Root, bench.Options) ([]bench.Missing, error)
}

// waiting adds the drafts that wait and what they and the class lack.
func (d *classData) waiting(c *dossier.Corpus, class statused) {
	d.Pending = class.PendingIDs()
	var err error
	if d.Missing, err = class.Status(c.Root, c.Options); err != nil {
		d.Problem = err.Error()
	}
}

// draft is what lies on disk of a class that does not verify.
func (d *classData) draft(c *dossier.Corpus, now time.Time, q url.Values) {
	draft, err := bench.Load(c.Root, d.Class)
	if err != nil {
		return // the problem is known
	}
	d.waiting(c, draft)
	d.Registration = &draft.Registration
	var cases []bench.Case
	for _, x := range draft.Cases {
		if !x.Pending {
			cases = append(cases, x.Case)
		}
	}
	d.list(cases, draft.Dataset, now, q)
}

// list shows the cases of one page, those in folders first, and who vouches for them. What
// a held-out case is about is not told.
func (d *classData) list(cases []bench.Case, set *bench.Dataset, now time.Time, q url.Values) {
	var oldest time.Time
	for _, c := range cases {
		if c.IsHeldOut() {
			d.HeldOut++
		}
		if at := c.Provenance.LastValidatedAt.Go(); !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	if !oldest.IsZero() {
		d.Oldest = oldest.Format(time.DateOnly)
	}
	d.Total = len(cases)
	var lines []bench.DatasetLine
	if set != nil {
		d.Lines, lines = len(set.Lines), set.Lines
	}
	if text := strings.ToLower(d.Filter); text != "" {
		cases = slices.DeleteFunc(slices.Clone(cases), func(c bench.Case) bool {
			return !strings.Contains(strings.ToLower(c.CaseID+" "+strings.Join(c.Tags, " ")), text)
		})
		lines = linesWith(lines, text)
	}
	d.Pager = newPager(q, len(cases)+len(lines), rowsOnPage)
	for i := d.Pager.from; i < d.Pager.to; i++ {
		if i < len(cases) {
			d.Cases = append(d.Cases, d.caseRow(cases[i], now))
		} else {
			d.Cases = append(d.Cases, d.lineRow(lines[i-len(cases)]))
		}
	}
}

func (d *classData) caseRow(c bench.Case, now time.Time) classRow {
	at := c.Provenance.LastValidatedAt.Go()
	x := classRow{ID: c.CaseID, URL: corpusCaseURL(d.Class, c.CaseID), Title: c.Title, Difficulty: string(c.Difficulty), Source: string(c.Provenance.Source), Tags: c.Tags, HeldOut: c.IsHeldOut(),
		Added: identity(c.Provenance.AddedBy), Reviewed: identity(c.Provenance.ReviewedBy), Validated: at.Format(time.DateOnly), Stale: now.Sub(at) > staleAfter && !d.Shipped}
	if x.HeldOut {
		x.Title = ""
	}
	return x
}

// A datasetRow is what of a line of a dataset stands in the list.
type datasetRow struct {
	Title   string   `json:"title"`
	Tags    []string `json:"tags"`
	HeldOut bool     `json:"held_out"`
	Input   any      `json:"input"`
	Turns   []struct {
		Text string `json:"text"`
	} `json:"turns"`
}

// maxAsked bounds what of a question stands in its row.
const maxAsked = 120

func (d *classData) lineRow(l bench.DatasetLine) classRow {
	var read datasetRow
	_ = json.Unmarshal(l.JSON, &read) // what of it is not as expected is not shown
	x := classRow{ID: l.ID, URL: corpusCaseURL(d.Class, l.ID), Tags: read.Tags, HeldOut: read.HeldOut, Source: "dataset"}
	if x.HeldOut {
		return x
	}
	x.Title = read.Title
	if asked, ok := read.Input.(string); ok && x.Title == "" {
		x.Title = asked
	}
	if x.Title == "" && len(read.Turns) > 0 {
		x.Title = read.Turns[0].Text
	}
	x.Title = clip(x.Title, maxAsked)
	return x
}

// linesWith are the lines of a dataset with a text in their id or one of their tags. Of
// other texts of a line, a held-out one's above all, the search tells nothing.
func linesWith(lines []bench.DatasetLine, text string) []bench.DatasetLine {
	var found []bench.DatasetLine
	for _, l := range lines {
		if strings.Contains(strings.ToLower(l.ID), text) {
			found = append(found, l)
			continue
		}
		if !strings.Contains(strings.ToLower(string(l.JSON)), text) && !strings.Contains(string(l.JSON), `\u`) {
			continue // most lines need not be taken apart
		}
		var read datasetRow
		_ = json.Unmarshal(l.JSON, &read)
		if strings.Contains(strings.ToLower(strings.Join(read.Tags, " ")), text) {
			found = append(found, l)
		}
	}
	return found
}

func identity(p *bench.Person) string {
	switch {
	case p == nil:
		return ""
	case p.Signature == "":
		return p.Identity + " (not signed)"
	}
	return p.Identity
}
