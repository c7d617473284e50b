package dossier

import "tallystick/internal/record/mirror"

// Link is where the workspace's ledger is kept, if not in its folder.
func (p *Place) Link() (*mirror.Link, error) {
	place, err := p.folder()
	if err == nil {
		p.linked.Do(func() {
			p.link = &mirror.Link{Workspace: p.Workspace, Place: place, Store: p.Store, Lease: p.Lease, Now: p.Now}
		})
	}
	return p.link, err
}
