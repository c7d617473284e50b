package cassette

import (
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// maxPrice bounds each price. Its product with [wire.MaxTokens], five times
// over, stays within 63 bits.
const maxPrice = 1_000_000_000

// A Price is what one million tokens cost, in micro-dollars.
type Price struct {
	Input, Output                         int64
	CacheRead, CacheWrite, CacheWriteLong int64
}

// Prices maps the name of a model, as replies or requests spell it, to its
// price. It is data of the caller: prices change and are not ours to know.
type Prices map[string]Price

// AnyModel in place of a name stands for every model that is not listed, as on a
// server of one's own that costs nothing.
const AnyModel = "*"

// of is the price of a model, by its name or that of any.
func (p Prices) of(model string) (Price, bool) {
	price, known := p[model]
	if !known {
		price, known = p[AnyModel]
	}
	return price, known
}

// Validate refuses prices below zero and beyond 1,000 dollars for a million
// tokens, which no one has meant so far.
func (p Prices) Validate() error {
	for model, price := range p {
		for _, v := range []int64{price.Input, price.Output, price.CacheRead, price.CacheWrite, price.CacheWriteLong} {
			if v < 0 || v > maxPrice {
				return refusal.Newf(refusal.Malformed, "the price of %.60q: found %d, expected 0 to %d micro-dollars per million tokens", model, v, int64(maxPrice)).
					WithHint("prices are whole micro-dollars for a million tokens: 3 dollars is 3000000")
			}
		}
	}
	return nil
}

// Cost is the cost of u in micro-dollars: the sum over all kinds of tokens is
// exact, and is then rounded up once, so that a cost is never understated.
func (p Price) Cost(u wire.Usage) int64 {
	sum := u.InputTokens*p.Input + u.OutputTokens*p.Output +
		u.CacheReadTokens*p.CacheRead + u.CacheWriteTokens*p.CacheWrite + u.CacheWriteLongTokens*p.CacheWriteLong
	return (sum + 999_999) / 1_000_000
}
