// Package index is the database of a registry: what the ledger says, arranged for
// questions. Nothing is true because it stands here. It is written in the order of
// the ledger, a transaction for each group of entries, and can be thrown away:
// the same entries give the same rows ([Index.Digest]).
//
// There is one code for SQLite and PostgreSQL: statements keep to what both
// have.
package index

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"; apply.go imports "pgx"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// Version is that of the tables. Tables of another version count as empty, and
// are made again.
const Version = "2"

// An Index is an open database.
type Index struct {
	name     string // for messages: without a password
	postgres bool
	read     *sql.DB
	write    *sql.DB // one connection

	mu         sync.Mutex
	statements map[string]*sql.Stmt // of read
}

// Open opens the database that a registry writes: a URL of PostgreSQL, or the
// path of an SQLite file, which is made.
func Open(ctx context.Context, db string) (*Index, error) {
	x, err := open(db, false)
	if err != nil {
		return nil, err
	}
	if err := x.make(ctx); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// OpenReader opens a database to read it. It must have been written before.
func OpenReader(ctx context.Context, db string) (*Index, error) {
	x, err := open(db, true)
	if err != nil {
		return nil, err
	}
	version, err := x.Meta(ctx, "version")
	if err == nil && version != Version {
		err = refusal.Newf(refusal.IndexDiffers, "%s: the tables have version %q, this program reads %s", x.name, version, Version).
			WithHint("the process that writes makes them again when it starts; run the same version of tally there")
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

func open(db string, readOnly bool) (*Index, error) {
	x := &Index{statements: make(map[string]*sql.Stmt)}
	var err error
	if strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://") {
		err = x.openPostgres(db)
	} else {
		err = x.openSQLite(db, readOnly)
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the database %s: %w", x.name, err)
	}
	return x, nil
}

func (x *Index) openPostgres(db string) error {
	x.postgres = true
	u, err := url.Parse(db)
	if err != nil {
		x.name = "postgres://…"
		return errors.New("not a URL")
	}
	x.name = u.Redacted()
	if x.read, err = sql.Open("pgx", db); err != nil {
		return err
	}
	x.read.SetMaxOpenConns(16)
	x.read.SetMaxIdleConns(16)
	if x.write, err = sql.Open("pgx", db); err != nil {
		return err
	}
	x.write.SetMaxOpenConns(1)
	return nil
}

// The ledger is the durable truth, so a transaction need not be on disk when it
// commits. Deleted bytes are overwritten: what is taken down must be gone.
const sqliteSettings = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=secure_delete(1)&_pragma=cache_size(-32000)"

func (x *Index) openSQLite(path string, readOnly bool) error {
	x.name = path
	source := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: sqliteSettings}).String()
	if readOnly {
		source = (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: "mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(1)"}).String()
	}
	var err error
	if x.read, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	x.read.SetMaxOpenConns(8)
	x.read.SetMaxIdleConns(8)
	if x.write, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	x.write.SetMaxOpenConns(1)
	return nil
}

// Close lets go of the database.
func (x *Index) Close() error {
	var err error
	for _, db := range []*sql.DB{x.read, x.write} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return err
}

// tables are made in this order. BYTES is the type of bytes.
var tables = []string{
	`CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS entries (idx BIGINT PRIMARY KEY, kind TEXT NOT NULL, prev BYTES NOT NULL, raw BYTES NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS rows (seq BIGINT PRIMARY KEY, proposal TEXT NOT NULL, thing TEXT NOT NULL, status TEXT NOT NULL,
		artifact TEXT NOT NULL, runner TEXT NOT NULL, body BYTES NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS rows_thing ON rows (thing, status, seq)`,
	`CREATE INDEX IF NOT EXISTS rows_artifact ON rows (artifact, thing, status, seq)`,
	`CREATE INDEX IF NOT EXISTS rows_runner ON rows (runner, thing, status, seq)`,
	`CREATE TABLE IF NOT EXISTS nodes (path TEXT PRIMARY KEY, parent TEXT NOT NULL, body BYTES NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS nodes_parent ON nodes (parent, path)`,
	`CREATE TABLE IF NOT EXISTS docs (kind TEXT NOT NULL, id TEXT NOT NULL, body BYTES NOT NULL, PRIMARY KEY (kind, id))`,
	`CREATE TABLE IF NOT EXISTS blobs (digest TEXT PRIMARY KEY, data BYTES NOT NULL)`,
	// What is signed with a date is not the same each time, and is not part of the
	// digest.
	`CREATE TABLE IF NOT EXISTS served (name TEXT PRIMARY KEY, body BYTES NOT NULL)`,
}

// digested are the tables that the ledger gives, and their columns in the order
// of the first ones.
var digested = []struct{ table, columns, order string }{
	{"entries", "idx, kind, prev, raw", "idx"},
	{"rows", "seq, proposal, thing, status, artifact, runner, body", "seq"},
	{"nodes", "path, parent, body", "path"},
	{"docs", "kind, id, body", "kind, id"},
	{"blobs", "digest, data", "digest"},
}

// make makes the tables that are not there.
func (x *Index) make(ctx context.Context) error {
	kind, collate := "BLOB", ""
	if x.postgres {
		// Texts are ordered by their bytes, as in SQLite.
		kind, collate = "BYTEA", ` COLLATE "C"`
	}
	for _, t := range tables {
		t = strings.ReplaceAll(t, "BYTES", kind)
		t = strings.ReplaceAll(t, " TEXT", " TEXT"+collate)
		if _, err := x.write.ExecContext(ctx, t); err != nil {
			return x.failed("making the tables", err)
		}
	}
	return nil
}

// Clear drops everything and makes empty tables.
func (x *Index) Clear(ctx context.Context) error {
	x.mu.Lock()
	for _, s := range x.statements {
		s.Close()
	}
	clear(x.statements)
	x.mu.Unlock()
	for _, t := range []string{"meta", "entries", "rows", "nodes", "docs", "blobs", "served"} {
		if _, err := x.write.ExecContext(ctx, "DROP TABLE IF EXISTS "+t); err != nil {
			return x.failed("dropping the tables", err)
		}
	}
	return x.make(ctx)
}

func (x *Index) failed(doing string, err error) error {
	return refusal.Newf(refusal.Failed, "database %s: %s: %w", x.name, doing, err).
		WithHint(`nothing is lost: the ledger has everything, and "tally registry rebuild" makes the database again`)
}

// Meta is a fact about the index itself, "" if it is not there.
func (x *Index) Meta(ctx context.Context, name string) (string, error) {
	var value string
	err := x.query(ctx, "SELECT value FROM meta WHERE name = $1", []any{name}, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// query reads one row through a prepared statement.
func (x *Index) query(ctx context.Context, text string, args []any, into ...any) error {
	s, err := x.statement(ctx, text)
	if err != nil {
		return err
	}
	err = s.QueryRowContext(ctx, args...).Scan(into...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return x.failed("reading", err)
	}
	return err
}

func (x *Index) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.statements[text]; s != nil {
		return s, nil
	}
	s, err := x.read.PrepareContext(ctx, text)
	if err != nil {
		return nil, x.failed("preparing a statement", err)
	}
	x.statements[text] = s
	return s, nil
}

// Digest is SHA-256 over every row of the tables that the ledger gives, in the
// order of their keys, and how many rows they have. Each value has its length
// before it, so that no two contents give the same bytes.
func (x *Index) Digest(ctx context.Context) (digest.ID, int64, error) {
	h := sha256.New()
	rows := int64(0)
	for _, t := range digested {
		n, err := x.digestTable(ctx, h.Write, t.table, t.columns, t.order)
		if err != nil {
			return digest.ID{}, 0, err
		}
		rows += n
	}
	return digest.ID(h.Sum(nil)), rows, nil
}

func (x *Index) digestTable(ctx context.Context, write func([]byte) (int, error), table, columns, order string) (int64, error) {
	list, err := x.read.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s", columns, table, order))
	if err != nil {
		return 0, x.failed("reading "+table, err)
	}
	defer list.Close()
	values := make([]sql.RawBytes, strings.Count(columns, ",")+1)
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	n := int64(0)
	write([]byte(table))
	for ; list.Next(); n++ {
		if err := list.Scan(into...); err != nil {
			return 0, x.failed("reading "+table, err)
		}
		for _, v := range values {
			var length [8]byte
			binary.BigEndian.PutUint64(length[:], uint64(len(v)))
			write(length[:])
			write(v)
		}
	}
	if err := list.Err(); err != nil {
		return 0, x.failed("reading "+table, err)
	}
	return n, nil
}
