package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tallystick/internal/archive"
	"tallystick/internal/digest"
	"tallystick/internal/ledger"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/witness"
	"tallystick/internal/workspace"
)

// A pastReading is a workspace's ledger, verified and read for its attempts.
type pastReading struct {
	w       *archive.Place
	history *scorecard.History
	vault   *store.Vault

	mu sync.Mutex
	// seen are pieces of evidence that were found whole: cases share them.
	seen map[digest.Content]bool
}

// readPast verifies the workspace's ledger against everything known, and reads
// the records of the attempts that want names.
func (e *Env) readPast(want func(*scorecard.Attempt) bool) (*pastReading, error) {
	return e.readPastUntil(0, want)
}

// readPastUntil is readPast as it was when the ledger had so many entries; 0
// means now.
func (e *Env) readPastUntil(entries int64, want func(*scorecard.Attempt) bool) (*pastReading, error) {
	w, err := e.open()
	if err != nil {
		return nil, err
	}
	place, err := w.Sequencer()
	if err != nil {
		return nil, err
	}
	anchors, expect, err := w.Expectations()
	if err != nil {
		return nil, err
	}
	kept, err := loadCheckpoints(w)
	if err != nil {
		return nil, err
	}
	for _, c := range kept {
		expect = append(expect, c.expectation())
	}
	p := &pastReading{w: w, vault: store.OpenVault(store.OS{}, w.EvidenceDir()), seen: make(map[digest.Content]bool)}
	p.history, err = scorecard.Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		return place.Verify(ledger.Options{Origin: w.Settings.Origin, TrustRoot: w.Settings.TrustRoot, Expect: expect, Visit: visit})
	}, scorecard.Options{
		Want:     want,
		Until:    entries,
		CaseList: p.caseList,
		Cosigned: func(v *ledger.Verified) ([]scorecard.Cosigned, error) {
			return cosignedCheckpoints(w.Settings, v, anchors, kept)
		},
	})
	if err != nil {
		return nil, w.Alarm(err)
	}
	return p, nil
}

// read returns a piece of evidence if it is what its name says.
func (p *pastReading) read(d digest.Content) ([]byte, error) { return p.vault.Get(d, maxEvidence) }

// caseList reads the list of cases of a long plan. It was put into a pack
// before anything else, so it is looked for there first: to find a piece
// anywhere, the vault remembers where every piece of every attempt lies.
func (p *pastReading) caseList(d digest.Content) ([]byte, error) {
	packs, err := filepath.Glob(filepath.Join(p.vault.PacksDir(), "*.pack"))
	if err != nil {
		return nil, err
	}
	for _, name := range packs {
		var first *store.PieceAt
		err := store.ScanPack(store.OS{}, name, func(found digest.Content, at store.PieceAt) error {
			if found == d {
				first = &at
			}
			return io.EOF // the first is enough
		})
		if err != nil && err != io.EOF {
			return nil, err
		}
		if first != nil {
			return store.ReadPiece(store.OS{}, d, *first, maxEvidence)
		}
	}
	return p.read(d)
}

// evidence is for [scorecard.View]: evidence of a record is whole if a complete
// bundle can be made of it. It reads every piece that the record names, and
// every piece that the index of these names. Several goroutines may ask.
func (p *pastReading) evidence(a *scorecard.Attempt, c *scorecard.Case) error {
	err := p.packable(a, c)
	// What is not as the record says is as good as missing. A disk that cannot
	// be read is another matter.
	if err != nil && speaksOfEvidence(err) && !refusal.Is(err, refusal.DigestMismatch) {
		return refusal.Newf(refusal.NotFound, "%w", err)
	}
	return err
}

func (p *pastReading) packable(a *scorecard.Attempt, c *scorecard.Case) error {
	files, err := scorecard.FilesOf(c, p.read)
	if err != nil {
		return err
	}
	// What the bundle is made of is read for it, and once.
	var used []digest.Content
	b, err := p.bundle(c, recordOf(a, c), files, func(d digest.Content) ([]byte, error) {
		data, err := p.read(d)
		if err == nil {
			used = append(used, d)
		}
		return data, err
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Concat(c.Evidence[1:], files.All()) {
		if slices.Contains(used, d) {
			continue
		}
		if err := p.look(d); err != nil {
			return err
		}
	}
	if !b.EvidenceComplete() {
		return refusal.Newf(refusal.NotFound, "no bundle of it is complete: there is neither a test log nor a grading document")
	}
	_, err = b.Pack(witness.Seals{})
	return err
}

// look reads a piece for nothing but to see that it is whole.
func (p *pastReading) look(d digest.Content) error {
	if p.sawWhole(d) {
		return nil
	}
	if err := p.vault.Check(d, maxEvidence); err != nil {
		return err
	}
	p.noteWhole(d)
	return nil
}

func (p *pastReading) sawWhole(d digest.Content) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[d]
}

// noteWhole remembers a piece. What many cases share comes again soon; all that
// a long attempt has would take more memory than anything else.
func (p *pastReading) noteWhole(d digest.Content) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= maxSeen {
		clear(p.seen)
	}
	p.seen[d] = true
}

const maxSeen = 1 << 14

// attempt finds an attempt that a person named.
func (p *pastReading) attempt(id string) (*scorecard.Attempt, error) {
	if a := p.history.Attempt(id); a != nil {
		return a, nil
	}
	var known []string
	for _, a := range p.history.Attempts {
		known = append(known, a.ID)
	}
	return nil, noAttempt(p.history.Origin, known, id)
}

func noAttempt(origin string, known []string, id string) error {
	err := refusal.Newf(refusal.UnknownName, "no attempt %q in the ledger %s", id, origin)
	if near, ok := closest(id, known); ok {
		return err.WithHint("did you mean %q?", near)
	}
	if n := len(known); n > 0 {
		return err.WithHint("it has %d attempts, the last is %s", n, known[n-1])
	}
	return err.WithHint(`it has no attempts yet; "tally run CLASS" makes one`)
}

// parseSince reads a point in time as days ago (90d) or a date.
func parseSince(since string, now time.Time) (time.Time, error) {
	if since == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(since, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if day, err := time.Parse(time.DateOnly, since); err == nil {
		return day, nil
	}
	return time.Time{}, refusal.Newf(refusal.Usage, "--since %q is neither days as in 90d, nor a date as in 2026-05-01", since)
}

// A keptCheckpoint is a cosigned checkpoint that was kept beside the ledger. A
// day has one anchor file, which the last publication of the day replaces; the
// checkpoint of a registration would be lost with it.
type keptCheckpoint struct {
	path string
	note []byte
	head ledger.TreeHead
}

// loadCheckpoints reads what KeepCheckpoint kept. Nothing is verified yet.
func loadCheckpoints(w *archive.Place) ([]keptCheckpoint, error) {
	dir := w.CheckpointsDir()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading checkpoints: %w", err)
	}
	var kept []keptCheckpoint
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".checkpoint") {
			continue
		}
		c := keptCheckpoint{path: filepath.Join(dir, e.Name())}
		if c.note, err = store.ReadFile(store.OS{}, c.path, 1<<20); err != nil {
			return nil, err
		}
		text, _, _ := strings.Cut(string(c.note), "\n\n")
		if c.head, err = ledger.ParseTreeHead(text + "\n"); err != nil {
			return nil, refusal.Newf(refusal.CheckpointInvalid, "%s: %w", c.path, err).WithHint("it was changed after it was kept; restore it, or set it aside: attempts then lose the level witnessed")
		}
		kept = append(kept, c)
	}
	return kept, nil
}

// expectation is what the ledger must contain to agree with the checkpoint.
func (c keptCheckpoint) expectation() ledger.Expectation {
	return ledger.Expectation{TreeHead: c.head, Source: "the checkpoint " + filepath.Base(c.path), Confirm: func(signers *seal.Signers) error {
		var keys []ledger.LogKey
		for _, e := range signers.Entries() {
			if pub, ok := e.Key.Ed25519(); ok && slices.Contains(e.Roles, seal.Operator) {
				keys = append(keys, ledger.LogKey{Origin: c.head.Origin, Key: pub})
			}
		}
		_, err := ledger.VerifyCheckpoint(c.note, ledger.Policy{Logs: keys})
		return err
	}}
}

// cosignedCheckpoints verifies which checkpoints the workspace's witnesses
// cosigned. That the ledger contains them was checked when it was verified.
func cosignedCheckpoints(s workspace.Settings, v *ledger.Verified, anchors []sequencer.AnchorFile, kept []keptCheckpoint) ([]scorecard.Cosigned, error) {
	if len(s.Witnesses) == 0 {
		return nil, nil
	}
	policy := ledger.Policy{Logs: v.EveryKey()}
	var err error
	if policy.Witnesses, err = witnessVerifiers(s); err != nil {
		return nil, err
	}
	notes := make(map[string][]byte)
	for _, a := range anchors {
		notes[a.Path] = []byte(a.Checkpoint)
	}
	for _, c := range kept {
		notes[c.path] = c.note
	}
	var out []scorecard.Cosigned
	for path, note := range notes {
		c, err := ledger.VerifyCheckpoint(note, policy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(c.Cosignatures) >= max(1, s.Quorum) {
			out = append(out, scorecard.Cosigned{Size: c.Size, Witnesses: c.Cosignatures})
		}
	}
	return out, nil
}
