package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// A source is what the generator knows of a package: its types as they are
// written, and what their methods call the receiver.
type source struct {
	name      string
	types     map[string]ast.Expr
	receivers map[string]string
}

// readSource reads the package in a folder, without tests and without what the
// generator wrote.
func readSource(dir string) (*source, error) {
	s := &source{types: map[string]ast.Expr{}, receivers: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == generated {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.add(file)
	}
	return s, nil
}

func (s *source) add(file *ast.File) {
	s.name = file.Name.Name
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					s.types[t.Name.Name] = t.Type
				}
			}
		case *ast.FuncDecl:
			if d.Recv == nil || len(d.Recv.List[0].Names) == 0 {
				continue
			}
			typ := d.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			s.receivers[spell(typ)] = d.Recv.List[0].Names[0].Name
		}
	}
}

// receiver is what the methods of a type call it.
func (s *source) receiver(typ string) string {
	if name, ok := s.receivers[typ]; ok && name != "_" {
		return name
	}
	return strings.ToLower(typ[:1])
}

// A field is a member of a document in its Go type.
type field struct {
	name     string
	typ      ast.Expr
	optional bool
}

// fields are those of a struct, by their names in JSON.
func (s *source) fields(typ string) (map[string]field, error) {
	st, ok := s.types[typ].(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("%s is not a struct of the package", typ)
	}
	out := map[string]field{}
	for _, f := range st.Fields.List {
		if f.Tag == nil || len(f.Names) != 1 {
			return nil, fmt.Errorf("%s has a field without a tag of its own", typ)
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return nil, err
		}
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		out[name] = field{f.Names[0].Name, f.Type, strings.Contains(options, "omit")}
	}
	return out, nil
}

// spell is a type as it is written.
func spell(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return spell(t.X) + "." + t.Sel.Name
	case *ast.StarExpr:
		return "*" + spell(t.X)
	case *ast.ArrayType:
		return "[]" + spell(t.Elt)
	case *ast.MapType:
		return "map[" + spell(t.Key) + "]" + spell(t.Value)
	}
	return fmt.Sprintf("%T", t)
}

// under is what a type of the package is made of; a type of another package is
// itself.
func (s *source) under(t ast.Expr) ast.Expr {
	for {
		name, ok := t.(*ast.Ident)
		if !ok || s.types[name.Name] == nil {
			return t
		}
		t = s.types[name.Name]
	}
}
