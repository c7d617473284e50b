package structure

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// mayWrite names who may change files, and why. Everybody else asks store,
// where a write is synced, renamed into place and tested against crashes.
var mayWrite = map[string]string{
	"internal/record/store": "the one package that writes to disk",
	"internal/run/sandbox":  "scratch folders of a sandbox, which no evidence depends on",
	"cmd":                   "a program's own start-up, before there is a workspace",

	"internal/testing/pgtest":    "the temporary folder of a PostgreSQL that only tests start",
	"internal/testing/rules/gen": "checks in Go, which people generate and commit",
	"internal/testing/servetest": "settings and log of a registry that only tests serve",
	"internal/testing/terminal":  "opens pseudo-terminals",
}

// writers are the functions that change files, by import path. os.OpenFile is
// not here: it depends on the flags.
var writers = map[string][]string{
	"os": {"WriteFile", "Create", "CreateTemp", "Mkdir", "MkdirAll", "MkdirTemp", "Rename", "Remove", "RemoveAll",
		"Truncate", "Chmod", "Chown", "Lchown", "Chtimes", "Link", "Symlink", "CopyFS"},
	"syscall":               rawWriters,
	"golang.org/x/sys/unix": rawWriters,
}

var rawWriters = []string{"Open", "Openat", "Openat2", "Creat", "Rename", "Renameat", "Renameat2", "Unlink", "Unlinkat",
	"Mkdir", "Mkdirat", "Rmdir", "Truncate", "Ftruncate", "Fallocate", "Link", "Linkat", "Symlink", "Symlinkat",
	"Mknod", "Mknodat", "Mkfifo", "Chmod", "Fchmod", "Fchmodat", "Chown", "Fchown", "Fchownat", "Lchown"}

// rootWriters are the methods of os.Root that change files. Without types a
// method call shows only its name, so they count in files that use os.Root.
var rootWriters = []string{"WriteFile", "Create", "OpenFile", "Mkdir", "MkdirAll", "Rename", "Remove", "RemoveAll",
	"Chmod", "Chown", "Lchown", "Chtimes", "Link", "Symlink"}

func checkWrites(t *testing.T, tree fs.FS) []string {
	var problems []string
	files := goFiles(t, tree)
	constants := packageConstants(files)
	for _, f := range files {
		if f.isTest() || writerFolder(f.path) {
			continue
		}
		for _, call := range writes(f, constants[f.dir()]) {
			problems = append(problems, fmt.Sprintf("%s: only %s write to disk; use store",
				call, strings.Join(slices.Sorted(maps.Keys(mayWrite)), ", ")))
		}
	}
	return problems
}

func writerFolder(file string) bool {
	for dir := range mayWrite {
		if strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	return false
}

// packageConstants gives, for each folder, the values of its named constants.
// There may be several for one name, one for each operating system.
func packageConstants(files []sourceFile) map[string]map[string][]ast.Expr {
	all := map[string]map[string][]ast.Expr{}
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.CONST {
				continue
			}
			for _, spec := range gen.Specs {
				values := spec.(*ast.ValueSpec)
				for i, v := range values.Values {
					if all[f.dir()] == nil {
						all[f.dir()] = map[string][]ast.Expr{}
					}
					name := values.Names[i].Name
					all[f.dir()][name] = append(all[f.dir()][name], v)
				}
			}
		}
	}
	return all
}

// writes lists where f names something that changes files. Naming is enough: a
// function that is passed on is called somewhere.
func writes(f sourceFile, constants map[string][]ast.Expr) []string {
	imports := map[string]string{} // name in the file to import path
	var found []string
	for _, spec := range f.ast.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := p[strings.LastIndex(p, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if p == "io/ioutil" || name == "." && writers[p] != nil {
			found = append(found, fmt.Sprintf("%s:%d: imports %s %s", f.path, f.line(spec), name, p))
		}
		imports[name] = p
	}

	usesRoot := mentions(f, imports, "OpenRoot", "Root")
	readOnly := map[*ast.SelectorExpr]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "OpenFile" && len(call.Args) == 3 {
				readOnly[sel] = opensForReading(call.Args[1], constants)
			}
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg := importOf(sel, imports)
		bad := false
		switch {
		case pkg == "os" && sel.Sel.Name == "OpenFile":
			bad = !readOnly[sel]
		case pkg != "":
			bad = slices.Contains(writers[pkg], sel.Sel.Name)
		case usesRoot && slices.Contains(rootWriters, sel.Sel.Name):
			bad = !readOnly[sel]
		}
		if bad {
			found = append(found, fmt.Sprintf("%s:%d: uses %s", f.path, f.line(sel), sel.Sel.Name))
		}
		return true
	})
	return found
}

// importOf returns the import path when sel is package.Name, else nothing.
func importOf(sel *ast.SelectorExpr, imports map[string]string) string {
	if id, ok := sel.X.(*ast.Ident); ok {
		return imports[id.Name]
	}
	return ""
}

func mentions(f sourceFile, imports map[string]string, names ...string) bool {
	found := false
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && importOf(sel, imports) == "os" && slices.Contains(names, sel.Sel.Name) {
			found = true
		}
		return !found
	})
	return found
}

// opensForReading accepts os.O_RDONLY alone or together with flags that cannot
// change a file, or a constant of the package that stands for such flags.
// Anything it does not know counts as writing.
func opensForReading(flags ast.Expr, constants map[string][]ast.Expr) bool {
	switch e := flags.(type) {
	case *ast.BinaryExpr:
		return opensForReading(e.X, constants) && opensForReading(e.Y, constants)
	case *ast.SelectorExpr:
		return slices.Contains([]string{"O_RDONLY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_NOCTTY", "O_PATH"}, e.Sel.Name)
	case *ast.BasicLit:
		return e.Value == "0"
	case *ast.Ident:
		values := constants[e.Name]
		return len(values) > 0 && !slices.ContainsFunc(values, func(v ast.Expr) bool { return !opensForReading(v, nil) })
	}
	return false
}

func TestOnlyStoreWritesToDisk(t *testing.T) {
	requireClean(t, checkWrites)
}

func TestWriteCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"reading", "internal/read/gate/a.go", `import "os"; var _, _ = os.ReadFile("x")`, ""}, // reads_test.go has it
		{"opening to read", "internal/read/gate/a.go", `import "os"; import "syscall"; var _, _ = os.OpenFile("x", os.O_RDONLY|syscall.O_NOFOLLOW, 0)`, ""},
		{"opening with a constant that reads", "internal/read/gate/a.go", `import "os"; const quiet = os.O_NONBLOCK; var _, _ = os.OpenFile("x", os.O_RDONLY|quiet, 0)`, ""},
		{"opening with a constant that writes", "internal/read/gate/a.go", `import "os"; const quiet = os.O_TRUNC; var _, _ = os.OpenFile("x", os.O_RDONLY|quiet, 0)`, "uses OpenFile"},
		{"store", "internal/record/store/a.go", `import "os"; var _ = os.Remove("x")`, ""},
		{"a test", "internal/read/gate/a_test.go", `import "os"; var _ = os.Remove("x")`, ""},
		{"a method of the same name elsewhere", "internal/read/gate/a.go", `import "os"; var _ = os.Args; func f(l log) { l.Create() }`, ""},
		{"a name that only begins like store", "internal/storefront/a.go", `import "os"; var _ = os.Remove("x")`, "uses Remove"},
		{"writing", "internal/read/gate/a.go", `import "os"; var _ = os.WriteFile("x", nil, 0)`, "internal/read/gate/a.go:2: uses WriteFile"},
		{"under another name", "internal/read/gate/a.go", `import sys "os"; var _ = sys.Rename("x", "y")`, "uses Rename"},
		{"passed on", "internal/read/gate/a.go", `import "os"; var f = os.RemoveAll`, "uses RemoveAll"},
		{"opening to write", "internal/read/gate/a.go", `import "os"; var _, _ = os.OpenFile("x", os.O_RDWR, 0)`, "uses OpenFile"},
		{"opening with flags from elsewhere", "internal/read/gate/a.go", `import "os"; func f(n int) { os.OpenFile("x", n, 0) }`, "uses OpenFile"},
		{"through a root", "internal/read/gate/a.go", `import "os"; func f(r *os.Root) { r.Mkdir("x", 0) }`, "uses Mkdir"},
		{"through a system call", "internal/read/gate/a.go", `import "golang.org/x/sys/unix"; var _ = unix.Unlink("x")`, "uses Unlink"},
		{"with a dot import", "internal/read/gate/a.go", `import . "os"; var _ = Remove("x")`, "imports . os"},
		{"with the old package", "internal/read/gate/a.go", `import "io/ioutil"; var _ = ioutil.WriteFile("x", nil, 0)`, "imports ioutil"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}
			requireProblem(t, checkWrites, tree, tt.want)
		})
	}
}
