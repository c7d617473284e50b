package index

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// An Entry is one of the ledger.
type Entry struct {
	Index int64
	Kind  string
	Prev  []byte
	Raw   []byte
}

// A Row is a line of a list. Its sequence number is the index of the entry that
// proposed it, which orders lists and is where a page begins.
type Row struct {
	Seq      int64
	Proposal string
	Thing    string
	Status   string
	Artifact string
	Runner   string
	Body     []byte
}

// A Node is a path of the catalogue.
type Node struct {
	Path   string
	Parent string
	Body   []byte
}

// A Name is what a document is called.
type Name struct{ Kind, ID string }

// A Batch is what a group of entries changes. Of two values for one name the
// last counts, and the maps see to that.
type Batch struct {
	Entries []Entry
	Rows    map[int64]Row
	Nodes   map[string]Node
	Folders map[string]*Node // nodes that are there only if nothing else has their path
	Docs    map[Name][]byte  // nil removes it
	Blobs   map[string][]byte
	Drop    []string // blobs
	Served  map[string][]byte

	// From is how many entries the index must have for this batch to follow: it may
	// have been restored under us. 0 does not ask.
	From       int64
	Applied    int64 // entries, with this batch
	Head       string
	Origin     string
	Checkpoint []byte // the last sealed one
}

// NewBatch returns an empty batch.
func NewBatch() *Batch {
	return &Batch{Rows: map[int64]Row{}, Nodes: map[string]Node{}, Folders: map[string]*Node{}, Docs: map[Name][]byte{}, Blobs: map[string][]byte{}, Served: map[string][]byte{}}
}

const (
	putEntry  = `INSERT INTO entries (idx, kind, prev, raw) VALUES ($1, $2, $3, $4) ON CONFLICT (idx) DO UPDATE SET kind = excluded.kind, prev = excluded.prev, raw = excluded.raw`
	putRow    = `INSERT INTO rows (seq, proposal, thing, status, artifact, runner, body) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (seq) DO UPDATE SET status = excluded.status, body = excluded.body`
	putNode   = `INSERT INTO nodes (path, parent, body) VALUES ($1, $2, $3) ON CONFLICT (path) DO UPDATE SET body = excluded.body`
	putFolder = `INSERT INTO nodes (path, parent, body) VALUES ($1, $2, $3) ON CONFLICT (path) DO NOTHING`
	putDoc    = `INSERT INTO docs (kind, id, body) VALUES ($1, $2, $3) ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body`
	dropDoc   = `DELETE FROM docs WHERE kind = $1 AND id = $2`
	putBlob   = `INSERT INTO blobs (digest, data) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING`
	dropBlob  = `DELETE FROM blobs WHERE digest = $1`
	putMeta   = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	putServed = `INSERT INTO served (name, body) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body`
)

// Apply writes a batch, all of it or nothing.
func (x *Index) Apply(ctx context.Context, b *Batch) error {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return x.failed("writing", err)
	}
	w := &writer{ctx: ctx, tx: tx, prepared: make(map[string]*sql.Stmt)}
	w.follows(b.From)
	for _, e := range b.Entries {
		w.do(putEntry, e.Index, e.Kind, e.Prev, e.Raw)
	}
	for _, seq := range slices.Sorted(maps.Keys(b.Rows)) {
		r := b.Rows[seq]
		w.do(putRow, r.Seq, r.Proposal, r.Thing, r.Status, r.Artifact, r.Runner, r.Body)
	}
	for path, n := range b.Nodes {
		w.do(putNode, path, n.Parent, n.Body)
	}
	for path, n := range b.Folders {
		w.do(putFolder, path, n.Parent, n.Body)
	}
	for name, body := range b.Docs {
		if body == nil {
			w.do(dropDoc, name.Kind, name.ID)
		} else {
			w.do(putDoc, name.Kind, name.ID, body)
		}
	}
	for d, data := range b.Blobs {
		w.do(putBlob, d, data)
	}
	for _, d := range b.Drop {
		w.do(dropBlob, d)
	}
	for name, body := range b.Served {
		w.do(putServed, name, body)
	}
	w.meta(b)
	if w.err == nil {
		w.err = tx.Commit()
	} else {
		tx.Rollback()
	}
	if w.err != nil {
		return x.failed("writing", w.err)
	}
	if len(b.Drop) > 0 {
		return x.forget(ctx)
	}
	return nil
}

// A writer writes into one transaction until the first error.
type writer struct {
	ctx      context.Context
	tx       *sql.Tx
	prepared map[string]*sql.Stmt
	err      error
}

func (w *writer) do(text string, args ...any) {
	if w.err != nil {
		return
	}
	s := w.prepared[text]
	if s == nil {
		if s, w.err = w.tx.PrepareContext(w.ctx, text); w.err != nil {
			return
		}
		w.prepared[text] = s
	}
	_, w.err = s.ExecContext(w.ctx, args...)
}

// follows fails if the index does not have that many entries.
func (w *writer) follows(from int64) {
	if from == 0 {
		return
	}
	var applied string
	w.err = w.tx.QueryRowContext(w.ctx, "SELECT value FROM meta WHERE name = 'applied'").Scan(&applied)
	if w.err == nil && applied != strconv.FormatInt(from, 10) {
		w.err = fmt.Errorf("it has %.20q entries, and had %d: another one was put in its place; restart the registry, which brings it up to the ledger", applied, from)
	}
}

func (w *writer) meta(b *Batch) {
	if b.Origin == "" {
		return // of what is served only
	}
	w.do(putMeta, "version", Version)
	w.do(putMeta, "origin", b.Origin)
	w.do(putMeta, "applied", strconv.FormatInt(b.Applied, 10))
	w.do(putMeta, "head", b.Head)
	w.do(putMeta, "checkpoint", string(b.Checkpoint))
}

// forget takes what was deleted out of the files of the database: the pages of a
// log, and rows that are no longer visible.
func (x *Index) forget(ctx context.Context) error {
	text := []string{"PRAGMA wal_checkpoint(TRUNCATE)"}
	if x.postgres {
		text = []string{"VACUUM rows", "VACUUM docs", "VACUUM blobs", "VACUUM nodes"}
	}
	for _, t := range text {
		if _, err := x.write.ExecContext(ctx, t); err != nil {
			return x.failed("removing what was taken down", err)
		}
	}
	return nil
}
