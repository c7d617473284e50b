package markup

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// renderers are all that makes HTML of a text.
var renderers = map[string]func(string) string{
	"prose": Prose, "json": JSON, "output": Output, "plain": Plain,
	"argument": func(s string) string { return Argument("bash_session", "command", s) },
	"python":   func(s string) string { return Code(s, "python") }, "go": func(s string) string { return Code(s, "go") },
	"sql": func(s string) string { return Code(s, "sql") }, "sh": func(s string) string { return Code(s, "sh") }, "js": func(s string) string { return Code(s, "ts") },
	"diff": func(s string) string { return Code(s, "diff") }, "unknown": func(s string) string { return Code(s, "brainfuck") },
}

// problem says what is wrong with the rendering of a text, as a browser parses it: an
// element or an attribute that is not of ours, or a character more or less than the text.
func problem(text, out string) string {
	doc, err := html.ParseFragment(strings.NewReader("<div>"+out+"</div>"), &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
	if err != nil {
		return err.Error()
	}
	var said strings.Builder
	var wrong string
	var walk func(n *html.Node, top bool)
	walk = func(n *html.Node, top bool) {
		switch n.Type {
		case html.TextNode:
			said.WriteString(n.Data)
		case html.ElementNode:
			if !top && !slices.Contains(Tags, n.Data) {
				wrong = "an element " + n.Data
			}
			for _, a := range n.Attr {
				if a.Key != "class" || !slices.Contains(Classes, a.Val) {
					wrong = fmt.Sprintf("an attribute %s=%q", a.Key, a.Val)
				}
			}
		default:
			wrong = "a node that is neither an element nor a text"
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, false)
		}
	}
	if len(doc) != 1 {
		return fmt.Sprintf("it leaves the element that it stands in: %d elements", len(doc))
	}
	walk(doc[0], true)
	if wrong == "" && said.String() != text {
		wrong = fmt.Sprintf("the text is %q", said.String())
	}
	return wrong
}

// clean is a text as it comes here: what steers a browser's parser is spelled out.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// hostile are texts that an agent might say: those of testdata/texts.json, with which
// package browser tests the script too, and long ones.
var hostile = func() (texts []string) {
	data, err := os.ReadFile("testdata/texts.json")
	if err == nil {
		err = json.Unmarshal(data, &texts)
	}
	if err != nil {
		panic(err)
	}
	return append(texts, strings.Repeat("*a ", 2000), strings.Repeat("[", 4000), strings.Repeat("`", 4001), strings.Repeat("> ", 2000), strings.Repeat("**_", 1300),
		strings.Repeat(`{"a":`, 800), `{"k":"`+strings.Repeat("x", 3000)+`"}`, strings.Repeat("|", 4000), strings.Repeat("- ", 2000), strings.Repeat("a|\n-|\n", 600))
}()

func TestNothingOfATextIsLostOrAdded(t *testing.T) {
	for name, render := range renderers {
		for _, text := range hostile {
			if text = clean(text); name == "plain" && strings.HasPrefix(text, "\n") {
				continue
			}
			if p := problem(text, render(text)); p != "" {
				t.Errorf("%s of %.200q: %s\n%.600s", name, text, p, render(text))
			}
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 20_000 {
			t.Skip()
		}
		text = clean(text)
		for name, render := range renderers {
			if p := problem(text, render(text)); p != "" {
				t.Errorf("%s of %q: %s\n%s", name, text, p, render(text))
			}
		}
	})
}

func TestMarkdownIsShownAsItIsMeant(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"# T\n", `<strong class="h1"><span class="md"># </span>T` + "\n</strong>"},
		{"a **b** c", `<p>a <span class="md">**</span><strong>b</strong><span class="md">**</span> c</p>`},
		{"a_b_c", `<p>a_b_c</p>`},
		{"2 * 3 * 4", `<p>2 * 3 * 4</p>`},
		{"[a](http://b)", `<p><span class="md">[</span><span class="link">a</span><span class="md">]</span><span class="url">(http://b)</span></p>`},
		{"- a\n- b", `<ul><li><span class="bullet">- </span>a` + "\n" + `</li><li><span class="bullet">- </span>b</li></ul>`},
		{"1. a", `<ul><li>1. a</li></ul>`},
		{"> q", `<blockquote><span class="md">&gt; </span>q</blockquote>`},
		{"a|b\n-|-\n1|2", `<div class="sheet"><table><thead><tr><th>a</th><th><span class="md">|</span>b<span class="md">` + "\n" + `</span><span class="md">-|-` + "\n" + `</span></th></tr></thead><tbody><tr><td>1</td><td><span class="md">|</span>2</td></tr></tbody></table></div>`},
		{"```py\nreturn 1\n```", `<div class="fence"><span class="md">` + "```" + `</span><span class="lang">py</span><span class="md">` + "\n" + `</span><code class="block"><span class="tk">return</span> <span class="tn">1</span>` + "\n" + `</code><span class="md">` + "```" + `</span></div>`},
	} {
		if got := Prose(tt.text); got != tt.want {
			t.Errorf("%q\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
	if got := JSON(`{"a":[true,{"b":-1}]}`); strings.Count(got, `<span class="ji">`) != 3 || !strings.Contains(got, `<span class="tk">&#34;a&#34;</span><span class="jc">:</span>`) {
		t.Errorf("JSON: %s", got)
	}
}

// What makes a text larger is bounded: a page of hostile texts must not be a hundred times
// what was recorded.
func TestTheOutputIsBounded(t *testing.T) {
	for name, render := range renderers {
		for _, text := range hostile {
			if out := render(clean(text)); len(out) > 45*len(text)+200 {
				t.Errorf("%s makes %d bytes of %d: %.100q", name, len(out), len(text), text)
			}
		}
	}
}

func TestBigJSONStaysJSON(t *testing.T) {
	data, _ := json.Marshal(map[string]any{"list": []any{map[string]any{"a": "b"}, 1.5, nil}, "text": "a\nb"})
	if p := problem(string(data), Output(string(data))); p != "" || !strings.Contains(Output(string(data)), `class="ji"`) {
		t.Error(p)
	}
}

// The script knows the same lists.
func TestTheScriptKnowsTheSameElements(t *testing.T) {
	script, err := os.ReadFile("../markup.js")
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]string{"MARKUP_TAGS": Tags, "MARKUP_CLASSES": Classes} {
		if want := "const " + name + ` = ["` + strings.Join(list, `", "`) + `"];`; !strings.Contains(string(script), want) {
			t.Errorf("markup.js does not say %s", want)
		}
	}
}
