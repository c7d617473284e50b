package dossier

import (
	"cmp"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
)

// Operators is audit/operators.yaml: who is behind the operator hashes of
// the ledger. Two people sign it.
type Operators struct {
	Version   int        `json:"version"`
	Operators []Operator `json:"operators"`
}

// A Operator gives away the salt, so that a reader of the file
// can check that the hash is this person's.
type Operator struct {
	Hash     digest.ID `json:"hash"`
	Identity string    `json:"identity"`
	Key      string    `json:"key"`
	Salt     string    `json:"salt"`
}

var operatorsRules = strictyaml.Rules{
	Hint:         `restore it from git; "tally signers operators --add" adds an operator`,
	TooLargeHint: "such a file has a few lines for each operator; see whether this is another file",
	MaxBytes:     MaxSignedFile,
}

// parseOperators reads the file and checks that each hash is that of the person
// beside it. Whether it is signed is for [Place.VerifyOperators].
func parseOperators(name string, data []byte) (*Operators, error) {
	var f Operators
	doc, err := strictyaml.Decode(name, data, operatorsRules, &f)
	if err != nil {
		return nil, err
	}
	if f.Version != 1 {
		return nil, doc.Refuse(strictyaml.At([]string{"version"}, fmt.Errorf("found %d, this program reads 1", f.Version)))
	}
	seen := make(map[digest.ID]bool)
	for i, o := range f.Operators {
		hash, err := evidence.OperatorHash(o.Identity, o.Key, o.Salt)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if hash != o.Hash {
			return nil, refusal.Newf(refusal.DigestMismatch, "%s: operator %d: the hash of %q with this key and salt is %s, the file says %s", name, i+1, o.Identity, hash, o.Hash).
				WithHint("%s", operatorsRules.Hint)
		}
		if seen[hash] {
			return nil, doc.Refuse(strictyaml.At([]string{"operators", strconv.Itoa(i)}, fmt.Errorf("%s stands in it twice", hash)))
		}
		seen[hash] = true
	}
	return &f, nil
}

// Format writes the file as a person reads it.
func (f *Operators) Format() []byte {
	out := fmt.Appendf(nil, `# Who is behind the operator hashes in the ledger. Two people sign this file
# (namespace %s); the signatures lie beside it.
version: %d
operators:
`, seal.NamespaceOperators, f.Version)
	for _, o := range f.Operators {
		out = fmt.Appendf(out, "  - hash: %s\n    identity: %s\n    key: %s\n    salt: %s\n",
			o.Hash, strictyaml.Quote(o.Identity), strictyaml.Quote(o.Key), strictyaml.Quote(o.Salt))
	}
	return out
}

// Find returns who is behind a hash, nil if the file does not say.
func (f *Operators) Find(hash digest.ID) *Operator {
	for i := range f.Operators {
		if f.Operators[i].Hash == hash {
			return &f.Operators[i]
		}
	}
	return nil
}

// LoadOperators reads the file without looking at its signatures; without a
// file it is empty.
func (p *Place) LoadOperators() (*Operators, []byte, error) {
	data, err := store.ReadFile(store.OS{}, p.OperatorsFile(), MaxSignedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &Operators{Version: 1}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := parseOperators(p.OperatorsFile(), data)
	return f, data, err
}

// VerifyOperators reads the file and requires two people of the signers in
// force behind it.
func (p *Place) VerifyOperators(signers *seal.Signers) (*Operators, []seal.Signature, error) {
	f, data, err := p.LoadOperators()
	if err != nil {
		return nil, nil, err
	}
	if data == nil {
		return nil, nil, refusal.Newf(refusal.NotFound, "there is no %s", p.OperatorsFile()).
			WithHint(`restore it from git, or begin it with "tally signers operators --add"`)
	}
	sigs, err := SignaturesOf(p.OperatorsFile())
	if err != nil {
		return nil, nil, err
	}
	by, err := signers.VerifyQuorum(sigs, data, seal.NamespaceOperators, p.Now(), seal.Rule{People: 2})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.OperatorsFile(), err)
	}
	return f, by, nil
}

// SeenOperators is where each operator hash first stands in the ledger.
type SeenOperators map[digest.ID]int64

// Visit notes the operator of a record that the harness made.
func (s SeenOperators) Visit(r ledger.Record) {
	var hash digest.ID
	switch b := r.Body.(type) {
	case *evidence.AttemptRegistered:
		hash = b.Operator
	case *evidence.CaseScored:
		hash = b.Operator
	case *evidence.AttemptReproduced:
		hash = b.Operator
	default:
		return
	}
	if _, ok := s[hash]; !ok && !r.Envelope.Manual {
		s[hash] = r.Index
	}
}

// InOrder lists the operators in the order in which they came.
func (s SeenOperators) InOrder() []digest.ID {
	return slices.SortedFunc(maps.Keys(s), func(a, b digest.ID) int { return cmp.Compare(s[a], s[b]) })
}

// OperatorHash is the salted hash of an operator in this ledger. The salt comes from
// a signature of the operator's own key over the ledger's name, which is the same each
// time (RFC 8032): one operator has one hash on every machine, and who does not have
// the key cannot try names. audit/operators.yaml gives the salt to readers who may know
// who is behind a hash.
func (p *Place) OperatorHash(key *seal.Key, name string) (hash digest.ID, salt string, err error) {
	id := digest.IDOf(ed25519.Sign(key.Ed25519(), []byte("tallystick-operator-salt\n"+p.Settings.Origin)))
	salt = hex.EncodeToString(id[:16])
	hash, err = evidence.OperatorHash(name, key.Public().String(), salt)
	return hash, salt, err
}

// OperatorName is who an operator's key belongs to now.
func (p *Place) OperatorName(signers *seal.Signers, key *seal.Key) (string, error) {
	pub, _ := key.Public().Ed25519()
	return signers.OperatorOf(pub, p.Now())
}

// Operator is the hash that records carry of who is running this.
func (c *Corpus) Operator(key *seal.Key) (digest.ID, error) {
	signers := c.Options.Signers
	if c.Shared != nil && c.verified != nil {
		signers = c.verified.Signers
	}
	name, err := c.OperatorName(signers, key)
	if err != nil {
		return digest.ID{}, err
	}
	hash, _, err := c.OperatorHash(key, name)
	return hash, err
}
