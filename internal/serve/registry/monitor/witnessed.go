package monitor

import (
	"context"
	"fmt"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// checkWitnessed verifies the cosigned checkpoints of draws that waited for witnesses,
// those that were not there at the last look: a checkpoint of that size and root, with
// a cosignature of at least one of the witnesses that the settings named.
func (m *Monitor) checkWitnessed(ctx context.Context, report *Report) error {
	for _, d := range m.state.draws {
		if !d.body.Witnessed || d.index < m.memory.Receipts {
			continue
		}
		if d.body.Checkpoint == nil {
			m.report(report, DrawDiffers, d.index, d.body.Proposal, "it says that witnesses were waited for, and names no checkpoint")
			continue
		}
		text, err := m.blob(ctx, *d.body.Checkpoint)
		if err != nil {
			return err
		}
		if err := m.cosigned(text, d); err != nil {
			m.report(report, DrawDiffers, d.index, d.body.Proposal, "its cosigned checkpoint: %v", err)
		}
	}
	return nil
}

func (m *Monitor) cosigned(text []byte, d *draw) error {
	policy := ledger.Policy{Logs: m.log.operators(d.body.Size), Quorum: 1}
	for _, vkey := range d.first.settings.Witnesses {
		v, err := seal.CosignatureVerifier(vkey)
		if err != nil {
			return err
		}
		policy.Witnesses = append(policy.Witnesses, v)
	}
	c, err := ledger.VerifyCheckpoint(text, policy)
	if err != nil {
		return err
	}
	root, err := m.log.tree.Root(d.body.Size)
	if err == nil && (c.Size != d.body.Size || c.Root != root) {
		return fmt.Errorf("it is of %d entries with the root %s; the draw is of %d with %s", c.Size, c.Root, d.body.Size, root)
	}
	return err
}
