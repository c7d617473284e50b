package structure

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// A wording is a way to write that has to be read twice, above all by a reader
// whose first language is not English.
type wording struct {
	bad     *regexp.Regexp
	fine    *regexp.Regexp // what bad finds too and is good English; nil for nothing
	instead string
}

// wordings are the patterns that trials with newcomers stumbled over. Each has
// few false alarms: a test that cries wolf gets a list of exceptions, not better
// sentences.
var wordings = []wording{
	{find(`(?:\w+\s+)?\b(?:is|are|was|were)\s+no\s+\w+(?:\s+\w+)?`),
		find(`(?i)^there\s|\sno\s+(?:longer|more\s+than|less\s+than|fewer\s+than|later\s+than|earlier\s+than)\b`),
		`"is not a X", or say what it is`},
	{find(`(?i)\b(?:go|goes|gone|going|went)\s+on\s+with\b`), nil, `"resume", "continue"`},
	{find(`\bof\s+then\b`), nil, `name the time: "as it was at that entry"`},
	{find(`(?:\w+\s+)?\b(?:is|are)\s+none\b`), find(`(?i)^(?:there|but|if|or|and)\s`), `"is not a X", "is not one of X": name the noun`},
	{find(`(?i)\basked\s+wrongly\b`), nil, `"usage error"`},
	{find(`\b(?:a|an|no)\s+\w+\s+of\s+nothing\b`), find(`of\s+nothing\s+but`), `say what is missing: "no case ran, so there is nothing to bundle"`},
	{find(`(?:\b1|%d)\s+people\b`), nil, `"1 person", "2 people": count with the singular`},
	{find(`(?:\w+\s+)?\b(?:is|are)\s+nothing\s+(?:that|which)\b`), find(`(?i)^there\s`), `"is not a X"`},
	{find(`\bcontinues?\s+past\s+an?\b`), nil, `"overrides"`},
	{find(`\(default:\s+if\b`), nil, `"(default: X, if Y)": say the value first`},
	{find(`\b(?:with|for|of|to|by|in|on|at|from),?\s+and\s+(?:with|for|of|to|by|in|on|at|from)(?:[.;:)]|\s*$)`), nil, `give each preposition its noun`},
}

// recorded are texts that sealed records hold or that a record is compared
// with: to change one would change what old evidence says about itself.
var recorded = []string{
	"timestamp that is none", " that is no count", " that is no amount of dollars", // notes of an import
	"cost that is no amount of dollars",
	"%s is no JSON: %.400s", "the expression gave %v, which is no number", // details of a check
	"%s is no JSON", "%s is no unit that is known", "%s is no number", "%s is none of %s",
	"it replayed %s, planned was no cassette",
	"%d replies were no verdict, the last because %v",                                          // why a case is unscored
	"only some cases of the class were selected: a rate over a choice is no rate of the split", // in a submission
	"A tool from outside whose own description nobody has read.",                               // what a model was told
	"its description or schema has characters that nobody can see",                             // events and details of checks
	"two names differ only in characters that nobody sees: %.80q",
	"%s was in it, and %d such in all, and nobody can read that safely",
	"there may be tool calls that nobody saw: ", "there may be tool calls that nobody saw: %s",
	"the agent runs elsewhere, behind a URL: nobody here sees its program",
	"the agent keeps this in its own process and tells nobody",
	"it is somebody else's log: no policy of ours was asked", "it is somebody else's log: the files are not at hand",
	"it is somebody else's log, which tells what its writer chose to",
	"root:x:0:0:agent:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", // the user of that name
}

// roleless are words that leave the reader to guess who is meant: the operator,
// a signer, another process. Sealed texts keep theirs: see recorded.
var roleless = find(`(?i)\b(?:(?:some|any|no)body|(?:some|any)one|whoever)\b`)

// nameRoles are the folders whose texts name the role.
var nameRoles = []string{"internal/record/", "internal/run/", "internal/cli/"}

func find(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

// badWords lists the bad wordings of a text: where each begins and what is wrong.
func badWords(text string) (at []int, problems []string) {
	for _, w := range wordings {
		for _, hit := range w.bad.FindAllStringIndex(text, -1) {
			found := text[hit[0]:hit[1]]
			if w.fine != nil && w.fine.MatchString(found) {
				continue
			}
			at = append(at, hit[0])
			problems = append(problems, fmt.Sprintf("%q is hard to read, write %s", strings.Join(strings.Fields(found), " "), w.instead))
		}
	}
	return at, problems
}

// checkWords reads the texts of the program and the hand-written pages. It looks
// at every literal with a space in it, not only at the arguments of refusal.Newf
// and of flags, since most refusals pass through a helper of their package.
func checkWords(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		if f.isTest() || !strings.HasPrefix(f.path, "internal/") && !strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || isRecorded(text) {
				return true
			}
			_, found := badWords(text)
			if word := roleless.FindString(text); word != "" && slices.ContainsFunc(nameRoles, func(dir string) bool { return strings.HasPrefix(f.path, dir) }) {
				found = append(found, fmt.Sprintf("%q names no role, write who is meant: operator, runner, signer, reader, process", word))
			}
			for _, p := range found {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", f.path, f.line(lit), p))
			}
			return true
		})
	}
	for _, name := range treeFiles(t, tree) {
		if !isPage(name) {
			continue
		}
		text := readFile(t, tree, name)
		at, found := badWords(string(text))
		for i, p := range found {
			problems = append(problems, fmt.Sprintf("%s:%d: %s", name, lineAt(text, at[i]), p))
		}
	}
	return problems
}

// isPage tells whether a file is a page for people. The change log is history
// and stays as it was written.
func isPage(name string) bool {
	return strings.HasSuffix(name, ".md") && name != "CHANGELOG.md" && !strings.Contains(name, "testdata/")
}

func isRecorded(text string) bool {
	for _, r := range recorded {
		if text == r {
			return true
		}
	}
	return false
}

func TestTextsAreInPlainEnglish(t *testing.T) {
	requireClean(t, checkWords)
}

func TestWordsCheckFindsEachPattern(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"what it sent is no reply", `"sent is no reply"`},
		{"words that\nare no names", `"that are no names"`},
		{"agents that are no more", `"that are no more"`},
		{"there is no ledger, and There are no cases", ""},
		{"it is no longer there and is no more than 3", ""},
		{"an attempt cannot be gone on with", `"gone on with"`},
		{"the test goes on without it", ""},
		{"counted with the history of then", `"of then"`},
		{"of the second and of these", ""},
		{"what is none does not belong among them", `"what is none"`},
		{"if there are none, and if there is none", ""},
		{"asked wrongly", `"asked wrongly"`},
		{"there is no bundle of nothing", `"no bundle of nothing"`},
		{"made of nothing but digits", ""},
		{"could be changed by 1 people now", `"1 people"`},
		{"could be changed by 2 people, 11 people", ""},
		{"a rule of %d people", `"%d people"`},
		{"the file is nothing that Tallystick writes", `"file is nothing that"`},
		{"there is nothing that could be changed", ""},
		{"no flag continues past a refusal", `"continues past a"`},
		{"(default: if only one choice exists)", `"(default: if"`},
		{"(default: the only curator)", ""},
		{"who it was made with, and for.", `"with, and for."`},
		{"to and from the model", ""},
	} {
		t.Run(tt.text, func(t *testing.T) {
			code := fmt.Sprintf("package a\n\nvar a = f(%q)\n", tt.text)
			requireProblem(t, checkWords, fstest.MapFS{"internal/a/a.go": {Data: []byte(code)}}, tt.want)
			requireProblem(t, checkWords, fstest.MapFS{"docs/a.md": {Data: []byte(tt.text)}}, tt.want)
			requireProblem(t, checkWords, fstest.MapFS{"internal/a/a_test.go": {Data: []byte(code)}, "CHANGELOG.md": {Data: []byte(tt.text)}}, "")
		})
	}
}

func TestWordsCheckFindsTextsWithoutARole(t *testing.T) {
	for text, want := range map[string]string{
		"somebody else's key":  " names no role",
		"Whoever signed it":    " names no role",
		"anyone-is-addressed":  " names no role",
		"the operator may not": "",
		"the body has no body": "",
	} {
		code := []byte(fmt.Sprintf("package a\n\nvar a = f(%q)\n", text))
		for _, dir := range nameRoles {
			requireProblem(t, checkWords, fstest.MapFS{dir + "a/a.go": {Data: code}}, want)
			requireProblem(t, checkWords, fstest.MapFS{dir + "a/a_test.go": {Data: code}}, "")
		}
	}
}
