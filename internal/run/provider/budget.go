package provider

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// A Limit is the most that calls may cost together. 0 is no limit of that kind, and a
// budget needs one of them.
type Limit struct {
	MicroUSD int64
	Calls    int64
}

// A Purse is what else bounds calls, besides the budget: a permission for a day. It
// is asked before each call is sent, with the most that it can cost if its model has a
// price, and settles it with what it did cost.
type Purse interface {
	Reserve(e *Endpoint, most int64, priced bool) (settle func(cost int64) error, err error)
}

// A Budget is the most that calls may cost together. The most that a call can
// cost is set aside before it is sent, and what it did cost is taken when it
// has ended; a call that has no known upper bound, or does not fit, is not
// sent. A call that would fit but for others under way waits for these: what
// they cost is most often a small part of what is set aside for them. It is safe
// for concurrent use.
//
// What it bounds is the price of tokens by the list in the settings. Charges of
// other kinds, such as for searches that a provider does by itself, are not
// known here.
type Budget struct {
	limit Limit
	purse Purse // nil for none

	asking sync.Mutex // one call at a time is set aside, in the purse too

	mu              sync.Mutex
	spent, reserved int64
	calls           int64
	underWay        int           // calls that may be sent and are not settled
	settled         chan struct{} // closed when one of them is
}

// NewBudget returns a budget of so many micro-dollars.
func NewBudget(limitMicroUSD int64) *Budget { return NewLimited(Limit{MicroUSD: limitMicroUSD}, nil) }

// NewLimited returns a budget within a limit, whose calls the purse must allow too. Calls
// of models without a price are sent only within a limit of calls.
func NewLimited(l Limit, p Purse) *Budget {
	return &Budget{limit: l, purse: p, settled: make(chan struct{})}
}

// takes reports whether a call may be sent although its price is not known.
func (b *Budget) takes(err error) bool { return b.limit.Calls > 0 && errors.Is(err, ErrNoPrice) }

// ErrNoPrice says that a model has no price, so that only a limit of calls bounds it.
var ErrNoPrice = errors.New("has no price")

// Spent is the most that calls can have cost until now: the cost of those
// whose usage was told, and the upper bound of the others.
func (b *Budget) Spent() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// Spend counts what was spent before this process began, at the most.
func (b *Budget) Spend(microUSD int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += microUSD
}

// reserve sets aside the most that a call can cost. What is set aside is given back by
// settle, which is nil if the call may not be sent. While it does not fit beside calls
// that are under way, it waits for one of these to end.
func (b *Budget) reserve(ctx context.Context, e *Endpoint, amount int64, priced bool) (settle func(cost int64) error, err error) {
	for {
		b.mu.Lock()
		settled := b.settled
		b.mu.Unlock()
		settle, err := b.reserveNow(e, amount, priced)
		if !refusal.Is(err, refusal.LimitReached) && !refusal.Is(err, refusal.NotAnswered) || !b.mayFit(amount, settled) {
			return settle, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-settled:
		}
	}
}

// mayFit reports whether an amount that did not fit when settled was taken could fit
// later, or now: it would fit if the calls under way cost nothing, or one has ended since.
func (b *Budget) mayFit(amount int64, settled chan struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit.MicroUSD > 0 && amount > b.limit.MicroUSD-b.spent || b.limit.Calls > 0 && b.calls >= b.limit.Calls {
		return false
	}
	return b.underWay > 0 || b.settled != settled
}

func (b *Budget) reserveNow(e *Endpoint, amount int64, priced bool) (settle func(cost int64) error, err error) {
	b.asking.Lock()
	defer b.asking.Unlock()
	if err := b.setAside(amount); err != nil {
		return nil, err
	}
	var day func(int64) error
	if b.purse != nil {
		if day, err = b.purse.Reserve(e, amount, priced); err != nil {
			b.takeBack(amount)
			return nil, err
		}
	}
	b.mu.Lock()
	b.underWay++
	b.mu.Unlock()
	return func(cost int64) error {
		// The day first: what waits for this call must find what it left.
		var err error
		if day != nil {
			err = day(cost)
		}
		b.settle(amount, cost)
		return err
	}, nil
}

func (b *Budget) setAside(amount int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := b.limit.MicroUSD - b.spent - b.reserved; amount > left && b.limit.MicroUSD > 0 {
		return refusal.Newf(refusal.LimitReached, "the next call can cost %s and %s are left of %s; it was not sent",
			plain.Dollars(amount), plain.Dollars(left), plain.Dollars(b.limit.MicroUSD)).
			WithHint("allow more with --max-cost, or bound the call: max_tokens in the request, max_output_tokens in %s", SettingsFile)
	}
	if b.limit.Calls > 0 && b.calls >= b.limit.Calls {
		return refusal.Newf(refusal.LimitReached, "all of %s were made; the next was not sent", plain.Plural(int(b.limit.Calls), "call")).
			WithHint("allow more with --max-calls")
	}
	b.reserved += amount
	b.calls++
	return nil
}

// takeBack undoes what was set aside for a call that the purse does not allow.
func (b *Budget) takeBack(amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= amount
	b.calls--
}

// settle replaces what was set aside by what is known now.
func (b *Budget) settle(reserved, cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= reserved
	b.spent += cost
	b.underWay--
	close(b.settled)
	b.settled = make(chan struct{})
}

// inputOverhead is what a provider adds to a request by itself: the frames of
// messages and its own instructions for tools. Chosen generously.
const inputOverhead = 2048

// mostCost is the most that one call can cost, in micro-dollars.
//
// A token is at least one byte of text, so a request has at most as many as
// bytes. That does not hold for what the request only refers to, such as a
// conversation that the provider stores; then the model's max_input_tokens is
// what bounds it.
func (e *Endpoint) mostCost(api wire.API, request []byte) (int64, error) {
	b, err := wire.BoundsOf(api, request)
	if err != nil {
		return 0, fmt.Errorf("reading the request: %w", err)
	}
	m, ok := e.model(b.Model)
	if !ok {
		return 0, unbounded("the model %.60q %w in %s: add it there, or limit the calls with --max-calls", b.Model, ErrNoPrice, SettingsFile).
			WithHint("add it under %s: prices: in %s", e.Provider, SettingsFile)
	}
	in := int64(len(request)) + inputOverhead
	if b.Elsewhere {
		in = math.MaxInt64
	}
	if m.MaxInput > 0 {
		in = min(in, m.MaxInput)
	}
	if in > wire.MaxTokens {
		return 0, unbounded("the request to %.60q refers to something outside of it", b.Model).
			WithHint("add max_input_tokens to the model in %s", SettingsFile)
	}
	out := b.MaxOutput
	if m.MaxOutput > 0 {
		out = min(out, m.MaxOutput)
	}
	if out > wire.MaxTokens {
		return 0, unbounded("neither the request nor %s says how many tokens %.60q may answer with", SettingsFile, b.Model).
			WithHint("add max_output_tokens to the model in %s, or a limit to the request", SettingsFile)
	}
	out = min(out*b.Choices, wire.MaxTokens)
	price := m.Price
	price.Input = max(price.Input, price.CacheWrite, price.CacheWriteLong)
	return price.Cost(wire.Usage{InputTokens: in, OutputTokens: out}), nil
}

func unbounded(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.LimitReached, "what the next call can cost is not bounded: "+format+"; it was not sent", args...)
}
