package otel

import (
	"cmp"
	"container/heap"
	"slices"
)

// A moment is something that happened at a time, after what it needs.
type moment struct {
	at     uint64
	order  int
	do     func()
	before []*moment // that cannot happen before this one has
	needs  int       // how many others must happen before it
	done   bool
}

// at adds a moment.
func (t *story) at(when uint64, order int, do func()) *moment {
	m := &moment{at: when, order: order, do: do}
	t.moments = append(t.moments, m)
	return m
}

// then says that one moment is the cause of another. Nil is a moment of which there
// is nothing to tell.
func then(cause, effect *moment) {
	if cause != nil && effect != nil && cause != effect {
		cause.before = append(cause.before, effect)
		effect.needs++
	}
}

// causes says what of the story needs what: clocks of two machines differ, and a span
// may be ended late, but a tool is called because a model asked for it, and a model
// that is shown a result is called after the tool gave it.
func (t *story) causes() {
	for _, n := range t.nodes {
		then(n.begins, n.ends)
		if p := n.parentNode; p != nil {
			then(p.begins, n.begins)
			// An answer is given after the reply that it is made of.
			if n.role == modelSpan && p.role == agentSpan {
				then(n.ends, p.ends)
			}
		}
		if n.asked != nil {
			then(n.asked.by.ends, n.begins)
		}
		for _, p := range n.shown {
			then(p.by.ends, n.begins)
			if p.span != nil {
				then(p.span.ends, n.begins)
			}
		}
	}
}

// inOrder gives the moments by time, and by the tree at the same time, but none before
// what it needs. Where spans need each other in a circle, time alone decides.
func (t *story) inOrder() []*moment {
	byTime := slices.SortedStableFunc(slices.Values(t.moments), earlier)
	var ready momentHeap
	for _, m := range byTime {
		if m.needs == 0 {
			ready = append(ready, m) // in order, and so a heap
		}
	}
	out := make([]*moment, 0, len(byTime))
	next := 0 // in byTime, to break a circle
	for len(out) < len(byTime) {
		if len(ready) == 0 {
			for byTime[next].done {
				next++
			}
			byTime[next].needs = 0
			heap.Push(&ready, byTime[next])
		}
		m := heap.Pop(&ready).(*moment)
		if m.done {
			continue
		}
		m.done = true
		out = append(out, m)
		for _, e := range m.before {
			if e.needs--; e.needs == 0 && !e.done {
				heap.Push(&ready, e)
			}
		}
	}
	return out
}

func earlier(a, b *moment) int { return cmp.Or(cmp.Compare(a.at, b.at), a.order-b.order) }

type momentHeap []*moment

func (h momentHeap) Len() int           { return len(h) }
func (h momentHeap) Less(i, j int) bool { return earlier(h[i], h[j]) < 0 }
func (h momentHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *momentHeap) Push(m any)        { *h = append(*h, m.(*moment)) }
func (h *momentHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
