package importer

import (
	"archive/zip"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/zipfile"
)

// inspectArchive reads a .eval log: the header, or for a run that did not
// finish the journal, and then each sample.
func (s *session) inspectArchive(f *file) error {
	return s.archive(f, func(a *zipfile.Archive) error {
		if a.By["header.json"] == nil && a.By["_journal/start.json"] == nil {
			return unrecognised("%s: a zip archive without header.json and _journal/start.json, expected an Inspect log", f.path)
		}
		l := &inspectLog{run: s.begin("inspect_ai")}
		if err := l.readArchive(a); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if err := l.finish(); err != nil {
			return refuseIn(f, "header.json: results", err)
		}
		l.run.finish(f)
		return nil
	})
}

// archive opens a zip archive. The digest is of the whole file, so it is read
// once from end to end besides.
func (s *session) archive(f *file, read func(*zipfile.Archive) error) error {
	var at io.ReaderAt
	var size int64
	var data bytes.Buffer
	if f.stdin != nil {
		err := s.bytes(f, func(src io.Reader) error {
			n, err := io.Copy(&data, io.LimitReader(src, s.opt.MaxStdinBytes+1))
			if err == nil && n > s.opt.MaxStdinBytes {
				err = refusal.Newf(refusal.TooLarge, "an archive of more than %d bytes on standard input", s.opt.MaxStdinBytes).WithHint("save it to a file and import that")
			}
			return err
		})
		if err != nil {
			return err
		}
		at, size = bytes.NewReader(data.Bytes()), int64(data.Len())
	} else {
		src, err := f.openFile()
		if err != nil {
			return err
		}
		defer src.Close()
		hashed := jsonstream.NewCopy(patient{s.ctx, src})
		sum, n, err := hashed.Sum()
		if err != nil {
			return unreadable(f.path, err)
		}
		f.sum = hex.EncodeToString(sum[:])
		at, size = src, n
	}
	a, err := zipfile.Open(at, size)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return read(a)
}

var sampleEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^samples/.*_epoch_\d+(\.json|/sample\.json)$`) })

func (l *inspectLog) readArchive(a *zipfile.Archive) error {
	header := a.By["header.json"]
	if header == nil {
		header = a.By["_journal/start.json"]
		l.status = "started"
	}
	err := a.JSON(header, func(r *jsonstream.Reader) error { return object(r, l.fields(r, nil)) })
	if err != nil {
		return err
	}
	l.run.KeepAttempts = l.epochs != 1
	sample := l.sampleReader(a.Reader)
	for _, e := range a.Entries {
		if !sampleEntry().MatchString(e.Name) {
			continue
		}
		if err := a.JSON(e, func(*jsonstream.Reader) error { return sample() }); err != nil {
			return err
		}
	}
	return l.summaries(a)
}

// summaries compares the list of samples that the log keeps with the samples
// themselves: summaries.json, or for a run that did not finish the journal.
func (l *inspectLog) summaries(a *zipfile.Archive) error {
	var lists []*zip.File
	if e := a.By["summaries.json"]; e != nil {
		lists = append(lists, e)
	} else {
		for _, e := range a.Entries {
			if strings.HasPrefix(e.Name, "_journal/summaries/") {
				lists = append(lists, e)
			}
		}
		slices.SortFunc(lists, func(x, y *zip.File) int { return strings.Compare(x.Name, y.Name) })
	}
	if len(lists) == 0 {
		l.run.Check("summaries", results.Skip, "the log has no summaries")
		return nil
	}
	n := int64(0)
	for _, e := range lists {
		err := a.JSON(e, func(r *jsonstream.Reader) error {
			return list(r, func(int) error { n++; return nil })
		})
		if err != nil {
			return err
		}
	}
	l.run.CheckCount("summaries", n, l.run.Run.Samples)
	return nil
}
