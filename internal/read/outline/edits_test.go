package outline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/run/trajectory"
)

// conversation is an outline of four turns. What the user says is the same in all of
// them if alike, so that only what was done tells them apart.
func conversation(alike bool) []Move {
	moves := []Move{{0, "run", "", "", `under governance "autonomous"`}, {0, remember, "name", "", `written "Bob"`}}
	for turn := 1; turn <= 4; turn++ {
		input := fmt.Sprintf(`said "question %d"`, turn)
		if alike {
			input = `said "go on"`
		}
		moves = append(moves, Move{turn, user, "", "", input}, Move{turn, "model", "m", "", `replied "tool_calls"`})
		for n := range 3 {
			moves = append(moves, Move{turn, call, fmt.Sprint("tool", n), fmt.Sprintf(`{"turn":%d}`, turn), `policy "allow" rule "r"` + "\n" + fmt.Sprintf(`gave "%d"`, turn)})
		}
		moves = append(moves,
			Move{turn, remember, "seen", "", fmt.Sprintf(`wants "%d"`, turn) + "\n" + `policy "allow" rule "r"` + "\nwritten"},
			Move{turn, handoff, "auditor", fmt.Sprintf(`"check %d"`, turn), `policy "allow" rule "r"` + "\n" + `passed from "main"`},
			Move{turn, "model", "m", "", `replied "stop"`},
			Move{turn, answer, "", "", fmt.Sprintf(`said "answer %d"`, turn)})
	}
	return append(moves, Move{4, wrote, "out.txt", "", "is bytes 3"}, Move{4, tested, "", "", "tested passed true"}, Move{4, end, "completed", "", ""})
}

func changes(golden, got []Move) []string {
	var list []string
	for _, d := range Compare(&Outline{Moves: golden}, &Outline{Moves: got}, Behaviour) {
		list = append(list, string(d.Change))
	}
	return list
}

// isAct reports whether an edit can be made to the step alone: turns, answers and the
// run are made by the harness.
func isAct(m Move) bool { return !slices.Contains([]string{user, answer, end, "run"}, m.Kind) }

// TestEveryEditIsCalledWhatItIs makes each edit at each place and looks at the word.
func TestEveryEditIsCalledWhatItIs(t *testing.T) {
	for _, alike := range []bool{false, true} {
		golden := conversation(alike)
		for i, m := range golden {
			if !isAct(m) {
				continue
			}
			at := func(edit string, got []Move, want ...trajectory.Change) {
				t.Helper()
				if words := changes(golden, got); len(words) != len(want) || slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(want, trajectory.Change(w)) }) {
					t.Errorf("alike %v, step %d (%s %s of turn %d), %s: %v, expected %v", alike, i, m.Kind, m.What, m.Turn, edit, words, want)
				}
			}
			with := func(other Move) []Move {
				got := slices.Clone(golden)
				got[i] = other
				return got
			}
			other := m
			at("dropped", slices.Delete(slices.Clone(golden), i, i+1), trajectory.Missing)
			at("new", slices.Insert(slices.Clone(golden), i, Move{m.Turn, call, "fresh", "{}", "gave 1"}), trajectory.New)
			at("twice", slices.Insert(slices.Clone(golden), i, m), trajectory.New)
			at("replaced by another tool", with(Move{m.Turn, call, "fresh", "{}", "gave 1"}), trajectory.Replaced)
			at("replaced by another kind", with(Move{m.Turn, "plan", "", "", `said "x"`}), trajectory.Replaced)
			other.Outcome = `policy "deny" rule "no"` + "\n" + `violation "denied"`
			at("denied", with(other), trajectory.Denied)
			other.Outcome = `policy "escalate" rule "no"` + "\nasked\nanswered approved false\n" + `policy "deny"`
			at("refused by a person", with(other), trajectory.Denied)
			for j := range golden {
				if turn := golden[j].Turn; j != i && j != i+1 && isAct(golden[j]) {
					moved := m
					moved.Turn = turn
					got := slices.Insert(slices.Clone(golden), j, moved)
					gone := i
					if j < i {
						gone++
					}
					got = slices.Delete(got, gone, gone+1)
					if words := changes(golden, got); !isMoved(golden, got, words) {
						t.Errorf("alike %v, step %d moved to %d: %v", alike, i, j, words)
					}
				}
			}
		}
	}
}

// isMoved reports whether only moves are told. A step that moved past one that is its
// equal has not moved at all.
func isMoved(golden, got []Move, words []string) bool {
	same := slices.EqualFunc(golden, got, func(a, b Move) bool { return a == b })
	return same == (len(words) == 0) && !slices.ContainsFunc(words, func(w string) bool { return w != string(trajectory.Reordered) })
}

// TestADroppedTurnIsMissing: the last one too, although the run then ends in an earlier
// turn; and one that is added is new, and two that were exchanged moved.
func TestADroppedTurnIsMissing(t *testing.T) {
	for _, alike := range []bool{false, true} {
		golden := conversation(alike)
		for turn := 1; turn <= 4; turn++ {
			var less []Move
			for _, m := range golden {
				belongs := m.Turn == turn && (isAct(m) || m.Kind == user || m.Kind == answer) && m.Kind != wrote && m.Kind != tested
				if m.Turn > turn || m.Turn == 4 && turn == 4 {
					m.Turn--
				}
				if !belongs {
					less = append(less, m)
				}
			}
			if words := changes(golden, less); len(words) != 9 || strings.Trim(strings.Join(words, ""), "misng") != "" {
				t.Errorf("alike %v: turn %d dropped: %v", alike, turn, words)
			}
			if d := Compare(&Outline{Moves: golden}, &Outline{Moves: less}, Behaviour); d[0].Golden.Kind != user || d[0].Turn() != turn || !strings.Contains(d[0].String(), "missing: the run dropped this turn") {
				t.Errorf("alike %v: turn %d dropped: the first is %s", alike, turn, &d[0])
			}
			if words := changes(less, golden); len(words) != 9 || strings.Trim(strings.Join(words, ""), "new") != "" {
				t.Errorf("alike %v: turn %d added: %v", alike, turn, words)
			}
		}
	}
}

// TestMeaningsAreInWords: what is told to people says what became of the step.
func TestMeaningsAreInWords(t *testing.T) {
	a, b := &Move{2, call, "pay", "{}", ""}, &Move{3, call, "pay", "{}", ""}
	for _, c := range []struct {
		d    Difference
		want string
	}{
		{Difference{trajectory.Missing, a, nil}, "turn 2: missing: the run dropped this step"},
		{Difference{trajectory.New, nil, b}, "turn 3: new: the golden file does not have this step"},
		{Difference{trajectory.Reordered, a, b}, "turn 3: reordered: this step moved here from turn 2"},
		{Difference{trajectory.Reordered, a, a}, "turn 2: reordered: this step moved within its turn"},
		{Difference{trajectory.Replaced, a, a}, "turn 2: replaced: the run has another step in its place"},
		{Difference{trajectory.Denied, a, a}, "turn 2: denied: this step was permitted and is denied now"},
		{Difference{trajectory.ChangedResult, a, a}, "turn 2: changed_result"},
	} {
		if first, _, _ := strings.Cut(c.d.String(), "\n"); first != c.want {
			t.Errorf("%q, expected %q", first, c.want)
		}
	}
}
