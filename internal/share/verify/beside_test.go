package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/read/bundle/describe"
	"tallystick/internal/read/results"
	"tallystick/internal/share/dataset"
	"tallystick/internal/share/exchange"
	"tallystick/internal/share/gaia"
	"tallystick/internal/share/importer"
	"tallystick/internal/share/intake"
	"tallystick/internal/share/verify"
)

// secret is what no reader may bring along. It is a case, a row and a text at once.
const secret = `{"task_id":"SECRET","Question":"SECRET?","Level":1,"Final answer":"SECRET"}`

// trace is a trajectory that tells the same.
const trace = `{"schema_version":"ATIF-v1.0","session_id":"s","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":"SECRET"},{"step_id":2,"source":"agent","message":"SECRET"}]}`

// yard makes a folder for a reader, with a secret outside of it under several names.
func yard(t *testing.T, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "given")
	for _, name := range []string{"secret.txt", "secret.md", "secret.jsonl", "outside/metadata.jsonl", "outside/test.jsonl", "outside/trajectory.json", "outside/validation/metadata.jsonl"} {
		files["../"+name] = secret
	}
	files["../outside/trajectory.json"] = trace
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, name); err != nil {
		t.Skip(err)
	}
}

// copyTo copies a file or a folder.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func shown(v any, err error) (string, error) {
	data, _ := json.Marshal(v)
	return string(data), err
}

// TestNamesInFilesLeadNowhere: every reader of a file that names another one, with every
// spelling of a name that leads out of its folder.
func TestNamesInFilesLeadNowhere(t *testing.T) {
	readers := map[string]func(t *testing.T, name string) (dir string, read func() (string, error)){
		"prompt of promptfoo": func(t *testing.T, name string) (string, func() (string, error)) {
			text, _ := json.Marshal("file://" + name)
			dir := yard(t, map[string]string{"promptfooconfig.yaml": fmt.Sprintf("prompts: [%s]\ntests: [{vars: {q: a}, assert: [{type: equals, value: b}]}]\n", text)})
			return dir, func() (string, error) { return casesOf(filepath.Join(dir, "promptfooconfig.yaml")) }
		},
		"prompt that has an id": func(t *testing.T, name string) (string, func() (string, error)) {
			text, _ := json.Marshal("file://" + name)
			dir := yard(t, map[string]string{"promptfooconfig.yaml": fmt.Sprintf("prompts: [{id: %s}]\ntests: [{vars: {q: a}, assert: [{type: equals, value: b}]}]\n", text)})
			return dir, func() (string, error) { return casesOf(filepath.Join(dir, "promptfooconfig.yaml")) }
		},
		"tests of promptfoo": func(t *testing.T, name string) (string, func() (string, error)) {
			text, _ := json.Marshal(name)
			dir := yard(t, map[string]string{"promptfooconfig.yaml": fmt.Sprintf("prompts: ['{{Question}}']\ntests: %s\ndefaultTest: {assert: [{type: equals, value: b}]}\n", text)})
			return dir, func() (string, error) { return casesOf(filepath.Join(dir, "promptfooconfig.yaml")) }
		},
		"attachment of GAIA": func(t *testing.T, name string) (string, func() (string, error)) {
			row, _ := json.Marshal(map[string]any{"task_id": "t", "Question": "q?", "Level": 1, "Final answer": "a", "file_name": name})
			dir := yard(t, map[string]string{"metadata.jsonl": string(row) + "\n"})
			return dir, func() (string, error) {
				d, err := gaia.Read(gaia.Options{Path: dir, Split: gaia.Validation})
				if err != nil {
					return "", err
				}
				return string(d.Tasks[0].File.Data), nil
			}
		},
		"body of a trajectory": func(t *testing.T, name string) (string, func() (string, error)) {
			dir := yard(t, map[string]string{"x": ""})
			return dir, func() (string, error) {
				in, err := intake.Files{Bodies: dir}.Input()
				if err != nil {
					return "", err
				}
				f, err := in.Bodies(name)
				if err != nil {
					return "", err
				}
				defer f.Close()
				data, err := io.ReadAll(f)
				return string(data), err
			}
		},
	}
	for reader, of := range readers {
		t.Run(reader, func(t *testing.T) {
			dir, read := of(t, "inside.txt")
			copyTo(t, filepath.Join(dir, "..", "secret.txt"), filepath.Join(dir, "inside.txt"))
			if text, err := read(); err != nil || !strings.Contains(text, "SECRET") {
				t.Errorf("a file of the folder: %v, %.200s", err, text)
			}
			for _, ending := range []string{".txt", ".md", ".jsonl"} {
				for _, name := range []string{
					"../secret", "sub/../../secret", "./../secret", "file://../secret", "%2e%2e/secret", "..%2fsecret", `..\secret`, "link", "linked/secret", "TOP/secret", "file://TOP/secret", "/TOP/secret", "../secret.txt\x00", "//TOP/secret",
				} {
					other, _ := of(t, "x"+ending)
					name = strings.ReplaceAll(name, "TOP", filepath.Dir(other)) + ending
					dir, read := of(t, name)
					link(t, "../secret"+ending, filepath.Join(dir, "link"+ending))
					link(t, "..", filepath.Join(dir, "linked"))
					if text, err := read(); err == nil || strings.Contains(text, "SECRET") || strings.Contains(err.Error(), "SECRET") {
						t.Errorf("%q: %v, %.200s", name, err, text)
					}
				}
			}
		})
	}
}

func casesOf(path string) (string, error) {
	got, err := dataset.Import(path, "", dataset.Mapping{})
	if err != nil {
		return "", err
	}
	return shown(got.Cases, nil)
}

// TestLinksInFoldersLeadNowhere: every reader of a folder that somebody else made, with a
// link in the place of one of its files, or of a folder in it.
func TestLinksInFoldersLeadNowhere(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		links map[string]string // name in the folder to what it leads to
		read  func(dir string) (string, error)
		shows bool // what stands there itself, in place of a link, is in what was read
	}{
		"table of a data set": {links: map[string]string{"test.jsonl": "../outside/test.jsonl"}, read: casesOf, shows: true},
		"folder of a table":   {links: map[string]string{"data": "../outside"}, read: casesOf, shows: true},
		"metadata of GAIA": {links: map[string]string{"2023/validation/metadata.jsonl": "../../../outside/metadata.jsonl"}, read: func(dir string) (string, error) {
			return shown(gaia.Read(gaia.Options{Path: dir, Split: gaia.Validation}))
		}, shows: true},
		"folder of GAIA": {links: map[string]string{"2023": "../outside"}, read: func(dir string) (string, error) {
			return shown(gaia.Read(gaia.Options{Path: dir, Split: gaia.Validation}))
		}, shows: true},
		"trial of Harbor": {files: map[string]string{"t/result.json": `{"trial_name":"t","task_name":"x"}`}, links: map[string]string{"t/agent": "../../outside"}, read: func(dir string) (string, error) {
			in, err := intake.Files{}.Log(dir)
			if err != nil {
				return "", err
			}
			f, err := in.Trajectories.Open()
			if err != nil {
				return "", err
			}
			defer f.Close()
			data, err := io.ReadAll(f)
			return string(data), err
		}, shows: true},
		"traces":      {links: map[string]string{"a.json": "../outside/trajectory.json"}, read: traces},
		"a bundle":    {files: map[string]string{"meta.json": `{"task_id":"t"}`}, links: map[string]string{"spec.txt": "../secret.txt"}, read: func(dir string) (string, error) { return shown(describe.Load(dir)) }, shows: true},
		"its meta":    {links: map[string]string{"meta.json": "../secret.jsonl"}, read: func(dir string) (string, error) { return shown(describe.Load(dir)) }},
		"its trace":   {files: map[string]string{"meta.json": `{"task_id":"t"}`}, links: map[string]string{"trace.jsonl": "../secret.jsonl"}, read: func(dir string) (string, error) { return shown(describe.Load(dir)) }},
		"a package":   {files: map[string]string{"metadata.json": "{}"}, links: map[string]string{"results.jsonl": "../secret.jsonl"}, read: verified},
		"a site":      {files: map[string]string{"manifest.json": "{}", "manifest.json.sig": "x"}, links: map[string]string{"index.html": "../secret.txt"}, read: verified},
		"its folder":  {files: map[string]string{"manifest.json": "{}", "manifest.json.sig": "x"}, links: map[string]string{"pages": "../outside"}, read: verified},
		"the results": {links: map[string]string{"rows.jsonl": "../secret.jsonl"}, read: imports},
		"companions": {files: map[string]string{"results_2025-01-01T00-00-00.json": `{"results":{"t":{"acc,none":1}},"versions":{"t":1},"config":{},"n-shot":{"t":0}}`},
			links: map[string]string{"samples_t_2025-01-01T00-00-00.jsonl": "../secret.jsonl"}, read: func(dir string) (string, error) {
				return imports(filepath.Join(dir, "results_2025-01-01T00-00-00.json"))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.files == nil {
				tt.files = map[string]string{"README": "x"}
			}
			dir := yard(t, tt.files)
			for name, to := range tt.links {
				link(t, to, filepath.Join(dir, filepath.FromSlash(name)))
			}
			if tt.shows {
				copied := yard(t, tt.files)
				for name, to := range tt.links {
					copyTo(t, filepath.Join(filepath.Dir(filepath.Join(dir, filepath.FromSlash(name))), to), filepath.Join(copied, filepath.FromSlash(name)))
				}
				if text, err := tt.read(copied); err != nil || !strings.Contains(text, "SECRET") {
					t.Errorf("without a link: %v, %.300s", err, text)
				}
			}
			if text, err := tt.read(dir); strings.Contains(text, "SECRET") || err != nil && strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%v, %.300s", err, text)
			}
		})
	}
}

func traces(dir string) (string, error) {
	list, err := exchange.ImportFolder(dir)
	return fmt.Sprintf("%+v", list), err
}

func verified(dir string) (string, error) { return shown(verify.Path(dir, verify.Trust{}), nil) }

func imports(path string) (string, error) {
	var seen []results.Sample
	runs, err := importer.Read(context.Background(), []string{path}, importer.Options{Each: func(_ int, s results.Sample) error { seen = append(seen, s); return nil }})
	return shown([]any{runs, seen}, err)
}
