package rules

import (
	"maps"
	"slices"
)

// Unseen lists the members, with their paths, that none of the examples has:
// changes of examples show nothing about a member that is in none. The examples
// are those of each document; what several documents have inside is one shape.
func (f *File) Unseen(examples map[string][][]byte) []string {
	unseen := map[string]bool{}
	for name := range examples {
		f.members(f.Documents[name], name, unseen)
	}
	for name, list := range examples {
		for _, e := range list {
			f.see(f.Documents[name], parse(e), name, unseen)
		}
	}
	return slices.Sorted(maps.Keys(unseen))
}

// see takes the members that a value has from those that were not seen.
func (f *File) see(s *Shape, value any, at string, unseen map[string]bool) {
	if inner, ok := f.Shapes[s.Is]; ok {
		s, at = inner, s.Is
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if s.Of != nil {
				f.see(s.Of, item, at, unseen)
			}
		}
	case map[string]any:
		for name, item := range v {
			if s.Of != nil {
				f.see(s.Of, item, at, unseen)
			} else if m := s.Members[name]; m != nil {
				delete(unseen, at+"."+name)
				f.see(m, item, at+"."+name, unseen)
			}
		}
	}
}

// members adds the paths of all members of a shape.
func (f *File) members(s *Shape, at string, to map[string]bool) {
	if inner, ok := f.Shapes[s.Is]; ok {
		s, at = inner, s.Is
	}
	if s.Of != nil {
		f.members(s.Of, at, to)
	}
	for name, m := range s.Members {
		to[at+"."+name] = true
		f.members(m, at+"."+name, to)
	}
}
