package dossier

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"tallystick/internal/read/dossier/withheld"
	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
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

// withholds returns what hides the texts of a case; nil if it is not held out, or
// if somebody asked to see it.
func (r *Reading) withholds(a *history.Attempt, c *history.Case) (*withheld.Hider, error) {
	if r.ask.ShowHeldOut || c.Index < 0 {
		return nil, nil
	}
	held, err := r.isHeldOut(a, c)
	if err != nil || !held {
		return nil, err
	}
	salt, err := r.saltOf(a, c)
	return &withheld.Hider{Salt: salt}, err
}

// saltOf is the salt of a case of an attempt. Whoever is given it can check the
// digests of this case and of no other.
func (r *Reading) saltOf(a *history.Attempt, c *history.Case) (salt [sha256.Size]byte, err error) {
	secret, err := r.knownSecret()
	if err != nil {
		return salt, err
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "tallystick-withheld-v1\x00%s\x00%s", a.ID, c.ID)
	return [sha256.Size]byte(mac.Sum(nil)), nil
}

func (r *Reading) knownSecret() (_ []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secret == nil {
		r.secret, err = r.withheldSecret()
	}
	return r.secret, err
}

// isHeldOut reports whether a case was held out when it ran, as its evidence says,
// or is so now. Evidence that cannot be read tells nothing and shows nothing.
func (r *Reading) isHeldOut(a *history.Attempt, c *history.Case) (bool, error) {
	return r.ranHeldOut(c) || r.heldOutIn(a.Class)[c.ID], nil
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
	files, err := r.FilesOf(c)
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
	if v, err := r.bench(class); err == nil {
		out = v.HeldOut()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldOut[class] = out
	return out
}

// heldOut refuses to show what cannot be shown by digests.
func heldOut(caseID string) error {
	return refusal.Newf(refusal.Usage, "case %s is held out: its trajectory would tell what it asks", caseID).
		WithHint("--show-held-out shows it, to those who may see it")
}
