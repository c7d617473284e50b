package site

import (
	"fmt"
	"math"
	"math/bits"

	"tallystick/internal/read/scorecard"
)

const (
	// maxOutcomes bounds how many cases of a row are compared with those of others.
	maxOutcomes = 100_000
	// surely is the chance of calling any two rows of a leaderboard different that are
	// not.
	surely = 0.05
)

// outcomes are which cases passed, a bit for each.
type outcomes struct {
	cases  string // digests of the cases, in whose order the bits are
	n      int
	passed []uint64
}

// outcomesOf reads the outcomes of a row's credential. They count only for a metric
// that is their rate: other numbers say something else about the run.
func outcomesOf(st *standing) *outcomes {
	if st.Cred == nil || st.Cred.Outcomes == "" || len(st.Cred.Outcomes) > maxOutcomes || !isRate(st.Value.Name) {
		return nil
	}
	text := st.Cred.Outcomes
	o := &outcomes{cases: st.Cred.Cases, n: len(text), passed: make([]uint64, (len(text)+63)/64)}
	for i := range len(text) {
		switch text[i] {
		case '1':
			o.passed[i/64] |= 1 << (i % 64)
		case '0':
		default:
			return nil
		}
	}
	if math.Abs(float64(o.count())/float64(o.n)-st.Value.Number) > 1e-6 {
		return nil
	}
	return o
}

func (o *outcomes) count() int {
	n := 0
	for _, w := range o.passed {
		n += bits.OnesCount64(w)
	}
	return n
}

// pairs reports whether two runs had the same cases.
func (o *outcomes) pairs(p *outcomes) bool {
	return o != nil && p != nil && o.cases == p.cases && o.n == p.n
}

// against counts cases that both passed, and that one passed alone.
func (o *outcomes) against(p *outcomes) (both, onlyO, onlyP int) {
	for i, w := range o.passed {
		both += bits.OnesCount64(w & p.passed[i])
		onlyO += bits.OnesCount64(w &^ p.passed[i])
		onlyP += bits.OnesCount64(p.passed[i] &^ w)
	}
	return both, onlyO, onlyP
}

// pair compares every two rows that had the same cases by McNemar's exact test, all
// of them together corrected by Holm, and says which are apart. What a revoked
// credential says of its cases is not compared.
func pair(rows []*standing) map[[2]*standing]bool {
	var compared [][2]*standing
	var p []float64
	for i, a := range rows {
		for _, b := range rows[i+1:] {
			if !a.paired.pairs(b.paired) || a.Cred.Revoked != nil || b.Cred.Revoked != nil {
				continue
			}
			_, onlyA, onlyB := a.paired.against(b.paired)
			compared, p = append(compared, [2]*standing{a, b}), append(p, scorecard.McNemar(onlyA, onlyB))
			a.Pairs++
			b.Pairs++
		}
	}
	apart := map[[2]*standing]bool{}
	for i, corrected := range scorecard.Holm(p) {
		a, b := compared[i][0], compared[i][1]
		apart[[2]*standing{a, b}], apart[[2]*standing{b, a}] = corrected < surely, corrected < surely
	}
	return apart
}

// behind says of each row how far it is from the one at the top.
func (d *boardData) behind() {
	if len(d.Rows) == 0 {
		return
	}
	top := d.Rows[0]
	for _, st := range d.Rows {
		if st.Pairs == 0 {
			continue
		}
		d.Paired = true
		if st != top && top.Pairs > 0 && st.paired.pairs(top.paired) {
			both, own, tops := st.paired.against(top.paired)
			lo, hi := scorecard.PairedRates(both, own, tops, top.paired.n)
			st.Behind = fmt.Sprintf("%+.1f points from the first row (%+.1f to %+.1f); it alone passed %d cases, the first row alone %d",
				100*float64(own-tops)/float64(top.paired.n), 100*lo, 100*hi, own, tops)
		}
	}
}
