package demo

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/bundle"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/outgoing"
)

// lies are what the operator can try, who has the key and need not break a
// chain: records that leave something out, say it twice, or were made elsewhere.
var lies = []forgery{
	{"show a stranger the bundle without the call that it made", refusal.BundleUnsigned, nothingHere, bundleWithoutCalls},
	{"seal an old reproduction a second time", refusal.EntryInvalid, nothingHere, replayReproduction},
	{"hide the attempt: call the agent something else, begin at number 1", refusal.RecomputeMismatch, hideAttempt, numbersAgain},
	{"advise a tier that the evidence does not carry", refusal.GateNotMet, nothingHere, requireGold},
	{"be accepted by a hundred sums that are called repository issues", refusal.GateNotMet, runSums, acceptSums},
	{"prove the good case with the failed case's registration left out", refusal.ReceiptInvalid, nothingHere, proofWithoutRegistration},
	{"prove it with a receipt of another ledger", refusal.CheckpointInvalid, nothingHere, receiptOfAnotherKey},
	{"pay past the policy, in the agent's own process", refusal.GateNotMet, nothingHere, evadePolicy},
	{"appoint oneself: sign a new list of people alone", refusal.TwoPersonRule, nothingHere, appointOneself},
	{"record from a server of one's own that calls itself gpt-4o", refusal.TierNotRecommended, recordFromFakeServer, countFakeServer},
}

// bundleWithoutCalls packs the failed case's bundle anew, as if the agent had
// called nothing. Without the operator's key it has no signature that counts.
func bundleWithoutCalls(d *demo, _ string) error {
	honest, data, err := d.honestBundle()
	if err != nil {
		return err
	}
	parsed, err := bundle.Parse(data)
	if err != nil {
		return err
	}
	b := parsed.Bundle
	if len(b.Trace) == 0 {
		return refusal.Newf(refusal.Failed, "the honest bundle has no call to leave out")
	}
	b.Trace, b.Full, b.Observed = nil, nil, nil
	forged, err := b.Pack(bundle.Seals{})
	if err != nil {
		return err
	}
	return d.show(honest, "no-calls.rvf", forged)
}

// honestBundle packs the failed case.
func (d *demo) honestBundle() (path string, data []byte, err error) {
	path = filepath.Join(d.scratch, "honest.rvf")
	if !workspace.Exists(path) {
		if err := d.pack(d.dir, outgoing.PackOptions{Attempt: demoAttempt, Case: demoFailed, Out: path}); err != nil {
			return "", nil, refusal.Newf(refusal.Failed, "packing: %w", err)
		}
	}
	data, err = store.ReadFile(store.OS{}, path, 1<<20)
	return path, data, err
}

// replayReproduction seals what an operator said of a second run, and then seals it
// again, as an operator would who wants an earlier word to be the last one.
func replayReproduction(d *demo, copied string) error {
	p, a, err := d.attemptIn(copied)
	if err != nil {
		return err
	}
	key, err := p.OperatorKey()
	if err != nil {
		return err
	}
	registered, finished := p.History.HeadAfter(a.Index+1), p.History.HeadAfter(a.Finished.Index+1)
	results := digest.ContentOf([]byte("what was compared"))
	r := &evidence.AttemptReproduced{Attempt: demoAttempt + ".again", Original: demoAttempt, Origin: demoOrigin, Agrees: true, Operator: a.Operator,
		Registered: &registered, Finished: &finished, Results: &results}
	message, err := r.Message()
	if err != nil {
		return err
	}
	signature, err := seal.SignWith(key.Signer(), seal.NamespaceAttempt, message)
	if err != nil {
		return err
	}
	r.Signature = string(signature)
	if _, err := p.Append(context.Background(), evidence.AttemptReproducedKind, r); err != nil {
		return refusal.Newf(refusal.Failed, "the first: %w", err)
	}
	_, err = p.Append(context.Background(), evidence.AttemptReproducedKind, r)
	return err
}

// attemptIn reads a copy of the workspace.
func (d *demo) attemptIn(copied string) (*dossier.Reading, *dossier.Dossier, error) {
	p, err := d.in(copied)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.Read(dossier.Ask{Again: true, Prove: true})
	if err != nil {
		return nil, nil, err
	}
	a, err := r.Attempt(demoAttempt)
	return r, a, err
}

// hideAttempt registers a first attempt of an agent of another name, signed and
// sealed with the operator's own key.
func hideAttempt(d *demo, copied string) error {
	p, _, err := d.attemptIn(copied)
	if err != nil {
		return err
	}
	entries, err := p.Entries(p.History.Attempts[0].Index)
	if err != nil {
		return err
	}
	_, body, err := evidence.DecodeEntry(entries[p.History.Attempts[0].Index].Raw)
	if err != nil {
		return err
	}
	again := *body.(*evidence.AttemptRegistered)
	again.Target, again.Attempt = "fresh", strings.Replace(again.Attempt, again.Target, "fresh", 1)
	key, err := p.OperatorKey()
	if err != nil {
		return err
	}
	message, err := again.Message()
	if err != nil {
		return err
	}
	signature, err := seal.SignWith(key.Signer(), seal.NamespaceAttempt, message)
	if err != nil {
		return err
	}
	again.Signature = string(signature)
	_, err = p.Append(context.Background(), evidence.AttemptRegisteredKind, &again)
	return err
}

// numbersAgain reads what every attempt says of its number.
func numbersAgain(d *demo, copied string) error {
	p, _, err := d.attemptIn(copied)
	if err != nil {
		return err
	}
	for _, a := range p.History.Attempts {
		for _, problem := range a.Problems {
			if strings.Contains(problem, "number") {
				return refusal.Newf(refusal.RecomputeMismatch, "attempt %s: %s", a.ID, problem)
			}
		}
	}
	return nil
}

// requireGold asks for advice and wants more than it says.
func requireGold(d *demo, copied string) error {
	p, err := d.in(copied)
	if err != nil {
		return err
	}
	advice, err := answer.Recommend(context.Background(), p, demoClass, "", 0)
	if err != nil {
		return err
	}
	if advice.RecommendedTier == string(bench.Gold) {
		return nil
	}
	return refusal.Newf(refusal.GateNotMet, "gold is asked for, the evidence carries %s", advice.RecommendedTier)
}

// proofWithoutRegistration leaves out of a proof what tells which attempt it was.
func proofWithoutRegistration(d *demo, _ string) error {
	p, _, err := d.attemptIn(d.dir)
	if err != nil {
		return err
	}
	c, err := p.FindCase(dossier.CaseQuery{Case: demoGood, Attempt: demoAttempt})
	if err != nil {
		return err
	}
	data, _, err := outgoing.ProveAttempt(c.Dossier().Public(), c.Case)
	if err != nil {
		return err
	}
	honest := filepath.Join(d.scratch, "honest.proof")
	if err := store.WriteFile(store.OS{}, honest, data, 0o600); err != nil {
		return err
	}
	second := bytes.LastIndex(data, []byte("receipt "))
	return d.show(honest, "forged.proof", data[:second])
}

// receiptOfAnotherKey seals the same entry in a ledger of one's own.
func receiptOfAnotherKey(d *demo, _ string) error {
	data, err := store.ReadFile(store.OS{}, d.receipt, 1<<20)
	if err != nil {
		return err
	}
	r, err := ledger.ParseReceipt(data)
	if err != nil {
		return err
	}
	r.Checkpoint = bytes.Replace(r.Checkpoint, []byte(demoOrigin), []byte("demo.local/other"), 2)
	if data, err = r.Marshal(); err != nil {
		return err
	}
	return d.show(d.receipt, "other.tlog-proof", data)
}

// appointOneself signs a second version of the signers with one key.
func appointOneself(d *demo, copied string) error {
	p, err := d.in(copied)
	if err != nil {
		return err
	}
	data, err := store.ReadFile(store.OS{}, p.SignersFile(), 1<<20)
	if err != nil {
		return err
	}
	first, err := seal.ParseSigners("signers", data)
	if err != nil {
		return err
	}
	key, err := p.OperatorKey()
	if err != nil {
		return err
	}
	next := bytes.Replace(data, []byte("# version: 1\n"), fmt.Appendf(nil, "# version: 2\n# previous: %s\n", first.Digest()), 1)
	signature, err := seal.SignWith(key.Signer(), seal.NamespaceSigners, next)
	if err != nil {
		return err
	}
	_, err = seal.Extend(first, next, [][]byte{signature}, d.world.Now())
	return err
}
