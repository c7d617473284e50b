// Package viewer shows a workspace in a browser.
//
// It renders and does not decide: what a page says comes from [dossier.Reading],
// which verified the ledger once and reads on as it grows, and from the packages
// that the commands ask. Pages only read, but for those of a [desk.Desk], where a person
// works. What one would do next is offered as a command to copy.
//
// Every value that comes from an entry of the ledger names that entry, the member
// and the [Format] in attributes of its element, so that a script can make the
// text again from the entry that it verified: docs/viewer.md. Texts of agents,
// rubrics and files are escaped and shown as text, whatever they contain.
//
// Where it stops: the operator of the server decides what it sends. That a page looks
// right proves nothing; the receipts do, checked with a key that one has from
// elsewhere.
package viewer

import (
	"cmp"
	"context"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/viewer/desk"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/importer"
)

//go:embed templates
var files embed.FS

// A Config says what is shown.
type Config struct {
	Place *dossier.Place
	// Files are results of other harnesses, as "tally import" reads them.
	Files []string
	// Now is the time; nil means that of the machine.
	Now func() time.Time
	// Still shows the ledger as it is when it is opened, at the time of its last entry:
	// pages that are written to files are of one state and have no clock.
	Still bool
	// Owner shows the pages to the owner of this machine: the operator's key, if it is
	// here, signs each of them, and a key that this machine's state folder knows as made
	// here needs not be typed.
	Owner bool

	// Desk is where the owner works in the browser; nil for pages that only read.
	Desk *desk.Desk

	pages []route // all of them; a test adds one
}

// A Viewer answers requests for pages. It has no locks on its doors: see
// [Server].
type Viewer struct {
	config Config
	pages  []route
	mux    *http.ServeMux

	// mu guards what was read: pages are made beside each other, and none while the
	// ledger is read on.
	mu      sync.RWMutex
	r       *dossier.Reading
	display *dossier.Display
	broken  error     // why the ledger could not be read on
	since   time.Time // when that was

	// looking is held by the goroutine that finds out whether the ledger has grown.
	looking sync.Mutex
	behind  time.Time // when it was seen to have grown while pages were made; zero if it was not

	// memo guards what pages remember for each other.
	memo    sync.Mutex
	made    map[string]any    // of this state of the ledger
	scripts map[int64]*script // by the entry of the case

	fragments fragments // of this state of the ledger
	surveys   surveys
	shelves   shelves

	signed *signedPages // nil if no key signs pages

	atOnce  int64         // bytes of the longest transcript that a page waits for
	beside  chan struct{} // held by the goroutine that verifies a longer one
	maxKept int64         // bytes of the transcripts whose outlines are remembered
}

// Open verifies the workspace's ledger and returns a Viewer of it.
func Open(c Config) (*Viewer, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.pages == nil {
		c.pages = routes()
	}
	// A page whose only word is that a file cannot be read is no answer.
	for _, path := range c.Files {
		if _, err := importer.Read(context.Background(), []string{path}, importer.Options{}); err != nil {
			return nil, err
		}
	}
	if c.Still { // its clock is changed below
		c.Place = &dossier.Place{Workspace: c.Place.Workspace, World: c.Place.World, ReadFor: c.Place.ReadFor}
	}
	v := &Viewer{config: c, pages: c.pages, mux: http.NewServeMux(), atOnce: maxCompared, beside: make(chan struct{}, 1), maxKept: maxScriptBytes}
	if err := v.read(); err != nil {
		return nil, err
	}
	if last := v.r.History.Time.Go(); c.Still {
		v.config.Now = func() time.Time { return last }
		v.config.Place.Now = v.config.Now
	}
	if c.Owner {
		v.signed = v.newSignedPages()
	}
	v.serve()
	return v, nil
}

// Prepare makes the first page before a reader asks for it, beside everything else: it
// verifies every class, and a long one takes longer than people like to wait.
func (v *Viewer) Prepare() {
	go func() {
		v.render(v.overview, nil)
		v.render(v.corpus, nil)
	}()
}

// Close keeps what was found out for the next time.
func (v *Viewer) Close() {
	v.stopSurveys()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.display != nil {
		v.display.Close()
	}
}

func (v *Viewer) read() error {
	r, err := v.config.Place.Read(dossier.Ask{Again: true, Prove: true})
	if err != nil {
		return err
	}
	v.r, v.scripts = r, make(map[int64]*script)
	v.forgetSurveys()
	v.forget()
	return nil
}

// forget drops what was made of an earlier state of the ledger. Entries stay what they
// are as it grows, and so do their transcripts.
func (v *Viewer) forget() {
	if v.display != nil {
		v.display.Close()
	}
	v.display = v.r.ForDisplay()
	v.made = make(map[string]any)
	v.fragments.forget()
}

// remembered is what make gives, once for each state of the ledger. Two pages that need
// it at the same time may both make it.
func remembered[T any](v *Viewer, name string, make func() (T, error)) (T, error) {
	v.memo.Lock()
	known, ok := v.made[name].(T)
	v.memo.Unlock()
	if ok {
		return known, nil
	}
	out, err := make()
	if err == nil {
		v.memo.Lock()
		v.made[name] = out
		v.memo.Unlock()
	}
	return out, err
}

// retryAfter is how long a ledger that does not verify is left alone before it is
// read again from the beginning.
const retryAfter = 3 * time.Second

// mayLag is how long pages may show the ledger as it was while others are being made:
// one that takes long must not keep everybody waiting whenever the ledger grows.
const mayLag = 5 * time.Second

// enter lets a page use what was read until it calls leave. It reads on first where the
// ledger has grown.
func (v *Viewer) enter() (leave func(), err error) {
	v.upToDate()
	v.mu.RLock()
	return v.mu.RUnlock, v.broken
}

// upToDate reads on where the ledger has grown. After a failure the whole of it is
// verified again: a page must not be made of a Reading that stopped halfway.
func (v *Viewer) upToDate() {
	if v.config.Still {
		return
	}
	v.looking.Lock()
	defer v.looking.Unlock()
	standing, err := v.standing()
	switch {
	case err == nil && standing == dossier.Unchanged:
		v.behind = time.Time{}
		return
	case err == nil && standing == dossier.Grown && !v.mu.TryLock():
		if v.behind.IsZero() {
			v.behind = time.Now()
		}
		if time.Since(v.behind) < mayLag {
			return
		}
		v.mu.Lock()
	case err != nil || standing != dossier.Grown:
		v.mu.Lock()
	}
	defer v.mu.Unlock()
	v.behind = time.Time{}
	switch {
	case err != nil:
	case standing == dossier.Rewritten:
		err = v.read()
	default:
		if err = v.r.Refresh(); err == nil {
			v.forget()
		}
	}
	v.broken, v.since = err, v.config.Now()
}

// standing is how the ledger's files are. A ledger that did not verify is read again
// after a while.
func (v *Viewer) standing() (dossier.Standing, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	switch {
	case v.broken == nil:
		return v.r.Standing()
	case v.config.Now().Sub(v.since) < retryAfter:
		return dossier.Unchanged, nil
	}
	return dossier.Rewritten, nil
}

func (v *Viewer) loggedOf(a *history.Attempt) (answer.Logged, error) {
	if a.Finished == nil { // what it cost is in its journal
		return answer.Glance(v.display, a)
	}
	return remembered(v, "logged "+a.ID, func() (answer.Logged, error) { return answer.Glance(v.display, a) })
}

// ServeHTTP answers a request.
func (v *Viewer) ServeHTTP(w http.ResponseWriter, req *http.Request) { v.mux.ServeHTTP(w, req) }

// A route is one page: where it is, and what gathers what it shows.
type route struct {
	pattern string // as [http.ServeMux] spells it
	show    func(*Viewer, *http.Request) (*page, error)

	// section is what the head of every page calls it; "" for pages that others
	// lead to. Some have a section only at times.
	section string
	rest    bool // it stands behind "More"
	when    func(*Viewer) bool
}

// routes are the pages, sections in the order of the head. A new one is its file
// with a template of the same name, and a row here.
func routes() []route {
	return []route{
		{pattern: "/{$}", show: (*Viewer).overview, section: "Overview"},
		{pattern: "/attempts", show: (*Viewer).attempts, section: "Attempts"},
		{pattern: "/attempt/{id}", show: (*Viewer).attempt},
		{pattern: "/attempt/{id}/case/{case}", show: (*Viewer).caseOf},
		{pattern: "/matrix", show: (*Viewer).matrix, section: "Matrix", rest: true},
		{pattern: "/compare", show: (*Viewer).compare, section: "Compare"},
		{pattern: "/attempt/{id}/case/{case}/log", show: (*Viewer).caseOf},
		{pattern: "/attempt/{id}/case/{case}/evidence", show: (*Viewer).caseOf},
		{pattern: "/attempt/{id}/case/{case}/history", show: (*Viewer).caseOf},
		{pattern: "/golden/{class}/{target}/{case}", show: (*Viewer).golden},
		{pattern: "/corpus", show: (*Viewer).corpus, section: "Corpus"},
		{pattern: "/corpus/{class}", show: (*Viewer).class},
		{pattern: "/review", show: (*Viewer).review, section: "Review", rest: true, when: func(v *Viewer) bool { return !v.config.Still }},
		{pattern: "/review/attempt/{id}", show: (*Viewer).queue},
		{pattern: "/review/attempt/{id}/case/{case}", show: (*Viewer).sheet},
		{pattern: "/review/draft/{class}/{case}", show: (*Viewer).draftSheet},
		{pattern: "/review/request/{job}", show: (*Viewer).job},
		{pattern: "/judges", show: (*Viewer).judges, section: "Judges", rest: true},
		{pattern: "/corpus/{class}/case/{case}", show: (*Viewer).corpusCase},
		{pattern: "/promotion/{class}", show: (*Viewer).promotion},
		{pattern: "/audit/{id}", show: (*Viewer).audit},
		{pattern: "/ledger", show: (*Viewer).ledger, section: "Ledger", rest: true},
		{pattern: "/ledger/{index}", show: (*Viewer).ledgerEntry},
		{pattern: "/imported", show: (*Viewer).imported, section: "Imported", rest: true},
		{pattern: "/imported/{id}", show: (*Viewer).importedRun},
		{pattern: "/fleet", show: (*Viewer).fleet, section: "Fleet", rest: true, when: func(v *Viewer) bool { return v.fleetStatus() != nil }},
		{pattern: "/imported/{id}/row/{run}/{attempt}/{sample}", show: (*Viewer).importedRow},
		{pattern: "/imported/{id}/compare", show: (*Viewer).importedCompare},
	}
}

// sections are what the head of every page leads to, the rest of them behind one word.
func (v *Viewer) sections() (first, rest []link) {
	for _, r := range v.pages {
		if r.section == "" || r.when != nil && !r.when(v) {
			continue
		}
		l := link{Text: r.section, URL: strings.TrimSuffix(r.pattern, "{$}")}
		if r.rest && !(r.section == "Review" && v.config.Desk != nil) {
			rest = append(rest, l)
		} else {
			first = append(first, l)
		}
	}
	return first, rest
}

func (v *Viewer) serve() {
	for _, r := range v.pages {
		v.mux.HandleFunc("GET "+r.pattern, v.page(func(req *http.Request) (*page, error) { return r.show(v, req) }))
	}
	if v.config.Desk != nil {
		v.mux.HandleFunc("POST "+writePath, v.wish)
	}
	v.mux.HandleFunc("GET /attempt/{id}/case/{case}/events", v.events)
	v.mux.HandleFunc("GET /attempt/{id}/case/{case}/conversation.md", v.conversation)
	v.mux.HandleFunc("GET /attempt/{id}/case/{case}/piece/{digest}", v.piece)
	v.mux.HandleFunc("GET /blob/{digest}", v.blob)
	v.mux.HandleFunc("GET /receipt/{index}", v.receipt)
	v.mux.HandleFunc("GET /checkpoint", v.checkpoint)
	v.mux.HandleFunc("GET /keys", v.keys)
	v.mux.HandleFunc("GET /page/{id}", v.signedPage)
	v.mux.HandleFunc("GET /assets/{name}", asset)
	v.mux.HandleFunc("GET /verify.html", verifyPage)
	v.mux.HandleFunc("/", v.page(func(req *http.Request) (*page, error) {
		return nil, refusal.Newf(refusal.NotFound, "there is no page at this address").WithHint("begin at the overview")
	}))
}

// page makes a handler of a function that gathers what a page shows.
func (v *Viewer) page(make func(*http.Request) (*page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		data, status, err := v.render(make, req)
		if v.config.Desk != nil {
			sendsForms(w)
		}
		if err != nil {
			http.Error(w, "the page could not be made: "+Line(err.Error()), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		w.Write(data) // without the lock: a slow reader keeps no other waiting
	}
}

// render makes the bytes of a page from what was read.
func (v *Viewer) render(make func(*http.Request) (*page, error), req *http.Request) (data []byte, status int, err error) {
	leave, err := v.enter()
	defer leave()
	var p *page
	if err == nil {
		p, err = make(req)
	}
	if err != nil {
		p = failed(err)
	}
	v.r.DropBenches() // what pages need of them is remembered
	p.Origin, p.Home, p.Assets = v.config.Place.Settings.Origin, "/", "/assets"
	p.Sections, p.Rest = v.sections()
	if v.config.Desk != nil && req != nil {
		p.Acts = append(p.Acts, v.acts(p, req)...)
	}
	if p.Still = v.config.Still; p.Still {
		p.Signed = layout.SiteSigned
	}
	sign := v.signed != nil && req != nil && p.Status == 0 && p.Live == "" // what moves is not signed
	if sign {
		p.Signed = v.signed.name()
	}
	if data, err = p.Render(templates()); err == nil && sign {
		v.signed.keep(p.Signed, addressOf(req.URL), data)
	}
	return data, cmp.Or(p.Status, http.StatusOK), err
}

// acts are what a person who works here can do with what a page is about.
func (v *Viewer) acts(p *page, req *http.Request) []link {
	a, err := v.lookUp(req)
	if err != nil {
		return nil // the page is about none
	}
	switch id := a.ID; p.Template {
	case "attempt":
		return []link{{Text: "Review its cases", URL: address("review", "attempt", id)}}
	case "case":
		repeat, err := strconv.Atoi(cmp.Or(req.URL.Query().Get("repeat"), "1"))
		if err == nil {
			v.config.Desk.Saw(id, req.PathValue("case"), repeat) // who has looked here is not blind
			return []link{{Text: "Review or correct this case", URL: sheetURL(id, req.PathValue("case"), repeat, url.Values{"open": {"1"}})}}
		}
	}
	return nil
}

// addressOf is the address of a page as the browser that has it spells it: without a
// question mark that nothing comes after, as a link has it that takes all filters away.
func addressOf(u *url.URL) string {
	plain := *u
	plain.ForceQuery = false
	return plain.RequestURI()
}

// failed is the page of an error. What does not verify is told as a banner.
func failed(err error) *page {
	r := refusal.Of(err)
	p := &page{Title: "This cannot be shown", Template: "error", Outside: true, Status: http.StatusInternalServerError,
		Data: errorData{Name: string(r.Name), Text: err.Error(), Hint: r.Hint}}
	switch refusal.ExitCode(err) {
	case refusal.ExitUnverified:
		p.Title, p.Alarm = "Evidence does not verify", err.Error()
	case refusal.ExitUsage:
		p.Status = http.StatusNotFound
	}
	if r.Name == refusal.NotFound {
		p.Title, p.Status = "There is nothing here", http.StatusNotFound
	}
	return p
}

type errorData struct{ Name, Text, Hint string }

// lookUp finds the attempt of an address.
func (v *Viewer) lookUp(req *http.Request) (*history.Attempt, error) {
	return v.attemptNamed(req.PathValue("id"))
}

// attemptNamed finds the attempt of a name.
func (v *Viewer) attemptNamed(id string) (*history.Attempt, error) {
	d, err := v.r.Attempt(id)
	if err != nil {
		return nil, err
	}
	return d.Attempt, nil
}

// templates are parsed when the first page is asked for: most commands never do.
var templates = sync.OnceValue(func() map[string]*template.Template { return layout.Parse(files, "templates", functions) })
