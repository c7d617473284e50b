package sqlresult

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"

	"modernc.org/sqlite"
)

// deterministic is SQLITE_DETERMINISTIC of sqlite3.h: the same arguments give the same
// value.
const deterministic = 0x800

// undetermined names a function that a query calls and that SQLite itself does not call
// deterministic: random(), changes(), sqlite_version(), CURRENT_TIMESTAMP and whatever
// else there is or will be. It asks SQLite for the program that it makes of the query,
// in which every call stands by the name that was found, however it was spelled.
func undetermined(ctx context.Context, c *sql.Conn, query string) (string, error) {
	known, err := determinedFunctions(ctx, c)
	if err != nil {
		return "", err
	}
	rows, err := c.QueryContext(ctx, "EXPLAIN "+query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var opcode string
		var p4, ignored any
		if err := rows.Scan(&ignored, &opcode, &ignored, &ignored, &ignored, &p4, &ignored, &ignored); err != nil {
			return "", err
		}
		call, _ := p4.(string)
		name, _, isCall := strings.Cut(call, "(")
		switch opcode {
		case "Function", "PureFunc", "AggStep", "AggStep1", "AggInverse", "AggValue", "AggFinal":
			if !isCall || !known[strings.ToLower(name)] {
				return name, nil
			}
		}
	}
	return "", rows.Err()
}

// determinedFunctions are the functions of the connection that give the same for the
// same. Of those that sum up rows SQLite does not say so; all of its own do.
func determinedFunctions(ctx context.Context, c *sql.Conn) (map[string]bool, error) {
	rows, err := c.QueryContext(ctx, "SELECT lower(name), min(type IN ('a', 'w') OR flags & ? <> 0) FROM pragma_function_list GROUP BY 1", deterministic)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := map[string]bool{}
	for rows.Next() {
		var name string
		var ok bool
		if err := rows.Scan(&name, &ok); err != nil {
			return nil, err
		}
		known[name] = ok
	}
	return known, rows.Err()
}

// clocks are the functions of dates. SQLite calls them deterministic, and they are
// unless an argument asks for the present time or for the time zone of the machine; which
// is seen only when they are called. The number is the place of the first time among
// the arguments.
var clocks = map[string]int{"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "timediff": 0, "strftime": 1}

// withoutClock replaces the functions of dates, in all databases that this process opens
// from now on. There is one such process for each comparison.
var withoutClock = sync.OnceValue(func() error {
	plain := sql.OpenDB(plainDriver{})
	plain.SetMaxOpenConns(1)
	for name, first := range clocks {
		err := sqlite.RegisterDeterministicScalarFunction(name, -1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			if err := timeless(name, first, args); err != nil {
				return nil, err
			}
			return callPlain(plain, name, args)
		})
		if err != nil {
			return fmt.Errorf("replacing %s: %w", name, err)
		}
	}
	return nil
})

// timeless refuses arguments whose meaning depends on when or where they are read.
func timeless(name string, first int, args []driver.Value) error {
	if len(args) <= first {
		return errors.New(name + " asks for the present time")
	}
	for i, arg := range args {
		var text string
		switch arg := arg.(type) {
		case string:
			text = arg
		case []byte:
			text = string(arg)
		}
		text, _, _ = strings.Cut(text, "\x00") // where SQLite stops reading
		isTime := i == first || name == "timediff"
		switch text = strings.ToLower(strings.TrimSpace(text)); {
		case isTime && (text == "now" || text == "subsec" || text == "subsecond"):
			return errors.New(name + " asks for the present time")
		case text == "localtime" || text == "utc":
			return errors.New(name + " asks for the time zone of the machine")
		}
	}
	return nil
}

// callPlain calls SQLite's own function.
func callPlain(plain *sql.DB, name string, args []driver.Value) (driver.Value, error) {
	given := make([]any, len(args))
	for i, arg := range args {
		given[i] = arg
	}
	var value any
	err := plain.QueryRow("SELECT "+name+"("+strings.TrimSuffix(strings.Repeat("?,", len(args)), ",")+")", given...).Scan(&value)
	return value, err
}

// A plainDriver opens databases that have SQLite's own functions.
type plainDriver struct{}

func (plainDriver) Connect(context.Context) (driver.Conn, error) {
	return (&sqlite.Driver{}).Open(":memory:")
}

func (plainDriver) Driver() driver.Driver { return &sqlite.Driver{} }
