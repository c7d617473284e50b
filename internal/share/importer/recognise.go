package importer

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

// A kind is what a file was recognised as: a name of the harness, and after a
// colon the part that the file is of a result.
type kind string

// A harness is one whose results are read here, and all that is known about it.
type harness struct {
	name string // as people call it
	// What docs/formats/import.md says of it: by what its files are recognised,
	// what one run is, and what the scores of a row are.
	recognised, runs, scores string

	parts []part
	read  func(*session, []*file) error // of files that belong together

	// companions tells the names of files that are written beside this one as
	// parts of the same result. Nil, or nil for a file, if there are none.
	companions func(*file) func(base string) bool
}

// A part is one kind of file that a harness writes. It is recognised by the bytes
// it begins with, by the members it has as JSON, or by the columns it has as a
// table.
type part struct {
	kind    kind
	begins  []string
	fits    func(*Shape) bool
	columns func([]string) bool
	called  string // what it is, if it is not JSON
	seeks   bool   // it cannot be read from standard input

	// together is the same for files that may belong to one run: the folder of
	// the run as the harness lays it out. Nil if each file is read by itself.
	together func(*file) string
}

// harnesses are those that are known. The first that fits decides, so what is
// told by more members stands before what is told by fewer.
var harnesses = []*harness{&harborHarness, &inspectHarness, &promptfooHarness, &deepEvalHarness, &benchHarness, &sweHarness, &mtebHarness, &eeeHarness, &helmHarness, &lmEvalHarness, &trulensHarness, &weaveHarness, &openAIEvalsHarness, &spansHarness, &claudeCodeHarness, &mlflowHarness, &ragasHarness}

// Names lists the harnesses whose results are read.
func Names() []string { return namesOf(harnesses) }

func namesOf(list []*harness) []string {
	var names []string
	for _, h := range list {
		names = append(names, h.name)
	}
	return names
}

// alone reads each file by itself, as its kind is read.
func alone(readers map[kind]func(*session, *file) error) func(*session, []*file) error {
	return func(s *session, g []*file) error { return readers[g[0].kind](s, g[0]) }
}

// partOf finds what is known about a kind.
func (o Options) partOf(k kind) (*harness, *part) {
	for _, h := range o.harnesses {
		for i := range h.parts {
			if h.parts[i].kind == k {
				return h, &h.parts[i]
			}
		}
	}
	return nil, nil
}

// find is the kind of the first part that is told so, "" if there is none.
func (o Options) find(told func(*part) bool) kind {
	for _, h := range o.harnesses {
		for i := range h.parts {
			if told(&h.parts[i]) {
				return h.parts[i].kind
			}
		}
	}
	return ""
}

// kindOf says whose JSON it is that has these members.
func (o Options) kindOf(s *Shape) kind {
	return o.find(func(p *part) bool { return p.fits != nil && p.fits(s) })
}

// describe says what a file is that is not a result of a known harness.
func (o Options) describe(f *file) string {
	if f.shape != nil {
		return f.shape.String()
	}
	var called []string
	for _, h := range o.harnesses {
		for _, p := range h.parts {
			if p.called != "" {
				called = append(called, p.called)
			}
		}
	}
	last := len(called) - 1
	return "it is not JSON, " + strings.Join(called[:last], ", ") + " or " + called[last]
}

// sniffBytes is how much of a file is looked at first.
const sniffBytes = 1 << 20

// recognise looks at the beginning of the file, and at all of it if the
// beginning does not tell.
func (f *file) recognise(ctx context.Context, o Options) error {
	src, err := f.openFile()
	if err != nil {
		return err
	}
	defer src.Close()
	head, err := io.ReadAll(io.LimitReader(src, sniffBytes))
	if err != nil {
		return unreadable(f.path, err)
	}
	whole := len(head) < sniffBytes
	if err := f.recogniseHead(head, whole, o); err != nil || f.kind != "" || whole || f.shape == nil {
		return err
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return unreadable(f.path, err)
	}
	return f.recogniseShape(patient{ctx, src}, true, o)
}

// recogniseHead looks at the beginning of a file. A file that does not look like
// anything is left without a kind.
func (f *file) recogniseHead(head []byte, whole bool, o Options) error {
	f.kind = o.find(func(p *part) bool {
		return slices.ContainsFunc(p.begins, func(begin string) bool { return bytes.HasPrefix(head, []byte(begin)) })
	})
	switch {
	case f.kind != "":
		return nil
	case looksLikeJSON(head):
		return f.recogniseShape(bytes.NewReader(head), whole, o)
	}
	if columns := columnsOf(head); columns != nil {
		f.kind = o.find(func(p *part) bool { return p.columns != nil && p.columns(columns) })
	}
	switch {
	case f.kind != "":
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		if f.root == nil {
			_, err := jsonstream.NewReader(bytes.NewReader(head))
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

func looksLikeJSON(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

func (f *file) recogniseShape(src io.Reader, whole bool, o Options) error {
	s, err := readShape(src, whole)
	if err != nil {
		// In a folder a file that is not whole JSON may be any program's; one that
		// begins like a result and breaks off is refused all the same.
		if f.root != nil && refusal.Is(err, refusal.Malformed) {
			return f.brokenInFolder(err, o)
		}
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.shape = s
	f.kind = o.kindOf(s)
	return nil
}

func (f *file) brokenInFolder(broken error, o Options) error {
	src, err := f.openFile()
	if err != nil {
		return err
	}
	defer src.Close()
	s, err := readShape(io.LimitReader(src, sniffBytes), false)
	if err == nil && o.kindOf(s) != "" {
		return fmt.Errorf("%s: %w", f.path, broken)
	}
	return nil
}

// columnsOf is the first record of a table, nil if it is not one.
func columnsOf(head []byte) []string {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))))
	columns, err := r.Read()
	if err != nil {
		return nil
	}
	return columns
}
