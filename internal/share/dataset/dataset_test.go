package dataset

import (
	"encoding/json"
	"fmt"
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

// TestAnImageIsNotLeftOutOfItsQuestion: a row whose messages have parts that are not texts is
// left out; parts that are texts are the question.
func TestAnImageIsNotLeftOutOfItsQuestion(t *testing.T) {
	const rows = `{"input":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"What is"},{"type":"text","text":"red?"}]}],"target":"blood cells"}
{"input":[{"role":"user","content":[{"type":"image","image":"red.png"},{"type":"text","text":"What is this?"}]}],"target":"blood cells"}
{"input":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/red.png"}}]}],"target":"blood cells"}
{"input":[{"role":"user","content":["What?"]}],"target":"blood cells"}
`
	got := imported(t, "f.jsonl", rows, Mapping{})
	if len(got.Cases) != 1 || got.Cases[0].Input != "Be brief.\n\nWhat is\nred?" || len(got.LeftOut) != 3 || !strings.Contains(got.LeftOut[0], "not a text") {
		t.Errorf("%+v, left out %v", got.Cases, got.LeftOut)
	}
}

// TestAPromptfooFileIsReadOrLeftOut: where promptfoo reads a file or runs a program, the
// words of that file are read, or the test is left out; the name of a file in the place of
// its words would be another question, which any answer or none passes.
func TestAPromptfooFileIsReadOrLeftOut(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"c/in.txt": "INSIDE\n", "out.txt": "OUTSIDE", "c/gen.py": "print(1)"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ value, want string }{ // "" is left out, "=" is as it stands
		{"file://in.txt", "INSIDE"}, {" file://in.txt", "INSIDE"}, {"file://./in.txt", "INSIDE"},
		{"FILE://in.txt", ""}, {"file://../out.txt", ""}, {"File://../out.txt", ""}, {"file://gen.py", ""}, {"file://gen.py:get", ""},
		{"file:///etc/hostname", ""}, {"file://none.txt", ""}, {"file://*.txt", ""},
		{"File: report", "="}, {"What is in file://in.txt?", "="},
	} {
		for place, form := range map[string]string{
			"variable":  "prompts: ['Say {{q}}']\ntests:\n  - {vars: {q: %q}, assert: [{type: contains, value: x}]}\n",
			"default":   "prompts: ['Say {{q}}']\ndefaultTest: {vars: {q: %q}}\ntests:\n  - {assert: [{type: contains, value: x}]}\n",
			"prompt":    "prompts: [%q]\ntests:\n  - {vars: {q: a}, assert: [{type: contains, value: x}]}\n",
			"assertion": "prompts: ['Say {{q}}']\ntests:\n  - {vars: {q: a}, assert: [{type: contains, value: %q}]}\n",
			"list":      "prompts: ['Say {{q}}']\ntests:\n  - {vars: {q: a}, assert: [{type: contains-all, value: [%q, '{{q}}']}]}\n",
		} {
			path := filepath.Join(dir, "c", "promptfooconfig.yaml")
			if err := os.WriteFile(path, fmt.Appendf(nil, form, tt.value), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Import(path, "", Mapping{})
			if tt.want == "" {
				if !refusal.Is(err, refusal.Malformed) {
					t.Errorf("%s %q: %+v, %v", place, tt.value, got, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %q: %v", place, tt.value, err)
				continue
			}
			text, err := json.Marshal(got.Cases)
			if want := strings.Replace(tt.want, "=", tt.value, 1); err != nil || !strings.Contains(string(text), want) || tt.want != "=" && strings.Contains(string(text), "file://") || strings.Contains(string(text), "{{") {
				t.Errorf("%s %q: %s, %v", place, tt.value, text, err)
			}
		}
	}
	for _, prompt := range []string{"in.txt", "./in.txt"} { // the name of a file without file://
		path := filepath.Join(dir, "c", "promptfooconfig.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, "prompts: [%q]\ntests: [{vars: {q: a}, assert: [{type: equals, value: x}]}]\n", prompt), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Import(path, "", Mapping{}); err != nil || got.Cases[0].Input != "INSIDE\n" {
			t.Errorf("the prompt %s: %+v, %v", prompt, got, err)
		}
	}
	for _, prompt := range []string{"prompts/*.txt", "chat.json", "gen.py", "exec:cat in.txt", "https://example.com/prompt", "langfuse://x"} {
		path := filepath.Join(dir, "c", "promptfooconfig.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, "prompts: [%q]\ntests: [{vars: {q: a}, assert: [{type: equals, value: x}]}]\n", prompt), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Import(path, "", Mapping{}); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("the prompt %s: %+v, %v", prompt, got, err)
		}
	}
	// promptfoo makes a test of each value of a list.
	path := filepath.Join(dir, "c", "promptfooconfig.yaml")
	if err := os.WriteFile(path, []byte("prompts: ['{{q}}']\ntests: [{vars: {q: [a, b]}, assert: [{type: equals, value: x}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Import(path, "", Mapping{}); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("a list: %+v, %v", got, err)
	}
}

// TestChoicesAreChoices: however a table has its choices and names the right one, the case
// shows all of them and the letter of the right one is compared.
func TestChoicesAreChoices(t *testing.T) {
	for name, tt := range map[string]struct {
		file, data string
		want       string // letters of the cases
		kind       string
	}{
		"MMLU as CSV":             {"f.csv", "question,A,B,C,D,answer\nRed?,grass,blood,sky,snow,B\nBlue?,grass,blood,sky,snow,C\n", "BC", "label"},
		"small letters":           {"f.csv", "question,a,b,answer\nRed?,grass,blood,b\nGreen?,grass,blood,a\n", "BA", "label"},
		"brackets":                {"f.csv", "question,A,B,answer\nRed?,grass,blood,(B)\nGreen?,grass,blood,A.\n", "BA", "label"},
		"letter and text":         {"f.csv", "question,A,B,answer\nRed?,grass,blood,B) blood\nGreen?,grass,blood,A) grass\n", "BA", "label"},
		"a fifth that is missing": {"f.csv", "question,A,B,C,answer\nRed?,grass,blood,sky,B\nGreen?,grass,blood,,A\n", "BA", "label"},
		"numbered columns":        {"f.csv", "question,choice_1,choice_2,answer\nRed?,grass,blood,2\nGreen?,grass,blood,1\n", "BA", "label"},
		"option1, from 1":         {"f.csv", "sentence,option1,option2,answer\nThe _ is red,grass,blood,2\nThe _ is green,grass,blood,1\n", "BA", "label"},
		"sol1, from 0":            {"f.csv", "goal,sol1,sol2,label\nRed,grass,blood,1\nGreen,grass,blood,0\n", "BA", "index0"},
		"options with words":      {"f.csv", "Question,Option A,Option B,Correct Option\nRed?,grass,blood,Option B\nGreen?,grass,blood,Option A\n", "BA", "label"},
		"MedMCQA":                 {"f.jsonl", `{"question":"Red?","opa":"grass","opb":"blood","opc":"sky","cop":1}` + "\n" + `{"question":"Green?","opa":"grass","opb":"blood","opc":"sky","cop":0}`, "BA", "index0"},
		"text of the choice":      {"f.csv", "question,A,B,answer\nRed?,grass,blood,Blood\nGreen?,grass,blood,grass\n", "BA", "text"},
		"a list and a place":      {"f.jsonl", `{"question":"Red?","choices":["grass","blood","sky"],"answer":1}` + "\n" + `{"question":"Green?","choices":["grass","blood","sky"],"answer":0}`, "BA", "index0"},
		"a list, from 1":          {"f.jsonl", `{"question":"Red?","choices":["grass","blood"],"answer":2}` + "\n" + `{"question":"Green?","choices":["grass","blood"],"answer":1}`, "BA", "index1"},
		"numbers, and a place":    {"f.jsonl", `{"question":"1+1?","choices":["3","2","0"],"answer":1}` + "\n" + `{"question":"1+2?","choices":["3","2","0"],"answer":0}`, "BA", "index0"},
		"numbers, by text":        {"f.jsonl", `{"question":"1+1?","options":["3","2","0"],"answer":"2"}` + "\n" + `{"question":"1+2?","options":["3","2","0"],"answer":"3"}`, "BA", "text"},
		"ARC":                     {"f.jsonl", `{"question":"Red?","choices":{"text":["grass","blood"],"label":["A","B"]},"answerKey":"B"}` + "\n" + `{"question":"Green?","choices":{"text":["grass","blood"],"label":["1","2"]},"answerKey":"1"}`, "BA", "label"},
		"ARC as published":        {"f.jsonl", `{"id":"q","question":{"stem":"Red?","choices":[{"text":"grass","label":"A"},{"text":"blood","label":"B"}]},"answerKey":"B"}`, "B", "label"},
		"names of columns":        {"f.csv", "question,option_a,option_b,answer\nRed?,grass,blood,option_b\nGreen?,grass,blood,option_a\n", "BA", "label"},
		"MedQA":                   {"f.jsonl", `{"question":"Red?","options":{"A":"grass","B":"blood"},"answer":"blood","answer_idx":"B"}`, "B", "text"},
		"only answer_idx":         {"f.jsonl", `{"question":"Red?","options":{"A":"grass","B":"blood"},"answer_idx":"B"}`, "B", "label"},
		"MMLU-Pro":                {"f.jsonl", `{"question":"Red?","options":["grass","blood"],"answer":"B","answer_index":1}`, "B", "letter"},
		"HellaSwag":               {"f.jsonl", `{"ctx":"Blood is","endings":["green","red","blue"],"label":"1"}` + "\n" + `{"ctx":"Grass is","endings":["green","red","blue"],"label":"0"}`, "BA", "index0"},
		"AQuA":                    {"f.jsonl", `{"question":"1+1?","options":["A)3","B)2"],"correct":"B"}`, "B", "label"},
		"objects":                 {"f.jsonl", `{"question":"Red?","choices":[{"label":"x1","text":"grass"},{"label":"x2","text":"blood"}],"answer":"x2"}`, "B", "label"},
		"a list in a cell":        {"f.csv", "question,choices,answer\nRed?,\"[\"\"grass\"\", \"\"blood\"\"]\",B\n", "B", "letter"},
		"a list of Python":        {"f.csv", "question,choices,answer\nRed?,\"['grass', \"\"it's blood\"\"]\",it's blood\n", "B", "text"},
		"bars":                    {"f.csv", "question,options,answer\nRed?,grass|blood,blood\n", "B", "text"},
		"lines":                   {"f.csv", "question,options,answer\nRed?,\"A. grass\nB. blood\",B\n", "B", "label"},
		"Inspect":                 {"f.jsonl", `{"input":"Red?","choices":["grass","blood"],"target":["B"]}`, "B", "letter"},
		"yes and no":              {"f.csv", "question,answer\nIs blood red?,Yes\nIs grass red?,no\n", "BA", "text"},
		"true and false":          {"f.jsonl", `{"question":"Is blood red?","answer":true}` + "\n" + `{"question":"Is grass red?","answer":false}`, "BA", "text"},
		"labels":                  {"f.csv", "text,label\nGood!,positive\nBad!,negative\nFine,positive\nAwful,negative\n", "BABA", "text"},
		"labels as numbers":       {"f.csv", "text,label\nGood!,1\nBad!,0\nFine,1\nAwful,0\n", "BABA", "text"},
	} {
		t.Run(name, func(t *testing.T) {
			got := imported(t, tt.file, tt.data, Mapping{})
			if got.Mapping.AnswerIs != tt.kind || got.Mapping.Grade != "choice" || len(got.LeftOut) > 0 {
				t.Errorf("%+v, left out %v", got.Mapping, got.LeftOut)
			}
			letters := ""
			for _, c := range got.Cases {
				letters += c.Expected.(string)
				text, _ := json.Marshal(c.Grade)
				if !strings.Contains(c.Input, "\nA) ") || !strings.Contains(c.Input, "\nB) ") || string(text) != `{"kind":"normalised"}` || c.Extract == nil {
					t.Errorf("%+v", c)
				}
			}
			if letters != tt.want {
				t.Errorf("the right ones are %s, want %s", letters, tt.want)
			}
		})
	}
	// The right answer is one of its wrong ones, in a place of its own.
	got := imported(t, "f.csv", "question,correct_answer,distractor1,distractor2\nRed?,blood,grass,sky\nGreen?,grass,blood,sky\n", Mapping{})
	for i, want := range []string{"blood", "grass"} {
		c := got.Cases[i]
		if !strings.Contains(c.Input, c.Expected.(string)+") "+want+"\n") || strings.Count(c.Input, ") ") != 3 {
			t.Errorf("%+v", c)
		}
	}
}

// TestWhatIsNotClearIsAsked: nothing is guessed where two readings differ, and columns
// that only look like choices are none.
func TestWhatIsNotClearIsAsked(t *testing.T) {
	const letters = `{"question":"After A?","choices":["B","A","C"],"answer":"B"}`
	if _, err := tryImport(t, "f.jsonl", letters, Mapping{}); !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), "not clear") {
		t.Errorf("letters as choices: %v", err)
	}
	for kind, want := range map[string]string{"letter": "B", "text": "A"} {
		if got := imported(t, "f.jsonl", letters, Mapping{AnswerIs: kind}); got.Cases[0].Expected != want {
			t.Errorf("%s: %+v", kind, got.Cases[0])
		}
	}
	// A small set whose places are neither the first nor the last: from 0 or from 1?
	for name, tt := range map[string]struct {
		data string
		is   map[string]string
	}{
		"places":              {`{"question":"Red?","choices":["grass","blood","sky","coal"],"answer":1}` + "\n" + `{"question":"Blue?","choices":["grass","blood","sky","coal"],"answer":2}`, map[string]string{"index0": "BC", "index1": "AB"}},
		"places in a table":   {"question,A,B,C,answer\nRed?,blood,grass,sky,1\nBlue?,grass,sky,blood,2\n", map[string]string{"index0": "BC", "index1": "AB"}},
		"numbers of a column": {"question,opa,opb,opc,opd,cop\nRed?,grass,blood,sky,coal,1\nBlue?,grass,blood,sky,coal,3\n", map[string]string{"index0": "BD", "index1": "AC"}},
		"places or numbers":   {`{"question":"1+1?","choices":[2,1,0],"answer":2}`, map[string]string{"text": "A", "index0": "C"}},
	} {
		file := "f.csv"
		if tt.data[0] == '{' {
			file = "f.jsonl"
		}
		if got, err := tryImport(t, file, tt.data, Mapping{}); !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), "not clear") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for kind, want := range tt.is {
			letters := ""
			for _, c := range imported(t, file, tt.data, Mapping{AnswerIs: kind}).Cases {
				letters += c.Expected.(string)
			}
			if letters != want {
				t.Errorf("%s, %s: %s, want %s", name, kind, letters, want)
			}
		}
	}
	got := imported(t, "f.csv", "question,a,b,answer\nWhat is a + b?,3,4,7\nWhat is a + b?,2,2,4\n", Mapping{})
	if got.Mapping.Grade != "number" || len(got.Mapping.ChoiceColumns) > 0 {
		t.Errorf("operands: %+v", got.Mapping)
	}
	got = imported(t, "f.csv", "question,first,second,answer\nRed?,grass,blood,blood\n", Mapping{Choices: "first, second"})
	if got.Cases[0].Expected != "B" {
		t.Errorf("columns that a person names: %+v", got.Cases[0])
	}
	if _, err := tryImport(t, "f.csv", "question,first,answer\nRed?,grass,blood\n", Mapping{Choices: "first,last"}); !refusal.Is(err, refusal.UnknownName) {
		t.Errorf("a column that is not there: %v", err)
	}
	// A row whose answer is none of its choices, or two of them, is left out and listed.
	got = imported(t, "f.csv", "question,A,B,answer\nRed?,grass,blood,B\nBlue?,grass,blood,sky\n", Mapping{})
	if len(got.Cases) != 1 || len(got.LeftOut) != 1 || !strings.Contains(got.LeftOut[0], "not one of the choices") {
		t.Errorf("%v", got.LeftOut)
	}
}

// TestShortAnswersAreWholeWords: what is not a choice or a number stands in the answer as
// whole words, and one character is the whole answer.
func TestShortAnswersAreWholeWords(t *testing.T) {
	got := imported(t, "f.csv", "question,answer\nCapital of Norway?,Oslo\nFirst letter?,A\nOf France?,Paris\n", Mapping{})
	for i, want := range []string{`{"kind":"contains","normalised":true,"words":true}`, `{"kind":"normalised"}`, `{"kind":"contains","normalised":true,"words":true}`} {
		if text, _ := json.Marshal(got.Cases[i].Grade); string(text) != want {
			t.Errorf("case %d: %s", i, text)
		}
	}
	// Choices that only the question has: the letter is asked for, however it is spelled.
	inline := "question,answer\n"
	for range 6 {
		inline += "\"Which? A) grass B) blood\",(B)\n\"Which? A) sky B) snow\",C.\n"
	}
	for _, c := range imported(t, "f.csv", inline, Mapping{}).Cases {
		if text, _ := json.Marshal(c.Grade); string(text) != `{"kind":"normalised"}` || c.Expected != "B" && c.Expected != "C" || !strings.Contains(c.Input, "ANSWER: ") {
			t.Errorf("%+v", c)
		}
	}
	list := imported(t, "f.jsonl", `{"input":"A vowel?","target":["A","E"]}`+"\n"+`{"input":"A planet?","target":["Mars","Venus"]}`, Mapping{})
	if text, _ := json.Marshal(list.Cases[0].Grade); strings.Contains(string(text), "contains") {
		t.Errorf("letters: %s", text)
	}
	if text, _ := json.Marshal(list.Cases[1].Grade); strings.Count(string(text), `"words":true`) != 2 {
		t.Errorf("words: %s", text)
	}
}

func tryImport(t *testing.T, name, data string, m Mapping) (*Imported, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return Import(path, "", m)
}

func imported(t *testing.T, name, data string, m Mapping) *Imported {
	t.Helper()
	got, err := tryImport(t, name, data, m)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
