package dossier

import (
	"context"
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// A gitCheck compares a ledger with the anchors that git holds. A nil one compares
// nothing.
type gitCheck struct {
	*gitMemory
	place  *Place
	heads  map[int64]digest.ID // of the ledger, at their sizes, as it is verified
	signed []gitAnchor         // those that an operator of the ledger signed
}

// newGitCheck reads the anchors. A checkout's own ledger has none in git.
func (p *Place) newGitCheck(ctx context.Context) *gitCheck {
	if p.Shared != nil {
		return nil
	}
	c := &gitCheck{gitMemory: p.gitMemory(ctx, p.Settings.Origin), place: p, heads: make(map[int64]digest.ID)}
	for _, a := range c.anchors {
		c.heads[a.Size] = digest.ID{}
	}
	return c
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
// every contributor can commit a file.
func (c *gitCheck) verify(v *ledger.Verified, there int) error {
	if c == nil {
		return nil
	}
	c.signed = nil
	var gone error // that the files are gone is the least of it
	for _, a := range c.anchors {
		if _, err := ledger.VerifyAnchor(a.Data, ledger.Policy{Logs: v.EveryKey()}); err != nil {
			c.place.Note("git object %s says that it is an anchor of %d entries on %s; no operator of this ledger signed it", a.Blob, a.Size, a.Date)
			continue
		}
		c.signed = append(c.signed, a)
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

// CompareGit compares the ledger with the anchors that git holds, for who did not ask
// for it before the ledger was read. It needs [Ask].Again.
func (r *Reading) CompareGit(ctx context.Context) error {
	c := r.newGitCheck(ctx)
	if c == nil {
		return nil
	}
	for _, why := range c.unasked {
		r.Note("git was not asked for anchors: %s", why)
	}
	for size := range c.heads {
		c.heads[size] = r.History.HeadAfter(size)
	}
	return c.verify(r.verified, len(r.anchors))
}

// notAsked says why git cannot vouch for the ledger: it could not be asked, or there
// is none. Expected says that there should be, because people signed for it or
// because an anchor was published where there was.
func (c *gitCheck) notAsked(expected string) (why []string, gap bool) {
	switch {
	case c == nil:
		return nil, false
	case len(c.repositories) > 0:
		return c.unasked, true
	case expected != "":
		return []string{fmt.Sprintf("%s is not in a git repository, and %s", c.place.Dir, expected)}, true
	}
	return []string{fmt.Sprintf("%s is not in a git repository, so git has no anchor of this ledger", c.place.Dir)}, false
}

// missed says what could not be asked of the repositories that there are.
func (c *gitCheck) missed() []string {
	if c == nil {
		return nil
	}
	return c.unasked
}
