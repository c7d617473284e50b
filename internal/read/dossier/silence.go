package dossier

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

const dayForm = "2006-01-02"

// nightlyAfter is on how many days nothing but an anchor must have been published
// for anchors to be due every day: nobody but a nightly job does that.
const nightlyAfter = 3

// A watch looks at a ledger for what is silent or was changed beside it: days on
// which an anchor was due, and lists of events that are not what was sealed.
type watch struct {
	worked   map[string]bool // days with entries that are not about an anchor
	anchored map[string]bool // days with an anchor.published entry
	events   map[string]digest.Content
	entries  map[string]int64 // of attempt.finished, by attempt
}

func newWatch() *watch {
	return &watch{worked: map[string]bool{}, anchored: map[string]bool{}, events: map[string]digest.Content{}, entries: map[string]int64{}}
}

func (w *watch) visit(r ledger.Record) {
	day := r.Envelope.Time.Go().Format(dayForm)
	switch b := r.Body.(type) {
	case *evidence.AnchorPublished:
		w.anchored[day] = true
	case *evidence.AttemptFinished:
		w.worked[day] = true
		if b.Events != nil && !r.Envelope.Manual {
			w.events[b.Attempt], w.entries[b.Attempt] = *b.Events, r.Index
		}
	default:
		w.worked[day] = true
	}
}

// silent lists the days without an anchor between the first and today, if anchors
// are due every day: on several days nothing happened but that one was published.
// A ledger that says nothing for days is then a job that was stopped, or a history
// that was put back and goes on as if nothing had been.
func (w *watch) silent(now time.Time, covers func(int64, evidence.Time) bool, size int64) []ledger.Problem {
	quiet := 0
	first := ""
	for day := range w.anchored {
		if !w.worked[day] {
			quiet++
		}
		if first == "" || day < first {
			first = day
		}
	}
	if quiet < nightlyAfter {
		return nil
	}
	var missing []string
	from, err := time.Parse(dayForm, first)
	if err != nil {
		return nil
	}
	// Today's anchor may still come.
	for d := from; d.Format(dayForm) < now.UTC().Format(dayForm); d = d.AddDate(0, 0, 1) {
		if day := d.Format(dayForm); !w.anchored[day] && (covers == nil || covers(size, evidence.At(d))) {
			missing = append(missing, day)
		}
	}
	var problems []ledger.Problem
	for len(missing) > 0 {
		n := 1
		for n < len(missing) && follows(missing[n-1], missing[n]) {
			n++
		}
		detail := fmt.Sprintf("no anchor was published on %s, and anchors are due every day", missing[0])
		if n > 1 {
			detail = fmt.Sprintf("no anchor was published on %d days, %s to %s, and anchors are due every day", n, missing[0], missing[n-1])
		}
		problems = append(problems, ledger.Problem{Index: -1, Kind: "anchor", Detail: detail, Name: refusal.StrictGap})
		missing = missing[n:]
	}
	return problems
}

func follows(a, b string) bool {
	d, err := time.Parse(dayForm, a)
	return err == nil && d.AddDate(0, 0, 1).Format(dayForm) == b
}

// changedEvents compares the lists of events beside the ledger with what was
// sealed. The evidence has them too, so one that is gone is not missed.
func (w *watch) changedEvents(p *Place) ([]ledger.Problem, error) {
	var problems []ledger.Problem
	attempts := make([]string, 0, len(w.events))
	for id := range w.events {
		attempts = append(attempts, id)
	}
	slices.Sort(attempts)
	for _, id := range attempts {
		why, err := p.EventsChanged(id, w.events[id])
		if err != nil {
			return nil, err
		}
		if why != "" {
			problems = append(problems, ledger.Problem{Index: w.entries[id], Kind: "events", Detail: why, Name: refusal.DigestMismatch})
		}
	}
	return problems, nil
}

// EventsChanged says how the list of events of an attempt differs from what its
// end names.
func (p *Place) EventsChanged(attempt string, sealed digest.Content) (string, error) {
	name := filepath.Join(p.RunsDir(), attempt, "events.jsonl")
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	data, err := store.ReadFile(p.fs(), name, 1<<30)
	if err != nil {
		return "", err
	}
	if found := digest.ContentOf(data); found != sealed {
		return fmt.Sprintf("attempt %s: %s is %s, the ledger says %s: somebody changed it", attempt, name, found, sealed), nil
	}
	return "", nil
}
