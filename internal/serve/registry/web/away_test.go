package web

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/index"
)

// unreachable is a registry whose database went away.
type unreachable struct {
	*registry.Registry
	err error
}

func (u unreachable) Proposal(context.Context, string) (*registry.Proposal, error) { return nil, u.err }

// A database that is away is not the registry's own fault: come again.
func TestADatabaseThatIsAwayIsSaidToBe(t *testing.T) {
	p := newPlace(t, nil)
	_, err := index.OpenReader(context.Background(), "postgres://127.0.0.1:1/none")
	if err == nil {
		t.Fatal("it opened")
	}
	for name, tt := range map[string]struct {
		err  error
		want int
	}{
		"nothing listens":   {fmt.Errorf("proposal: %w", err), http.StatusServiceUnavailable},
		"it is stopping":    {refusal.Newf(refusal.Failed, "reading: %w", &pgconn.PgError{Code: "57P01"}), http.StatusServiceUnavailable},
		"too many at once":  {refusal.Newf(refusal.Failed, "reading: %w", &pgconn.PgError{Code: "53300"}), http.StatusServiceUnavailable},
		"a fault of ours":   {refusal.Newf(refusal.Failed, "reading: %w", &pgconn.PgError{Code: "42601"}), http.StatusInternalServerError},
		"bytes that differ": {refusal.Newf(refusal.IndexDiffers, "the database was changed"), http.StatusInternalServerError},
	} {
		s, err := New(Config{Reader: unreachable{p.reg, tt.err}, PublicURL: base})
		if err != nil {
			t.Fatal(err)
		}
		rec := ask(described(t, s, p.d), "GET", "/proposal/x", "")
		if rec.Code != tt.want || (rec.Header().Get("Retry-After") != "") != (tt.want == http.StatusServiceUnavailable) {
			t.Errorf("%s: %d %v %s", name, rec.Code, rec.Header(), rec.Body)
		}
	}
}
