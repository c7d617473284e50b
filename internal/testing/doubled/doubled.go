// Package doubled writes JSON in which a member is there twice, for tests of what reads
// other people's files: two programs that read such a file believe two things of it, so
// each reader must refuse it.
package doubled

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"tallystick/internal/record/jsonstream"
)

// A File is one that has a member twice.
type File struct {
	Path string // of the member, as in results[].score
	Data []byte
}

// Every gives a copy of some JSON, or lines of it, for each member that it has. Of members
// at one path, in several elements of a list or on several lines, the first stands for all.
// The second copies are spelled in turns as the first, with an escape and with another value.
func Every(data []byte) ([]File, error) {
	w := &walker{data: data, seen: map[string]bool{}}
	r, err := jsonstream.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		k, err := r.Peek()
		if err != nil || k == jsonstream.None {
			return w.out, err
		}
		if err := w.value(r, ""); err != nil {
			return nil, err
		}
	}
}

type walker struct {
	data []byte
	seen map[string]bool
	out  []File
}

func (w *walker) value(r *jsonstream.Reader, path string) error {
	k, err := r.Peek()
	if err != nil {
		return err
	}
	switch k {
	case jsonstream.Object:
		return r.Object(func(name string) error {
			from := r.Offset()
			at := strings.TrimPrefix(path+"."+numbered().ReplaceAllString(name, "N"), ".")
			err := w.value(r, at)
			w.add(at, name, from, r.Offset())
			return err
		})
	case jsonstream.Array:
		return r.Array(func(int) error { return w.value(r, path+"[]") })
	}
	return r.Skip()
}

// numbered finds names that are made of numbers and ids, such as rows by number.
var numbered = func() func() *regexp.Regexp {
	re := regexp.MustCompile(`[0-9]+`)
	return func() *regexp.Regexp { return re }
}()

func (w *walker) add(path, name string, from, to int64) {
	if w.seen[path] {
		return
	}
	w.seen[path] = true
	spelled, value := fmt.Sprintf("%q", name), w.data[from:to]
	switch len(w.out) % 3 {
	case 1:
		if name != "" && name[0] < 0x80 {
			spelled = fmt.Sprintf(`"\u%04x%s`, name[0], spelled[len(fmt.Sprintf("%q", name[:1]))-1:])
		}
	case 2:
		value = []byte("null")
	}
	w.out = append(w.out, File{path, bytes.Join([][]byte{w.data[:to], []byte("," + spelled + ":"), value, w.data[to:]}, nil)})
}
