package importer

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

const importPage = "../../../docs/formats/import.md"

// tableOf is the table of docs/formats/import.md.
func tableOf(list []*harness) string {
	var b strings.Builder
	b.WriteString("| Harness | Recognised by | A run is | Scores of a row |\n|---|---|---|---|\n")
	for _, h := range list {
		b.WriteString("| " + strings.Join([]string{h.name, h.recognised, h.runs, h.scores}, " | ") + " |\n")
	}
	return b.String()
}

// TestImportPageListsTheHarnesses compares the page with the rows. With -update,
// as "make docs" runs it, it writes the table.
func TestImportPageListsTheHarnesses(t *testing.T) {
	page, err := os.ReadFile(importPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), "| Harness | Recognised by |")
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no table of harnesses")
	}
	want := before + tableOf(harnesses) + "\n" + after
	if *update {
		if err := os.WriteFile(importPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Error(`the table of docs/formats/import.md is not that of the program; run "make docs" and read the diff`)
	}
}

// madeUp is a harness that does not exist: everything that adding one takes.
var madeUp = harness{
	name:       "Made Up",
	recognised: "`quests` with `glory`",
	runs:       "a file",
	scores:     "`glory`",
	parts:      []part{{kind: "made-up", fits: func(s *Shape) bool { return s.Has("quests[].glory") }}},
	read: alone(map[kind]func(*session, *file) error{"made-up": func(s *session, f *file) error {
		b := s.begin("made_up")
		err := s.json(f, func(r *jsonstream.Reader) error {
			return object(r, fields{"quests": func() error {
				return list(r, func(i int) error {
					s := results.Sample{ID: string(rune('a' + i)), Scores: map[string]results.Score{}}
					err := object(r, fields{"glory": func() (err error) {
						s.Scores["glory"], err = readScore(r)
						return err
					}})
					if err != nil {
						return err
					}
					return b.Add(s, "")
				})
			}})
		})
		b.finish(f)
		return err
	}}),
}

// TestAFurtherHarnessIsOneFileAndOneRow adds one to a copy of the table.
func TestAFurtherHarnessIsOneFileAndOneRow(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "r.json", []byte(`{"quests":[{"glory":1},{"glory":0}]}`))
	if _, err := Read(context.Background(), []string{"r.json"}, Options{}); err == nil {
		t.Error("it is read without its row")
	}
	all := append(slices.Clone(harnesses), &madeUp)
	runs, err := Read(context.Background(), []string{"r.json"}, Options{harnesses: all})
	if err != nil || len(runs) != 1 || runs[0].Harness != "made_up" || runs[0].Samples != 2 || runs[0].Scored != 2 {
		t.Errorf("read as %+v, %v", runs, err)
	}
	if !slices.Contains(namesOf(all), "Made Up") || !strings.HasSuffix(tableOf(all), "| Made Up | `quests` with `glory` | a file | `glory` |\n") {
		t.Error("help and documents do not list it")
	}
}
