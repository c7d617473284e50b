package harness

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestSelectionTakesAnyOfAndLeavesOut(t *testing.T) {
	cases := map[string][]string{"alpha": {"easy"}, "beta": {"easy", "slow"}, "gamma": {"hard"}}
	for _, tt := range []struct {
		cases, tags, want string
	}{
		{"", "", "alpha beta gamma"},
		{"a* g*", "", "alpha gamma"},
		{"!b*", "", "alpha gamma"},
		{"a* b* !beta", "", "alpha"},
		{"", "easy hard", "alpha beta gamma"},
		{"", "easy !slow", "alpha"},
		{"", "!slow", "alpha gamma"},
		{"b*", "easy", "beta"},
		{"g*", "easy", ""},
	} {
		s := Selection{Cases: strings.Fields(tt.cases), Tags: strings.Fields(tt.tags)}
		var got []string
		for id, tags := range cases {
			if s.Matches(id, tags) {
				got = append(got, id)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tt.want {
			t.Errorf("--case %q --tag %q selects %q, want %q", tt.cases, tt.tags, got, tt.want)
		}
	}
}

// TestSampleIsTheSameEverywhere fixes which cases a seed draws: another version of
// the program must draw the same.
func TestSampleIsTheSameEverywhere(t *testing.T) {
	ids := make([]string, 100)
	places := make([]int, len(ids))
	for i := range ids {
		ids[i], places[i] = fmt.Sprintf("case-%02d", i), i
	}
	id := func(i int) string { return ids[i] }
	first := (&Selection{Sample: 5, Seed: 1}).take(places, id)
	if got, want := fmt.Sprint(first), "[36 43 47 57 81]"; got != want {
		t.Errorf("seed 1 draws %s, want %s", got, want)
	}
	if other := (&Selection{Sample: 5, Seed: 2}).take(places, id); slices.Equal(first, other) {
		t.Errorf("seeds 1 and 2 draw the same: %v", other)
	}
	// One case more changes at most one of the sample.
	ids, places = append(ids, "case-new"), append(places, 100)
	kept := 0
	for _, i := range (&Selection{Sample: 5, Seed: 1}).take(places, id) {
		if slices.Contains(first, i) {
			kept++
		}
	}
	if kept < 4 {
		t.Errorf("of the sample only %d cases stayed when the bench got one more", kept)
	}
	if got := (&Selection{Limit: 3}).take(places, id); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("the first three are %v", got)
	}
}

func TestSelectionRefusesWhatSelectsNothing(t *testing.T) {
	for _, s := range []Selection{
		{Cases: []string{"["}}, {Cases: []string{""}}, {Cases: []string{"!"}}, {Tags: []string{""}}, {Tags: []string{"!"}},
		{Limit: -1}, {Sample: -1}, {Limit: 1, Sample: 1},
	} {
		if err := s.Validate(); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	looked := []look{{id: "alpha", tags: []string{"easy"}}, {id: "beta"}}
	for _, s := range []Selection{{Cases: []string{"alpha", "betta"}}, {Tags: []string{"eazy"}}} {
		err := s.check("c", looked)
		if !refusal.Is(err, refusal.UnknownName) || !strings.Contains(refusal.Of(err).Hint, "did you mean") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if err := (&Selection{Cases: []string{"!gone"}, Tags: []string{"!gone"}}).check("c", looked); err != nil {
		t.Errorf("leaving out what is not there: %v", err)
	}
}
