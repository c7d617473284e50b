package viewer

import (
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/conversation"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

type caseData struct {
	Case       *dossier.Case
	Record     *entry
	Why        *answer.Why
	Decisive   *grade.Detail
	Transcript *transcript // nil if it cannot be shown
	Missing    string      // why not
	Steps      []answer.ShownStep
	Diff       []diffLine
	Files      []evidenceFile
	Changed    []changedFile
	Repeats    []link
	Long       bool // the trajectory is too long to compare it
	Pretty     string
	Amended    *entry
	DiffCut    bool   // lines of the diff, or their ends, are left out
	DiffURL    string // the whole of it

	Tab     string
	Tabs    []caseTab
	Before  *link // the case before in the order of the attempt's page
	After   *link
	Talk    *talk // nil if the transcript is not told as a conversation
	Untold  string
	Failure *link  // where it went wrong
	Input   string // the beginning of what the case was asked first
	Runs    []caseRun
	Older   int // runs that are not listed

	GradingURL string // where the checks stand that the table shows; "" if it cannot be compared

	kept     map[string]bool // the pieces of the evidence
	grading  any             // the document with the checks
	diffText string          // of the folder
}

// An evidenceFile is a piece that the record names.
type evidenceFile struct{ What, Digest, URL string }

// A changedFile is one that the agent left in its folder.
type changedFile struct {
	Path, How, URL string
	Image          bool
}

// maxCompared bounds the trajectory that is compared with an earlier one for a page.
const maxCompared = 8 << 20

func (v *Viewer) lookUpCase(req *http.Request) (*dossier.Case, error) {
	a, err := v.lookUp(req)
	if err != nil {
		return nil, err
	}
	repeat, _ := strconv.Atoi(req.URL.Query().Get("repeat"))
	for c := range a.Cases() {
		if c.ID == req.PathValue("case") && c.Index >= 0 && int(c.Repeat) == max(repeat, 1) {
			return v.r.Dossier(a).Case(c), nil
		}
	}
	if _, err := v.r.FindCase(dossier.CaseQuery{Case: req.PathValue("case"), Attempt: a.ID}); err != nil {
		return nil, err
	}
	return nil, refusal.Newf(refusal.UnknownName, "attempt %s has no record of repetition %d of case %q", a.ID, repeat, req.PathValue("case"))
}

func (v *Viewer) caseOf(req *http.Request) (*page, error) {
	c, err := v.lookUpCase(req)
	if err != nil {
		return nil, err
	}
	tab := caseTabs[0].name
	for _, t := range caseTabs[1:] {
		if strings.HasSuffix(req.URL.Path, "/case/"+req.PathValue("case")+t.path) {
			tab = t.name
		}
	}
	data, err := v.caseContent(c, tab, req.URL.Query())
	if err != nil {
		return nil, err
	}
	a := c.Dossier()
	p := &page{Title: c.ID, Template: "case", Section: "Attempts", Data: data,
		Crumbs: []link{{Text: "Attempts", URL: "/attempts"}, {Text: a.ID, URL: attemptURL(a.ID)}, {Text: c.ID, URL: ""}}, Next: caseCommands(c)}
	if data.Transcript != nil && data.Transcript.Checking {
		p.Live = req.URL.RequestURI()
	}
	return p, nil
}

// caseContent gathers what a page shows of a case: one of its tabs. The template "case"
// draws it, wherever it stands.
func (v *Viewer) caseContent(c *dossier.Case, tab string, q url.Values) (*caseData, error) {
	data := &caseData{Case: c, Tab: tab}
	a, base := c.Dossier(), address("attempt", c.Dossier().ID, "case", c.ID)
	data.Tabs = tabsOf(base, tab, q)
	held, err := c.IsHidden()
	if err == nil {
		data.Record, err = v.entry(c.Index)
	}
	if err == nil {
		data.Before, data.After, err = v.around(c)
	}
	if err != nil {
		return nil, err
	}
	if !held {
		data.Pretty = pretty(data.Record.Raw)
		if err := v.evidenceOf(data, base); err != nil {
			return nil, err
		}
	}
	switch tab {
	case "History":
		data.Runs, data.Older, err = v.runsOf(c)
	case "Evidence":
	default:
		err = v.transcriptOf(data, base, q)
	}
	if err == nil {
		err = v.whyOf(data)
	}
	if err != nil {
		return nil, err
	}
	for x := range a.Cases() {
		if x.ID == c.ID && x.Index >= 0 && a.Plan.Repeat > 1 {
			data.Repeats = append(data.Repeats, link{Text: strconv.Itoa(int(x.Repeat)), URL: caseURL(a.ID, x.ID, int(x.Repeat))})
		}
	}
	return data, nil
}

// whyOf adds why the case ended as it did.
func (v *Viewer) whyOf(data *caseData) (err error) {
	why := answer.WhyOf
	if data.Long || data.Tab != caseTabs[0].name { // the other tabs say it in short
		why = answer.WhyInShort
	}
	if data.Why, err = why(data.Case); err != nil {
		return err
	}
	data.Decisive = grade.Decisive(data.Why.Checks)
	data.matchGrading()
	data.Failure = data.failure()
	if data.Case.Amendment != nil {
		data.Amended, err = v.entry(data.Case.Amendment.Index)
	}
	return err
}

func caseCommands(c *dossier.Case) []command {
	a := c.Dossier()
	name := a.ID + ":" + c.ID
	return []command{
		{What: "Why it ended as it did", Line: shell("tally", "why", c.ID, "--attempt", a.ID)},
		{What: "Every step in the terminal", Line: shell("tally", "show", name)},
		{What: "Prove it to a stranger", Line: shell("tally", "export", name, "--format", "receipt", "-o", c.ID+".proof")},
		{What: "Run only this case again", Line: shell("tally", "run", a.Class, "--target", a.Target, "--case", c.ID)},
	}
}

// transcriptOf adds the transcript, or why there is none.
func (v *Viewer) transcriptOf(data *caseData, base string, q url.Values) error {
	held, err := data.Case.IsHidden()
	if err != nil {
		return err
	}
	if held {
		shown, err := answer.ShowCase(data.Case)
		if err != nil {
			return err
		}
		data.Missing = "The case is held out: its transcript would tell what it asks. These are the types of its events."
		data.Steps = shown.Steps[:min(len(shown.Steps), eventsInWindow)]
		return nil
	}
	s, err := v.begin(data.Case)
	var t *dossier.Transcript
	if err == nil {
		data.Long = s.opened.Bytes > v.atOnce
		t, err = v.settle(s)
	}
	if err == nil && t == nil {
		var p *trajectory.Peeked
		if data.Transcript, p, err = beingChecked(s.opened, base+data.tabPath(), base, q); err == nil {
			return v.talkOf(data, p.Lines, nil)
		}
		// It is not even in the form of one: verifying it tells what is wrong.
		t, err = v.script(data.Case)
	}
	if err != nil {
		if refusal.ExitCode(err) == refusal.ExitUnverified {
			return err
		}
		data.Missing = err.Error()
		return nil
	}
	var lines [][]byte
	if data.Transcript, lines, err = newTranscript(t, base+data.tabPath(), base, q); err != nil {
		return err
	}
	var before []byte
	if data.Transcript.From > 1 {
		first, err := t.Lines(1, 1)
		if err != nil {
			return err
		}
		before = first[0]
	}
	return v.talkOf(data, lines, before)
}

// tabPath is what the address of the tab adds to that of the case.
func (d *caseData) tabPath() string {
	for _, t := range caseTabs {
		if t.name == d.Tab {
			return t.path
		}
	}
	return ""
}

// talkOf tells the window as a conversation, where that tab is open. Lines that cannot be
// read as events are shown on the other tab, as they are.
func (v *Viewer) talkOf(data *caseData, lines [][]byte, before []byte) (err error) {
	if data.Tab != caseTabs[0].name {
		return nil
	}
	if data.Talk, err = v.newTalk(data, lines, before); err != nil {
		data.Untold, err = err.Error(), nil
		return err
	}
	for i := range data.Transcript.Turns {
		t := &data.Transcript.Turns[i]
		if t.InWindow {
			t.Items = data.Talk.outlineItems(t.N)
		}
	}
	return nil
}

// evidenceOf adds what the record names, and what the agent left.
func (v *Viewer) evidenceOf(data *caseData, base string) error {
	files, err := data.Case.Files()
	if err != nil {
		return nil // the page says that it is not at hand
	}
	if data.Input, err = v.inputOf(files); err != nil {
		return err
	}
	add := func(what string, d interface{ String() string }) {
		data.Files = append(data.Files, evidenceFile{what, d.String(), base + "/piece/" + d.String() + with(url.Values{}, "repeat", strconv.Itoa(int(data.Case.Repeat)))})
	}
	data.kept = make(map[string]bool)
	for _, d := range files.All() {
		data.kept[d.String()] = true
	}
	add("index of the evidence", data.Case.Evidence[0])
	add("trajectory", files.Trajectory.Digest)
	if files.Answer != nil {
		add("answer", *files.Answer)
	}
	if files.Grading != nil {
		add("what was compared", *files.Grading)
		v.gradingOf(data, files.Grading.String())
	}
	if files.Plan != nil {
		add("plan", *files.Plan)
	}
	if files.TestLog != nil {
		add("test log", *files.TestLog)
	}
	if files.Recording != nil {
		add("recording", *files.Recording)
	}
	if files.Watch != nil {
		add("what was watched", *files.Watch)
	}
	if r := files.Rubric; r != nil {
		add("what the rubric was given", r.Input)
		add("what the rubric wrote", r.Output)
		if r.Stderr != nil {
			add("its standard error", *r.Stderr)
		}
	}
	for _, x := range files.Verdicts {
		add("verdict of a judge", x.Document)
	}
	if files.Diff != nil {
		add("diff of the folder", *files.Diff)
		if text, err := v.r.Piece(*files.Diff); err == nil {
			data.diffText = string(text)
			data.Diff, data.DiffCut = diffLines(data.diffText)
			data.DiffURL = data.PieceURL(files.Diff.String())
		}
	}
	if files.Folder != nil {
		v.changedFiles(data, files.Folder)
	}
	return nil
}

// InputAt is the event of the conversation that says what the case was asked; 0 if this
// window of it does not have it.
func (d *caseData) InputAt() int {
	if d.Talk == nil || d.Transcript.From > 1 {
		return 0
	}
	for _, t := range d.Talk.Turns {
		for i := range t.Items {
			if s := t.Items[i].Speech; s != nil && s.Role == conversation.User {
				return t.Items[i].Seq()
			}
		}
	}
	return 0
}

// gradingOf takes the document that the table of checks is made of, so that a browser
// can compare the two.
func (v *Viewer) gradingOf(data *caseData, name string) {
	d, err := digest.ParseContent(name)
	if err != nil {
		return
	}
	piece, err := v.r.Piece(d)
	if err != nil {
		return
	}
	doc, err := decode(piece)
	if err == nil {
		data.grading, data.GradingURL = doc, data.PieceURL(name)
	}
}

// matchGrading drops the document if it is not that of the checks that are shown.
func (d *caseData) matchGrading() {
	checks, _ := at(d.grading, "/checks")
	if list, ok := checks.([]any); !ok || len(list) != len(d.Why.Checks) || d.Why.HeldOut {
		d.grading, d.GradingURL = nil, ""
	}
}

// Check shows a text of a check; where it stands in the document of all checks is said
// if the document has the same.
func (d *caseData) Check(i int, member string, as Format, text string) template.HTML {
	pointer := fmt.Sprintf("/checks/%d/%s", i, member)
	if own, ok := shown(d.grading, pointer, as); ok && own == text {
		return eventValue(d.grading, pointer, as)
	}
	return template.HTML(template.HTMLEscapeString(text))
}

// Breakdown are the parts of the score, by name; none if there is one part only.
func (d *caseData) Breakdown() []string {
	v, _ := at(d.Record.body, "/score/breakdown")
	parts, _ := v.(map[string]any)
	if len(parts) < 2 {
		return nil
	}
	return slices.Sorted(maps.Keys(parts))
}

// Part shows a part of the score.
func (d *caseData) Part(name string) template.HTML {
	return d.Record.Val("/score/breakdown/"+escapePointer(name), AsNumber)
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// maxChanged bounds the list of changed files.
const maxChanged = 200

func (v *Viewer) changedFiles(data *caseData, folder *evidence.FolderFiles) {
	for _, f := range folder.Changed[:min(len(folder.Changed), maxChanged)] {
		c := changedFile{Path: f.Path, How: "deleted"}
		switch {
		case f.Folder:
			c.How = "folder"
		case f.Link != "":
			c.How = "link to " + f.Link
		case f.Digest != nil:
			c.How = "written"
			piece, err := v.r.Piece(*f.Digest)
			c.Image = err == nil && imageType(piece) != ""
			c.URL = data.PieceURL(f.Digest.String())
			if c.Image {
				c.URL = "/blob/" + f.Digest.String() + "?attempt=" + url.QueryEscape(data.Case.Dossier().ID) + "&case=" + url.QueryEscape(data.Case.ID) + "&repeat=" + strconv.Itoa(int(data.Case.Repeat))
			}
		}
		data.Changed = append(data.Changed, c)
	}
}

// A diffLine is a line of a diff and its class in the stylesheet.
type diffLine struct{ Class, Text string }

// maxDiffLines bounds a diff on a page.
const maxDiffLines = 2000

// diffLines are those of a diff, and whether something of it was left out.
func diffLines(text string) (out []diffLine, cut bool) {
	for line := range strings.Lines(text) {
		if len(out) == maxDiffLines {
			return out, true
		}
		line = strings.TrimSuffix(line, "\n")
		cut = cut || tooLong(line)
		class := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			class = "plus"
		case strings.HasPrefix(line, "-"):
			class = "minus"
		}
		out = append(out, diffLine{class, Text(line)})
	}
	return out, cut
}

// Head is the beginning of a content that was compared.
func (caseData) Head(c *trajectory.Content) string {
	if c == nil {
		return none
	}
	return Text(c.Head)
}

// Cut reports whether a page has less of a content than there was.
func (caseData) Cut(c *trajectory.Content) bool {
	return c != nil && (c.Truncated || tooLong(c.Head))
}

// Rest is where the whole of a text is read, by its digest; "" if it was not kept.
func (d *caseData) Rest(digest any) string {
	name := fmt.Sprint(digest)
	if !d.kept[name] {
		return ""
	}
	return d.PieceURL(name)
}

// A cutText is what a page says of a text that it shows the beginning of.
type cutText struct {
	Bytes     int64
	URL, Link string
}

// CutOf is that of a content that was compared.
func (d *caseData) CutOf(c *trajectory.Content) cutText {
	return cutText{c.Bytes, d.Rest(c.Digest), "The whole text"}
}

// CutAt is that of a text of an event. What the event has in full is read there.
func (d *caseData) CutAt(s said, t *transcript, seq int) cutText {
	if whole := d.Rest(s.Digest); whole != "" || s.Digest != "" {
		return cutText{s.Bytes, whole, "The whole text"}
	}
	return cutText{s.Bytes, t.LineURL(seq), "The event as it was recorded"}
}

// LineURL is where an event is read as it was hashed.
func (s *transcript) LineURL(seq int) string {
	u, _ := url.Parse(s.Address) // we made it
	q := u.Query()
	q.Set("from", strconv.Itoa(seq))
	q.Set("n", "1")
	u.RawQuery = q.Encode()
	return u.String()
}

// State is the class of a check's outcome in the stylesheet.
func (caseData) State(o grade.Outcome) string {
	if o == grade.Passed {
		return "passed"
	}
	return "failed"
}

// IndexURL is where the piece is read that the record names first.
func (d *caseData) IndexURL() string { return d.PieceURL(d.Case.Evidence[0].String()) }

// PieceURL is where a piece of the evidence is read.
func (d *caseData) PieceURL(name string) string {
	return address("attempt", d.Case.Dossier().ID, "case", d.Case.ID, "piece", name) + with(url.Values{}, "repeat", strconv.Itoa(int(d.Case.Repeat)))
}

// ShortHead is the head of the trajectory with its end left out.
func (s *transcript) ShortHead() string { return s.Head[:min(len(s.Head), 17)] + "…" }
