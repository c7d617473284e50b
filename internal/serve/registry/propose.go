package registry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry/recompute"
)

// maxIdempotencyKey bounds what a client may choose.
const maxIdempotencyKey = 255

// A Once names a write, so that a client that did not see the answer can send it again:
// the same key with the same body is the same write. Without a key every write is
// one of its own. A write that changes nothing is not remembered.
type Once struct {
	Key  string
	Body []byte
}

// request names a write of an agent; nil without a key.
func (o Once) request(a *Agent, operation string) (*evidence.RegistryRequest, error) {
	return newRequest(a, operation, o.Key, o.Body)
}

// once is transact for a write that may have been made before: it tells as what.
func (r *Registry) once(req *evidence.RegistryRequest, keys []string, decide func() ([]evidence.Body, error)) (*request, error) {
	if req != nil {
		keys = append(keys, "request "+req.Key.String())
	}
	var before *request
	err := r.transact(keys, func() ([]evidence.Body, error) {
		var err error
		if before, err = r.earlierRequest(req); before != nil || err != nil {
			return nil, err
		}
		return decide()
	})
	return before, err
}

// newRequest names a write by the agent, the key that it chose and the body; nil
// without a key.
func newRequest(a *Agent, operation, key string, body []byte) (*evidence.RegistryRequest, error) {
	if key == "" {
		return nil, nil
	}
	if len(key) > maxIdempotencyKey {
		return nil, refusal.Newf(refusal.Usage, "the idempotency key has %d characters, at most %d are taken", len(key), maxIdempotencyKey)
	}
	return &evidence.RegistryRequest{
		Key:  digest.IDOf([]byte(a.ID + "\n" + key)),
		Body: digest.IDOf(append([]byte(operation+"\n"), body...)),
	}, nil
}

// earlierRequest finds what a request came to before. It is called with the lock
// held.
func (r *Registry) earlierRequest(q *evidence.RegistryRequest) (*request, error) {
	if q == nil {
		return nil, nil
	}
	before, ok := r.state.requests[q.Key]
	if !ok {
		return nil, nil
	}
	if before.body != q.Body {
		return nil, refusal.Newf(refusal.IdempotencyConflict, "this idempotency key was used before with another body").
			WithHint("use a new key for a new request; the same key is for sending the same request again")
	}
	return &before, nil
}

// newUUID makes a UUID of version 7 (RFC 9562): ids that follow each other are
// near each other in an index.
func (r *Registry) newUUID() (string, error) {
	var u [16]byte
	if _, err := rand.Read(u[6:]); err != nil {
		return "", refusal.Newf(refusal.Failed, "making an id: %w", err)
	}
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(r.o.Now().UnixMilli()))
	copy(u[:6], ms[2:])
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	s := hex.EncodeToString(u[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:]), nil
}

// Propose proposes a thing for the catalogue. The same content proposed again, by
// any agent, is answered with the proposal that there is: no judges are drawn anew. Only
// what was withdrawn or lapsed can be proposed again, to the judges that were
// drawn for it.
func (r *Registry) Propose(ctx context.Context, a *Agent, thing Thing, body []byte, idempotency string) (*Proposal, error) {
	if !slices.Contains(evidence.RegistryThings, string(thing)) {
		return nil, refusal.Newf(refusal.UnknownName, "there is no kind of proposal %.40q", string(thing))
	}
	d, err := r.parse(ctx, thing, body)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(a, "propose "+string(thing), idempotency, body)
	if err != nil {
		return nil, err
	}
	if found, err := r.lookFor(d, req); found != nil || err != nil {
		return found, err
	}
	entry, before, err := r.prepare(a, d, req)
	if err != nil {
		return nil, err
	}
	var found *proposal
	keys := []string{"content " + d.content.String()}
	if d.run != nil {
		keys = append(keys, runKey(d.run))
	}
	repeated, err := r.once(req, keys, func() ([]evidence.Body, error) {
		var err error
		if found, err = r.sameAs(d, nil); found != nil || err != nil {
			return nil, err
		}
		return r.proposed(d, entry, before)
	})
	if err != nil {
		return nil, err
	}
	if repeated != nil {
		return r.viewOf(repeated.proposal, false), nil
	}
	if found != nil {
		return r.viewOf(found.Proposal, false), nil
	}
	return r.viewOf(entry.Proposal, true), nil
}

// lookFor answers a request that was made before, without preparing anything.
func (r *Registry) lookFor(d *draft, req *evidence.RegistryRequest) (*Proposal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open4writes(); err != nil {
		return nil, err
	}
	found, err := r.sameAs(d, req)
	if err != nil || found == nil {
		return nil, err
	}
	return r.state.view(found), nil
}

// sameAs finds the proposal that a draft would only repeat.
func (r *Registry) sameAs(d *draft, req *evidence.RegistryRequest) (*proposal, error) {
	before, err := r.earlierRequest(req)
	if err != nil {
		return nil, err
	}
	if before != nil {
		return r.state.proposals[before.proposal], nil
	}
	if p := r.state.contents[d.content]; p != nil && p.status() != Withdrawn && p.status() != Lapsed {
		return p, nil
	}
	return nil, nil
}

// viewOf shows a proposal as it is now.
func (r *Registry) viewOf(id string, isNew bool) *Proposal {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.state.view(r.state.proposals[id])
	v.New = isNew
	return v
}

// prepare makes the entry of a proposal and stores what it names. The credential
// of a body is issued now; its entry goes before the proposal's.
func (r *Registry) prepare(a *Agent, d *draft, req *evidence.RegistryRequest) (*evidence.RegistryProposed, []evidence.Body, error) {
	id, err := r.newUUID()
	if err != nil {
		return nil, nil, err
	}
	e := &evidence.RegistryProposed{Agent: a.ID, Artifact: d.artifact, Content: d.content, Path: d.path, Proposal: id, Request: req, Runner: d.runner, Thing: string(d.thing)}
	if d.thing == Eval {
		e.Path = "/artifacts/evals/" + id
	}
	if err := r.allowed(d); err != nil {
		return nil, nil, err
	}
	var before []evidence.Body
	if d.body != nil {
		issued, text, err := r.issue(a, d.body, nil)
		if err != nil {
			return nil, nil, err
		}
		before, d.credential, d.digest = append(before, issued), text, issued.Credential
	}
	blobs := [][]byte{d.manifest}
	if d.credential != nil {
		blobs = append(blobs, d.credential)
	}
	names, err := r.put(blobs...)
	if err != nil {
		return nil, nil, err
	}
	e.Manifest = names[0]
	if d.credential != nil {
		e.Credential = &evidence.RegistryCredential{Blob: names[1], Digest: d.digest, Run: d.run, Status: d.status}
	}
	return e, before, nil
}

// allowed refuses a draft whose paths are wrong. It is asked again when the proposal
// is decided about.
func (r *Registry) allowed(d *draft) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.tails.standing[d.path]; other != "" && r.tails.content[other] == d.content {
		return nil // the same is on its way: it is answered with that
	}
	return r.check(d)
}

func (r *Registry) check(d *draft) error {
	for _, n := range d.needs {
		if r.state.paths[n.Path] == nil {
			return refusal.Newf(refusal.UnknownPath, "%w", &n).
				WithHint("propose it first with POST %s and let it be published, then propose this again", n.Route())
		}
	}
	if d.run != nil {
		if err := r.sameRun(d.run); err != nil {
			return err
		}
	}
	if d.thing == Eval {
		return nil
	}
	if other := r.tails.standing[d.path]; other != "" {
		return refusal.Newf(refusal.PathTaken, "%s is taken by proposal %s", d.path, other).WithHint("choose another path, such as one with a version at its end")
	}
	return r.tails.names.check(d.path)
}

// proposed is what follows from a proposal: its entries, and without judges that
// it is published.
func (r *Registry) proposed(d *draft, e *evidence.RegistryProposed, before []evidence.Body) ([]evidence.Body, error) {
	if err := r.check(d); err != nil {
		return nil, err
	}
	for _, b := range before {
		if err := r.stillSigns(b.(*evidence.CredentialIssued).Method); err != nil {
			return nil, err
		}
	}
	e.Earlier = r.tails.count(e)
	entries := append(slices.Clone(before), e)
	if r.state.config.Judges > 0 {
		return entries, nil
	}
	decided := &evidence.RegistryDecided{Outcome: Published, Proposal: e.Proposal}
	var err error
	decided.Chain, err = r.link(e)
	return append(entries, decided), err
}

// link continues the chain of an artifact path.
func (r *Registry) link(e *evidence.RegistryProposed) (*evidence.RegistryChain, error) {
	return r.ring.link(recompute.Link{
		Artifact: e.Artifact, Manifest: e.Manifest, Previous: r.tails.chain[e.Artifact], Proposal: e.Proposal, Registry: r.settings.Origin,
	})
}

// Withdraw takes a proposal back before it is decided. It stays readable.
func (r *Registry) Withdraw(ctx context.Context, a *Agent, id string, o Once) (*Proposal, error) {
	req, err := o.request(a, "withdraw")
	if err != nil {
		return nil, err
	}
	_, err = r.once(req, []string{"proposal " + id}, func() ([]evidence.Body, error) {
		p := r.state.proposals[id]
		switch {
		case p == nil:
			return nil, unknownProposal(id)
		case p.Agent != a.ID:
			return nil, refusal.Newf(refusal.NotAllowed, "proposal %s is another agent's", id)
		case p.status() == Withdrawn:
			return nil, nil
		case p.decided != nil:
			return nil, refusal.Newf(refusal.TooLate, "proposal %s is %s already", id, p.status())
		}
		return []evidence.Body{&evidence.RegistryDecided{Outcome: Withdrawn, Proposal: id, Request: req, Votes: p.tally()}}, nil
	})
	if err != nil {
		return nil, err
	}
	return r.viewOf(id, false), nil
}

func unknownProposal(id string) error {
	return refusal.Newf(refusal.UnknownName, "there is no proposal %.100q", id)
}
