package dataset

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/parquet"
)

// Import reads a file or a folder and makes cases of it. Split chooses among the
// parts of a folder.
func Import(path, split string, m Mapping) (*Imported, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", path, refusal.WithoutPath(err)).WithHint("check the path")
	}
	var data []byte
	if info.IsDir() {
		name, err := pickFile(path, split)
		if err != nil {
			return nil, err
		}
		if data, err = store.ReadBelow(path, name, maxFile); err != nil {
			return nil, err
		}
		path = filepath.Join(path, filepath.FromSlash(name))
	} else if split != "" {
		return nil, refusal.Newf(refusal.Usage, "--split chooses among the files of a folder; %s is a file", path)
	} else if data, err = store.ReadFile(store.OS{}, path, maxFile); err != nil {
		return nil, err
	}
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".yaml" || ext == ".yml" {
		return promptfoo(path, data)
	}
	t, err := readTable(path, data)
	if err != nil {
		return nil, err
	}
	t.flatten()
	if m, err = t.Guess(m); err != nil {
		return nil, err
	}
	return t.Cases(m)
}

// ReadTable reads one table and makes nothing of it.
func ReadTable(path string) (*Table, []byte, error) {
	data, err := store.ReadFile(store.OS{}, path, maxFile)
	if err != nil {
		return nil, nil, err
	}
	t, err := readTable(path, data)
	return t, data, err
}

// ReadTableBelow is [ReadTable] for a file of a folder: no link leads out of it.
func ReadTableBelow(dir, name string) (*Table, []byte, error) {
	data, err := store.ReadBelow(dir, name, maxFile)
	if err != nil {
		return nil, nil, err
	}
	t, err := readTable(filepath.Join(dir, filepath.FromSlash(name)), data)
	return t, data, err
}

// pickFile finds the file of a split in a folder, as Hugging Face lays them out:
// data/test-00000-of-00001.jsonl, test.csv. It gives the path below the folder.
func pickFile(dir, split string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "reading %s: %w", dir, refusal.WithoutPath(err))
	}
	defer root.Close()
	var files []string
	for _, pattern := range []string{"*", "data/*", "*/*"} {
		found, err := fs.Glob(root.FS(), pattern)
		if err != nil {
			return "", refusal.Newf(refusal.Usage, "%s: %w", dir, err)
		}
		for _, f := range found {
			if slices.Contains([]string{".csv", ".tsv", ".json", ".jsonl", ".parquet"}, strings.ToLower(path.Ext(f))) && !strings.HasPrefix(path.Base(f), "dataset_info") && !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	wanted := []string{"test", "validation", "dev", "train"}
	if split != "" {
		wanted = []string{split}
	}
	for _, w := range wanted {
		matching := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !strings.HasPrefix(strings.ToLower(path.Base(f)), strings.ToLower(w)) })
		switch {
		case len(matching) == 1:
			return matching[0], nil
		case len(matching) > 1:
			return "", refusal.Newf(refusal.Usage, "%s: the split %s is in %d files", dir, w, len(matching)).WithHint("import them one by one, each into its own class")
		}
	}
	if split == "" && len(files) == 1 {
		return files[0], nil
	}
	return "", refusal.Newf(refusal.Usage, "%s: no one file is the %s", dir, strings.Join(wanted, ", ")).
		WithHint("name a file; read are .csv, .tsv, .json, .jsonl, .parquet (found %d)", len(files))
}

// readTable recognises by content: a table of text, a list, or lines of objects.
func readTable(path string, data []byte) (*Table, error) {
	if parquet.Is(data) {
		return readParquet(path, data)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, refusal.Newf(refusal.Malformed, "%s is not UTF-8 text", path).WithHint("convert it, for example with iconv")
	}
	var t *Table
	var err error
	switch first := bytes.TrimLeft(data, " \t\r\n"); {
	case len(first) == 0:
		return nil, refusal.Newf(refusal.Malformed, "%s is empty", path)
	case first[0] == '[':
		t, err = readList(path, data)
	case first[0] == '{':
		t, err = readObjects(path, data)
	case strings.EqualFold(filepath.Ext(path), ".tsv"):
		t, err = readCSV(path, data, '\t')
	default:
		t, err = readCSV(path, data, ',')
	}
	if err != nil {
		return nil, err
	}
	if len(t.Rows) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s has no rows", path)
	}
	return t, nil
}

func readParquet(path string, data []byte) (*Table, error) {
	f, err := parquet.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &Table{Format: "parquet", Source: path, Columns: f.Columns}
	if err := checkNames(t.Columns); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", path, err).WithHint("%s", refusal.Of(err).Hint)
	}
	for i, row := range f.Rows {
		for name, v := range row {
			row[name] = asJSON(v)
		}
		if err := t.add(Row{fmt.Sprintf("%s, row %d", filepath.Base(path), i+1), row}); err != nil {
			return nil, err
		}
	}
	if len(t.Rows) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s has no rows", path)
	}
	return t, nil
}

// asJSON gives a value of Parquet as a decoder of JSON would. What is not a
// number is nothing: JSON has no word for it.
func asJSON(v any) any {
	switch v := v.(type) {
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case uint64:
		return json.Number(strconv.FormatUint(v, 10))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	case []any:
		for i, x := range v {
			v[i] = asJSON(x)
		}
	case map[string]any:
		for name, x := range v {
			v[name] = asJSON(x)
		}
	}
	return v
}

// readCSV reads a table with a header.
func readCSV(path string, data []byte, comma rune) (*Table, error) {
	t := &Table{Format: "csv", Source: path}
	if comma == '\t' {
		t.Format = "tsv"
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.Comma, r.LazyQuotes = comma, false
	header, err := r.Read()
	if err != nil {
		return nil, malformed(path, err)
	}
	for i, name := range header {
		if name = strings.TrimSpace(name); name == "" {
			return nil, refusal.Newf(refusal.Malformed, "%s:1: column %d has no name", path, i+1)
		}
		t.Columns = append(t.Columns, name)
	}
	if err := checkNames(t.Columns); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s:1: %w", path, err).WithHint("%s", refusal.Of(err).Hint)
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, malformed(path, err)
		}
		line, _ := r.FieldPos(0)
		row := Row{Place: fmt.Sprintf("%s:%d", filepath.Base(path), line), Values: map[string]any{}}
		for i, v := range record {
			row.Values[t.Columns[i]] = v
		}
		if err := t.add(row); err != nil {
			return nil, err
		}
	}
}

func malformed(path string, err error) error {
	return refusal.Newf(refusal.Malformed, "%s: %w", path, err)
}

func (t *Table) add(r Row) error {
	if len(t.Rows) == maxRows {
		return refusal.Newf(refusal.TooLarge, "%s has more than %d rows", t.Source, maxRows).WithHint("import a part of it")
	}
	t.Rows = append(t.Rows, r)
	return nil
}

// addObject adds a row of JSON, and its columns in the order in which they
// first appear.
func (t *Table) addObject(place string, object map[string]any, order []string) error {
	for _, name := range order {
		if !slices.Contains(t.Columns, name) {
			t.Columns = append(t.Columns, name)
		}
	}
	if len(t.Columns) > maxColumns {
		return refusal.Newf(refusal.TooLarge, "more than %d different names of members", maxColumns)
	}
	return t.add(Row{place, object})
}

// checkNames refuses a name that is there twice. Columns are found whatever their case and
// the blanks around them, so two that differ only in these are the same.
func checkNames(names []string) error {
	first := make(map[string]string, len(names))
	for _, name := range names {
		folded := strings.ToLower(strings.ToUpper(strings.TrimSpace(name)))
		if before, twice := first[folded]; twice {
			return refusal.Newf(refusal.Malformed, "the name %.60q is there twice: it is read as %.60q, whatever the case", name, before).
				WithHint("ask the maker of the data which of them holds; nothing was written")
		}
		first[folded] = name
	}
	return nil
}

// maxRow bounds one row of JSON.
const maxRow = 16 << 20

// readList reads a JSON list of objects.
func readList(path string, data []byte) (*Table, error) {
	t := &Table{Format: "json", Source: path}
	return t, t.read(path, data, func(r *jsonstream.Reader) error {
		if err := t.addList(r); err != nil {
			return err
		}
		return r.End()
	})
}

// wrappers are members of a document under which its rows may stand.
var wrappers = []string{"data", "examples", "rows", "samples", "tests", "items"}

// readObjects reads one object after the other; or one object whose member is the list.
func readObjects(path string, data []byte) (*Table, error) {
	t := &Table{Format: "jsonl", Source: path}
	wrapper, err := wrapperOf(data)
	if err != nil {
		return nil, refusal.Newf(refusal.Of(err).Name, "%s: %w", path, err)
	}
	if wrapper != "" {
		t.Format = "json"
		return t, t.read(path, data, func(r *jsonstream.Reader) error {
			return r.Object(func(name string) error {
				if name != wrapper {
					return nil
				}
				return t.addList(r)
			})
		})
	}
	return t, t.read(path, data, func(r *jsonstream.Reader) error {
		for {
			k, err := r.Peek()
			if err != nil || k == jsonstream.None {
				return err
			}
			if err := t.addRow(r, fmt.Sprintf("%s:%d", filepath.Base(path), r.Line())); err != nil {
				return err
			}
		}
	})
}

// wrapperOf is the member of the only object under which a list stands; "" if there is
// none, or more than one object.
func wrapperOf(data []byte) (string, error) {
	r, err := jsonstream.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	found := len(wrappers)
	err = r.Object(func(name string) error {
		k, err := r.Peek()
		if i := slices.Index(wrappers, name); i >= 0 && k == jsonstream.Array {
			found = min(found, i)
		}
		return err
	})
	if err != nil || found == len(wrappers) || r.End() != nil {
		return "", nil // reading the rows says what is wrong
	}
	return wrappers[found], nil
}

// read reads with the reader of every importer, and says at which line it was refused.
func (t *Table) read(path string, data []byte, rows func(*jsonstream.Reader) error) error {
	r, err := jsonstream.NewReader(bytes.NewReader(data))
	if err != nil {
		return refusal.Newf(refusal.Of(err).Name, "%s: %w", path, err)
	}
	if err := rows(r); err != nil {
		hint := cmp.Or(refusal.Of(err).Hint, "a table is a list of JSON objects, or one object on each line")
		return refusal.Newf(refusal.Of(err).Name, "%s:%d: %w", path, r.Line(), err).WithHint("%s", hint)
	}
	return nil
}

func (t *Table) addList(r *jsonstream.Reader) error {
	return r.Array(func(i int) error { return t.addRow(r, fmt.Sprintf("%s, item %d", filepath.Base(t.Source), i+1)) })
}

// addRow reads one object as a row.
func (t *Table) addRow(r *jsonstream.Reader, place string) error {
	if k, err := r.Peek(); err != nil || k != jsonstream.Object {
		return cmp.Or(err, r.Refuse("expected an object for each row"))
	}
	object := map[string]any{}
	var order []string
	err := r.Object(func(name string) error {
		v, err := r.Any(maxRow)
		if err != nil {
			return err
		}
		order = append(order, name)
		object[name], err = plainValue(v)
		if err != nil {
			err = r.Refuse("the member %.60q: %v", name, err)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := checkNames(order); err != nil {
		return refusal.Newf(refusal.Malformed, "%s: %w", place, err).WithHint("%s", refusal.Of(err).Hint)
	}
	return t.addObject(place, object, order)
}

// plainValue gives a value in the types of encoding/json, numbers as they are written. What
// is not a number is refused: a case could not be written with it.
func plainValue(v any) (any, error) {
	var err error
	switch x := v.(type) {
	case jsonstream.Number:
		if !json.Valid([]byte(x)) {
			return nil, fmt.Errorf("found %s, expected a finite number", x)
		}
		return json.Number(x), nil
	case []any:
		if x == nil {
			return []any{}, nil
		}
		for i := range x {
			if x[i], err = plainValue(x[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range x {
			if x[name], err = plainValue(x[name]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
