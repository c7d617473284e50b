package outgoing

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// bundleSuffix is how the files are called that are packed into a folder.
const bundleSuffix = ".rvf"

// Bundles is what came of packing the cases of an attempt.
type Bundles struct {
	Attempt    string          `json:"attempt"`
	Level      history.Level   `json:"level"`
	Bundles    []CaseBundle    `json:"bundles"`
	NotRun     int             `json:"not_run"` // tasks without a record, of which there is no bundle
	Problems   []BundleProblem `json:"problems"`
	Ed25519Key string          `json:"ed25519_key,omitempty"`
	LedgerKey  string          `json:"ledger_key"`
}

// A CaseBundle is the bundle of one record.
type CaseBundle struct {
	CaseID string `json:"case_id"`
	Repeat int32  `json:"repeat"`
	Entry  int64  `json:"entry"`
	PackedBundle
}

// A PackedBundle is a bundle on disk.
type PackedBundle struct {
	Path             string `json:"path"`
	Bytes            int    `json:"bytes"`
	TaskID           string `json:"task_id"`
	Outcome          string `json:"outcome"`
	Signed           bool   `json:"signed"`
	Ed25519Key       string `json:"ed25519_key,omitempty"`
	EvidenceComplete bool   `json:"evidence_complete"`
}

// A BundleProblem is a record of which no bundle could be made.
type BundleProblem struct {
	CaseID string       `json:"case_id"`
	Repeat int32        `json:"repeat"`
	Entry  int64        `json:"entry"`
	Name   refusal.Name `json:"name"`
	Detail string       `json:"detail"`
}

// PackOptions say what to pack, and where.
type PackOptions struct {
	Attempt string
	Case    string // "" for all
	Out     string // a folder, or the file of the only case
	// Seals are the keys that a person named. Without a private key among them
	// it is the operator's, who vouches for the ledger already.
	Seals bundle.Seals
	// ShowHeldOut packs held-out cases as they are.
	ShowHeldOut bool
	// Accept verifies the bytes of a bundle as a reader would; what it refuses is not
	// written, and ends the packing.
	Accept func(data []byte, seals bundle.Seals, ledgerKey string) error
}

// PackAttempt packs a bundle for each record of an attempt, from the verified
// ledger and from evidence that has the digests which the ledger names. A record
// whose evidence is missing or changed is among the problems, and the error is
// that of the worst; the answer is there all the same.
func PackAttempt(p *dossier.Place, o PackOptions) (*Bundles, error) {
	a, err := p.ReadAttempt(o.Attempt, dossier.Ask{Prove: true, ShowHeldOut: o.ShowHeldOut})
	if err != nil {
		return nil, err
	}
	x := &packer{place: p, attempt: a.Public(), out: o.Out, one: o.Case != "", seals: o.Seals, accept: o.Accept}
	if err := x.choose(o.Case); err != nil {
		return nil, err
	}
	if err := x.findKey(); err != nil {
		return nil, err
	}
	if err := x.prove(); err != nil {
		return nil, err
	}
	worst, err := x.packAll()
	if err != nil {
		return nil, err
	}
	if key := x.seals.Key; key != nil {
		x.answer.Ed25519Key = hex.EncodeToString(key[32:])
	}
	if worst != nil {
		worst = p.Refused(worst)
	}
	return &x.answer, worst
}

// A packer packs the cases of one attempt.
type packer struct {
	place   *dossier.Place
	attempt *dossier.Public
	out     string
	one     bool // a case is named
	seals   bundle.Seals
	cases   []*dossier.PublicCase
	proofs  map[int64]dossier.Proof
	accept  func([]byte, bundle.Seals, string) error
	answer  Bundles
}

// choose lists the records that are wanted.
func (p *packer) choose(caseID string) error {
	a := p.attempt
	p.answer = Bundles{Attempt: a.ID, Level: a.Level, Bundles: []CaseBundle{}, Problems: []BundleProblem{}}
	var known []string
	planned := false
	for c := range a.Cases() {
		known = append(known, c.ID)
		if caseID != "" && c.ID != caseID {
			continue
		}
		planned = true
		if c.Index < 0 {
			p.answer.NotRun++
			continue
		}
		one, err := a.Case(c)
		if err != nil {
			return err
		}
		p.cases = append(p.cases, one)
	}
	if caseID == "" {
		p.answer.NotRun += a.Unlisted()
	}
	switch {
	case caseID != "" && !planned:
		return refusal.Newf(refusal.UnknownName, "attempt %s has no case %q", a.ID, caseID).
			Suggest(caseID, known, `"tally show %s" lists its cases`, a.ID)
	case len(p.cases) == 0:
		return refusal.Newf(refusal.NotFound, "attempt %s: no case ran, so there is nothing to bundle", a.ID)
	}
	return nil
}

// findKey takes the operator's key if none was given.
func (p *packer) findKey() error {
	if p.seals.Key != nil {
		return nil
	}
	var key *seal.Key
	key, err := p.place.OperatorKey()
	if err == nil {
		p.seals.Key = key.Ed25519()
		return nil
	}
	// A person who has a copy of the ledger and not its key can sign with another
	// secret.
	if p.seals.HMACKey != nil && refusal.Is(err, refusal.Unreadable) {
		p.place.Note("no operator key here: the bundles get the HMAC alone")
		return nil
	}
	return err
}

// prove makes the receipts of the records.
func (p *packer) prove() error {
	indexes := make([]int64, len(p.cases))
	for i, c := range p.cases {
		indexes[i] = c.Index
	}
	var err error
	p.proofs, p.answer.LedgerKey, err = p.attempt.Prove(indexes...)
	return err
}

// packAll packs and writes. A record whose evidence is missing or changed is a
// problem and does not keep the others from being packed; what cannot be read
// or written ends it.
func (p *packer) packAll() (worst, err error) {
	// With --case alone a person may mean a file.
	folder := !p.one || len(p.cases) > 1 || strings.HasSuffix(p.out, string(filepath.Separator)) || isFolder(p.out)
	if folder {
		if err := store.MakeDir(store.OS{}, p.out, 0o755); err != nil {
			return nil, err
		}
	}
	w := newBundleWriter()
	for _, c := range p.cases {
		b, data, err := p.pack(c)
		if err != nil {
			err = fmt.Errorf("case %s (entry %d): %w", c.ID, c.Index, err)
			if !dossier.SpeaksOfEvidence(err) {
				return nil, cmp.Or(w.close(), err)
			}
			p.answer.Problems = append(p.answer.Problems, BundleProblem{c.ID, c.Repeat, c.Index, refusal.Of(err).Name, err.Error()})
			if worst == nil || refusal.ExitCode(err) > refusal.ExitCode(worst) {
				worst = err
			}
			continue
		}
		if err := p.accept(data, p.seals, p.answer.LedgerKey); err != nil {
			return nil, cmp.Or(w.close(), fmt.Errorf("case %s (entry %d): %w", c.ID, c.Index, err))
		}
		path := p.out
		if folder {
			path = filepath.Join(p.out, p.fileName(c, b))
		}
		p.answer.Bundles = append(p.answer.Bundles, CaseBundle{c.ID, c.Repeat, c.Index, PackedBundle{Path: path, Bytes: len(data), TaskID: b.TaskID.String(),
			Outcome: b.Outcome.String(), Signed: p.seals.HMACKey != nil, EvidenceComplete: b.EvidenceComplete()}})
		w.write(store.Named{Name: path, Data: data})
	}
	return worst, w.close()
}

// fileName is that of a case's bundle in a folder. The id of a case is a name of
// a file, unless another program wrote the record.
func (p *packer) fileName(c *dossier.PublicCase, b *bundle.Bundle) string {
	name := c.ID
	if bench.CheckID(name) != nil {
		name = b.TaskID.String()
	}
	if p.attempt.Plan.Repeat > 1 {
		name = fmt.Sprintf("%s.%d", name, c.Repeat)
	}
	return name + bundleSuffix
}

// pack makes the bundle of one record.
func (p *packer) pack(c *dossier.PublicCase) (*bundle.Bundle, []byte, error) {
	proof := p.proofs[c.Index]
	record, err := dossier.BodyOf[*evidence.CaseScored](c.Index, proof.Entry)
	if err != nil {
		return nil, nil, err
	}
	b, err := c.Bundle(record)
	if err != nil {
		return nil, nil, err
	}
	seals := p.seals
	// The entry goes inside however long it is: a bundle is one file.
	receipt := proof.Receipt()
	receipt.Entry = proof.Raw
	if seals.Receipt, err = receipt.Marshal(); err != nil {
		return nil, nil, err
	}
	if seals.Key == nil {
		b.Full = nil
	}
	data, err := b.Pack(seals)
	return b, data, err
}

// A bundleWriter writes bundles while others are packed. A file system syncs for
// many that wait with one turn of its journal; one after the other, 5,000 bundles
// took 43 seconds.
type bundleWriter struct {
	files  chan store.Named
	failed chan error // one from each goroutine
}

const (
	// bundleWriters is how many wait for the disk at once; more gained nothing.
	bundleWriters = 32
	// A writer gathers so many files, and no more bytes than that, before it
	// syncs the folder for all of them.
	bundleBatch      = 16
	bundleBatchBytes = 1 << 20
)

func newBundleWriter() *bundleWriter {
	w := &bundleWriter{make(chan store.Named), make(chan error, bundleWriters)}
	for range bundleWriters {
		go func() { w.failed <- w.run() }()
	}
	return w
}

func (w *bundleWriter) write(f store.Named) { w.files <- f }

// run writes what comes, in batches. After an error it writes nothing more, and
// takes what comes all the same.
func (w *bundleWriter) run() (err error) {
	var batch []store.Named
	bytes := 0
	flush := func() {
		if err == nil {
			err = store.WriteFiles(store.OS{}, batch, 0o644)
		}
		clear(batch)
		batch, bytes = batch[:0], 0
	}
	for f := range w.files {
		batch, bytes = append(batch, f), bytes+len(f.Data)
		if len(batch) == bundleBatch || bytes >= bundleBatchBytes {
			flush()
		}
	}
	flush()
	return err
}

// close returns when everything is on disk, or the first error.
func (w *bundleWriter) close() error {
	close(w.files)
	var first error
	for range bundleWriters {
		first = cmp.Or(first, <-w.failed)
	}
	return first
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
