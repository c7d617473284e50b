package registry

import (
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

const unguessable = "5f0e8f0a-6b1f-4f5e-9c5f-2d1c5a0f6b11"

func TestARegistrationThatIsSentAgainIsTheSameAgent(t *testing.T) {
	w := newWorld(t, nil)
	n := SignUp{Profile: []byte(`{"name":"an agent"}`), Once: Once{unguessable, []byte("body")}}
	var wg sync.WaitGroup
	answers := make([]*Registered, 5)
	for i := range answers {
		wg.Go(func() { answers[i] = must[*Registered](t)(w.Register(ctx, n)) })
	}
	wg.Wait()
	w.reopen()
	first, made := answers[0], 0
	for _, a := range append(answers, must[*Registered](t)(w.Register(ctx, n))) {
		if a.Agent.ID != first.Agent.ID || a.APIKey != first.APIKey || a.PrivateKey != first.PrivateKey || a.PrivateKey == "" {
			t.Errorf("%+v, want %+v", a, first)
		}
		if a.New {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d agents were made", made)
	}
	if _, err := w.Authenticate(ctx, first.APIKey); err != nil {
		t.Error(err)
	}

	other := n
	other.Once.Body = []byte("another")
	_, err := w.Register(ctx, other)
	wantRefusal(t, err, refusal.IdempotencyConflict)
	other.Once.Key = "run-1"
	_, err = w.Register(ctx, other)
	wantRefusal(t, err, refusal.Malformed, "cannot be guessed")
	other.Once.Key = strings.Repeat("x", 300)
	_, err = w.Register(ctx, other)
	wantRefusal(t, err, refusal.Usage)
	other.Once.Key = strings.ToUpper(unguessable)
	if b := must[*Registered](t)(w.Register(ctx, other)); b.APIKey == first.APIKey || b.PrivateKey == first.PrivateKey {
		t.Error("another request has the same keys")
	}
	noneHas(t, w.dir, unguessable, first.APIKey, first.PrivateKey)

	// The keys are shown for a day, and only while they work.
	w.pass(secretWindow + time.Minute)
	_, err = w.Register(ctx, n)
	wantRefusal(t, err, refusal.IdempotencyConflict, "not shown again")
	fresh := SignUp{Once: Once{unguessable + "2", []byte("body")}}
	c := must[*Registered](t)(w.Register(ctx, fresh))
	if err := w.RevokeAPIKey(ctx, c.Agent.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.Register(ctx, fresh)
	wantRefusal(t, err, refusal.IdempotencyConflict, "revoked")
}

func TestAnAPIKeyThatIsReplacedTwiceByOneRequestIsReplacedOnce(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	once := Once{"replace-1", []byte("{}")}
	first := must[string](t)(w.ReplaceAPIKey(ctx, a.Agent, a.apiKey, once))
	w.reopen()
	_, err := w.Authenticate(ctx, a.apiKey)
	wantRefusal(t, err, refusal.Unauthenticated)
	// The answer was lost: the old key and the idempotency key together still tell who asks.
	found := must[*Agent](t)(w.AuthenticateReplaced(ctx, a.apiKey, "replace-1"))
	if again := must[string](t)(w.ReplaceAPIKey(ctx, found, a.apiKey, once)); found.ID != a.ID || again != first {
		t.Errorf("%s %s, want %s %s", found.ID, again, a.ID, first)
	}
	_, err = w.ReplaceAPIKey(ctx, found, a.apiKey, Once{"replace-1", []byte("{ }")})
	wantRefusal(t, err, refusal.IdempotencyConflict)
	for old, key := range map[string]string{a.apiKey: "replace-2", first: "replace-2", w.register().apiKey: "replace-1"} {
		_, err = w.AuthenticateReplaced(ctx, old, key)
		wantRefusal(t, err, refusal.Unauthenticated)
	}
	// Not with another old key of the agent's, and not once the new one is revoked.
	second := must[string](t)(w.ReplaceAPIKey(ctx, a.Agent, first, Once{"replace-3", nil}))
	_, err = w.ReplaceAPIKey(ctx, a.Agent, a.apiKey, Once{"replace-3", nil})
	wantRefusal(t, err, refusal.Unauthenticated)
	if err := w.RevokeAPIKey(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.AuthenticateReplaced(ctx, first, "replace-3")
	wantRefusal(t, err, refusal.Unauthenticated)
	noneHas(t, w.dir, first, second)
}

// Votes, withdrawals and revocations under a key are one write each, also after a
// restart, and the key is taken for another body.
func TestEveryWriteTakesAnIdempotencyKey(t *testing.T) {
	j := newJudged(t, 3, nil)
	p := j.proposeDrawn(0.7)
	judge := j.judges[p.Judges.Persons[0]][0]
	vote := j.sign(judge, Judgement{Proposal: p.ID, Verdict: "accept"})
	vote.Once = Once{"vote-1", []byte("accept")}
	must[*Proposal](t)(j.Judge(ctx, judge.Agent, vote))
	m := must[*Minted](t)(j.Mint(ctx, j.author.Agent, []byte(`{"kind":"eval.run.attestation.v1","body":`+attestation(t, "did:web:x.example", 0.5)+`}`), ""))
	revoke := func(body string) error {
		return j.Revoke(ctx, j.author.Agent, m.Digest, "mine", Once{"revoke-1", []byte(body)})
	}
	if err := revoke("a"); err != nil {
		t.Fatal(err)
	}
	withdraw := func(body string) (*Proposal, error) {
		return j.Withdraw(ctx, j.author.Agent, p.ID, Once{"withdraw-1", []byte(body)})
	}
	must[*Proposal](t)(withdraw("a"))
	j.reopen()
	size := j.state.size
	if got := must[*Proposal](t)(j.Judge(ctx, judge.Agent, vote)); got.Judges.For != 1 || got.Status != Withdrawn {
		t.Errorf("the vote again: %+v", got)
	}
	if err := revoke("a"); err != nil {
		t.Error(err)
	}
	if got := must[*Proposal](t)(withdraw("a")); got.Status != Withdrawn {
		t.Errorf("the withdrawal again: %+v", got)
	}
	vote.Once.Body = []byte("reject")
	_, err := j.Judge(ctx, judge.Agent, vote)
	wantRefusal(t, err, refusal.IdempotencyConflict)
	wantRefusal(t, revoke("b"), refusal.IdempotencyConflict)
	_, err = withdraw("b")
	wantRefusal(t, err, refusal.IdempotencyConflict)
	// One key is for one write: another route is another body.
	_, err = j.Withdraw(ctx, j.author.Agent, p.ID, Once{"revoke-1", []byte("a")})
	wantRefusal(t, err, refusal.IdempotencyConflict)
	if j.state.size != size {
		t.Errorf("%d entries more", j.state.size-size)
	}
}
