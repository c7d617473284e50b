package cli

import (
	"fmt"
	"io"
	"strings"

	"tallystick/internal/digest"
	"tallystick/internal/exchange"
	"tallystick/internal/exchange/foreign"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/store"
	"tallystick/internal/trajectory"
)

// pickUsage is the help of --pick, wherever a trajectory is named.
const pickUsage = "the trace or trajectory `ID`, for a file of somebody else's that has several"

// A loadedTrajectory is one that a person named: of the evidence, of a file of
// ours, or of somebody else's.
type loadedTrajectory struct {
	verified *trajectory.Verified
	content  func(digest.Content) ([]byte, bool) // whole texts; may be nil
	imported *importedAnswer                     // nil if it is ours
}

// An importedAnswer says what a trajectory was made of. Nothing vouches for it.
type importedAnswer struct {
	foreign.Source
	ID          string               `json:"id"`
	Notes       []foreign.Note       `json:"notes"`       // what has no place in a trajectory
	Evaluations []foreign.Evaluation `json:"evaluations"` // somebody else's scores
}

// loadTrajectory reads a trajectory of the evidence, whose head the ledger
// holds, or a file, which nothing vouches for.
func (e *Env) loadTrajectory(name, pick string) (*loadedTrajectory, error) {
	if attempt, caseID, ok := strings.Cut(name, ":"); ok && !fileExists(name) {
		return e.loadEvidence(attempt, caseID)
	}
	data, err := store.ReadFile(store.OS{}, name, trajectory.MaxBytes)
	if err != nil {
		return nil, err
	}
	if exchange.IsOurs(data) {
		if pick != "" {
			return nil, refusal.Newf(refusal.Usage, "--pick is for files that have several trajectories; %s is one of ours", name)
		}
		v, err := trajectory.Verify(data, trajectory.UnsafeAnyHead())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &loadedTrajectory{verified: v}, nil
	}
	all, err := exchange.Import(name, data)
	if err != nil {
		return nil, err
	}
	one, err := pickTrajectory(name, all, pick)
	if err != nil {
		return nil, err
	}
	return &loadedTrajectory{one.Verified, one.Content, &importedAnswer{one.Source, one.ID, append([]foreign.Note{}, one.Notes...), one.Evaluations}}, nil
}

func (e *Env) loadEvidence(attempt, caseID string) (*loadedTrajectory, error) {
	p, err := e.readPast(func(a *scorecard.Attempt) bool { return a.ID == attempt })
	if err != nil {
		return nil, err
	}
	_, c, err := p.findCase(whyOptions{caseID: caseID, attempt: attempt})
	if err != nil {
		return nil, err
	}
	v, err := scorecard.TrajectoryOf(c, p.read)
	if err != nil {
		return nil, err
	}
	return &loadedTrajectory{verified: v, content: p.content}, nil
}

// content is [pastReading.read] for who can do without.
func (p *pastReading) content(d digest.Content) ([]byte, bool) {
	data, err := p.read(d)
	return data, err == nil
}

// pickTrajectory chooses one of a file. It does not guess: grading the wrong
// one would look like an answer.
func pickTrajectory(name string, all []foreign.Trajectory, pick string) (*foreign.Trajectory, error) {
	var ids []string
	for i := range all {
		if all[i].ID == pick || pick == "" && len(all) == 1 {
			return &all[i], nil
		}
		ids = append(ids, all[i].ID)
	}
	if pick != "" {
		err := refusal.Newf(refusal.UnknownName, "%s has no trajectory %q", name, pick)
		if near, ok := closest(pick, ids); ok {
			return nil, err.WithHint("did you mean %q?", near)
		}
		return nil, err.WithHint("it has %s", listed(ids))
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

func (a *importedAnswer) print(out io.Writer) {
	if a == nil {
		return
	}
	fmt.Fprintf(out, "IMPORTED from %s %s, %s; what it says is whatever its exporter wrote\n", a.Format, plain.Line(a.ID), a.Digest)
	for _, n := range a.Notes {
		fmt.Fprintf(out, "  not here  %s ×%d\n", plain.Line(n.What), n.Count)
	}
	for _, v := range a.Evaluations {
		score := "no score"
		if v.Score != nil {
			score = fmt.Sprint(*v.Score)
		}
		fmt.Fprintf(out, "  scored    %s: %s %s (not ours; it does not count)\n", plain.Line(v.Name), score, plain.Line(v.Label))
	}
}
