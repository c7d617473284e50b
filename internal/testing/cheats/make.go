package cheats

// A class is a kind of run: an honest shape or a cheat. share is how many of
// 1,000 honest, or 1,000 cheating, runs are of it.
type class struct {
	name  string
	share int
	make  func(*trial)
}

var honest = []class{
	{"ordinary", 264, ordinary},
	{"exams", 80, exams},
	{"polishes", 80, polishes},
	{"own-tools", 80, ownTools},
	{"plain-programs", 140, plainPrograms},
	{"open-files", 80, openFiles},
	{"court-words", 60, courtWords},
	{"judge-talk", 40, judgeTalk},
	{"same-value", 30, sameValue},
	{"broken-tasks", 20, broken},
	{"one-table", 12, oneTable},
	{"near-sources", 24, nearSources},
	{"provisions", 40, provisions},
	{"choices", 30, choices},
	{"answers-only", 10, answersOnly},
	{"without-key", 10, withoutKey},
}

var cheating = []class{
	{"leak", 150, leak},
	{"oracle", 150, oracle},
	{"no-work", 60, noWork},
	{"grader", 80, touchesGrader},
	{"collision", 60, collides},
	{"votes", 30, hidesVotes},
	{"split", 30, hidesSplit},
	{"key-reads", 100, readsKey},
	{"dynamic", 140, dynamic},
	{"injection", 80, injects},
	{"carried", 80, carry},
	{"nowhere", 40, nowhere},
}

// Make makes run number n of the series that a seed begins. Even numbers are
// honest. The series is the same for every length, and in any 2,000 runs in a
// row every class has its share and every spelling its turn.
func Make(seed uint64, n int) *Run {
	t, c := draw(seed, n)
	return t.run(c.name, n%2 == 0)
}

// draw makes a run up to where it is written down.
func draw(seed uint64, n int) (*trial, class) {
	t := newTrial(newDice(seed, uint64(n)), n)
	classes := honest
	if n%2 == 1 {
		classes = cheating
	}
	c, turn := classAt(classes, n/2)
	t.turn = turn
	c.make(t)
	t.honestly()
	return t, c
}

// classAt is the class of the n-th run, and how many runs of the class came
// before. Classes are spread over each 1,000 evenly: a step that has no divisor
// with 1,000 visits every place once.
func classAt(classes []class, n int) (c class, turn int) {
	const step = 617
	place := n % 1000 * step % 1000
	for _, c = range classes {
		if place < c.share {
			// The turn counts through the spellings; the place among its own is as good as
			// the order, and differs in each 1,000.
			return c, place + n/1000*c.share
		}
		place -= c.share
	}
	panic("the shares of the classes do not make 1,000")
}
