package sqlresult

import (
	"context"
	"errors"
	"testing"

	"tallystick/internal/run/bounded"
)

// The process says what comparing here says, word for word, whichever side is
// at fault.
func TestTheProcessSaysTheSame(t *testing.T) {
	for query, s := range map[string]Spec{
		"SELECT customer, sum(total) FROM orders GROUP BY 1": {Expected: "SELECT customer, SUM(total) FROM orders GROUP BY customer"},
		"SELECT 10.6":                              {Expected: "SELECT 10.5", Tolerance: 0.01},
		"SELECT id FROM orders":                    {Expected: "SELECT id FROM orders ORDER BY id DESC", Ordered: true},
		"SELECT id AS \"\u00e9\x01<\" FROM orders": {Expected: "SELECT id FROM orders", Columns: true},
		"SELECT load_extension('/tmp/x.so')":       {Expected: "SELECT 1"},
		"ATTACH '/etc/passwd' AS p":                {Expected: "SELECT 1"},
		"PRAGMA query_only=OFF":                    {Expected: "SELECT 1"},
		"SELECT randomblob(1000000000)":            {Expected: "SELECT 1"},
		"SELECT zeroblob(2000000000)":              {Expected: "SELECT 1"},
		"SELECT 1":                                 {Expected: "SELECT nothing FROM nowhere"},
		"SELECT 2":                                 {Database: "CREATE TABL x", Expected: "SELECT 1"},
		"WITH RECURSIVE n(t) AS (SELECT 'x' UNION ALL SELECT t||t FROM n) SELECT length(t) FROM n": {Expected: "SELECT 1"},
	} {
		if s.Database == "" {
			s.Database = fixture
		}
		here, there := compare(t, s, query), Compare(context.Background(), s, query)
		var a, b *Wrong
		if errors.As(here, &a) != errors.As(there, &b) || (here == nil) != (there == nil) || here != nil && here.Error() != there.Error() {
			t.Errorf("%s: here %v, in a process %v", query, here, there)
		}
	}
}

// A process that ends while it runs the agent's query was ended by it; before that, by us.
func TestWhoseFaultAnEndIs(t *testing.T) {
	var wrong *Wrong
	if err := verdict(nil, &bounded.Ended{Ready: true, Why: "killed"}); !errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
	for _, err := range []error{&bounded.Ended{Why: "killed"}, context.Canceled, errors.New("no program")} {
		if err := verdict(nil, err); err == nil || errors.As(err, &wrong) {
			t.Errorf("%v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Compare(ctx, Spec{Database: fixture, Expected: "SELECT 1"}, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
