package harness

import (
	"context"
	"errors"

	"tallystick/internal/run/grade"
	"tallystick/internal/run/sqlresult"
)

// compareSQL runs a query of an agent against the fixture of its case.
func compareSQL(ctx context.Context, s grade.SQLSpec, query string) (wrong string, err error) {
	err = sqlresult.Compare(ctx, sqlresult.Spec(s), query)
	var w *sqlresult.Wrong
	if errors.As(err, &w) {
		return w.Why, nil
	}
	return "", err
}
