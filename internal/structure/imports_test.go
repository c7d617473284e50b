package structure

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "tallystick"

// A group is a run of packages with one reason for where it stands.
type group struct {
	reason   string
	packages []string
}

// order is the import rule: a package imports only packages before it.
var order = []group{
	{
		"bytes and keys come first and know nothing about evaluation, so that a verifier needs nothing else",
		[]string{"refusal", "plain", "canon", "digest", "strictyaml", "schema", "rules", "similarity", "agreement", "sequential", "question", "openpgp", "seal", "store", "bucket", "evidence", "workspace", "sandbox"},
	},
	{
		"writers come before readers, so that code that produces a score cannot read a threshold",
		[]string{"ledger", "sequencer", "cosign", "mirror", "bench", "wire", "cassette", "journal", "expression", "policy", "trajectory", "outline", "tools", "scenario", "session", "provider", "gateway", "agent", "extract", "judge", "sqlresult", "grade", "witness", "harness", "suites", "exchange"},
	},
	{
		"readers take verified records and come to a decision; what they conclude must not flow back into what is recorded",
		[]string{"history", "scorecard", "gate", "audit", "promote", "submission", "recount", "attest", "browser"},
	},
	{
		"the application is what people do with a workspace: it puts the packages before it together, and every surface builds on it",
		[]string{"archive", "review", "ceremony", "lab", "mine", "doctor", "fleet", "verify"},
	},
	{
		"surfaces show what the packages before them decided, and nothing may depend on how it is shown",
		[]string{"viewer", "registry", "demo", "cli", "release", "structure"},
	},
}

// position returns where the package that a path under internal/ belongs to
// stands in the order, and why.
func position(importPath string) (at int, name, reason string) {
	rest, _ := strings.CutPrefix(importPath, module+"/internal/")
	name, _, _ = strings.Cut(rest, "/")
	before := 0
	for _, g := range order {
		if i := slices.Index(g.packages, name); i >= 0 {
			return before + i, name, g.reason
		}
		before += len(g.packages)
	}
	return -1, name, ""
}

func checkImports(t *testing.T, tree fs.FS) []string {
	var problems []string
	unknown := map[string]bool{}
	for _, f := range goFiles(t, tree) {
		if !strings.HasPrefix(f.path, "internal/") || f.isTest() {
			continue
		}
		at, name, reason := position(module + "/" + f.path)
		if at < 0 {
			if !unknown[name] {
				unknown[name] = true
				problems = append(problems, fmt.Sprintf("internal/%s: unknown package: add it to the list in internal/structure/imports_test.go and to ARCHITECTURE.md", name))
			}
			continue
		}
		for _, spec := range f.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(imported, module+"/cmd/") {
				problems = append(problems, fmt.Sprintf("%s:%d: imports %s: a program is the end of the line, nothing imports it", f.path, f.line(spec), imported))
			}
			if !strings.HasPrefix(imported, module+"/internal/") {
				continue
			}
			// An unknown package is reported where its own files are.
			if there, other, _ := position(imported); there > at {
				problems = append(problems, fmt.Sprintf("%s:%d: %s imports %s, which comes after it: %s", f.path, f.line(spec), name, other, reason))
			}
		}
	}
	return problems
}

func TestPackagesImportOnlyWhatComesBefore(t *testing.T) {
	requireClean(t, checkImports)
}

// A stranger reads tally-verify before trusting it, so it stays small: what
// only running and grading need is not in it, not even through others.
func checkVerifier(t *testing.T, tree fs.FS) []string {
	imports := map[string][]string{}
	for _, f := range goFiles(t, tree) {
		if f.isTest() {
			continue
		}
		for _, spec := range f.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if rest, ours := strings.CutPrefix(imported, module+"/"); ours {
				imports[f.dir()] = append(imports[f.dir()], rest)
			}
		}
	}
	var problems []string
	seen := map[string]bool{}
	var visit func(path []string)
	visit = func(path []string) {
		dir := path[len(path)-1]
		if seen[dir] {
			return
		}
		seen[dir] = true
		if dir == "internal/expression" || dir == "internal/sandbox" {
			problems = append(problems, fmt.Sprintf("%s: the stranger's verifier must do without %s", strings.Join(path, " imports "), dir))
		}
		for _, next := range imports[dir] {
			visit(append(slices.Clip(path), next))
		}
	}
	visit([]string{"cmd/tally-verify"})
	return problems
}

func TestTheVerifierCarriesNeitherExpressionsNorSandbox(t *testing.T) {
	requireClean(t, checkVerifier)
	const through = "package x\nimport _ \"tallystick/internal/%s\"\n"
	requireProblem(t, checkVerifier, fstest.MapFS{
		"cmd/tally-verify/main.go":   {Data: fmt.Appendf(nil, through, "verify")},
		"internal/verify/x.go":       {Data: fmt.Appendf(nil, through, "policy")},
		"internal/policy/x.go":       {Data: fmt.Appendf(nil, through, "expression")},
		"internal/expression/cel.go": {Data: []byte("package x\n")},
	}, "internal/verify imports internal/policy imports internal/expression")
}

// Every start of a sandbox is tally started again, and pays for what its libraries
// do first. So what only a fleet needs is linked by tally-fleet alone.
func checkFleetApart(t *testing.T, tree fs.FS) []string {
	heavy := []string{"github.com/nats-io/", "github.com/minio/"}
	imports := map[string][]string{}
	for _, f := range goFiles(t, tree) {
		if f.isTest() {
			continue
		}
		for _, spec := range f.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports[f.dir()] = append(imports[f.dir()], strings.TrimPrefix(imported, module+"/"))
		}
	}
	var problems []string
	seen := map[string]bool{}
	var visit func(path []string)
	visit = func(path []string) {
		dir := path[len(path)-1]
		if slices.ContainsFunc(heavy, func(prefix string) bool { return strings.HasPrefix(dir, prefix) }) {
			problems = append(problems, fmt.Sprintf("%s: tally must do without it; only tally-fleet links it", strings.Join(path, " imports ")))
		}
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, next := range imports[dir] {
			visit(append(slices.Clip(path), next))
		}
	}
	visit([]string{"cmd/tally"})
	return problems
}

func TestTallyLinksNothingOfAFleet(t *testing.T) {
	requireClean(t, checkFleetApart)
	requireProblem(t, checkFleetApart, fstest.MapFS{
		"cmd/tally/main.go":    {Data: []byte("package x\nimport _ \"tallystick/internal/cli\"\n")},
		"internal/cli/x.go":    {Data: []byte("package x\nimport _ \"tallystick/internal/fleet\"\n")},
		"internal/fleet/x.go":  {Data: []byte("package x\nimport _ \"github.com/nats-io/nats.go\"\n")},
		"cmd/tally-fleet/x.go": {Data: []byte("package x\nimport _ \"github.com/nats-io/nats.go\"\n")},
	}, "internal/cli imports internal/fleet imports github.com/nats-io/nats.go")
}

func TestImportCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"a writer may read bytes", "internal/grade/x.go", `import "tallystick/internal/canon"`, ""},
		{"a package may import its own parts", "internal/sandbox/x.go", `import "tallystick/internal/sandbox/probe"`, ""},
		{"tests may use later packages", "internal/grade/x_test.go", `import "tallystick/internal/gate"`, ""},
		{"a writer reads a threshold", "internal/grade/x.go", `import "tallystick/internal/gate"`, "cannot read a threshold"},
		{"a part counts as its package", "internal/grade/star/x.go", `import g "tallystick/internal/gate/junit"`, "grade imports gate"},
		{"a build tag hides nothing", "internal/canon/x_plan9.go", `import _ "tallystick/internal/seal"`, "canon imports seal"},
		{"an import of a program", "internal/cli/x.go", `import "tallystick/cmd/tally"`, "nothing imports it"},
		{"an unknown package", "internal/shiny/x.go", ``, "add it to the list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}
			requireProblem(t, checkImports, tree, tt.want)
		})
	}
}
