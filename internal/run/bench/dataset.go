package bench

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// maxDatasetLine bounds one case of a dataset.
const maxDatasetLine = 1 << 20

// A Dataset is dataset.jsonl: the light form of cases, one a line, signed as a
// whole by its digest in the manifest.
type Dataset struct {
	Digest digest.Content
	Lines  []DatasetLine
}

// A DatasetLine is one case: any JSON object with an id.
type DatasetLine struct {
	ID   string
	JSON []byte
}

func (d *Draft) loadDataset() error {
	data, ok := d.files[DatasetFile]
	if !ok {
		return nil
	}
	set := &Dataset{Digest: digest.ContentOf(data)}
	if !bytes.HasSuffix(data, []byte("\n")) {
		// Many editors leave it out. Of what people sign there is one form.
		if d.Registration.Trust != Scratch {
			return refusal.Newf(refusal.Malformed, "%s:%d: the last line has no newline", DatasetFile, bytes.Count(data, []byte("\n"))+1).
				WithHint("add one with \"echo >> %s/%s/%s\", then run \"tally bench digest %s\"", Dir, d.Class, DatasetFile, d.Class)
		}
		data = append(bytes.Clone(data), '\n')
	}
	ids, lookAlike := map[string]int{}, nameSet{}
	for n := 1; len(data) > 0; n++ {
		end := bytes.IndexByte(data, '\n')
		line := data[:end:end]
		data = data[end+1:]
		id, err := datasetID(line)
		if err != nil {
			at, _ := canon.Offset(err)
			return refusal.Newf(refusal.Malformed, "%s: %w", DatasetPlace(n, line, at), err).WithHint("each line is one JSON object with an id of its own")
		}
		if first, ok := ids[id]; ok {
			return refusal.Newf(refusal.Malformed, "%s:%d: the id %q is that of line %d", DatasetFile, n, id, first).
				WithHint("rename one of them: results are recorded by id")
		}
		if other := lookAlike.add(id); other != "" {
			return refusal.Newf(refusal.Malformed, "%s:%d: the id %q looks like %q in line %d", DatasetFile, n, id, other, ids[other]).
				WithHint("rename one: ids differ in more than case, 0 and O, 1 and l and I, rn and m, vv and w, - and _")
		}
		ids[id] = n
		set.Lines = append(set.Lines, DatasetLine{ID: id, JSON: line})
	}
	d.Dataset = set
	return nil
}

// DatasetPlace names a byte of a line as editors do: file, line and character,
// both from 1.
func DatasetPlace(n int, line []byte, at int64) string {
	at = min(max(at, 0), int64(len(line)))
	return fmt.Sprintf("%s:%d:%d", DatasetFile, n, utf8.RuneCount(line[:at])+1)
}

func datasetID(line []byte) (string, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return "", refusal.Newf(refusal.Malformed, "the line is empty")
	}
	if len(line) > maxDatasetLine {
		return "", refusal.Newf(refusal.TooLarge, "%d bytes, at most %d are accepted", len(line), maxDatasetLine)
	}
	var object map[string]canon.RawMessage
	if err := canon.Unmarshal(line, &object); err != nil {
		return "", err
	}
	var id string
	raw, ok := object["id"]
	if !ok {
		return "", refusal.Newf(refusal.Malformed, `there is no "id"`)
	}
	if raw.Kind() != '"' {
		return "", refusal.Newf(refusal.Malformed, `the "id" is %.80s, expected a text, as in "id":"one"`, raw)
	}
	if err := canon.Unmarshal(raw, &id); err != nil {
		return "", err
	}
	if id != strings.TrimSpace(id) {
		return "", refusal.Newf(refusal.Malformed, "the id %q has blanks around it", id)
	}
	return id, CheckID(id)
}
