package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/bench"
)

// watchKeys are the keys of a watch, in the order of "?".
var watchKeys = []struct {
	key  byte
	does string
	act  func(*watchScreen) *lab.WatchAsk // what is asked of the watch; nil for nothing
}{
	{'r', "runs all cases again", func(*watchScreen) *lab.WatchAsk { return &lab.WatchAsk{All: true} }},
	{'f', "runs the cases again that do not pass", func(*watchScreen) *lab.WatchAsk { return &lab.WatchAsk{Failing: true} }},
	{'a', "accepts what an agent does now as its golden trace", (*watchScreen).acceptGolden},
	{'c', "compares two targets or variants, answer by answer", (*watchScreen).compareTargets},
	{'q', "ends the watch", func(s *watchScreen) *lab.WatchAsk { s.end(); return nil }},
}

// follow does what the keys say until there are no more.
func (s *watchScreen) follow(ctx context.Context, keys <-chan byte) {
	for key := range keys {
		if ask := s.press(key); ask != nil {
			select {
			case s.asks <- *ask:
			case <-ctx.Done():
			}
		}
	}
}

// press does what one key says, and returns what is to be asked of the watch.
func (s *watchScreen) press(key byte) *lab.WatchAsk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.question != nil {
		return s.answer(key)
	}
	for _, k := range watchKeys {
		if key == k.key {
			return k.act(s)
		}
	}
	if key == '?' || key == 'h' {
		s.print(func(w io.Writer) {
			for _, k := range watchKeys {
				fmt.Fprintf(w, "%c        %s\n", k.key, k.does)
			}
		})
	}
	return nil
}

// A watchQuestion waits for numbers of a list.
type watchQuestion struct {
	typed string
	most  int // the largest number
	need  int // how many are needed; 0 for any number of them
	act   func(numbers []int) *lab.WatchAsk
}

// ask puts a question below a list that was printed.
func (s *watchScreen) ask(text string, q watchQuestion) {
	s.question = &q
	s.print(func(w io.Writer) { fmt.Fprintf(w, "%s; Enter ends, Esc leaves it\n", text) })
}

// answer takes one key of the answer to a question. What is typed is shown by us, because
// the terminal does not.
func (s *watchScreen) answer(key byte) *lab.WatchAsk {
	q := s.question
	show := func(text string) { s.print(func(w io.Writer) { io.WriteString(w, text) }) }
	switch {
	case key == '\x1b' || key == 'q':
		s.question = nil
		show("\nleft as it is\n")
	case key == '\x7f' || key == '\b':
		if q.typed != "" {
			q.typed = q.typed[:len(q.typed)-1]
			show("\b \b")
		}
	case key == '\r' || key == '\n':
		s.question = nil
		show("\n")
		numbers, err := q.numbers()
		if err != nil {
			show(plain.Line(err.Error()) + "\n")
			return nil
		}
		return q.act(numbers)
	case (key >= '0' && key <= '9' || strings.ContainsRune(" ,all", rune(key))) && len(q.typed) < 100:
		q.typed += string(rune(key))
		show(string(rune(key)))
	}
	return nil
}

// numbers reads what was typed: numbers of the list, or "all".
func (q *watchQuestion) numbers() (out []int, err error) {
	words := strings.FieldsFunc(q.typed, func(r rune) bool { return r == ' ' || r == ',' })
	if len(words) == 1 && words[0] == "all" && q.need == 0 {
		for n := 1; n <= q.most; n++ {
			out = append(out, n)
		}
		return out, nil
	}
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > q.most {
			return nil, fmt.Errorf("%q is not a number of the list, 1 to %d", word, q.most)
		}
		out = append(out, n)
	}
	if len(out) == 0 || q.need > 0 && (len(out) != q.need || out[0] == out[1]) {
		return nil, fmt.Errorf("%d numbers were typed: left as it is", len(out))
	}
	return out, nil
}

// acceptGolden accepts the only golden trace that differs, or asks which.
func (s *watchScreen) acceptGolden() *lab.WatchAsk {
	if s.last == nil || len(s.last.Golden) == 0 {
		s.print(func(w io.Writer) {
			fmt.Fprintln(w, `no case differs from its golden trace; "tally golden update" writes those that are not there`)
		})
		return nil
	}
	changes := s.last.Golden
	if len(changes) == 1 {
		return &lab.WatchAsk{Accept: changes}
	}
	s.print(func(w io.Writer) {
		for i, g := range changes {
			fmt.Fprintf(w, "%d  %s\n", i+1, plain.Line(g.Case+" by "+bench.ShortTarget(g.Target)))
			divergenceText(w, plain.Shorter(g.Detail, 6), "         ")
		}
	})
	s.ask(fmt.Sprintf("which does the agent do right? numbers from 1 to %d, or all", len(changes)), watchQuestion{most: len(changes), act: func(numbers []int) *lab.WatchAsk {
		ask := &lab.WatchAsk{}
		for _, n := range numbers {
			ask.Accept = append(ask.Accept, changes[n-1])
		}
		return ask
	}})
	return nil
}

// compareTargets compares the only two targets, or asks which two.
func (s *watchScreen) compareTargets() *lab.WatchAsk {
	if s.last == nil || len(s.last.Targets) < 2 {
		s.print(func(w io.Writer) {
			fmt.Fprintln(w, "there is one target; --target several times, or one with parameters:, gives more to compare")
		})
		return nil
	}
	run := s.last
	show := func(a, b int) {
		s.print(func(w io.Writer) { comparedText(w, run, a, b, s.columns()) })
	}
	if len(run.Targets) == 2 {
		show(0, 1)
		return nil
	}
	s.print(func(w io.Writer) {
		for i, t := range run.Targets {
			fmt.Fprintf(w, "%d  %s\n", i+1, plain.Line(bench.ShortTarget(t)))
		}
	})
	s.ask("which two? as in 1 2", watchQuestion{most: len(run.Targets), need: 2, act: func(numbers []int) *lab.WatchAsk {
		show(numbers[0]-1, numbers[1]-1)
		return nil
	}})
	return nil
}

// comparedText shows where two targets of a run differ: cases that one of them passes
// and the other does not, then other answers.
func comparedText(w io.Writer, run *lab.Watched, a, b int, columns int) {
	gained, lost, other, shown := 0, 0, 0, 0
	passed := func(c lab.WatchedResult) bool { return c.Outcome == string(evidence.Passed) }
	for _, flips := range []bool{true, false} {
		for _, row := range run.Rows {
			x, y := row.Cells[a], row.Cells[b]
			flip := passed(x) != passed(y)
			if flip != flips || !flip && x.Answer == y.Answer && x.Outcome == y.Outcome {
				continue
			}
			switch {
			case !flip:
				other++
			case passed(y):
				gained++
			default:
				lost++
			}
			if shown++; shown > maxCasesShown {
				continue
			}
			fmt.Fprintf(w, "%s: %s to %s\n", plain.Line(row.Case), outcomeText(orNone(x.Outcome)), outcomeText(orNone(y.Outcome)))
			if !x.HeldOut || x.Answer != "" || y.Answer != "" {
				beside(w, []outline.Column{{Title: bench.ShortTarget(run.Targets[a]), Text: x.Answer}, {Title: bench.ShortTarget(run.Targets[b]), Text: y.Answer}}, columns, "         ")
			}
		}
	}
	if shown > maxCasesShown {
		fmt.Fprintf(w, "and %d more\n", shown-maxCasesShown)
	}
	fmt.Fprintf(w, "compared %s with %s: %d gained, %d lost, %d other answers, of %d cases\n", plain.Line(bench.ShortTarget(run.Targets[a])), plain.Line(bench.ShortTarget(run.Targets[b])), gained, lost, other, len(run.Rows))
}

// orNone is an outcome, of a case that may not have one.
func orNone(outcome string) string {
	if outcome == "" {
		return "not run"
	}
	return outcome
}
