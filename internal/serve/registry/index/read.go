package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Applied is how many entries are in the index, and the head after them.
func (x *Index) Applied(ctx context.Context) (applied int64, head string, err error) {
	version, err := x.Meta(ctx, "version")
	if err != nil || version != Version {
		return 0, "", err
	}
	text, err := x.Meta(ctx, "applied")
	if err != nil || text == "" {
		return 0, "", err
	}
	if applied, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, "", x.failed("reading how far it is", err)
	}
	head, err = x.Meta(ctx, "head")
	return applied, head, err
}

// A Filter selects rows. Empty members select everything.
type Filter struct {
	Thing, Status, Artifact, Runner string
	Before                          int64 // sequence number; 0 for the newest
	Limit                           int
}

// List visits rows, the newest first. The body is good until visit returns.
func (x *Index) List(ctx context.Context, f Filter, visit func(seq int64, body []byte)) error {
	var where []string
	var args []any
	for _, c := range []struct{ column, value string }{{"thing", f.Thing}, {"status", f.Status}, {"artifact", f.Artifact}, {"runner", f.Runner}} {
		if c.value != "" {
			args = append(args, c.value)
			where = append(where, fmt.Sprintf("%s = $%d", c.column, len(args)))
		}
	}
	if f.Before > 0 {
		args = append(args, f.Before)
		where = append(where, fmt.Sprintf("seq < $%d", len(args)))
	}
	args = append(args, f.Limit)
	text := "SELECT seq, body FROM rows"
	if where != nil {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	text += fmt.Sprintf(" ORDER BY seq DESC LIMIT $%d", len(args))
	return x.each(ctx, text, args, func(scan func(...any) error) error {
		var seq int64
		var body sql.RawBytes
		if err := scan(&seq, &body); err != nil {
			return err
		}
		visit(seq, body)
		return nil
	})
}

func (x *Index) each(ctx context.Context, text string, args []any, visit func(scan func(...any) error) error) error {
	s, err := x.statement(ctx, text)
	if err != nil {
		return err
	}
	list, err := s.QueryContext(ctx, args...)
	if err != nil {
		return x.failed("reading", err)
	}
	defer list.Close()
	for list.Next() {
		if err := visit(list.Scan); err != nil {
			return x.failed("reading", err)
		}
	}
	if err := list.Err(); err != nil {
		return x.failed("reading", err)
	}
	return nil
}

// Doc is a document, nil if there is none.
func (x *Index) Doc(ctx context.Context, kind, id string) ([]byte, error) {
	return x.bytes(ctx, "SELECT body FROM docs WHERE kind = $1 AND id = $2", kind, id)
}

// Docs visits the documents of a kind in the order of their names.
func (x *Index) Docs(ctx context.Context, kind string, visit func(id string, body []byte) error) error {
	return x.each(ctx, "SELECT id, body FROM docs WHERE kind = $1 ORDER BY id", []any{kind}, func(scan func(...any) error) error {
		var id string
		var body []byte
		if err := scan(&id, &body); err != nil {
			return err
		}
		return visit(id, body)
	})
}

// Blob is a blob, nil if there is none.
func (x *Index) Blob(ctx context.Context, digest string) ([]byte, error) {
	return x.bytes(ctx, "SELECT data FROM blobs WHERE digest = $1", digest)
}

// Served is what the writer signed to be served, nil if there is none.
func (x *Index) Served(ctx context.Context, name string) ([]byte, error) {
	return x.bytes(ctx, "SELECT body FROM served WHERE name = $1", name)
}

// Node is a path of the catalogue, nil if there is none.
func (x *Index) Node(ctx context.Context, path string) ([]byte, error) {
	return x.bytes(ctx, "SELECT body FROM nodes WHERE path = $1", path)
}

func (x *Index) bytes(ctx context.Context, text string, args ...any) ([]byte, error) {
	var body []byte
	err := x.query(ctx, text, args, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return body, err
}

// Children are the bodies of the paths right below one, by path, after one of
// them, at most limit.
func (x *Index) Children(ctx context.Context, parent, after string, limit int) (bodies [][]byte, err error) {
	err = x.each(ctx, "SELECT body FROM nodes WHERE parent = $1 AND path > $2 ORDER BY path LIMIT $3", []any{parent, after, limit}, func(scan func(...any) error) error {
		var body []byte
		if err := scan(&body); err != nil {
			return err
		}
		bodies = append(bodies, body)
		return nil
	})
	return bodies, err
}

// Entries visits entries from an index on, at most n.
func (x *Index) Entries(ctx context.Context, from int64, n int, visit func(Entry) error) error {
	return x.each(ctx, "SELECT idx, kind, prev, raw FROM entries WHERE idx >= $1 ORDER BY idx LIMIT $2", []any{from, n}, func(scan func(...any) error) error {
		var e Entry
		if err := scan(&e.Index, &e.Kind, &e.Prev, &e.Raw); err != nil {
			return err
		}
		return visit(e)
	})
}
