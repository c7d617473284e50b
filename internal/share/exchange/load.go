package exchange

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

// A Trajectory is one that a person named: of the evidence, of a file of ours,
// or of another system's.
type Trajectory struct {
	*trajectory.Verified
	Content  func(digest.Content) ([]byte, bool) // whole texts; may be nil
	Imported *Imported                           // nil if it is ours
}

// An Imported says what a trajectory was made of. Nothing vouches for it.
type Imported struct {
	foreign.Source
	ID          string               `json:"id"`
	Notes       []foreign.Note       `json:"notes"`       // what has no place in a trajectory
	Evaluations []foreign.Evaluation `json:"evaluations"` // another system's scores
}

// Load reads a trajectory of the evidence (ATTEMPT:CASE), whose head
// the ledger holds, or a file, which nothing vouches for. Pick names one of a
// file that has several. The workspace is opened only if it is needed.
func Load(open func() (*dossier.Place, error), name, pick string, showHeldOut bool) (*Trajectory, error) {
	if attempt, caseID, ok := strings.Cut(name, ":"); ok && !workspace.Exists(name) {
		p, err := open()
		if err != nil {
			return nil, err
		}
		return stored(p, attempt, caseID, showHeldOut)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		all, err := ImportFolder(name)
		if err != nil {
			return nil, err
		}
		return chosen(name, all, pick)
	}
	data, err := store.ReadFile(store.OS{}, name, trajectory.MaxBytes)
	if err != nil {
		return nil, err
	}
	if IsOurs(data) {
		if pick != "" {
			return nil, refusal.Newf(refusal.Usage, "--pick is for files that have several trajectories; %s is one of ours", name)
		}
		v, err := trajectory.Verify(data, trajectory.UnsafeAnyHead())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &Trajectory{Verified: v}, nil
	}
	all, err := Import(name, data)
	if err != nil {
		return nil, err
	}
	return chosen(name, all, pick)
}

// chosen is the trajectory of another system's that a person picked.
func chosen(name string, all []foreign.Trajectory, pick string) (*Trajectory, error) {
	one, err := pickTrajectory(name, all, pick)
	if err != nil {
		return nil, err
	}
	return &Trajectory{one.Verified, one.Content, &Imported{one.Source, one.ID, append([]foreign.Note{}, one.Notes...), one.Evaluations}}, nil
}

// maxFiles bounds a folder of traces.
const maxFiles = 10_000

// ImportFolder is [Import] for all files in a folder and below it. Links are not followed.
func ImportFolder(dir string) ([]foreign.Trajectory, error) {
	var files []File
	total := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if len(files) == maxFiles {
			return refusal.Newf(refusal.TooLarge, "%s: more than %d files", dir, maxFiles)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		data, err := store.ReadBelow(dir, name, int64(foreign.MaxBytes-total))
		total += len(data)
		files = append(files, File{name, data})
		return err
	})
	if err != nil {
		if refusal.Of(err).Name == refusal.Failed {
			err = refusal.Newf(refusal.Unreadable, "%s: %w", dir, refusal.WithoutPath(err))
		}
		return nil, err
	}
	if len(files) == 0 {
		return nil, refusal.Newf(refusal.Unrecognised, "%s: the folder has no files", dir)
	}
	return ImportFiles(dir, files)
}

// stored reads a trajectory of the evidence.
func stored(p *dossier.Place, attempt, caseID string, showHeldOut bool) (*Trajectory, error) {
	r, err := p.Read(dossier.Ask{ShowHeldOut: showHeldOut, Want: func(a *history.Attempt) bool { return a.ID == attempt }})
	if err != nil {
		return nil, err
	}
	c, err := r.FindCase(dossier.CaseQuery{Case: caseID, Attempt: attempt})
	if err != nil {
		return nil, err
	}
	if hidden, err := c.IsHidden(); err != nil || hidden {
		return nil, cmp.Or(err, dossier.HeldOut(caseID))
	}
	v, err := c.Trajectory()
	if err != nil {
		return nil, err
	}
	return &Trajectory{Verified: v, Content: r.Content}, nil
}

// pickTrajectory chooses one of a file. It does not guess: grading the wrong
// one would look like an answer.
func pickTrajectory(name string, all []foreign.Trajectory, pick string) (*foreign.Trajectory, error) {
	var ids []string
	var found *foreign.Trajectory
	for i := range all {
		if all[i].ID == pick || pick == "" && len(all) == 1 {
			if found != nil {
				return nil, refusal.Newf(refusal.Malformed, "%s has two trajectories with the id %q", name, pick).WithHint("put each into a file of its own")
			}
			found = &all[i]
		}
		ids = append(ids, all[i].ID)
	}
	if found != nil {
		return found, nil
	}
	if pick != "" {
		return nil, refusal.Newf(refusal.UnknownName, "%s has no trajectory %q", name, pick).
			Suggest(pick, ids, "it has %s", listed(ids))
	}
	return nil, refusal.Newf(refusal.Usage, "%s has %d trajectories", name, len(all)).WithHint("name one with --pick: %s", listed(ids))
}

// listed gives the first few of some ids.
func listed(ids []string) string {
	const few = 10
	if len(ids) > few {
		return strings.Join(ids[:few], ", ") + fmt.Sprintf(" and %d more", len(ids)-few)
	}
	return strings.Join(ids, ", ")
}
