package archive

import (
	"sync"

	"tallystick/internal/mirror"
)

// A link is the workspace's store, made when it is needed first.
type link struct {
	once sync.Once
	*mirror.Link
	err error
}

// Link is where the workspace's ledger is kept, if not in its folder.
func (p *Place) Link() (*mirror.Link, error) {
	p.link.once.Do(func() {
		place, err := p.folder()
		p.link.Link, p.link.err = &mirror.Link{Workspace: p.Workspace, Place: place, Store: p.World.Store, Lease: p.Lease, Now: p.Now}, err
	})
	return p.link.Link, p.link.err
}
