package worker

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
)

// Bounds of a folder that is fetched, and of how many stay for later attempts.
const (
	maxFolderEntries = 100_000
	maxFolderBytes   = 2 << 30
	maxFolders       = 8
)

// folder gives the place on this machine of a folder of the target, and fetches it if it
// is not here already. The caller digests it.
func (s *shift) folder(ctx context.Context, f agent.CarriedFolder) (string, error) {
	cache := filepath.Join(s.o.Dir, "folders")
	_, name, _ := strings.Cut(f.Digest.String(), ":")
	at := filepath.Join(cache, name, "f")
	if got, err := agent.DigestMount(at); err == nil && got == f.Digest {
		return at, store.Touch(filepath.Dir(at), s.o.Now()) // it is not the oldest any more
	}
	if s.fetched += f.Bytes; f.Bytes < 0 || s.fetched > maxFolderBytes {
		return "", refusal.Newf(refusal.TooLarge, "the coordinator names folders of %d bytes, at most %d are fetched", s.fetched, int64(maxFolderBytes))
	}
	// Those of this attempt were used last.
	if err := store.KeepNewest(cache, max(maxFolders, len(s.setup.Target.Folders))-1); err != nil {
		return "", err
	}
	data, err := s.fetch(ctx, "", fleet.File{Digest: f.List, Bytes: fleet.MaxPiece})
	if err != nil {
		return "", err
	}
	var list []store.Listed
	if err := canon.Unmarshal(data, &list); err != nil {
		return "", err
	}
	if err := store.CheckList(list, maxFolderEntries, f.Bytes); err != nil {
		return "", err
	}
	s.o.Note("fetching %s %s, %d bytes", f.Kind, f.Host, f.Bytes)
	return at, s.unpack(ctx, f, filepath.Dir(at), list)
}

// unpack puts a folder beside its place, and gives it its name when it has its digest.
// What a kill leaves has another name and is removed with the oldest.
func (s *shift) unpack(ctx context.Context, f agent.CarriedFolder, dir string, list []store.Listed) error {
	draft, err := store.NewTree(dir)
	if err != nil {
		return err
	}
	defer draft.Discard()
	at := filepath.Join(draft.Draft(), "f")
	files := bufio.NewReaderSize(&folderReader{ctx: ctx, s: s, list: f.List, left: f.Bytes}, 64<<10)
	if err := store.Unpack(at, list, files); err != nil {
		return err
	}
	if got, err := agent.DigestMount(at); err != nil || got != f.Digest {
		return refusal.Newf(refusal.DigestMismatch, "the coordinator sent %s %.200s with the digest %s, expected %s (%v)", f.Kind, f.Host, got, f.Digest, err).
			WithHint("the folder may have changed while it was sent: leave it alone while the attempt runs")
	}
	return place(draft, dir, f.Digest)
}

// place gives a folder its name. Another worker of this machine may do so at the same
// time; if it is faster, and may be using it, its folder stays.
func place(draft *store.Tree, dir string, want digest.Content) (err error) {
	for range 5 {
		if draft.Commit(false) == nil {
			return nil
		}
		if got, err := agent.DigestMount(filepath.Join(dir, "f")); err == nil && got == want {
			return nil
		}
		if err = draft.Commit(true); err == nil {
			return nil
		}
	}
	return err
}

// A folderReader reads the files of a folder from the coordinator, part by part.
type folderReader struct {
	ctx  context.Context
	s    *shift
	list digest.Content
	at   int64
	left int64
	part []byte
}

func (r *folderReader) Read(p []byte) (int, error) {
	if len(r.part) == 0 {
		if r.left <= 0 {
			return 0, io.EOF
		}
		m, err := r.s.insist(r.ctx, "fetch", &fleet.Fetch{Digest: r.list, Offset: r.at, Folder: true}, nil, 30*time.Second)
		if err != nil {
			return 0, err
		}
		if len(m.Data) == 0 || int64(len(m.Data)) > r.left {
			return 0, errors.New("the coordinator sent another number of bytes than it said")
		}
		r.part, r.at, r.left = m.Data, r.at+int64(len(m.Data)), r.left-int64(len(m.Data))
	}
	n := copy(p, r.part)
	r.part = r.part[n:]
	return n, nil
}

// sameMounts compares what the target mounts here with what the attempt is registered
// with.
func sameMounts(t *agent.Target, planned []evidence.PlannedMount) error {
	shown, err := t.Show()
	if err != nil {
		return err
	}
	for i, m := range shown.Planned() {
		if i >= len(planned) || planned[i].Inside != m.Inside {
			return refusal.Newf(refusal.DigestMismatch, "the attempt is registered without the mount %.200s", m.Inside)
		}
		if p := planned[i].Digest; (p == nil) != (m.Digest == nil) || p != nil && *p != *m.Digest {
			return refusal.Newf(refusal.DigestMismatch, "the mount %.200s is %s, the attempt is registered with %s", m.Inside, m.Digest, p)
		}
	}
	return nil
}
