package web

import (
	"math"
	"net/http"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
)

// admit decides whether this caller may have this route answered now.
func (c *call) admit() *reply {
	route := c.route
	if route.operations {
		return nil
	}
	address := addressOf(c.r, c.s.cfg.Proxies)
	if rep := c.limit(c.s.byAddress, address); rep != nil {
		return rep
	}
	if route.access != public {
		if rep := c.authenticate(); rep != nil {
			return rep
		}
	}
	if route.writes && c.s.cfg.Writer == nil {
		return c.refuse(http.StatusServiceUnavailable, &problem{
			Name: nameReadOnly, Error: "this server only reads", Hint: "write at the registry itself, " + c.s.cfg.PublicURL,
		})
	}
	switch {
	case route.name == "register":
		return c.limit(c.s.registers, address)
	case route.access != public && c.r.Method == http.MethodPost:
		return c.limit(c.s.byAgent, c.agent.ID)
	}
	return nil
}

// limit answers 429 if a bucket is empty.
func (c *call) limit(l *limiter, name string) *reply {
	wait := l.take(name, c.s.cfg.Now())
	if wait == 0 {
		return nil
	}
	seconds := int(math.Ceil(wait.Seconds()))
	return c.refuse(http.StatusTooManyRequests, &problem{
		Name: refusal.RateLimited, Error: "too many requests", Hint: "wait as long as Retry-After says: " + (time.Duration(seconds) * time.Second).String(),
		RetryAfter: max(1, seconds),
	})
}

// maxKeyBytes bounds what is looked up as an API key.
const maxKeyBytes = 256

// authenticate finds out who asks, and whether they may.
func (c *call) authenticate() *reply {
	key, err := bearer(c.r.Header)
	if err != nil {
		return c.failed(err)
	}
	if c.agent, err = c.s.reads.Authenticate(c.ctx(), key); err != nil && c.route.name == "replaceKey" && c.s.cfg.Writer != nil {
		c.agent, err = c.replaced(key, err)
	}
	if err != nil {
		return c.failed(err)
	}
	c.apiKey = key
	if c.route.access == aJudge && c.agent.Person == "" {
		return c.refuse(http.StatusForbidden, &problem{
			Name: refusal.NotAllowed, Error: "only judges may do this, and this agent is not held by one",
			Hint: "calibrate at " + c.url("/api/agent/v1/calibrate") + ", then ask the operator to admit you",
		})
	}
	return nil
}

// replaced finds who shows an API key that this very request has replaced before.
func (c *call) replaced(key string, refused error) (*registry.Agent, error) {
	once, err := c.idempotency()
	if err != nil || once == "" {
		return nil, refused
	}
	return c.s.cfg.Writer.AuthenticateReplaced(c.ctx(), key, once)
}

// bearer takes the API key out of the Authorization header.
func bearer(h http.Header) (string, error) {
	found := h.Values("Authorization")
	switch {
	case len(found) == 0:
		return "", refusal.Newf(refusal.Unauthenticated, "this needs an API key")
	case len(found) > 1:
		return "", refusal.Newf(refusal.Unauthenticated, "found %d Authorization headers, expected one", len(found))
	}
	scheme, key, _ := strings.Cut(found[0], " ")
	key = strings.TrimSpace(key)
	if !strings.EqualFold(scheme, "Bearer") || key == "" || len(key) > maxKeyBytes {
		return "", refusal.Newf(refusal.Unauthenticated, "the Authorization header is not Bearer and an API key")
	}
	return key, nil
}

// maxIdempotencyBytes bounds the key with which a client repeats a request.
const maxIdempotencyBytes = 128

// once names the request, if it has an Idempotency-Key.
func (c *call) once() (registry.Once, error) {
	key, err := c.idempotency()
	return registry.Once{Key: key, Body: c.body}, err
}

// idempotency gives the Idempotency-Key header, or nothing.
func (c *call) idempotency() (string, error) {
	found := c.r.Header.Values("Idempotency-Key")
	if len(found) == 0 {
		return "", nil
	}
	key := found[0]
	valid := len(found) == 1 && key != "" && len(key) <= maxIdempotencyBytes
	for i := 0; i < len(key); i++ {
		valid = valid && key[i] > ' ' && key[i] < 0x7f
	}
	if !valid {
		return "", refusal.Newf(refusal.Malformed, "Idempotency-Key: expected one of 1 to %d printable characters", maxIdempotencyBytes)
	}
	return key, nil
}
