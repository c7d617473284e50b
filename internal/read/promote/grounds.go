package promote

import (
	"fmt"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// A ground is an entry of the ledger that a tier counts on.
type ground struct {
	what  string
	index int64
}

func (g ground) String() string { return fmt.Sprintf("%s (entry %d)", g.what, g.index) }

// grounds are the entries that a tier counts on and that must be published: what only
// the operator's machine knows can be taken back, or written when the rest is known.
// Up to silver these are the attempts under review. Above it they are everything that
// counts in favour of the class, and an outside observer must have seen it: whatever a new
// condition counts on belongs here. What counts against the class does not.
func (r *review) grounds(tier bench.Tier) []ground {
	var all []ground
	for _, a := range r.attempts {
		all = append(all, ofAttempt("attempt", a.Attempt)...)
	}
	if len(all) == 0 || rank(tier) <= rank(bench.Silver) {
		return all
	}
	if again := r.reproductions().agreed; again != nil {
		all = append(all, *again)
	}
	if a := r.reproducedLive(tier); a != nil {
		all = append(all, ofAttempt("live attempt", a)...)
	}
	// The last decides who may sign, and when a signature on a case had to be valid.
	for _, authority := range slices.Backward(r.in.History.Authorities) {
		if authority.Class == "" || authority.Class == r.in.Bench.Class() {
			return append(all, ground{authority.What, authority.Index})
		}
	}
	return all
}

// ofAttempt are the entries of an attempt: its end, before which it was registered
// and recorded, and what was said of its records later.
func ofAttempt(what string, a *history.Attempt) []ground {
	var all []ground
	if a.Finished != nil {
		all = append(all, ground{what + " " + a.ID, a.Finished.Index})
	}
	for c := range a.Cases() {
		if c.Amendment != nil {
			all = append(all, ground{fmt.Sprintf("the amendment of case %s of %s", c.ID, a.ID), c.Amendment.Index})
		}
		if c.Correction != nil {
			all = append(all, ground{fmt.Sprintf("the correction of case %s of %s", c.ID, a.ID), c.Correction.Last()})
		}
	}
	return all
}

// beyond are the grounds that a tree of that size does not have, as a list for people;
// "" if it has all.
func beyond(grounds []ground, size int64) string {
	var missing []string
	for _, g := range grounds {
		if g.index >= size {
			missing = append(missing, g.String())
		}
	}
	return names(missing)
}

// publish is the command that makes an anchor.
const publish = `"tally ledger anchor publish"`

// anchorProblems asks that what the tier counts on has been published.
func (r *review) anchorProblems(tier bench.Tier) []string {
	covered := int64(0)
	for _, a := range r.in.Anchors {
		covered = max(covered, a.Size)
	}
	if covered == 0 {
		return []string{"no anchor has been published"}
	}
	if missing := beyond(r.grounds(tier), covered); missing != "" {
		return []string{fmt.Sprintf("not covered by an anchor: %s; the last covers %d entries: anchor again with %s", missing, covered, publish)}
	}
	return nil
}

// unseen is what is said of a history that only its operator's machine knows. Who
// keeps it alone can leave out what went wrong and begin again from before.
const unseen = "no one outside this machine has seen this history"

// outsideProblems asks that an outside observer remembers what the tier counts on.
func (r *review) outsideProblems(tier bench.Tier) []string {
	seen := r.seenOutside()
	if seen.Size == 0 {
		return []string{fmt.Sprintf("%s: %s needs a witness, or an anchor that git has from a remote, that two people signed for in %s", unseen, tier, bench.PinsFile)}
	}
	missing := beyond(r.grounds(tier), seen.Size)
	if missing == "" {
		return nil
	}
	then := "which the witness cosigns"
	if seen.Kind == evidence.OutsideGit {
		then = "commit it and push it there"
	}
	return []string{fmt.Sprintf("no one outside this machine has seen %s; %s %s has seen %d entries: anchor again with %s, %s", missing, seen.Kind, seen.By, seen.Size, publish, then)}
}

// seenOutside is who has seen the most.
func (r *review) seenOutside() evidence.Outside {
	var most evidence.Outside
	for _, o := range r.in.Outside {
		if o.Size > most.Size {
			most = o
		}
	}
	return most
}

// outsideNote tells who else has seen the history.
func (r *review) outsideNote() string {
	switch seen := r.seenOutside(); {
	case seen.Size == 0:
		return unseen
	case seen.Kind == evidence.OutsideGit:
		return fmt.Sprintf("as this clone has it, %d entries of the history are in git at %s: look there before you approve", seen.Size, seen.By)
	default:
		return fmt.Sprintf("witness %s has seen %d entries of the history", seen.By, seen.Size)
	}
}
