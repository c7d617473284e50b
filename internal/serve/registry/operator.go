package registry

import (
	"context"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// reasonCodes are why the operator takes something down. A text of their own would
// have to be taken down some day.
var reasonCodes = []string{"privacy", "copyright", "abuse", "illegal", "security", "mistake"}

// ReasonCodes lists why something may be taken down.
func ReasonCodes() []string { return append([]string(nil), reasonCodes...) }

// TakeDown removes a text for good: the blob, and every row that shows it. The
// entries that name it stay, and so does one that says why it is gone.
func (r *Registry) TakeDown(ctx context.Context, d digest.Content, reasonCode string) error {
	known := false
	for _, c := range reasonCodes {
		known = known || c == reasonCode
	}
	if !known {
		return refusal.Newf(refusal.Usage, "the reason is %.40q, expected one of %q", reasonCode, reasonCodes)
	}
	err := r.transact([]string{"blob " + d.String()}, func() ([]evidence.Body, error) {
		if _, gone := r.state.takenDown[d]; gone {
			return nil, nil
		}
		if !r.shelf.Has(d) {
			return nil, refusal.Newf(refusal.UnknownName, "there is no blob %s", d)
		}
		return []evidence.Body{&evidence.RegistryTakenDown{Blob: d, ReasonCode: reasonCode}}, nil
	})
	if err != nil {
		return err
	}
	// Crash here: the next opening drops it.
	return r.shelf.Drop(d)
}

// RotateKey retires the key of a purpose and puts a new one in use. What the old
// one signed verifies for ever with its receipt.
func (r *Registry) RotateKey(ctx context.Context, purpose string) (string, error) {
	if purpose == OperatorPurpose {
		return r.rotateOperator()
	}
	if purpose != CredentialPurpose && purpose != ChainPurpose {
		return "", refusal.Newf(refusal.Usage, "there is no key for %.40q, expected %s, %s or %s", purpose, CredentialPurpose, ChainPurpose, OperatorPurpose)
	}
	fresh, err := newSigningKey(r.o.Dir)
	if err != nil {
		return "", err
	}
	method := ""
	err = r.transact([]string{"settings"}, func() ([]evidence.Body, error) {
		var entries []evidence.Body
		entries, method, err = r.rotated(purpose, fresh)
		return entries, err
	})
	if err != nil {
		return "", err
	}
	// A list under the retired key is one that verifiers refuse.
	return method, r.refreshStatusLists(ctx)
}

// rotated are the entries of a rotation. From the moment that they are submitted
// the new key signs: whatever it signs comes after them.
func (r *Registry) rotated(purpose string, fresh *seal.Key) ([]evidence.Body, string, error) {
	old := &r.ring.credential
	if purpose == ChainPurpose {
		old = &r.ring.chain
	}
	did := r.ring.did
	var entries []evidence.Body
	if purpose == CredentialPurpose {
		now, err := issuer(r.settings, fresh)
		if err != nil {
			return nil, "", err
		}
		if now != did { // a did:key is its key
			did = now
			entries = append(entries, configured(r.settings, did))
		}
	}
	retired, err := published(old.method, purpose, old.key, true)
	if err != nil {
		return nil, "", err
	}
	method := methodOf(did, purpose, fresh)
	known, err := published(method, purpose, fresh, false)
	if err != nil {
		return nil, "", err
	}
	*old, r.ring.did = signingKey{fresh, method}, did
	return append(entries, known, retired), method, nil
}

// Blob is that of the reader; of what was taken down it says so.
func (r *Registry) Blob(ctx context.Context, d digest.Content) ([]byte, error) {
	r.mu.Lock()
	at, gone := r.state.takenDown[d]
	r.mu.Unlock()
	if gone {
		return nil, refusal.Newf(refusal.TakenDown, "the operator took this down; entry %d says so", at)
	}
	return r.Reader.Blob(ctx, d)
}

// put stores texts, on disk when it returns. One that was taken down does not come
// back, whatever it is sent as.
func (r *Registry) put(texts ...[]byte) ([]digest.Content, error) {
	r.mu.Lock()
	for _, text := range texts {
		if at, gone := r.state.takenDown[digest.ContentOf(text)]; gone {
			r.mu.Unlock()
			return nil, refusal.Newf(refusal.TakenDown, "the operator took this text down; entry %d says so", at).WithHint("ask the operator")
		}
	}
	r.mu.Unlock()
	return r.shelf.Put(texts...)
}
