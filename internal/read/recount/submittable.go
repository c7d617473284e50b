package recount

import (
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/read/submittable"
	"tallystick/internal/record/digest"
)

// TellSubmittable fills in whether an attempt that was registered to be submitted
// can be, by the rule that "tally export --format submission" has.
func (r *Run) TellSubmittable(a *history.Attempt, read func(digest.Content) ([]byte, error)) error {
	if !a.Plan.SubmitIntent {
		return nil
	}
	f := submittable.Facts{Plan: &a.Plan, Scratch: a.Level == history.Scratch, Level: min(a.Level, history.Signed).String(), Finished: a.Finished != nil, Tasks: a.Plan.CaseCount}
	records := map[string]int{}
	whole := 0
	for c := range a.Cases() {
		if c.Index < 0 {
			continue
		}
		if records[c.ID]++; records[c.ID] == a.Plan.Repeat {
			whole++
		}
		files, err := history.FilesOf(c, read)
		if err != nil {
			return err
		}
		if files.Watch == nil && !slices.Contains(f.Partial, c.ID) {
			f.Partial = append(f.Partial, c.ID)
		}
	}
	f.Missing = f.Tasks - whole
	d := submittable.Decide(f)
	r.Submittable, r.Reason = &d.Submittable, d.Reason
	return nil
}
