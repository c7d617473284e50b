package browser

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tallystick/internal/share/browser/markup"
)

// What package markup does not show, the script lets it hide, and no more: a cell in which
// a word is hidden is not what was recorded, whatever its text content.
func TestTheScriptLetsMarksBeHiddenAndNothingElse(t *testing.T) {
	r := startNode(t)
	var texts []string
	if err := json.Unmarshal(read(t, "markup", "testdata", "texts.json"), &texts); err != nil || len(texts) < 40 {
		t.Fatal(len(texts), err)
	}
	hidden := 0
	for _, text := range texts {
		for _, out := range []string{markup.Prose(Text(text)), markup.Output(Text(text))} {
			nodes, err := html.ParseFragment(strings.NewReader(out), &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
			if err != nil {
				t.Fatal(err)
			}
			before := ""
			var walk func(n *html.Node)
			walk = func(n *html.Node) {
				if n.Type == html.TextNode {
					before += n.Data
				}
				for _, a := range n.Attr {
					if a.Val == "md" || a.Val == "bullet" || a.Val == "rule" || a.Val == "nl" {
						hidden++
						r.want(true, question{"op": "hide", "name": a.Val, "value": n.FirstChild.Data, "before": before, "data": text})
					}
				}
				for c := n.FirstChild; c != nil; c = c.NextSibling {
					walk(c)
				}
			}
			for _, n := range nodes {
				walk(n)
			}
		}
	}
	if hidden < 100 {
		t.Errorf("only %d marks were looked at", hidden)
	}
	for _, q := range []question{{"name": "md", "value": "not"}, {"name": "md", "value": "-"}, {"name": "md", "value": "-", "before": "x\n"}, {"name": "md", "value": "1"}, {"name": "md", "value": "# ", "before": "a"}, {"name": "md", "value": "> ", "before": "5 "},
		{"name": "bullet", "value": "- ", "before": "5 "}, {"name": "bullet", "value": "-"}, {"name": "bullet", "value": "-5 "}, {"name": "rule", "value": "--"}, {"name": "rule", "value": "---", "before": "a"}, {"name": "md", "value": "***"}, {"name": "md", "value": "** **x"}, {"name": "md", "value": "é"}, {"name": "md", "value": "$"}, {"name": "nl", "value": "n"}, {"name": "nl", "value": ""}} {
		if q["op"] = "hide"; q["before"] == nil {
			q["before"] = ""
		}
		r.want(false, q)
	}
}
