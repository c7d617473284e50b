package viewer

import (
	"cmp"
	"maps"
	"net/url"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/read/survey"
	"tallystick/internal/record/evidence"
)

// A grouping is something that cases may share.
type grouping struct {
	Name  string // in the address: of the filter too
	Title string
	None  string // what cases have that have none

	surveyed bool // only the transcripts tell
	of       func(c placed, s *survey.Survey) []string
}

// modes is the grouping by failure modes, which only cases have that did not pass.
const modes = "mode"

var groupings = []grouping{
	{Name: modes, Title: "Failure mode", None: "no failure mode", of: func(c placed, _ *survey.Survey) []string { return c.FailureModes() }},
	{Name: "tag", Title: "Tag", None: "no tag", of: func(c placed, _ *survey.Survey) []string { return c.Tags() }},
	{Name: "left", Title: "First divergence", None: "no earlier run that passed, or no difference", surveyed: true, of: func(c placed, s *survey.Survey) []string {
		if left := s.Left(c.place); left != "" {
			return []string{left}
		}
		return nil
	}},
	{Name: "tool", Title: "Tool", None: "no tool", surveyed: true, of: func(c placed, s *survey.Survey) []string { return s.Tools(c.place) }},
}

// groupingOf is the grouping of a name; nil if there is none.
func groupingOf(name string) *grouping {
	for i := range groupings {
		if groupings[i].Name == name {
			return &groupings[i]
		}
	}
	return nil
}

// A caseGroup are the cases of an attempt that share something.
type caseGroup struct {
	Label     string
	N         int
	NotPassed int
	Counts    counts
	URL       string // the list of these cases
	Current   bool
}

// groupsOf are the groups of an attempt, the one with the most cases that did not pass
// first. A case may be in several.
func (v *Viewer) groupsOf(a *history.Attempt, by *grouping, s *survey.Survey) []caseGroup {
	if by.surveyed && s == nil {
		return nil
	}
	groups, _ := remembered(v, "groups by "+by.Name+" of "+a.ID, func() ([]caseGroup, error) {
		ended := map[string]map[evidence.Outcome]int{}
		place := -1
		for c := range a.Cases() {
			place++
			for _, label := range by.of(placed{c, place}, s) {
				if ended[label] == nil {
					ended[label] = map[evidence.Outcome]int{}
				}
				ended[label][c.Outcome()]++
			}
		}
		var out []caseGroup
		for label, n := range ended {
			g := caseGroup{Label: label}
			for _, o := range outcomes {
				g.Counts = append(g.Counts, outcomeCount{o, n[o]})
			}
			for _, k := range n {
				g.N += k
			}
			g.NotPassed = g.N - n[evidence.Passed]
			out = append(out, g)
		}
		slices.SortFunc(out, func(a, b caseGroup) int {
			return cmp.Or(cmp.Compare(b.NotPassed, a.NotPassed), cmp.Compare(b.N, a.N), cmp.Compare(a.Label, b.Label))
		})
		return out, nil
	})
	return groups
}

// maxGroups bounds the groups that are listed.
const maxGroups = 40

// A sharing is what the page lists of one grouping.
type sharing struct {
	*grouping
	Groups  []caseGroup
	More    int    // that are not listed
	Waiting bool   // for the survey
	Current bool   // the list is arranged by it
	URL     string // the list arranged by it, or no longer; "" on a site of files
	Chosen  string // the group that the list is filtered by
	AllURL  string // without that filter
}

// sharings are what the cases of an attempt share, one for each grouping. pending says
// that the transcripts are still read.
func (v *Viewer) sharings(a *history.Attempt, q url.Values, s *survey.Survey, pending bool) (list []sharing) {
	for i := range groupings {
		by := &groupings[i]
		if by.surveyed && s == nil && !pending {
			continue
		}
		x := sharing{grouping: by, Waiting: by.surveyed && s == nil, Current: q.Get("group") == by.Name, Chosen: q.Get(by.Name), AllURL: v.listURL(q, by.Name, "")}
		switch {
		case v.config.Still: // there is no file for it
		case x.Current:
			x.URL = v.listURL(q, "group", "")
		default:
			x.URL = v.listURL(q, "group", by.Name)
		}
		all := v.groupsOf(a, by, s)
		x.More = max(0, len(all)-maxGroups)
		for _, g := range all[:min(len(all), maxGroups)] {
			g.URL, g.Current = v.listURL(q, by.Name, g.Label), q.Get(by.Name) == g.Label
			x.Groups = append(x.Groups, g)
		}
		list = append(list, x)
	}
	return list
}

// listURL is the list with a value of the address changed, from its first page on.
func (v *Viewer) listURL(q url.Values, key, value string) string {
	return with(q, key, value, "page", "", "show", "", "repeat", "") + "#cases"
}

// arrange puts cases under the first of the groups that they are in, and keeps their order
// within each. It returns the group of each case.
func arrange(list []placed, by *grouping, groups []caseGroup, s *survey.Survey) (arranged []placed, of []*caseGroup) {
	at := map[string]int{}
	for i := range groups {
		at[groups[i].Label] = i
	}
	under := make([][]placed, len(groups)+1)
	for _, c := range list {
		k := len(groups)
		for _, label := range by.of(c, s) {
			if i, known := at[label]; known {
				k = min(k, i)
			}
		}
		under[k] = append(under[k], c)
	}
	none := &caseGroup{Label: by.None}
	for k, cases := range under {
		g := none
		if k < len(groups) {
			g = &groups[k]
		} else {
			none.N = len(cases)
			for _, c := range cases {
				if c.Outcome() != evidence.Passed {
					none.NotPassed++
				}
			}
		}
		arranged = append(arranged, cases...)
		for range cases {
			of = append(of, g)
		}
	}
	return arranged, of
}

// hiddenOf are the values of the list's address that a form keeps, but for those that it
// asks for itself.
func hiddenOf(q url.Values, asked string) (out []link) {
	list := listOf(q)
	for _, key := range slices.Sorted(maps.Keys(list)) {
		for _, value := range list[key] {
			if key != asked {
				out = append(out, link{Text: key, URL: value})
			}
		}
	}
	return out
}
