package verify

import (
	"fmt"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// Pins are what the caller knows of a ledger besides whom to trust. A removed
// operator can begin a fresh ledger from version 1 of the signers, and everything
// in it verifies; only a reader who knows more than the trust root notices. What
// is not pinned is assumed, and [Item].Assumed says so.
type Pins struct {
	Origin     string         // "" for any
	FirstEntry digest.Content // content of entry 0; zero for any
	MinSigners int            // least version of the signers in force at the end; 0 for any
	KnownHead  digest.ID      // a head that the ledger once had; zero for any
	// Held is a checkpoint that the caller holds, of an old receipt for one: the
	// ledger must extend it. Nil for none.
	Held *ledger.TreeHead
	// HeldFrom is where it comes from, for messages.
	HeldFrom string
}

// Hold reads the checkpoint of a receipt, an anchor or a checkpoint that the
// caller holds, and verifies it if a key is trusted.
func (t *Trust) Hold(path string) error {
	data, err := store.ReadFile(store.OS{}, path, maxFileBytes)
	if err != nil {
		return err
	}
	var note []byte
	switch {
	case ledger.IsReceipt(data):
		r, err := ledger.ParseReceipt(data)
		if err != nil {
			return err
		}
		note = r.Checkpoint
	case looksLikeAnchor(data):
		a, err := ledger.ParseAnchor(data)
		if err != nil {
			return err
		}
		note = []byte(a.Checkpoint)
	default:
		note = data
	}
	text, _, _ := strings.Cut(string(note), "\n\n")
	head, err := ledger.ParseTreeHead(text + "\n")
	if err != nil {
		return refusal.Newf(refusal.Usage, "--extends %s: it is not a receipt, an anchor or a checkpoint: %w", path, err)
	}
	if len(t.Logs) > 0 {
		if _, err := ledger.VerifyCheckpoint(note, t.Policy()); err != nil {
			return fmt.Errorf("--extends %s: %w", path, err)
		}
	}
	t.Pins.Held, t.Pins.HeldFrom = &head, path
	return nil
}

// assume notes what had to be assumed.
func (t Trust) assume(format string, args ...any) {
	if t.assumed != nil {
		*t.assumed = append(*t.assumed, fmt.Sprintf(format, args...))
	}
}

// checkOrigin refuses another ledger's, or notes which it is taken to be.
func (t Trust) checkOrigin(origin string) error {
	switch {
	case t.Pins.Origin == "":
		t.assume("the origin is %s (pin it with --origin)", origin)
	case t.Pins.Origin != origin:
		return refusal.Newf(refusal.PinMismatch, "it is of the ledger %s, --origin says %s", origin, t.Pins.Origin).WithHint("this is another ledger's")
	}
	return nil
}

// A walked is what a walk over a ledger notes for the pins.
type walked struct {
	first   digest.Content
	root    digest.ID // of the signers in it
	sawHead bool
}

func (w *walked) visit(rec ledger.Record, known digest.ID) {
	if rec.Index == 0 {
		w.first = rec.Content
		if b, ok := rec.Body.(*evidence.Opened); ok {
			w.root = digest.IDOf([]byte(b.Signers))
		}
	}
	w.sawHead = w.sawHead || rec.Head == known
}

// check holds a verified ledger against the pins.
func (w *walked) check(t Trust, v *ledger.Verified) error {
	if err := t.checkOrigin(v.Origin); err != nil {
		return err
	}
	p := t.Pins
	switch {
	case p.FirstEntry.IsZero():
		t.assume("the ledger begins with the entry %s (pin it with --first-entry)", w.first)
	case p.FirstEntry != w.first:
		return refusal.Newf(refusal.PinMismatch, "the ledger begins with the entry %s, --first-entry says %s", w.first, p.FirstEntry).
			WithHint("a ledger of the same name was begun anew; what it says about earlier attempts is worth nothing")
	}
	switch {
	case p.MinSigners == 0:
		t.assume("version %d of the signers is the newest (pin it with --min-signers-version)", v.Signers.Version())
	case v.Signers.Version() < p.MinSigners:
		return refusal.Newf(refusal.PinMismatch, "version %d of the signers is in force at its end, --min-signers-version says %d or more", v.Signers.Version(), p.MinSigners).
			WithHint("an operator who was removed since could have written it; ask for the ledger that has the change")
	}
	switch {
	case p.KnownHead.IsZero() && p.Held == nil:
		t.assume("the head %s after %d entries is the ledger's newest, and no other copy differs (pin it with --known-head or --extends)", v.Head, v.Size)
	case !p.KnownHead.IsZero() && !w.sawHead:
		return refusal.Newf(refusal.HistoryForked, "the ledger never had the head %s, which --known-head says it had", p.KnownHead).
			WithHint("it was rewritten or cut, or this is another ledger")
	}
	if !v.RootPinned {
		t.assume("the trust root is %s, as the ledger itself says: the checkpoint in %s covers it (pin it with --trust-root)", w.root, p.HeldFrom)
	}
	return nil
}
