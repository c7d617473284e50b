package structure

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const ownersFile = ".github/CODEOWNERS"

// An ownerRule is a line of CODEOWNERS.
type ownerRule struct {
	line    int
	pattern string
	owners  []string
}

// covers understands the forms that our file uses: "*", and from the top a
// folder ("/internal/") or a file ("/go.mod"), each part of which may have stars.
func (r ownerRule) covers(name string) bool {
	if r.pattern == "*" {
		return true
	}
	want := strings.Split(strings.Trim(r.pattern, "/"), "/")
	have := strings.Split(name, "/")
	if len(have) < len(want) || strings.HasSuffix(r.pattern, "/") && len(have) == len(want) {
		return false
	}
	for i, part := range want {
		if hit, _ := path.Match(part, have[i]); !hit {
			return false
		}
	}
	return true
}

func ownerRules(t *testing.T, tree fs.FS) []ownerRule {
	var rules []ownerRule
	for i, line := range strings.Split(string(readFile(t, tree, ownersFile)), "\n") {
		text, _, _ := strings.Cut(line, "#")
		if fields := strings.Fields(text); len(fields) > 0 {
			rules = append(rules, ownerRule{i + 1, fields[0], fields[1:]})
		}
	}
	return rules
}

// checkOwners wants that every line of CODEOWNERS covers something, and that no
// code goes in without the security team: a path that was renamed would lose its
// reviewers without a word.
func checkOwners(t *testing.T, tree fs.FS) []string {
	var problems []string
	rules, files := ownerRules(t, tree), treeFiles(t, tree)
	for _, r := range rules {
		if r.pattern != "*" && !strings.HasPrefix(r.pattern, "/") {
			problems = append(problems, fmt.Sprintf("%s:%d: %s: begin with a slash, so that it means one place", ownersFile, r.line, r.pattern))
			continue
		}
		if len(r.owners) == 0 {
			problems = append(problems, fmt.Sprintf("%s:%d: %s has no owner", ownersFile, r.line, r.pattern))
		}
		if !slices.ContainsFunc(files, r.covers) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s does not exist: it was moved or deleted, and what took its place has other reviewers", ownersFile, r.line, r.pattern))
		}
	}
	for _, name := range files {
		if isHarnessCode(name) && !reviewedBySecurity(rules, name) {
			problems = append(problems, fmt.Sprintf("%s: %s is harness code, and its line does not name a security team", ownersFile, name))
		}
	}
	return problems
}

// isHarnessCode is said of what makes, judges, keeps or verifies a score, and of
// the checks that hold it to that.
func isHarnessCode(name string) bool {
	return strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/") ||
		strings.HasPrefix(name, ".ci/") || strings.HasPrefix(name, ".github/")
}

func reviewedBySecurity(rules []ownerRule, name string) bool {
	for _, r := range slices.Backward(rules) {
		if r.covers(name) {
			return slices.ContainsFunc(r.owners, func(owner string) bool { return strings.HasSuffix(owner, "/security") })
		}
	}
	return false
}

func TestCodeownersNamePathsThatExist(t *testing.T) {
	requireClean(t, checkOwners)
}

func TestOwnersCheckFindsEachFault(t *testing.T) {
	const rest = "* @x/all\n/.github/ @x/security\n"
	for _, tt := range []struct{ name, lines, want string }{
		{"folders and files", "/internal/ @x/security # why\n/go.mod @x/all\n", ""},
		{"a folder with a star", "/internal/*/ @x/security\n", ""},
		{"the last line counts", "/internal/ @x/all\n/internal/record/canon/ @x/security\n", ""},
		{"a folder that is gone", "/internal/ @x/security\n/internal/cannon/ @x/security\n", "CODEOWNERS:4: /internal/cannon/ does not exist"},
		{"a file taken for a folder", "/internal/ @x/security\n/go.mod/ @x/security\n", "/go.mod/ does not exist"},
		{"no owner", "/internal/ @x/security\n/go.mod\n", "has no owner"},
		{"anywhere", "/internal/ @x/security\ngo.mod @x/all\n", "begin with a slash"},
		{"code without security", "/internal/ @x/all\n", "internal/record/canon/a.go is harness code"},
		{"a later line without security", "/internal/ @x/security\n/internal/record/canon/ @x/all\n", "internal/record/canon/a.go is harness code"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkOwners, fstest.MapFS{
				ownersFile: {Data: []byte(rest + tt.lines)}, "internal/record/canon/a.go": {Data: []byte("package canon\n")}, "go.mod": {},
			}, tt.want)
		})
	}
}
