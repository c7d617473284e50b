package outline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/difference"
	"tallystick/internal/run/trajectory"
)

// A Difference is one way in which a run departs from another.
type Difference struct {
	Change trajectory.Change
	// Golden and Got are the moves; nil where the one has it and the other does not.
	Golden, Got *Move
}

// Turn is where it is: of the run that is looked at, if that has the move.
func (d *Difference) Turn() int {
	if d.Got != nil {
		return d.Got.Turn
	}
	return d.Golden.Turn
}

// meaning says in words what became of the step; "" if its lines say it.
func (d *Difference) meaning() string {
	step := "step"
	if d.Golden != nil && d.Golden.Kind == user || d.Golden == nil && d.Got.Kind == user {
		step = "turn"
	}
	switch d.Change {
	case trajectory.New:
		return "the golden file does not have this " + step
	case trajectory.Missing:
		return "the run dropped this " + step
	case trajectory.Reordered:
		if d.Golden.Turn != d.Got.Turn {
			return fmt.Sprintf("this step moved here from turn %d", d.Golden.Turn)
		}
		return "this step moved within its turn"
	case trajectory.Replaced:
		return "the run has another step in its place"
	case trajectory.Denied:
		return "this step was permitted and is denied now"
	}
	return ""
}

// String describes the difference with both sides, on several lines that are safe to
// print.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d: %s", d.Turn(), d.Change)
	if meaning := d.meaning(); meaning != "" {
		fmt.Fprintf(&b, ": %s", meaning)
	}
	b.WriteByte('\n')
	for _, side := range []struct {
		sign byte
		move *Move
	}{{'-', d.Golden}, {'+', d.Got}} {
		if side.move != nil {
			for l := range strings.Lines(string(side.move.format(nil))) {
				fmt.Fprintf(&b, "  %c %s", side.sign, l)
			}
		}
	}
	return b.String()
}

// Compare lists the differences between a golden outline and that of a run, in the
// order of the run; none if they are the same at the level. It knows structure and
// behaviour.
//
// It finds which turn of the one is which of the other, then within each pair of turns
// the longest sequence of steps that both have. Of what is left, a step that both have
// moved; two about the same thing in the same turn are one that changed; two at the
// same place are one that was replaced; and what is then left is missing or new.
func Compare(golden, got *Outline, level Level) []Difference {
	c := comparison{a: sidesOf(golden, level), b: sidesOf(got, level)}
	for _, m := range pairSections(c.a.sections, c.b.sections) {
		c.align(m.A, m.B)
	}
	c.place()
	c.pair(func(s *placed) string { return s.content }, func(_, _ *Move) trajectory.Change { return trajectory.Reordered })
	c.pair(func(s *placed) string { return s.gap + "\n" + s.thing() }, changeOf)
	c.pair(func(s *placed) string { return s.in + "\n" + s.thing() }, changeOf)
	c.pair(func(s *placed) string { return s.gap }, func(_, _ *Move) trajectory.Change { return trajectory.Replaced })
	return c.differences()
}

// A placed is a step with its place in the comparison.
type placed struct {
	*Move
	content string // all of it but the number of its turn
	in, gap string // the pair of sections that it is in, and the place between steps that both have
	matched int    // the step of the other side, from 1; 0 if there is none
	change  trajectory.Change
}

// thing is what a step is about.
func (p *placed) thing() string {
	if p.Kind == end {
		return p.Kind
	}
	return p.Kind + " " + p.What
}

// A section is the steps of one turn, those before the first turn, or those after the
// last answer: a run that has fewer turns ends as before, and its end did not move.
type section struct {
	from, to int
	whole    string // its contents
	marker   string // how it begins: what the user said
}

type side struct {
	steps    []placed
	sections []section
}

// sidesOf cuts an outline into sections and keeps the steps that a level compares.
func sidesOf(o *Outline, level Level) side {
	var s side
	tail := tailOf(o.Moves)
	for i := range o.Moves {
		m := o.Moves[i]
		last := len(s.sections) - 1
		if last < 0 || i == tail || i < tail && m.Turn != o.Moves[i-1].Turn {
			marker := fmt.Sprintf("turn %d", m.Turn)
			switch {
			case i >= tail:
				marker = "the end"
			case m.Kind == user:
				marker = string(m.format(nil))[len(user):]
			}
			s.sections = append(s.sections, section{from: len(s.steps), to: len(s.steps), marker: marker})
			last++
		}
		if level == Structure {
			if !structural[m.Kind] {
				continue
			}
			m.Outcome = ""
		}
		s.steps = append(s.steps, placed{Move: &m, content: string(m.format(nil))})
		s.sections[last].to = len(s.steps)
	}
	for i := range s.sections {
		x := &s.sections[i]
		var whole strings.Builder
		for _, p := range s.steps[x.from:x.to] {
			whole.WriteString(p.content)
		}
		x.whole = whole.String()
	}
	return s
}

// tailOf is where the steps begin that belong to the run and not to its last turn.
func tailOf(moves []Move) int {
	for i := len(moves) - 1; i >= 0; i-- {
		switch {
		case moves[i].Kind == answer:
			return i + 1
		case moves[i].Kind == user:
			i = 0 // the last turn has no answer
		}
	}
	if n := len(moves); n > 0 && moves[n-1].Kind == end {
		return n - 1
	}
	return len(moves)
}

// pairSections finds which section is which: by all that is in them, or else by how they
// begin, or else by their order.
func pairSections(a, b []section) []difference.Match {
	matches := align(a, b, func(s *section) string { return s.marker + s.whole })
	matches = between(matches, a, b, func(a, b []section) []difference.Match {
		return align(a, b, func(s *section) string { return s.marker })
	})
	return between(matches, a, b, func(a, b []section) []difference.Match {
		var list []difference.Match
		for i := range min(len(a), len(b)) {
			list = append(list, difference.Match{A: i, B: i})
		}
		return list
	})
}

func align[T any](a, b []T, key func(*T) string) []difference.Match {
	keys := func(list []T) []string {
		out := make([]string, len(list))
		for i := range list {
			out[i] = key(&list[i])
		}
		return out
	}
	return difference.Align(keys(a), keys(b))
}

// between adds matches in what lies between those that there are.
func between[T any](matches []difference.Match, a, b []T, more func(a, b []T) []difference.Match) []difference.Match {
	var list []difference.Match
	i, j := 0, 0
	for _, m := range append(slices.Clone(matches), difference.Match{A: len(a), B: len(b)}) {
		for _, found := range more(a[i:m.A], b[j:m.B]) {
			list = append(list, difference.Match{A: i + found.A, B: j + found.B})
		}
		if m.A < len(a) {
			list = append(list, m)
		}
		i, j = m.A+1, m.B+1
	}
	return list
}

type comparison struct {
	a, b side
}

// align matches the steps that two sections have in the same order, and says of the
// others between which of those they are.
func (c *comparison) align(i, j int) {
	x, y := c.a.sections[i], c.b.sections[j]
	a, b := c.a.steps[x.from:x.to], c.b.steps[y.from:y.to]
	in := fmt.Sprintf("both %d", i)
	for k := range a {
		a[k].in = in
	}
	for k := range b {
		b[k].in = in
	}
	from, to := 0, 0
	for n, m := range append(align(a, b, func(p *placed) string { return p.content }), difference.Match{A: len(a), B: len(b)}) {
		gap := fmt.Sprintf("%s, %d", in, n)
		for ; from < m.A; from++ {
			a[from].gap = gap
		}
		for ; to < m.B; to++ {
			b[to].gap = gap
		}
		if m.A < len(a) {
			a[m.A].matched, b[m.B].matched = y.from+m.B+1, x.from+m.A+1
		}
		from, to = m.A+1, m.B+1
	}
}

// place gives steps of sections that the other side does not have places of their own.
func (c *comparison) place() {
	for name, s := range map[string]*side{"golden": &c.a, "run": &c.b} {
		for i := range s.steps {
			if p := &s.steps[i]; p.in == "" {
				p.in, p.gap = name, fmt.Sprint(name, i)
			}
		}
	}
}

// pair gives each step of the run that has no partner yet the first golden one with the
// same key that has none.
func (c *comparison) pair(key func(*placed) string, change func(a, b *Move) trajectory.Change) {
	free := map[string][]int{}
	for i := range c.a.steps {
		if p := &c.a.steps[i]; p.matched == 0 {
			free[key(p)] = append(free[key(p)], i)
		}
	}
	for j := range c.b.steps {
		p := &c.b.steps[j]
		k := key(p)
		if p.matched != 0 || len(free[k]) == 0 {
			continue
		}
		i := free[k][0]
		free[k] = free[k][1:]
		p.matched, c.a.steps[i].matched = i+1, j+1
		p.change = change(c.a.steps[i].Move, p.Move)
	}
}

// differences lists what is not the same in the order of the run; what is missing
// stands after the last step before it that both have, changed or not.
func (c *comparison) differences() []Difference {
	type at struct {
		place int
		Difference
	}
	var list []at
	for j := range c.b.steps {
		switch p := &c.b.steps[j]; {
		case p.change != "":
			list = append(list, at{2*j + 1, Difference{p.change, c.a.steps[p.matched-1].Move, p.Move}})
		case p.matched == 0:
			list = append(list, at{2*j + 1, Difference{trajectory.New, nil, p.Move}})
		}
	}
	after := 0
	for i := range c.a.steps {
		p := &c.a.steps[i]
		switch {
		case p.matched == 0:
			list = append(list, at{after, Difference{trajectory.Missing, p.Move, nil}})
		case c.b.steps[p.matched-1].change != trajectory.Reordered:
			after = 2 * p.matched
		}
	}
	slices.SortStableFunc(list, func(x, y at) int { return cmp.Compare(x.place, y.place) })
	var out []Difference
	for _, d := range list {
		out = append(out, d.Difference)
	}
	return out
}

// changeOf names what differs between two steps about the same thing.
func changeOf(a, b *Move) trajectory.Change {
	switch {
	case b.isDenied() && !a.isDenied():
		return trajectory.Denied
	case a.isDenied() != b.isDenied():
		return trajectory.ChangedVerdict
	case a.Detail != b.Detail:
		return trajectory.ChangedArguments
	case a.What != b.What:
		return trajectory.ChangedFields
	case a.Kind == offer:
		return trajectory.ChangedTools
	}
	golden, got := strings.Split(a.Outcome, "\n"), strings.Split(b.Outcome, "\n")
	for i := range max(len(golden), len(got)) {
		var was, is string
		if i < len(golden) {
			was = golden[i]
		}
		if i < len(got) {
			is = got[i]
		}
		if was == is {
			continue
		}
		word, _, _ := strings.Cut(cmp.Or(is, was), " ")
		if change := changeOfLine(a.Kind, word); change != trajectory.ChangedFields {
			return change
		}
	}
	return trajectory.ChangedFields
}

// A PromptChange says how what a model was asked first differs.
type PromptChange struct {
	Model string
	Words string // the difference word by word, in one line that is safe to print
}

// Prompts compares what the models were asked first. A model that only one of the
// two asked is a change too.
func Prompts(golden, got *Outline) []PromptChange {
	var list []PromptChange
	asked := map[string]*Prompt{}
	for i := range got.Prompts {
		asked[got.Prompts[i].Model] = &got.Prompts[i]
	}
	for i := range golden.Prompts {
		was := &golden.Prompts[i]
		now := asked[was.Model]
		delete(asked, was.Model)
		switch {
		case now == nil:
			list = append(list, PromptChange{was.Model, "is not asked any more"})
		case was.Text != now.Text:
			list = append(list, PromptChange{was.Model, difference.Brief(was.Text, now.Text)})
		case was.Rest != now.Rest:
			list = append(list, PromptChange{was.Model, fmt.Sprintf("it differs after the first %d bytes", len(now.Text))})
		}
	}
	for i := range got.Prompts {
		if asked[got.Prompts[i].Model] != nil {
			list = append(list, PromptChange{got.Prompts[i].Model, "is asked now, and was not"})
		}
	}
	return list
}
