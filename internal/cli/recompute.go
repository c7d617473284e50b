package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/verify"
)

// recomputedAnswer is what "tally verify --recompute" says.
type recomputedAnswer struct {
	Items      []verify.Item     `json:"items"`
	Recomputed *answer.Recounted `json:"recomputed"`
}

// runRecompute counts the workspace again, and verifies paths, among which may be
// kept answers.
func runRecompute(env *Env, place *dossier.Place, paths []string, trust verify.Trust) error {
	r, err := answer.ReadForRecount(place)
	if err != nil {
		return err
	}
	if len(trust.Logs) == 0 {
		trust.Logs = r.Verified().EveryKey()
	}
	if err := trust.Validate(); err != nil {
		return err
	}
	a := recomputedAnswer{Items: []verify.Item{}}
	var worst error
	if a.Recomputed, worst = answer.Recount(r); a.Recomputed == nil {
		return worst
	}
	calibrations, err := lab.RecountCalibrations(r)
	if err != nil {
		return err
	}
	a.Recomputed.Add(calibrations)
	if err := calibrations.Err(); err != nil && worst == nil {
		worst = r.Refused(err)
	}
	for _, path := range paths {
		item, err := recountItem(r, path, trust)
		a.Items = append(a.Items, item)
		if err != nil && (worst == nil || refusal.ExitCode(err) == refusal.ExitUnverified && refusal.ExitCode(worst) != refusal.ExitUnverified) {
			worst = err
		}
	}
	if err := env.Answer(a, a.text); err != nil {
		return err
	}
	return worst
}

// recountItem verifies what is at a path: an answer that was kept, or
// anything else that this program knows.
func recountItem(r *dossier.Reading, path string, trust verify.Trust) (verify.Item, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		item := verify.Path(path, trust)
		return item, item.Err()
	}
	kind, data, err := answer.KeptAnswer(path)
	if kind == "" || err != nil {
		item := verify.Path(path, trust)
		return item, item.Err()
	}
	item := verify.Item{Path: path, Type: string(kind)}
	counted, err := answer.RecountAnswer(r, kind, path, data)
	if err == nil {
		err = counted.Err()
	}
	if err == nil {
		if err = counted.NotRecounted(); err != nil {
			item.Status = verify.NotRecounted
		}
	}
	if item.Verified = err == nil; err != nil {
		item.Detail, item.Name = err.Error(), refusal.Of(err).Name
		return item, err
	}
	item.Detail = strings.Join(append([]string{fmt.Sprintf("%d numbers are what the ledger gives", counted.Checked)}, counted.Notes...), "; ")
	return item, nil
}

// maxShown bounds how many lines of one sort a person is shown.
const maxShown = 20

func (a recomputedAnswer) text(out io.Writer) {
	itemsText(out, a.Items)
	c := a.Recomputed
	fmt.Fprintf(out, "counted   %d numbers of this workspace: %d attempts, %d kept runs, %d recommendations\n", c.Checked, c.Attempts, c.Runs, c.Recommendations)
	for i, d := range c.Differences {
		if i == maxShown {
			fmt.Fprintf(out, "DIFFERS   and %d more\n", len(c.Differences)-i)
			break
		}
		fmt.Fprintf(out, "DIFFERS   %s\n", plain.Line(d.String()))
	}
	for i, u := range c.Unchecked {
		if i == maxShown {
			fmt.Fprintf(out, "not recounted  and %d more\n", len(c.Unchecked)-i)
			break
		}
		fmt.Fprintf(out, "not recounted  %s\n", plain.Line(u))
	}
	for i, n := range c.Notes {
		if i == maxShown {
			fmt.Fprintf(out, "note      and %d more\n", len(c.Notes)-i)
			break
		}
		fmt.Fprintf(out, "note      %s\n", plain.Line(n))
	}
	switch {
	case len(c.Differences) > 0:
	case len(c.Unchecked) > 0:
		fmt.Fprintln(out, "What was recounted is what the ledger and its evidence give; the rest is not verified.")
	default:
		fmt.Fprintln(out, "All of these are what the ledger and its evidence give.")
	}
}
