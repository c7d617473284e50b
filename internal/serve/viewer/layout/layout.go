// Package layout is what every page of ours is made of: one frame, one stylesheet,
// the keys, the ways in which values become text, and the policy under which a
// browser shows it. The viewer of a workspace and the registry share it, so that
// the same script checks both.
package layout

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"tallystick/internal/share/browser"
)

//go:embed layout.html *.css *.js
var files embed.FS

// A look is a stylesheet or a script, and the pages that load it.
type look struct {
	file  string
	pages []string // their templates; none for every page
}

// looks are applied in this order. What is for one page only has a file and a line of its
// own here, so that no page waits for what another one needs.
var looks = []look{
	{"style.css", nil},
	{"check.css", nil},
	{"keys.js", nil},
	{"overview.css", []string{"overview", "attempts", "attempt", "matrix", "corpus", "class", "corpus_case", "judges"}},
	{"compare.css", []string{"compare", "golden", "case", "attempt", "imported_compare"}},
	{"compare.js", []string{"compare"}},
	{"review.css", []string{"review", "review_queue", "review_case", "review_draft", "review_job"}},
	{"attempt.css", []string{"attempt"}},
	{"case.css", []string{"attempt", "case"}},
	{"case.js", []string{"attempt", "case"}},
}

// Policy lets a page load its own server's files and nothing else.
const Policy = filePolicy + "; frame-ancestors 'none'"

// filePolicy is what of it a page can say of itself.
const filePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'"

// A Page is what the frame shows around the content.
type Page struct {
	Title    string
	Template string // of the content, without .html
	Status   int    // 0 for 200
	Section  string // of the navigation
	Crumbs   []Link
	Acts     []Link // what a person can do with what the page is about
	Next     []Command
	Alarm    string // what does not verify
	Form     bool   // it has a form that changes something
	Bare     bool   // it is the door: there is nothing to check yet, and nowhere to go
	Outside  bool   // nothing that it shows is in the ledger, so there is nothing to check
	Live     string // address of the part that is asked for again while an attempt runs
	Data     any

	Origin   string // of the ledger
	Sections []Link // the navigation
	Rest     []Link // what of it stands behind one word
	Home     string // where the name at the top leads
	Assets   string // where stylesheet and scripts are; what the scripts ask is beside that folder
	Still    bool   // the page is written to a file, where no server answers
	Signed   string // what proves that a key of the ledger signed the whole page: see [SiteSigned]
}

// SiteSigned is what a page of a site of files says of its signature: the list of the
// files has it.
const SiteSigned = "site.json"

// Policy is the content policy of a page that no server sends headers with.
func (*Page) Policy() string { return filePolicy }

// RestName is the word that the rest of the navigation stands behind: the section that
// the reader is in, if it is one of them.
func (p *Page) RestName() string {
	for _, l := range p.Rest {
		if l.Text == p.Section {
			return l.Text
		}
	}
	return "More"
}

// Styles are the stylesheets that the page loads.
func (p *Page) Styles() []string { return p.looks(".css") }

// Scripts are the scripts that the page loads, besides the one that checks it.
func (p *Page) Scripts() []string { return p.looks(".js") }

func (p *Page) looks(kind string) []string {
	var names []string
	for _, l := range looks {
		if path.Ext(l.file) == kind && (l.pages == nil || slices.Contains(l.pages, p.Template)) {
			names = append(names, l.file)
		}
	}
	return names
}

// A Link is a text and where it leads.
type Link struct{ Text, URL string }

// A Command is what one would do next, as it is typed into a shell.
type Command struct{ What, Line string }

// functions are what every template may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"text":      browser.Text,
		"line":      browser.Line,
		"number":    browser.Number,
		"percent":   browser.Percent,
		"time":      browser.Time,
		"interval":  Interval,
		"deref":     deref,
		"integrity": integrity,
		"upper":     upper,
	}
}

// integrity names the bytes of a file that a page loads, so that the browser takes no
// other: a page is not what was signed if it looks otherwise.
func integrity(name string) (string, error) {
	a, found := FindAsset(name)
	if !found {
		return "", fmt.Errorf("no file %s", name)
	}
	sum := sha256.Sum256(a.Data)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:]), nil
}

// upper begins a word of ours with a capital.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// deref is what a pointer points to, for templates that have asked whether it does.
func deref(p any) any {
	switch p := p.(type) {
	case *float64:
		return *p
	case *bool:
		return *p
	}
	return p
}

// Parse reads the templates of a folder, each within the frame. They may call more
// functions than those of every page, and use the parts that are named.
func Parse(from fs.FS, folder string, more template.FuncMap, parts ...string) map[string]*template.Template {
	entries, err := fs.ReadDir(from, folder)
	if err != nil {
		panic(err) // it is embedded
	}
	out := make(map[string]*template.Template)
	for _, e := range entries {
		t := template.Must(template.New("layout.html").Funcs(functions()).Funcs(more).ParseFS(files, "layout.html"))
		out[strings.TrimSuffix(e.Name(), ".html")] = template.Must(t.ParseFS(from, append(parts, folder+"/"+e.Name())...))
	}
	return out
}

// Render makes the bytes of a page.
func (p *Page) Render(templates map[string]*template.Template) ([]byte, error) {
	var b bytes.Buffer
	err := templates[p.Template].Execute(&b, p)
	return b.Bytes(), err
}

// An Asset is a file that pages load.
type Asset struct {
	Data []byte
	Type string
	Tag  string // entity tag, quoted
}

// FindAsset finds a stylesheet or script by its name.
func FindAsset(name string) (*Asset, bool) {
	kind := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[path.Ext(name)]
	if kind == "" {
		return nil, false
	}
	data, err := files.ReadFile(name)
	if err != nil { // what checks a page has a package of its own
		data, err = fs.ReadFile(browser.Scripts(), name)
	}
	if err != nil {
		return nil, false
	}
	sum := sha256.Sum256(data)
	return &Asset{data, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}, true
}

// AssetNames are those of all stylesheets and scripts.
func AssetNames() []string {
	var names []string
	for _, from := range []fs.FS{files, browser.Scripts()} {
		for _, pattern := range []string{"*.js", "*.css"} {
			found, _ := fs.Glob(from, pattern) // the patterns are well formed
			names = append(names, found...)
		}
	}
	return names
}

// Shell quotes the words of a command for a POSIX shell.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

func quote(word string) string {
	const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%"
	if word != "" && strings.Trim(word, plainLetters) == "" {
		return word
	}
	// Control characters and what hides would not survive being copied; $'…' does.
	if browser.Line(word) != word {
		var b strings.Builder
		for _, c := range []byte(word) {
			if c < 0x20 || c >= 0x7f || c == '\'' || c == '\\' {
				fmt.Fprintf(&b, `\%03o`, c)
			} else {
				b.WriteByte(c)
			}
		}
		return "$'" + b.String() + "'"
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Address joins the segments of a path, each escaped.
func Address(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// Interval draws a rate with its interval on a scale from 0 to 1. What it shows is
// said in words too.
func Interval(rate float64, bounds [2]float64) template.HTML {
	const width = 120.0
	x := func(v float64) float64 { return 2 + min(max(v, 0), 1)*(width-4) }
	return template.HTML(fmt.Sprintf(`<svg class="interval" width="120" height="12" viewBox="0 0 120 12" role="img" aria-label="%s, between %s and %s at 95 percent">`+
		`<line class="scale" x1="2" y1="6" x2="118" y2="6"/><line class="range" x1="%.1f" y1="6" x2="%.1f" y2="6"/><circle class="rate" cx="%.1f" cy="6" r="3.5"/></svg>`,
		browser.Percent(rate), browser.Percent(bounds[0]), browser.Percent(bounds[1]), x(bounds[0]), x(bounds[1]), x(rate)))
}
