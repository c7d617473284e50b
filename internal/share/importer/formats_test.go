package importer

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/txtar"

	"tallystick/internal/read/results"
	"tallystick/internal/share/zipfile"
)

var update = flag.Bool("update", false, "write what is read into the fixtures")

// unpack writes the files of a fixture into a folder. A folder called *.eval
// becomes an archive, one called *.sqlite a database made by its schema.sql.
func unpack(t testing.TB, dir string, files []txtar.File, method uint16) {
	t.Helper()
	archives := map[string][]txtar.File{}
	var order []string
	for _, f := range files {
		if name, entry, ok := strings.Cut(f.Name, ".eval/"); ok {
			if archives[name] == nil {
				order = append(order, name)
			}
			archives[name] = append(archives[name], txtar.File{Name: entry, Data: f.Data})
			continue
		}
		if name, ok := strings.CutSuffix(f.Name, "/schema.sql"); ok {
			database(t, filepath.Join(dir, name), string(f.Data))
			continue
		}
		write(t, filepath.Join(dir, filepath.FromSlash(f.Name)), f.Data)
	}
	for _, name := range order {
		write(t, filepath.Join(dir, name+".eval"), zipped(t, archives[name], method))
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func database(t testing.TB, path, schema string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(schema); err != nil {
		t.Fatal(err)
	}
}

// zipped makes an archive. Entries of method 93 are two zstd frames, as long
// entries of Inspect are.
func zipped(t testing.TB, files []txtar.File, method uint16) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		if method != zipfile.Zstd {
			w, err := z.CreateHeader(&zip.FileHeader{Name: f.Name, Method: method})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(f.Data); err != nil {
				t.Fatal(err)
			}
			continue
		}
		enc, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		half := len(f.Data) / 2
		packed := enc.EncodeAll(f.Data[half:], enc.EncodeAll(f.Data[:half], nil))
		raw(t, z, f.Name, method, packed, f.Data)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// importDir reads a folder and returns the runs, with paths from the folder and
// without digests, and the samples of each.
func importDir(t testing.TB, dir string) ([]results.Run, [][]results.Sample) {
	t.Helper()
	var samples [][]results.Sample
	runs, err := Read(context.Background(), []string{dir}, Options{Each: func(run int, s results.Sample) error {
		for len(samples) <= run {
			samples = append(samples, nil)
		}
		samples[run] = append(samples[run], s)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		shorten := func(s *results.Source) {
			if len(s.SHA256) != 64 {
				t.Errorf("%s: digest %q", s.Path, s.SHA256)
			}
			s.Path, _ = filepath.Rel(dir, s.Path)
			s.Path, s.SHA256 = filepath.ToSlash(s.Path), ""
		}
		shorten(&runs[i].Source)
		for j := range runs[i].Files {
			shorten(&runs[i].Files[j])
		}
	}
	for len(samples) < len(runs) {
		samples = append(samples, nil)
	}
	return runs, samples
}

// TestEveryFormat reads a fixture of each format and compares all that is read
// with what the fixture says: the runs, and for each sample its id, state,
// scores and the beginnings of its texts.
func TestEveryFormat(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/formats/*.txtar")
	if err != nil || len(fixtures) == 0 {
		t.Fatal(err, len(fixtures))
	}
	for _, path := range fixtures {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want []byte
			files := a.Files
			if last := len(files) - 1; files[last].Name == "want" {
				want, files = files[last].Data, files[:last]
			}
			for _, method := range []uint16{zip.Deflate, zipfile.Zstd} {
				dir := t.TempDir()
				unpack(t, dir, files, method)
				runs, samples := importDir(t, dir)
				got := shown(t, runs, samples)
				if *update {
					a.Files = append(files[:len(files):len(files)], txtar.File{Name: "want", Data: got})
					if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				if !bytes.Equal(got, want) {
					t.Errorf("method %d: got\n%s\nwant\n%s", method, got, want)
				}
			}
		})
	}
}

func shown(t testing.TB, runs []results.Run, samples [][]results.Sample) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, r := range runs {
		line, err := results.Document{Runs: []results.Run{r}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var again results.Document
		if err := json.Unmarshal(line, &again); err != nil {
			t.Fatal(err)
		}
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(again.Runs[0]); err != nil {
			t.Fatal(err)
		}
		encoder.SetIndent("", "")
		for _, s := range samples[i] {
			row := map[string]any{"id": s.ID, "attempt": s.Attempt, "state": s.State(), "in": s.Input.Head, "want": s.Expected.Head, "got": s.Answer.Head}
			for name, score := range s.Scores {
				row["score "+name] = score
			}
			if s.Error != "" {
				row["error"] = s.Error
			}
			if s.Trajectory != "" {
				row["trajectory"] = filepath.Base(s.Trajectory)
			}
			if err := encoder.Encode(row); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out.Bytes()
}
