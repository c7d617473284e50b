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

// A door is a folder of internal/ whose name says a part of the flow.
type door struct {
	name   string
	reason string // why it stands where it stands
	// packages are in the order in which they may import each other. A door without
	// packages is a package itself.
	packages []string
}

// doors is the import rule: a package imports only packages of doors before its
// own, and of its own door only packages before it.
var doors = []door{
	{
		"record", "bytes, keys and the ledger come first and know nothing about evaluation, so that a verifier needs nothing else",
		[]string{"refusal", "format", "plain", "cost", "loopback", "canon", "digest", "jsonstream", "jsonvalue", "strictyaml", "pattern", "schema", "sequential", "openpgp", "seal", "store", "bucket", "evidence", "workspace", "ledger", "sequencer", "cosign", "mirror"},
	},
	{
		"run", "what makes a score cannot read a threshold, a total or a decision",
		[]string{"bounded", "sandbox", "bench", "wire", "cassette", "replies", "journal", "vantage", "sight", "expression", "policy", "trajectory", "tools", "scenario", "world", "session", "egress", "provider", "gateway", "agent", "extract", "similarity", "question", "judge", "user", "sqlresult", "official", "grade", "harness", "suites"},
	},
	{
		"read", "readers take verified records and come to a decision; what they conclude does not flow back into what is recorded",
		[]string{"agreement", "difference", "outline", "conversation", "step", "submittable", "history", "bundle", "dossier", "results", "scorecard", "gate", "program", "audit", "promote", "recount", "answer", "review", "survey"},
	},
	{
		"share", "what leaves the workspace is made of what was read, and no decision depends on it",
		[]string{"parquet", "zipfile", "setup", "foreign", "otel", "atif", "exchange", "importer", "intake", "export", "dataset", "gaia", "attest", "submission", "browser", "outgoing", "verify"},
	},
	{
		"app", "the application is what people do with a workspace: it puts the packages before it together, and every surface builds on it",
		[]string{"ceremony", "spend", "lab", "mine", "doctor", "fleet", "demo", "release"},
	},
	{
		"serve", "pages and services show what the packages before them decided, and nothing may depend on how it is shown",
		[]string{"viewer", "registry"},
	},
	{
		"cli", "a command parses, calls and prints: it is the end of the line",
		nil,
	},
	{
		testDoor, "fakes, fixtures and checks of the tree are for tests alone",
		[]string{"rules", "faultfs", "buckettest", "historytest", "doubled", "tape", "fakemodel", "scripttest", "repofix", "pgtest", "servetest", "terminal", "browsertest", "storetest", "chaostest", "cheats", "structure"},
	},
}

// testDoor is imported by tests alone.
const testDoor = "testing"

// A place is where a package stands in the order.
type place struct {
	door, pkg int
	name      string // of the package, with its door
	reason    string
}

func (p place) before(q place) bool {
	return p.door < q.door || p.door == q.door && p.pkg <= q.pkg
}

// position returns where the package that a path under internal/ belongs to
// stands. The parts of a package stand where it stands.
func position(importPath string) (place, bool) {
	rest, _ := strings.CutPrefix(importPath, module+"/internal/")
	parts := strings.Split(rest, "/")
	for i, d := range doors {
		if d.name != parts[0] {
			continue
		}
		if d.packages == nil {
			return place{i, 0, d.name, d.reason}, true
		}
		if len(parts) < 2 {
			return place{name: d.name}, false
		}
		name := d.name + "/" + parts[1]
		j := slices.Index(d.packages, parts[1])
		return place{i, j, name, d.reason}, j >= 0
	}
	return place{name: parts[0]}, false
}

func checkImports(t *testing.T, tree fs.FS) []string {
	var problems []string
	unknown := map[string]bool{}
	for _, f := range goFiles(t, tree) {
		if !strings.HasPrefix(f.path, "internal/") || f.isTest() {
			continue
		}
		at, known := position(module + "/" + f.dir())
		if isDoor(f.dir()) {
			if len(f.ast.Imports) > 0 {
				problems = append(problems, fmt.Sprintf("%s: imports something: the folder of a door holds its doc.go and no code", f.path))
			}
			continue
		}
		if !known {
			if !unknown[at.name] {
				unknown[at.name] = true
				problems = append(problems, fmt.Sprintf("internal/%s: unknown package: put it behind a door, in the list in internal/testing/structure/imports_test.go and in ARCHITECTURE.md", at.name))
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
			if there, known := position(imported); known && !there.before(at) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s imports %s, which comes after it: %s", f.path, f.line(spec), at.name, there.name, at.reason))
			}
		}
	}
	return problems
}

// isDoor reports whether a folder is that of a door and not of a package.
func isDoor(dir string) bool {
	return slices.ContainsFunc(doors, func(d door) bool { return d.packages != nil && dir == "internal/"+d.name })
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
		if dir == "internal/run/expression" || dir == "internal/run/sandbox" {
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
		"cmd/tally-verify/main.go":       {Data: fmt.Appendf(nil, through, "share/verify")},
		"internal/share/verify/x.go":     {Data: fmt.Appendf(nil, through, "run/policy")},
		"internal/run/policy/x.go":       {Data: fmt.Appendf(nil, through, "run/expression")},
		"internal/run/expression/cel.go": {Data: []byte("package x\n")},
	}, "internal/share/verify imports internal/run/policy imports internal/run/expression")
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
		"cmd/tally/main.go":       {Data: []byte("package x\nimport _ \"tallystick/internal/cli\"\n")},
		"internal/cli/x.go":       {Data: []byte("package x\nimport _ \"tallystick/internal/app/fleet\"\n")},
		"internal/app/fleet/x.go": {Data: []byte("package x\nimport _ \"github.com/nats-io/nats.go\"\n")},
		"cmd/tally-fleet/x.go":    {Data: []byte("package x\nimport _ \"github.com/nats-io/nats.go\"\n")},
	}, "internal/cli imports internal/app/fleet imports github.com/nats-io/nats.go")
}

func TestImportCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"a writer may read bytes", "internal/run/grade/x.go", `import "tallystick/internal/record/canon"`, ""},
		{"a package may import its own parts", "internal/run/sandbox/x.go", `import "tallystick/internal/run/sandbox/probe"`, ""},
		{"tests may use later packages", "internal/run/grade/x_test.go", `import "tallystick/internal/read/gate"`, ""},
		{"a writer reads a threshold", "internal/run/grade/x.go", `import "tallystick/internal/read/gate"`, "cannot read a threshold"},
		{"a reader tells others", "internal/read/gate/x.go", `import "tallystick/internal/share/attest"`, "read/gate imports share/attest"},
		{"a part counts as its package", "internal/run/grade/star/x.go", `import g "tallystick/internal/read/gate/junit"`, "run/grade imports read/gate"},
		{"a build tag hides nothing", "internal/record/canon/x_plan9.go", `import _ "tallystick/internal/record/seal"`, "record/canon imports record/seal"},
		{"an import of a program", "internal/cli/x.go", `import "tallystick/cmd/tally"`, "nothing imports it"},
		{"an unknown door", "internal/shiny/x.go", ``, "put it behind a door"},
		{"an unknown package", "internal/run/shiny/x.go", ``, "internal/run/shiny: unknown package"},
		{"a door's own page", "internal/run/doc.go", ``, ""},
		{"code in a door", "internal/run/x.go", `import "fmt"`, "no code"},
		{"a fake in the program", "internal/cli/x.go", `import "tallystick/internal/testing/fakemodel"`, "cli imports testing/fakemodel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}
			requireProblem(t, checkImports, tree, tt.want)
		})
	}
}
