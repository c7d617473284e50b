// Package verify recognises what Tallystick wrote and verifies it: a ledger
// folder, a receipt, an anchor, a checkpoint, a bundle, a submission package,
// a report, a credential, a site written by "tally view --bundle". It is
// what the stranger's program tally-verify consists of, and what "tally verify"
// calls.
//
// It reads files and nothing else: no network, no key, no memory of this
// machine. Who is trusted is given by the caller; there is no default.
package verify

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/share/browser/report"
)

// maxFileBytes bounds a single file that is to be recognised.
const maxFileBytes = bundle.MaxBytes

// Trust says whom the caller believes.
type Trust struct {
	Root      digest.ID       // version 1 of the signers file, for ledgers
	Logs      []ledger.LogKey // for receipts, anchors, checkpoints and bundles
	Witnesses []note.Verifier
	Quorum    int    // of the witnesses; 0 asks for all of them
	Entry     []byte // of a receipt that does not carry its own
	// Signers gives who was trusted when an anchor was published, for the signatures
	// of people on it; see [ledger.Policy].
	Signers func(origin string, size int64) *seal.Signers
	HMACKey []byte // shared with the packer of a bundle
	// BundleKeys are of who may have signed a bundle, in place of the ledgers' keys.
	BundleKeys []ed25519.PublicKey
	// OwnLogs says that Logs are the workspace's own, which the caller did not name:
	// then they are not demanded of a bundle for which another key was named.
	OwnLogs bool
	// Credentials is for credentials; its zero value is enough for one that only
	// did:keys signed and that has no status.
	Credentials Credentials
	// Remembered, if set, gives what this machine remembers of a ledger, which
	// the ledger must contain. It returns nil for one that it never signed.
	Remembered func(origin string) (*ledger.TreeHead, error)
	// Place, if set, verifies what is known by its place in a workspace and not
	// by its content. It reports false for any other path.
	Place func(path string) (kind, detail string, known bool, err error)

	// Pins are what the caller knows of a ledger.
	Pins Pins

	witnessKeys map[string]string // key to name
	assumed     *[]string         // see Item.Assumed
	claim       **Claim           // see Item.Claim
}

// AddLog trusts a ledger's key in the form NAME+ID+KEY.
func (t *Trust) AddLog(vkey string) error {
	origin, key, err := seal.ParseLogKey(vkey)
	if err != nil {
		return err
	}
	t.Logs = append(t.Logs, ledger.LogKey{Origin: origin, Key: key})
	return nil
}

// AddWitness trusts a witness's key in the form NAME+ID+KEY.
func (t *Trust) AddWitness(vkey string) error {
	v, err := seal.CosignatureVerifier(vkey)
	if err != nil {
		return err
	}
	key, err := seal.WitnessKey(vkey)
	if err != nil {
		return err
	}
	if other, ok := t.witnessKeys[string(key)]; ok {
		return refusal.Newf(refusal.DuplicateKey, "%s and %s have the same key, so they are one witness", other, v.Name())
	}
	if t.witnessKeys == nil {
		t.witnessKeys = make(map[string]string)
	}
	t.witnessKeys[string(key)] = v.Name()
	t.Witnesses = append(t.Witnesses, v)
	return nil
}

// Validate refuses what nothing could ever meet, which is the caller's mistake
// and no fault of the evidence.
func (t Trust) Validate() error {
	if t.Quorum < 0 || t.Quorum > len(t.Witnesses) {
		return refusal.Newf(refusal.Usage, "a quorum of %d cannot be reached: %d witnesses are trusted", t.Quorum, len(t.Witnesses)).
			WithHint("name each trusted witness with --witness")
	}
	return nil
}

// Policy is what checkpoints have to meet.
func (t Trust) Policy() ledger.Policy {
	quorum := t.Quorum
	if quorum == 0 {
		quorum = len(t.Witnesses) // a caller who names a witness wants to see its signature
	}
	return ledger.Policy{Logs: t.Logs, Witnesses: t.Witnesses, Quorum: quorum, Signers: t.Signers}
}

// An Item is what was found at one path.
type Item struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Verified bool   `json:"verified"`
	Detail   string `json:"detail"`
	// Assumed are what the caller did not pin, and the verdict rests on.
	Assumed []string `json:"assumed,omitempty"`
	// Status is [NotRecounted] for an answer that could not be made again:
	// nothing in it is known to be wrong, and it is not verified.
	Status string `json:"status,omitempty"`
	// Name is that of the refusal, if it did not verify.
	Name refusal.Name `json:"name,omitempty"`
	// Claim is what a proof of a case or an attempt says.
	*Claim
	err error
}

// NotRecounted is the status of an answer that could not be made again.
const NotRecounted = "not recounted"

// Err is why the item did not verify, or nil.
func (i Item) Err() error { return i.err }

// Path recognises what is at path and verifies it.
func Path(path string, t Trust) Item {
	var assumed []string
	var said *Claim
	t.assumed, t.claim = &assumed, &said
	kind, detail, err := recognise(path, t)
	item := Item{Path: path, Type: kind, Verified: err == nil, Detail: detail, Claim: said, err: err}
	if err == nil {
		item.Assumed = assumed
	}
	if err != nil {
		item.Detail, item.Name = err.Error(), refusal.Of(err).Name
	}
	return item
}

// proof verifies a file that [ledger.MarshalProofs] wrote.
func proof(data []byte, t Trust) (string, string, error) {
	c, detail, err := claim(data, t)
	if *t.claim = c; err == nil {
		err = t.checkOrigin(c.Origin)
	}
	if err != nil {
		return "receipt", "", err
	}
	if c.Level == levelSigned {
		t.assume("people signed the bench, and not example people: the proof shows that the ledger's key signed the registration, and no more")
	}
	t.assume("the tree of %d entries is still part of the ledger, and holds the newest registration of the class: only its newest copy tells", c.TreeSize)
	return "receipt", detail, nil
}

func recognise(path string, t Trust) (kind, detail string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "unknown", "", refusal.Newf(refusal.Unreadable, "reading %s: %w", path, err).WithHint("check the path")
	}
	if t.Place != nil {
		if kind, detail, known, err := t.Place(path); known {
			return kind, detail, err
		}
	}
	if info.IsDir() {
		if isPackage(path) {
			return submitted(path, readPackage, t)
		}
		if isSite(path) {
			return writtenSite(path, t)
		}
		return folder(path, t)
	}
	if isZip(path) {
		return submitted(path, readZip, t)
	}
	data, err := store.ReadFile(store.OS{}, path, maxFileBytes)
	if err != nil {
		return "unknown", "", err
	}
	return recogniseFile(path, data, t)
}

// recogniseFile recognises one file by its bytes and verifies it. Beside path lies what
// belongs to it.
func recogniseFile(path string, data []byte, t Trust) (kind, detail string, err error) {
	switch {
	// A bundle goes first: it may carry a receipt, and with it a checkpoint.
	case bundle.IsBundle(data):
		return bundleFile(data, t)
	case ledger.IsProofs(data):
		return proof(data, t)
	case ledger.IsReceipt(data):
		return receipt(path, data, t)
	case report.Is(data):
		return reported(data, t)
	case bytes.Contains(data[:min(len(data), 4096)], []byte(`"schema":"tallystick-anchor/`)) || looksLikeAnchor(data):
		return anchor(data, t)
	case isCredential(data):
		return credential(data, t)
	case isEnvelope(data):
		return envelope(data, t)
	case bytes.Contains(data, []byte("\n\n— ")):
		return checkpoint(data, t)
	}
	return "unknown", "", refusal.Newf(refusal.Unrecognised, "%s is not a kind of file that this program knows", path).
		WithHint("it knows ledger folders, receipts, anchors, checkpoints, bundles, submission packages, reports, written sites, credentials and DSSE envelopes")
}

// looksLikeAnchor recognises an anchor by what it cannot do without, so that
// one whose schema was changed is refused as an anchor and not as a stranger.
func looksLikeAnchor(data []byte) bool {
	return len(data) > 0 && data[0] == '{' && bytes.Contains(data, []byte(`"checkpoint":`)) && bytes.Contains(data, []byte(`"published_at":`))
}

func receipt(path string, data []byte, t Trust) (string, string, error) {
	entry := t.Entry
	// What lies beside a receipt that carries its entry is not part of it.
	if r, err := ledger.ParseReceipt(data); err == nil && r.Entry == nil && entry == nil && path != "" {
		if beside := path + ".entry.json"; exists(beside) {
			if entry, err = store.ReadFile(store.OS{}, beside, maxFileBytes); err != nil {
				return "receipt", "", err
			}
		}
	}
	p, err := ledger.VerifyReceipt(data, entry, t.Policy())
	if err == nil {
		err = t.checkOrigin(p.Checkpoint.Origin)
	}
	if err != nil {
		return "receipt", "", err
	}
	t.assume("the tree of %d entries is still part of the ledger: only its newest copy tells, with --extends %s", p.Checkpoint.Size, path)
	return "receipt", fmt.Sprintf("entry %d of %s: %s of %s, in a tree of %d%s", p.Index, p.Checkpoint.Origin, p.Entry.Kind, p.Entry.Time,
		p.Checkpoint.Size, cosigned(p.Checkpoint)), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func anchor(data []byte, t Trust) (string, string, error) {
	a, err := ledger.VerifyAnchor(data, t.Policy())
	if err == nil {
		err = t.checkOrigin(a.Origin)
	}
	if err != nil {
		return "anchor", "", err
	}
	detail := fmt.Sprintf("%s on %s: %d entries, head %s%s", a.Origin, a.Date, a.Size, a.Head, cosigned(a.Checkpoint))
	if who := a.WhoSigned(); who != "" {
		detail += "; " + who
	}
	return "anchor", detail, nil
}

func checkpoint(data []byte, t Trust) (string, string, error) {
	c, err := ledger.VerifyCheckpoint(data, t.Policy())
	if err == nil {
		err = t.checkOrigin(c.Origin)
	}
	if err != nil {
		return "checkpoint", "", err
	}
	return "checkpoint", fmt.Sprintf("%s: %d entries, root %s%s", c.Origin, c.Size, c.Root, cosigned(c)), nil
}

// bundleFile verifies a bundle: its HMAC if the key is given, the Ed25519
// signature by the key of a trusted ledger, and the receipt if it has one. A
// bundleFile that carries none of what is trusted is refused.
func bundleFile(data []byte, t Trust) (string, string, error) {
	trust := bundle.Trust{HMACKey: t.HMACKey, Signers: t.BundleKeys}
	named := t.HMACKey != nil || t.BundleKeys != nil
	if !named || !t.OwnLogs && t.BundleKeys == nil {
		for _, l := range t.Logs {
			trust.Signers = append(trust.Signers, l.Key)
		}
	}
	if p, err := bundle.Parse(data); err == nil && p.Receipt != nil && !(named && t.OwnLogs) {
		trust.Ledger = t.Policy()
	}
	v, err := bundle.Verify(data, trust)
	if err != nil {
		return "bundle", "", err
	}
	detail := fmt.Sprintf("task %s, %s, %d tool calls", v.TaskID, v.Outcome, len(v.Trace))
	if v.Proved != nil {
		detail += fmt.Sprintf(", entry %d of %s", v.Proved.Index, v.Proved.Checkpoint.Origin)
	}
	if unchecked := v.Unchecked(); len(unchecked) > 0 {
		detail += "; not checked: " + strings.Join(unchecked, ", ")
	}
	return "bundle", detail, nil
}

func cosigned(c *ledger.Checkpoint) string {
	if len(c.Cosignatures) == 0 {
		return ""
	}
	return ", cosigned by " + strings.Join(c.Cosignatures, ", ")
}

// folder verifies a ledger folder, or the one inside a workspace.
func folder(path string, t Trust) (string, string, error) {
	// A registry keeps its anchors in the folder of its ledger.
	place := sequencer.Place{FS: store.OS{}, Dir: path, Anchors: filepath.Join(path, "anchors")}
	var receipts []ledger.Expectation
	if _, err := os.Stat(filepath.Join(path, ".tally")); err == nil {
		place.Dir, place.Anchors = filepath.Join(path, ".tally", "ledger"), filepath.Join(path, "audit", "anchors")
		place.Checkpoints = filepath.Join(path, ".tally", "checkpoints")
		if receipts, err = sequencer.Receipts(place.FS, path); err != nil {
			return "ledger", "", err
		}
	}
	switch _, err := os.Stat(filepath.Join(place.Dir, "segments")); {
	case errors.Is(err, fs.ErrNotExist):
		return "unknown", "", refusal.Newf(refusal.Unrecognised, "%s is a folder without a ledger", path).
			WithHint("give the workspace, or the folder that holds segments")
	case err != nil:
		return "unknown", "", refusal.Newf(refusal.Unreadable, "reading %s: %w", path, err)
	}
	detail, err := ledgerFolder(place, receipts, t)
	return "ledger", detail, err
}

func ledgerFolder(place sequencer.Place, receipts []ledger.Expectation, t Trust) (string, error) {
	anchors, err := sequencer.LoadAnchors(place.FS, place.Anchors)
	if err != nil {
		return "", err
	}
	// Why the memory could not be asked is said after the walk, if that finds
	// nothing: it may know better, from the anchors.
	expect, unasked := t.memory(place)
	expect = append(append(expect, sequencer.AnchorExpectations(anchors)...), receipts...)
	if held := t.Pins.Held; held != nil {
		expect = append(expect, ledger.Expectation{TreeHead: *held, Source: "the checkpoint in " + t.Pins.HeldFrom})
	}
	tiles, err := place.CheckTiles()
	if err != nil {
		return "", err
	}
	var seen walked
	// A holder of a checkpoint of the ledger holds its first entry with it, and
	// who is trusted with that.
	v, err := place.Verify(ledger.Options{TrustRoot: t.Root, UnsafeAnyRoot: t.Root.IsZero() && t.Pins.Held != nil, Expect: expect, Decode: true, EverySeal: true, Visit: func(r ledger.Record) error {
		seen.visit(r, t.Pins.KnownHead)
		return tiles.Visit(r)
	}})
	if err == nil {
		err = unasked
	}
	if err == nil {
		err = seen.check(t, v)
	}
	if err != nil {
		return "", err
	}
	problems, err := tiles.Problems(v)
	if err != nil {
		return "", err
	}
	if len(problems) > 0 {
		return "", problems[0].Refusal()
	}
	detail := fmt.Sprintf("%s: %d entries, head %s, %d anchors", v.Origin, v.Size, v.Head, len(anchors))
	if v.Tail.Torn > 0 {
		detail += fmt.Sprintf("; %d bytes after the last seal, left by a crash, are not part of it", v.Tail.Torn)
	}
	return detail, nil
}

// memory is what this machine remembers of the ledger. It is filed by origin,
// which the first entry states, and read before the walk: a writer at work
// meanwhile must not make the memory look ahead of the ledger.
func (t Trust) memory(place sequencer.Place) ([]ledger.Expectation, error) {
	if t.Remembered == nil {
		return nil, nil
	}
	var origin string
	stop := errors.New("the origin is known")
	_, err := place.Verify(ledger.Options{TrustRoot: t.Root, Decode: true, Visit: func(r ledger.Record) error {
		if opened, ok := r.Body.(*evidence.Opened); ok {
			origin = opened.Origin
		}
		return stop
	}})
	if !errors.Is(err, stop) {
		return nil, err
	}
	known, err := t.Remembered(origin)
	if err != nil || known == nil {
		return nil, err
	}
	return []ledger.Expectation{sequencer.MemoryExpectation(*known)}, nil
}

// Paths verifies several paths. The error is the one that decides the exit
// code: evidence that does not verify before anything else.
func Paths(paths []string, t Trust) ([]Item, error) {
	var items []Item
	var worst error
	for _, p := range paths {
		item := Path(p, t)
		items = append(items, item)
		if err := item.Err(); err != nil && (worst == nil || rank(err) > rank(worst)) {
			if worst = err; !strings.Contains(err.Error(), p) {
				worst = fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	return items, worst
}

// rank orders errors by how much they matter to a reader who asked for proof.
func rank(err error) int {
	switch refusal.ExitCode(err) {
	case refusal.ExitUnverified:
		return 3
	case refusal.ExitUsage:
		return 2
	}
	return 1
}

// TrustPeople trusts the people of a signers file, of whichever version, for
// signatures of people on anchors.
func (t *Trust) TrustPeople(path string) error {
	data, err := store.ReadFile(store.OS{}, path, 1<<20)
	if err != nil {
		return err
	}
	s, err := seal.ParseSigners(path, data)
	if err != nil {
		return err
	}
	t.Signers = func(string, int64) *seal.Signers { return s }
	return nil
}

// RootOf is the trust root that a file with version 1 of the signers gives.
func RootOf(path string) (digest.ID, error) {
	data, err := store.ReadFile(store.OS{}, path, 1<<20)
	if err != nil {
		return digest.ID{}, err
	}
	s, err := seal.ParseSigners(path, data)
	if err != nil {
		return digest.ID{}, err
	}
	if s.Version() != 1 {
		return digest.ID{}, refusal.Newf(refusal.Usage, "%s is version %d of the signers; trust starts at version 1", path, s.Version())
	}
	return s.Digest(), nil
}
