package monitor

import (
	"context"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/serve/registry"
)

// checkAge wants the operator to have signed the checkpoint with a time not long ago:
// an old one is as good a signature, and hides whatever came after it.
func (m *Monitor) checkAge(ctx context.Context, report *Report) error {
	var at time.Time
	for try := range answerTries {
		if try > 0 {
			if err := m.pause(ctx, 100*time.Millisecond<<try); err != nil {
				return err
			}
			if err := m.follow(ctx); err != nil {
				return err
			}
		}
		// Just after a rotation of the operator's key a checkpoint has no time.
		if at = registry.CheckpointTime(m.offered, m.log.operators(m.memory.Size)); !at.IsZero() {
			break
		}
	}
	report.SignedAt = evidence.At(at)
	switch age := m.Now().Sub(at); {
	case at.IsZero():
		m.report(report, CheckpointOld, m.memory.Size-1, "", "the checkpoint of %d entries has no time that an operator signed", m.memory.Size)
	case age > registry.CheckpointMaxAge:
		m.report(report, CheckpointOld, m.memory.Size-1, "", "the checkpoint of %d entries was signed at %s, %s ago; the registry says that it signs it again within %s", m.memory.Size, evidence.At(at), age.Round(time.Second), registry.CheckpointMaxAge)
	case age < -registry.CheckpointMaxAge:
		m.report(report, CheckpointOld, m.memory.Size-1, "", "the checkpoint of %d entries was signed at %s, which has not come yet here", m.memory.Size, evidence.At(at))
	}
	return nil
}
