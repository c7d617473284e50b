package rules

import "slices"

// Unseen lists the members of a document that none of the examples has, with
// their paths. Changes of examples show nothing about a member that is in none.
func (f *File) Unseen(document string, examples ...[]byte) []string {
	shape := f.Documents[document]
	if shape == nil {
		shape = f.Shapes[document]
	}
	seen := map[string]bool{}
	for _, e := range examples {
		f.see(shape, parse(e), document, seen)
	}
	var out []string
	f.paths(shape, document, func(path string) {
		if !seen[path] {
			out = append(out, path)
		}
	})
	slices.Sort(out)
	return out
}

// see notes the paths of the members that a value has.
func (f *File) see(s *Shape, value any, at string, seen map[string]bool) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			f.see(s.Of, item, at, seen)
		}
	case map[string]any:
		if s.Is == Map {
			for _, item := range v {
				f.see(s.Of, item, at, seen)
			}
			return
		}
		if inner, ok := f.Shapes[s.Is]; ok {
			s = inner
		}
		for name, m := range s.Members {
			if item, there := v[name]; there {
				seen[at+"."+name] = true
				f.see(m, item, at+"."+name, seen)
			}
		}
	}
}

// paths calls yield with the path of every member of a shape.
func (f *File) paths(s *Shape, at string, yield func(string)) {
	if inner, ok := f.Shapes[s.Is]; ok {
		s = inner
	}
	if s.Of != nil {
		f.paths(s.Of, at, yield)
	}
	for name, m := range s.Members {
		yield(at + "." + name)
		f.paths(m, at+"."+name, yield)
	}
}
