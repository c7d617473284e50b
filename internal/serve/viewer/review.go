package viewer

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"tallystick/internal/read/history"
	"tallystick/internal/read/review"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/viewer/desk"
)

// writePath is where forms of a person who works here are sent: see package desk.
const writePath = "/review/do"

// reviewOnPage is how many attempts the page of reviews shows.
const reviewOnPage = 30

type reviewData struct {
	Person   string // "" if the pages only read
	Attempts []*scorecard.ReviewReport
	More     int
	Drafts   []desk.DraftName
}

// review shows what people have looked at, and what waits for them.
func (v *Viewer) review(*http.Request) (*page, error) {
	data := &reviewData{}
	for _, a := range slices.Backward(v.r.History.Attempts) {
		if a.Records == 0 {
			continue
		}
		if len(data.Attempts) == reviewOnPage {
			data.More++
			continue
		}
		report, err := remembered(v, "review "+a.ID, func() (*scorecard.ReviewReport, error) { return review.Report(v.r, a.ID) })
		if refusal.ExitCode(err) == refusal.ExitUnverified {
			return nil, err
		}
		if err == nil { // a class that is gone asks nothing
			data.Attempts = append(data.Attempts, report)
		}
	}
	p := &page{Title: "Review", Template: "review", Section: "Review", Data: data}
	if v.config.Desk == nil {
		p.Next = []command{{What: "Work in the browser, with your key", Line: "tally view --write --key ~/.ssh/id_ed25519"}, {What: "Or at the terminal", Line: "tally review CLASS --key ~/.ssh/id_ed25519 --blind"}}
		return p, nil
	}
	data.Person = v.config.Desk.Person()
	var err error
	data.Drafts, err = v.config.Desk.Drafts()
	return p, err
}

// needDesk is the desk, or what to do where the pages only read.
func (v *Viewer) needDesk(line string) (*desk.Desk, error) {
	if v.config.Desk == nil {
		return nil, refusal.Newf(refusal.NotFound, "these pages only read").WithHint("%s; or start \"tally view --write --key KEY\"", line)
	}
	return v.config.Desk, nil
}

type queueData struct {
	*desk.Queue
	Person  string
	Only    string
	Choices []string
	Left    string // address of the first case that the person has not labelled
	Pager   pager
	Rows    []queueRow
}

type queueRow struct {
	desk.QueueRow
	URL string
}

// blindIn: who looks at cases is blind to what others think of them unless they ask not
// to be.
func blindIn(q url.Values) bool { return q.Get("open") != "1" }

func sheetURL(attempt, id string, repeat int, q url.Values) string {
	return address("review", "attempt", attempt, "case", id) + with(url.Values{}, "repeat", strconv.Itoa(repeat), "open", q.Get("open"), "only", q.Get("only"))
}

func (v *Viewer) queue(req *http.Request) (*page, error) {
	id, q := req.PathValue("id"), req.URL.Query()
	d, err := v.needDesk(shell("tally", "review", id) + " --key KEY")
	if err != nil {
		return nil, err
	}
	queue, err := d.Queue(review.Ask{Name: id, Only: q.Get("only"), Blind: blindIn(q)})
	if err != nil {
		return nil, err
	}
	data := &queueData{Queue: queue, Person: d.Person(), Only: q.Get("only"), Choices: review.Choices(), Pager: newPager(q, len(queue.Rows), rowsOnPage)}
	for i, r := range queue.Rows {
		row := queueRow{r, sheetURL(queue.Attempt, r.Case, r.Repeat, q)}
		if data.Left == "" && r.Mine == "" {
			data.Left = row.URL
		}
		if i >= data.Pager.from && i < data.Pager.to {
			data.Rows = append(data.Rows, row)
		}
	}
	return &page{Title: "Review " + queue.Attempt, Template: "review_queue", Section: "Review", Data: data,
		Crumbs: []link{{Text: "Review", URL: "/review"}, {Text: queue.Attempt}}}, nil
}

type sheetData struct {
	*desk.Sheet
	Person              string
	QueueURL, CaseURL   string
	BlindURL, OpenURL   string
	Before, After, Next string // neighbours in the queue
	Place, Of           int
}

func (v *Viewer) sheet(req *http.Request) (*page, error) {
	id, caseID, q := req.PathValue("id"), req.PathValue("case"), req.URL.Query()
	d, err := v.needDesk(shell("tally", "review", id) + " --key KEY")
	if err != nil {
		return nil, err
	}
	repeat := 1
	if given := q.Get("repeat"); given != "" {
		if repeat, err = strconv.Atoi(given); err != nil {
			return nil, refusal.Newf(refusal.Usage, "repeat: found %q, expected a number", given)
		}
	}
	sheet, err := d.Case(id, caseID, repeat, blindIn(q))
	if err != nil {
		return nil, err
	}
	if sheet.Blind {
		q.Del("only") // a blind queue has all cases
	}
	here := url.Values{"open": {q.Get("open")}, "only": {q.Get("only")}}
	data := &sheetData{Sheet: sheet, Person: d.Person(), QueueURL: address("review", "attempt", id) + with(url.Values{}, "open", q.Get("open"), "only", q.Get("only")), CaseURL: caseURL(id, caseID, repeat),
		BlindURL: sheetURL(id, caseID, repeat, nil), OpenURL: sheetURL(id, caseID, repeat, url.Values{"open": {"1"}, "only": here["only"]})}
	if err := data.neighbours(d, id, caseID, repeat, here); err != nil {
		return nil, err
	}
	return &page{Title: caseID + history.RepeatMark(repeat), Template: "review_case", Section: "Review", Data: data, Form: true,
		Crumbs: []link{{Text: "Review", URL: "/review"}, {Text: id, URL: data.QueueURL}, {Text: caseID}}}, nil
}

// neighbours finds the case before and after, and the next that the person has not
// labelled.
func (s *sheetData) neighbours(d *desk.Desk, id, caseID string, repeat int, here url.Values) error {
	queue, err := d.Queue(review.Ask{Name: id, Only: here.Get("only"), Blind: s.Blind})
	if err != nil {
		return err
	}
	at := slices.IndexFunc(queue.Rows, func(r desk.QueueRow) bool { return r.Case == caseID && r.Repeat == repeat })
	s.Place, s.Of = at+1, len(queue.Rows)
	for i, r := range queue.Rows {
		to := sheetURL(id, r.Case, r.Repeat, here)
		switch {
		case i == at-1:
			s.Before = to
		case i == at+1:
			s.After = to
		}
		if i != at && r.Mine == "" && (s.Next == "" || i > at && !s.nextIsAfter(queue, at, here, id)) {
			s.Next = to
		}
	}
	return nil
}

// nextIsAfter reports whether the next case stands after this one already.
func (s *sheetData) nextIsAfter(queue *desk.Queue, at int, here url.Values, id string) bool {
	return slices.ContainsFunc(queue.Rows[at+1:], func(r desk.QueueRow) bool { return sheetURL(id, r.Case, r.Repeat, here) == s.Next })
}

type draftData struct {
	*desk.Draft
	Person string
}

func (v *Viewer) draftSheet(req *http.Request) (*page, error) {
	class, id := req.PathValue("class"), req.PathValue("case")
	d, err := v.needDesk(shell("tally", "bench", "sign", class, id) + " --key KEY")
	if err != nil {
		return nil, err
	}
	draft, err := d.Draft(class, id)
	if err != nil {
		return nil, err
	}
	return &page{Title: "Draft " + id, Template: "review_draft", Section: "Review", Data: &draftData{draft, d.Person()}, Form: true,
		Crumbs: []link{{Text: "Review", URL: "/review"}, {Text: class, URL: address("corpus", class)}, {Text: id}},
		Next:   []command{{What: "Compute its digests, after a change", Line: shell("tally", "bench", "digest", class)}, {What: "Name its people", Line: shell("tally", "bench", "sign", class, id) + " --added-by NAME --reviewed-by NAME --key KEY"}}}, nil
}

type jobData struct {
	*desk.Job
	Back, Next string
}

// job shows what became of a form.
func (v *Viewer) job(req *http.Request) (*page, error) {
	d, err := v.needDesk("tally review CLASS --key KEY")
	if err != nil {
		return nil, err
	}
	j := d.Job(req.PathValue("job"))
	if j == nil {
		return nil, refusal.Newf(refusal.NotFound, "there is no such request").WithHint("the program was started anew, or it is long ago: the ledger has what was signed")
	}
	data := &jobData{Job: j, Back: "/review"}
	if j.Act.Draft != nil {
		data.Back = address("review", "draft", j.Act.Draft.Class, j.Act.Case)
	} else {
		open := url.Values{}
		if !j.Act.Blind {
			open.Set("open", "1")
		}
		data.Back = sheetURL(j.Act.Attempt, j.Act.Case, j.Act.Repeat, open)
		s := &sheetData{Sheet: &desk.Sheet{Blind: j.Act.Blind}}
		if err := s.neighbours(d, j.Act.Attempt, j.Act.Case, j.Act.Repeat, open); err != nil {
			return nil, err
		}
		data.Next = s.Next
	}
	p := &page{Title: "Request " + j.Act.Request, Template: "review_job", Section: "Review", Data: data, Crumbs: []link{{Text: "Review", URL: "/review"}, {Text: "Request " + j.Act.Request}}}
	if j.State == desk.Waiting {
		p.Live = req.URL.Path
	}
	return p, nil
}

// maxWish bounds a form.
const maxWish = 64 << 10

// wish takes a form of a person who works here. The guard has looked at who sends it.
func (v *Viewer) wish(w http.ResponseWriter, req *http.Request) {
	req.Body = http.MaxBytesReader(w, req.Body, maxWish)
	var job string
	err := req.ParseForm()
	if err == nil {
		job, err = v.config.Desk.Begin(req.PostForm)
	}
	if err == nil {
		http.Redirect(w, req, address("review", "request", job), http.StatusSeeOther)
		return
	}
	v.page(func(*http.Request) (*page, error) {
		p := failed(err)
		p.Title, p.Status = "Nothing was signed", http.StatusConflict
		return p, nil
	})(w, req)
}
