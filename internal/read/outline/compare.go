package outline

import (
	"fmt"
	"strings"

	"tallystick/internal/run/similarity"
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

// String describes the difference with both sides, on several lines that are safe to
// print.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d: %s\n", d.Turn(), d.Change)
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
// What both have in the same order is the same. Of the rest, a move that both have is
// reordered, two of the same tool, key or path are one that changed, and what is then
// left is missing or new.
func Compare(golden, got *Outline, level Level) []Difference {
	a, b := golden.at(level), got.at(level)
	inA, inB := make([]bool, len(a)), make([]bool, len(b))
	for _, m := range similarity.Align(keys(a, wholeMove), keys(b, wholeMove)) {
		inA[m.A], inB[m.B] = true, true
	}
	p := pairing{a: a, b: b, inA: inA, inB: inB, of: make([]*Difference, len(b))}
	p.pair(anywhere, func(_, _ *Move) trajectory.Change { return trajectory.Reordered })
	p.pair(sameThing, changeOf)
	var list []Difference
	for i := range b {
		switch {
		case p.of[i] != nil:
			list = append(list, *p.of[i])
		case !inB[i]:
			list = append(list, Difference{trajectory.New, nil, &b[i]})
		}
	}
	for i := range a {
		if !inA[i] {
			list = insertMissing(list, &a[i])
		}
	}
	return list
}

// insertMissing puts a move that the run does not have before what is new in its turn,
// which may be there in its place, and before later turns.
func insertMissing(list []Difference, m *Move) []Difference {
	at := len(list)
	for at > 0 && (list[at-1].Turn() > m.Turn || list[at-1].Turn() == m.Turn && list[at-1].Change == trajectory.New) {
		at--
	}
	list = append(list, Difference{})
	copy(list[at+1:], list[at:])
	list[at] = Difference{trajectory.Missing, m, nil}
	return list
}

// at is what a level compares.
func (o *Outline) at(level Level) []Move {
	if level == Behaviour {
		return o.Moves
	}
	var moves []Move
	for _, m := range o.Moves {
		if m.Kind == call || m.Kind == handoff {
			m.Outcome = ""
			moves = append(moves, m)
		}
	}
	return moves
}

// A pairing finds moves of two outlines that belong together.
type pairing struct {
	a, b     []Move
	inA, inB []bool // has its partner
	of       []*Difference
}

// pair gives each move of b that has no partner yet the first one of a with the same
// key that has none.
func (p *pairing) pair(key func(*Move) Move, change func(a, b *Move) trajectory.Change) {
	free := map[Move][]int{}
	for i := range p.a {
		if !p.inA[i] {
			free[key(&p.a[i])] = append(free[key(&p.a[i])], i)
		}
	}
	for j := range p.b {
		k := key(&p.b[j])
		if p.inB[j] || len(free[k]) == 0 {
			continue
		}
		i := free[k][0]
		free[k] = free[k][1:]
		p.inA[i], p.inB[j] = true, true
		p.of[j] = &Difference{change(&p.a[i], &p.b[j]), &p.a[i], &p.b[j]}
	}
}

func keys(moves []Move, key func(*Move) Move) []Move {
	list := make([]Move, len(moves))
	for i := range moves {
		list[i] = key(&moves[i])
	}
	return list
}

func wholeMove(m *Move) Move { return *m }

// anywhere is a move whichever turn it is in.
func anywhere(m *Move) Move {
	return Move{Kind: m.Kind, What: m.What, Detail: m.Detail, Outcome: m.Outcome}
}

// sameThing is what a move is about, in its turn.
func sameThing(m *Move) Move {
	if m.Kind == end {
		return Move{Kind: m.Kind}
	}
	return Move{Turn: m.Turn, Kind: m.Kind, What: m.What}
}

// changeOf names what differs between two moves about the same thing.
func changeOf(a, b *Move) trajectory.Change {
	switch {
	case a.Detail != b.Detail:
		return trajectory.ChangedArguments
	case a.Kind == call && (a.Outcome == "denied") != (b.Outcome == "denied"), a.Kind == approval:
		return trajectory.ChangedVerdict
	case a.Kind == call:
		return trajectory.ChangedResult
	case a.Kind == remember:
		return trajectory.ChangedMemory
	case a.Kind == answer, a.Kind == end && a.What == b.What:
		return trajectory.ChangedAnswer
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
			list = append(list, PromptChange{was.Model, WordDiff(was.Text, now.Text)})
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
