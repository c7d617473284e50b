package viewer

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/evidence"
)

type ledgerData struct {
	Health health
	Kind   string
	Rows   []*entry
	Pager  pager
}

// entriesOnPage is how many entries a page of the ledger lists.
const entriesOnPage = 100

func (v *Viewer) ledger(req *http.Request) (*page, error) {
	q := req.URL.Query()
	data := &ledgerData{Health: v.health()}
	n := int(v.r.History.Entries)
	data.Pager = newPager(q, n, entriesOnPage)
	var indexes []int64
	for i := data.Pager.from; i < data.Pager.to; i++ {
		indexes = append(indexes, int64(n-1-i))
	}
	entries, err := v.entries(indexes...)
	if err != nil {
		return nil, err
	}
	for _, i := range indexes {
		data.Rows = append(data.Rows, entries[i])
	}
	return &page{Title: "Ledger", Template: "ledger", Section: "Ledger", Data: data,
		Next: []command{{What: "Verify it again", Line: "tally ledger verify"}, {What: "Publish its head", Line: "tally ledger anchor publish"}}}, nil
}

// About says in a few values what an entry is about.
func (e *entry) About() []string {
	var out []string
	for _, name := range []string{"attempt", "class", "case_id", "outcome", "name", "detail", "entry", "recommended_tier"} {
		if text, ok := shown(e.body, "/"+name, AsText); ok && len(out) < 3 {
			if r := []rune(text); len(r) > 90 {
				text = string(r[:90]) + "…"
			}
			out = append(out, Line(text))
		}
	}
	return out
}

type entryData struct {
	*entry
	Size          int64
	Head, Prev    string
	Content       string
	Before, After *entry
	Receipt       string
	Key           string
	Pretty        string
	Fields        []string // pointers of its members that are plain values
	Related       []link
	Withheld      string
}

func (v *Viewer) ledgerEntry(req *http.Request) (*page, error) {
	index, err := v.index(req)
	if err != nil {
		return nil, err
	}
	n := v.r.History.Entries
	indexes := []int64{index}
	for _, i := range []int64{index - 1, index + 1} {
		if i >= 0 && i < n {
			indexes = append(indexes, i)
		}
	}
	all, err := v.entries(indexes...)
	if err != nil {
		return nil, err
	}
	proofs, key, err := v.r.Prove(index)
	if err != nil {
		return nil, err
	}
	at := proofs[index].Position
	data := &entryData{entry: all[index], Size: n, Head: at.Head.String(), Prev: at.Prev.String(), Content: at.Content.String(), Before: all[index-1], After: all[index+1], Key: key}
	if err := v.mayLeave(index); err != nil {
		data.Withheld = err.Error()
	} else {
		receipt, err := proofs[index].Receipt().Marshal()
		if err != nil {
			return nil, err
		}
		data.Receipt, data.Pretty, data.Fields = string(receipt), pretty(data.Raw), plainMembers(data.body)
	}
	data.Related = v.related(data.entry)
	name := strconv.FormatInt(index, 10)
	return &page{Title: "Entry " + name, Template: "entry", Section: "Ledger", Data: data, Crumbs: []link{{Text: "Ledger", URL: "/ledger"}, {Text: "Entry " + name, URL: ""}},
		Next: []command{{What: "The same in the terminal", Line: shell("tally", "ledger", "show", name)}, {What: "A receipt for a stranger", Line: shell("tally", "ledger", "prove", name, "-o", "entry-"+name+".receipt")}}}, nil
}

// plainMembers are the members of a body whose values are shown one by one.
func plainMembers(body any) []string {
	object, _ := body.(map[string]any)
	var out []string
	for name := range object {
		pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if text, ok := shown(body, pointer, AsText); ok && len(text) < 400 {
			out = append(out, pointer)
		}
	}
	slices.Sort(out)
	return out
}

// Name is the member that a pointer names.
func (*entryData) Name(pointer string) string { return words(pointer[1:]) }

// related are the pages about the same thing.
func (v *Viewer) related(e *entry) []link {
	var out []link
	attempt, _ := shown(e.body, "/attempt", AsText)
	caseID, isCase := shown(e.body, "/case_id", AsText)
	if a := v.r.History.Attempt(attempt); a != nil {
		out = append(out, link{Text: a.ID, URL: attemptURL(a.ID)})
		if isCase && e.Kind == evidence.CaseScoredKind {
			repeat, _ := shown(e.body, "/repeat", AsText)
			n, _ := strconv.Atoi(repeat)
			out = append(out, link{Text: caseID, URL: caseURL(a.ID, caseID, n)})
		}
	}
	if class, ok := shown(e.body, "/class", AsText); ok {
		out = append(out, link{Text: class, URL: address("corpus", class)})
	}
	if n, ok := shown(e.body, "/entry", AsText); ok {
		out = append(out, link{Text: "entry " + n, URL: "/ledger/" + url.PathEscape(n)})
	}
	return out
}
