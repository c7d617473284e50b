package scorecard

import (
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
)

// A Heat is what became of every case in several attempts, in one byte a case and
// attempt: of a hundred thousand cases it takes a few megabytes and a fraction of a second.
type Heat struct {
	Attempts []*history.Attempt // the columns, oldest first
	// Cases are those that any attempt planned. Those with the same past stand together:
	// first those that did not end alike everywhere, then those that never passed, then
	// those that always did; in each group those that fail now come first.
	Cases []HeatCase
	// Differ, Never and Always count the groups.
	Differ, Never, Always int
}

// A HeatCase is a case with its outcome in each attempt, spelled by [HeatLetters].
type HeatCase struct {
	ID   string
	Past string
}

// NotPlanned is the letter of a case that an attempt did not plan, or planned by another
// digest of its bench.
const NotPlanned = '.'

// HeatLetters spell outcomes. Their order is that in which cases of one group stand.
const HeatLetters = "fetumsn.p"

var heatOutcomes = map[evidence.Outcome]byte{evidence.Failed: 'f', evidence.Errored: 'e', evidence.Truncated: 't', evidence.Unscored: 'u', Mixed: 'm', evidence.Skipped: 's', history.NotRun: 'n', evidence.Passed: 'p'}

// HeatOf sets what became of every case in some attempts side by side.
func HeatOf(attempts []*history.Attempt) *Heat {
	h := &Heat{Attempts: attempts}
	var ids []string
	at := make(map[string]int)
	var past []byte
	row := func(id string) []byte {
		i, known := at[id]
		if !known {
			i = len(ids)
			at[id], ids = i, append(ids, id)
			for range attempts {
				past = append(past, NotPlanned)
			}
		}
		return past[i*len(attempts) : (i+1)*len(attempts)]
	}
	for k, a := range attempts {
		if a.Plan.Repeat > 1 || a.Plan.Reduce != "" {
			for _, r := range ReducedCases(a, history.AsRecorded) {
				row(r.ID)[k] = heatLetter(r.Outcome)
			}
			continue
		}
		for c := range a.Cases() {
			row(c.ID)[k] = heatLetter(c.Outcome())
		}
	}
	h.arrange(ids, past)
	return h
}

func heatLetter(o evidence.Outcome) byte {
	if letter, known := heatOutcomes[o]; known {
		return letter
	}
	return 'e'
}

// arrange puts cases with the same past together, and orders the pasts.
func (h *Heat) arrange(ids []string, past []byte) {
	k := len(h.Attempts)
	of := make(map[string][]string)
	for i, id := range ids {
		p := string(past[i*k : (i+1)*k])
		of[p] = append(of[p], id)
	}
	pasts := make([]string, 0, len(of))
	for p := range of {
		pasts = append(pasts, p)
	}
	slices.SortFunc(pasts, comparePasts)
	h.Cases = make([]HeatCase, 0, len(ids))
	for _, p := range pasts {
		for _, id := range of[p] {
			h.Cases = append(h.Cases, HeatCase{id, p})
		}
		switch n := len(of[p]); pastGroup(p) {
		case 0:
			h.Differ += n
		case 1:
			h.Never += n
		default:
			h.Always += n
		}
	}
}

// pastGroup is 0 for a case that did not end alike everywhere, 1 for one that never
// passed, 2 for one that always did.
func pastGroup(past string) int {
	switch first := past[:1]; {
	case strings.Trim(past, first) != "":
		return 0
	case first != "p":
		return 1
	}
	return 2
}

// comparePasts looks at the newest attempt first: what fails now comes before what
// passes, and what began to fail at the same time stands together.
func comparePasts(a, b string) int {
	if d := pastGroup(a) - pastGroup(b); d != 0 {
		return d
	}
	for i := len(a) - 1; i >= 0; i-- {
		if d := strings.IndexByte(HeatLetters, a[i]) - strings.IndexByte(HeatLetters, b[i]); d != 0 {
			return d
		}
	}
	return 0
}

// Rows are some of the cases with what their records say, in each attempt.
func (h *Heat) Rows(cases []HeatCase) []HeatRow {
	at := make(map[string]int, len(cases))
	rows := make([]HeatRow, len(cases))
	for i, c := range cases {
		at[c.ID], rows[i] = i, HeatRow{HeatCase: c, Results: make([]*Reduced, len(h.Attempts))}
	}
	for k, a := range h.Attempts {
		var found []*history.Case
		for c := range a.Cases() {
			if _, wanted := at[c.ID]; wanted {
				found = append(found, c)
			}
		}
		for _, r := range reducedOf(found, a.Plan.Reduce, history.AsRecorded) {
			rows[at[r.ID]].Results[k] = &r
		}
	}
	return rows
}

// A HeatRow is a case with its results, nil where an attempt did not plan it.
type HeatRow struct {
	HeatCase
	Results []*Reduced
}

// Since says how long a case has been as it is now: the number of the first column of the
// run of columns, up to the last, in which it did or did not pass, and whether it passes.
// It is -1 for a case that the last attempt did not plan.
func (c HeatCase) Since() (column int, passes bool) {
	last := len(c.Past) - 1
	if c.Past[last] == NotPlanned {
		return -1, false
	}
	passes = c.Past[last] == 'p'
	for column = last; column > 0 && c.Past[column-1] != NotPlanned && (c.Past[column-1] == 'p') == passes; column-- {
	}
	return column, passes
}

// Changes is how often a case went from passing to not passing or back.
func (c HeatCase) Changes() int {
	n, last := 0, byte(NotPlanned)
	for i := range len(c.Past) {
		if c.Past[i] == NotPlanned {
			continue
		}
		if last != NotPlanned && (last == 'p') != (c.Past[i] == 'p') {
			n++
		}
		last = c.Past[i]
	}
	return n
}

// Pairs compares attempts: of a few each with each, of more each with the one before it.
// How many of them cannot be compared is apart.
func Pairs(attempts []*history.Attempt) (pairs []MatrixPair, apart int, err error) {
	const each = 5
	for i, a := range attempts {
		for _, b := range attempts[i+1:] {
			if _, _, err := comparable(a, b, CompareOptions{}); err != nil || !shareCase(a, b) {
				apart++
			} else if p, err := pairOf(MatrixEntry{Target: a.ID, Attempt: a}, MatrixEntry{Target: b.ID, Attempt: b}); err != nil {
				return nil, 0, err
			} else {
				pairs = append(pairs, p)
			}
			if len(attempts) > each {
				break
			}
		}
	}
	ps := make([]float64, len(pairs))
	for i, p := range pairs {
		ps[i] = p.McNemarP
	}
	for i, corrected := range Holm(ps) {
		pairs[i].HolmP = corrected
	}
	return pairs, apart, nil
}
