package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// theTree is the promise: the groups and commands of 1.0 in the order of help.
const theTree = `Start: init, try, demo, doctor
Run: run, record
Look: log, show, why, replay, compare, view, scorecard
Decide: gate, review, promote, name
Again: rescore, reproduce, golden
Bench: bench
Trust: keys, signers, ledger
Share: export, attest, publish, verify
Other harnesses: import, audit, grade
Operate: registry, fleet, sandbox, judges
`

func TestTheTreeIsTheOneThatWasPromised(t *testing.T) {
	root := testProgram().root
	var got strings.Builder
	for _, g := range root.Groups() {
		var names []string
		for _, cmd := range root.Commands() {
			if cmd.GroupID == g.ID {
				names = append(names, cmd.Name())
			}
		}
		fmt.Fprintf(&got, "%s: %s\n", g.Title, strings.Join(names, ", "))
	}
	if got.String() != theTree {
		t.Errorf("the tree is:\n%s\nand was promised to be:\n%s", got.String(), theTree)
	}
	for _, below := range []struct {
		parent string
		names  []string
	}{
		{"scorecard", []string{"curve", "power"}},
		{"review", []string{"correct"}},
		{"bench", []string{"new", "add", "import", "mine", "digest", "sign", "verify", "fence", "pending", "accept", "list", "suites"}},
		{"ledger", []string{"verify", "show", "prove", "append", "repair", "anchor", "cosigner"}},
		{"fleet", []string{"worker", "status"}},
		{"registry", []string{"serve", "rebuild", "monitor", "judge", "key"}},
		{"golden", []string{"check", "update"}},
		{"sandbox", []string{"probe", "image", "run"}},
	} {
		names := commandNames(subcommand(root, below.parent))
		for _, name := range below.names {
			if !slices.Contains(names, name) {
				t.Errorf("tally %s has no command %s", below.parent, name)
			}
		}
	}
	for _, old := range []string{"watch", "serve", "curve", "power", "correct", "prove", "submit", "witness", "witness-server", "anchor", "worker", "judge", "gaia"} {
		if subcommand(root, old) != nil {
			t.Errorf("tally %s is an old name, and old names are not kept", old)
		}
	}
}

// TestTheTreeIsThatOfTheDesign compares with the page of the design, where it is at
// hand.
func TestTheTreeIsThatOfTheDesign(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "commands.md"))
	if err != nil {
		t.Skip("the design is not beside this checkout; TestTheTreeIsTheOneThatWasPromised has the same tree")
	}
	_, table, ok := strings.Cut(string(page), "| Group | Commands |\n|---|---|\n")
	if !ok {
		t.Fatal("the page has no table of groups")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var got strings.Builder
	inBrackets := regexp.MustCompile(`\([^()]*\)`)
	name := regexp.MustCompile("`([a-z]+)[^`]*`")
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|")
		var names []string
		for _, m := range name.FindAllStringSubmatch(inBrackets.ReplaceAllString(cells[2], ""), -1) {
			names = append(names, m[1])
		}
		fmt.Fprintf(&got, "%s: %s\n", strings.TrimSpace(cells[1]), strings.Join(names, ", "))
	}
	if got.String() != theTree {
		t.Errorf("the design has:\n%s\nthe program:\n%s", got.String(), theTree)
	}
}

// flagSenses are the flags that mean two things, and why that is right.
var flagSenses = map[string]string{
	"key":   "the key that the command is about: one it signs with, or one it trusts",
	"class": "sandbox run has no task class; there it is the class of isolation",
	"case":  "a case in both: of a bench by its id, for try by what it asks and expects",
	"since": "where to begin: a time, an entry, a revision",
	"from":  "where what is read comes from: a file, or the folder of a suite",
	"seed":  "what decides a draw",
	"ci":    "about CI: that it is meant to pay there, or the file of its fence",
	"cache": "what was made before and may be used again: replies, or packages",
}

// TestAFlagMeansTheSameEverywhere compares type and sense: the word for the value, and
// what the usage says about it first.
func TestAFlagMeansTheSameEverywhere(t *testing.T) {
	type seen struct{ cmd, kind, word string }
	flags := map[string][]seen{}
	for _, cmd := range allCommands(testProgram().root) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			word, _ := pflag.UnquoteUsage(f)
			kind := f.Value.Type()
			if kind == "stringArray" || kind == "func" { // the same, more than once
				kind = "string"
			}
			flags[f.Name] = append(flags[f.Name], seen{cmd.CommandPath(), kind, word})
		})
	}
	for name, list := range flags {
		for _, s := range list[1:] {
			if (s.kind != list[0].kind || s.word != list[0].word) && flagSenses[name] == "" {
				t.Errorf("--%s is %s %s in %q and %s %s in %q", name, list[0].kind, list[0].word, list[0].cmd, s.kind, s.word, s.cmd)
			}
		}
	}
}

// TestRunShowsFewFlags: what belongs to an agent is in its target, to a class in its
// registration, to a machine in tally.yaml.
func TestRunShowsFewFlags(t *testing.T) {
	_, text := helpOf("tally run")
	if n := strings.Count(text, "\n      --"); n == 0 || n > 26+4 { // four are of every command
		t.Errorf("tally run --help shows %d flags:\n%s", n, text)
	}
	var out strings.Builder
	Main([]string{"run", "--help", "--all"}, strings.NewReader(""), &out, &out, func(string) string { return "" }, nil)
	newRun(&Env{}).Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(out.String(), "--"+f.Name) {
			t.Errorf("run --help --all does not have --%s", f.Name)
		}
	})
}

func TestHelpFitsAScreenAndMarksTheFirstDay(t *testing.T) {
	var out strings.Builder
	rootHelp(&out, testProgram().root)
	for line := range strings.SplitSeq(out.String(), "\n") {
		if len(line) > 120 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
	if n := strings.Count(out.String(), "\n *"); n != len(firstDay) {
		t.Errorf("%d commands are marked:\n%s", n, out.String())
	}
	if len(topics) != 10 {
		t.Errorf("%d topics", len(topics))
	}
	for _, topic := range topics {
		if lines := strings.Count(topic.text(), "\n"); topic.name != "refusals" && lines > 30 {
			t.Errorf("the topic %s has %d lines", topic.name, lines)
		}
	}
}
