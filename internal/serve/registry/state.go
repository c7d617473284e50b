package registry

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A state is what the entries of a ledger add up to. Everything that decides is
// read off it: it comes from verified entries and from nothing else.
type state struct {
	origin       string
	config       evidence.RegistryConfigured
	agents       map[string]*agent
	apiKeys      map[digest.ID]*apiKey
	persons      map[string]*person
	proposals    map[string]*proposal
	undecided    map[string]*proposal
	undrawn      map[string]*proposal    // undecided, and waiting for a draw
	contents     map[digest.ID]*proposal // the last of each content
	paths        map[string]*proposal    // published, by path
	draws        map[digest.ID]*evidence.RegistryDrawn
	requests     map[digest.ID]request
	credentials  map[digest.ID]*credential
	runs         map[string]runOf // by run id in lower case: the first content
	keys         []*publishedKey
	logKeys      []*logKey
	calibrations map[string][]*evidence.RegistryCalibrated
	takenDown    map[digest.Content]int64
	size         int64
	head         digest.ID
}

type agent struct {
	id, publicKey string
	profile       *digest.Content
	index         int64
}

type apiKey struct {
	agent   *agent
	revoked bool
}

// A person is a judge, with what the operator said of them over time.
type person struct {
	id      string
	changes []admission
}

type admission struct {
	index      int64
	admitted   bool
	agents     []string
	calibrated bool // one of the agents had passed the calibration set
}

// at is the last word on a person in a tree of that size; nil if there is none.
func (p *person) at(size int64) *admission {
	for _, c := range slices.Backward(p.changes) {
		if c.index < size {
			return &c
		}
	}
	return nil
}

type proposal struct {
	*evidence.RegistryProposed
	index    int64
	at       evidence.Time
	config   evidence.RegistryConfigured // in force when it was proposed
	drawn    *evidence.RegistryDrawn
	drawnAt  evidence.Time // of the draw, or of the proposal if it came after the draw
	sealed   *sealedRoot   // that the draw will be made from
	votes    []vote
	decided  *evidence.RegistryDecided
	decision int64
	ended    evidence.Time
}

type vote struct {
	*evidence.RegistryJudged
	index int64
	at    evidence.Time
}

// A sealedRoot is the root of that many entries, which judges are drawn from.
type sealedRoot struct {
	size       int64
	checkpoint *digest.Content // the cosigned one
}

// A request is a write that was made under an idempotency key, and what it came to.
type request struct {
	body       digest.ID
	at         evidence.Time
	agent      string
	apiKey     digest.ID // that was made
	proposal   string
	credential digest.ID
	calibrated *evidence.RegistryCalibrated
}

// made remembers what a request came to.
func (s *state) made(q *evidence.RegistryRequest, at evidence.Time, as request) {
	if q == nil {
		return
	}
	as.body, as.at = q.Body, at
	s.requests[q.Key] = as
}

type credential struct {
	*evidence.CredentialIssued
	index   int64
	at      evidence.Time
	revoked *evidence.CredentialRevoked
	ended   int64
}

// A publishedKey is a key that credentials or manifests are signed with.
type publishedKey struct {
	purpose string
	method  string // verification method
	jwk     seal.JWK
	index   int64
	at      evidence.Time // of the entry that put it in use
	retired *evidence.Time
	// retiredAt is the entry that retired it.
	retiredAt int64
}

func newState() *state {
	return &state{
		agents: map[string]*agent{}, apiKeys: map[digest.ID]*apiKey{}, persons: map[string]*person{}, proposals: map[string]*proposal{},
		undecided: map[string]*proposal{}, undrawn: map[string]*proposal{}, contents: map[digest.ID]*proposal{}, paths: map[string]*proposal{}, draws: map[digest.ID]*evidence.RegistryDrawn{},
		runs: map[string]runOf{}, requests: map[digest.ID]request{}, credentials: map[digest.ID]*credential{}, calibrations: map[string][]*evidence.RegistryCalibrated{},
		takenDown: map[digest.Content]int64{},
	}
}

// Changes are what some entries touched, to be rendered for the index.
type changes struct {
	proposals   map[*proposal]bool
	agents      map[*agent]bool
	apiKeys     map[digest.ID]bool
	credentials map[*credential]bool
	keys        bool
	public      bool
	blobs       map[digest.Content]bool // true: put, false: dropped
}

func newChanges() *changes {
	return &changes{proposals: map[*proposal]bool{}, agents: map[*agent]bool{}, apiKeys: map[digest.ID]bool{}, credentials: map[*credential]bool{}, blobs: map[digest.Content]bool{}}
}

// fold adds the next entry. What a person appended by hand is not an act of the registry and
// changes nothing.
func (s *state) fold(rec ledger.Record, c *changes) error {
	s.size, s.head = rec.Index+1, rec.Head
	// A change of signers counts by its signatures, also if it was appended by hand.
	signers := rec.Envelope.Kind == evidence.LedgerOpened || rec.Envelope.Kind == evidence.SignersChangedKind
	if !signers && (rec.Envelope.Manual || !folded(rec.Envelope.Kind)) {
		return nil
	}
	body, err := evidence.DecodeBody(rec.Envelope.Kind, rec.Envelope.Body)
	if err == nil {
		err = s.add(body, rec.Index, rec.Envelope.Time, c)
	}
	if err != nil {
		return refusal.Newf(refusal.EntryInvalid, "entry %d, %s: %w", rec.Index, rec.Envelope.Kind, err)
	}
	return nil
}

// folded tells the kinds that a registry is made of.
func folded(k evidence.Kind) bool {
	switch k {
	case evidence.CredentialIssuedKind, evidence.CredentialRevokedKind, evidence.KeyPublishedKind:
		return true
	}
	return len(k) > 9 && k[:9] == "registry."
}

func (s *state) add(body evidence.Body, index int64, at evidence.Time, c *changes) error {
	switch b := body.(type) {
	case *evidence.Opened:
		s.origin = b.Origin
		return s.addSigners(b.Origin, b.Signers, index, at, c)
	case *evidence.SignersChanged:
		return s.addSigners(s.origin, b.Signers, index, at, c)
	case *evidence.RegistryConfigured:
		s.config, c.public = *b, true
	case *evidence.RegistryAgent:
		s.made(b.Request, at, request{agent: b.Agent, apiKey: b.KeyHash})
		return s.addAgent(b, index, c)
	case *evidence.RegistryAPIKey:
		s.made(b.Request, at, request{agent: b.Agent, apiKey: b.KeyHash})
		return s.addAPIKey(b, c)
	case *evidence.RegistryJudge:
		return s.addJudge(b, index, c)
	case *evidence.RegistryCalibrated:
		s.made(b.Request, at, request{agent: b.Agent, calibrated: b})
		s.calibrations[b.Agent] = append(s.calibrations[b.Agent], b)
	case *evidence.RegistryProposed:
		s.made(b.Request, at, request{proposal: b.Proposal})
		return s.addProposal(b, index, at, c)
	case *evidence.RegistryDrawn:
		return s.addDraw(b, at, c)
	case *evidence.RegistryJudged:
		s.made(b.Request, at, request{proposal: b.Proposal})
		return s.addVote(b, index, at, c)
	case *evidence.RegistryDecided:
		s.made(b.Request, at, request{proposal: b.Proposal})
		return s.addDecision(b, index, at, c)
	case *evidence.RegistryTakenDown:
		s.takeDown(b, index, c)
	case *evidence.CredentialIssued:
		s.made(b.Request, at, request{credential: b.Credential})
		s.addCredential(b, index, at, c)
	case *evidence.CredentialRevoked:
		s.made(b.Request, at, request{credential: b.Credential})
		return s.addRevocation(b, index, c)
	case *evidence.KeyPublished:
		return s.addKey(b, index, at, c)
	}
	return nil
}

func (s *state) addAgent(b *evidence.RegistryAgent, index int64, c *changes) error {
	if s.agents[b.Agent] != nil || s.apiKeys[b.KeyHash] != nil {
		return fmt.Errorf("agent %s or its key is there already", b.Agent)
	}
	a := &agent{b.Agent, b.PublicKey, b.Profile, index}
	s.agents[b.Agent], s.apiKeys[b.KeyHash] = a, &apiKey{agent: a}
	c.agents[a], c.apiKeys[b.KeyHash] = true, true
	if b.Profile != nil {
		c.blobs[*b.Profile] = true
	}
	return nil
}

func (s *state) addAPIKey(b *evidence.RegistryAPIKey, c *changes) error {
	a := s.agents[b.Agent]
	if a == nil {
		return fmt.Errorf("no agent %s", b.Agent)
	}
	if s.apiKeys[b.KeyHash] == nil {
		s.apiKeys[b.KeyHash] = &apiKey{agent: a}
	}
	if k := s.apiKeys[b.KeyHash]; b.Revoked {
		k.revoked = true
	}
	c.apiKeys[b.KeyHash] = true
	if b.Replaces != nil {
		if k := s.apiKeys[*b.Replaces]; k != nil {
			k.revoked = true
			c.apiKeys[*b.Replaces] = true
		}
	}
	return nil
}

func (s *state) addJudge(b *evidence.RegistryJudge, index int64, c *changes) error {
	for _, id := range b.Agents {
		if s.agents[id] == nil {
			return fmt.Errorf("no agent %s", id)
		}
		c.agents[s.agents[id]] = true
	}
	if s.persons[b.Person] == nil {
		s.persons[b.Person] = &person{id: b.Person}
	}
	p := s.persons[b.Person]
	if last := p.at(index); last != nil {
		for _, id := range last.agents {
			c.agents[s.agents[id]] = true
		}
	}
	p.changes = append(p.changes, admission{index, b.Admitted, b.Agents, b.Set != nil})
	for _, waiting := range s.undrawn {
		s.chooseRoot(waiting, index+1)
	}
	if b.Reason != nil {
		c.blobs[*b.Reason] = true
	}
	c.public = true
	return nil
}

func (s *state) addProposal(b *evidence.RegistryProposed, index int64, at evidence.Time, c *changes) error {
	if s.proposals[b.Proposal] != nil {
		return fmt.Errorf("proposal %s is there already", b.Proposal)
	}
	p := &proposal{RegistryProposed: b, index: index, at: at, config: s.config, drawn: s.draws[b.Content], drawnAt: at}
	s.proposals[b.Proposal], s.contents[b.Content], s.undecided[b.Proposal] = p, p, p
	if p.drawn == nil && p.config.Judges > 0 {
		s.undrawn[b.Proposal] = p
		s.chooseRoot(p, index+1)
	}
	c.proposals[p], c.blobs[b.Manifest] = true, true
	if b.Credential != nil {
		c.blobs[b.Credential.Blob] = true
		if run := b.Credential.Run; run != nil {
			s.addRun(run.ID, run.Content, ProposalAddress(b.Proposal))
		}
	}
	return nil
}

// chooseRoot notes which root the judges of a proposal will be drawn from: that of
// the fewest entries, from the proposal's own on, under which a judge is eligible.
// Nothing that the operator does after that entry changes it. Only an admission makes
// a judge eligible, so nothing else needs to ask.
func (s *state) chooseRoot(p *proposal, size int64) {
	if p.sealed == nil && len(p.config.Witnesses) == 0 && len(s.eligible(p, size)) > 0 {
		p.sealed = &sealedRoot{size: size}
	}
}

func (s *state) addDraw(b *evidence.RegistryDrawn, at evidence.Time, c *changes) error {
	if s.draws[b.Content] != nil {
		return fmt.Errorf("judges of %s were drawn before", b.Content)
	}
	s.draws[b.Content] = b
	if p := s.contents[b.Content]; p != nil && p.decided == nil {
		p.drawn, p.drawnAt = b, at
		delete(s.undrawn, p.Proposal)
		c.proposals[p] = true
	}
	if b.Checkpoint != nil {
		c.blobs[*b.Checkpoint] = true
	}
	return nil
}

func (s *state) addVote(b *evidence.RegistryJudged, index int64, at evidence.Time, c *changes) error {
	p := s.proposals[b.Proposal]
	if p == nil || p.decided != nil || p.Content != b.Content {
		return fmt.Errorf("proposal %s is not there, is decided, or has another content", b.Proposal)
	}
	p.votes = append(p.votes, vote{b, index, at})
	if b.Reason != nil {
		c.blobs[*b.Reason] = true
	}
	c.proposals[p] = true
	return nil
}

func (s *state) addDecision(b *evidence.RegistryDecided, index int64, at evidence.Time, c *changes) error {
	p := s.proposals[b.Proposal]
	if p == nil || p.decided != nil {
		return fmt.Errorf("proposal %s is not there, or decided", b.Proposal)
	}
	p.decided, p.decision, p.ended = b, index, at
	delete(s.undecided, b.Proposal)
	delete(s.undrawn, b.Proposal)
	if b.Outcome == Published {
		s.paths[p.Path] = p
	}
	c.proposals[p] = true
	return nil
}

// takeDown marks everything that shows the blob.
func (s *state) takeDown(b *evidence.RegistryTakenDown, index int64, c *changes) {
	s.takenDown[b.Blob] = index
	c.blobs[b.Blob] = false
	for _, p := range s.proposals {
		shows := p.Manifest == b.Blob || p.Credential != nil && p.Credential.Blob == b.Blob ||
			slices.ContainsFunc(p.votes, func(v vote) bool { return v.Reason != nil && *v.Reason == b.Blob })
		if shows {
			c.proposals[p] = true
		}
	}
	for _, a := range s.agents {
		if a.profile != nil && *a.profile == b.Blob {
			c.agents[a] = true
		}
	}
	for _, i := range s.credentials {
		if i.Blob != nil && *i.Blob == b.Blob {
			c.credentials[i] = true
		}
	}
}

func (s *state) addCredential(b *evidence.CredentialIssued, index int64, at evidence.Time, c *changes) {
	i := &credential{CredentialIssued: b, index: index, at: at}
	s.credentials[b.Credential] = i
	if b.Content != nil {
		s.addRun(b.Run, *b.Content, CredentialAddress(b.Run, lastPart(b.ID)))
	}
	if b.Blob != nil {
		c.blobs[*b.Blob] = true
	}
	c.credentials[i] = true
}

func (s *state) addRevocation(b *evidence.CredentialRevoked, index int64, c *changes) error {
	i := s.credentials[b.Credential]
	if i == nil {
		return fmt.Errorf("no credential %s", b.Credential)
	}
	if i.revoked == nil {
		i.revoked, i.ended = b, index
	}
	c.credentials[i] = true
	return nil
}

func (s *state) addKey(b *evidence.KeyPublished, index int64, at evidence.Time, c *changes) error {
	c.keys = true
	for _, k := range s.keys {
		if k.method == b.Key {
			if b.Retired && k.retired == nil {
				k.retired, k.retiredAt = &at, index
			}
			return nil
		}
	}
	k := &publishedKey{purpose: b.Purpose, method: b.Key, index: index, at: at}
	if err := decodeJWK(b.Document, &k.jwk); err != nil {
		return fmt.Errorf("key %s: %w", b.Key, err)
	}
	if b.Retired {
		k.retired, k.retiredAt = &at, index
	}
	s.keys = append(s.keys, k)
	return nil
}

// judge is the admitted person who holds an agent now, or "". Who was removed is not
// one any more.
func (s *state) judge(agent string) string {
	for id, p := range s.persons {
		if last := p.at(s.size); last != nil && last.admitted && slices.Contains(last.agents, agent) {
			return id
		}
	}
	return ""
}

// eligible lists the persons who may be drawn for a proposal from a tree of that
// size: admitted in it, and holding neither the agent that proposed nor the key of
// the runner.
func (s *state) eligible(p *proposal, size int64) []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.persons)) {
		a := s.persons[id].at(size)
		if a != nil && a.admitted && !s.holds(a.agents, p) {
			out = append(out, id)
		}
	}
	return out
}

// holds reports whether one of the agents proposed, or ran what was proposed.
func (s *state) holds(agents []string, p *proposal) bool {
	return slices.ContainsFunc(agents, func(id string) bool {
		a := s.agents[id]
		return id == p.Agent || a != nil && p.Runner != "" && a.publicKey == p.Runner
	})
}

// admitted counts the persons who are admitted now.
func (s *state) admitted() int {
	n := 0
	for _, p := range s.persons {
		if last := p.at(s.size); last != nil && last.admitted {
			n++
		}
	}
	return n
}

// calibrated counts the persons among some who had passed the calibration set when they
// were last admitted in a tree of that size.
func (s *state) calibrated(persons []string, size int64) int {
	n := 0
	for _, id := range persons {
		if p := s.persons[id]; p != nil {
			if last := p.at(size); last != nil && last.admitted && last.calibrated {
				n++
			}
		}
	}
	return n
}

// deadline is when a drawn proposal is decided whatever is missing.
func (p *proposal) deadline() time.Time {
	return p.drawnAt.Go().Add(time.Duration(p.config.DeadlineHours) * time.Hour)
}

// status is one of the states of a proposal.
func (p *proposal) status() string {
	if p.decided != nil {
		return p.decided.Outcome
	}
	return Pending
}

// tally counts the votes of those who were drawn.
func (p *proposal) tally() (v evidence.RegistryVotes) {
	for _, j := range p.votes {
		switch j.Verdict {
		case "accept":
			v.For++
		case "reject":
			v.Against++
		default:
			v.Abstained++
		}
	}
	if p.drawn != nil {
		v.Missing = len(p.drawn.Judges) - len(p.votes)
	}
	return v
}

// outcome decides by the votes of drawn judges: published once a quorum accepts,
// rejected once no quorum can be reached because of those who reject, and, when
// nothing more can come, lapsed. It is "" while it is open.
func outcome(v evidence.RegistryVotes, drawn, quorum int, over bool) string {
	quorum = min(quorum, drawn)
	switch {
	case v.For >= quorum:
		return Published
	case v.Against > drawn-quorum:
		return Rejected
	case over || v.Missing == 0:
		return Lapsed
	}
	return ""
}
