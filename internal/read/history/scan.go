package history

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// A scanner reads case records. They come by the million, and a canonical
// record has one spelling, so it walks that spelling instead of decoding it,
// which is some thirty times faster.
//
// It may give up and never be more lenient: on anything that it does not know
// byte for byte it leaves the record to [evidence.DecodeBody], which decides.
// A fuzz test holds the two to each other.
type scanner struct {
	out      scoredFields
	lists    map[string]*[]string // by spelling; each was accepted by the decoder
	keys     map[string]bool      // breakdown keys that the decoder accepted
	contexts map[Context]*Context
	last     *Context
	workers  map[string]*string // that starts name
}

// scoredFields are what is kept of a case.scored record. The byte slices are
// those of the record.
type scoredFields struct {
	attempt, caseID, class []byte
	caseDigest             digest.Content
	cassette               digest.Content
	hasCassette            bool
	evidence               []digest.Content // reused
	context                *Context
	outcome                outcome
	score                  float64
	cost                   cost.Cost
	tokens                 int64
	retries, turns         int64
	violations             int64
	rollbacks              int64
	rollbacksVerified      int64
	toolCalls              CallCount
	cached                 Cached
	reused                 Reused // zero if none was
	hasCached              bool
	user                   User
	hasUser                bool
	repeat, execution      int32
	startedMS, finishedMS  int64
	tags, modes            *[]string
}

type startedFields struct {
	attempt, caseID   []byte
	repeat, execution int32
	worker            []byte // nil if none is named
}

func newScanner() *scanner {
	return &scanner{lists: make(map[string]*[]string), keys: make(map[string]bool), contexts: make(map[Context]*Context), workers: make(map[string]*string)}
}

// attemptOf reads whose record it is off its beginning.
func (s *scanner) attemptOf(rec ledger.Record) ([]byte, bool) {
	p := pos{data: rec.Envelope.Body}
	p.lit("{")
	for _, optional := range []string{`"agent_isolation":`, `"agent_scope":`} {
		if p.try(optional) {
			p.text()
			p.lit(",")
		}
	}
	p.lit(`"attempt":`)
	id := p.text()
	return id, !p.bad
}

// saysPassed looks for the outcome of a record that is only counted. In JSON a
// quotation mark inside a string is escaped, so these bytes stand nowhere else.
func (s *scanner) saysPassed(body []byte) bool {
	return bytes.Contains(body, []byte(`,"outcome":"passed",`))
}

func (s *scanner) started(rec ledger.Record) (startedFields, error) {
	p := pos{data: rec.Envelope.Body}
	var f startedFields
	p.lit(`{"attempt":`)
	f.attempt = p.text()
	p.lit(`,"case_id":`)
	f.caseID = p.text()
	if p.try(`,"events":{"count":`) {
		var d digest.Content
		if p.count() < 1 {
			p.bad = true
		}
		p.lit(`,"digest":`)
		p.content(&d)
		p.lit("}")
	}
	p.lit(`,"execution":`)
	execution := p.count()
	p.lit(`,"repeat":`)
	repeat := p.count()
	if p.try(`,"worker":`) {
		f.worker = p.some()
	}
	p.lit("}")
	if p.done() && len(f.attempt) > 0 && len(f.caseID) > 0 && execution >= 1 && repeat >= 1 {
		f.execution, f.repeat = small(execution), small(repeat)
		return f, nil
	}
	b, err := body(rec)
	if err != nil {
		return f, err
	}
	c := b.(*evidence.CaseStarted)
	return startedFields{[]byte(c.Attempt), []byte(c.CaseID), small(int64(c.Repeat)), small(int64(c.Execution)), []byte(c.Worker)}, nil
}

// worker returns the one copy of a worker's key, nil for none.
func (s *scanner) worker(key []byte) *string {
	if len(key) == 0 {
		return nil
	}
	known := s.workers[string(key)]
	if known == nil {
		known = new(string(key))
		if len(s.workers) < maxRemembered {
			s.workers[*known] = known
		}
	}
	return known
}

// scored reads a record. What it returns is valid until the next call.
func (s *scanner) scored(rec ledger.Record) (*scoredFields, error) {
	if s.fast(rec.Envelope.Body) {
		return &s.out, nil
	}
	b, err := body(rec)
	if err != nil {
		return nil, err
	}
	return &s.out, s.slow(b.(*evidence.CaseScored))
}

// slow takes a decoded record, and remembers the names that the decoder let
// pass, so that the next record with them is read fast.
func (s *scanner) slow(c *evidence.CaseScored) error {
	f := &s.out
	*f = scoredFields{evidence: f.evidence[:0]}
	f.attempt, f.caseID, f.class = []byte(c.Attempt), []byte(c.CaseID), []byte(c.Class)
	f.caseDigest = c.CaseDigest
	if c.CassetteDigest != nil {
		f.cassette, f.hasCassette = *c.CassetteDigest, true
	}
	f.evidence = append(f.evidence, c.EvidenceDigests...)
	f.outcome = outcomeOf(c.Outcome)
	f.cost, f.tokens, f.retries, f.turns = c.Cost(), c.Tokens, int64(c.Retries), int64(c.Turns)
	f.violations, f.rollbacks, f.rollbacksVerified = int64(c.Policy.Violations), int64(c.Policy.Rollbacks), int64(c.Policy.RollbacksVerified)
	if n := c.ToolCalls; n != nil {
		f.toolCalls = CallCount{true, small(int64(n.Executed)), small(int64(n.Reported)), small(int64(n.Proposed))}
	}
	f.repeat, f.execution = small(int64(c.Repeat)), small(int64(c.Execution))
	f.startedMS, f.finishedMS = c.StartedAt.Go().UnixMilli(), c.FinishedAt.Go().UnixMilli()

	ctx := Context{HarnessVersion: c.HarnessVersion, Isolation: c.IsolationClass, Scope: c.IsolationScope, AgentIsolation: c.AgentIsolation, AgentScope: c.AgentScope,
		Vantage: c.Vantage, Provenance: c.Provenance, JudgedByModel: c.JudgedByModel, Unanswered: c.Unanswered, Operator: c.Operator}
	if c.RubricDigest != nil {
		ctx.Rubric = *c.RubricDigest
	}
	if c.ImageDigest != nil {
		ctx.Image = *c.ImageDigest
	}
	if n := c.Normalised; n != nil {
		ctx.ByClassNormalisers, ctx.ByTargetNormalisers = n.Class > 0, n.Target > 0
	}
	if n := c.Worker; n != nil {
		ctx.Worker, ctx.WorkerVersion = n.Key, n.HarnessVersion
	}
	f.context = s.intern(ctx)
	if n := c.Cached; n != nil {
		f.hasCached, f.cached = true, Cached{Replies: int64(n.Replies), Calls: int64(n.Calls)}
		if n.Recording != nil {
			f.cached.Recording = *n.Recording
		}
	}
	if n := c.User; n != nil {
		f.hasUser, f.user = true, User{CostMicroUSD: n.CostMicroUSD, Unpriced: n.Unpriced, Tokens: n.Tokens}
	}
	if n := c.Reused; n != nil {
		f.reused = Reused{Replies: int64(n.Replies), Unlisted: int64(n.Unlisted)}
	}

	var err error
	if f.tags, err = s.remember(c.Tags); err != nil {
		return err
	}
	if c.Score != nil {
		f.score = c.Score.Score
		for key := range c.Score.Breakdown {
			if len(s.keys) < maxRemembered {
				s.keys[key] = true
			}
		}
		f.modes, err = s.remember(c.Score.FailureModes)
	}
	return err
}

// maxRemembered bounds what a hostile ledger can make the scanner remember.
// Beyond it records are decoded one by one.
const maxRemembered = 100_000

func (s *scanner) intern(ctx Context) *Context {
	if known := s.contexts[ctx]; known != nil {
		s.last = known
		return known
	}
	s.last = &ctx
	if len(s.contexts) < maxRemembered {
		s.contexts[ctx] = s.last
	}
	return s.last
}

// remember returns the one copy of a list of names, nil for none.
func (s *scanner) remember(names []string) (*[]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	spelling, err := canon.Marshal(names)
	if err != nil {
		return nil, err
	}
	if known := s.lists[string(spelling)]; known != nil {
		return known, nil
	}
	if len(s.lists) < maxRemembered {
		s.lists[string(spelling)] = &names
	}
	return &names, nil
}

// fast walks the canonical spelling: the members in their order, the optional
// ones only where they are. It reports false on anything else.
func (s *scanner) fast(body []byte) bool {
	f := &s.out
	*f = scoredFields{evidence: f.evidence[:0]}
	p := &pos{data: body}
	var c contextText

	p.lit("{")
	if p.try(`"agent_isolation":`) {
		c.agent = p.some()
		p.lit(",")
	}
	if p.try(`"agent_scope":`) {
		c.agentScope = p.some()
		p.bad = p.bad || string(c.agentScope) != evidence.ScopeAttempt
		p.lit(",")
	}
	p.lit(`"attempt":`)
	f.attempt = p.some()
	if f.hasCached = p.try(`,"cached":{`); f.hasCached && !f.cached.read(p) {
		return false
	}
	p.lit(`,"case_digest":`)
	p.content(&f.caseDigest)
	p.lit(`,"case_id":`)
	f.caseID = p.some()
	if f.hasCassette = p.try(`,"cassette_digest":`); f.hasCassette {
		p.content(&f.cassette)
	}
	if p.try(`,"cassette_provenance":`) {
		c.provenance = p.some()
	}
	p.lit(`,"class":`)
	f.class = p.some()
	p.lit(`,"cost_microdollars":`)
	microUSD := p.count()
	p.lit(`,"evidence":[`)
	for !p.bad && !p.try("]") {
		if len(f.evidence) > 0 {
			p.lit(",")
		}
		var d digest.Content
		p.content(&d)
		f.evidence = append(f.evidence, d)
	}
	p.lit(`,"execution":`)
	execution := p.count()
	p.lit(`,"finished_at":`)
	f.finishedMS = p.time()
	p.lit(`,"harness_version":`)
	c.harness = p.text()
	if p.try(`,"image_digest":`) {
		p.content(&c.image)
	}
	p.lit(`,"isolation_class":`)
	c.isolation = p.some()
	if p.try(`,"isolation_scope":`) {
		c.scope = p.some()
	}
	c.judged = p.try(`,"judged_by_model":true`)
	if p.try(`,"normalised":{"class":`) {
		c.byClass = p.count() > 0
		p.lit(`,"target":`)
		c.byTarget = p.count() > 0
		p.lit("}")
	}
	p.lit(`,"operator":`)
	p.id(&c.operator)
	p.lit(`,"outcome":`)
	name := p.text()
	var proof evidence.PricedProof
	if proof.Live = p.try(`,"paid":{"calls":`); proof.Live {
		proof.UnknownCalls = p.paid()
	}
	p.lit(`,"policy":{"rollbacks":`)
	f.rollbacks = p.count()
	p.lit(`,"rollbacks_verified":`)
	f.rollbacksVerified = p.count()
	p.lit(`,"violations":`)
	f.violations = p.count()
	p.lit("}")
	if p.try(`,"preload":`) {
		p.preload()
	}
	hasReason := p.try(`,"reason":`)
	if hasReason {
		p.some()
	}
	p.lit(`,"repeat":`)
	repeat := p.count()
	p.optional(`,"resumed":`)
	p.lit(`,"retries":`)
	f.retries = p.count()
	if p.try(`,"reused":{`) && !f.reused.read(p) {
		return false
	}
	if p.try(`,"rubric_digest":`) {
		p.content(&c.rubric)
	}
	p.lit(`,"schema_version":1`)
	passedSays := false
	hasScore := p.try(`,"score":{"breakdown":`)
	if hasScore {
		passedSays = s.score(p)
	}
	p.lit(`,"started_at":`)
	f.startedMS = p.time()
	if p.try(`,"tags":`) {
		if f.tags = s.list(p); f.tags == nil {
			return false // an empty list is left out
		}
	}
	p.lit(`,"tokens":`)
	f.tokens = p.count()
	if p.try(`,"tool_calls":{"executed":`) {
		executed := p.count()
		p.lit(`,"proposed":`)
		proposed := p.count()
		p.lit(`,"reported":`)
		f.toolCalls = CallCount{true, small(executed), small(p.count()), small(proposed)}
		p.lit("}")
	}
	p.lit(`,"turns":`)
	f.turns = p.count()
	c.unanswered = p.try(`,"unanswered":true`)
	var unpriced *int64
	if p.try(`,"unpriced_calls":`) {
		n := p.count()
		unpriced = &n
	}
	if f.hasUser = p.try(`,"user":{"by":`); f.hasUser && !f.user.read(p) {
		return false
	}
	p.lit(`,"vantage":`)
	c.vantage = p.some()
	if p.try(`,"worker":{"harness_version":`) {
		c.workerVersion = p.some()
		p.lit(`,"key":`)
		c.worker = p.some()
		p.lit("}")
	}
	p.lit("}")
	if !p.done() {
		return false
	}

	// What CaseScored.Validate asks for beyond the types.
	switch string(name) {
	case "passed":
		f.outcome = passed
	case "failed":
		f.outcome = failed
	case "skipped":
		f.outcome = skipped
	case "errored":
		f.outcome = errored
	case "unscored":
		f.outcome = unscored
	case "truncated":
		f.outcome = truncated
	default:
		return false
	}
	scored := f.outcome == passed || f.outcome == failed
	if scored != hasScore || !scored && !hasReason || scored && passedSays != (f.outcome == passed) ||
		c.unanswered && f.outcome != errored && f.outcome != unscored || f.finishedMS < f.startedMS || f.rollbacksVerified > f.rollbacks || execution < 1 || repeat < 1 {
		return false
	}
	f.execution, f.repeat = small(execution), small(repeat)
	f.context = s.contextOf(&c)
	proof.Vantage, proof.Provenance, proof.CachedReplies = f.context.Vantage, f.context.Provenance, f.cached.Replies
	f.cost = evidence.CostOf(microUSD, unpriced, proof)
	return true
}

// paid walks over what was paid, after its first name, and gives how many calls are of
// unknown cost. The rest is for those who show the record.
func (p *pos) paid() (unknown int64) {
	p.count()
	p.lit(`,"cost_microdollars":`)
	p.count()
	p.lit(`,"journal":`)
	var head digest.ID
	p.id(&head)
	p.optional(`,"refused_calls":`)
	unknown = p.optional(`,"unknown_calls":`)
	p.optional(`,"unknown_ceiling_microdollars":`)
	p.lit("}")
	return unknown
}

// optional reads a count that is left out when it is 0.
func (p *pos) optional(name string) (n int64) {
	if p.try(name) {
		n = p.count()
		p.bad = p.bad || n == 0
	}
	return n
}

// read reads where replies came from, and reports whether it makes sense.
func (c *Cached) read(p *pos) bool {
	made := p.try(`"attempt":`)
	if made {
		p.some()
		p.lit(",")
	}
	p.lit(`"calls":`)
	c.Calls = p.count()
	p.lit(`,"cost_microdollars":`)
	p.count()
	named := p.try(`,"recording":`)
	if named {
		p.content(&c.Recording)
	}
	p.lit(`,"replies":`)
	c.Replies = p.count()
	p.lit("}")
	return c.Replies <= c.Calls && (c.Replies > 0 || !named) && (named || !made)
}

// read reads what a simulated user took, after who played it was named.
func (u *User) read(p *pos) bool {
	by := string(p.some())
	p.lit(`,"cost_microdollars":`)
	u.CostMicroUSD = p.count()
	ended := ""
	if p.try(`,"ended":`) {
		ended = string(p.some())
	}
	if p.try(`,"model":`) {
		p.some()
	}
	p.lit(`,"moves":`)
	p.count()
	if p.try(`,"prompt":`) {
		var prompt digest.Content
		p.content(&prompt)
	}
	p.lit(`,"tokens":`)
	u.Tokens = p.count()
	p.lit(`,"tool_calls":`)
	p.count()
	p.lit(`,"turns":`)
	p.count()
	u.Unpriced = p.optional(`,"unpriced_calls":`)
	p.lit("}")
	return (by == "model" || by == "script") && slices.Contains([]string{"", "reached", "gave_up", "stopped", "broke_rule"}, ended)
}

// read reads what was reused. Whether a class and a target are named twice it does not
// see, so it takes records of one origin alone; the others are decoded.
func (r *Reused) read(p *pos) bool {
	p.lit(`"from":[{"class":`)
	p.some()
	p.lit(`,"replies":`)
	from := p.count()
	p.lit(`,"target":`)
	p.some()
	p.lit(`}],"replies":`)
	r.Replies = p.count()
	listed := !p.try(`,"unlisted":`)
	if !listed {
		r.Unlisted = p.count()
	}
	p.lit("}")
	return from > 0 && r.Replies > 0 && (listed || r.Unlisted > 0 && r.Unlisted <= r.Replies)
}

// score reads the score from its breakdown on.
func (s *scanner) score(p *pos) (passes bool) {
	p.lit("{")
	var previous []byte
	for first := true; !p.bad && !p.try("}"); first = false {
		if !first {
			p.lit(",")
		}
		key := p.text()
		// In ASCII, which is all that text takes, the canonical order is that
		// of the bytes.
		if !s.keys[string(key)] || !first && bytes.Compare(key, previous) <= 0 {
			p.bad = true
			return false
		}
		previous = key
		p.lit(":")
		p.number()
	}
	p.lit(`,"cost_usd":`)
	if cost := p.number(); !(cost >= 0 && cost <= 1e9) || !sixDecimals(cost) {
		p.bad = true
	}
	p.lit(`,"duration_seconds":`)
	if d := p.number(); !(d >= 0 && d <= 1e9) {
		p.bad = true
	}
	p.lit(`,"failure_modes":`)
	s.out.modes = s.list(p)
	if passes = p.try(`,"passed":true`); !passes {
		p.lit(`,"passed":false`)
	}
	p.lit(`,"score":`)
	if s.out.score = p.number(); !(s.out.score >= 0 && s.out.score <= 1) {
		p.bad = true
	}
	p.lit("}")
	return passes
}

// list reads a list of names that the decoder has accepted before. An empty
// one is nil, as it is in slow.
func (s *scanner) list(p *pos) *[]string {
	start := p.at
	if p.try("[]") {
		return nil
	}
	p.lit("[")
	for first := true; !p.bad && !p.try("]"); first = false {
		if !first {
			p.lit(",")
		}
		p.text()
	}
	if p.bad {
		return nil
	}
	known := s.lists[string(p.data[start:p.at])]
	p.bad = known == nil
	return known
}

// contextText is a Context as it stands in a record.
type contextText struct {
	harness, isolation, scope, agent, agentScope, vantage, provenance []byte
	worker, workerVersion                                             []byte
	judged, unanswered, byClass, byTarget                             bool
	operator                                                          digest.ID
	rubric, image                                                     digest.Content
}

// contextOf finds the Context without making strings: nearly always it is that
// of the record before.
func (s *scanner) contextOf(c *contextText) *Context {
	if k := s.last; k != nil && k.HarnessVersion == string(c.harness) && k.Isolation == string(c.isolation) && k.Scope == string(c.scope) &&
		k.AgentIsolation == string(c.agent) && k.AgentScope == string(c.agentScope) && k.Vantage == string(c.vantage) && k.Provenance == string(c.provenance) &&
		k.JudgedByModel == c.judged && k.Unanswered == c.unanswered && k.ByClassNormalisers == c.byClass && k.ByTargetNormalisers == c.byTarget && k.Operator == c.operator && k.Rubric == c.rubric && k.Image == c.image &&
		k.Worker == string(c.worker) && k.WorkerVersion == string(c.workerVersion) {
		return k
	}
	return s.intern(Context{string(c.harness), string(c.isolation), string(c.scope), string(c.agent), string(c.agentScope), string(c.vantage), string(c.provenance),
		c.judged, c.unanswered, c.byClass, c.byTarget, c.operator, c.rubric, c.image, string(c.worker), string(c.workerVersion)})
}

// A planned is a case of a case list, good until the next one is seen.
type planned struct {
	id       []byte
	digest   digest.Content
	cassette *digest.Content
}

// eachPlanned returns a walk over a case list, which is canonical JSON, and a
// hash of the id of each case.
func eachPlanned(data []byte) (each func(see func(*planned)), ids []uint64, err error) {
	seed := maphash.MakeSeed()
	ids = make([]uint64, 0, bytes.Count(data, []byte(`"id":`)))
	note := func(c *planned) { ids = append(ids, maphash.Bytes(seed, c.id)) }
	if walkCaseList(data, note) {
		return func(see func(*planned)) { walkCaseList(data, see) }, ids, nil
	}
	var cases []evidence.PlannedCase
	if err := canon.UnmarshalCanonical(data, &cases); err != nil {
		return nil, nil, err
	}
	each = walkPlanned(cases)
	ids = ids[:0]
	each(note)
	return each, ids, nil
}

func walkPlanned(cases []evidence.PlannedCase) func(see func(*planned)) {
	return func(see func(*planned)) {
		for _, c := range cases {
			see(&planned{[]byte(c.ID), c.Digest, c.Cassette})
		}
	}
}

// walkCaseList is the fast walk over a list; it reports false on what is for
// the decoder to judge.
func walkCaseList(data []byte, see func(*planned)) bool {
	p := &pos{data: data}
	var c planned
	var tape digest.Content
	p.lit("[")
	for first := true; !p.bad && !p.try("]"); first = false {
		if !first {
			p.lit(",")
		}
		c.cassette = nil
		if p.try(`{"cassette":`) {
			p.content(&tape)
			p.lit(",")
			c.cassette = &tape
		} else {
			p.lit("{")
		}
		p.lit(`"digest":`)
		p.content(&c.digest)
		p.lit(`,"id":`)
		c.id = p.some()
		p.lit("}")
		if p.bad {
			return false
		}
		see(&c)
	}
	return p.done()
}

// pos is a place in a canonical record. Once something is not as expected it
// is bad and reads nothing more.
type pos struct {
	data []byte
	at   int
	bad  bool
}

// preload walks over what an agent imported, which is not kept.
func (p *pos) preload() {
	p.lit(`{"digest":`)
	p.some()
	p.lit(`,"milliseconds":`)
	p.count()
	p.lit(`,"modules":`)
	p.count()
	p.optional(`,"rehearsed":`)
	if p.try(`,"stderr":`) {
		p.some()
	}
	if p.try(`,"unrehearsed":`) {
		p.some()
	}
	p.lit("}")
}

func (p *pos) done() bool { return !p.bad && p.at == len(p.data) }

// try steps over text if it is next.
func (p *pos) try(text string) bool {
	if p.bad || len(p.data)-p.at < len(text) || string(p.data[p.at:p.at+len(text)]) != text {
		return false
	}
	p.at += len(text)
	return true
}

// lit steps over text, which must be next.
func (p *pos) lit(text string) {
	if !p.try(text) {
		p.bad = true
	}
}

// text reads a string of printable ASCII without escapes.
func (p *pos) text() []byte {
	p.lit(`"`)
	if p.bad {
		return nil
	}
	start := p.at
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			return p.data[start : p.at-1]
		case c < ' ' || c > '~' || c == '\\':
			p.bad = true
			return nil
		}
		p.at++
	}
	p.bad = true
	return nil
}

// some is text that is not empty.
func (p *pos) some() []byte {
	t := p.text()
	if len(t) == 0 {
		p.bad = true
	}
	return t
}

// count reads an integer of 0 to 2^53-1, which fifteen digits always are.
func (p *pos) count() int64 {
	start, n := p.at, int64(0)
	for p.at < len(p.data) && p.data[p.at] >= '0' && p.data[p.at] <= '9' {
		n = n*10 + int64(p.data[p.at]-'0')
		p.at++
		if p.at-start > 15 {
			p.bad = true
			return 0
		}
	}
	if digits := p.at - start; digits == 0 || digits > 1 && p.data[start] == '0' {
		p.bad = true
	}
	return n
}

// number reads a number that RFC 8785 writes without an exponent.
func (p *pos) number() float64 {
	if p.bad {
		return 0
	}
	start := p.at
	for p.at < len(p.data) && (p.data[p.at] >= '0' && p.data[p.at] <= '9' || p.data[p.at] == '.' || p.data[p.at] == '-') {
		p.at++
	}
	text := p.data[start:p.at]
	if len(text) == 1 && text[0] >= '0' && text[0] <= '9' {
		return float64(text[0] - '0')
	}
	v, err := strconv.ParseFloat(string(text), 64)
	var again [32]byte
	abs := max(v, -v)
	if err != nil || abs < 1e-6 || abs >= 1e21 || !bytes.Equal(strconv.AppendFloat(again[:0], v, 'f', -1, 64), text) {
		p.bad = true
	}
	return v
}

func (p *pos) content(d *digest.Content) { p.digest("blake3:", d[:]) }
func (p *pos) id(d *digest.ID)           { p.digest("sha256:", d[:]) }

func (p *pos) digest(prefix string, d []byte) {
	p.lit(`"`)
	p.lit(prefix)
	if p.bad || len(p.data)-p.at < 2*digest.Size || !unhex(d, p.data[p.at:]) {
		p.bad = true
		return
	}
	p.at += 2 * digest.Size
	p.lit(`"`)
}

// nibbles are the lower-case hexadecimal digits: their values with isDigit set.
var nibbles = [256]byte{'0': 0x10, '1': 0x11, '2': 0x12, '3': 0x13, '4': 0x14, '5': 0x15, '6': 0x16, '7': 0x17, '8': 0x18, '9': 0x19,
	'a': 0x1a, 'b': 0x1b, 'c': 0x1c, 'd': 0x1d, 'e': 0x1e, 'f': 0x1f}

const isDigit = 0x10

// unhex fills dst with what the digits at the beginning of text say, and
// reports whether they are lower-case hexadecimal digits.
func unhex(dst, text []byte) bool {
	all := byte(isDigit)
	for i := range dst {
		hi, lo := nibbles[text[2*i]], nibbles[text[2*i+1]]
		all &= hi & lo
		dst[i] = hi<<4 | lo&0x0f
	}
	return all == isDigit
}

// time reads a time in its one spelling, in milliseconds since 1970.
func (p *pos) time() int64 {
	const form = "2006-01-02T15:04:05.000Z"
	t := p.text()
	if p.bad || len(t) != len(form) || t[4] != '-' || t[7] != '-' || t[10] != 'T' || t[13] != ':' || t[16] != ':' || t[19] != '.' || t[23] != 'Z' {
		p.bad = true
		return 0
	}
	field := func(from, to int) int {
		n := 0
		for _, c := range t[from:to] {
			if c < '0' || c > '9' {
				p.bad = true
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, month, day := field(0, 4), field(5, 7), field(8, 10)
	hour, minute, second, milli := field(11, 13), field(14, 16), field(17, 19), field(20, 23)
	// Day 28 is in every month; what is later, and the year 0, is for the decoder.
	if year < 1 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		p.bad = true
	}
	if p.bad {
		return 0
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, milli*int(time.Millisecond), time.UTC)
	if at.Day() != day { // the month has no such day
		p.bad = true
	}
	return at.UnixMilli()
}

// sixDecimals is the rule of evidence.Score for money.
func sixDecimals(v float64) bool { return math.Round(v*1e6)/1e6 == v }
