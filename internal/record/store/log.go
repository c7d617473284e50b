package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tallystick/internal/record/refusal"
)

// segmentSuffix ends the name of each file of a [Log]; the digits before it
// are the number of the first record inside.
const segmentSuffix = ".log"

// segmentDigits pads the number, so that names sort as numbers do.
const segmentDigits = 16

// A Segment is one file of a [Log].
type Segment struct {
	Path  string
	First uint64 // number of its first record
	Size  int64
	Info  fs.FileInfo
}

// Segments lists the files of the log in dir in order. A file that is not a
// segment is refused: nothing may hide between them.
func Segments(fsys FS, dir string) ([]Segment, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, readError(dir, err)
	}
	segments := make([]Segment, 0, len(entries))
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		first, err := parseSegmentName(e.Name())
		if err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: %w", path, err).
				WithHint("only the ledger writes to this folder; move the file elsewhere if you put it there")
		}
		// The entry's own type, not that of what it may link to: where a link
		// leads can be changed without touching this folder.
		info, err := e.Info()
		if err != nil {
			return nil, readError(path, err)
		}
		if !info.Mode().IsRegular() {
			return nil, refusal.Newf(refusal.Malformed, "%s: is a %s, not a segment file", path, kindOf(info)).
				WithHint("only the ledger writes to this folder; put the file itself back")
		}
		segments = append(segments, Segment{Path: path, First: first, Size: info.Size(), Info: info})
	}
	return segments, nil
}

func parseSegmentName(name string) (uint64, error) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != segmentDigits {
		return 0, fmt.Errorf("not a segment name (%d digits and %q)", segmentDigits, segmentSuffix)
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("not a segment name (%d digits and %q)", segmentDigits, segmentSuffix)
	}
	return n, nil
}

func segmentName(first uint64) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, first, segmentSuffix)
}

// A Log appends batches of bytes to the last of its segments. What [Log.Append]
// has acknowledged survives a crash; what it has not may be there in whole, in
// part or not at all. A Log trusts its caller to have read the segments first
// and to know where the good bytes end.
type Log struct {
	fsys   FS
	dir    string
	f      File
	name   string
	good   int64 // bytes of the current segment that were acknowledged
	broken error // why no more may be appended
}

// OpenLog opens the log in dir for appending at offset good of its last
// segment, whose last batch begins at offset batch. Bytes after good are a
// mistake of the caller.
func OpenLog(fsys FS, dir string, batch, good int64) (*Log, error) {
	segments, err := Segments(fsys, dir)
	if err != nil {
		return nil, err
	}
	l := &Log{fsys: fsys, dir: dir}
	if len(segments) == 0 {
		if good != 0 {
			return nil, fmt.Errorf("opening log %s: no segment, expected %d bytes", dir, good)
		}
		return l, l.Rotate(0)
	}
	last := segments[len(segments)-1]
	if last.Size != good {
		return nil, fmt.Errorf("opening log %s: %s has %d bytes, expected %d", dir, last.Path, last.Size, good)
	}
	f, err := fsys.OpenFile(last.Path, os.O_RDWR, 0)
	if err != nil {
		return nil, writeError("opening", last.Path, err)
	}
	// The process before this one may have been killed between writing and
	// syncing. What was read back is built upon from now on, so it must be on
	// disk first, the segment's name included.
	err = writeAgain(f, batch, good)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		f.Close()
		return nil, writeError("opening", last.Path, err)
	}
	l.f, l.name, l.good = f, last.Path, good
	return l, nil
}

// writeAgain writes bytes of a file over themselves. After a sync that failed,
// Linux takes what it could not write for written: it still shows it to readers,
// and no later sync would put it on disk. Only the last batch can be such, since
// nothing is appended after a failure.
func writeAgain(f File, from, to int64) error {
	data := make([]byte, to-from)
	if _, err := f.ReadAt(data, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := f.WriteAt(data, from)
	return err
}

// Append writes data after the acknowledged bytes and returns when it is on
// disk. After a failure the log takes nothing more: the file may hold bytes
// that were never acknowledged, and only reading it again tells.
func (l *Log) Append(data []byte) error {
	if l.broken != nil {
		return l.broken
	}
	_, err := l.f.WriteAt(data, l.good)
	if err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		l.broken = writeError("appending to", l.name, err)
		l.takeBack()
		return l.broken
	}
	l.good += int64(len(data))
	return nil
}

// takeBack removes what a failed append may have left. Failing to is no
// further error: the next reader recognises unsealed bytes at the end.
func (l *Log) takeBack() {
	if l.f.Truncate(l.good) == nil {
		l.f.Sync()
	}
}

// Size is the number of acknowledged bytes in the current segment.
func (l *Log) Size() int64 { return l.good }

// Rotate starts the segment whose first record has the given number.
func (l *Log) Rotate(first uint64) error {
	if l.broken != nil {
		return l.broken
	}
	name := filepath.Join(l.dir, segmentName(first))
	f, err := l.fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		l.broken = writeError("starting segment", name, err)
		return l.broken
	}
	// The name must be on disk before anything in the file is acknowledged.
	if err := l.fsys.SyncDir(l.dir); err != nil {
		f.Close()
		l.broken = writeError("starting segment", name, err)
		return l.broken
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f, l.name, l.good = f, name, 0
	return nil
}

// Close closes the current segment.
func (l *Log) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}

// CutTail removes the bytes of a file from offset good on and keeps them in
// keep, which is written and synced first: no byte exists in neither place.
func CutTail(fsys FS, name string, good int64, keep string) error {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return writeError("opening", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return readError(name, err)
	}
	if info.Size() < good {
		return fmt.Errorf("cutting %s at %d: it has %d bytes", name, good, info.Size())
	}
	tail := make([]byte, info.Size()-good)
	if _, err := f.ReadAt(tail, good); err != nil {
		return readError(name, err)
	}
	if err := MakeDir(fsys, filepath.Dir(keep), 0o700); err != nil {
		return err
	}
	// An earlier attempt may have got as far as this.
	if old, err := ReadFile(fsys, keep, int64(len(tail))); err != nil || !bytes.Equal(old, tail) {
		if err := CreateFile(fsys, keep, tail, 0o600); err != nil {
			return err
		}
	} else if err := fsys.SyncDir(filepath.Dir(keep)); err != nil {
		return writeError("writing", keep, err)
	}
	if err := f.Truncate(good); err != nil {
		return writeError("cutting", name, err)
	}
	if err := f.Sync(); err != nil {
		return writeError("cutting", name, err)
	}
	return nil
}
