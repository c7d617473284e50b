package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// A Level says in one name how well an attempt is vouched for. It is computed
// here and claimed by no record. The name is that of the last property that an
// attempt has; what each adds, and that none stands for another, is said by
// [Attempt.Properties].
type Level int

// The levels. Only the first two are less than the others: witnesses and second
// runners show different things.
const (
	// Scratch: no signer vouches. Labelled, never promotable.
	Scratch Level = iota
	// Example: as Signed, but by people who come with "tally init" and whose
	// keys lie in the workspace. It is worth what scratch is.
	Example
	// Signed: an operator in force signed the registration, which names the
	// digest of a bench that two people signed.
	Signed
	// Witnessed: a checkpoint that trusted witnesses cosigned covered the
	// registration, and no case of the attempt, so the attempt could not be
	// dropped once its result was known.
	Witnessed
	// Reproduced: another operator, with another key, ran it again from its
	// evidence and got the same.
	Reproduced
)

var levelNames = [...]string{"scratch", "signed by example signers", "signed", "witnessed", "reproduced"}

// String is the level's name in lower case.
func (l Level) String() string { return levelNames[l] }

// MarshalText writes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("level is %q, expected one of %s", text, strings.Join(levelNames[:], ", "))
	}
	*l = Level(i)
	return nil
}

// A Property is one thing that is known of an attempt. None implies another.
type Property string

// The properties.
const (
	// SignedProperty: an operator in force signed the registration, in a ledger
	// that two people signed for if they signed for any, and the bench is signed
	// by two people who are not examples.
	SignedProperty Property = "signed"
	// ExamplesProperty: the same, but the people are examples.
	ExamplesProperty Property = "example_signers"
	// PinnedProperty: two people signed for this very ledger, by its origin and
	// its first entry, so it was not begun anew to forget attempts.
	PinnedProperty Property = "pinned"
	// WitnessedProperty: see [Witnessed].
	WitnessedProperty Property = "witnessed"
	// ReproducedProperty: see [Reproduced].
	ReproducedProperty Property = "reproduced"
)

// Properties lists what is known of an attempt; nothing of a scratch attempt.
func (a *Attempt) Properties() []Property {
	found := []Property{}
	if a.Level == Scratch {
		return found
	}
	for _, p := range []struct {
		name Property
		has  bool
	}{{SignedProperty, !a.Examples}, {ExamplesProperty, a.Examples}, {PinnedProperty, a.Pin == PinnedWhole},
		{WitnessedProperty, a.Witnessed}, {ReproducedProperty, reproduced(a.Reproductions)}} {
		if p.has {
			found = append(found, p.name)
		}
	}
	return found
}

// Common are the properties that every one of the attempts has.
func Common(attempts []*Attempt) []Property {
	common := []Property{}
	for i, a := range attempts {
		if i == 0 {
			common = a.Properties()
			continue
		}
		has := a.Properties()
		common = slices.DeleteFunc(common, func(p Property) bool { return !slices.Contains(has, p) })
	}
	return common
}

// requirements are the properties that a caller who names a level asks for. A
// second runner does not stand for a witness, nor a witness for a second runner.
var requirements = map[string][]Property{
	"scratch": nil, "signed": {SignedProperty}, "pinned": {SignedProperty, PinnedProperty},
	"witnessed": {SignedProperty, WitnessedProperty}, "reproduced": {SignedProperty, ReproducedProperty},
}

// Levels are the names that can be required, the weakest first.
func Levels() []string { return []string{"scratch", "signed", "pinned", "witnessed", "reproduced"} }

// Required are the properties that a list of levels, separated by commas, asks
// for.
func Required(list string) ([]Property, error) {
	var needed []Property
	for _, name := range strings.Split(list, ",") {
		properties, ok := requirements[strings.TrimSpace(name)]
		if !ok {
			return nil, fmt.Errorf("%q is not a level that can be required, expected one or more of %s", name, strings.Join(Levels(), ", "))
		}
		for _, p := range properties {
			if !slices.Contains(needed, p) {
				needed = append(needed, p)
			}
		}
	}
	return needed, nil
}

// Lacks are those of the needed properties that an attempt does not have.
func (a *Attempt) Lacks(needed []Property) []Property {
	has := a.Properties()
	return slices.DeleteFunc(slices.Clone(needed), func(p Property) bool { return slices.Contains(has, p) })
}

// Prospects are the properties that an attempt has that is registered now, before
// any witness or second runner has seen it: what can be told before it is run.
func (r *Reader) Prospects(scratch bool, now time.Time) []Property {
	a := &Attempt{Scratch: scratch, Signer: "an operator", Origin: r.history.Origin, Index: r.history.Entries, FirstStarted: r.history.Entries, Examples: r.ExamplesSign(now)}
	r.history.setLevel(a)
	return a.Properties()
}

// A Ledger is one that two people signed for.
type Ledger struct {
	Origin string
	// First is the content of its first entry.
	First digest.Content
}

// A Pin says whether two people signed for the ledger of an attempt.
type Pin int

// The pins.
const (
	// NothingPinned: they signed for no ledger, so this one may have been begun
	// anew.
	NothingPinned Pin = iota
	// OtherPinned: they signed for others, or for one of this origin that began
	// with another entry. Nothing in this one counts.
	OtherPinned
	// PinnedWhole: they signed for this very ledger.
	PinnedWhole
)

// Pin says whether two people signed for this ledger.
func (h *History) Pin() Pin {
	switch {
	case len(h.pinned) == 0:
		return NothingPinned
	case h.Entries > 0 && slices.Contains(h.pinned, Ledger{h.Origin, h.FirstEntry}):
		return PinnedWhole
	}
	return OtherPinned
}

// A Reproduction is an attempt.reproduced entry about an attempt of this
// ledger, whose signature verified.
type Reproduction struct {
	Index      int64
	Time       evidence.Time
	Attempt    string // the second run's id
	Agrees     bool
	Divergence string
	Signer     string
	Key        string
	// Counts says that neither the key nor the person is that of the original.
	Counts bool
}

// setLevel is the whole rule of docs/formats/scorecard.md.
func (h *History) setLevel(a *Attempt) {
	a.Level, a.Witnessed, a.Pin = Scratch, false, h.Pin()
	if a.Scratch || a.Signer == "" || a.Origin != h.Origin || a.Pin == OtherPinned {
		return
	}
	a.Witnessed = h.witnessed(a)
	switch {
	case a.Examples:
		a.Level = Example
	case reproduced(a.Reproductions):
		a.Level = Reproduced
	case a.Witnessed:
		a.Level = Witnessed
	default:
		a.Level = Signed
	}
}

// witnessed looks for a cosigned checkpoint that covers the registration and
// ends before the first case.
func (h *History) witnessed(a *Attempt) bool {
	end := a.FirstStarted
	if end < 0 {
		end = h.Entries
	}
	return slices.ContainsFunc(h.cosigned, func(c Cosigned) bool {
		return c.Size > a.Index && c.Size <= end && len(c.Witnesses) > 0
	})
}

// reproduced reports whether another operator got the same and none got another
// result. A disagreement stands: an operator who gets another result and then the same has
// found that the attempt cannot be relied on to give it.
func reproduced(rs []Reproduction) bool {
	agreed := false
	for _, x := range rs {
		if x.Counts && !x.Agrees {
			return false
		}
		agreed = agreed || x.Counts
	}
	return agreed
}

// appoint puts a version of the signers in force. Whose key ever was an example
// person's stays one under any other name: everybody has it.
func (r *Reader) appoint(signers string) (err error) {
	if r.signers, err = seal.ParseSigners("signers", []byte(signers)); err != nil {
		return err
	}
	r.history.known = &known{r.history.known.people.With(r.signers), r.history.known.operators}
	for _, e := range r.signers.Entries() {
		if seal.IsExample(e.Principals) {
			r.examples[e.Key.Fingerprint()] = true
		}
	}
	return nil
}

// ExamplesSign reports whether an example person may sign benches at that time.
func (r *Reader) ExamplesSign(at time.Time) bool {
	return r.signers != nil && slices.ContainsFunc(r.signers.Entries(), func(e seal.Entry) bool {
		return (r.examples[e.Key.Fingerprint()] || seal.IsExample(e.Principals)) && e.ValidAt(at) &&
			(slices.Contains(e.Roles, seal.Curator) || slices.Contains(e.Roles, seal.Security))
	})
}

// checkSignature notes who signed a registration.
func (r *Reader) checkSignature(a *Attempt, rec ledger.Record, b *evidence.AttemptRegistered) {
	if a.Scratch {
		return // nothing is signed in scratch mode
	}
	message, err := b.Message()
	if err != nil {
		a.fault("signature", rec.Index, "the registration: %v", err)
		return
	}
	signer, err := r.signerOf(rec, message, b.Signature)
	if err != nil {
		a.fault("signature", rec.Index, "the registration: %v", err)
		return
	}
	a.Signer, a.Key, a.runner = signer.Principal(), signer.Key().Fingerprint(), &signer
	r.history.known = r.history.known.met(b.Operator, signer)
}

func (r *Reader) reproduced(rec ledger.Record, b *evidence.AttemptReproduced) error {
	a := r.history.byID[b.Original]
	if a == nil || b.Origin != r.history.Origin {
		// Of another ledger's attempt, or of none.
		return nil
	}
	message, err := b.Message()
	if err != nil {
		return err
	}
	signer, err := r.signerOf(rec, message, b.Signature)
	if err != nil {
		a.fault("signature", rec.Index, "the reproduction %s: %v", b.Attempt, err)
		return nil
	}
	if why := r.replayed(a, b, digest.IDOf(message)); why != "" {
		a.fault("reproduction", rec.Index, "the reproduction %s does not count: %s", b.Attempt, why)
		return nil
	}
	x := Reproduction{Index: rec.Index, Time: rec.Envelope.Time, Attempt: b.Attempt, Agrees: b.Agrees, Divergence: b.Divergence,
		Signer: signer.Principal(), Key: signer.Key().Fingerprint()}
	x.Counts = a.runner != nil && !r.history.known.people.Same(signer, *a.runner) && b.Attempt != b.Original
	a.Reproductions = append(a.Reproductions, x)
	return nil
}

// replayed says why a reproduction is not one of this attempt, or not a new one:
// what was signed once counts once.
func (r *Reader) replayed(a *Attempt, b *evidence.AttemptReproduced, message digest.ID) string {
	switch {
	case r.again[message]:
		return "the same was recorded before"
	case b.Registered == nil || b.Finished == nil:
		return "it does not say what was compared"
	case a.Finished == nil:
		return "the attempt had not finished"
	case *b.Registered != a.Head || *b.Finished != a.Finished.Head:
		return "it is about another attempt of this name: the heads of registration and end are not those of this one"
	}
	r.again[message] = true
	return ""
}

// signerOf verifies the operator's signature over a record at its place.
func (r *Reader) signerOf(rec ledger.Record, message []byte, signature string) (seal.Signature, error) {
	s, err := r.signers.Verify([]byte(signature), message, seal.NamespaceAttempt, rec.Envelope.Time.Go())
	if err != nil {
		return seal.Signature{}, err
	}
	if !s.Holds(seal.Operator) {
		return seal.Signature{}, fmt.Errorf("signed by %s, who is not an operator", s.Principal())
	}
	return s, nil
}

// planID names a plan by the digest of its canonical bytes.
func planID(p *evidence.Plan) (digest.Content, error) {
	data, err := canon.Marshal(p)
	return digest.ContentOf(data), err
}
