// Package sqlresult runs a query that an agent wrote against a fixture database and
// compares what it gives with what the expected query gives.
//
// The agent's text is hostile. It runs in an SQLite that lives in memory, after the
// fixture was loaded and writing was switched off; it is one statement that begins
// with SELECT, WITH or VALUES, uses none of the words that reach outside or change
// settings, and calls no function that gives something else each time. Length, rows, bytes, memory and time
// are bounded. Errors in the agent's query are the agent's; errors in the fixture or
// the expected query are ours, and then there is no score.
//
// All of that is in a process of its own: this program started again, with nothing but
// a pipe to its parent, no environment, and limits of the kernel on memory, processor
// time and files. A query that takes the database down takes that process down, which
// is the agent's fault, and the harness goes on.
//
// Where it stops: the bound on time is a clock, so a query near it may pass on one
// machine and not on another.
package sqlresult

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// Bounds of a comparison.
const (
	maxRows   = 100_000
	maxBytes  = 16 << 20
	maxLength = 1 << 20 // of one value, and of the query
	maxMemory = 256 << 20
	maxTime   = 5 * time.Second
)

// errTime ends a query that takes too long.
var errTime = errors.New("the time for the query is over")

// A Spec is what is compared with what.
type Spec struct {
	Database string // the script that makes the fixture
	Expected string // the query whose result is right
	Ordered  bool   // rows must come in the same order
	Columns  bool   // columns must have the same names
	// Tolerance is by how much two numbers may differ of which one is a float.
	Tolerance float64
}

// A Wrong says why the agent's query does not give what is expected: the agent's
// fault, and a score of zero.
type Wrong struct{ Why string }

func (w *Wrong) Error() string { return w.Why }

// compareHere compares in this process. It calls ready before it runs the agent's query.
func compareHere(ctx context.Context, s Spec, query string, ready func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, errTime)
	defer cancel()
	c, done, err := open(ctx, s.Database)
	if err != nil {
		return err
	}
	defer done()
	if err := check(s.Expected); err != nil {
		return fmt.Errorf("the expected query: %w", err)
	}
	want, err := runDetermined(ctx, c, s.Expected)
	if err != nil {
		return fmt.Errorf("the expected query: %w", err)
	}
	if err := check(query); err != nil {
		return &Wrong{"the query is not run: " + err.Error()}
	}
	ready()
	got, err := runDetermined(ctx, c, query)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTime) {
			return err // the caller stopped us, not the query
		}
		if ctx.Err() != nil {
			return &Wrong{fmt.Sprintf("the query took longer than %v", maxTime)}
		}
		return &Wrong{"the query failed: " + err.Error()}
	}
	if why := differ(s, want, got); why != "" {
		return &Wrong{why}
	}
	return nil
}

// open makes the database in memory, loads the fixture, and switches writing off.
func open(ctx context.Context, script string) (*sql.Conn, func(), error) {
	if err := withoutClock(); err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1) // another connection would be another database
	c, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	done := func() { c.Close(); db.Close() }
	if err := prepare(ctx, c, script); err != nil {
		done()
		return nil, nil, err
	}
	return c, done, nil
}

func prepare(ctx context.Context, c *sql.Conn, script string) error {
	for _, setting := range []string{"PRAGMA temp_store=MEMORY", "PRAGMA trusted_schema=OFF", fmt.Sprintf("PRAGMA hard_heap_limit=%d", maxMemory)} {
		if _, err := c.ExecContext(ctx, setting); err != nil {
			return fmt.Errorf("preparing the database: %w", err)
		}
	}
	if err := limit(c); err != nil {
		return err
	}
	if _, err := c.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("loading the fixture database: %w", err)
	}
	if _, err := c.ExecContext(ctx, "PRAGMA query_only=ON"); err != nil {
		return fmt.Errorf("preparing the database: %w", err)
	}
	return nil
}

// The numbers of limits, as sqlite3.h has them.
const (
	limitLength    = 0
	limitSQLLength = 1
	limitColumn    = 2
	limitExprDepth = 3
	limitCompound  = 4
	limitAttached  = 7
	limitLike      = 8
)

// limit bounds what any statement may make.
func limit(c *sql.Conn) error {
	for id, most := range map[int]int{limitLength: maxLength, limitSQLLength: maxLength, limitColumn: 200, limitExprDepth: 200, limitCompound: 100, limitAttached: 0, limitLike: 1000} {
		if _, err := sqlite.Limit(c, id, most); err != nil {
			return fmt.Errorf("bounding the database: %w", err)
		}
	}
	return nil
}

// A table is what a query gives.
type table struct {
	columns []string
	rows    [][]any // nil, int64, float64, string or []byte
}

// runDetermined runs a query that gives the same whenever and wherever it is run.
func runDetermined(ctx context.Context, c *sql.Conn, query string) (*table, error) {
	name, err := undetermined(ctx, c, query)
	if err != nil {
		return nil, err
	}
	if name != "" {
		return nil, fmt.Errorf("it calls %.40q, which gives something else each time", name)
	}
	return run(ctx, c, query)
}

func run(ctx context.Context, c *sql.Conn, query string) (*table, error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &table{}
	if t.columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	size := 0
	for rows.Next() {
		row := make([]any, len(t.columns))
		places := make([]any, len(row))
		for i := range row {
			places[i] = &row[i]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		for i := range row {
			row[i] = plainValue(row[i])
			size += 16 + sizeOf(row[i])
		}
		if t.rows = append(t.rows, row); len(t.rows) > maxRows || size > maxBytes {
			return nil, fmt.Errorf("it gives more than %d rows or %d bytes", maxRows, maxBytes)
		}
	}
	return t, rows.Err()
}

// plainValue undoes what the driver makes of columns with a declared type: the five
// types of SQLite are what is compared.
func plainValue(v any) any {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return v
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 8
}

// differ says how two results differ, or "".
func differ(s Spec, want, got *table) string {
	switch {
	case len(got.columns) != len(want.columns):
		return fmt.Sprintf("it gives %d columns, expected %d", len(got.columns), len(want.columns))
	case s.Columns && !slices.EqualFunc(got.columns, want.columns, strings.EqualFold):
		return fmt.Sprintf("its columns are %s, expected %s", strings.Join(got.columns, ", "), strings.Join(want.columns, ", "))
	case len(got.rows) != len(want.rows):
		return fmt.Sprintf("it gives %d rows, expected %d", len(got.rows), len(want.rows))
	}
	if !s.Ordered {
		slices.SortStableFunc(want.rows, compareRows)
		slices.SortStableFunc(got.rows, compareRows)
	}
	for i := range want.rows {
		for j := range want.rows[i] {
			if !same(want.rows[i][j], got.rows[i][j], s.Tolerance) {
				which := fmt.Sprintf("row %d", i+1)
				if !s.Ordered {
					which += " of the sorted rows"
				}
				return fmt.Sprintf("%s, column %d is %s, expected %s", which, j+1, shown(got.rows[i][j]), shown(want.rows[i][j]))
			}
		}
	}
	return ""
}

// same compares by type: NULL is NULL only, text is not a number, and a whole number
// is the float of the same value.
func same(want, got any, tolerance float64) bool {
	if a, ok := number(want); ok {
		b, ok := number(got)
		if !ok {
			return false
		}
		if x, whole := want.(int64); whole {
			if y, both := got.(int64); both {
				return x == y
			}
		}
		return a == b || math.Abs(a-b) <= tolerance
	}
	return rank(want) == rank(got) && compareValues(want, got) == 0
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// rank orders values of different types.
func rank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case int64, float64:
		return 1
	case string:
		return 2
	}
	return 3
}

func compareRows(a, b []any) int {
	for i := range a {
		if c := compareValues(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func compareValues(a, b any) int {
	if x, y := rank(a), rank(b); x != y {
		return x - y
	}
	switch x := a.(type) {
	case int64, float64:
		m, _ := number(a)
		n, _ := number(b)
		switch {
		case m < n:
			return -1
		case m > n:
			return 1
		}
		return 0
	case string:
		return strings.Compare(x, b.(string))
	case []byte:
		return slices.Compare(x, b.([]byte))
	}
	return 0
}

func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return fmt.Sprintf("%.80q", v)
	case []byte:
		return fmt.Sprintf("a blob of %d bytes", len(v))
	}
	return fmt.Sprint(v)
}
