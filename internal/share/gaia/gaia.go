// Package gaia reads the GAIA benchmark: metadata.jsonl or Parquet with the files
// that belong to its tasks, from a folder on disk or from the hub.
//
// Nothing is corrected: a task twice, a file that is missing or whose name leaves
// the folder, a level that does not exist, a question that is not text are refused with
// their place. What was read is named by its SHA-256, so that a class made of it
// says what it was made of.
package gaia

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/dataset"
)

// The splits. Test has no public answers; smoke comes with the program.
const (
	Validation = "validation"
	Test       = "test"
	Smoke      = "smoke"
)

// Splits lists them.
func Splits() []string { return []string{Validation, Test, Smoke} }

// maxAttachment bounds one file of a task: a class may have 1 GiB in all, and
// everything of a case is in memory while it runs.
const maxAttachment = 256 << 20

// A Task is one question.
type Task struct {
	ID       string
	Level    int
	Question string
	Answer   string // "" in the split without answers
	File     *File  // that belongs to it, nil for none

	Replies []string // that the program's own tasks come with
	place   string
}

// A File is one that belongs to a task.
type File struct {
	Name string
	Data []byte
}

// Data is what was read.
type Data struct {
	Split    string
	Revision string
	Tasks    []Task
	Files    []bench.DataFile // all that were read, by path
}

// Levels counts the tasks of each level.
func (d *Data) Levels() map[string]int {
	levels := map[string]int{}
	for _, t := range d.Tasks {
		levels[strconv.Itoa(t.Level)]++
	}
	return levels
}

// Attachments counts the files of tasks.
func (d *Data) Attachments() (n int) {
	for _, t := range d.Tasks {
		if t.File != nil {
			n++
		}
	}
	return n
}

// Options say what to read.
type Options struct {
	Path     string // a metadata file, or a folder that has one
	Split    string
	Revision string // of the data set, as the person knows it
	Level    int    // only tasks of this level; 0 for all
}

// Read reads the tasks of a split.
func Read(o Options) (*Data, error) {
	if o.Split == Smoke {
		return smoke(o.Level)
	}
	d := &Data{Split: o.Split, Revision: o.Revision}
	r := &reader{Data: d, level: o.Level, seen: map[string]string{}}
	tables, err := r.find(o.Path, o.Split)
	if err != nil {
		return nil, err
	}
	for _, name := range tables {
		if err := r.table(name); err != nil {
			return nil, err
		}
	}
	if len(d.Tasks) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s: no task of level %d is in the split %s", o.Path, o.Level, o.Split)
	}
	slices.SortFunc(d.Files, func(a, b bench.DataFile) int { return strings.Compare(a.Path, b.Path) })
	if d.Revision == "" {
		d.Revision = d.fingerprint()
	}
	return d, nil
}

// fingerprint stands for a revision without a name: the digest of the files.
func (d *Data) fingerprint() string {
	h := sha256.New()
	for _, f := range d.Files {
		fmt.Fprintf(h, "%s %s\n", f.SHA256, f.Path)
	}
	return fmt.Sprintf("files-sha256-%x", h.Sum(nil)[:16])
}

// find lists the metadata files of a split, one or one for each level, and remembers the
// folder that they are in.
func (r *reader) find(given, split string) ([]string, error) {
	info, err := os.Stat(given)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", given, refusal.WithoutPath(err)).WithHint("give the folder of the data set, or its metadata.jsonl")
	}
	if !info.IsDir() {
		r.top, r.given = filepath.Dir(given), given
		return []string{filepath.Base(given)}, nil
	}
	r.top = given
	root, err := os.OpenRoot(given)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", given, refusal.WithoutPath(err))
	}
	defer root.Close()
	for _, r.dir = range []string{path.Join("2023", split), split, "."} {
		for _, names := range [][]string{{"metadata.jsonl"}, {"metadata.parquet"}, {"metadata.level1.parquet", "metadata.level2.parquet", "metadata.level3.parquet"}} {
			found := slices.DeleteFunc(names, func(name string) bool {
				_, err := root.Lstat(path.Join(r.dir, name))
				return errors.Is(err, fs.ErrNotExist)
			})
			if len(found) > 0 {
				return found, nil
			}
		}
	}
	return nil, refusal.Newf(refusal.NotFound, "%s has no metadata of the split %s", given, split).
		WithHint("expected 2023/%s/metadata.jsonl, metadata.parquet or metadata.level1.parquet below it, or directly in it", split)
}

type reader struct {
	*Data
	top   string // the folder that nothing leads out of
	dir   string // below it, of the metadata and of the files that it names
	given string // the file that a person named, who may name a link
	level int
	seen  map[string]string // ids as they look, and where they stand
}

// table reads one metadata file and the files that its rows name, which lie beside
// it.
func (r *reader) table(name string) error {
	read := func() (*dataset.Table, []byte, error) { return dataset.ReadTableBelow(r.top, path.Join(r.dir, name)) }
	if r.given != "" {
		read = func() (*dataset.Table, []byte, error) { return dataset.ReadTable(r.given) }
	}
	t, data, err := read()
	if err != nil {
		return err
	}
	r.note(name, data)
	for _, row := range t.Rows {
		task, err := r.task(row)
		if err != nil {
			return refusal.Newf(refusal.Of(err).Name, "%s: %w", row.Place, err).WithHint("%s", orHint(refusal.Of(err).Hint))
		}
		if task != nil {
			r.Tasks = append(r.Tasks, *task)
		}
	}
	return nil
}

func orHint(hint string) string {
	if hint == "" {
		return "get the file again; nothing was written"
	}
	return hint
}

// note remembers a file that was read, by its name in the folder of the split.
func (r *reader) note(name string, data []byte) {
	r.Files = append(r.Files, bench.DataFile{Path: name, SHA256: digest.IDOf(data)})
}

// task reads one row, nil if it is of another level.
func (r *reader) task(row dataset.Row) (*Task, error) {
	t := &Task{place: row.Place}
	var err error
	if t.ID, err = text(row, "task_id"); err != nil {
		return nil, err
	}
	if err := bench.CheckID(t.ID); err != nil {
		return nil, bad("task_id: %v", err)
	}
	if before, twice := r.seen[plain.Fold(t.ID)]; twice {
		return nil, bad("task %s is there already: %s", t.ID, before)
	}
	r.seen[plain.Fold(t.ID)] = row.Place
	if t.Level, err = levelOf(row.Values["Level"]); err != nil {
		return nil, err
	}
	if t.Question, err = text(row, "Question"); err != nil {
		return nil, err
	}
	if err := t.answer(row, r.Split); err != nil {
		return nil, err
	}
	if r.level != 0 && t.Level != r.level {
		return nil, nil
	}
	name, _ := row.Values["file_name"].(string)
	if name == "" {
		return t, nil
	}
	if t.File, err = r.attachment(name); err != nil {
		return nil, fmt.Errorf("task %s: %w", t.ID, err)
	}
	return t, nil
}

// answer reads the expected answer, which every task of a split has or none.
func (t *Task) answer(row dataset.Row, split string) error {
	var answer string
	switch v := row.Values["Final answer"].(type) {
	case nil:
	case string:
		answer = v
	case json.Number:
		answer = v.String()
	default:
		return bad("task %s: the Final answer is %T, expected a text", t.ID, v)
	}
	none := strings.TrimSpace(answer) == "" || strings.TrimSpace(answer) == "?"
	switch {
	case split == Test && !none:
		return bad("task %s has the answer %.40q, and the test split has none", t.ID, answer).WithHint("import it as --split validation, or get the test split")
	case split == Test:
		return nil
	case none:
		return bad("task %s has no Final answer", t.ID).WithHint("a split without answers is --split test")
	}
	t.Answer = answer
	return checkText("Final answer", answer)
}

// attachment reads a file that lies beside the metadata. Its name is a name and
// nothing else: one with a separator could be any file of the machine.
func (r *reader) attachment(name string) (*File, error) {
	if !isPlainName(name) {
		return nil, bad("file_name is %.80q, expected the name of a file in the same folder", name)
	}
	data, err := store.ReadBelow(r.top, path.Join(r.dir, name), maxAttachment)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bad("the file %s is missing", name).WithHint("download the whole folder of the split")
	}
	if err != nil {
		return nil, err
	}
	r.note(name, data)
	return &File{name, data}, nil
}

func isPlainName(name string) bool {
	return name == filepath.Base(name) && !strings.ContainsAny(name, `/\:`) && name != "." && name != ".." && filepath.IsLocal(name) && checkText("file_name", name) == nil
}

// levelOf reads a level, which some copies have as a number and some as a text.
func levelOf(v any) (int, error) {
	var s string
	switch v := v.(type) {
	case string:
		s = strings.TrimSpace(v)
	case json.Number:
		s = v.String()
	}
	if s == "1" || s == "2" || s == "3" {
		return int(s[0] - '0'), nil
	}
	return 0, bad("Level is %.20q, expected 1, 2 or 3", fmt.Sprint(v))
}

func text(row dataset.Row, column string) (string, error) {
	s, ok := row.Values[column].(string)
	if !ok || strings.TrimSpace(s) == "" {
		return "", bad("%s is %.40q, expected a text", column, fmt.Sprint(row.Values[column]))
	}
	return s, checkText(column, s)
}

// checkText refuses what no agent can be asked: what is not UTF-8, and characters
// that stand for nothing.
func checkText(column, s string) error {
	if !utf8.ValidString(s) {
		return bad("%s is not UTF-8", column)
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f }); i >= 0 {
		return bad("%s has the control character %q at byte %d", column, s[i], i)
	}
	return nil
}

func bad(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.Malformed, format, args...)
}
