package viewer

import (
	"net/http"
	"strconv"
	"time"

	"tallystick/internal/app/fleet"
)

// fleetData is how the fleet stands that runs an attempt of this workspace. Its
// coordinator says so; none of it is in the ledger.
type fleetData struct {
	*fleet.Status
	Known   bool // the ledger has the attempt
	Share   float64
	Left    string
	Rate    string
	Silent  string // for how long the coordinator said nothing; "" while it does
	Workers []workerRow
}

// A workerRow is a worker with what its row says.
type workerRow struct {
	fleet.WorkerStatus
	State string // in one word
	Class string // of the state, in the stylesheet
	Seen  string // how long ago
	More  int    // cases that are not listed
}

const (
	// silentAfter is how long a coordinator or a worker says nothing before the page
	// says that: both speak every 3 seconds.
	silentAfter = 15 * time.Second
	// casesOfWorker is how many cases of a worker are listed.
	casesOfWorker = 8
)

// fleetStatus is what the coordinator wrote last; nil if no fleet runs, and on pages that
// are written to files.
func (v *Viewer) fleetStatus() *fleet.Status {
	if v.config.Still {
		return nil
	}
	s, err := fleet.LoadStatus(v.config.Place.Private("fleet"))
	if err != nil { // it is written for people: nothing rests on it
		return nil
	}
	return s
}

func (v *Viewer) fleet(req *http.Request) (*page, error) {
	p := &page{Title: "Fleet", Template: "fleet", Section: "Fleet", Outside: true, Next: []command{{What: "The same in the terminal", Line: "tally fleet status"}}}
	s := v.fleetStatus()
	if s == nil {
		p.Data = fleetData{}
		p.Next = []command{{What: "Run a class over a fleet", Line: "tally run CLASS --target T --fleet embedded"}}
		return p, nil
	}
	data := fleetData{Status: s, Known: v.r.History.Attempt(s.Attempt) != nil, Share: float64(s.Done) / float64(max(s.Planned, 1)), Left: none, Rate: none}
	if s.SecondsLeft != nil {
		data.Left = (time.Duration(*s.SecondsLeft) * time.Second).String()
	}
	if s.PerSecond > 0 {
		data.Rate = strconv.FormatFloat(s.PerSecond, 'f', 1, 64)
	}
	now := v.config.Now()
	if quiet := now.Sub(s.At.Go()); quiet > silentAfter {
		data.Silent = took(quiet.Milliseconds())
	}
	for _, w := range s.Workers {
		data.Workers = append(data.Workers, newWorkerRow(w, now))
	}
	p.Data, p.Live = data, req.URL.RequestURI()
	return p, nil
}

func newWorkerRow(w fleet.WorkerStatus, now time.Time) workerRow {
	quiet := max(now.Sub(w.LastSeen.Go()), 0)
	row := workerRow{WorkerStatus: w, State: "idle", Seen: took(quiet.Milliseconds())}
	switch {
	case w.Quarantined != "":
		row.State, row.Class = "quarantined", "failed"
	case quiet > silentAfter:
		row.State, row.Class = "silent", "errored"
	case len(w.Cases) > 0:
		row.State, row.Class = "working", "passed"
	}
	if n := len(w.Cases); n > casesOfWorker {
		row.Cases, row.More = w.Cases[:casesOfWorker], n-casesOfWorker
	}
	return row
}
