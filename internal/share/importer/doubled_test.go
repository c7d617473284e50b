package importer

import (
	"archive/zip"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/doubled"
)

// TestNoMemberOfAnyFormatMayBeThereTwice doubles every member of every shape that an importer
// reads, whether it is read or passed over, and wants the file, the line and the member named.
func TestNoMemberOfAnyFormatMayBeThereTwice(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/formats/*.txtar")
	if err != nil || len(fixtures) < 30 {
		t.Fatalf("%d fixtures, %v", len(fixtures), err)
	}
	tried := 0
	for _, fixture := range fixtures {
		t.Run(strings.TrimSuffix(filepath.Base(fixture), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(fixture)
			if err != nil {
				t.Fatal(err)
			}
			if last := len(archive.Files) - 1; archive.Files[last].Name == "want" {
				archive.Files = archive.Files[:last]
			}
			dir := t.TempDir()
			unpack(t, dir, archive.Files, zip.Store)
			for i, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".sql") || !looksLikeJSON(f.Data) || !isRead(dir, archive.Files, f.Name) {
					continue
				}
				files, err := doubled.Every(f.Data)
				if err != nil {
					t.Fatalf("%s: %v", f.Name, err)
				}
				changed := slices.Clone(archive.Files)
				for _, twice := range files {
					tried++
					changed[i].Data = twice.Data
					rewrite(t, dir, changed, f.Name)
					_, err := Read(context.Background(), []string{dir}, Options{})
					if !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), "line ") {
						t.Errorf("%s %s: got %v", f.Name, twice.Path, err)
					}
				}
				rewrite(t, dir, archive.Files, f.Name)
			}
		})
	}
	if tried < 1000 {
		t.Errorf("only %d members were doubled", tried)
	}
}

// rewrite writes one file of a fixture again, or the archive that it is an entry of.
func rewrite(t *testing.T, dir string, files []txtar.File, name string) {
	t.Helper()
	folder, _, inArchive := strings.Cut(name, ".eval/")
	unpack(t, dir, slices.DeleteFunc(slices.Clone(files), func(f txtar.File) bool {
		return f.Name != name && !(inArchive && strings.HasPrefix(f.Name, folder+".eval/"))
	}), zip.Store)
}

// unread are files that no importer opens, though it knows whose they are: the trajectory
// of a trial is named in its row, a scenario describes no run, and a journal tells less than
// the header of the same archive.
var unread = []string{"agent/trajectory.json", "scenario.json", "_journal/start.json"}

// isRead reports whether a file of a fixture is part of what is imported; others are of
// programs that are not known.
func isRead(dir string, files []txtar.File, name string) bool {
	if slices.ContainsFunc(unread, func(end string) bool { return strings.HasSuffix(name, end) }) {
		return slices.IndexFunc(files, func(f txtar.File) bool { return f.Name != name && strings.HasSuffix(f.Name, ".json") }) < 0
	}
	if strings.Contains(name, ".eval/") {
		return true
	}
	f := &file{path: filepath.Join(dir, filepath.FromSlash(name))}
	return f.recognise(context.Background(), Options{}.withDefaults()) == nil && f.kind != ""
}

// TestNoColumnMayBeThereTwice: in a table of text, and in one that is JSON.
func TestNoColumnMayBeThereTwice(t *testing.T) {
	for what, data := range map[string]string{
		"a table":         "user_input,response,faithfulness,faithfulness\na,b,0,1\n",
		"a text column":   "user_input,response,response\na,b,c\n",
		"a mark in front": "\ufeffuser_input,response,user_input\na,b,c\n",
		"in quotes":       "user_input,response,\"response\"\na,b,c\n",
		"of MLflow":       `{"columns":["inputs","a/value","a/value"],"data":[["q",0,1]]}`,
	} {
		t.Run(what, func(t *testing.T) {
			_, err := readOne(t, "f", []byte(data))
			wantRefusal(t, err, refusal.Malformed, "columns", "f: ", "line 1")
		})
	}
}

// TestASpanAttributeMayNotBeThereTwice: its list is an object by another name.
func TestASpanAttributeMayNotBeThereTwice(t *testing.T) {
	span := func(attributes string) []byte {
		return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","spanId":"s","attributes":[` + attributes + `]}]}]}]}`)
	}
	for _, attributes := range []string{
		`{"key":"output.value","value":{"stringValue":"a"}},{"key":"output.value","value":{"stringValue":"b"}}`,
		`{"key":"output.value","value":{"stringValue":"a","intValue":1}}`,
	} {
		_, err := readOne(t, "f", span(attributes))
		wantRefusal(t, err, refusal.Malformed, "output.value", "twice")
	}
}
