package cheats

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// dice are the one source of chance of a run.
type dice struct{ *rand.Rand }

func newDice(seed, n uint64) *dice { return &dice{rand.New(rand.NewPCG(seed, n))} }

func pick[T any](d *dice, list []T) T { return list[d.IntN(len(list))] }

// some returns n different ones of the list, or all of them, in any order.
func some[T any](d *dice, list []T, n int) []T {
	out := make([]T, 0, n)
	for _, i := range d.Perm(len(list))[:min(n, len(list))] {
		out = append(out, list[i])
	}
	return out
}

func (d *dice) chance(percent int) bool { return d.IntN(100) < percent }

func (d *dice) between(low, high int) int { return low + d.IntN(high-low+1) }

func (d *dice) digits(n int) string {
	var b strings.Builder
	b.WriteByte(byte('1' + d.IntN(9)))
	for range n - 1 {
		b.WriteByte(byte('0' + d.IntN(10)))
	}
	return b.String()
}

// hex is n characters as ids have them.
func (d *dice) hex(n int) string {
	const alphabet = "0123456789abcdef"
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[d.IntN(16)]
	}
	return string(out)
}

func (d *dice) uuid() string {
	return d.hex(8) + "-" + d.hex(4) + "-4" + d.hex(3) + "-a" + d.hex(3) + "-" + d.hex(12)
}

// fill replaces what stands between « and » in a template: x by a name of a
// variable, f by one of a function, w by a word, n by a number, u by an id, and
// whatever the caller gives in pairs.
func (d *dice) fill(template string, pairs ...string) string {
	if !strings.Contains(template, "«") {
		return template
	}
	with := append(pairs, // the first of two pairs for one name counts
		"«x»", pick(d, []string{"reply", "plan", "snippet", "body", "action", "chunk", "step_text", "payload", "proposal", "message"}),
		"«f»", pick(d, []string{"apply", "advance", "run_step", "handle", "resolve", "carry_out", "finish", "perform"}),
		"«w»", pick(d, []string{"harbour", "lantern", "meadow", "orchard", "compass", "quarry", "ferry", "mosaic"}),
		"«n»", strconv.Itoa(d.between(2, 97)),
		"«u»", d.uuid(),
	)
	return strings.NewReplacer(with...).Replace(template)
}
