package harness

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Selection says which cases of a bench are run. The zero value selects all.
type Selection struct {
	// Cases are patterns as [path.Match] has them, of which any must match the id
	// of a case. One that begins with "!" must not match. Tags are the same,
	// without patterns.
	Cases, Tags []string

	Limit  int // of these the first; 0 for all
	Sample int // of these so many, by Seed; 0 for all
	Seed   int
}

// IsAll reports whether nothing is left out.
func (s *Selection) IsAll() bool {
	return len(s.Cases)+len(s.Tags) == 0 && s.Limit == 0 && s.Sample == 0
}

// Validate refuses what selects nothing by itself.
func (s *Selection) Validate() error {
	for _, pattern := range s.Cases {
		if _, err := path.Match(strings.TrimPrefix(pattern, "!"), ""); err != nil || pattern == "" || pattern == "!" {
			return refusal.Newf(refusal.Usage, "--case %q is not a pattern", pattern).WithHint("* stands for any letters, ? for one, [a-c] for one of these; ! before a pattern leaves its cases out")
		}
	}
	for _, tag := range s.Tags {
		if tag == "" || tag == "!" {
			return refusal.Newf(refusal.Usage, "--tag %q: expected the name of a tag", tag)
		}
	}
	switch {
	case s.Limit < 0:
		return refusal.Newf(refusal.Usage, "--limit %d: expected 1 or more", s.Limit)
	case s.Sample < 0:
		return refusal.Newf(refusal.Usage, "--sample %d: expected 1 or more", s.Sample)
	case s.Limit > 0 && s.Sample > 0:
		return refusal.Newf(refusal.Usage, "--limit takes the first cases, --sample takes some by chance: give one of them")
	}
	return nil
}

// planned is the selection as a plan has it, of how many cases the patterns
// selected; nil if it selects all.
func (s *Selection) planned(of int) *evidence.Selection {
	if s.IsAll() {
		return nil
	}
	p := &evidence.Selection{Cases: s.Cases, Tags: s.Tags, Limit: s.Limit, Sample: s.Sample, Of: of}
	if s.Sample > 0 {
		p.Seed = &s.Seed
	}
	return p
}

// Matches reports whether the patterns select a case.
func (s *Selection) Matches(id string, tags []string) bool {
	is := func(pattern string) bool {
		ok, _ := path.Match(pattern, id)
		return ok
	}
	return anyOf(s.Cases, is) && anyOf(s.Tags, func(tag string) bool { return slices.Contains(tags, tag) })
}

// anyOf reports whether any of the patterns holds that must, and none that must
// not. Without one that must, all do.
func anyOf(patterns []string, holds func(string) bool) bool {
	wanted, found := false, false
	for _, p := range patterns {
		if not, ok := strings.CutPrefix(p, "!"); ok {
			if holds(not) {
				return false
			}
			continue
		}
		wanted, found = true, found || holds(p)
	}
	return found || !wanted
}

// take is Limit or Sample of the cases at some places, in the order of the bench.
// A sample takes the cases with the smallest BLAKE3 of "tallystick-sample SEED ID":
// it is the same on every machine, and one case more or less in the bench changes
// at most one case of it.
func (s *Selection) take(places []int, id func(int) string) []int {
	switch {
	case s.Limit > 0 && s.Limit < len(places):
		return places[:s.Limit]
	case s.Sample == 0 || s.Sample >= len(places):
		return places
	}
	keys := make(map[int]digest.Content, len(places))
	for _, i := range places {
		keys[i] = digest.ContentOf(fmt.Appendf(nil, "tallystick-sample %d %s", s.Seed, id(i)))
	}
	drawn := slices.Clone(places)
	slices.SortFunc(drawn, func(a, b int) int {
		x, y := keys[a], keys[b]
		return bytes.Compare(x[:], y[:])
	})
	drawn = drawn[:s.Sample]
	slices.Sort(drawn)
	return drawn
}

// check refuses a pattern that fits no case of the class, and suggests a name that
// is there: a mistyped one among several must not go unnoticed. What is left out
// need not be there.
func (s *Selection) check(class string, looked []look) error {
	var ids, tags []string
	for _, l := range looked {
		ids, tags = append(ids, l.id), append(tags, l.tags...)
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	for _, kind := range []struct {
		flag     string
		patterns []string
		names    []string
		holds    func(pattern, name string) bool
	}{
		{"--case", s.Cases, ids, func(pattern, id string) bool { ok, _ := path.Match(pattern, id); return ok }},
		{"--tag", s.Tags, tags, func(tag, name string) bool { return tag == name }},
	} {
		for _, p := range kind.patterns {
			if strings.HasPrefix(p, "!") {
				continue
			}
			if !slices.ContainsFunc(kind.names, func(n string) bool { return kind.holds(p, n) }) {
				return noSuch(class, kind.flag, p, kind.names)
			}
		}
	}
	return nil
}

func noSuch(class, flag, name string, known []string) error {
	err := refusal.Newf(refusal.UnknownName, "no case of class %s is selected by %s %s", class, flag, name)
	if len(known) == 0 {
		return err.WithHint(`"tally bench list %s" shows the cases`, class)
	}
	return err.Suggest(name, known, "there are %s", list(known))
}
