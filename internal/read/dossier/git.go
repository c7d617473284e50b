package dossier

import (
	"context"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

func (p *Place) repository() Repository {
	return Repository{Dir: p.Dir, Path: p.Getenv("PATH")}
}

// A gitCheck compares a ledger with the anchors that git holds. A nil one compares
// nothing.
type gitCheck struct {
	place   *Place
	anchors []gitAnchor
	heads   map[int64]digest.ID // of the ledger, at their sizes, as it is verified
}

// newGitCheck reads the anchors. A checkout's own ledger has none in git.
func (p *Place) newGitCheck(ctx context.Context) (*gitCheck, error) {
	if p.Shared != nil {
		return nil, nil
	}
	anchors, err := p.repository().Anchors(ctx, p.Settings.Origin)
	c := &gitCheck{p, anchors, make(map[int64]digest.ID)}
	for _, a := range anchors {
		c.heads[a.Size] = digest.ID{}
	}
	return c, err
}

func (c *gitCheck) visit(rec ledger.Record) {
	if c == nil {
		return
	}
	if _, wanted := c.heads[rec.Index+1]; wanted {
		c.heads[rec.Index+1] = rec.Head
	}
}

// verify compares the verified ledger with the anchors, given how many there are
// in the work tree. Only those that an operator of this ledger signed count:
// anybody can commit a file.
func (c *gitCheck) verify(v *ledger.Verified, there int) error {
	if c == nil {
		return nil
	}
	var gone error // that the files are gone is the least of it
	for _, a := range c.anchors {
		if _, err := ledger.VerifyAnchor(a.Data, ledger.Policy{Logs: v.EveryKey()}); err != nil {
			c.place.Note("git object %s says that it is an anchor of %d entries on %s; no operator of this ledger signed it", a.Blob, a.Size, a.Date)
			continue
		}
		switch {
		case a.Size > v.Size:
			return refusal.Newf(refusal.HistoryRolledBack, "git has an anchor of %d entries, published on %s (object %s); the ledger has %d", a.Size, a.Date, a.Blob, v.Size).
				WithHint("an old ledger was put back; restore the newest copy. Nothing was published")
		case c.heads[a.Size] != a.Head:
			return refusal.Newf(refusal.HistoryForked, "git has an anchor of %d entries with the head %s, published on %s (object %s); here that entry has the head %s", a.Size, a.Head, a.Date, a.Blob, c.heads[a.Size]).
				WithHint("two histories cannot both be true; keep both, and see \"tally help forks\". Nothing was published")
		case there == 0:
			gone = refusal.Newf(refusal.MissingAnchor, "git has an anchor of %d entries, published on %s, and there is no anchor in %s", a.Size, a.Date, c.place.AnchorsDir()).
				WithHint(`restore them with "git checkout -- audit/anchors"`)
		}
	}
	return gone
}
