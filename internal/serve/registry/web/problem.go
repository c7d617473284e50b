package web

import (
	"errors"
	"net/http"
	"strings"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/index"
)

// Names of refusals that only a server has. They are promises, as those of
// package refusal are.
const (
	nameBusy     refusal.Name = "Busy"
	nameMethod   refusal.Name = "MethodNotAllowed"
	nameMedia    refusal.Name = "UnsupportedMediaType"
	nameReadOnly refusal.Name = "ReadOnly"
	nameInternal refusal.Name = "Internal"
)

// Where a client without an API key gets one.
const registerRoute = "/api/agent/v1/register"

// awayWait is how many seconds a client waits for a database that is away.
const awayWait = 5

// A problem is the JSON of every answer that is not what was asked for.
type problem struct {
	Error string       `json:"error"`
	Name  refusal.Name `json:"name"`
	Hint  string       `json:"hint,omitempty"`
	// ProposeRoute is where to propose the artifact whose path is not known.
	ProposeRoute string `json:"proposeRoute,omitempty"`
	// First is where the first content of a run is.
	First string `json:"first,omitempty"`
	// RegisterRoute is where an API key comes from.
	RegisterRoute string `json:"registerRoute,omitempty"`
	RequestID     string `json:"requestId"`

	RetryAfter int `json:"-"`
}

// statusOf maps the name of a refusal to the status of its answer. A name that is
// not here is a fault of ours, or of the machine: 500.
func statusOf(name refusal.Name) int {
	switch name {
	case refusal.Malformed, refusal.Usage, refusal.UnknownKind, refusal.Unrecognised, refusal.EntryInvalid,
		refusal.ResultsHashMismatch, refusal.CredentialInvalid, refusal.CredentialRevoked, refusal.SignatureInvalid, refusal.SignerUnknown,
		refusal.SignerNotValidThen, refusal.DuplicateKey, refusal.WeakKey, refusal.DigestMismatch, refusal.ReceiptInvalid,
		refusal.UnknownPath, refusal.PathDisagrees:
		return http.StatusBadRequest
	case refusal.Unauthenticated:
		return http.StatusUnauthorized
	case refusal.NotAllowed, refusal.RoleMissing, refusal.TwoPersonRule, refusal.CalibrationFailed:
		return http.StatusForbidden
	case refusal.TakenDown:
		return http.StatusGone
	case refusal.NotFound, refusal.UnknownName:
		return http.StatusNotFound
	case refusal.AlreadyExists, refusal.PathTaken, refusal.IdempotencyConflict, refusal.TooLate, refusal.RunTaken:
		return http.StatusConflict
	case refusal.TooLarge:
		return http.StatusRequestEntityTooLarge
	case refusal.RateLimited:
		return http.StatusTooManyRequests
	case refusal.LedgerBusy, refusal.DiskFull, refusal.Interrupted, refusal.WitnessFailed:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// problemOf is what a client is told about an error.
func problemOf(err error) *problem {
	var said *refusal.Error
	if !errors.As(err, &said) {
		said = refusal.Of(err)
	}
	hint := said.Hint
	if hint == "" {
		hint = usualHint(said.Name)
	}
	return &problem{Name: said.Name, Error: plain.Line(err.Error()), Hint: plain.Line(hint)}
}

// usualHint is the next step where the place that refused knows no better one. What
// refusals advise elsewhere is about files.
func usualHint(name refusal.Name) string {
	switch name {
	case refusal.Malformed:
		return "correct the request; /openapi.json describes what each route takes"
	case refusal.TooLarge:
		return "send less in one request"
	}
	return ""
}

// failed answers an error of a check or of the registry. What went wrong inside
// goes to the log: it may name files.
func (c *call) failed(err error) *reply {
	p := problemOf(err)
	status := statusOf(p.Name)
	switch {
	case index.Away(err):
		c.s.cfg.Log.Error("the database is away", "id", c.id, "error", plain.Line(err.Error()))
		return c.refuse(http.StatusServiceUnavailable, &problem{Name: nameBusy, Error: "the registry's database cannot be reached now", Hint: "try again; what was acknowledged is in the ledger", RetryAfter: awayWait})
	case status == http.StatusInternalServerError:
		c.s.cfg.Log.Error("failed", "id", c.id, "error", plain.Line(err.Error()))
		return c.internal()
	case status == http.StatusServiceUnavailable:
		c.s.cfg.Log.Error("unavailable", "id", c.id, "error", plain.Line(err.Error()))
		p.Error, p.Hint, p.RetryAfter = "the registry cannot do this now", "try again; nothing was recorded unless the proposal is listed", 1
	case status == http.StatusUnauthorized:
		return c.unauthorized(p)
	}
	var other *registry.OtherRun
	if errors.As(err, &other) {
		p.First = c.absolute(other.First)
	}
	return c.refuse(status, p)
}

// internal answers what is our fault.
func (c *call) internal() *reply {
	return c.refuse(http.StatusInternalServerError, &problem{
		Name: nameInternal, Error: "the registry could not answer", Hint: "tell its operator the request id",
	})
}

// unauthorized answers a client whose API key is missing or not one.
func (c *call) unauthorized(p *problem) *reply {
	p.RegisterRoute = c.url(registerRoute)
	if p.Hint == "" {
		p.Hint = "register at POST " + p.RegisterRoute + ", then send Authorization: Bearer ak_…"
	}
	rep := c.refuse(http.StatusUnauthorized, p)
	rep.wwwAuth = `Bearer realm="registry"`
	if c.r.Header.Get("Authorization") != "" {
		rep.wwwAuth += `, error="invalid_token"`
	}
	return rep
}

// refuse answers with a problem.
func (c *call) refuse(status int, p *problem) *reply {
	p.RequestID = c.id
	rep, err := asJSON(status, p)
	if err != nil { // a text that is not UTF-8
		rep, _ = asJSON(status, &problem{Name: p.Name, Error: strings.ToValidUTF8(p.Error, "?"), RequestID: c.id})
	}
	rep.retryAfter = p.RetryAfter
	if c.route != nil && c.route.page {
		return c.asPage(p, rep)
	}
	return rep
}

// isNamed reports whether an error is a refusal of one of the names.
func isNamed(err error, names ...refusal.Name) bool {
	var r *refusal.Error
	if !errors.As(err, &r) {
		return false
	}
	for _, n := range names {
		if r.Name == n {
			return true
		}
	}
	return false
}
