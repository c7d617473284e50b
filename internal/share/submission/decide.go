package submission

import "tallystick/internal/read/submittable"

// decide finds the facts in what the package is derived from, which has its end.
func (b *builder) decide() submittable.Decision {
	plan := &b.Registered.Plan
	f := submittable.Facts{Plan: plan, Scratch: b.Registered.Scratch, Level: b.Level, Finished: true, Tasks: len(b.tasks), Partial: b.partial}
	for _, t := range b.tasks {
		if len(t.records) < plan.Repeat {
			f.Missing++
		}
	}
	return submittable.Decide(f)
}
