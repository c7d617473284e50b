package archive

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/grade"
	"tallystick/internal/history"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
	"tallystick/internal/trajectory"
	"tallystick/internal/witness"
)

// A held-out case is kept from those who build agents. What it asks, what it
// wants and what was compared with that leave the workspace as salted digests,
// unless somebody asks with a flag; what became of it counts like any other. The
// salt is random, so nobody can guess the answer from a digest, and the owner can
// open one case without the others. docs/formats/withheld.md states the rule.

// withheldFile is the secret that salts are made of, in the private folder.
const withheldFile = "withheld.key"

// withheldSecret reads the secret, or makes one. Where it cannot be kept, as in a
// folder that is only read, it is good for this answer alone.
func (p *Place) withheldSecret() ([]byte, error) {
	name := p.Private(withheldFile)
	data, err := store.ReadFile(store.OS{}, name, 1<<10)
	if err == nil && len(data) == sha256.Size {
		return data, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the secret of held-out cases: %w", err)
	}
	secret := make([]byte, sha256.Size)
	rand.Read(secret)
	if store.WriteFile(store.OS{}, name, secret, 0o600) != nil {
		p.Note("the secret of held-out cases could not be written to %s: the digests of this answer cannot be opened later", name)
	}
	return secret, nil
}

// A withheld hides the texts of one case.
type withheld struct{ salt [sha256.Size]byte }

// withholds returns what hides the texts of a case; nil if it is not held out, or
// if somebody asked to see it.
func (r *Reading) withholds(a *history.Attempt, c *history.Case) (*withheld, error) {
	if r.ask.ShowHeldOut || c.Index < 0 {
		return nil, nil
	}
	held, err := r.isHeldOut(a, c)
	if err != nil || !held {
		return nil, err
	}
	salt, err := r.saltOf(a, c)
	return &withheld{salt}, err
}

// saltOf is the salt of a case of an attempt. Whoever is given it can check the
// digests of this case and of no other.
func (r *Reading) saltOf(a *history.Attempt, c *history.Case) (salt [sha256.Size]byte, err error) {
	if r.secret == nil {
		if r.secret, err = r.withheldSecret(); err != nil {
			return salt, err
		}
	}
	mac := hmac.New(sha256.New, r.secret)
	fmt.Fprintf(mac, "tallystick-withheld-v1\x00%s\x00%s", a.ID, c.ID)
	return [sha256.Size]byte(mac.Sum(nil)), nil
}

// isHeldOut reports whether a case was held out when it ran, as its evidence says,
// or is so now. Evidence that cannot be read tells nothing and shows nothing.
func (r *Reading) isHeldOut(a *history.Attempt, c *history.Case) (bool, error) {
	if files, err := history.FilesOf(c, r.Piece); err == nil && files.HeldOut {
		return true, nil
	}
	return r.heldOutIn(a.Class)[c.ID], nil
}

// heldOutIn are the cases of a class that are held out now. The bench of then may
// be gone; then there are none.
func (r *Reading) heldOutIn(class string) map[string]bool {
	if known := r.heldOut[class]; known != nil {
		return known
	}
	out := map[string]bool{}
	if r.heldOut == nil {
		r.heldOut = make(map[string]map[string]bool)
	}
	r.heldOut[class] = out
	v, err := r.bench(class)
	if err != nil {
		return out
	}
	for _, x := range v.Cases() {
		if said := x.Case(); said.IsHeldOut() {
			out[said.CaseID] = true
		}
	}
	if set := v.Dataset(); set != nil {
		for _, line := range set.Lines {
			if bytes.Contains(line.JSON, []byte(`"held_out"`)) && lineIsHeldOut(line.JSON) {
				out[line.ID] = true
			}
		}
	}
	return out
}

func lineIsHeldOut(line []byte) bool {
	var said struct {
		HeldOut bool `json:"held_out"`
	}
	return json.Unmarshal(line, &said) == nil && said.HeldOut
}

// heldOut refuses to show what cannot be shown by digests.
func heldOut(caseID string) error {
	return refusal.Newf(refusal.Usage, "case %s is held out: its trajectory would tell what it asks", caseID).
		WithHint("--show-held-out shows it, to those who may see it")
}

// text is a text as it may leave. Nothing stays nothing. A nil *withheld hides
// nothing.
func (w *withheld) text(s string) string {
	if w == nil || s == "" {
		return s
	}
	return "withheld sha256:" + hex.EncodeToString(w.sum([]byte(s)))
}

func (w *withheld) sum(data []byte) []byte {
	h := sha256.New()
	h.Write(w.salt[:])
	h.Write(data)
	return h.Sum(nil)
}

// checks hides what was compared. Which graders looked, and how they found, stays.
func (w *withheld) checks(all []grade.Detail) []grade.Detail {
	if w == nil {
		return all
	}
	for i := range all {
		d := &all[i]
		d.Why, d.Missing = w.text(d.Why), w.text(d.Missing)
		d.Expected, d.Extracted = w.content(d.Expected), w.content(d.Extracted)
		d.Second = nil // it speaks of both
	}
	return all
}

// content hides a text and its digest, of which a short text could be guessed.
func (w *withheld) content(c *trajectory.Content) *trajectory.Content {
	if c == nil {
		return nil
	}
	head := w.text(c.Digest.String() + "\n" + c.Head)
	return &trajectory.Content{Bytes: int64(len(head)), Digest: digest.ContentOf([]byte(head)), Head: head}
}

// bundle hides the texts of a bundle. Outcome, cost, calls by name and the count
// of tests stay, so that what is added up over bundles is the same.
func (w *withheld) bundle(b *witness.Bundle, r *evidence.CaseScored) {
	if w == nil {
		return
	}
	said := fmt.Sprintf("case %s of class %s\n%s\n", r.CaseID, r.Class, r.CaseDigest)
	b.Spec = append([]byte(said), w.section(b.Spec)...)
	b.Plan, b.Diff = w.section(b.Plan), w.section(b.Diff)
	if b.TestLog != nil {
		log := w.section(b.TestLog)
		if s := witness.SummariseTests(b.TestLog); s.Found() {
			log = fmt.Appendf(log, "tests: %d passed, %d failed\n", s.Passed, s.Failed)
		}
		b.TestLog = log
	}
	if b.Postmortem != nil {
		b.Postmortem = append(fmt.Appendf(nil, "outcome: %s\n", r.Outcome), w.section(b.Postmortem)...)
	}
	for i := range b.Trace {
		t := &b.Trace[i]
		args, result := w.hash(t.ArgsHash[:]), w.hash(t.ResultHash[:])
		if b.Full != nil {
			full := &b.Full.Calls[i]
			args, result = w.hash(full.Args[:]), w.hash(full.Result[:])
			full.Args, full.Result = args, result
		}
		t.ArgsHash, t.ResultHash = args.Short(), result.Short()
	}
}

func (w *withheld) hash(h []byte) witness.Hash { return witness.Hash(w.sum(h)) }

// section is a section of a bundle by its digest. An empty one, and one that is
// not there, stay so.
func (w *withheld) section(s []byte) []byte {
	if len(s) == 0 {
		return s
	}
	return []byte(w.text(string(s)) + "\n")
}
