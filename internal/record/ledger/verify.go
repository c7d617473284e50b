package ledger

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Segment is one file of a ledger as [Verify] reads it.
type Segment struct {
	Name  string
	First int64 // index of its first entry, which its file name states
	Size  int64 // in bytes, if known: how much memory reading it takes
	// File tells the file from others and from itself after a change, if it is one: a
	// verification that continues an earlier one sees from it that the file is still
	// the same.
	File FileID
	// Open opens it for reading from that byte on.
	Open func(from int64) (io.ReadCloser, error)
}

// Options say how to verify. The zero value is not usable: who is trusted is
// always given, by the digest of version 1 of the signers file.
type Options struct {
	// Origin is the name the ledger must have.
	Origin string
	// TrustRoot is the digest of version 1 of the signers file.
	TrustRoot digest.ID
	// UnsafeAnyRoot trusts whatever the first entry says. It is for looking at
	// a ledger whose root is not pinned, and the result says so.
	UnsafeAnyRoot bool
	// Expect lists the tree heads that the ledger must contain.
	Expect []Expectation
	// Decode decodes and validates every entry; without it only the hashes,
	// the seals and the order of time are checked.
	Decode bool
	// EverySeal checks the signature of each seal. Otherwise the last seal in
	// each run by one key is checked, which covers all before it.
	EverySeal bool
	// Salvage treats a damaged last batch as torn even if it has a seal, as a
	// power cut can leave it. It is for repair, which sets the batch aside.
	Salvage bool
	// From continues an earlier verification of the same ledger, made in this
	// process: only what was sealed since is visited. See [Verify] for what is
	// read again.
	From *Verified
	// Visit sees each entry in order, once a seal stands after it: what no seal
	// covers is never seen. What it gathers may be used only after Verify has
	// succeeded. The record's bytes are reused afterwards.
	Visit func(Record) error
}

// A Record is an entry on its way through [Verify].
type Record struct {
	Position
	Envelope evidence.Envelope
	Body     evidence.Body // nil unless Options.Decode
	Raw      []byte        // the entry's canonical bytes
}

// A Verified is a ledger whose every sealed entry has been checked. Only
// [Verify] makes one, so a function that takes a *Verified cannot be handed an
// unchecked ledger.
type Verified struct {
	TreeHead
	Head       digest.ID
	LastTime   evidence.Time
	Signers    *seal.Signers // the version in force at the end
	RootPinned bool          // false when UnsafeAnyRoot let it in
	Checkpoint []byte        // signed note of this tree head: the last seal
	Seals      int64
	Tail       Tail

	chain   Chain
	history []version // of the signers, oldest first
	once    Once

	// For a verification that continues this one: see resume.go.
	lastSeal  pendingSeal
	files     []Segment // as they were, without Open
	met       []known   // what was compared with expectations, in order of size
	recent    recent    // the last entries
	decoded   bool
	everySeal bool
}

// A version is one version of the signers and the entry that brought it.
type version struct {
	signers *seal.Signers
	index   int64
}

// EveryKey lists the keys that ever were an operator's, to recognise what was
// signed under an earlier version.
func (v *Verified) EveryKey() []LogKey {
	var keys []LogKey
	seen := make(map[string]bool)
	for _, version := range v.history {
		for _, e := range version.signers.Entries() {
			pub, ok := e.Key.Ed25519()
			if ok && slices.Contains(e.Roles, seal.Operator) && !seen[string(pub)] {
				seen[string(pub)] = true
				keys = append(keys, LogKey{Origin: v.Origin, Key: pub})
			}
		}
	}
	return keys
}

// Chain returns the end of the ledger, ready to be appended to.
func (v *Verified) Chain() *Chain {
	c := v.chain
	c.edge = append([]tlog.Hash(nil), v.chain.edge...)
	c.leaf = nil
	return &c
}

// A Tail is what follows the last seal: nothing, or what a crash left.
type Tail struct {
	Segment  string // name of the last segment
	Batch    int64  // where in it the last sealed batch begins
	GoodSize int64  // bytes of it up to and including the last seal
	Torn     int64  // bytes after that
	// FirstBad describes the first line that is wrong, if one is.
	FirstBad string
}

// Verify reads all segments in order and checks them: each entry against its
// place in the chain, each seal against the operators in force, times, changes
// of signers, and the expected tree heads. On failure the error is a [*Problem]
// for bytes that are wrong, and anything else for bytes that could not be read.
//
// With [Options.From] it goes on where an earlier verification ended, and comes
// to the same result as from the start. Of what was verified then it reads
// again the last seal, which must be the same bytes at the same place; the
// segments must have the same names and be the same files, those before the
// last of the same size and untouched since, the last untouched unless its size
// changed. Expectations within the earlier part are confirmed again and
// compared with what was found there. It does not read again the entries before
// that seal: who changes one of them in place and then appends to the same
// segment is found out by the next process, not by this one, which has seen
// what stood there. Whenever one of these comparisons fails, or the earlier
// verification looked less closely or was not asked about a tree head that is
// expected now, everything is read again from the start, the earlier head being
// one more expectation; Visit still sees only what is new.
func Verify(segments []Segment, o Options) (*Verified, error) {
	if o.TrustRoot.IsZero() && !o.UnsafeAnyRoot {
		return nil, refusal.Newf(refusal.Usage, "verifying a ledger needs a trust root").
			WithHint("give the digest of version 1 of the signers file; there is no default")
	}
	v, err := verify(segments, o)
	if p, wrong := err.(*Problem); wrong && p.Kind == "seal" && !o.EverySeal {
		// A seal late in the ledger does not fit. Look for the first that does
		// not: the damage lies between it and the one before.
		o.EverySeal, o.Visit = true, nil
		if _, err = verify(segments, o); err == nil {
			err = refusal.Newf(refusal.Unreadable, "the ledger changed while it was read").WithHint("verify it again when no process writes to it")
		}
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func verify(segments []Segment, o Options) (*Verified, error) {
	if o.From != nil {
		o.Expect = append(slices.Clip(o.Expect), o.From.expectation())
	}
	w, done, err := resume(segments, o)
	if err != nil {
		return nil, err
	}
	for i, s := range segments[done:] {
		w.last = done+i == len(segments)-1
		if err := w.segment(s); err != nil {
			return nil, err
		}
	}
	return w.finish(segments)
}

func newWalk(o Options) *walk {
	w := &walk{opt: o, expect: slices.Clone(o.Expect), free: newFree()}
	slices.SortStableFunc(w.expect, func(a, b Expectation) int { return cmp.Compare(a.Size, b.Size) })
	w.sealed.decoded, w.sealed.everySeal = o.Decode, o.EverySeal
	return w
}

// walk is the state of one verification.
type walk struct {
	opt    Options
	expect []Expectation // not yet reached, in order of size

	chain   *Chain
	time    evidence.Time
	signers *seal.Signers // after the entries read so far
	inForce *seal.Signers // before the current batch: who may seal it
	history []version
	once    Once
	known   int64   // entries that an earlier verification has shown
	met     []known // what was compared with expectations
	recent  recent  // the last entries

	// What the last good seal covers.
	sealed   Verified
	unsealed int64        // entries read since
	batch    []Record     // the same, for Visit to see when they are sealed
	held     []*block     // which hold the bytes of these
	past     int          // how many of held hold none of these any more
	free     chan *block  // those to use again
	pending  *pendingSeal // the last seal, its signature not checked yet

	last    bool // this is the last segment
	segName string
	offset  int64
}

func (w *walk) segment(s Segment) error {
	if s.First != w.size() {
		return w.problem(refusal.ChainTamperDetected, "segment", "%s begins at entry %d, expected %d: a segment is missing or was added", s.Name, s.First, w.size())
	}
	r, err := s.Open(0)
	if err != nil {
		return unreadable(s, err)
	}
	defer r.Close()
	w.sealed.Tail = Tail{Segment: s.Name}
	return w.read(r, s)
}

// read reads what follows the last seal of a segment.
func (w *walk) read(r io.Reader, s Segment) error {
	w.segName, w.offset = s.Name, w.sealed.Tail.GoodSize
	lines := readLines(r, s.Size-w.offset, w.opt.Decode, w.free)
	defer lines.stop()
	for b := range lines.blocks {
		<-b.done
		for i := range b.lines {
			l := &b.lines[i]
			err := w.line(l)
			// A newer program's entry is whole; it is not damage to be set
			// aside.
			if p, wrong := err.(*Problem); wrong && w.last && p.Name != refusal.NewerFormat {
				return w.tear(p, b, i, lines)
			}
			if err != nil {
				return err
			}
			w.offset += int64(len(l.bytes)) + 1
		}
		w.held = append(w.held, b)
		if len(w.batch) == 0 {
			w.past = len(w.held)
		}
		for _, b := range w.held[:w.past] {
			lines.recycle(b)
		}
		w.held = append(w.held[:0], w.held[w.past:]...)
		w.past = 0
	}
	if lines.err != nil {
		return unreadable(s, lines.err)
	}
	return w.endOfSegment(lines.rest)
}

func unreadable(s Segment, err error) error {
	return refusal.Newf(refusal.Unreadable, "reading %s: %w", s.Name, err)
}

// endOfSegment judges bytes after the last newline and lines after the last
// seal: in the last segment a crash may leave them, elsewhere nothing can.
func (w *walk) endOfSegment(rest []byte) error {
	torn := w.unsealedBytes() + int64(len(rest))
	if torn == 0 {
		return nil
	}
	if !w.last || torn > maxBatchBytes {
		return w.problem(refusal.ChainTamperDetected, "seal", "%s ends in %d bytes that no seal covers", w.segName, torn)
	}
	w.sealed.Tail.Torn = torn
	return nil
}

// maxBatchBytes bounds a batch without its seal, and so what a crash can leave:
// larger leavings were put there. Without a bound a process that can write to
// the disk could make a verifier hold any amount of bytes that no seal covers.
// Package sequencer keeps its batches below it.
const maxBatchBytes = 16 << 20

func (w *walk) unsealedBytes() int64 { return w.offset - w.sealed.Tail.GoodSize }

// tear judges a wrong line in the last segment. It is what a crash leaves in
// the middle of a batch if no whole seal follows it, or if the last seal does
// and a sector before it was never written.
func (w *walk) tear(p *Problem, b *block, i int, lines *lineReader) error {
	rest := append([]byte(nil), b.data[b.lines[i].start:b.end]...)
	for nb := range lines.blocks {
		<-nb.done
		rest = append(rest, nb.data[:nb.end]...)
		if w.unsealedBytes()+int64(len(rest)) > maxBatchBytes {
			return p // however much more there is
		}
		lines.recycle(nb)
	}
	if lines.err != nil {
		return refusal.Newf(refusal.Unreadable, "reading %s: %w", w.segName, lines.err)
	}
	rest = append(rest, lines.rest...)
	torn := w.unsealedBytes() + int64(len(rest))
	if torn > maxBatchBytes {
		return p
	}
	if seals := countSeals(rest); seals > 1 || seals == 1 && !w.opt.Salvage && !lostSector(rest, w.offset, w.sealed.Tail.GoodSize) {
		return p
	}
	w.sealed.Tail.Torn = torn
	w.sealed.Tail.FirstBad = p.Error()
	return nil
}

// lostSector reports whether a sector of the bytes that begin at offset reads
// as zeros from where the good bytes end: what a power cut leaves of a write
// whose other sectors reached the disk. No single changed bit looks like that:
// it takes a NUL where a line begins, or 512 of them.
func lostSector(data []byte, offset, good int64) bool {
	const sector = 512
	end := offset + int64(len(data))
	for at := offset / sector * sector; at < end; at += sector {
		lo, hi := max(at, good)-offset, min(at+sector, end)-offset
		if lo >= 0 && len(bytes.Trim(data[lo:hi], "\x00")) == 0 {
			return true
		}
	}
	return false
}

func (w *walk) line(l *line) error {
	if w.unsealedBytes() > maxBatchBytes {
		return w.problem(refusal.ChainTamperDetected, "seal", "%s at byte %d: no seal within %d bytes, and no batch is longer", w.segName, w.offset, maxBatchBytes)
	}
	check, text, err := splitLine(l.bytes)
	if err != nil {
		return w.problem(refusal.ChainTamperDetected, "line", "%s at byte %d: %v", w.segName, w.offset, err)
	}
	if isSeal(text) {
		return w.seal(check, text)
	}
	return w.entry(check, text, l)
}

func (w *walk) entry(check, text []byte, l *line) error {
	if w.unsealed == 0 {
		w.inForce = w.signers
	}
	// The sealer of this batch may no longer be an operator.
	if w.signers != w.inForce {
		return w.problem(refusal.SealInvalid, "entry", "stands between a change of signers and its seal")
	}
	env, err := evidence.SplitEntry(text)
	if refusal.Is(err, refusal.NewerFormat) && w.follows(check, l) {
		return w.problem(refusal.NewerFormat, "format", "%v", err)
	}
	if err != nil {
		return w.problem(refusal.ChainTamperDetected, "entry", "%v", err)
	}
	if w.chain == nil {
		if err := w.genesis(env); err != nil {
			return err
		}
	} else if env.Kind == evidence.LedgerOpened {
		return w.problem(refusal.EntryInvalid, "entry", "%s stands only at the beginning", env.Kind)
	}
	// The chain is copied forward only when the line is right, so that a torn
	// one leaves it as the last good line did.
	if !w.follows(check, l) {
		return w.problem(refusal.ChainTamperDetected, "entry", "the line says %s, its bytes and the entries before it give %s", check, w.checkOf(l))
	}
	if env.Time.Before(w.time) {
		return w.problem(refusal.TimeWentBack, "time", "dated %s, the entry before it %s", env.Time, w.time)
	}
	if l.decodeErr != nil {
		return w.problem(refusal.EntryInvalid, "entry", "%v", l.decodeErr)
	}
	if env.Kind == evidence.SignersChangedKind {
		if err := w.changeSigners(env); err != nil {
			return err
		}
	}
	if !env.Manual {
		if err := w.once.Add(env.Kind, env.Body, w.size()); err != nil {
			return w.problem(refusal.EntryInvalid, "entry", "%v", err)
		}
	}
	pos := w.chain.Append(l.content)
	w.recent.add(pos)
	w.time = env.Time
	w.unsealed++
	if err := w.expected(); err != nil {
		return err
	}
	if w.opt.Visit != nil && pos.Index >= w.known {
		w.batch = append(w.batch, Record{Position: pos, Envelope: env, Body: l.body, Raw: text})
	}
	return nil
}

// checkOf is the check value that the line of an entry must have here.
func (w *walk) checkOf(l *line) (want [checkLen]byte) {
	head := nextHead(w.chain.head, l.content)
	hex.Encode(want[:], head[:checkLen/2])
	return want
}

// follows reports whether the line of an entry has the check value of its bytes after
// the entries before it: the line is whole, and was written here. The first entry
// says itself what it follows, so if it cannot be read it is taken at its word.
func (w *walk) follows(check []byte, l *line) bool {
	if w.chain == nil {
		return true
	}
	want := w.checkOf(l)
	return bytes.Equal(check, want[:])
}

// genesis reads the first entry, which pins version 1 of the signers.
func (w *walk) genesis(env evidence.Envelope) error {
	if env.Kind != evidence.LedgerOpened {
		return w.problem(refusal.EntryInvalid, "entry", "the first entry is %q, expected %q", string(env.Kind), evidence.LedgerOpened)
	}
	body, err := evidence.DecodeBody(env.Kind, env.Body)
	if err != nil {
		return w.problem(refusal.EntryInvalid, "entry", "%v", err)
	}
	opened := body.(*evidence.Opened)
	if w.opt.Origin != "" && opened.Origin != w.opt.Origin {
		return w.problem(refusal.HistoryForked, "origin", "this is the ledger %s, expected %s", opened.Origin, w.opt.Origin)
	}
	file := []byte(opened.Signers)
	root := w.opt.TrustRoot
	if w.opt.UnsafeAnyRoot {
		root = digest.IDOf(file)
	}
	signers, err := seal.Root("signers", file, root)
	if err != nil {
		return w.problem(refusal.Of(err).Name, "signers", "%v", err)
	}
	w.chain = NewChain(opened.Origin)
	w.signers, w.inForce = signers, signers
	w.history = append(w.history, version{signers, 0})
	w.sealed.RootPinned = !w.opt.UnsafeAnyRoot
	return nil
}

func (w *walk) changeSigners(env evidence.Envelope) error {
	body, err := evidence.DecodeBody(env.Kind, env.Body)
	if err != nil {
		return w.problem(refusal.EntryInvalid, "entry", "%v", err)
	}
	change := body.(*evidence.SignersChanged)
	next, err := ExtendSigners(w.signers, change, env.Time)
	if err != nil {
		return w.problem(refusal.Of(err).Name, "signers", "%v", err)
	}
	w.signers = next
	w.history = append(w.history, version{next, w.size()})
	return nil
}

// ExtendSigners verifies a change of the signers file against the version
// before it, at the time of its entry.
func ExtendSigners(before *seal.Signers, change *evidence.SignersChanged, at evidence.Time) (*seal.Signers, error) {
	sigs := make([][]byte, len(change.Signatures))
	for i, s := range change.Signatures {
		sigs[i] = []byte(s)
	}
	next, err := seal.Extend(before, []byte(change.Signers), sigs, at.Go())
	if err != nil {
		return nil, err
	}
	if next.Version() != change.Version {
		return nil, refusal.Newf(refusal.SignersChainBroken, "the record says version %d, the file %d", change.Version, next.Version())
	}
	return next, nil
}

// vanished reports a ledger without a seal of which more is known: it is not a
// new one, everything was taken out of it.
func (w *walk) vanished() error {
	expect := slices.DeleteFunc(slices.Clone(w.opt.Expect), func(e Expectation) bool { return e.Stray && e.Origin != w.opt.Origin })
	if len(expect) == 0 {
		return nil
	}
	e := slices.MaxFunc(expect, func(a, b Expectation) int { return cmp.Compare(a.Size, b.Size) })
	return &Problem{Index: 0, Kind: "rollback", Name: refusal.HistoryRolledBack,
		Detail: fmt.Sprintf("%s covers %d entries, this ledger has none", e.Source, e.Size),
		Fork:   &Fork{Source: e.Source, Expected: e.TreeHead, Found: TreeHead{Origin: cmp.Or(e.Origin, w.opt.Origin)}}}
}

func (w *walk) finish(segments []Segment) (*Verified, error) {
	if w.pending == nil {
		if err := w.vanished(); err != nil {
			return nil, err
		}
		if t := w.sealed.Tail; t.Torn > 0 {
			return nil, w.problem(refusal.TornTail, "torn-tail", "%s holds %d bytes and no seal: its first batch was never finished", t.Segment, t.Torn)
		}
		return nil, refusal.Newf(refusal.NotFound, "the ledger is empty").WithHint(`"tally init" starts one`)
	}
	if err := w.checkSeal(w.pending); err != nil {
		return nil, err
	}
	v := w.sealed
	v.TreeHead = w.pending.head
	v.Head = v.chain.head
	v.Checkpoint = AssembleCheckpoint(v.TreeHead, w.pending.signature)
	// What is expected beyond the last seal is missing, even if unsealed bytes
	// reach that far: those were never acknowledged.
	for _, e := range w.opt.Expect {
		if e.Size <= v.Size {
			continue
		}
		if counts, err := w.confirm(e, v.Signers); err != nil {
			return nil, err
		} else if !counts {
			continue
		}
		return nil, &Problem{Index: v.Size, Kind: "rollback", Name: refusal.HistoryRolledBack,
			Detail: fmt.Sprintf("%s covers %d entries, this ledger ends after %d", e.Source, e.Size, v.Size),
			Fork:   &Fork{Source: e.Source, Expected: e.TreeHead, Found: v.TreeHead}}
	}
	v.lastSeal, v.met, v.recent = *w.pending, w.met, w.recent.before(v.Size)
	for _, s := range segments {
		s.Open = nil
		v.files = append(v.files, s)
	}
	return &v, nil
}

func (w *walk) size() int64 {
	if w.chain == nil {
		return 0
	}
	return w.chain.size
}

func (w *walk) problem(name refusal.Name, kind, format string, args ...any) *Problem {
	return &Problem{Index: w.size(), Kind: kind, Detail: fmt.Sprintf(format, args...), Name: name}
}
