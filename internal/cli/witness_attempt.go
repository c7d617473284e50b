package cli

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/seal"
	"tallystick/internal/store"
	"tallystick/internal/witness"
	"tallystick/internal/witness/derive"
)

// bundleSuffix is how the files are called that pack writes into a folder.
const bundleSuffix = ".rvf"

// namesAttempt reports whether the source of pack is an attempt of the
// workspace. A file or folder that describes a bundle goes before one; what
// looks like a path, and everything outside a workspace, is none.
func (e *Env) namesAttempt(source string) bool {
	info, err := os.Stat(source)
	if err == nil && (!info.IsDir() || fileExists(filepath.Join(source, metaFile))) {
		return false
	}
	if strings.ContainsRune(source, filepath.Separator) || filepath.Ext(source) == ".json" {
		return false
	}
	_, err = e.open()
	return err == nil
}

// attemptBundles is what came of packing the cases of an attempt.
type attemptBundles struct {
	Attempt    string          `json:"attempt"`
	Level      scorecard.Level `json:"level"`
	Bundles    []caseBundle    `json:"bundles"`
	NotRun     int             `json:"not_run"` // tasks without a record, of which there is no bundle
	Problems   []bundleProblem `json:"problems"`
	Ed25519Key string          `json:"ed25519_key,omitempty"`
	LedgerKey  string          `json:"ledger_key"`
}

type caseBundle struct {
	CaseID string `json:"case_id"`
	Repeat int32  `json:"repeat"`
	Entry  int64  `json:"entry"`
	witnessPackAnswer
}

// A bundleProblem is a record of which no bundle could be made.
type bundleProblem struct {
	CaseID string       `json:"case_id"`
	Repeat int32        `json:"repeat"`
	Entry  int64        `json:"entry"`
	Name   refusal.Name `json:"name"`
	Detail string       `json:"detail"`
}

// packAttempt packs a bundle for each record of an attempt, from the verified
// ledger and from evidence that has the digests which the ledger names.
func packAttempt(env *Env, o witnessPackOptions) error {
	if o.receipt != "" {
		return refusal.Newf(refusal.Usage, "--receipt is for a bundle that is described; those of an attempt get the ledger's own")
	}
	past, err := env.readPast(func(a *scorecard.Attempt) bool { return a.ID == o.source })
	if err != nil {
		return err
	}
	a, err := past.attempt(o.source)
	if err != nil {
		return err
	}
	p := &attemptPacker{env: env, past: past, attempt: a, out: o.out, one: o.caseID != ""}
	if err := p.choose(o.caseID); err != nil {
		return err
	}
	if p.seals, err = env.attemptSeals(past, o); err != nil {
		return err
	}
	if err := p.prove(); err != nil {
		return err
	}
	worst, err := p.packAll()
	if err != nil {
		return err
	}
	if key := p.seals.Key; key != nil {
		p.answer.Ed25519Key = hex.EncodeToString(key[32:])
	}
	if err := env.Answer(p.answer, p.answer.text); err != nil {
		return err
	}
	if worst != nil {
		return past.w.Alarm(worst)
	}
	return nil
}

// An attemptPacker packs the cases of one attempt.
type attemptPacker struct {
	env     *Env
	past    *pastReading
	attempt *scorecard.Attempt
	out     string
	one     bool // a case is named
	seals   witness.Seals
	cases   []*scorecard.Case
	proofs  map[int64]archive.Proof
	answer  attemptBundles
}

// choose lists the records that are wanted.
func (p *attemptPacker) choose(caseID string) error {
	a := p.attempt
	p.answer = attemptBundles{Attempt: a.ID, Level: a.Level, Bundles: []caseBundle{}, Problems: []bundleProblem{}}
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
		p.cases = append(p.cases, c)
	}
	if caseID == "" {
		p.answer.NotRun += a.Unlisted()
	}
	switch {
	case caseID != "" && !planned:
		err := refusal.Newf(refusal.UnknownName, "attempt %s has no case %q", a.ID, caseID)
		if near, ok := closest(caseID, known); ok {
			return err.WithHint("did you mean %q?", near)
		}
		return err
	case len(p.cases) == 0:
		return refusal.Newf(refusal.NotFound, "attempt %s has no record of it: nothing was run, and there is no bundle of nothing", a.ID)
	}
	return nil
}

// attemptSeals loads the keys: of the flags, and else the operator's, who
// vouches for the ledger already.
func (e *Env) attemptSeals(past *pastReading, o witnessPackOptions) (witness.Seals, error) {
	s, err := o.seals()
	if err != nil || s.Key != nil {
		return s, err
	}
	var key *seal.Key
	if key, err = past.w.OperatorKey(); err == nil {
		s.Key = key.Ed25519()
		return s, nil
	}
	// Whoever has a copy of the ledger and not its key can sign with a secret
	// of his own.
	if s.HMACKey != nil && refusal.Is(err, refusal.Unreadable) {
		e.Note("no operator key here: the bundles get the HMAC alone")
		return s, nil
	}
	return s, err
}

// prove makes the receipts of the records.
func (p *attemptPacker) prove() error {
	indexes := make([]int64, len(p.cases))
	for i, c := range p.cases {
		indexes[i] = c.Index
	}
	var err error
	p.proofs, p.answer.LedgerKey, err = p.past.w.Prove(indexes)
	return err
}

// packAll packs and writes. A record whose evidence is missing or changed is a
// problem and does not keep the others from being packed; what cannot be read
// or written ends it.
func (p *attemptPacker) packAll() (worst, err error) {
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
			if !speaksOfEvidence(err) {
				return nil, cmp.Or(w.close(), err)
			}
			p.answer.Problems = append(p.answer.Problems, bundleProblem{c.ID, c.Repeat, c.Index, refusal.Of(err).Name, err.Error()})
			if worst == nil || refusal.ExitCode(err) > refusal.ExitCode(worst) {
				worst = err
			}
			continue
		}
		path := p.out
		if folder {
			path = filepath.Join(p.out, p.fileName(c, b))
		}
		p.answer.Bundles = append(p.answer.Bundles, caseBundle{c.ID, c.Repeat, c.Index, witnessPackAnswer{Path: path, Bytes: len(data), TaskID: b.TaskID.String(),
			Outcome: b.Outcome.String(), Signed: p.seals.HMACKey != nil, EvidenceComplete: b.EvidenceComplete()}})
		w.write(store.Named{Name: path, Data: data})
	}
	return worst, w.close()
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

// speaksOfEvidence reports whether an error is about what the evidence is, and
// not about whether it could be read.
func speaksOfEvidence(err error) bool {
	switch refusal.Of(err).Name {
	case refusal.NotFound, refusal.Malformed, refusal.TooLarge:
		return true
	}
	return refusal.ExitCode(err) == refusal.ExitUnverified
}

// fileName is that of a case's bundle in a folder. The id of a case is a name of
// a file, unless somebody else's program wrote the record.
func (p *attemptPacker) fileName(c *scorecard.Case, b *witness.Bundle) string {
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
func (p *attemptPacker) pack(c *scorecard.Case) (*witness.Bundle, []byte, error) {
	proof := p.proofs[c.Index]
	_, body, err := evidence.DecodeEntry(proof.Raw)
	if err != nil {
		return nil, nil, err
	}
	record, ok := body.(*evidence.CaseScored)
	if !ok {
		return nil, nil, refusal.Newf(refusal.EntryInvalid, "entry %d is no record of a case any more", c.Index).WithHint("somebody writes to the ledger; pack again")
	}
	files, err := scorecard.FilesOf(c, p.past.read)
	if err != nil {
		return nil, nil, err
	}
	b, err := p.past.bundle(c, record, files, p.past.read)
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

// bundle derives the bundle of a record from its evidence.
func (p *pastReading) bundle(c *scorecard.Case, record *evidence.CaseScored, files *evidence.CaseFiles, read func(digest.Content) ([]byte, error)) (*witness.Bundle, error) {
	v, err := scorecard.TrajectoryIn(files, read)
	if err != nil {
		return nil, err
	}
	d := derive.Case{Record: record, Files: files, Trajectory: v, Read: read}
	if a := c.Amendment; a != nil {
		d.Amendment = &evidence.ScoreAmended{Entry: c.Index, Score: evidence.Score{Passed: a.Passed, Score: a.Score}, Author: a.Author, Reason: a.Reason}
	}
	return derive.Bundle(d)
}

// recordOf is what the history keeps of a record that passed: all that its
// bundle needs but the receipt.
func recordOf(a *scorecard.Attempt, c *scorecard.Case) *evidence.CaseScored {
	return &evidence.CaseScored{Attempt: a.ID, Class: a.Class, CaseID: c.ID, Tags: c.Tags(), Repeat: int(c.Repeat), Execution: int(c.Execution), CaseDigest: c.Digest,
		Outcome: c.Outcome(), Score: &evidence.Score{Passed: c.Outcome() == evidence.Passed, Score: c.Score, FailureModes: c.FailureModes()}, Retries: int(c.Retries),
		JudgedByModel: c.Context.JudgedByModel, EvidenceDigests: append([]digest.Content{}, c.Evidence...)}
}

func (a attemptBundles) text(out io.Writer) {
	for _, b := range a.Bundles {
		fmt.Fprintf(out, "packed   %s: case %s, entry %d, %s, %d bytes\n", plain.Line(b.Path), plain.Line(b.CaseID), b.Entry, b.Outcome, b.Bytes)
	}
	for _, x := range a.Problems {
		fmt.Fprintf(out, "REFUSED  %s\n", plain.Line(x.Detail))
	}
	if a.NotRun > 0 {
		fmt.Fprintf(out, "not run  %d tasks: there is no record of them, so no bundle\n", a.NotRun)
	}
	if len(a.Bundles) > 0 && a.Ed25519Key != "" {
		fmt.Fprintf(out, "Check with: tally witness verify --signer %s --ledger-key %s FILE\n", a.Ed25519Key, plain.Line(a.LedgerKey))
	}
}
