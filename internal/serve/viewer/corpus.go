package viewer

import (
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
	Classes []ceremony.VerifiedClass
	From    string // where the signers come from
	Shipped []string
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

func (v *Viewer) corpus(*http.Request) (*page, error) {
	data := &corpusData{Shipped: suites.Classes()}
	err := v.withCorpus(func(c *dossier.Corpus) error {
		classes, err := ceremony.EveryClass(c)
		if err != nil {
			return err
		}
		data.From = c.From
		data.Classes, _, _ = ceremony.VerifyClasses(c, classes)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &page{Title: "Corpus", Template: "corpus", Section: "Corpus", Outside: true, Data: data,
		Next: []command{{What: "Verify every class", Line: "tally bench verify --all"}, {What: "Add a class", Line: "tally bench new CLASS"}}}, nil
}

type classData struct {
	Class        string
	Shipped      bool
	Verified     bool
	Problem      string
	Registration *bench.Registration
	Standing     string // of the verified class
	Missing      []bench.Missing
	Cases        []classRow
	Lines        int
	Pending      []string
	Pager        pager
	Filter       string
	HeldOut      int
	Oldest       string
}

// A classRow is a case with who vouches for it.
type classRow struct {
	ID, Title, Difficulty, Source   string
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
	b, err := v.r.Bench(data.Class)
	switch {
	case err == nil:
		data.Verified = true
		reg := b.Registration()
		data.Registration, data.Standing = &reg, b.Standing()
		data.lines(b)
		var cases []bench.Case
		for _, c := range b.Cases() {
			cases = append(cases, c.Case())
		}
		data.list(cases, v.config.Now(), req.URL.Query())
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
	p := &page{Title: data.Class, Template: "class", Section: "Corpus", Outside: true, Data: data, Crumbs: []link{{Text: "Corpus", URL: "/corpus"}, {Text: data.Class, URL: ""}},
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

func (d *classData) lines(b *bench.Verified) {
	if set := b.Dataset(); set != nil {
		d.Lines = len(set.Lines)
	}
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
	d.list(cases, now, q)
}

// list shows who vouches for the cases of one page. What a held-out case is about is
// not told.
func (d *classData) list(cases []bench.Case, now time.Time, q url.Values) {
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
	cases = slices.DeleteFunc(slices.Clone(cases), func(c bench.Case) bool {
		return d.Filter != "" && !strings.Contains(strings.ToLower(c.CaseID+" "+strings.Join(c.Tags, " ")), strings.ToLower(d.Filter))
	})
	d.Pager = newPager(q, len(cases), rowsOnPage)
	for _, c := range cases[d.Pager.from:d.Pager.to] {
		at := c.Provenance.LastValidatedAt.Go()
		x := classRow{ID: c.CaseID, Title: c.Title, Difficulty: string(c.Difficulty), Source: string(c.Provenance.Source), Tags: c.Tags, HeldOut: c.IsHeldOut(),
			Added: identity(c.Provenance.AddedBy), Reviewed: identity(c.Provenance.ReviewedBy), Validated: at.Format(time.DateOnly), Stale: now.Sub(at) > staleAfter && !d.Shipped}
		if x.HeldOut {
			x.Title = ""
		}
		d.Cases = append(d.Cases, x)
	}
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
