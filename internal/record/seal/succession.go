package seal

import (
	"fmt"
	"slices"
	"time"

	"tallystick/internal/record/refusal"
)

// LoneOperator is the one line of a file that names an operator and no other
// signer, as that of a registry does: no person could ever change such a file.
func (s *Signers) LoneOperator() (Entry, bool) {
	if len(s.entries) != 1 {
		return Entry{}, false
	}
	e := s.entries[0]
	plain := !e.Authority && e.Namespaces == "" && e.ValidAfter.IsZero() && e.ValidBefore.IsZero() && slices.Equal(e.Roles, []Role{Operator})
	if _, ok := e.Key.Ed25519(); !plain || !ok {
		return Entry{}, false
	}
	return e, true
}

// WithOperatorKey is the version after a file with a lone operator in which that
// operator has another key.
func (s *Signers) WithOperatorKey(key PublicKey) ([]byte, error) {
	e, ok := s.LoneOperator()
	if !ok {
		return nil, refusal.Newf(refusal.SignersChainBroken, "%s names more than one operator: two of its people sign the next version", s.title())
	}
	e.Key = key
	data := []byte(header(s.version+1, s.Digest()) + e.String() + "\n")
	_, err := ParseNext(s, data)
	return data, err
}

// succeedsAlone verifies that a lone operator changed the key and nothing else.
// The key in force signs the file, because no other key can; the new one signs
// it too, because otherwise a stranger could write another person's key into a
// ledger and pass for its successor or its forebear.
func (s *Signers) succeedsAlone(prev *Signers, sigs [][]byte, at time.Time) error {
	fail := func(format string, args ...any) error {
		return refusal.Newf(refusal.SignersChainBroken, "%s version %d: "+format, append([]any{prev.name, s.version}, args...)...)
	}
	before, _ := prev.LoneOperator()
	after, ok := s.LoneOperator()
	switch {
	case !ok || after.Principals != before.Principals || after.Comment != before.Comment:
		return fail("a lone operator changes the key of %s and nothing else", before.Principals)
	case after.Key.Equal(before.Key):
		return fail("it has the key of the version before")
	case len(sigs) != 2:
		return fail("found %d signatures, expected that of the key before and that of the new one", len(sigs))
	}
	for i, who := range []struct {
		in  *Signers
		key PublicKey
	}{{prev, before.Key}, {s, after.Key}} {
		sig, err := who.in.Verify(sigs[i], s.data, NamespaceSigners, at)
		if err != nil {
			return fmt.Errorf("%s version %d: signature %d of 2: %w", prev.name, s.version, i+1, err)
		}
		if !sig.key.Equal(who.key) {
			return fail("signature %d of 2 is not by %s", i+1, who.key.Fingerprint())
		}
	}
	return nil
}
