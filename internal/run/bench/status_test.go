package bench

import (
	"slices"
	"testing"

	"tallystick/internal/record/refusal"
)

// Who has signed is not asked again, and when only a role is missing, only
// those who hold it are asked.
func TestStatusNamesThoseWhoAreLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signed []string
		want   []string // left for the manifest and for the pins
	}{
		{"no person has signed", nil, []string{"alice", "bob", "heidi"}},
		{"one has signed", []string{"alice"}, []string{"bob", "heidi"}},
		{"two have, without the security role", []string{"alice", "heidi"}, []string{"bob"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			if tt.signed == nil {
				f.remove("bench/greet/manifest.yaml.sig")
				f.remove(PinsFile + ".sig")
			} else {
				f.sealManifest(tt.signed...)
				f.sealPins(tt.signed...)
			}
			missing, err := f.load().Status(f.root, f.opt)
			f.must(err)
			if len(missing) != 2 {
				t.Fatalf("missing: %+v", missing)
			}
			for _, m := range missing {
				if got := keep(m.Who, "alice", "bob", "heidi"); !slices.Equal(got, tt.want) {
					t.Errorf("%s: asks %v of %v, want %v", m.What, got, m.Who, tt.want)
				}
			}
		})
	}
	t.Run("pins that do not list the class", func(t *testing.T) {
		f := newFixture(t)
		f.edit(PinsFile, "classes:\n  - \"greet\"", "classes: []")
		missing, err := f.load().Status(f.root, f.opt)
		f.must(err)
		if len(missing) != 1 || missing[0].Who != nil {
			t.Errorf("missing: %+v", missing)
		}
	})
}

func keep(names []string, known ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(known, n) })
}

// A name under which no person can sign would cost a ceremony before it is
// noticed.
func TestPeopleAreThoseWhoMaySign(t *testing.T) {
	f := newFixture(t)
	a, r, err := People("alice", "bob", f.opt)
	f.must(err)
	if a.Identity != "alice" || r.Identity != "bob" {
		t.Errorf("got %v and %v", a, r)
	}
	for _, tt := range []struct{ added, reviewed string }{
		{"stranger", "bob"}, {"alice", "stranger"}, {"alice", "alice"}, {"ALICE", "bob"},
	} {
		if _, _, err := People(tt.added, tt.reviewed, f.opt); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%s and %s: %v", tt.added, tt.reviewed, err)
		}
	}
	if a, r, err := People("", "", f.opt); err != nil || a != nil || r != nil {
		t.Errorf("with several to choose from it chose %v and %v, %v", a, r, err)
	}
}

func TestTemplateRefusesWhatNoCaseMayHave(t *testing.T) {
	for _, title := range []string{"two\nlines", "a\x1b[31mred", "right\u202eleft", string(slices.Repeat([]byte("a"), 301))} {
		if err := NewCase("a", title, nil, nil, now).Check(); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("title %.20q: %v", title, err)
		}
	}
}
