package archive

import (
	"fmt"
	"path/filepath"

	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

// CheckpointsDir is the folder of the checkpoints that were kept.
func (p *Place) CheckpointsDir() string { return p.Private("checkpoints") }

// KeepCheckpoint keeps the checkpoint of an anchor just published, so that it
// shows later that witnesses had seen a registration before the first case.
func (p *Place) KeepCheckpoint(pub *sequencer.Published) error {
	if len(pub.Witnesses) == 0 {
		return nil
	}
	dir := p.CheckpointsDir()
	if err := store.MakeDir(store.OS{}, dir, 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(dir, fmt.Sprintf("%d.checkpoint", pub.Anchor.Size)), []byte(pub.Anchor.Checkpoint), 0o600)
}
