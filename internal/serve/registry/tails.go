package registry

import (
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// Tails are what the next entry continues: they run ahead of the state by what is
// submitted and not on disk yet, in the order of submission. A ledger that could
// not write an entry writes none after it, so what a tail names is there, or
// nothing that names it is.
type tails struct {
	chain    map[string]string // last chain signature, by artifact path
	earlier  map[string]int    // proposals for an artifact, by agent, by runner, by both
	names    names             // of proposals that stand
	standing map[string]string // path to proposal: pending or published
	path     map[string]string // proposal to path
	artifact map[string]string // proposal to artifact path
	content  map[string]digest.ID
	status   int64 // next free place of the status lists
}

func newTails() *tails {
	return &tails{chain: map[string]string{}, earlier: map[string]int{}, names: names{}, standing: map[string]string{}, path: map[string]string{}, artifact: map[string]string{}, content: map[string]digest.ID{}}
}

// observe notes an entry that was submitted, or that was there at opening.
func (t *tails) observe(body evidence.Body) {
	switch b := body.(type) {
	case *evidence.RegistryProposed:
		for _, k := range earlierKeys(b) {
			t.earlier[k]++
		}
		t.artifact[b.Proposal], t.content[b.Proposal] = b.Artifact, b.Content
		if Thing(b.Thing) != Eval {
			t.names.add(b.Path)
			t.standing[b.Path], t.path[b.Proposal] = b.Proposal, b.Path
		}
	case *evidence.RegistryDecided:
		if b.Chain != nil {
			t.chain[t.artifact[b.Proposal]] = b.Chain.HMAC
		} else if path := t.path[b.Proposal]; path != "" {
			t.names.remove(path)
			delete(t.standing, path)
		}
		delete(t.artifact, b.Proposal)
		delete(t.path, b.Proposal)
	case *evidence.CredentialIssued:
		if b.Status != nil {
			t.status = max(t.status, statusNumber(b.Status)+1)
		}
	}
}

// undecided reports whether a proposal has no decision, not even one that is on its way
// to the disk.
func (t *tails) undecided(proposal string) bool {
	_, open := t.artifact[proposal]
	return open
}

// earlierKeys are under which a proposal is counted.
func earlierKeys(b *evidence.RegistryProposed) [3]string {
	return [3]string{
		strings.Join([]string{"a", b.Thing, b.Agent, b.Artifact}, "\n"),
		strings.Join([]string{"r", b.Thing, b.Runner, b.Artifact}, "\n"),
		strings.Join([]string{"b", b.Thing, b.Agent, b.Runner, b.Artifact}, "\n"),
	}
}

// count is how many proposals of the same agent or the same runner there were for
// the artifact.
func (t *tails) count(b *evidence.RegistryProposed) int {
	k := earlierKeys(b)
	if b.Runner == "" {
		return t.earlier[k[0]]
	}
	return t.earlier[k[0]] + t.earlier[k[1]] - t.earlier[k[2]]
}
