package dossier

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/suites"
)

// Names lists what can be named in a workspace, for a user who is typing. It looks at
// the names of files, and at the end of the ledger for the names of attempts: nothing is
// verified, and it takes the same time whatever the size of the ledger. What cannot be
// read is not listed; the zero value lists nothing.
type Names struct{ dir, packs, keys, segments string }

// NamesOf are those of a workspace.
func NamesOf(p *Place) Names {
	return Names{dir: p.Dir, packs: filepath.Join(p.EvidenceDir(), "packs"), keys: p.KeysDir(), segments: filepath.Join(p.LedgerDir(), "segments")}
}

// HasClass reports whether there is a folder of a class, or one that comes with the
// program.
func (n Names) HasClass(class string) bool {
	if bench.IsShipped(class) {
		return slices.Contains(suites.Classes(), class)
	}
	_, err := os.Lstat(filepath.Join(n.dir, bench.Dir, class))
	return err == nil
}

// Classes are those of the workspace, and those that come with the program.
func (n Names) Classes() []string {
	root, err := os.OpenRoot(n.dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	classes, _ := bench.Classes(root)
	return append(classes, suites.Classes()...)
}

// Targets are those that a class may run against.
func (n Names) Targets(class string) []string {
	root, err := os.OpenRoot(n.dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	names := agent.Names(root)
	if bench.IsShipped(class) {
		names = append(suites.Targets(), names...)
	}
	return names
}

// Cases are those of a class, or of all classes of the workspace if it is "".
func (n Names) Cases(class string) []string {
	var ids []string
	for _, g := range n.glance(class) {
		ids = append(ids, g.ID)
	}
	return ids
}

// Tags are those of the cases of a class.
func (n Names) Tags(class string) []string {
	var tags []string
	for _, g := range n.glance(class) {
		tags = append(tags, g.Tags...)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

func (n Names) glance(class string) []bench.Glanced {
	if bench.IsShipped(class) && n.dir != "" {
		return suites.Glance(class)
	}
	root, err := os.OpenRoot(n.dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	classes := []string{class}
	if class == "" {
		classes, _ = bench.Classes(root)
	}
	var all []bench.Glanced
	for _, c := range classes {
		all = append(all, bench.Glance(root.FS(), c)...)
	}
	return all
}

// Attempts are those that left something in the workspace, the newest first.
func (n Names) Attempts() []string {
	entries, _ := os.ReadDir(n.packs)
	type attempt struct {
		id   string
		when int64
	}
	var found []attempt
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".pack")
		if info, err := e.Info(); ok && err == nil {
			found = append(found, attempt{id, info.ModTime().UnixNano()})
		}
	}
	slices.SortStableFunc(found, func(a, b attempt) int { return int(max(-1, min(1, b.when-a.when))) })
	ids := make([]string, len(found))
	for i, a := range found {
		ids[i] = a.id
	}
	return ids
}

// Addresses are the attempts in every form that a person may type: the newest as
// "latest", the one before it, ids, and the names that were given.
func (n Names) Addresses() []string {
	ids := n.Attempts()
	var out []string
	for back := range min(len(ids), 2) {
		out = append(out, history.Latest(back))
	}
	return append(append(out, ids...), slices.Sorted(maps.Keys(n.given()))...)
}

// Attempt is the id that a text seems to address, "" for none: what commands find in the
// verified ledger may be another.
func (n Names) Attempt(text string) string {
	ids := n.Attempts()
	if slices.Contains(ids, text) {
		return text
	}
	if back, ok := history.LatestBack(text); ok && back < len(ids) {
		return ids[back]
	}
	if id := n.given()[text]; id != "" {
		return id
	}
	var found []string
	for _, id := range ids {
		if strings.HasPrefix(id, text) || strings.HasSuffix(id, "."+text) {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// maxNamesRead bounds how far back the ledger is read for names, so that completion
// takes no longer when the ledger has grown.
const maxNamesRead = 4 << 20

// given reads the names of attempts at the end of the ledger: name to id.
func (n Names) given() map[string]string {
	files, _ := filepath.Glob(filepath.Join(n.segments, "*.log"))
	given := map[string]string{}
	if len(files) == 0 {
		return given
	}
	f, err := store.Open(slices.Max(files))
	if err != nil {
		return given
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > maxNamesRead {
		_, _ = f.Seek(-maxNamesRead, io.SeekEnd) // begins within a line, which is not a record then
	}
	data, _ := io.ReadAll(io.LimitReader(f, maxNamesRead))
	for line := range bytes.Lines(data) {
		if !bytes.Contains(line, []byte(`"attempt.named"`)) {
			continue
		}
		var entry struct {
			Kind evidence.Kind `json:"kind"`
			Body struct {
				Attempt, Name string
			} `json:"body"`
		}
		_, text, _ := bytes.Cut(line, []byte(" "))
		if json.Unmarshal(text, &entry) == nil && entry.Kind == evidence.AttemptNamedKind && entry.Body.Name != "" {
			given[entry.Body.Name] = entry.Body.Attempt
		}
	}
	return given
}

// ClassOf is the class that an attempt's id says: CLASS.TARGET.NUMBER, with a
// plus where the name of a class has a colon.
func (n Names) ClassOf(attempt string) string {
	for _, class := range n.Classes() {
		if strings.HasPrefix(attempt, strings.ReplaceAll(class, ":", "+")+".") {
			return class
		}
	}
	return ""
}

// Keys are the files in the folder of keys.
func (n Names) Keys() []string {
	var names []string
	entries, _ := os.ReadDir(n.keys)
	for _, e := range entries {
		if !e.IsDir() && !BesideKey(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}
