package dataset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestParquetBecomesCases(t *testing.T) {
	got, err := Import("../parquet/testdata/snappy.parquet", "", Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Format != "parquet" || got.Mapping.Input != "question" || got.Mapping.Expected != "answer" || got.Mapping.Grade != "number" {
		t.Errorf("%+v %+v", got, got.Mapping)
	}
	// Every seventh row has no answer.
	if len(got.Cases) != 34 || len(got.LeftOut) != 6 || !strings.Contains(got.LeftOut[0], "snappy.parquet, row 1: ") {
		t.Errorf("%d cases, left out %v", len(got.Cases), got.LeftOut)
	}
	c := got.Cases[0]
	if c.ID != "1" || c.Input != "What is 1 + 1?" || c.Expected != json.Number("2") || c.Metadata["big"] != json.Number("1099511627777") {
		t.Errorf("%+v", c)
	}
}

func TestIDsThatLookAlikeAreNotUsed(t *testing.T) {
	table := func(ids ...string) *Table {
		x := &Table{Source: "t", Columns: []string{"id", "input", "target"}}
		for _, id := range ids {
			x.Rows = append(x.Rows, Row{"here", map[string]any{"id": id, "input": "q", "target": "a"}})
		}
		return x
	}
	for _, tt := range []struct {
		ids  []string
		want string
	}{
		{[]string{"a", "b"}, "a b"},
		{[]string{"a1", "al"}, "row-1 row-2"},
		{[]string{"a", "a"}, "row-1 row-2"},
		{[]string{"a", "../b"}, "row-1 row-2"},
		{[]string{"a", ""}, "row-1 row-2"},
	} {
		x := table(tt.ids...)
		m, err := x.Guess(Mapping{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(x.ids(m), " "); got != tt.want {
			t.Errorf("%v: %s", tt.ids, got)
		}
	}
}

func TestFillRefusesWhatItCannotDo(t *testing.T) {
	vars := map[string]any{"a": "x", "n": json.Number("3")}
	if got, err := fill("{{a}} and {{ n }}", vars); err != nil || got != "x and 3" {
		t.Errorf("%q, %v", got, err)
	}
	for _, template := range []string{"{{b}}", "{{a | upper}}", "{% if a %}x{% endif %}"} {
		if got, err := fill(template, vars); err == nil {
			t.Errorf("%s gave %q", template, got)
		}
	}
}

// FuzzImport reads anything as a table: it must end, and never make a case
// without an input or without a way to grade it.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{"id,question,answer\n1,a,b\n", `[{"input":"a","target":["x"]}]`, `{"input":"a","target":1}` + "\n", `{"data":[{"prompt":"p","choices":["a"],"target":0}]}`} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "f.csv")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Import(path, "", Mapping{})
		if err != nil {
			if refusal.Of(err).Name == refusal.Failed {
				t.Errorf("an error without a name: %v", err)
			}
			return
		}
		for _, c := range got.Cases {
			if c.Input == "" || c.Grade == nil && c.Checks == nil {
				t.Errorf("%+v", c)
			}
		}
		if _, err := got.JSONL(); err != nil {
			t.Error(err)
		}
	})
}
