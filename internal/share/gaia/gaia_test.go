package gaia

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// A row of metadata, for a test to change.
func row(changes map[string]any) string {
	m := map[string]any{"task_id": "t-1", "Question": "Which?", "Level": 1, "Final answer": "a", "file_name": ""}
	for k, v := range changes {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
	data, _ := json.Marshal(m)
	return string(data)
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const metadata = "2023/validation/metadata.jsonl"

func TestReadTakesEveryShapeOfTheDataSet(t *testing.T) {
	rows := row(map[string]any{"file_name": "a.xlsx"}) + "\n" + row(map[string]any{"task_id": "t-2", "Level": " 3 ", "Final answer": 42}) + "\n"
	for name, dir := range map[string]string{
		"a whole copy":         folder(t, map[string]string{metadata: rows, "2023/validation/a.xlsx": "x"}),
		"a split":              folder(t, map[string]string{"metadata.jsonl": rows, "a.xlsx": "x"}),
		"a byte order mark":    folder(t, map[string]string{"metadata.jsonl": "\ufeff" + rows, "a.xlsx": "x"}),
		"lines as Windows has": folder(t, map[string]string{"metadata.jsonl": strings.ReplaceAll(rows, "\n", "\r\n"), "a.xlsx": "x"}),
	} {
		d, err := Read(Options{Path: dir, Split: Validation})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(d.Tasks) != 2 || d.Tasks[0].File.Name != "a.xlsx" || d.Tasks[1].Level != 3 || d.Tasks[1].Answer != "42" || len(d.Files) != 2 || d.Attachments() != 1 || !strings.HasPrefix(d.Revision, "files-sha256-") {
			t.Errorf("%s: %+v", name, d)
		}
	}
	one, err := Read(Options{Path: folder(t, map[string]string{"metadata.jsonl": rows, "a.xlsx": "x"}), Split: Validation, Level: 3, Revision: "r1"})
	if err != nil || len(one.Tasks) != 1 || one.Attachments() != 0 || one.Revision != "r1" {
		t.Errorf("%+v, %v", one, err)
	}
}

func TestReadRefusesWithThePlace(t *testing.T) {
	for _, tt := range []struct {
		name, split string
		rows        []string
		files       map[string]string
		want        string
	}{
		{"a name that leaves the folder", Validation, []string{row(map[string]any{"file_name": "../../etc/passwd"})}, nil, `file_name is "../../etc/passwd"`},
		{"a folder in the name", Validation, []string{row(map[string]any{"file_name": "sub/a.txt"})}, map[string]string{"2023/validation/sub/a.txt": "x"}, "file_name is"},
		{"backslashes", Validation, []string{row(map[string]any{"file_name": `..\a.txt`})}, nil, "file_name is"},
		{"an absolute name", Validation, []string{row(map[string]any{"file_name": "/etc/passwd"})}, nil, "file_name is"},
		{"a file that is missing", Validation, []string{row(map[string]any{"file_name": "gone.pdf"})}, nil, "the file gone.pdf is missing"},
		{"a task twice", Validation, []string{row(nil), row(nil)}, nil, "metadata.jsonl:2: task t-1 is there already: metadata.jsonl:1"},
		{"an id that looks like another", Validation, []string{row(map[string]any{"task_id": "task-0"}), row(map[string]any{"task_id": "task-O"})}, nil, "is there already"},
		{"an id that is not one", Validation, []string{row(map[string]any{"task_id": "../x"})}, nil, "task_id: the name"},
		{"no id", Validation, []string{row(map[string]any{"task_id": nil})}, nil, "task_id is"},
		{"a level beyond", Validation, []string{row(map[string]any{"Level": 4})}, nil, `Level is "4"`},
		{"a level as a fraction", Validation, []string{row(map[string]any{"Level": 1.5})}, nil, `Level is "1.5"`},
		{"a level that is a list", Validation, []string{row(map[string]any{"Level": []int{1}})}, nil, "Level is"},
		{"a question with NUL", Validation, []string{row(map[string]any{"Question": "a\x00b"})}, nil, `Question has the control character '\x00' at byte 1`},
		{"no question", Validation, []string{row(map[string]any{"Question": " "})}, nil, "Question is"},
		{"no answer", Validation, []string{row(map[string]any{"Final answer": "?"})}, nil, "task t-1 has no Final answer"},
		{"an answer in the test split", Test, []string{row(nil)}, nil, "the test split has none"},
		{"NaN", Validation, []string{`{"task_id":"t-1","Level":NaN}`}, nil, "metadata.jsonl"},
		{"a cut line", Validation, []string{row(nil), `{"task_id":"t-2","Lev`}, nil, "metadata.jsonl:2"},
		{"UTF-16", Validation, []string{"\xff\xfe{\x00}\x00"}, nil, "UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"2023/" + tt.split + "/metadata.jsonl": strings.Join(tt.rows, "\n") + "\n"}
			for name, text := range tt.files {
				files[name] = text
			}
			d, err := Read(Options{Path: folder(t, files), Split: tt.split})
			if err == nil || refusal.ExitCode(err) != 1 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v; want %q", d, err, tt.want)
			}
		})
	}
}

// TestAttachmentsAreFilesOfTheirFolder: a link could lead to any file of the
// machine, and a file of 2 GiB is refused before it is read.
func TestAttachmentsAreFilesOfTheirFolder(t *testing.T) {
	dir := folder(t, map[string]string{"metadata.jsonl": row(map[string]any{"file_name": "link.txt"}) + "\n", "../secret.txt": "s"})
	if err := os.Symlink(filepath.Join(dir, "..", "secret.txt"), filepath.Join(dir, "link.txt")); err != nil {
		t.Skip(err)
	}
	if _, err := Read(Options{Path: dir, Split: Validation}); err == nil || !strings.Contains(err.Error(), "leads out of the folder") {
		t.Errorf("a link: %v", err)
	}
	dir = folder(t, map[string]string{"metadata.jsonl": row(map[string]any{"file_name": "big.bin"}) + "\n", "big.bin": ""})
	if err := os.Truncate(filepath.Join(dir, "big.bin"), 2<<30); err != nil {
		t.Skip(err)
	}
	if _, err := Read(Options{Path: dir, Split: Validation}); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("2 GiB: %v", err)
	}
}

func TestSmokeTasksAreFive(t *testing.T) {
	d, err := Read(Options{Split: Smoke})
	if err != nil || len(d.Tasks) != 5 || d.Attachments() != 1 || fmt.Sprint(d.Levels()) != "map[1:3 2:1 3:1]" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := Read(Options{Path: filepath.Join(t.TempDir(), "nothing"), Split: Validation}); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestParquetIsReadWithItsFiles: as it is published, in one file or one for each
// level; testdata/make.py wrote them.
func TestParquetIsReadWithItsFiles(t *testing.T) {
	file := func(name string) string {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	levels := map[string]string{"table.csv": "town\nNordby\n"}
	for _, name := range []string{"metadata.level1.parquet", "metadata.level2.parquet", "metadata.level3.parquet"} {
		levels["2023/validation/"+name] = file(name)
	}
	levels["2023/validation/table.csv"] = levels["table.csv"]
	for name, files := range map[string]map[string]string{
		"one file":            {"2023/validation/metadata.parquet": file("metadata.parquet"), "2023/validation/table.csv": "town\nNordby\n"},
		"a file a level":      levels,
		"a folder of a split": {"metadata.parquet": file("metadata.parquet"), "table.csv": "town\nNordby\n"},
	} {
		d, err := Read(Options{Path: folder(t, files), Split: Validation})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, task := range d.Tasks {
			got = append(got, fmt.Sprint(task.ID[:8], " ", task.Level, " ", task.Answer))
		}
		if want := "00000001 1 northwest-301|00000002 1 northwest-302|00000003 2 northwest-303|00000004 3 northwest-304"; strings.Join(got, "|") != want {
			t.Errorf("%s: %s", name, strings.Join(got, "|"))
		}
		if d.Attachments() != 1 || string(d.Tasks[1].File.Data) != "town\nNordby\n" || d.Tasks[1].Question != "Which wind was logged on day 2?" {
			t.Errorf("%s: %+v", name, d.Tasks[1])
		}
	}
	one, err := Read(Options{Path: folder(t, levels), Split: Validation, Level: 2})
	if err != nil || len(one.Tasks) != 1 || one.Tasks[0].Level != 2 {
		t.Errorf("%+v, %v", one, err)
	}
	// What is missing, twice or cut is named with its row.
	for name, bad := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no attachment": {map[string]string{"metadata.parquet": file("metadata.parquet")}, "metadata.parquet, row 2: task 00000002-0000-4000-8000-000000000000: the file table.csv is missing"},
		"a task twice":  {map[string]string{"metadata.level1.parquet": file("metadata.level1.parquet"), "metadata.level2.parquet": file("metadata.level1.parquet"), "table.csv": "x"}, "metadata.level2.parquet, row 1: task 00000001-0000-4000-8000-000000000000 is there already"},
		"cut":           {map[string]string{"metadata.parquet": file("metadata.parquet")[:500]}, "metadata.parquet"},
		"answers":       {map[string]string{"metadata.parquet": file("metadata.parquet"), "table.csv": "x"}, ""},
	} {
		split := Validation
		if name == "answers" {
			split, bad.want = Test, "the test split has none"
		}
		if _, err := Read(Options{Path: folder(t, bad.files), Split: split}); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, expected %q", name, err, bad.want)
		}
	}
}
