package demo

import (
	"bytes"
	"fmt"
	"path/filepath"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/outgoing"
	"tallystick/internal/share/verify"
)

// A forgery changes a copy of the workspace, and says how it must be refused.
type forgery struct {
	what    string
	refused refusal.Name
	forge   func(d *demo, copied string) error
	check   func(d *demo, copied string) error // verifyCopy unless set
}

// A Forgery is one that was tried, and what came of it.
type Forgery struct {
	Forgery  string       `json:"forgery"`
	Refused  bool         `json:"refused"`
	Name     refusal.Name `json:"name"`
	Expected refusal.Name `json:"expected"`
	Detail   string       `json:"detail"`
}

// demoForgeries begin with an editor and end with an operator who gives a stranger
// changed proofs.
var demoForgeries = []forgery{
	{"raise the failed score", refusal.ChainTamperDetected, editSegment(func(lines [][]byte) ([][]byte, error) {
		i, err := recordOfCase(lines, demoFailed)
		if err == nil {
			lines[i] = raiseScore(lines[i])
		}
		return lines, err
	}), nil},
	{"drop the failed case", refusal.ChainTamperDetected, editSegment(func(lines [][]byte) ([][]byte, error) {
		i, err := recordOfCase(lines, demoFailed)
		if err != nil {
			return nil, err
		}
		return append(lines[:i:i], lines[i+1:]...), nil
	}), nil},
	{"count a good case twice", refusal.ChainTamperDetected, editSegment(func(lines [][]byte) ([][]byte, error) {
		i, err := recordOfCase(lines, demoGood)
		if err != nil {
			return nil, err
		}
		return append(lines, lines[i], lines[len(lines)-1]), nil // with the last seal
	}), nil},
	{"better the totals of the attempt", refusal.ChainTamperDetected, editSegment(func(lines [][]byte) ([][]byte, error) {
		i, err := lineWith(lines, `"kind":"`+string(evidence.AttemptFinishedKind)+`"`)
		if err == nil {
			lines[i] = bytes.Replace(lines[i], []byte(`"outcomes":{"failed":1,"passed":4}`), []byte(`"outcomes":{"failed":0,"passed":5}`), 1)
		}
		return lines, err
	}), nil},
	{"cut off the last entries, seals intact", refusal.HistoryRolledBack, editSegment(cutBeforeAttempt), nil},
	{"put back the copy from before the attempt, to try again", refusal.HistoryRolledBack, func(d *demo, copied string) error {
		if err := store.RemoveTree(copied); err != nil {
			return err
		}
		return copyFolder(d.old, copied)
	}, nil},
	{"raise the score and redo every hash, without the key", refusal.HistoryForked, editSegment(func(lines [][]byte) ([][]byte, error) {
		if _, err := recordOfCase(lines, demoFailed); err != nil {
			return nil, err
		}
		return ledger.Rehash(demoOrigin, lines, func(entry []byte) []byte {
			if bytes.Contains(entry, []byte(`"case_id":"`+demoFailed+`"`)) {
				return raiseScore(entry)
			}
			return entry
		}), nil
	}), nil},
	{"edit the published anchor", refusal.AnchorMismatch, func(_ *demo, copied string) error {
		names, err := filepath.Glob(filepath.Join(copied, "audit", "anchors", "*.json"))
		if err != nil || len(names) == 0 {
			return fmt.Errorf("no anchor to edit: %v", err)
		}
		return replaceIn(names[0], `"size":13`, `"size":3`)
	}, nil},
	{"change in the evidence what the agent paid", refusal.DigestMismatch, func(_ *demo, copied string) error {
		return replaceIn(packOf(copied), `"euros":900`, `"euros":009`)
	}, packAgain},
	{"write better totals beside the ledger", refusal.RecomputeMismatch, func(_ *demo, copied string) error {
		return replaceIn(filepath.Join(copied, ".tally", "runs", demoAttempt+".json"), `"passed": 4`, `"passed": 5`)
	}, countAgain},
	{"soften a case that two people signed", refusal.BenchCaseDigestMismatch, func(_ *demo, copied string) error {
		return replaceIn(filepath.Join(copied, bench.Dir, demoClass, bench.CasesDir, demoFailed, bench.GradingFile), "expect: 0", "expect: 1")
	}, verifyBenches},
	{"lower the gate that they agreed on", refusal.RegistrationDigestMismatch, func(_ *demo, copied string) error {
		return replaceIn(filepath.Join(copied, bench.Dir, demoClass, bench.RegistrationFile), "threshold: 0.6", "threshold: 0.1")
	}, verifyBenches},
	{"let the rubric of another class pass everything", refusal.RubricDigestMismatch, func(_ *demo, copied string) error {
		return replaceIn(filepath.Join(copied, bench.Dir, ceremony.ExampleClass, "rubric.star"), `return result(False, ["wrong_answer"])`, `return result(True, [])`)
	}, verifyBenches},
	{"show a stranger the receipt with another score", refusal.ReceiptInvalid, nothingHere, forgedReceipt},
	{"show a stranger the failed case's bundle as solved", refusal.BundleInvalid, nothingHere, forgedBundle},
}

func nothingHere(*demo, string) error { return nil }

// honest runs every check on the workspace as it is: one that refuses it anyway
// would show nothing about forgeries.
func (d *demo) honest() error {
	for _, check := range []func(*demo, string) error{verifyCopy, packAgain, countAgain, verifyBenches} {
		if err := check(d, d.dir); err != nil {
			return refusal.Newf(refusal.Failed, "the honest workspace was refused: %w", err).WithHint("this is a bug in tally; please report it")
		}
	}
	return nil
}

// try makes one forgery and reports how it was received.
func (d *demo) try(f forgery) Forgery {
	out := Forgery{Forgery: f.what, Expected: f.refused}
	copied := filepath.Join(d.scratch, "forged")
	err := store.RemoveTree(copied)
	if err == nil {
		err = copyFolder(d.dir, copied)
	}
	if err == nil {
		d, err = d.withMemoryOfItsOwn()
	}
	if err == nil {
		err = f.forge(d, copied)
	}
	if err != nil {
		out.Detail = "the forgery itself failed: " + err.Error()
		return out
	}
	check := f.check
	if check == nil {
		check = verifyCopy
	}
	if err = check(d, copied); err != nil {
		out.Refused, out.Name, out.Detail = true, refusal.Of(err).Name, plain.Line(err.Error())
	}
	return out
}

// withMemoryOfItsOwn is the demo on a machine that remembers the same and nothing
// of what a forgery seals: the next one begins where this one did.
func (d *demo) withMemoryOfItsOwn() (*demo, error) {
	state := filepath.Join(d.scratch, "forged-state")
	if err := store.RemoveTree(state); err != nil {
		return nil, err
	}
	if err := copyFolder(filepath.Join(d.scratch, "state"), state); err != nil {
		return nil, err
	}
	other := *d
	other.world = quietWorld(d.world, state)
	return &other, nil
}

// in opens a forged copy, with the memory of the machine on which the honest one
// was written.
func (d *demo) in(copied string) (*dossier.Place, error) { return dossier.Open(copied, d.world) }

// verifyCopy verifies the forged ledger as its owner would.
func verifyCopy(d *demo, copied string) error {
	p, err := d.in(copied)
	if err != nil {
		return err
	}
	_, err = p.Verify(nil)
	return err
}

// verifyBenches verifies the benches of the forged workspace as CI would.
func verifyBenches(d *demo, copied string) error {
	return inCorpus(copied, d.world, func(c *dossier.Corpus) error {
		classes, err := ceremony.EveryClass(c)
		if err != nil {
			return err
		}
		_, _, err = ceremony.VerifyClasses(c, classes)
		return err
	})
}

// packAgain makes the witness bundles of the attempt from the forged evidence.
// The ledger has not changed, and verifies.
func packAgain(d *demo, copied string) error {
	if err := verifyCopy(d, copied); err != nil {
		return refusal.Newf(refusal.Failed, "the honest ledger was refused: %w", err)
	}
	return d.pack(copied, outgoing.PackOptions{Attempt: demoAttempt, Out: filepath.Join(d.scratch, "bundles")})
}

func (d *demo) pack(dir string, o outgoing.PackOptions) error {
	p, err := d.in(dir)
	if err != nil {
		return err
	}
	o.Accept = verify.IssuedBundle
	_, err = outgoing.PackAttempt(p, o)
	return err
}

// countAgain counts every number of the forged workspace again.
func countAgain(d *demo, copied string) error {
	p, err := d.in(copied)
	if err != nil {
		return err
	}
	r, err := answer.ReadForRecount(p)
	if err != nil {
		return refusal.Newf(refusal.Failed, "the honest ledger was refused: %w", err)
	}
	_, err = answer.Recount(r)
	return err
}

// editSegment edits the lines of the first segment.
func editSegment(edit func([][]byte) ([][]byte, error)) func(*demo, string) error {
	return func(_ *demo, copied string) error {
		w := workspace.Workspace{Dir: copied}
		name := filepath.Join(w.LedgerDir(), "segments", "0000000000000000.log")
		data, err := store.ReadFile(store.OS{}, name, 1<<20)
		if err != nil {
			return err
		}
		lines, err := edit(bytes.SplitAfter(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'}))
		if err != nil {
			return err
		}
		for i, l := range lines {
			lines[i] = append(bytes.TrimSuffix(l, []byte{'\n'}), '\n')
		}
		out := bytes.Join(lines, nil)
		if bytes.Equal(out, data) {
			return fmt.Errorf("%s is what it was", name)
		}
		return store.WriteFile(store.OS{}, name, out, 0o600)
	}
}

// lineWith finds the one line that has a text.
func lineWith(lines [][]byte, texts ...string) (int, error) {
	found := -1
	for i, l := range lines {
		all := true
		for _, t := range texts {
			all = all && bytes.Contains(l, []byte(t))
		}
		if all && found >= 0 {
			return 0, fmt.Errorf("more than one line with %q", texts)
		}
		if all {
			found = i
		}
	}
	if found < 0 {
		return 0, fmt.Errorf("no line with %q", texts)
	}
	return found, nil
}

// recordOfCase finds the line with the record of a case.
func recordOfCase(lines [][]byte, id string) (int, error) {
	return lineWith(lines, `"case_id":"`+id+`"`, `"kind":"`+string(evidence.CaseScoredKind)+`"`)
}

// raiseScore makes a failed record a passed one, as an editor would.
func raiseScore(entry []byte) []byte {
	for _, edit := range [][2]string{{`"outcome":"failed"`, `"outcome":"passed"`}, {`"passed":false`, `"passed":true`}, {`"score":0.5`, `"score":1`}} {
		entry = bytes.Replace(entry, []byte(edit[0]), []byte(edit[1]), 1)
	}
	return entry
}

// cutBeforeAttempt leaves what was there before the attempt, which ends in a
// seal.
func cutBeforeAttempt(lines [][]byte) ([][]byte, error) {
	i, err := lineWith(lines, `"kind":"`+string(evidence.AttemptRegisteredKind)+`"`)
	if err != nil {
		return nil, err
	}
	return lines[:i], nil
}

func packOf(copied string) string {
	w := workspace.Workspace{Dir: copied}
	return filepath.Join(w.EvidenceDir(), "packs", demoAttempt+".pack")
}

// forgedReceipt changes the score inside the receipt and shows it to the
// stranger's verifier.
func forgedReceipt(d *demo, _ string) error {
	data, err := store.ReadFile(store.OS{}, d.receipt, 1<<20)
	if err != nil {
		return err
	}
	r, err := ledger.ParseReceipt(data)
	if err != nil {
		return err
	}
	r.Entry = raiseScore(r.Entry)
	if data, err = r.Marshal(); err != nil {
		return err
	}
	return d.show(d.receipt, "forged.tlog-proof", data)
}

// forgedBundle changes the outcome in the header of a bundle.
func forgedBundle(d *demo, _ string) error {
	honest := filepath.Join(d.scratch, "honest.rvf")
	if err := d.pack(d.dir, outgoing.PackOptions{Attempt: demoAttempt, Case: demoFailed, Out: honest}); err != nil {
		return refusal.Newf(refusal.Failed, "packing: %w", err)
	}
	data, err := store.ReadFile(store.OS{}, honest, 1<<20)
	if err != nil {
		return err
	}
	const outcomeAt = 0x28
	data[outcomeAt] = 0 // solved
	return d.show(honest, "forged.rvf", data)
}

// show gives a stranger, who trusts the ledger's key and nothing else, the
// honest file and then the forged one.
func (d *demo) show(honest, name string, forged []byte) error {
	path := filepath.Join(d.scratch, name)
	if err := store.WriteFile(store.OS{}, path, forged, 0o600); err != nil {
		return err
	}
	var trust verify.Trust
	if err := trust.AddLog(d.key); err != nil {
		return err
	}
	// The honest one must verify, or refusing the forged one proves nothing.
	if item := verify.Path(honest, trust); item.Err() != nil {
		return refusal.Newf(refusal.Failed, "the honest file was refused: %w", item.Err())
	}
	return verify.Path(path, trust).Err()
}

func replaceIn(name, old, new string) error {
	data, err := store.ReadFile(store.OS{}, name, 64<<20)
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte(old)) {
		return fmt.Errorf("%s does not contain %q", name, old)
	}
	return store.WriteFile(store.OS{}, name, bytes.Replace(data, []byte(old), []byte(new), 1), 0o600)
}
