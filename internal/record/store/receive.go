package store

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// PackEnd returns where the last whole piece of a pack ends, given that one ends
// at from, or 0 for the beginning. Who appends to it may be at work.
func PackEnd(fsys FS, name string, from int64) (int64, error) {
	f, info, err := openRegular(fsys, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	end := from
	if end == 0 {
		if end = int64(len(packHeader)); info.Size() < end {
			return 0, nil
		}
	}
	var header [packRecordHeader]byte
	for end+packRecordHeader <= info.Size() {
		if _, err := f.ReadAt(header[:], end); err != nil {
			return 0, readError(name, err)
		}
		size := binary.BigEndian.Uint64(header[digest.Size:])
		if size > uint64(info.Size()-end-packRecordHeader) {
			break
		}
		end += packRecordHeader + int64(size)
	}
	return end, nil
}

// ReadRange reads the bytes of a file from one offset to another.
func ReadRange(fsys FS, name string, from, to int64) ([]byte, error) {
	f, _, err := openRegular(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, to-from)
	if n, err := f.ReadAt(data, from); n < len(data) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, readError(name, err)
	}
	return data, nil
}

// An Incoming is a pack that comes from elsewhere. It has its name only after
// every piece was found to be what it is called.
type Incoming struct {
	fsys FS
	name string
	tmp  string
	f    File
	size int64
}

// ReceivePack begins a pack of that name, which must not exist.
func ReceivePack(fsys FS, name string) (*Incoming, error) {
	if err := MakeDir(fsys, filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	if _, err := fsys.Lstat(name); err == nil {
		return nil, refusal.Newf(refusal.AlreadyExists, "%s exists already and is not overwritten", name)
	}
	tmp := name + ".incoming"
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, writeError("writing", tmp, err)
	}
	return &Incoming{fsys: fsys, name: name, tmp: tmp, f: f}, nil
}

// Write appends bytes.
func (in *Incoming) Write(data []byte) error {
	n, err := in.f.WriteAt(data, in.size)
	if in.size += int64(n); err != nil {
		return writeError("writing", in.tmp, err)
	}
	return nil
}

// Check reads every piece, and reports whether the one that is wanted is among
// them. A piece that is not what its name says, or bytes that are not a piece, are
// DigestMismatch.
func (in *Incoming) Check(want digest.Content, limit int64) (found bool, err error) {
	end, err := PackEnd(in.fsys, in.tmp, 0)
	if err == nil && end != in.size {
		err = refusal.Newf(refusal.DigestMismatch, "the pieces end at byte %d of %d", end, in.size)
	}
	if err != nil {
		return false, err
	}
	var buf []byte
	err = ScanPack(in.fsys, in.tmp, func(d digest.Content, at PieceAt) error {
		data, err := readPiece(in.f, d, at, limit, buf)
		buf = data
		found = found || d == want
		return err
	})
	if refusal.Is(err, refusal.Malformed) {
		err = refusal.Newf(refusal.DigestMismatch, "%w", err)
	}
	return found, err
}

// Pieces reads every piece and says of each whether it is what its name says. Bytes
// that are not a piece are an error.
func (in *Incoming) Pieces(limit int64, visit func(d digest.Content, wrong error)) error {
	err := ScanPack(in.fsys, in.tmp, func(d digest.Content, at PieceAt) error {
		_, err := readPiece(in.f, d, at, limit, nil)
		visit(d, err)
		return nil
	})
	if err != nil {
		return err
	}
	end, err := PackEnd(in.fsys, in.tmp, 0)
	if err == nil && end != in.size {
		err = refusal.Newf(refusal.DigestMismatch, "the pieces end at byte %d of %d", end, in.size)
	}
	return err
}

// Keep gives the pack its name and returns when it is on disk.
func (in *Incoming) Keep() error {
	err := in.f.Sync()
	if cerr := in.f.Close(); err == nil {
		err = cerr
	}
	in.f = nil
	if err == nil {
		err = in.fsys.Rename(in.tmp, in.name)
	}
	if err == nil {
		err = in.fsys.SyncDir(filepath.Dir(in.name))
	}
	if err != nil {
		return writeError("writing", in.name, err)
	}
	return nil
}

// Discard removes what was not kept.
func (in *Incoming) Discard() {
	if in.f != nil {
		in.f.Close()
		in.fsys.Remove(in.tmp)
	}
}
