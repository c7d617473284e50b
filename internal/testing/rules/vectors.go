package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"tallystick/internal/record/canon"
)

// A Vector is an example that every reader of a format accepts, or that every
// one refuses for the reason.
type Vector struct {
	Name   string `json:"-"`
	As     string `json:"as"`               // the document or shape, or the verb that verifies it
	Reason string `json:"reason,omitempty"` // why it is refused
	Data   []byte `json:"-"`
}

// An Index lists the vectors of one format; it lies beside their folders.
type Index struct {
	What     string            `json:"what"`
	Trust    map[string]string `json:"trust,omitempty"` // what a verifier is given besides: keys, files of signers
	Accepted map[string]Vector `json:"accepted"`
	Refused  map[string]Vector `json:"refused"`
}

// Files are the files of a set of vectors: index.json, accepted/NAME and
// refused/NAME. Two vectors of one name are a mistake.
func Files(index Index, vectors []Vector) (map[string][]byte, error) {
	index.Accepted, index.Refused = map[string]Vector{}, map[string]Vector{}
	files := map[string][]byte{}
	for _, v := range vectors {
		folder, list := "accepted", index.Accepted
		if v.Reason != "" {
			folder, list = "refused", index.Refused
		}
		if _, twice := list[v.Name]; twice {
			return nil, fmt.Errorf("two vectors are called %s/%s", folder, v.Name)
		}
		list[v.Name] = v
		files[folder+"/"+v.Name] = v.Data
	}
	plain, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(plain, &value); err != nil {
		return nil, err
	}
	files["index.json"] = append(layout(nil, value, 0), '\n')
	return files, nil
}

// Accepted makes a vector of a valid document.
func Accepted(as, name string, document []byte) Vector {
	return Vector{Name: name + ".json", As: as, Data: line(document)}
}

// Refused makes vectors of a valid document by changing it in one place each:
// one for every kind of rule that the changes break, at most as many as most
// says. The data are canonical JSON, so that nothing but the rule refuses them.
func (f *File) Refused(as, name string, document []byte, most int) []Vector {
	var between, within []Vector
	seen := map[string]bool{}
	for _, m := range Mutations(document, 0) {
		data, err := canon.Canonicalize(m.Data)
		whole := strings.HasPrefix(m.What, ": ") && m.What != ": one more" // not a document at all
		if err != nil || whole || len(data) > len(document)+600 {
			continue
		}
		reason := f.Check(as, data)
		if reason == nil || seen[category(reason)] {
			continue
		}
		seen[category(reason)] = true
		slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(m.What), "-"), "-.")
		v := Vector{fmt.Sprintf("%s-%.40s.json", name, slug), as, reason.Error(), line(data)}
		if strings.HasSuffix(reason.Error(), ")") {
			between = append(between, v)
		} else {
			within = append(within, v)
		}
	}
	all := append(between, within...) // rules between members are the rarer ones
	return all[:min(most, len(all))]
}

var (
	notSlug  = regexp.MustCompile(`[^a-z0-9_.]+`)
	specific = regexp.MustCompile(`^(?:a name in )?\S+|"[^"]*"|-?\b[0-9.e+]+| is .*, (?:expected|which is not)|has no .*`)
)

// category is a reason without the names and values in it.
func category(reason error) string {
	text := reason.Error()
	if at := strings.LastIndex(text, "("); at >= 0 { // a rule between members
		return text[at:]
	}
	return specific.ReplaceAllString(text, "")
}

// Compare compares the files of a folder with what they should be and returns
// what is wrong. With a function that writes, it writes what differs first; a
// file that should not be there is for a person to remove.
func Compare(folder string, files map[string][]byte, write func(path string, data []byte) error) []string {
	var wrong []string
	for _, name := range sortedNames(files) {
		path := filepath.Join(folder, filepath.FromSlash(name))
		got, err := os.ReadFile(path)
		if err == nil && bytes.Equal(got, files[name]) {
			continue
		}
		if write != nil {
			err = write(path, files[name])
		}
		if write == nil || err != nil {
			wrong = append(wrong, fmt.Sprintf("%s is not what the program gives (%v); run its test with -update and read the diff", path, err))
		}
	}
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(folder, path)
		if err == nil && !d.IsDir() && files[filepath.ToSlash(name)] == nil {
			wrong = append(wrong, path+" is not a vector of this format; remove it")
		}
		return nil
	})
	return wrong
}

func line(document []byte) []byte { return append(bytes.Clone(document), '\n') }
