package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/promote"
	"tallystick/internal/read/recount"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/journal"
)

// maxKeptAnswer bounds a kept answer, which has a line for each case that failed
// at most.
const maxKeptAnswer = 256 << 20

// A Recounted says what came of counting a workspace again.
type Recounted struct {
	Attempts        int `json:"attempts"`
	Runs            int `json:"runs"`            // kept answers of "tally run"
	Recommendations int `json:"recommendations"` // entries, with their files
	recount.Recounted
}

// ReadForRecount reads all that counting again needs.
func ReadForRecount(p *dossier.Place) (*dossier.Reading, error) {
	return p.Read(dossier.Ask{Again: true})
}

// Recount counts everything in the workspace again: each attempt from its
// records and their evidence, the kept answers of runs, the recommendations. The
// error is a refusal if something differs; the answer is there all the same. It
// needs what [ReadForRecount] reads.
func Recount(r *dossier.Reading) (*Recounted, error) {
	all := &Recounted{Recounted: recount.Recounted{Differences: []recount.Difference{}, Unchecked: []string{}}}
	for _, a := range r.History.Attempts {
		counted, err := recount.Attempt(a, r.Piece)
		if err != nil {
			return nil, err
		}
		all.Attempts++
		all.Add(counted)
	}
	runs, err := jsonFiles(r.RunsDir())
	if err != nil {
		return nil, err
	}
	for _, name := range runs {
		counted, err := recountRun(r, name)
		if err != nil {
			return nil, err
		}
		all.Runs++
		all.Add(counted)
	}
	noteMissingRuns(r, all, runs)
	recountPaid(r, all)
	if err := recountAdvice(r, all); err != nil {
		return nil, err
	}
	if err := recountEvents(r, all); err != nil {
		return nil, err
	}
	if err := all.Err(); err != nil {
		return all, r.Refused(err)
	}
	return all, nil
}

// noteMissingRuns says which attempts have no kept answer. It is not a difference:
// another machine may have run them, and the records are what counts. But who took
// an answer away should not be passed over in silence.
func noteMissingRuns(r *dossier.Reading, all *Recounted, kept []string) {
	for _, a := range r.History.Attempts {
		name := filepath.Join(r.RunsDir(), a.ID+".json")
		if a.Finished != nil && !slices.Contains(kept, name) {
			all.Notes = append(all.Notes, "attempt "+a.ID+" has finished, and its answer is not kept in .tally/runs: what \"tally run\" said then is not compared")
		}
	}
}

// recountPaid adds up the journals of live attempts again. One that is not here is
// not a difference: another machine may have run the attempt.
func recountPaid(r *dossier.Reading, all *Recounted) {
	for _, a := range r.History.Attempts {
		if a.Finished == nil || a.Finished.Paid == nil {
			continue
		}
		paid, err := journal.Verify(store.OS{}, filepath.Join(r.RunsDir(), a.ID), journal.Owner{Attempt: a.ID, Origin: r.History.Origin})
		switch where := fmt.Sprintf("entry %d (attempt.finished of %s)", a.Finished.Index, a.ID); {
		case errors.Is(err, fs.ErrNotExist):
			all.Notes = append(all.Notes, "attempt "+a.ID+" was live, and its journal is not in .tally/runs: what it paid is not counted again")
		case err != nil:
			all.Compare(where, "paid", a.Finished.Paid, err.Error(), false)
		default:
			all.Compare(where, "paid", a.Finished.Paid, paid, *a.Finished.Paid == paid)
		}
	}
}

// KeptAnswer reads a file that may be a kept answer. The kind is "" if it is not.
func KeptAnswer(name string) (recount.Kind, []byte, error) {
	data, err := store.ReadFile(store.OS{}, name, maxKeptAnswer)
	if err != nil {
		return "", nil, err
	}
	return recount.KindOf(data), data, nil
}

// RecountAnswer makes a kept answer again and compares. See [recount.Source].
func RecountAnswer(r *dossier.Reading, kind recount.Kind, name string, data []byte) (*recount.Recounted, error) {
	return source(r).Answer(kind, name, data)
}

func source(r *dossier.Reading) *recount.Source {
	// Gates, scorecard and advice of one answer are about the same attempts.
	known := make(map[*history.Attempt]*dossier.Whole)
	whole := func(a *history.Attempt) (*dossier.Whole, error) {
		if w := known[a]; w != nil {
			return w, nil
		}
		w, err := r.ReadAll(a)
		known[a] = w
		return w, err
	}
	parting := func(a, b *history.Attempt) (divergence, moves dossier.Parting) {
		return r.Dossier(b).PartingFrom(r.Dossier(a))
	}
	return &recount.Source{History: r.History, At: r.Then, Whole: whole, Piece: r.Piece, Parting: parting, Bench: r.Bench,
		Advised: r.Advised(), Anchors: r.AnchorsThen, Outside: func() ([]evidence.Outside, error) { return r.Outside(context.Background()) }, Proves: r.ProvedBy}
}

// recountRun makes the kept answer of a run again. It must be of the attempt
// that its name says, or the answer of a better one could stand in for it.
func recountRun(r *dossier.Reading, name string) (*recount.Recounted, error) {
	data, err := store.ReadFile(store.OS{}, name, maxKeptAnswer)
	if err != nil {
		return nil, err
	}
	if recount.KindOf(data) != recount.RunKind {
		return nil, recount.NotKept(name, errors.New("it is not the answer of a run"))
	}
	counted, err := RecountAnswer(r, recount.RunKind, name, data)
	if err != nil {
		return nil, err
	}
	var kept struct{ Attempt struct{ ID string } }
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, recount.NotKept(name, err)
	}
	want := strings.TrimSuffix(filepath.Base(name), ".json")
	counted.Compare(name, "attempt.id", kept.Attempt.ID, want, kept.Attempt.ID == want)
	return counted, nil
}

// recountAdvice counts every recommendation of the ledger again, with its file.
func recountAdvice(r *dossier.Reading, all *Recounted) error {
	names, err := jsonFiles(r.RecommendationsDir())
	if err != nil {
		return err
	}
	filed := make(map[string]bool)
	for _, name := range names {
		kind, data, err := KeptAnswer(name)
		if err != nil {
			return err
		}
		filed[filepath.Base(name)] = true
		if kind != recount.RecommendationKind {
			all.Compare(name, "recommended_tier", "nothing", "a recommendation", false)
			continue
		}
		counted, err := RecountAnswer(r, kind, name, data)
		if err != nil {
			return err
		}
		all.Add(counted)
		if err := checkAdviceFile(all, name, data); err != nil {
			return err
		}
	}
	for _, index := range slices.Sorted(maps.Keys(r.Advised())) {
		all.Recommendations++
		if filed[recount.AdviceFile(r.Advised()[index].Class, index)] {
			continue
		}
		counted, err := source(r).Unfiled(index)
		if err != nil {
			return err
		}
		all.Add(counted)
	}
	return nil
}

// checkAdviceFile requires a recommendation to be in the file that is its own: an
// answer that only looks like one has no receipts.
func checkAdviceFile(all *Recounted, name string, data []byte) error {
	var kept struct {
		Schema string
		Class  string
		Index  int64
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return recount.NotKept(name, err)
	}
	if newer := format.NewerName(name, kept.Schema, promote.FileSchema); newer != nil {
		return newer
	}
	want := recount.AdviceFile(kept.Class, kept.Index)
	all.Compare(name, "index", filepath.Base(name), want, filepath.Base(name) == want)
	all.Compare(name, "schema", kept.Schema, promote.FileSchema, kept.Schema == promote.FileSchema)
	return nil
}

// jsonFiles lists the JSON files of a folder that may not be there.
func jsonFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading the folder: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".json") {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// recountEvents compares the lists of events of every finished attempt.
func recountEvents(r *dossier.Reading, all *Recounted) error {
	for _, a := range r.History.Attempts {
		if a.Finished == nil || a.Finished.Events == nil {
			continue
		}
		why, err := r.EventsChanged(a.ID, *a.Finished.Events, a.Finished.EventCount)
		if err != nil {
			return err
		}
		all.Compare("attempt "+a.ID, "events", why, "what attempt.finished names", why == "")
	}
	return nil
}
