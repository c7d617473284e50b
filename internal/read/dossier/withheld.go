package dossier

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A held-out case is kept from those who build agents. What it asks, what it
// wants and what was compared with that leave the workspace as salted digests,
// unless the owner asks with a flag; what became of it counts like any other. The
// salt is random, so the answer cannot be guessed from a digest, and the owner can
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

// Hider returns what hides the texts of a case; nil if it is not held out, or if
// the caller asked to see it.
func (c *Case) Hider() (*Hider, error) {
	if c.of.r.ask.ShowHeldOut || c.Index < 0 || !c.IsHeldOut() {
		return nil, nil
	}
	salt, err := c.Salt()
	return &Hider{Salt: salt}, err
}

// IsHidden reports whether the texts of the case are to be hidden.
func (c *Case) IsHidden() (bool, error) {
	w, err := c.Hider()
	return w != nil, err
}

// Salt is what the digests of the texts of a held-out case are made with. A reader who is
// given it can check the digests of this case and of no other.
func (c *Case) Salt() (salt [sha256.Size]byte, err error) {
	secret, err := c.of.r.knownSecret()
	if err != nil {
		return salt, err
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "tallystick-withheld-v1\x00%s\x00%s", c.of.ID, c.ID)
	return [sha256.Size]byte(mac.Sum(nil)), nil
}

// ShowsHeldOut reports whether the caller asked to see held-out cases.
func (r *Reading) ShowsHeldOut() bool { return r.ask.ShowHeldOut }

func (r *Reading) knownSecret() (_ []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secret == nil {
		r.secret, err = r.withheldSecret()
	}
	return r.secret, err
}

// IsHeldOut reports whether a case was held out when it ran, as its evidence says,
// or is so now. Evidence that cannot be read tells nothing and shows nothing.
func (c *Case) IsHeldOut() bool {
	return c.of.r.ranHeldOut(c.Case) || c.of.r.heldOutIn(c.of.Class)[c.ID]
}

// maxHidden bounds how many cases' indexes are remembered.
const maxHidden = 20_000

// ranHeldOut reports whether the evidence of a case says that it was held out.
func (r *Reading) ranHeldOut(c *history.Case) bool {
	if len(c.Evidence) == 0 {
		return false
	}
	r.mu.Lock()
	hidden, known := r.hidden[c.Evidence[0]]
	r.mu.Unlock()
	if known {
		return hidden
	}
	files, err := r.filesOf(c)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.hidden) >= maxHidden {
		clear(r.hidden)
	}
	r.hidden[c.Evidence[0]] = files.HeldOut
	return files.HeldOut
}

// heldOutIn are the cases of a class that are held out now. The bench of then may
// be gone; then there are none.
func (r *Reading) heldOutIn(class string) map[string]bool {
	r.mu.Lock()
	known := r.heldOut[class]
	r.mu.Unlock()
	if known != nil {
		return known
	}
	out := map[string]bool{}
	if v, err := r.Bench(class); err == nil {
		out = v.HeldOut()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldOut[class] = out
	return out
}

// HeldOut refuses to show of a held-out case what cannot be shown by digests.
func HeldOut(caseID string) error {
	return refusal.Newf(refusal.Usage, "case %s is held out: its trajectory would tell what it asks", caseID).
		WithHint("--show-held-out shows it, to those who may see it")
}

// IsHeldOutNow reports whether the bench as it is now holds the case out. Unlike
// [Case.IsHeldOut] it does not ask the evidence.
func (c *Case) IsHeldOutNow() bool { return c.of.r.heldOutIn(c.of.Class)[c.ID] }
