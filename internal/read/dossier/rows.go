package dossier

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
)

// rowsVersion is the version of what a row says and of how it is derived: of
// Case.CheckEvidence and all that it calls. A row of another version is not
// taken.
const rowsVersion = 1

const (
	// maxRowFiles bounds the files that rows of one attempt rest on. The
	// evidence of an attempt is one pack and what it shares with others.
	maxRowFiles = 1000
	// maxRowsBytes bounds a file of rows: eight million cases.
	maxRowsBytes = 256 << 20
)

// rows say of which records of one attempt an earlier reading found the evidence whole, and in
// which files, so that a display need not read it again. A row holds as long as
// these files are untouched. A process that can write to the folder can forge a row: what
// decides or vouches does not ask here.
//
// They are a file with a line of JSON, then the keys of
// the records whose evidence was whole, then the digest of all that. A file that
// is not that, by whatever accident, is as good as none.
type rows struct {
	fsys     store.FS
	path     string
	evidence string // the folder that names of files are relative to
	head     rowsHead
	keys     map[digest.Content]bool
	fresh    bool // there is more than in the file
	useless  bool // a file cannot be named, or there are too many
}

type rowsHead struct {
	Version int                `json:"version"`
	Attempt string             `json:"attempt"`
	Files   map[string]touched `json:"files"` // by name
}

// touched tells whether a file is the one that was read.
type touched struct {
	Size int64 `json:"size"`
	Time int64 `json:"time"` // of its last change, in nanoseconds
}

// loadRows reads the rows of an attempt that still hold, from the cache folder dir.
// Evidence is the folder of the evidence.
func loadRows(fsys store.FS, dir, evidence, attempt string) *rows {
	id := digest.ContentOf([]byte(attempt))
	r := &rows{fsys: fsys, path: filepath.Join(dir, "rows", hex.EncodeToString(id[:16])), evidence: evidence}
	data, err := store.ReadFile(store.OS{}, r.path, maxRowsBytes)
	if err != nil || !r.parse(data) || r.head.Version != rowsVersion || r.head.Attempt != attempt || !r.untouched() {
		r.head, r.keys = rowsHead{rowsVersion, attempt, make(map[string]touched)}, make(map[digest.Content]bool)
	}
	return r
}

func (r *rows) parse(data []byte) bool {
	body := len(data) - digest.Size
	if body < 0 || digest.ContentOf(data[:body]) != digest.Content(data[body:]) {
		return false
	}
	line, keys, found := bytes.Cut(data[:body], []byte("\n"))
	if !found || len(keys)%digest.Size != 0 || json.Unmarshal(line, &r.head) != nil || len(r.head.Files) == 0 {
		return false
	}
	r.keys = make(map[digest.Content]bool, len(keys)/digest.Size)
	for key := range slices.Chunk(keys, digest.Size) {
		r.keys[digest.Content(key)] = true
	}
	return true
}

// untouched reports whether every file is as it was.
func (r *rows) untouched() bool {
	for name, was := range r.head.Files {
		if is, ok := r.stat(filepath.Join(r.evidence, filepath.FromSlash(name))); !ok || is != was {
			return false
		}
	}
	return true
}

func (r *rows) stat(path string) (touched, bool) {
	info, err := r.fsys.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return touched{}, false
	}
	return touched{info.Size(), info.ModTime().UnixNano()}, true
}

// Has reports whether there is a row.
func (r *rows) Has(key digest.Content) bool { return r.keys[key] }

// Add notes a row and the files that it rests on.
func (r *rows) Add(key digest.Content, files map[string]bool) {
	for path := range files {
		name, err := filepath.Rel(r.evidence, path)
		name = filepath.ToSlash(name)
		if _, known := r.head.Files[name]; known {
			continue
		}
		is, ok := r.stat(path)
		if err != nil || path == "" || !ok || len(r.head.Files) == maxRowFiles {
			r.useless = true
			return
		}
		r.head.Files[name] = is
	}
	r.keys[key], r.fresh = true, true
}

// Save writes the rows, unless a file was touched while they were made. A failure to
// write is ignored: the next reading derives them again.
func (r *rows) Save() {
	if !r.fresh || r.useless || !r.untouched() {
		return
	}
	data, err := json.Marshal(r.head)
	if err != nil {
		return
	}
	data = append(data, '\n')
	for key := range r.keys {
		data = append(data, key[:]...)
	}
	sum := digest.ContentOf(data)
	if store.MakeDir(store.OS{}, filepath.Dir(r.path), 0o700) == nil {
		store.WriteFile(store.OS{}, r.path, append(data, sum[:]...), 0o600)
	}
}

// rowKey names all that goes into the row of a record, but for the bytes of the
// evidence, which its digests name: what the record and an amendment say.
func rowKey(a *history.Attempt, c *history.Case) digest.Content {
	b := make([]byte, 0, 512)
	text := func(list ...string) {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	number := func(n ...int64) {
		for _, n := range n {
			b = binary.AppendVarint(b, n)
		}
	}
	flag := func(set bool) {
		b = append(b, 0)
		if set {
			b[len(b)-1] = 1
		}
	}
	text(a.ID, a.Class, c.ID, string(c.Outcome()))
	text(c.Tags()...)
	text(c.FailureModes()...)
	number(c.Index, int64(c.Repeat), int64(c.Execution), int64(c.Retries), int64(math.Float64bits(c.Score)), int64(len(c.Evidence)))
	flag(c.Context != nil && c.Context.JudgedByModel)
	b = append(b, c.Digest[:]...)
	for _, d := range c.Evidence {
		b = append(b, d[:]...)
	}
	if m := c.Amendment; m != nil {
		text(m.Author, m.Reason)
		number(m.Index, int64(math.Float64bits(m.Score)))
		flag(m.Passed)
	}
	return digest.ContentOf(b)
}
