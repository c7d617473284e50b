package grade

import (
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
)

// An SQLSpec is what a query of an agent is compared with: the expected query on a
// fixture database. Package sqlresult runs both.
type SQLSpec struct {
	Database  string
	Expected  string
	Ordered   bool
	Columns   bool
	Tolerance float64
}

func validateSQL(at place, r *Rule) error {
	if (r.Database != "") == (r.DatabaseFile != "") {
		return at.bad("a grader of kind sql needs database or database_file, and not both")
	}
	return nil
}

func (c *compiler) sql(at place, n *node, r *Rule) error {
	spec := &SQLSpec{Database: r.Database, Ordered: r.Ordered, Columns: r.Columns}
	if r.Tolerance != nil {
		spec.Tolerance = *r.Tolerance
	}
	if r.DatabaseFile != "" {
		data, err := c.file(at.in("database_file"), r.DatabaseFile)
		if err != nil {
			return err
		}
		spec.Database = string(data)
	}
	var err error
	if n.expected, err = c.expected(at, r, false); err != nil {
		return err
	}
	if canon.Unmarshal(n.expected, &spec.Expected) != nil || strings.TrimSpace(spec.Expected) == "" {
		return at.in("expected").bad("expected the text of a query")
	}
	n.sql = spec
	return nil
}

// sql has the query of the agent run. One that fails is wrong; a fixture or an
// expected query that fails gives no score, which is not zero.
func (r *run) sql(n *node, _ *Detail, v extract.Value, _ bool) tally {
	if !v.Found {
		return notFound(v)
	}
	query, bad := textOf(&v)
	switch {
	case bad != nil:
		return single(*bad)
	case r.in.SQL == nil:
		return single(unscored("there is no database here to run the query in: \"tally run\" and \"tally rescore\" have one"))
	}
	wrong, err := r.in.SQL(*n.sql, withoutFence(query))
	switch {
	case err != nil:
		return single(unscored("%v", err))
	case wrong != "":
		return single(mismatch("%s", wrong))
	}
	return single(passed("it gives what the expected query gives"))
}

// withoutFence takes the query out of the fence that models put around code.
func withoutFence(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok || !strings.HasSuffix(inner, "```") {
		return text
	}
	inner = strings.TrimSuffix(inner, "```")
	first, rest, ok := strings.Cut(inner, "\n")
	if ok && len(strings.Fields(first)) <= 1 { // the name of a language
		return strings.TrimSpace(rest)
	}
	return strings.TrimSpace(inner)
}
