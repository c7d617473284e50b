// Package cost is an amount of money of which some may not be known: what is not
// known is counted beside it and is never zero.
//
// Every surface that shows, adds up, divides, orders or compares costs does it
// here, so that an unknown price or an unknown usage reads the same everywhere:
// "at least $0.001200, 2 calls unpriced".
package cost

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tallystick/internal/record/plain"
)

// A Cost is what calls of models and tools cost, as far as that is known. The
// zero value is a known cost of nothing.
type Cost struct {
	// MicroUSD is what the calls cost whose price and usage are known, in
	// millionths of a dollar.
	MicroUSD int64
	// Unpriced is how many calls are not in MicroUSD: their model has no price, their
	// reply does not tell its usage, or they were sent and not answered.
	Unpriced int64
	// Untold is how many tasks have a record that does not tell all of their cost: the
	// calls of their agent could not be seen, or a version wrote the record that did
	// not count unpriced calls.
	Untold int64
}

// Of is a known amount, and calls beside it whose cost is not known.
func Of(microUSD, unpriced int64) Cost { return Cost{MicroUSD: microUSD, Unpriced: unpriced} }

// Known reports whether MicroUSD is all of it. If not, it is the least.
func (c Cost) Known() bool { return c.Unpriced == 0 && c.Untold == 0 }

// Plus is the sum. What is not known of either stays so.
func (c Cost) Plus(d Cost) Cost {
	return Cost{sum(c.MicroUSD, d.MicroUSD), sum(c.Unpriced, d.Unpriced), sum(c.Untold, d.Untold)}
}

// Minus is the difference. It is at least that of what is known if calls of c are
// unpriced; if they are of d, or tasks do not tell, nothing of it is told.
func (c Cost) Minus(d Cost) Cost {
	if !d.Known() || c.Untold > 0 {
		return Cost{Untold: max(1, c.Untold, d.Untold)}
	}
	return Of(c.MicroUSD-d.MicroUSD, c.Unpriced)
}

// Per is the cost of one of n, rounded down, and 0 if there is none.
func (c Cost) Per(n int64) Cost {
	if n <= 0 {
		return Cost{0, c.Unpriced, c.Untold}
	}
	return Cost{c.MicroUSD / n, c.Unpriced, c.Untold}
}

// Compare orders costs from the lowest. One that is not all known may be any
// amount above, so it comes after all that are.
func (c Cost) Compare(d Cost) int {
	if c.Known() != d.Known() {
		if c.Known() {
			return -1
		}
		return 1
	}
	return cmp.Compare(c.MicroUSD, d.MicroUSD)
}

// sum stays at the end of the numbers instead of passing it.
func sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// USD is micro-dollars as people write them, to the last one, so that columns
// align.
func USD(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	return fmt.Sprintf("%s$%d.%06d", sign, micro/1e6, micro%1e6)
}

// String is the cost for people, with six decimals.
func (c Cost) String() string { return c.text(USD(c.MicroUSD)) }

// Short is the cost for people, with as many decimals as it needs.
func (c Cost) Short() string { return c.text(plain.Dollars(c.MicroUSD)) }

func (c Cost) text(amount string) string {
	switch {
	case c.Known():
		return amount
	case c.MicroUSD == 0 && c.Unpriced == 0:
		return "unknown"
	}
	return "at least " + amount + ", " + c.Missing()
}

// Brief is the cost for people without what is missing, where that stands beside it.
func (c Cost) Brief() string {
	brief, _, _ := strings.Cut(c.String(), ",")
	return brief
}

// Missing says what is not in the amount; "" if all is.
func (c Cost) Missing() string {
	var parts []string
	if c.Unpriced > 0 {
		parts = append(parts, plain.Plural(int(c.Unpriced), "call")+" unpriced")
	}
	if c.Untold > 0 {
		parts = append(parts, "cost of "+plain.Plural(int(c.Untold), "task")+" not all told")
	}
	return strings.Join(parts, ", ")
}

// Dollars is the known amount in dollars, nil if a task does not tell its cost.
func (c Cost) Dollars() *float64 {
	if c.Untold > 0 {
		return nil
	}
	usd := float64(c.MicroUSD) / 1e6
	return &usd
}

// Cell is the known amount for a table that programs read, "" if a task does not
// tell its cost. The number of unpriced calls stands in another column.
func (c Cost) Cell() string {
	if c.Untold > 0 {
		return ""
	}
	return strconv.FormatInt(c.MicroUSD, 10)
}

// MarshalJSON gives the known amount in micro-dollars, or null if a task does not
// tell its cost. The document that has it names the unpriced calls beside it, in
// unpriced_calls.
func (c Cost) MarshalJSON() ([]byte, error) {
	if c.Untold > 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, c.MicroUSD, 10), nil
}

// UnmarshalJSON reads what MarshalJSON wrote. The unpriced calls are elsewhere in
// the document.
func (c *Cost) UnmarshalJSON(data []byte) error {
	*c = Cost{}
	if string(data) == "null" {
		c.Untold = 1
		return nil
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	c.MicroUSD = n
	return err
}
