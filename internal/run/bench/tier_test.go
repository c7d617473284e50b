package bench

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// No code changes a tier: people do, by editing registration.yaml and signing
// the manifest. The one text that contains the field is the example of a new
// class, which says bronze.
func TestNothingWritesATier(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != root && strings.HasPrefix(e.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, problem := range tierWrites(t, filepath.ToSlash(path), source) {
			t.Error(problem)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("looked at %d files only", files)
	}
	for _, trust := range []Trust{Signed, Scratch} {
		var r Registration
		if _, err := decode("registration.yaml", exampleRegistration("x", trust, exampleNames), &r); err != nil || r.CurrentTier != Bronze {
			t.Errorf("a new class is %s, %v", r.CurrentTier, err)
		}
	}
	var short Registration
	if _, err := decodeRegistration(ShortRegistration("x"), &short); err != nil || short.CurrentTier != Bronze {
		t.Errorf("a short registration is %s, %v", short.CurrentTier, err)
	}
}

// tierWrites lists the places where a file could set a tier.
func tierWrites(t *testing.T, path string, source []byte) []string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	report := func(n ast.Node, what string) {
		problems = append(problems, set.Position(n.Pos()).String()+": "+what)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if s, ok := left.(*ast.SelectorExpr); ok && s.Sel.Name == "CurrentTier" {
					report(n, "assigns a tier")
				}
			}
		case *ast.UnaryExpr:
			if s, ok := n.X.(*ast.SelectorExpr); ok && n.Op == token.AND && s.Sel.Name == "CurrentTier" {
				report(n, "takes the address of a tier")
			}
		case *ast.CompositeLit:
			name := ""
			switch x := n.Type.(type) {
			case *ast.Ident:
				name = x.Name
			case *ast.SelectorExpr:
				name = x.Sel.Name
			}
			if name == "Registration" && len(n.Elts) > 0 {
				report(n, "makes a registration with fields set")
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind == token.STRING && err == nil && strings.Contains(text, "current_tier:") && !strings.HasSuffix(path, "internal/run/bench/example.go") {
				report(n, "writes current_tier")
			}
		case *ast.SelectorExpr:
			// The demo forges a copy, to show that it is refused.
			if n.Sel.Name == "RegistrationFile" && !strings.Contains(path, "internal/run/bench/") && !strings.HasSuffix(path, "internal/app/demo/forgeries.go") && !strings.HasSuffix(path, "internal/app/demo/sums.go") {
				report(n, "names the registration's file outside the package that reads it")
			}
		}
		return true
	})
	return problems
}

func TestTierCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		found      bool
	}{
		{"reading", "func f(r Registration) Tier { return r.CurrentTier }", false},
		{"an empty registration", "var r Registration; var p = &Registration{}", false},
		{"assigning", "func f(r *Registration) { r.CurrentTier = Gold }", true},
		{"an address", "func f(r *Registration) *Tier { return &r.CurrentTier }", true},
		{"a literal", "var r = bench.Registration{CurrentTier: Gold}", true},
		{"text", "const s = `current_tier: gold`", true},
		{"the file", "var f = bench.RegistrationFile", true},
	} {
		if got := tierWrites(t, "internal/read/promote/x.go", []byte("package x\n"+tt.body+"\n")); (len(got) > 0) != tt.found {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
