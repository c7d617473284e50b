package dossier

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/replies"
)

// An Ask says what of a workspace's ledger the caller needs. All of it is gathered
// in one verification.
type Ask struct {
	// Want reports whether the records of an attempt are needed, given what its
	// registration says; nil means of all. See [history.Options].
	Want func(*history.Attempt) bool
	// Again says that entries will be read again: [Reading.Entries],
	// [Reading.Then], and the recommendations, [Reading.Advised].
	Again bool
	// Prove says that entries will be proved: [Reading.Prove]. It implies Again.
	Prove bool
	// ShowHeldOut says that the caller asked to see held-out cases.
	ShowHeldOut bool
	// Git says that the ledger is compared with the anchors that git holds, too:
	// a run or a publication must not build on a ledger that was put
	// back.
	Git bool
	// Recent says that the caller adds to the ledger and needs no records of the attempts
	// that are in it. Then the Reading begins from what this machine keeps of the ledger's
	// past, if that serves ([sequencer.Recollection]), and Visit is not shown the records
	// of cases that were read before.
	Recent bool
	// Visit sees each entry of the ledger besides, undecoded. It may be nil.
	Visit func(ledger.Record) error

	until int64 // see history.Options.Until
}

// A Reading is a workspace whose ledger was verified, once, and what was
// gathered on the way: people, acceptances, attempts, anchors. Only
// [Place.Read] makes one.
//
// Several goroutines may ask it, as long as none calls Refresh.
type Reading struct {
	*Place
	// History is what the ledger says about attempts.
	History *history.History

	ask      Ask
	recalled *recall // nil unless only what is recent is asked for
	reader   *history.Reader
	people   people
	verified *ledger.Verified
	anchors  []sequencer.AnchorFile
	kept     []sequencer.KeptCheckpoint
	pins     *bench.Pins      // nil if none are signed
	git      *gitCheck        // nil unless git is to be looked at
	tree     *ledger.Tree     // nil unless entries will be proved
	advised  map[int64]Advice // nil unless entries will be read again
	finder   ledger.Finder    // of entries that are read again

	asides  map[string][]int64 // entries of attempts that the history does not keep; nil unless they will be proved
	amended map[int64][]int64  // amendments by the record that they are about, the same

	files glanceAt // the ledger's, when they were read last
	vault *store.Vault

	// mu guards what was found out on the way.
	mu sync.Mutex
	// seen are pieces of evidence that were found whole: cases share them.
	seen    map[digest.Content]bool
	benches map[string]*benchOrWhy     // see Bench
	secret  []byte                     // of held-out cases, once it is needed
	heldOut map[string]map[string]bool // classes and cases; see Case.IsHeldOut
	indexOf digest.Content             // the index that was read last, and what it says; see filesOf
	index   *evidence.CaseFiles
	hidden  map[digest.Content]bool // what indexes of evidence say of being held out

	thenMu sync.Mutex
	then   *Reading // at an earlier time: the last that was asked for
}

// Read verifies the workspace's ledger against everything known, and reads what
// is asked for.
func (p *Place) Read(ask Ask) (*Reading, error) {
	r := &Reading{Place: p, ask: ask, benches: make(map[string]*benchOrWhy), heldOut: make(map[string]map[string]bool)}
	if ask.Prove {
		r.tree, r.asides, r.amended = &ledger.Tree{}, make(map[string][]int64), make(map[int64][]int64)
	}
	if ask.Again || ask.Prove {
		r.advised = make(map[int64]Advice)
	}
	if ask.Git {
		r.git = p.newGitCheck(context.Background())
		for _, why := range r.git.missed() {
			p.Note("git was not asked for anchors: %s", why)
		}
	}
	r.reader = history.NewReader(history.Options{Want: ask.Want, Until: ask.until, Marks: ask.Again || ask.Prove, CaseList: r.caseList, Pinned: r.pinnedLedgers, Cosigned: r.cosigned})
	if ask.Recent && !ask.Again && !ask.Prove {
		r.recalled = &recall{}
		if err := r.recall(); err != nil {
			return nil, err
		}
	}
	if err := r.Refresh(); err != nil {
		return nil, err
	}
	return r, nil
}

// A Standing says how a ledger's files are, compared with when they were read last.
type Standing int

// The standings: they are untouched; there is more to read; a process wrote to them
// without adding anything, so all of them is to be read again.
const (
	Unchanged Standing = iota
	Grown
	Rewritten
)

// Standing looks at the ledger's files from outside. It is not a verification.
func (r *Reading) Standing() (Standing, error) {
	now, err := r.lookAtFiles()
	switch {
	case err != nil || now == r.files:
		return Unchanged, err
	case now.bytes > r.files.bytes:
		return Grown, nil
	}
	return Rewritten, nil
}

// A glanceAt is how files look from outside.
type glanceAt struct{ bytes, touched int64 }

func (r *Reading) lookAtFiles() (g glanceAt, err error) {
	place, err := r.Sequencer()
	if err != nil {
		return g, err
	}
	entries, err := os.ReadDir(place.SegmentsDir())
	if err != nil {
		return g, refusal.Newf(refusal.Unreadable, "reading the ledger: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return g, refusal.Newf(refusal.Unreadable, "reading the ledger: %w", err)
		}
		g.bytes, g.touched = g.bytes+info.Size(), max(g.touched, info.ModTime().UnixNano())
	}
	return g, nil
}

// Refresh reads on where the ledger has grown, and verifies only what is new.
// What was derived from the evidence is forgotten. After an error the Reading is
// of no use.
func (r *Reading) Refresh() error {
	if r.verified != nil {
		r.link.Again(true)
	}
	place, err := r.Sequencer()
	if err != nil {
		return err
	}
	anchors, expect, err := r.Expectations()
	if err != nil {
		return err
	}
	kept, err := sequencer.LoadCheckpoints(place.FS, place.Checkpoints)
	if err != nil {
		return err
	}
	// Before it is read: what is appended meanwhile is a reason to read again. That
	// there is no ledger is for the verification to say.
	r.files, _ = r.lookAtFiles()
	r.anchors, r.kept = anchors, kept
	clear(r.benches)
	clear(r.heldOut)
	r.vault, r.seen, r.then, r.index, r.hidden = r.link.Vault(), make(map[digest.Content]bool), nil, nil, make(map[digest.Content]bool)
	r.History, err = r.reader.Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		v, err := place.Verify(ledger.Options{Origin: r.Settings.Origin, TrustRoot: r.Settings.TrustRoot, Expect: expect, From: r.verified, Visit: func(rec ledger.Record) error {
			if err := r.visit(rec); err != nil {
				return err
			}
			return visit(rec)
		}})
		if err == nil {
			r.verified = v
		}
		return v, err
	})
	if err == nil {
		err = r.git.verify(r.verified, len(r.anchors))
	}
	// Advice on promotion records that an anchor is missing; who runs or publishes
	// something does not begin.
	if err == nil && r.ask.Git {
		err = everyAnchorGone(r.AnchorsDir(), r.History.Anchors, len(r.anchors))
	}
	if err != nil {
		return r.Alarm(err)
	}
	return nil
}

// visit gathers what is not the history's.
func (r *Reading) visit(rec ledger.Record) error {
	r.git.visit(rec)
	r.recalled.note(rec)
	if err := r.people.visit(rec); err != nil {
		return err
	}
	if r.tree != nil {
		if err := r.tree.Add(rec.Leaf); err != nil {
			return err
		}
	}
	if r.advised != nil && rec.Envelope.Kind == evidence.RecommendationKind && !rec.Envelope.Manual {
		b, err := decoded(rec)
		if err != nil {
			return err
		}
		r.advised[rec.Index] = Advice{Recommendation: *b.(*evidence.Recommendation), Time: rec.Envelope.Time}
	}
	if err := r.noteAside(rec); err != nil {
		return err
	}
	if r.ask.Visit != nil {
		return r.ask.Visit(rec)
	}
	return nil
}

// An Advice is a recommendation in the ledger.
type Advice struct {
	evidence.Recommendation
	Time evidence.Time
}

// Advised are the recommendations in the ledger by their index. It needs
// [Ask].Again.
func (r *Reading) Advised() map[int64]Advice { return r.advised }

// decoded decodes an entry strictly.
func decoded(rec ledger.Record) (evidence.Body, error) {
	if rec.Body != nil {
		return rec.Body, nil
	}
	b, err := evidence.DecodeBody(rec.Envelope.Kind, rec.Envelope.Body)
	if err != nil {
		return nil, &ledger.Problem{Index: rec.Index, Kind: "entry", Detail: err.Error(), Name: refusal.EntryInvalid}
	}
	return b, nil
}

// people gathers who was trusted when, and what they accepted.
type people struct {
	first    digest.Content // of the ledger's entries
	versions []SignersVersion
	accepted bench.Acceptances
	recorded map[digest.Content]string // cassettes that were kept, and how they were made
	draws    replies.Draws
}

func (p *people) visit(rec ledger.Record) error {
	switch rec.Envelope.Kind {
	case evidence.LedgerOpened, evidence.SignersChangedKind, evidence.CaseAcceptedKind, evidence.CassetteRecordedKind, evidence.ReplyDrawnKind:
	default:
		return nil
	}
	var err error
	if rec.Body, err = decoded(rec); err != nil {
		return err
	}
	switch b := rec.Body.(type) {
	case *evidence.Opened:
		p.first = rec.Content
		p.versions = append(p.versions, SignersVersion{Signers: b.Signers})
	case *evidence.SignersChanged:
		p.versions = append(p.versions, SignersVersion{b.Signers, strings.Join(b.Signatures, "")})
	case *evidence.CassetteRecorded:
		p.tape(rec.Envelope.Manual, b)
		return nil
	case *evidence.ReplyDrawn:
		p.draws.Note(rec.Envelope.Manual, b)
		return nil
	}
	return p.accepted.Visit(rec)
}

// RequireProspect refuses to begin an attempt that cannot have the needed
// properties. What witnesses will add is not known yet.
func (r *Reading) RequireProspect(needed []history.Property, class *bench.Verified) error {
	has := r.reader.Prospects(r.Shared != nil || class.Level() == string(bench.Scratch), r.Now())
	for _, p := range needed {
		if p != history.WitnessedProperty && !slices.Contains(has, p) {
			return r.levelNotMet(fmt.Sprintf("an attempt of class %s here", class.Class()), []history.Property{p}, has)
		}
	}
	return nil
}

// RequireProperties refuses an attempt that lacks a needed property.
func (r *Reading) RequireProperties(needed []history.Property, a *history.Attempt) error {
	if lacks := a.Lacks(needed); len(lacks) > 0 {
		return r.levelNotMet("attempt "+a.ID, lacks, a.Properties())
	}
	return nil
}

func (r *Reading) levelNotMet(what string, lacks, has []history.Property) error {
	return refusal.Newf(refusal.LevelNotMet, "%s is not %s; it is %s", what, orNothing(lacks), orNothing(has)).WithHint("%s", r.levelHint(lacks, has))
}

// levelHint says what would give the first property that is missing.
func (r *Reading) levelHint(lacks, has []history.Property) string {
	switch {
	case r.Shared != nil:
		return fmt.Sprintf("this checkout has a ledger of its own, whose attempts are scratch; run it where the ledger %s is kept", r.Shared.Origin)
	case slices.Contains(has, history.ExamplesProperty) && lacks[0] == history.SignedProperty:
		return `the signers are the examples that "tally init" made; put people of your own in their place with "tally signers next"`
	case lacks[0] == history.PinnedProperty || r.History.Pin() == history.OtherPinned:
		return `"tally bench digest CLASS --pin-ledger" pins this ledger, and two people sign it; ` + r.PinNote()
	case lacks[0] == history.WitnessedProperty:
		return "a witness of the settings cosigns the registration before the first case; an attempt without that cannot get it later"
	case lacks[0] == history.ReproducedProperty:
		return `"tally reproduce ATTEMPT" under another operator's key adds it`
	}
	return "the class is a scratch class, or no signer in force signed the registration"
}

func orNothing(properties []history.Property) string {
	if len(properties) == 0 {
		return "scratch"
	}
	words := make([]string, len(properties))
	for i, p := range properties {
		words[i] = string(p)
	}
	return strings.Join(words, ", ")
}

// tape notes a recording. One that a person claims by hand shows nothing, and one
// that was thrown away, or could not be written, is not there.
func (p *people) tape(byHand bool, b *evidence.CassetteRecorded) {
	switch {
	case byHand:
	case !b.Kept:
		delete(p.recorded, b.Digest)
	default:
		if p.recorded == nil {
			p.recorded = make(map[digest.Content]string)
		}
		p.recorded[b.Digest] = b.Provenance
	}
}

// Attempt finds an attempt that a person named.
func (r *Reading) Attempt(id string) (*Dossier, error) {
	if a := r.History.Attempt(id); a != nil {
		return r.Dossier(a), nil
	}
	return nil, r.History.Unknown(id, history.Scope{})
}

// Verified is the ledger as it was verified last, for a writer that continues from
// there: [sequencer.Config].From.
func (r *Reading) Verified() *ledger.Verified { return r.verified }

// Then is the history as it was when the ledger had so many entries. It reads
// the ledger once more only if an attempt was at work at that time.
func (r *Reading) Then(entries int64) (*history.History, error) {
	if h, ok := r.History.At(entries); ok {
		return h, nil
	}
	r.thenMu.Lock()
	defer r.thenMu.Unlock()
	// Only the last is remembered: each may be as large as the ledger.
	if r.then == nil || r.then.History.Entries != entries {
		r.then = nil
		ask := r.ask
		ask.until, ask.Visit, ask.Prove = entries, nil, false
		then, err := r.Place.Read(ask)
		if err != nil {
			return nil, err
		}
		r.then = then
	}
	return r.then.History, nil
}

// benchOrWhy is a bench that verified, or why not.
type benchOrWhy struct {
	once  sync.Once
	ready atomic.Bool
	bench *bench.Verified
	err   error
}

// DropBenches forgets the benches that were verified. Those of long classes take
// more memory than all else that a Reading keeps. Which cases are held out stays
// known.
func (r *Reading) DropBenches() {
	r.mu.Lock()
	var ready []string
	for class, b := range r.benches {
		if b.ready.Load() { // who verifies another one still needs it
			ready = append(ready, class)
		}
	}
	r.mu.Unlock()
	for _, class := range ready {
		r.heldOutIn(class)
		r.mu.Lock()
		delete(r.benches, class)
		r.mu.Unlock()
	}
}

// Bench verifies the bench of a class as it is now, once for each state of the
// ledger.
func (r *Reading) Bench(class string) (*bench.Verified, error) {
	r.mu.Lock()
	b := r.benches[class]
	if b == nil {
		b = &benchOrWhy{}
		r.benches[class] = b
	}
	r.mu.Unlock()
	b.once.Do(func() {
		var c *Corpus
		if c, b.err = r.Corpus(); b.err == nil {
			b.bench, b.err = c.Bench(class)
			c.Close()
		}
		b.ready.Store(true)
	})
	return b.bench, b.err
}

// ReadAttempt is [Place.Read] for the records of one attempt.
func (p *Place) ReadAttempt(id string, ask Ask) (*Dossier, error) {
	ask.Want = func(a *history.Attempt) bool { return a.ID == id }
	r, err := p.Read(ask)
	if err != nil {
		return nil, err
	}
	return r.Attempt(id)
}
