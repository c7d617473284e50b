package structure

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// A file of cli parses flags, calls a package, and prints. What stands here it
// may not do: another surface (a server, a viewer, a worker) could not do it
// then without copying it.

// cliMayNotImport has import paths, or with a slash at the end all below it.
var cliMayNotImport = map[string]string{
	module + "/internal/record/sequencer":   "the ledger on disk is read by dossier and written by ceremony and lab",
	module + "/internal/record/store":       "files of a workspace are read by dossier and written by ceremony and lab",
	module + "/internal/record/canon":       "what is hashed or signed is encoded where its type is",
	module + "/internal/record/strictyaml":  "settings are read by the package that owns them",
	module + "/internal/record/cosign":      "witnesses are asked by lab",
	module + "/internal/run/provider":       "live models and tools are put together by lab",
	module + "/internal/run/judge":          "judges are put together by lab",
	module + "/internal/run/session":        "a case is driven by harness",
	module + "/internal/run/gateway":        "a case is driven by harness",
	module + "/internal/read/bundle/derive": "bundles are made by outgoing",
	"crypto/":                               "keys and hashes belong to seal and digest",
	"golang.org/x/crypto/":                  "keys and hashes belong to seal and digest",
	"net":                                   "servers and clients are packages of their own",
	"net/http":                              "servers and clients are packages of their own",
}

// cliMayNotCall has functions by import path.
var cliMayNotCall = map[string]map[string]string{
	module + "/internal/record/ledger": {
		"Verify":           verifiedElsewhere,
		"VerifyAnchor":     verifiedElsewhere,
		"VerifyCheckpoint": verifiedElsewhere,
		"VerifyReceipt":    verifiedElsewhere,
	},
	"runtime/debug": {
		"SetGCPercent":   "a setting of the whole process is not a command's to change",
		"SetMemoryLimit": "a setting of the whole process is not a command's to change",
	},
}

const verifiedElsewhere = "a workspace is verified once, by dossier"

// envMethods are what *Env is for: where the answer, notes and errors go.
var envMethods = []string{"Answer", "Color", "Interactive", "Lines", "Note", "printError", "showPaged", "write"}

const envIsOutput = "*Env is output and nothing else: a method on it can be called by no other package"

// cliExceptions are what single files may do all the same, and why.
var cliExceptions = map[string]string{
	"judge.go imports judge":         "it prints the verdicts that judge lists",
	"mcp_stdio.go imports gateway":   "the whole command is one call of gateway, and knows no workspace",
	"record.go imports provider":     "it prints money and the name of the settings as provider has them",
	"anchor_watch.go imports cosign": "a watcher knows no workspace",
	"cosigner.go imports cosign":     "a witness is a server of cosign's and knows no workspace",
}

// An overreach is something that a file of cli does and may not.
type overreach struct{ what, reason string }

func cliOverreaches(t *testing.T, tree fs.FS) []overreach {
	var found []overreach
	for _, f := range goFiles(t, tree) {
		if !strings.HasPrefix(f.path, "internal/cli/") || f.isTest() {
			continue
		}
		file := strings.TrimPrefix(f.path, "internal/cli/")
		for what, reason := range forbiddenIn(t, f) {
			found = append(found, overreach{file + " " + what, reason})
		}
	}
	slices.SortFunc(found, func(a, b overreach) int { return strings.Compare(a.what, b.what) })
	return found
}

// forbiddenIn gives what a file does, with the reason against it.
func forbiddenIn(t *testing.T, f sourceFile) map[string]string {
	found := map[string]string{}
	imports := map[string]string{} // name in the file to import path
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = imported
		if reason, forbidden := forbiddenImport(imported); forbidden {
			found["imports "+importName(imported)] = reason
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			path := importOf(sel, imports)
			if reason, forbidden := cliMayNotCall[path][sel.Sel.Name]; forbidden {
				found["uses "+path[strings.LastIndex(path, "/")+1:]+"."+sel.Sel.Name] = reason
			}
		}
		return true
	})
	for _, decl := range f.ast.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && receiver(fn) == "Env" && !slices.Contains(envMethods, fn.Name.Name) {
			found["declares (*Env)."+fn.Name.Name] = envIsOutput
		}
	}
	return found
}

// importName names one of our packages by its last element: the door goes without
// saying.
func importName(importPath string) string {
	if strings.HasPrefix(importPath, module+"/") {
		return path.Base(importPath)
	}
	return importPath
}

func forbiddenImport(path string) (reason string, forbidden bool) {
	for rule, reason := range cliMayNotImport {
		if path == rule || strings.HasSuffix(rule, "/") && strings.HasPrefix(path, rule) {
			return reason, true
		}
	}
	return "", false
}

// receiver names the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func checkCLI(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, o := range cliOverreaches(t, tree) {
		if cliExceptions[o.what] == "" {
			problems = append(problems, fmt.Sprintf("internal/cli/%s: a file of cli parses, calls and prints: %s", o.what, o.reason))
		}
	}
	return problems
}

func TestCLIParsesCallsAndPrints(t *testing.T) {
	requireClean(t, checkCLI)
}

// An exception that nothing needs is dropped: the next one is argued for anew.
func TestCLIExceptionsAreNeeded(t *testing.T) {
	found := cliOverreaches(t, os.DirFS(root))
	for what := range cliExceptions {
		if !slices.ContainsFunc(found, func(o overreach) bool { return o.what == what }) {
			t.Errorf("%q is no longer so: drop the exception", what)
		}
	}
}

func TestCLICheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"parsing and printing", "run.go", `import "tallystick/internal/run/harness"`, ""},
		{"output on Env", "env.go", `func (e *Env) Answer() {}`, ""},
		{"a test may", "run_test.go", `import "tallystick/internal/record/store"`, ""},
		{"the ledger on disk", "run.go", `import "tallystick/internal/record/sequencer"`, "internal/cli/run.go imports sequencer: a file of cli parses, calls and prints: the ledger on disk"},
		{"under another name", "run.go", `import s "tallystick/internal/record/store"`, "run.go imports store"},
		{"in a folder below", "demo/run.go", `import "crypto/rand"`, "demo/run.go imports crypto/rand"},
		{"verifying by itself", "run.go", `import l "tallystick/internal/record/ledger"; var _ = l.VerifyAnchor`, "uses ledger.VerifyAnchor"},
		{"a setting of the process", "run.go", `import "runtime/debug"; var _ = debug.SetGCPercent(15)`, "whole process"},
		{"work on Env", "run.go", `func (e *Env) openLedger() {}`, "declares (*Env).openLedger"},
		{"work on Env by value", "run.go", `func (e Env) openLedger() {}`, "declares (*Env).openLedger"},
		{"an exception", "judge.go", `import "tallystick/internal/run/judge"`, ""},
		{"an exception of another file", "run.go", `import "tallystick/internal/run/judge"`, "run.go imports judge"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkCLI, fstest.MapFS{
				"internal/cli/" + tt.file: {Data: []byte("package cli\n" + tt.source + "\n")},
			}, tt.want)
		})
	}
}
