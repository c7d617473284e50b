package importer

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/record/jsonstream"
)

// How much of a file is noted.
const (
	maxPaths   = 4000
	maxBranch  = 200 // members of one object that are noted
	maxRows    = 20  // top-level values, or elements of a list, that are walked
	shapeDepth = 4
)

// A Shape is which members a JSON file has, as far as it was walked: the kind of
// value by path, such as "results[].prompt". Lines of JSON are walked as if they
// were one value.
type Shape struct {
	Kinds  map[string]jsonstream.Kind
	Said   map[string]string // short scalars, the first at each path
	Values int               // top-level values
	List   bool              // the first one is a list, whose elements stand for it
}

// Has reports whether all of the paths are there.
func (s *Shape) Has(paths ...string) bool {
	for _, p := range paths {
		if s.Kinds[p] == jsonstream.None {
			return false
		}
	}
	return true
}

// HasAny reports whether one of the paths is there.
func (s *Shape) HasAny(paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return s.Has(p) })
}

// Below reports whether some member of the object at p has all of the names.
func (s *Shape) Below(p string, names ...string) bool {
	for at := range s.Kinds {
		child := at
		if p != "" {
			child = strings.TrimPrefix(at, p+".")
		}
		if p != "" && child == at || strings.ContainsAny(child, ".[") {
			continue
		}
		if !slices.ContainsFunc(names, func(n string) bool { return !s.Has(joinPath(at, n)) }) {
			return true
		}
	}
	return false
}

// String lists the top of the shape, for a user who wonders why it is unknown.
func (s *Shape) String() string {
	var top []string
	for _, p := range slices.Sorted(maps.Keys(s.Kinds)) {
		if !strings.ContainsAny(p, ".[") && len(top) < 12 {
			top = append(top, fmt.Sprintf("%.40q", p))
		}
	}
	if len(top) == 0 {
		return "it is JSON without members"
	}
	return "it is JSON with the members " + strings.Join(top, ", ")
}

// readShape walks src. whole says whether src is the file and not its beginning:
// a beginning may stop anywhere.
func readShape(src io.Reader, whole bool) (*Shape, error) {
	s := &Shape{Kinds: map[string]jsonstream.Kind{}, Said: map[string]string{}}
	r, err := jsonstream.NewReader(src)
	if err != nil {
		return nil, err
	}
	r.Lenient = true // or a member that is there twice would hide in a folder what the file is
	for s.Values < maxRows || whole {
		var k jsonstream.Kind
		if k, err = r.Peek(); err != nil || k == jsonstream.None {
			break
		}
		if s.Values++; s.Values > maxRows {
			err = r.Skip()
		} else {
			err = s.top(r, k)
		}
		if err != nil {
			break
		}
	}
	if err != nil && whole {
		return nil, err
	}
	return s, nil
}

func (s *Shape) top(r *jsonstream.Reader, k jsonstream.Kind) error {
	if k != jsonstream.Array {
		return s.value(r, "", 0)
	}
	s.List = true
	return r.Array(func(i int) error {
		if i >= maxRows {
			return nil
		}
		return s.value(r, "", 0)
	})
}

func joinPath(p, name string) string {
	if p == "" || strings.HasPrefix(name, "[]") {
		return p + name
	}
	return p + "." + name
}

func (s *Shape) value(r *jsonstream.Reader, p string, depth int) error {
	k, err := r.Peek()
	if err != nil {
		return err
	}
	if p != "" && s.Kinds[p] == jsonstream.None && len(s.Kinds) < maxPaths {
		s.Kinds[p] = k
	}
	if depth == shapeDepth {
		return nil
	}
	switch k {
	case jsonstream.Object:
		n := 0
		return r.Object(func(name string) error {
			if n++; n > maxBranch {
				return nil
			}
			return s.value(r, joinPath(p, name), depth+1)
		})
	case jsonstream.Array:
		return r.Array(func(i int) error {
			if i >= maxRows {
				return nil
			}
			return s.value(r, p+"[]", depth+1)
		})
	case jsonstream.Text, jsonstream.Digits:
		d, err := r.Digest(64)
		if _, known := s.Said[p]; !known && err == nil && len(s.Said) < maxPaths {
			s.Said[p] = d.Head
		}
		return err
	}
	return nil
}
