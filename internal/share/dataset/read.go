package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
	if info.IsDir() {
		if path, err = pickFile(path, split); err != nil {
			return nil, err
		}
	} else if split != "" {
		return nil, refusal.Newf(refusal.Usage, "--split chooses among the files of a folder; %s is a file", path)
	}
	data, err := store.ReadFile(store.OS{}, path, maxFile)
	if err != nil {
		return nil, err
	}
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".yaml" || ext == ".yml" {
		return promptfoo(path, data)
	}
	t, err := readTable(path, data)
	if err != nil {
		return nil, err
	}
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

// pickFile finds the file of a split in a folder, as Hugging Face lays them out:
// data/test-00000-of-00001.jsonl, test.csv.
func pickFile(dir, split string) (string, error) {
	var files []string
	for _, pattern := range []string{"*", "data/*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", refusal.Newf(refusal.Usage, "%s: %w", dir, err)
		}
		for _, f := range found {
			if slices.Contains([]string{".csv", ".tsv", ".json", ".jsonl", ".parquet"}, strings.ToLower(filepath.Ext(f))) && !strings.HasPrefix(filepath.Base(f), "dataset_info") && !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	wanted := []string{"test", "validation", "dev", "train"}
	if split != "" {
		wanted = []string{split}
	}
	for _, w := range wanted {
		matching := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !strings.HasPrefix(strings.ToLower(filepath.Base(f)), strings.ToLower(w)) })
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
		name = strings.TrimSpace(name)
		if name == "" || slices.Contains(t.Columns, name) {
			return nil, refusal.Newf(refusal.Malformed, "%s:1: column %d is called %q, expected a name that no other column has", path, i+1, name)
		}
		t.Columns = append(t.Columns, name)
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
		return fmt.Errorf("more than %d different names of members", maxColumns)
	}
	return t.add(Row{place, object})
}

// readList reads a JSON list of objects.
func readList(path string, data []byte) (*Table, error) {
	t := &Table{Format: "json", Source: path}
	var raw []json.RawMessage
	if err := strictJSON(data, &raw); err != nil {
		return nil, malformed(path, err)
	}
	for i, text := range raw {
		if err := t.addText(fmt.Sprintf("%s, item %d", filepath.Base(path), i+1), text); err != nil {
			return nil, malformed(path, err)
		}
	}
	return t, nil
}

// readObjects reads one object a line; or one object whose member is the list.
func readObjects(path string, data []byte) (*Table, error) {
	var whole map[string]json.RawMessage
	if err := strictJSON(data, &whole); err == nil {
		for _, name := range []string{"data", "examples", "rows", "samples", "tests", "items"} {
			if list, ok := whole[name]; ok && bytes.HasPrefix(bytes.TrimSpace(list), []byte("[")) {
				return readList(path, list)
			}
		}
	}
	t := &Table{Format: "jsonl", Source: path}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		if err := t.addText(fmt.Sprintf("%s:%d", filepath.Base(path), n), bytes.Clone(text)); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s:%d: %w", path, n, err).WithHint("each line is one JSON object")
		}
	}
	if err := lines.Err(); err != nil {
		return nil, malformed(path, err)
	}
	return t, nil
}

func (t *Table) addText(place string, text []byte) error {
	var object map[string]any
	if err := strictJSON(text, &object); err != nil || object == nil {
		return fmt.Errorf("%s: expected an object: %v", place, err)
	}
	return t.addObject(place, object, namesIn(text))
}

// strictJSON decodes one value and nothing after it, numbers as they are
// written.
func strictJSON(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the value")
	}
	return nil
}

// namesIn lists the members of an object in the order in which they stand.
func namesIn(object []byte) []string {
	d := json.NewDecoder(bytes.NewReader(object))
	var names []string
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return names
		}
		names = append(names, name.(string))
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return names
		}
	}
	return names
}
