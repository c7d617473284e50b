package ledger

import (
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Problem is one thing that does not verify, and where.
type Problem struct {
	Index  int64        `json:"index"` // entry at which it shows, or -1
	Kind   string       `json:"kind"`
	Detail string       `json:"detail"`
	Name   refusal.Name `json:"name"`
	// Fork holds both sides when the ledger contradicts a tree head from
	// elsewhere.
	Fork *Fork `json:"-"`
}

// A Fork is two tree heads that cannot both be of one ledger.
type Fork struct {
	Source   string
	Expected TreeHead
	Found    TreeHead
}

func (p *Problem) Error() string {
	if p.Index < 0 {
		return p.Detail
	}
	return fmt.Sprintf("entry %d: %s", p.Index, p.Detail)
}

// Vanished reports whether there is nothing at all where more is known.
func (f *Fork) Vanished() bool { return f.Found.Size == 0 }

// Refusal turns the problem into the error that a command ends with.
func (p *Problem) Refusal() *refusal.Error {
	if p.Name == refusal.NewerFormat {
		return refusal.Newf(p.Name, "ledger: %w", p).WithHint("install a newer version; nothing is known about the ledger from that entry on")
	}
	r := refusal.Newf(p.Name, "ledger does not verify: %w", p)
	if p.Fork != nil && p.Fork.Vanished() {
		return r.WithHint(`if this is another clone, copy .tally/ledger from where the ledger is kept, or begin one of another origin; if it was here, restore it; see "tally help forks"`)
	}
	switch p.Name {
	case refusal.HistoryRolledBack, refusal.HistoryForked:
		return r.WithHint(`history was rewritten after it was signed or published, or this is a different ledger; see "tally help forks"`)
	case refusal.TornTail:
		return r.WithHint(`a crash left these bytes, which were never acknowledged; "tally ledger repair" sets them aside`)
	case refusal.ChainTamperDetected, refusal.SealInvalid:
		return r.WithHint("nothing in this ledger can be trusted from that entry on; restore it from a copy whose head matches your last anchor")
	case refusal.TileMismatch:
		return r.WithHint(`the entries are sound: delete .tally/ledger/tiles, and "tally ledger anchor publish" makes the tiles again`)
	case refusal.StrictGap:
		return r.WithHint(`nothing was changed, but something is missing: "tally ledger anchor publish" anchors today; an older anchor comes from git; an attempt is finished with --resume; what is not signed counts when two people sign it`)
	}
	return r.WithHint(`see "tally help refusals" for what %s means`, p.Name)
}

// An Expectation is a tree head known from elsewhere that the ledger must
// contain: the memory of what was signed here, an anchor, a witness.
type Expectation struct {
	TreeHead
	Head   digest.ID // chain head at that size; zero if not known
	Source string    // what a message calls it, as in "the anchor of 2026-05-12"
	// SizeOnly says that nothing but the size is known: the ledger must be as long.
	SizeOnly bool
	// Stray says that it comes from a file that may well be of another ledger: then
	// it is left out.
	Stray bool
	// Confirm, if set, verifies the expectation itself against the signers in
	// force at its size, before the ledger is blamed for not meeting it.
	Confirm func(*seal.Signers) error
}

// expected compares the tree with the heads known for this size.
func (w *walk) expected() error {
	for len(w.expect) > 0 && w.expect[0].Size <= w.chain.size {
		e := w.expect[0]
		w.expect = w.expect[1:]
		if counts, err := w.confirm(e, w.signers); err != nil {
			return err
		} else if !counts {
			continue
		}
		found := known{TreeHead{Origin: w.chain.origin, Size: w.chain.size, Root: w.chain.Root()}, w.chain.head}
		if err := found.meets(e); err != nil {
			return err
		}
		w.noteMet(found)
	}
	return nil
}

// noteMet keeps what was found where something was expected, once for a size.
func (w *walk) noteMet(found known) {
	if n := len(w.met); n == 0 || w.met[n-1].Size < found.Size {
		w.met = append(w.met, found)
	}
}

// A known is what a ledger was found to be at one size.
type known struct {
	TreeHead
	head digest.ID
}

// meets compares what was found with what was expected.
func (found known) meets(e Expectation) error {
	switch {
	case e.SizeOnly:
		return nil
	case e.Origin != found.Origin:
		return forked(e, found.TreeHead, -1, "%s is of the ledger %s, this is %s", e.Source, e.Origin, found.Origin)
	case e.Size == found.Size && e.Root != found.Root:
		return forked(e, found.TreeHead, e.Size-1, "%s has root %s over %d entries, this ledger has %s", e.Source, e.Root, e.Size, found.Root)
	case e.Size == found.Size && !e.Head.IsZero() && e.Head != found.head:
		return forked(e, found.TreeHead, e.Size-1, "%s has head %s after %d entries, this ledger has %s", e.Source, e.Head, e.Size, found.head)
	}
	return nil
}

// confirm verifies an expectation itself, and reports whether the ledger must meet it.
func (w *walk) confirm(e Expectation, signers *seal.Signers) (counts bool, err error) {
	if e.Stray && (w.chain == nil || e.Origin != w.chain.origin) {
		return false, nil
	}
	if e.Confirm == nil {
		return true, nil
	}
	if err = e.Confirm(signers); err == nil {
		return true, nil
	}
	return false, &Problem{Index: e.Size - 1, Kind: "anchor", Detail: fmt.Sprintf("%s: %v", e.Source, err), Name: refusal.Of(err).Name}
}

func forked(e Expectation, found TreeHead, index int64, format string, args ...any) *Problem {
	return &Problem{Index: index, Kind: "fork", Detail: fmt.Sprintf(format, args...), Name: refusal.HistoryForked,
		Fork: &Fork{Source: e.Source, Expected: e.TreeHead, Found: found}}
}
