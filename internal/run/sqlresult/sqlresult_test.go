package sqlresult

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/run/bounded"
)

const fixture = `
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL, note TEXT);
INSERT INTO orders VALUES (1, 'ada', 10.5, NULL), (2, 'bob', 20, ''), (3, 'ada', 4.5, 'late');
`

// TestMain lets the test binary run queries as tally does.
func TestMain(m *testing.M) {
	bounded.Reexec()
	os.Exit(m.Run())
}

// compare compares here, which is quick; TestTheProcessSaysTheSame holds the process to
// it.
func compare(t *testing.T, s Spec, query string) error {
	t.Helper()
	if s.Database == "" {
		s.Database = fixture
	}
	return compareHere(context.Background(), s, query, func() {})
}

func TestResultsThatAreTheSame(t *testing.T) {
	for query, s := range map[string]Spec{
		"select customer, sum(total) as s from orders group by 1 order by s desc": {Expected: "SELECT customer, SUM(total) FROM orders GROUP BY customer"},
		"SELECT id FROM orders ORDER BY id DESC;":                                 {Expected: "SELECT id FROM orders ORDER BY id DESC", Ordered: true},
		"SELECT 10.5001, 'x' -- done; really":                                     {Expected: "VALUES (10.5, 'x')", Tolerance: 0.001},
		"SELECT 20.0":                                                             {Expected: "SELECT 20"},
		"WITH a AS (SELECT note FROM orders) SELECT note FROM a":                  {Expected: "SELECT note FROM orders"},
		"SELECT ID as Name FROM orders /* DROP TABLE orders; */":                  {Expected: "SELECT id AS name FROM orders", Columns: true},
		"SELECT 'DROP TABLE x; attach'":                                           {Expected: "SELECT 'DROP TABLE x; attach'"},
		"SELECT replace(customer, 'a', 'b') FROM orders":                          {Expected: "SELECT replace(customer, 'a', 'b') FROM orders"},
		"SELECT date('2026-05-12')":                                               {Expected: "SELECT '2026-05-12'"},
	} {
		if err := compare(t, s, query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestResultsThatDiffer(t *testing.T) {
	for query, tt := range map[string]struct {
		s    Spec
		want string
	}{
		"SELECT id FROM orders":                 {Spec{Expected: "SELECT id FROM orders ORDER BY id DESC", Ordered: true}, "row 1, column 1 is 1, expected 3"},
		"SELECT id, id FROM orders":             {Spec{Expected: "SELECT id FROM orders"}, "2 columns, expected 1"},
		"SELECT id FROM orders WHERE id < 3":    {Spec{Expected: "SELECT id FROM orders"}, "2 rows, expected 3"},
		"SELECT coalesce(note, '') FROM orders": {Spec{Expected: "SELECT note FROM orders"}, "expected NULL"},
		"SELECT '20'":                           {Spec{Expected: "SELECT 20"}, `is "20", expected 20`},
		"SELECT 1 UNION ALL SELECT 1":           {Spec{Expected: "SELECT 1 UNION ALL SELECT 2"}, "is 1, expected 2"},
		"SELECT id AS other FROM orders":        {Spec{Expected: "SELECT id FROM orders", Columns: true}, "its columns are other"},
		"SELECT 10.6":                           {Spec{Expected: "SELECT 10.5", Tolerance: 0.01}, "is 10.6"},
		"SELECT x FROM orders":                  {Spec{Expected: "SELECT id FROM orders"}, "the query failed: "},
		"SELEC id FROM orders":                  {Spec{Expected: "SELECT id FROM orders"}, "begins with"},
		"":                                      {Spec{Expected: "SELECT id FROM orders"}, "it is empty"},
		"SELECT 9007199254740993":               {Spec{Expected: "SELECT 9007199254740992"}, "is 9007199254740993"},
	} {
		err := compare(t, tt.s, query)
		var wrong *Wrong
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Why, tt.want) {
			t.Errorf("%s: %v, want %s", query, err, tt.want)
		}
	}
}

// Each row is something that an agent may try. All are the agent's fault, and nothing
// is reached.
func TestHostileQueries(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.db")
	if err := os.WriteFile(secret, []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "written")
	for name, query := range map[string]string{
		"attaches a file":              "ATTACH '/etc/passwd' AS p",
		"attaches after a select":      "SELECT 1; ATTACH '" + secret + "' AS p",
		"attaches behind a comment":    "SELECT 1 /* x */ ; -- y\nATTACH '" + secret + "' AS p",
		"loads a program":              "SELECT load_extension('/tmp/x.so')",
		"loads one in quotes":          `SELECT "load_extension"('/tmp/x.so')`,
		"loads one in brackets":        "SELECT [load_extension]('/tmp/x.so')",
		"reads a file":                 "SELECT readfile('/etc/passwd')",
		"writes a file":                "SELECT writefile('" + target + "', 'x')",
		"writes by vacuum":             "VACUUM INTO '" + target + "'",
		"changes a setting":            "PRAGMA query_only=OFF",
		"reads settings":               "SELECT * FROM pragma_database_list",
		"switches writing on first":    "SELECT 1; PRAGMA query_only=OFF; DELETE FROM orders",
		"inserts":                      "INSERT INTO orders VALUES (9,'x',1,'')",
		"deletes behind a with":        "WITH a AS (SELECT 1) DELETE FROM orders",
		"drops":                        "DROP TABLE orders",
		"goes on without end":          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n",
		"counts without end":           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n",
		"makes a blob of 2 GB":         "SELECT zeroblob(2000000000)",
		"makes a long text":            "SELECT hex(zeroblob(1000000))",
		"rolls dice":                   "SELECT random()",
		"rolls dice for bytes":         "SELECT randomblob(1000000000)",
		"asks for the time":            "SELECT datetime('now')",
		"asks for the time by default": "SELECT date()",
		"asks for a time in words":     "SELECT CURRENT_TIMESTAMP",
		"a long pattern":               "SELECT 'a' LIKE '" + strings.Repeat("%a", 5000) + "'",
		"too many columns":             "SELECT " + strings.Repeat("1,", 5000) + "1",
		"a zero byte":                  "SELECT 1\x00; DROP TABLE orders",
		"a comment without end":        "SELECT 1 /*",
		"a quote without end":          "SELECT 'x",
		"deep":                         "SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
		"explains":                     "EXPLAIN SELECT 1",
		"many rows":                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 200000) SELECT i FROM n",
		"a text that grows":            "WITH RECURSIVE n(t) AS (SELECT 'x' UNION ALL SELECT t||t FROM n) SELECT length(t) FROM n",
	} {
		t.Run(name, func(t *testing.T) {
			err := compare(t, Spec{Expected: "SELECT id FROM orders"}, query)
			var wrong *Wrong
			if !errors.As(err, &wrong) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(target); err == nil {
				t.Error("a file was written")
			}
		})
	}
}

// Nothing that a query gives may depend on when, where or how often it is run, however
// it asks; and what does not is given as SQLite gives it.
func TestQueriesGiveTheSameWheneverTheyAreRun(t *testing.T) {
	for _, query := range []string{
		"SELECT date('n'||'ow')", "SELECT date(char(110,111,119))", "SELECT date(x'6e6f77')", "SELECT date('now'||char(0)||'x')", "SELECT date(lower('NOW'))",
		"SELECT date(x) FROM (SELECT replace('n-o-w','-','') AS x)", "WITH w(x) AS (VALUES ('now')) SELECT strftime('%Y', x) FROM w", "SELECT strftime('%s')", "SELECT unixepoch()", "SELECT time('sub'||'sec')",
		"SELECT julianday(printf('%s%s','no','w'))", "SELECT timediff('2020-01-01', substr('xnow',2))", "SELECT datetime('2020-01-01', 'local'||'time')", "SELECT datetime('2020-01-01', 'ut'||'c')",
		"SELECT \"date\"('n'||'ow')", "SELECT count(*) FROM orders WHERE date('n'||'ow') > '2000'", "SELECT id FROM orders ORDER BY random()", "SELECT abs(random())", "SELECT hex(randomblob(4))", "SELECT \"random\"()", "SELECT [random]()",
		"SELECT CURRENT_DATE", "SELECT (SELECT current_time)", "SELECT sqlite_version()", "SELECT sqlite_source_id()", "SELECT changes()", "SELECT total_changes()", "SELECT last_insert_rowid()", "SELECT sum(random()) OVER () FROM orders",
		"SELECT * FROM json_each(json_array(random()))", "SELECT sqlite_compileoption_get(1)", "SELECT max(id, random()) FROM orders", "SELECT id FROM orders GROUP BY random()", "SELECT id FROM orders LIMIT 1 + (random() & 1)",
	} {
		err := compare(t, Spec{Expected: "SELECT id FROM orders"}, query)
		var wrong *Wrong
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Why, "each time") && !strings.Contains(wrong.Why, "present time") && !strings.Contains(wrong.Why, "time zone") {
			t.Errorf("%s: %v", query, err)
		}
	}
	for query, same := range map[string]string{
		"SELECT date('2024-02-28', '+1 day'), strftime('%Y', 1700000000, 'unixepoch'), 'now', NULL":         "VALUES ('2024-02-29', '2023', 'now', NULL)",
		"SELECT julianday('2000-01-01'), unixepoch('1970-01-02'), time('12:30'), date(NULL)":                "VALUES (2451544.5, 86400, '12:30:00', NULL)",
		"SELECT count(*), sum(id), max(id), group_concat(id), round(2.6), upper('x') FROM (SELECT 7 AS id)": "VALUES (1, 7, 7, '7', 3.0, 'X')",
		"SELECT datetime('2020-01-01 10:00', 'subsec'), 'random'":                                           "VALUES ('2020-01-01 10:00:00.000', 'random')",
	} {
		if err := compare(t, Spec{Expected: same}, query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// The walls behind the first: what a word check would miss is stopped by the database.
func TestTheDatabaseStopsWhatTheWordsWouldNot(t *testing.T) {
	for name, query := range map[string]string{"writes": "DELETE FROM orders", "attaches": "ATTACH '/etc/passwd' AS p", "loads": "SELECT load_extension('/tmp/x.so')"} {
		err := withoutWords(t, query)
		if err == nil {
			t.Errorf("%s: the database let it through", name)
		}
	}
}

// A fixture or an expected query that does not work is ours, and no answer is wrong.
func TestOurMistakesAreNotTheAgents(t *testing.T) {
	for name, s := range map[string]Spec{
		"a fixture":        {Database: "CREATE TABL x", Expected: "SELECT 1"},
		"an expected one":  {Expected: "SELECT nothing FROM nowhere"},
		"one that changes": {Expected: "DELETE FROM orders"},
		"one that varies":  {Expected: "SELECT random()"},
	} {
		err := compare(t, s, "SELECT 1")
		var wrong *Wrong
		if err == nil || errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func withoutWords(t *testing.T, query string) error {
	t.Helper()
	c, done, err := open(context.Background(), fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	_, err = run(context.Background(), c, query)
	return err
}
