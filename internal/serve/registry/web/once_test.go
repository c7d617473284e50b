package web

import (
	"net/http"
	"testing"
)

// A client that did not see the answer sends the request again, over HTTP too: the keys are
// those of the first answer, and an old API key works for this one request.
func TestKeysAreAnsweredAgainToTheSameRequest(t *testing.T) {
	p := newPlace(t, nil)
	const once = "7d1b3c1e-56a0-4f0e-8f4e-0a4b9c2d7e31"
	register := func(body, key string) answer {
		return p.post("/api/agent/v1/register", "", body, "Idempotency-Key", key)
	}
	first, again := register(`{}`, once).is(http.StatusCreated), register(`{}`, once).is(http.StatusOK)
	if first.has("apiKey") != again.has("apiKey") || first.has("agent") != again.has("agent") {
		t.Error("the second answer is another agent's")
	}
	register(`{ }`, once).is(http.StatusConflict)
	register(`{}`, "guessable").is(http.StatusBadRequest)

	replace := func(key, once string) answer {
		return p.post("/api/agent/v1/key", key, `{}`, "Idempotency-Key", once)
	}
	old := first.has("apiKey")
	fresh := replace(old, "k1").is(http.StatusCreated).has("apiKey")
	if got := replace(old, "k1").is(http.StatusCreated).has("apiKey"); got != fresh {
		t.Error("the second answer has another key")
	}
	replace(old, "k2").is(http.StatusUnauthorized)
	p.post("/api/agent/v1/key", old, `{}`).is(http.StatusUnauthorized)
	p.post("/api/agent/v1/withdraw", old, `{"proposalId":"x"}`, "Idempotency-Key", "k1").is(http.StatusUnauthorized)
	replace(fresh, "k3").is(http.StatusCreated)
	replace(old, "k1").is(http.StatusUnauthorized) // the key of k1 was replaced since
}
