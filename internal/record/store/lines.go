package store

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"tallystick/internal/record/refusal"
)

// Lines is a file of lines to which one line at a time is added. A line that
// [Lines.Append] has acknowledged is on disk; after a failure nothing more is
// taken, as with a [Log]. The caller sees to it that one process has it open.
type Lines struct{ log Log }

// OpenLines opens a file of lines, which is made if it is not there, and shows
// each of them, without its newline, to visit, which must not keep the slice. A
// last line without its newline, or with a zero byte in it, is what a crash
// left of a line that was never acknowledged: it is cut off. No line may be
// longer than most bytes.
func OpenLines(fsys FS, name string, most int, visit func(at int64, line []byte) error) (*Lines, error) {
	if err := MakeDir(fsys, filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	if info, err := fsys.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, refusal.Newf(refusal.Malformed, "%s: is a %s, not a file", name, kindOf(info)).WithHint("put the file itself back")
	}
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, writeError("opening", name, err)
	}
	last, good, err := readLines(f, name, most, visit)
	if err == nil {
		err = settleLines(fsys, f, name, last, good)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Lines{Log{fsys: fsys, dir: filepath.Dir(name), f: f, name: name, good: good}}, nil
}

// ReadLines shows the lines of a file as [OpenLines] does, and changes nothing.
func ReadLines(fsys FS, name string, most int, visit func(at int64, line []byte) error) error {
	f, _, err := openRegular(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = readLines(f, name, most, visit)
	return err
}

// readLines shows the lines and returns where the last whole one begins and ends.
func readLines(f File, name string, most int, visit func(at int64, line []byte) error) (last, good int64, err error) {
	r := bufio.NewReaderSize(f, 1<<16)
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return 0, 0, refusal.Newf(refusal.TooLarge, "%s: the line at byte %d is longer than %d bytes", name, good, most).
				WithHint("no line that this program writes is; restore the file from a copy")
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return last, good, nil
		case err != nil:
			return 0, 0, readError(name, err)
		}
		if bytes.IndexByte(line, 0) >= 0 {
			if _, err := r.Peek(1); errors.Is(err, io.EOF) {
				return last, good, nil
			}
		}
		if err := visit(good, line[:len(line)-1]); err != nil {
			return 0, 0, err
		}
		last = good
		good += int64(len(line))
		line = line[:0]
	}
}

// settleLines cuts off what is not a line, and puts the rest on disk: what was
// read is built upon from now on. See [OpenLog] about writing it again.
func settleLines(fsys FS, f File, name string, last, good int64) error {
	err := f.Truncate(good)
	if err == nil {
		err = writeAgain(f, last, good)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return writeError("opening", name, err)
	}
	return nil
}

// Append adds a line, which has no newline, and returns where it begins when it
// is on disk.
func (l *Lines) Append(line []byte) (at int64, err error) {
	at = l.log.good
	return at, l.log.Append(append(bytes.Clone(line), '\n'))
}

// Read gives the n bytes of a line that begins at a place.
func (l *Lines) Read(at int64, n int) ([]byte, error) {
	data := make([]byte, n)
	if _, err := l.log.f.ReadAt(data, at); err != nil {
		return nil, readError(l.log.name, err)
	}
	return data, nil
}

// Close closes the file.
func (l *Lines) Close() error { return l.log.Close() }
