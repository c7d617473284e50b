package index

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
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
	w := &writer{}
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
	run := x.runSQLite
	if x.postgres {
		run = x.runPostgres
	}
	if err := run(ctx, b.From, w.list); err != nil {
		return x.failed("writing", err)
	}
	if len(b.Drop) > 0 {
		return x.forget(ctx)
	}
	return nil
}

// A writer gathers the statements of one transaction.
type writer struct{ list []statement }

type statement struct {
	text string
	args []any
}

func (w *writer) do(text string, args ...any) { w.list = append(w.list, statement{text, args}) }

// runSQLite runs statements in one transaction.
func (x *Index) runSQLite(ctx context.Context, from int64, list []statement) error {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if from > 0 {
		var applied string
		if err := tx.QueryRowContext(ctx, askApplied).Scan(&applied); err != nil {
			return err
		}
		if err := follows(applied, from); err != nil {
			return err
		}
	}
	prepared := make(map[string]*sql.Stmt)
	for _, s := range list {
		if prepared[s.text] == nil {
			if prepared[s.text], err = tx.PrepareContext(ctx, s.text); err != nil {
				return err
			}
		}
		if _, err := prepared[s.text].ExecContext(ctx, s.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// atOnce is how many statements are sent to PostgreSQL before its answers are
// waited for: one by one, most of the time would go to waiting.
const atOnce = 500

// runPostgres does the same, many statements at a time.
func (x *Index) runPostgres(ctx context.Context, from int64, list []statement) error {
	c, err := x.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Raw(func(driver any) error {
		tx, err := driver.(*stdlib.Conn).Conn().Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		if from > 0 {
			var applied string
			if err := tx.QueryRow(ctx, askApplied).Scan(&applied); err != nil {
				return err
			}
			if err := follows(applied, from); err != nil {
				return err
			}
		}
		for part := range slices.Chunk(list, atOnce) {
			batch := &pgx.Batch{}
			for _, s := range part {
				batch.Queue(s.text, s.args...)
			}
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
		}
		return tx.Commit(ctx)
	})
}

const askApplied = "SELECT value FROM meta WHERE name = 'applied'"

// follows fails if the index does not have as many entries as it had.
func follows(applied string, from int64) error {
	if applied != strconv.FormatInt(from, 10) {
		return fmt.Errorf("it has %.20q entries, and had %d: another one was put in its place; restart the registry, which brings it up to the ledger", applied, from)
	}
	return nil
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
