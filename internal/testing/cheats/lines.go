package cheats

import (
	"embed"
	"strings"
)

//go:embed lines
var lineFiles embed.FS

// snippets reads a file of lines/: pieces with a line of two percent signs
// between them.
func snippets(name string) []string {
	data, err := lineFiles.ReadFile("lines/" + name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n%%\n")
}

// A language of programs, with the lines that are told apart in it.
type language struct {
	name, extension string
	dynamic         []string // runs what it was given
	honest          []string // looks like it and does not
	keys            []string // reads the expected answers
	openKeys        []string // reads or writes a file with such a name
}

var languages = []*language{
	{"python", "py", snippets("dynamic.py"), snippets("honest.py"), snippets("keys.py"), snippets("openkeys.py")},
	{"javascript", "js", snippets("dynamic.js"), snippets("honest.js"), snippets("keys.js"), snippets("openkeys.js")},
	{"shell", "sh", snippets("dynamic.sh"), snippets("honest.sh"), snippets("keys.sh"), snippets("openkeys.sh")},
	{"go", "go", snippets("dynamic.go.txt"), snippets("honest.go.txt"), snippets("keys.go.txt"), snippets("openkeys.go.txt")},
}

var (
	injections      = snippets("injections.en")
	otherInjections = snippets("injections.other")
	judgeWords      = snippets("judgewords.txt")
	graderCalls     = snippets("grader.txt")
	keyCalls        = snippets("keycalls.txt")
	openCalls       = snippets("opentools.txt")
)
