package store

import (
	"io"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// An OpenPiece is a piece of evidence of which parts are read. It has not been
// compared with its name: the reader hashes what it reads.
type OpenPiece struct {
	*io.SectionReader
	f File
}

// Close closes the file.
func (p *OpenPiece) Close() error { return p.f.Close() }

// OpenUnverified opens a piece that is too large to hold in memory.
func (v *Vault) OpenUnverified(d digest.Content) (*OpenPiece, error) {
	if !v.blobs.Has(d) {
		if err := v.scan(); err != nil {
			return nil, err
		}
	}
	v.mu.Lock()
	at, found := PieceAt{}, false
	if v.pieces != nil {
		var ref pieceRef
		if ref, found = v.pieces.find(d); found {
			at = PieceAt{Pack: v.packs[ref.pack], Offset: ref.offset, Size: int64(ref.size)}
		}
	}
	v.mu.Unlock()
	if !found {
		if !v.blobs.Has(d) {
			return nil, refusal.Newf(refusal.NotFound, "no evidence %s in %s", d, v.dir).
				WithHint("copy the evidence folder of the machine that recorded it")
		}
		at.Pack, at.Size = v.blobs.path(d), -1
	}
	f, info, err := openRegular(v.fsys, at.Pack)
	if err != nil {
		return nil, err
	}
	if at.Size < 0 {
		at.Size = info.Size()
	}
	return &OpenPiece{io.NewSectionReader(f, at.Offset, at.Size), f}, nil
}
