// Package markup makes texts of agents and tools pleasant to read, as HTML in which
// nothing is lost: the text content of what it makes is the text that it was given, to
// the last character.
//
// What Markdown takes for a mark ("**", "## ", "|") is not removed. It stands in an
// element that the stylesheet does not show, and JSON gets its lines and indents from
// elements, not from white space. So a script that compares the text content of an
// element with what was recorded (data-as="text") needs not know Markdown, and a page
// that says another word than the record is caught.
//
// The output has the elements of [Tags], with one attribute: class, with one of
// [Classes]. There are no links, no images and no addresses that a browser would load:
// the address of a link is text. The text must have been made visible before, as
// [tallystick/internal/share/browser.Text] does.
package markup

import (
	"html"
	"strings"
)

// Tags are the elements that are made, and "ins", which only comparisons have. markup.js has
// the same list.
var Tags = []string{"p", "span", "strong", "em", "del", "ins", "code", "ul", "li", "blockquote", "div", "table", "thead", "tbody", "tr", "th", "td"}

// Classes are the classes of the elements.
var Classes = []string{
	"md",                      // a mark, not shown
	"rule", "bullet", "level", // a line across, a bullet, the deeper levels of a list
	"level2", "level3",
	"h1", "h2", "h3", // headings
	"fence", "lang", "block", // code with its language
	"sheet",       // what a table scrolls in
	"link", "url", // the words of a link, and its address
	"ji", "jc", "nl", // JSON: a member in a line of its own; a colon or comma that a space follows; an escaped line feed
	"tk", "ts", "tn", "tm", "tl", // keyword or name, string, number, comment, literal
	"plus", "minus", // lines of a diff
}

// A writer puts elements together. Texts are escaped, and nothing else is written but
// elements of the lists above.
type writer struct{ strings.Builder }

func (w *writer) text(s string) { w.WriteString(html.EscapeString(s)) }

func (w *writer) open(tag, class string) {
	w.WriteString("<" + tag)
	if class != "" {
		w.WriteString(` class="` + class + `"`)
	}
	w.WriteString(">")
}

func (w *writer) close(tag string) { w.WriteString("</" + tag + ">") }

// in writes a text in an element; nothing of no text.
func (w *writer) in(tag, class, text string) {
	if text == "" {
		return
	}
	w.open(tag, class)
	w.text(text)
	w.close(tag)
}

// mark writes what is not shown.
func (w *writer) mark(s string) { w.in("span", "md", s) }

// Plain is the text as it is.
func Plain(text string) string { return html.EscapeString(text) }

// Output is what a tool gave: JSON, a diff, or a text as it is.
func Output(text string) string {
	switch {
	case looksLikeJSON(text):
		return JSON(text)
	case looksLikeDiff(text):
		return Code(text, "diff")
	}
	return Plain(text)
}

func looksLikeDiff(text string) bool {
	return (strings.HasPrefix(text, "diff ") || strings.HasPrefix(text, "--- ")) && strings.Contains(text, "\n+++ ") && strings.Contains(text, "\n@@ ")
}

// Argument is the text of an argument of a tool, as its name tells what it is.
func Argument(tool, name, text string) string {
	if looksLikeJSON(text) {
		return JSON(text)
	}
	return Code(text, languageOf(strings.ToLower(tool), strings.ToLower(name), text))
}

// languageOf guesses the language of an argument by names that tools give it.
func languageOf(tool, name, text string) string {
	switch {
	case name == "sql" || name == "query" && strings.Contains(tool, "sql"):
		return "sql"
	case name == "cmd" || name == "command" || name == "bash" || name == "shell":
		return "sh"
	case name == "code" || name == "script" || name == "source":
		if strings.Contains(tool, "bash") || strings.Contains(tool, "shell") || strings.HasPrefix(text, "#!/bin/") {
			return "sh"
		}
		if strings.Contains(tool, "js") || strings.Contains(tool, "javascript") || strings.Contains(tool, "node") {
			return "js"
		}
		return "python"
	case name == "patch" || name == "diff" || looksLikeDiff(text):
		return "diff"
	}
	return ""
}
