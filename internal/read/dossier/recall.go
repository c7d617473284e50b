package dossier

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
)

// A recall is a Reading's dealing with what this machine keeps of the ledger's past: what
// it began from, and what is to be kept when it ends.
type recall struct {
	began *sequencer.Recollection // nil if all entries were read
	// facts are the entries that the next Reading must be shown, in the form of
	// appendFact.
	facts []byte
}

// worthKeeping is how many entries a ledger must have before its past is kept: of a
// shorter one, reading all of it takes no longer than a glance at the files.
var worthKeeping int64 = 5000

// wholeEvery is how old the last reading of all entries may be.
const wholeEvery = 24 * time.Hour

// pastOf is the first line of the facts.
type pastOf struct {
	history.Past
	Heads []headAt `json:"heads"`
}

// A headAt is the head of the ledger after so many entries.
type headAt struct {
	Size int64     `json:"size"`
	Head digest.ID `json:"head"`
}

// recall begins the Reading from what this machine keeps, if that serves. Otherwise
// everything is verified, as without.
func (r *Reading) recall() error {
	place, err := r.Sequencer()
	if err != nil {
		return err
	}
	key, err := r.OperatorKey()
	if err != nil || r.Shared != nil || r.Settings.Ledger != "" {
		return nil // who cannot seal a ledger keeps nothing of it
	}
	kept, _, err := place.Recall(r.Settings.Origin, key)
	if err != nil || kept == nil {
		return err
	}
	past, shown, err := parseFacts(kept.Facts)
	if err != nil {
		return err
	}
	if !r.git.known(kept.Frontier, past.Heads) {
		return nil // git has an anchor of a size at which nothing was looked at
	}
	var turns []ledger.Record
	for _, rec := range shown {
		if ledger.IsTurn(rec.Envelope.Kind) {
			turns = append(turns, rec)
		}
	}
	verified, err := kept.Frontier.Resume(turns, ledger.Options{Origin: r.Settings.Origin, TrustRoot: r.Settings.TrustRoot})
	if err != nil {
		return nil // full verification says what is wrong, if something is
	}
	var read []ledger.Record
	for _, rec := range shown {
		if err := r.visit(rec); err != nil {
			return err
		}
		if !rec.Envelope.Manual && history.InPast(rec.Envelope.Kind) {
			read = append(read, rec)
		}
	}
	if err := r.reader.Resume(past.Past, read); err != nil {
		return err
	}
	r.verified = verified
	r.recalled.began = kept
	return nil
}

// Remember keeps what was verified for the next command, and reads all entries again if
// that was not done for a day. It is for a command that has ended its work.
func (r *Reading) Remember() error {
	if r.recalled == nil || r.Shared != nil || r.Settings.Ledger != "" || r.verified.Size < worthKeeping {
		return nil
	}
	key, err := r.OperatorKey()
	if err != nil {
		return nil
	}
	whole := evidence.At(r.Now())
	if began := r.recalled.began; began != nil {
		whole = began.Whole
	}
	if age := r.Now().Sub(whole.Go()); age >= wholeEvery || age < 0 {
		if err := r.readAll(); err != nil {
			return err
		}
		whole = evidence.At(r.Now())
	}
	if err := r.keep(key, whole); err != nil {
		r.Note("the next command reads the whole ledger: keeping what was read failed: %v", err)
	}
	return nil
}

// Recalled says how many entries the Reading took from what this machine keeps, and when
// all of them were read last; 0 if it read them all itself.
func (r *Reading) Recalled() (entries int64, whole evidence.Time) {
	if r.recalled == nil || r.recalled.began == nil {
		return 0, evidence.Time{}
	}
	return r.recalled.began.Frontier.Size, r.recalled.began.Whole
}

// readAll verifies every entry, which a Reading that began from what was kept did not.
func (r *Reading) readAll() error {
	r.Note("reading the whole ledger, %d entries, as once a day", r.verified.Size)
	_, err := r.Verify(nil)
	return err
}

func (r *Reading) keep(key *seal.Key, whole evidence.Time) error {
	place, err := r.Sequencer()
	if err != nil {
		return err
	}
	first := pastOf{Past: r.History.Past()}
	if r.git != nil {
		for size, head := range r.git.heads {
			if size <= r.verified.Size {
				first.Heads = append(first.Heads, headAt{size, head})
			}
		}
	}
	slices.SortFunc(first.Heads, func(a, b headAt) int { return cmp.Compare(a.Size, b.Size) })
	line, err := canon.Marshal(first)
	if err != nil {
		return err
	}
	facts := append(append(line, '\n'), r.recalled.facts...)
	return place.Keep(r.verified, sequencer.Recollection{Facts: facts, Whole: whole}, r.recalled.began, key)
}

// note adds an entry to the facts, if the next Reading must be shown it.
func (c *recall) note(rec ledger.Record) {
	if c == nil {
		return
	}
	kind := rec.Envelope.Kind
	if ledger.IsTurn(kind) || kind == evidence.CaseAcceptedKind || kind == evidence.CassetteRecordedKind || kind == evidence.ReplyDrawnKind || !rec.Envelope.Manual && history.InPast(kind) {
		c.facts = appendFact(c.facts, rec)
	}
}

// appendFact writes an entry with its place: index, head, and the entry itself.
func appendFact(dst []byte, rec ledger.Record) []byte {
	dst = strconv.AppendInt(dst, rec.Index, 10)
	dst = append(dst, ' ')
	dst, _ = rec.Head.AppendText(dst)
	dst = append(dst, ' ')
	dst = append(dst, rec.Raw...)
	return append(dst, '\n')
}

// parseFacts reads the facts. The operator's key sealed them, so what is wrong in them is
// a fault of this program.
func parseFacts(facts []byte) (past pastOf, shown []ledger.Record, err error) {
	first, rest, _ := bytes.Cut(facts, []byte("\n"))
	if err := canon.UnmarshalCanonical(first, &past); err != nil {
		return past, nil, badFacts(0, err)
	}
	for n := 1; len(rest) > 0; n++ {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		rec, err := parseFact(line)
		if err != nil {
			return past, nil, badFacts(n, err)
		}
		shown = append(shown, rec)
	}
	return past, shown, nil
}

func parseFact(line []byte) (rec ledger.Record, err error) {
	fields := bytes.SplitN(line, []byte(" "), 3)
	if len(fields) != 3 {
		return rec, fmt.Errorf("expected an index, a head and an entry")
	}
	if rec.Index, err = strconv.ParseInt(string(fields[0]), 10, 64); err != nil {
		return rec, err
	}
	if err = rec.Head.UnmarshalText(fields[1]); err != nil {
		return rec, err
	}
	rec.Raw, rec.Content = fields[2], digest.ContentOf(fields[2])
	rec.Envelope, err = evidence.SplitEntry(rec.Raw)
	return rec, err
}

func badFacts(line int, err error) error {
	return refusal.Newf(refusal.MemoryDamaged, "what this machine keeps of the ledger's past: line %d: %w", line+1, err).
		WithHint("move the files that end in .frontier and .facts away from the state folder; the next command reads the whole ledger")
}

// known reports whether the heads at all sizes at which git holds an anchor are known, and
// notes them.
func (c *gitCheck) known(f *ledger.Frontier, heads []headAt) bool {
	if c == nil {
		return true
	}
	at := make(map[int64]digest.ID)
	for _, h := range heads {
		at[h.Size] = h.Head
	}
	for _, m := range f.Met {
		at[m.Size] = m.Head
	}
	at[f.Size] = f.Head
	for size := range c.heads {
		if size > f.Size {
			continue
		}
		head, ok := at[size]
		if !ok {
			return false
		}
		c.heads[size] = head
	}
	return true
}
