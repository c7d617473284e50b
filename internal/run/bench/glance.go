package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"path"

	"tallystick/internal/record/strictyaml"
)

// A Glanced is a case as a glance shows it.
type Glanced struct {
	ID   string   `json:"id"`
	Tags []string `json:"tags"`
}

// How much is looked at: a user who presses the tab key waits for it.
const (
	maxGlancedBytes = 4 << 20
	maxGlancedFiles = 300
)

// Glance lists the cases of a class in a workspace for a user who is typing:
// nothing is verified, what cannot be read is left out, and of a large class it is
// the beginning.
func Glance(workspace fs.FS, class string) []Glanced {
	var out []Glanced
	dir := path.Join(Dir, class)
	entries, _ := fs.ReadDir(workspace, path.Join(dir, CasesDir))
	for i, e := range entries {
		if !e.IsDir() {
			continue
		}
		g := Glanced{ID: e.Name()}
		if i < maxGlancedFiles {
			g.Tags = glanceTags(workspace, path.Join(dir, CasesDir, e.Name(), CaseFile))
		}
		out = append(out, g)
	}
	return append(out, glanceLines(workspace, path.Join(dir, DatasetFile))...)
}

func glanceTags(workspace fs.FS, file string) []string {
	data, err := fs.ReadFile(workspace, file)
	if err != nil {
		return nil
	}
	doc, err := strictyaml.Parse(file, data, strictyaml.Rules{PlainDigits: true})
	if err != nil {
		return nil
	}
	var g Glanced
	json.Unmarshal(doc.JSON, &g)
	return g.Tags
}

func glanceLines(workspace fs.FS, file string) []Glanced {
	f, err := workspace.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGlancedBytes))
	if err != nil {
		return nil
	}
	var out []Glanced
	for line := range bytes.Lines(data) {
		var g Glanced
		if json.Unmarshal(line, &g) == nil && g.ID != "" {
			out = append(out, g)
		}
	}
	return out
}
