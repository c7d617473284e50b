package viewer

import (
	"sync"
	"sync/atomic"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/read/survey"
)

const (
	// surveyBytes bounds the surveys that are kept: of other attempts, what was kept
	// goes first.
	surveyBytes = survey.MaxBytes
	// surveySlice is how long a survey reads before it gives way: the ledger is not read on
	// meanwhile.
	surveySlice = 50 * time.Millisecond
)

// surveys are what reading the transcripts of attempts found. They are made beside the
// pages, one at a time, and kept in memory only.
type surveys struct {
	mu      sync.Mutex
	by      map[string]*surveying
	order   []*surveying // as they were asked for, the oldest first
	turn    sync.Mutex   // held by the one that is being made
	stopped bool
}

// A surveying is a survey that is made, or was.
type surveying struct {
	attempt string
	of, ran int
	looked  atomic.Int64
	done    atomic.Pointer[survey.Survey]
	ended   chan struct{} // closed when it is made, or given up
}

// surveyWait is how long a page waits for a survey that begins: most are made by then, and
// the page needs not say that they are not.
const surveyWait = 100 * time.Millisecond

// wait waits a moment for the survey.
func (s *surveying) wait() {
	select {
	case <-s.ended:
	case <-time.After(surveyWait):
	}
}

// Done is the share of the cases that were looked at, for people.
func (s *surveying) Done() string {
	return Percent(float64(s.looked.Load()) / float64(max(s.of, 1)))
}

// surveyOf gives the survey of an attempt, which may still be made; nil if there will be
// none: pages that are written to files have no search, and the transcripts of an attempt
// that runs are not all there.
func (v *Viewer) surveyOf(a *history.Attempt) *surveying {
	if v.config.Still || a.Finished == nil && !v.running(a).Stalled {
		return nil
	}
	recorded := 0
	for c := range a.Cases() {
		if c.Index >= 0 {
			recorded++
		}
	}
	s, begun := v.surveys.of(a.ID, a.Tasks(), recorded)
	if begun {
		go v.survey(s)
		s.wait()
	}
	return s
}

// of is the survey of an attempt, of whose cases so many ran. begun says that it is a new
// one, which the caller makes. An attempt that is resumed gets another survey.
func (x *surveys) of(attempt string, tasks, ran int) (s *surveying, begun bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s = x.by[attempt]; s != nil && s.ran == ran || x.stopped {
		return s, false
	}
	s = &surveying{attempt: attempt, of: tasks, ran: ran, ended: make(chan struct{})}
	if x.by == nil {
		x.by = map[string]*surveying{}
	}
	x.by[attempt], x.order = s, append(x.order, s)
	return s, true
}

// survey reads the transcripts of an attempt, a little at a time: pages come between, and
// the ledger is read on.
func (v *Viewer) survey(s *surveying) {
	defer close(s.ended)
	v.surveys.turn.Lock()
	defer v.surveys.turn.Unlock()
	v.mu.RLock()
	reading := v.r
	d, err := reading.Attempt(s.attempt)
	var b *survey.Builder
	if err == nil {
		b = survey.Begin(d)
	}
	v.mu.RUnlock()
	if err != nil {
		v.dropSurvey(s)
		return
	}
	defer b.Stop()
	for {
		v.mu.RLock()
		if v.r != reading || v.surveysStopped() { // the ledger was rewritten: what was read is of another
			v.mu.RUnlock()
			v.dropSurvey(s)
			return
		}
		since := time.Now()
		done, cases := b.Read(func() bool { return time.Since(since) > surveySlice })
		v.mu.RUnlock()
		s.looked.Store(int64(cases))
		if done != nil {
			s.done.Store(done)
			v.makeRoom(s)
			return
		}
	}
}

func (v *Viewer) surveysStopped() bool {
	v.surveys.mu.Lock()
	defer v.surveys.mu.Unlock()
	return v.surveys.stopped
}

// stopSurveys lets none be made any more.
func (v *Viewer) stopSurveys() {
	v.surveys.mu.Lock()
	defer v.surveys.mu.Unlock()
	v.surveys.stopped = true
}

// forgetSurveys drops those of a ledger that was rewritten.
func (v *Viewer) forgetSurveys() {
	v.surveys.mu.Lock()
	defer v.surveys.mu.Unlock()
	v.surveys.by, v.surveys.order = nil, nil
}

func (v *Viewer) dropSurvey(s *surveying) {
	v.surveys.mu.Lock()
	defer v.surveys.mu.Unlock()
	v.surveys.drop(s)
}

// drop forgets a survey. The lock is held.
func (x *surveys) drop(s *surveying) {
	if x.by[s.attempt] == s {
		delete(x.by, s.attempt)
	}
	for i := range x.order {
		if x.order[i] == s {
			x.order = append(x.order[:i], x.order[i+1:]...)
			return
		}
	}
}

// makeRoom drops the oldest surveys until those that are kept are small enough.
func (v *Viewer) makeRoom(newest *surveying) {
	v.surveys.mu.Lock()
	defer v.surveys.mu.Unlock()
	sum := int64(0)
	for _, s := range v.surveys.order {
		if done := s.done.Load(); done != nil {
			sum += done.Size()
		}
	}
	for _, s := range append([]*surveying{}, v.surveys.order...) {
		if done := s.done.Load(); sum > surveyBytes && s != newest && done != nil {
			v.surveys.drop(s)
			sum -= done.Size()
		}
	}
}
