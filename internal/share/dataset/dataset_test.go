package dataset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/doubled"
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

// TestNoMemberMayBeThereTwice: a table in each of its forms, with every member of it doubled,
// however deep, and with names that are one to us because their case is not looked at.
func TestNoMemberMayBeThereTwice(t *testing.T) {
	read := func(name, data string) error {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Import(path, "", Mapping{})
		return err
	}
	const row = `{"task_id":"t1","Question":"How many?","Level":1,"Final answer":"3","file_name":"","Annotator Metadata":{"Steps":"1. count","Tools":[{"name":"none"}]}}`
	for _, whole := range []string{row, row + "\n" + strings.Replace(row, "t1", "t2", 1), "[" + row + "]", `{"data":[` + row + `],"version":1}`, "\n\n " + row} {
		if err := read("f.json", whole); err != nil {
			t.Fatalf("%s: %v", whole, err)
		}
		files, err := doubled.Every([]byte(whole))
		if err != nil || len(files) < 9 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, f := range files {
			if err := read("f.json", string(f.Data)); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), "f.json:") {
				t.Errorf("%s of %s: got %v", f.Path, whole, err)
			}
		}
	}
	second := func(name string) string { return strings.Replace(row, `"file_name"`, `"`+name+`":"4","file_name"`, 1) }
	for name, data := range map[string]string{
		"another case":          second("final answer"),
		"capitals":              second("FINAL ANSWER"),
		"a blank behind":        second("Final answer "),
		"an escape":             second(`\u0046inal answer`),
		"in the second line":    row + "\n" + strings.Replace(second("final Answer"), "t1", "t2", 1),
		"in a list":             "[" + second("final Answer") + "]",
		"a Kelvin sign":         `{"input":"a","key":"1","target":"b","` + "\u212aey" + `":"2"}`,
		"a header":              "question,answer,answer\na,b,c\n",
		"a header, other case":  "question,answer,Answer\na,b,c\n",
		"a header with a blank": "question,answer, answer\na,b,c\n",
		"a header in quotes":    "question,answer,\"answer\"\na,b,c\n",
	} {
		file := "f.jsonl"
		if strings.HasPrefix(name, "a header") {
			file = "f.csv"
		}
		if err := read(file, data); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), file+":") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := read("f.tsv", "question\tanswer\tANSWER\na\tb\tc\n"); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("a table with tabs: %v", err)
	}
	if err := read("f.jsonl", `{"input":"a","target":NaN}`); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("what is not a number: %v", err)
	}
}

// TestNamesOfAPromptfooConfigurationAreToldByTheirCase: Tests is not tests.
func TestNamesOfAPromptfooConfigurationAreToldByTheirCase(t *testing.T) {
	const config = "prompts: ['{{q}}']\ntests:\n  - vars: {q: a}\n    assert: [{type: equals, value: honest}]\n"
	for name, data := range map[string]string{
		"tests":  config + "Tests:\n  - vars: {q: a}\n    assert: [{type: equals, value: forged}]\n",
		"value":  strings.Replace(config, "value: honest", "value: honest, Value: forged", 1),
		"assert": config + "    Assert: [{type: equals, value: forged}]\n",
	} {
		path := filepath.Join(t.TempDir(), "promptfooconfig.yaml")
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Import(path, "", Mapping{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := got.JSONL(); err != nil || len(got.Cases) != 1 || strings.Contains(string(text), "forged") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		twice := strings.Replace(data, strings.ToUpper(name[:1])+name[1:]+":", name+":", 1)
		if err := os.WriteFile(path, []byte(twice), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Import(path, "", Mapping{}); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s twice: %v", name, err)
		}
	}
}
