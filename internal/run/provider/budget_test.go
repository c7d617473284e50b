package provider

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// chatMost is the most that chatBody can cost: its bytes and the overhead in at
// 1 dollar a million, 10 tokens out at 4 dollars a million.
const chatMost = (int64(len(chatBody))+inputOverhead)*1 + 10*4

func TestNothingIsSentThatDoesNotFitIntoTheBudget(t *testing.T) {
	for _, tt := range []struct {
		limit int64
		calls int
	}{
		{chatMost - 1, 0},
		{chatMost, 1},           // and costs 30
		{chatMost + 30 - 1, 1},  // too little for a second
		{chatMost + 30, 2},      //
		{chatMost + 60 - 1, 2},  //
		{chatMost + 60 + 29, 3}, //
	} {
		budget := NewBudget(tt.limit)
		b := newBed(t, fakemodel.Answer(t, func(fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{Text: "x"} }), func(c *Config) { c.Budget = budget })
		var err error
		for range 10 {
			if err != nil {
				break
			}
			_, err = b.call(wire.OpenAIChat, chatBody)
		}
		requireRefusal(t, err, refusal.LimitReached, "it was not sent")
		if n := len(b.server.Requests()); n != tt.calls {
			t.Errorf("limit %d: %d calls, want %d", tt.limit, n, tt.calls)
		}
		if got := budget.Spent(); got != int64(30*tt.calls) {
			t.Errorf("limit %d: spent %d", tt.limit, got)
		}
	}
}

// Of two calls at once the second waits for what the first has cost, if it may fit
// then: what a limit cuts off does not follow from how many calls ran at once.
func TestACallWaitsForMoneyThatIsSetAside(t *testing.T) {
	b := NewBudget(100)
	settle, err := b.reserve(t.Context(), nil, 90, true)
	if err != nil {
		t.Fatal(err)
	}
	// It would not fit even then: no waiting.
	_, err = b.reserve(t.Context(), nil, 101, true)
	requireRefusal(t, err, refusal.LimitReached, "it was not sent")
	second := make(chan error)
	go func() {
		_, err := b.reserve(t.Context(), nil, 95, true)
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := settle(5); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Errorf("5 are spent and 95 fit: %v", err)
	}
	// And not for ever.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errSilent)
	if _, err := b.reserve(ctx, nil, 50, true); !errors.Is(err, errSilent) {
		t.Errorf("after its case has ended: %v", err)
	}
}

func TestCallsWithoutABoundAreNotSent(t *testing.T) {
	b := newBed(t, fakemodel.New(t), func(c *Config) { c.Budget = NewBudget(math.MaxInt64 / 2) })
	for _, tt := range []struct {
		name string
		api  wire.API
		body string
		say  string
	}{
		{"no price", wire.OpenAIChat, `{"model":"unheard-of","max_tokens":1}`, "has no price"},
		{"no model", wire.OpenAIChat, `{"max_tokens":1}`, "has no price"},
		{"a model by another spelling of the member", wire.OpenAIChat, `{"Model":"fake-1","max_tokens":1}`, "has no price"},
		{"no end", wire.OpenAIChat, `{"model":"open-end"}`, "how many tokens"},
		{"an end in another API's words", wire.OpenAIResponses, `{"model":"open-end","max_tokens":5}`, "how many tokens"},
		{"an end that is not a number", wire.OpenAIChat, `{"model":"open-end","max_tokens":"few"}`, "how many tokens"},
		{"an end below zero", wire.OpenAIChat, `{"model":"open-end","max_tokens":-5}`, "how many tokens"},
		{"a stored conversation", wire.OpenAIResponses, `{"model":"open-end","max_output_tokens":5,"previous_response_id":"resp_1"}`, "refers to something"},
		{"an image elsewhere", wire.OpenAIChat, `{"model":"open-end","max_tokens":5,"messages":[{"content":[{"image_url":{"url":"https://x.example/i.png"}}]}]}`, "refers to something"},
		{"a file", wire.AnthropicMessages, `{"model":"open-end","max_tokens":5,"messages":[{"content":[{"source":{"file_id":"file_1"}}]}]}`, "refers to something"},
		{"a stored prompt", wire.OpenAIResponses, `{"model":"open-end","max_output_tokens":5,"prompt":{"id":"pmpt_1"}}`, "refers to something"},
	} {
		_, err := b.call(tt.api, tt.body)
		requireRefusal(t, err, refusal.LimitReached, tt.say, "it was not sent")
	}
	if n := len(b.server.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestMostCost(t *testing.T) {
	e := endpointOf(settingsOf(t, fakemodel.New(t)), "openai")
	for _, tt := range []struct {
		name, body string
		want       int64
	}{
		{"the request's own limit", `{"model":"fake-1","max_completion_tokens":7}`, 44 + inputOverhead + 7*4},
		{"the model's limit is lower", `{"model":"fake-1","max_tokens":99999}`, 37 + inputOverhead + 1000*4},
		{"several answers", `{"model":"fake-1","max_tokens":7,"n":3}`, 39 + inputOverhead + 3*7*4},
		{"the model's input limit is all there is", `{"model":"fake-1","max_tokens":7,"previous_response_id":"x"}`, 100_000 + 7*4},
		{"an image inside", `{"model":"fake-1","max_tokens":7,"image_url":"data:x"}`, 54 + inputOverhead + 7*4},
	} {
		got, err := e.mostCost(wire.OpenAIChat, []byte(tt.body))
		if err != nil || got != tt.want {
			t.Errorf("%s: %d, %v; want %d", tt.name, got, err, tt.want)
		}
	}
}

func TestTriesThatMayBeBilledAreCounted(t *testing.T) {
	cut := fakemodel.Reply{Body: "{", Cut: true}
	for _, tt := range []struct {
		name   string
		script []fakemodel.Reply
		want   int64
	}{
		{"busy is free", []fakemodel.Reply{{Status: 429, Body: "{}"}, {Text: "x"}}, 30},
		{"a lost reply is not", []fakemodel.Reply{cut, {Text: "x"}}, chatMost + 30},
		{"nor one without usage", []fakemodel.Reply{{Body: `{"choices":[]}`}}, chatMost},
		{"nor one that is not a reply", []fakemodel.Reply{{Body: "\xff"}}, chatMost},
		{"a refusal is free", []fakemodel.Reply{{Status: 400, Body: "{}"}}, 0},
	} {
		budget := NewBudget(1_000_000)
		b := newBed(t, fakemodel.New(t, tt.script...), func(c *Config) { c.Budget = budget })
		b.call(wire.OpenAIChat, chatBody)
		if got := budget.Spent(); got != tt.want {
			t.Errorf("%s: spent %d, want %d", tt.name, got, tt.want)
		}
		if budget.reserved != 0 {
			t.Errorf("%s: %d are still set aside", tt.name, budget.reserved)
		}
	}
}

// A purse that allows so many calls at once.
type narrowPurse struct {
	mu   sync.Mutex
	free int
}

func (p *narrowPurse) Reserve(*Endpoint, int64, bool) (func(int64) error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 {
		return nil, refusal.Newf(refusal.NotAnswered, "nothing is left; it was not sent")
	}
	p.free--
	return func(int64) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free++
		return nil
	}, nil
}

// Calls set aside much more than they cost. What fits after others have ended waits for
// them, and only for them.
func TestCallsWaitForWhatOthersLeave(t *testing.T) {
	for name, b := range map[string]*Budget{
		"a limit": NewBudget(100),
		"a purse": NewLimited(Limit{MicroUSD: 100_000}, &narrowPurse{free: 1}),
		"both":    NewLimited(Limit{MicroUSD: 150}, &narrowPurse{free: 2}),
	} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					settle, err := b.reserve(t.Context(), nil, 80, true)
					if err == nil {
						err = settle(1)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if b.Spent() != 20 || b.reserved != 0 || b.underWay != 0 {
				t.Errorf("spent %d, reserved %d, %d under way", b.Spent(), b.reserved, b.underWay)
			}
		})
	}
	// Nothing is under way: there is nothing to wait for.
	for _, b := range []*Budget{NewBudget(79), NewLimited(Limit{Calls: 1000}, &narrowPurse{})} {
		if _, err := b.reserve(t.Context(), nil, 80, true); err == nil {
			t.Error("a call that does not fit was allowed")
		}
		if b.reserved != 0 || b.calls != 0 {
			t.Errorf("%d are set aside for %d calls that were not sent", b.reserved, b.calls)
		}
	}
	// A caller that gives up does not wait.
	b := NewBudget(100)
	if _, err := b.reserve(t.Context(), nil, 80, true); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.reserve(ctx, nil, 80, true); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
