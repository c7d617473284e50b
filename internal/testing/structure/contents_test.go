package structure

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// machinePath finds absolute paths into the folders where people and build
// machines keep their own things. It is put together from pieces so that this
// file does not find itself.
var machinePath = regexp.MustCompile(`(?m)(?:^|[^A-Za-z0-9_.~)}/-])/(?:` + strings.Join([]string{"ho" + "me", "ro" + "ot", "wo" + "rk"}, "|") + `)/[A-Za-z0-9_.$*{-]`)

// packageHosts are the servers that packages come from. Which of them a machine
// uses is its own affair: a name in the repository sends everybody there.
var packageHosts = []string{
	"proxy." + "golang.org", "sum." + "golang.org", "gopro" + "xy.",
	"pypi" + ".org", "python" + "hosted.org", "npm" + "js.org", "yarn" + "pkg.com", "crates" + ".io", "rubygems" + ".org",
	"deb." + "debian.org", "archive." + "ubuntu.com", "security." + "ubuntu.com",
	"artifact" + "ory", "gh" + "cr.io", "quay" + ".io", "docker" + ".io",
}

func checkContents(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, name := range treeFiles(t, tree) {
		if path.Base(name) == "go.sum" {
			continue
		}
		data := readFile(t, tree, name)
		if at := machinePath.FindIndex(data); at != nil {
			problems = append(problems, fmt.Sprintf("%s:%d: holds an absolute path of some machine: %q", name, lineAt(data, at[0]+1), data[at[0]:at[1]]))
		}
		lower := bytes.ToLower(data)
		for _, host := range packageHosts {
			if at := bytes.Index(lower, []byte(host)); at >= 0 {
				problems = append(problems, fmt.Sprintf("%s:%d: names the package host %s: where packages come from is the machine's setting", name, lineAt(data, at), host))
			}
		}
	}
	return problems
}

// lineAt gives the line number of a position.
func lineAt(data []byte, at int) int {
	return 1 + bytes.Count(data[:at], []byte("\n"))
}

func TestFilesNameNoMachineAndNoPackageHost(t *testing.T) {
	requireClean(t, checkContents)
}

func TestContentCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"relative paths and links", "see ./work/x, $WORK/home/x, https://example.com/root/x and /home", ""},
		{"a person's folder", "a\nb\nopen /ho" + "me/alice/key", "a.md:3"},
		{"at the start of a line", "a\n/ro" + "ot/.ssh/id", "a.md:2"},
		{"in quotes", `dir: "/wo` + `rk/main"`, "a.md:1"},
		{"a package host", "fetch from https://PROXY." + "golang.org/x", "package host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkContents, fstest.MapFS{"a.md": {Data: []byte(tt.text)}}, tt.want)
		})
	}
	ignored := fstest.MapFS{
		".gitignore": {Data: []byte("/bin/\n*.out\n")},
		"bin/tally":  {Data: []byte("/ro" + "ot/x")},
		"x/cpu.out":  {Data: []byte("/ro" + "ot/x")},
	}
	requireProblem(t, checkContents, ignored, "")
}
