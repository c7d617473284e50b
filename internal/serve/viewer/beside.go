package viewer

import (
	"html"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/read/history"
)

// A beside is the case beside the list of its attempt: the content of its own page, and
// the way to the cases before and after it in the list. The page with both is sent, signed
// and checked as a whole, like every other: another case is another page.
type beside struct {
	Content      template.HTML
	ID           string
	Repeat       int
	URL          string // its own page
	CloseURL     string // the list without it
	Before, Next string // addresses; "" at the ends of the list
	N, Of        int    // its number in the list; 0 if it is not in it

	at int // its place in the list; -1 if it is not in it
}

// besides draws the case that an address chooses. What the address says besides the list
// is for the page of the case.
func (v *Viewer) besides(p *page, a *history.Attempt, cases []placed, req *http.Request) (*beside, error) {
	q := req.URL.Query()
	repeat, _ := strconv.Atoi(q.Get("repeat"))
	x := &beside{ID: q.Get("show"), Repeat: max(repeat, 1), Of: len(cases)}
	x.URL, x.CloseURL = caseURL(a.ID, x.ID, x.Repeat), with(q, "show", "", "repeat", "")+"#cases"
	x.at = slices.IndexFunc(cases, func(c placed) bool { return c.ID == x.ID && int(c.Repeat) == x.Repeat && c.Index >= 0 })
	if x.at >= 0 {
		x.N = x.at + 1
	}
	for k := x.at - 1; k >= 0 && x.Before == ""; k-- {
		if cases[k].Index >= 0 {
			x.Before = v.besideURL(a, cases[k].Case, q)
		}
	}
	for k := x.at + 1; k < len(cases) && x.Next == ""; k++ {
		if cases[k].Index >= 0 {
			x.Next = v.besideURL(a, cases[k].Case, q)
		}
	}
	own := req.Clone(req.Context())
	own.SetPathValue("case", x.ID)
	own.URL = &url.URL{Path: address("attempt", a.ID, "case", x.ID)}
	asked := url.Values{}
	for key, values := range q {
		if !slices.Contains(listKeys, key) {
			asked[key] = values
		}
	}
	own.URL.RawQuery = asked.Encode()
	one, err := v.contentOf(own)
	if err != nil {
		return nil, err
	}
	if one.live {
		p.Live = req.URL.RequestURI()
	}
	p.Next = append(slices.Clone(one.next), p.Next...)
	x.Content = insideOf(one.html, own.URL, a.ID, q)
	return x, nil
}

// A caseContent is the content of the page of a case, as that page draws it.
type caseContent struct {
	html template.HTML
	next []command
	live bool // its transcript is still checked
}

// maxCasesBeside bounds the contents that are remembered, and maxBesideBytes each of them.
const (
	maxCasesBeside = 32
	maxBesideBytes = 256 << 10
)

// contentOf draws the page of a case again if the ledger has grown, and while its
// transcript is checked.
func (v *Viewer) contentOf(own *http.Request) (*caseContent, error) {
	known, _ := remembered(v, "cases beside lists", func() (*recent[*caseContent], error) { return &recent[*caseContent]{}, nil })
	name := own.URL.RequestURI()
	one, err := known.of(name, maxCasesBeside, func() (*caseContent, error) {
		p, err := v.caseOf(own)
		if err != nil {
			return nil, err
		}
		html, err := drawn(p.Template, "content", p)
		return &caseContent{html, p.Next, p.Live != ""}, err
	})
	if err == nil && (one.live || len(one.html) > maxBesideBytes) {
		known.forget(name)
	}
	return one, err
}

var linkAttribute = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` href="[^"]*"`) })

// insideOf leads the links of a case's page to itself, or to other cases of the attempt,
// to the same beside the list: what tabs and windows choose stays where the reader is.
// Texts have no quotes of their own, so what matches is an attribute.
func insideOf(content template.HTML, own *url.URL, attempt string, q url.Values) template.HTML {
	cases := address("attempt", attempt, "case") + "/"
	return template.HTML(linkAttribute().ReplaceAllStringFunc(string(content), func(link string) string {
		ref := html.UnescapeString(link[len(` href="`) : len(link)-1])
		to, err := own.Parse(ref)
		if err != nil || to.Host != "" || strings.HasPrefix(ref, "#") {
			return link
		}
		name, of := strings.CutPrefix(to.EscapedPath(), cases)
		id, err := url.PathUnescape(name)
		if !of || err != nil || strings.Contains(name, "/") {
			return link
		}
		list := listOf(q)
		for key, values := range to.Query() {
			if slices.Contains(listKeys, key) { // it means something else there
				return ` href="` + template.HTMLEscapeString(to.String()) + `"`
			}
			list[key] = values
		}
		list.Set("show", id)
		place := to.EscapedFragment()
		if place == "" {
			place = "split"
		}
		return ` href="` + template.HTMLEscapeString(attemptURL(attempt)+"?"+list.Encode()+"#"+place) + `"`
	}))
}
