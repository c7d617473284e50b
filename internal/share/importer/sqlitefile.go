package importer

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"tallystick/internal/record/refusal"
)

// maxTables bounds how many tables are listed.
const maxTables = 1000

// A sqliteFile is an open database.
type sqliteFile struct {
	ctx context.Context
	db  *sql.DB
}

// openSQLite opens the database at path.
func openSQLite(ctx context.Context, path string) (*sqliteFile, error) {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return nil, refusal.Newf(refusal.Unreadable, "%s: changes are still in %s-wal", path, filepath.Base(path)).
			WithHint("close the program that writes it, or run: sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", path, err)
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute),
		RawQuery: "mode=ro&immutable=1&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=temp_store(2)&_pragma=mmap_size(0)&_pragma=cell_size_check(1)"}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	return &sqliteFile{ctx, db}, nil
}

// Close closes the database.
func (f *sqliteFile) Close() error { return f.db.Close() }

// Tables lists the tables. Views are not tables.
func (f *sqliteFile) Tables() (map[string]bool, error) {
	tables := map[string]bool{}
	err := f.query(fmt.Sprintf("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%%' LIMIT %d", maxTables), 1, func(row []any) error {
		tables[fmt.Sprint(row[0])] = true
		return nil
	})
	return tables, err
}

// Columns lists the columns of a table.
func (f *sqliteFile) Columns(table string) ([]string, error) {
	var columns []string
	err := f.query("SELECT name FROM pragma_table_info("+quote(table, '\'')+")", 1, func(row []any) error {
		columns = append(columns, fmt.Sprint(row[0]))
		return nil
	})
	return columns, err
}

// Rows gives the named columns of every row of a table, in the order of the
// table. row is valid during the call only.
func (f *sqliteFile) Rows(table string, columns []string, each func(row []any) error) error {
	have, err := f.Columns(table)
	if err != nil {
		return err
	}
	quoted := make([]string, len(columns))
	for i, c := range columns {
		if !slices.Contains(have, c) {
			return refusal.Newf(refusal.Malformed, "table %s: no column %s", table, c)
		}
		quoted[i] = quote(c, '"')
	}
	return f.query("SELECT "+strings.Join(quoted, ", ")+" FROM "+quote(table, '"'), len(columns), each)
}

func quote(name string, mark byte) string {
	m := string(mark)
	return m + strings.ReplaceAll(name, m, m+m) + m
}

func (f *sqliteFile) query(query string, columns int, each func([]any) error) error {
	rows, err := f.db.QueryContext(f.ctx, query)
	if err != nil {
		return damaged(err)
	}
	defer rows.Close()
	values, pointers := make([]any, columns), make([]any, columns)
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return damaged(err)
		}
		if err := each(values); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return damaged(err)
	}
	return nil
}

func damaged(err error) error {
	return refusal.Newf(refusal.Malformed, "reading the database: %w", err).WithHint("the database is damaged or cut off; fetch it again")
}
