package monitor

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/serve/registry/recompute"
)

// A Finding is one thing about a registry that is not as its own rules and entries
// say. Entry is the index it shows at, -1 for a row that no entry has.
type Finding struct {
	Name     string `json:"name"`
	Entry    int64  `json:"entry"`
	Proposal string `json:"proposal,omitempty"`
	Detail   string `json:"detail"`
}

// The names of findings.
const (
	RowWithoutEntry     = "RowWithoutEntry"
	EntryWithoutRow     = "EntryWithoutRow"
	RowDiffers          = "RowDiffers"
	RowTwice            = "RowTwice"
	ReceiptDoesNotProve = "ReceiptDoesNotProve"
	DrawDiffers         = "DrawDiffers"
	VoteNotValid        = "VoteNotValid"
	DecisionDiffers     = "DecisionDiffers"
	EntryOutOfPlace     = "EntryOutOfPlace"
	EarlierDiffers      = "EarlierDiffers"
	TextMissing         = "TextMissing"
	RunTwice            = "RunTwice"
	CheckpointOld       = "CheckpointOld"
	PeerDiffers         = "PeerDiffers"
)

// A replay is what follows from the entries of a registry, computed again.
type replay struct {
	log      *log
	settings *evidence.RegistryConfigured
	agents   map[string]string // id to did:key
	judges   []admission
	byID     map[string]*proposal
	order    []*proposal
	draws    map[digest.ID]*draw
	down     map[digest.Content]bool // blobs that were taken down
	earlier  map[[4]string]int       // proposals by kind, artifact, agent and runner; "" for any
	runs     map[string]digest.ID
	drawn    int
	votes    int
	decided  int
	findings []Finding
}

// An admission is a judge who came, changed or went.
type admission struct {
	index int64
	body  *evidence.RegistryJudge
}

type proposal struct {
	index    int64
	at       evidence.Time
	body     *evidence.RegistryProposed
	settings *evidence.RegistryConfigured // in force when it was proposed
	votes    map[string]string            // person to verdict

	decision      *evidence.RegistryDecided
	decisionIndex int64
	decisionAt    evidence.Time
}

type draw struct {
	index int64
	at    evidence.Time
	body  *evidence.RegistryDrawn
	first *proposal
}

func newReplay(l *log) *replay {
	return &replay{log: l, agents: map[string]string{}, byID: map[string]*proposal{}, draws: map[digest.ID]*draw{}, down: map[digest.Content]bool{}, earlier: map[[4]string]int{}, runs: map[string]digest.ID{}}
}

func (r *replay) find(name string, index int64, proposal, format string, args ...any) {
	r.findings = append(r.findings, Finding{Name: name, Entry: index, Proposal: proposal, Detail: fmt.Sprintf(format, args...)})
}

// apply takes in one verified entry. It never fails: what breaks a rule is a
// finding, and the rest is computed all the same.
func (r *replay) apply(index int64, entry evidence.Entry, body evidence.Body) {
	if entry.Manual && entry.Kind != evidence.NoteKind {
		r.find(EntryOutOfPlace, index, "", "a %s was appended by hand", entry.Kind)
		return
	}
	switch b := body.(type) {
	case *evidence.RegistryConfigured:
		if r.settings != nil && b.DrawRule < r.settings.DrawRule {
			r.find(EntryOutOfPlace, index, "", "the settings go back from draw rule %d to %d", r.settings.DrawRule, b.DrawRule)
		}
		r.settings = b
	case *evidence.RegistryAgent:
		if _, ok := r.agents[b.Agent]; ok {
			r.find(EntryOutOfPlace, index, "", "agent %s is registered a second time", b.Agent)
			return
		}
		r.agents[b.Agent] = b.PublicKey
	case *evidence.RegistryJudge:
		r.judges = append(r.judges, admission{index, b})
	case *evidence.RegistryProposed:
		r.proposed(index, entry.Time, b)
	case *evidence.RegistryDrawn:
		r.checkDraw(index, entry.Time, b)
	case *evidence.RegistryJudged:
		r.checkVote(index, entry.Time, b)
	case *evidence.RegistryDecided:
		r.checkDecision(index, entry.Time, b)
	case *evidence.RegistryTakenDown:
		r.down[b.Blob] = true
	case *evidence.CredentialIssued:
		if b.Content != nil {
			r.oneContent(index, "", b.Run, *b.Content)
		}
	}
}

// oneContent wants every entry about a run to have the content of the first.
func (r *replay) oneContent(index int64, proposal, run string, content digest.ID) {
	run = strings.ToLower(run)
	if first, there := r.runs[run]; there && first != content {
		r.find(RunTwice, index, proposal, "the run %s has the content %s here and %s in an entry before", run, content, first)
		return
	}
	r.runs[run] = content
}

func (r *replay) proposed(index int64, at evidence.Time, b *evidence.RegistryProposed) {
	switch {
	case r.settings == nil:
		r.find(EntryOutOfPlace, index, b.Proposal, "it is proposed before the registry has settings")
		return
	case r.byID[b.Proposal] != nil:
		r.find(EntryOutOfPlace, index, b.Proposal, "it is proposed a second time; the first is entry %d", r.byID[b.Proposal].index)
		return
	case r.agents[b.Agent] == "":
		r.find(EntryOutOfPlace, index, b.Proposal, "its agent %s is not registered", b.Agent)
	}
	if want := r.countEarlier(b); b.Earlier != want {
		r.find(EarlierDiffers, index, b.Proposal, "it says that %d proposals of the same agent or runner for %s came before it; there were %d", b.Earlier, b.Artifact, want)
	}
	if c := b.Credential; c != nil && c.Run != nil {
		r.oneContent(index, b.Proposal, c.Run.ID, c.Run.Content)
	}
	p := &proposal{index: index, at: at, body: b, settings: r.settings, votes: map[string]string{}}
	r.byID[b.Proposal] = p
	r.order = append(r.order, p)
}

// countEarlier counts the proposals of the same kind for the same artifact by the same agent or the
// same runner, and adds this one.
func (r *replay) countEarlier(b *evidence.RegistryProposed) int {
	agent, runner, both := [4]string{b.Thing, b.Artifact, b.Agent, ""}, [4]string{b.Thing, b.Artifact, "", b.Runner}, [4]string{b.Thing, b.Artifact, b.Agent, b.Runner}
	n := r.earlier[agent]
	r.earlier[agent]++
	if b.Runner != "" {
		n += r.earlier[runner] - r.earlier[both]
		r.earlier[runner]++
		r.earlier[both]++
	}
	return n
}

// checkDraw draws the judges again.
func (r *replay) checkDraw(index int64, at evidence.Time, b *evidence.RegistryDrawn) {
	r.drawn++
	p := r.byID[b.Proposal]
	switch {
	case p == nil:
		r.find(DrawDiffers, index, b.Proposal, "judges are drawn for a proposal that is not there")
		return
	case p.body.Content != b.Content:
		r.find(DrawDiffers, index, b.Proposal, "it is drawn for content %s; the proposal has %s", b.Content, p.body.Content)
		return
	case r.draws[b.Content] != nil:
		r.find(DrawDiffers, index, b.Proposal, "judges are drawn a second time for content %s", b.Content)
		return
	}
	d := &draw{index: index, at: at, body: b, first: p}
	r.draws[b.Content] = d
	for _, q := range r.order {
		if q.body.Content == b.Content && q.index < p.index && q.decision == nil {
			r.find(DrawDiffers, index, b.Proposal, "the content was proposed before, in entry %d, and is open; the draw is that proposal's", q.index)
			break
		}
	}
	if b.Size <= p.index || b.Size > index {
		r.find(DrawDiffers, index, b.Proposal, "it is drawn from the root of %d entries; the proposal is entry %d, the draw entry %d", b.Size, p.index, index)
		return
	}
	root, err := r.log.tree.Root(b.Size)
	if err != nil || root.String() != b.Root {
		r.find(DrawDiffers, index, b.Proposal, "it says that the root of %d entries is %s; it is %s", b.Size, b.Root, root)
		return
	}
	if want := r.firstRoot(p, index); p.settings.DrawRule >= evidence.FirstRootRule && len(p.settings.Witnesses) == 0 && b.Size != want {
		r.find(DrawDiffers, index, b.Proposal, "it is drawn from the root of %d entries; the first under which a judge is eligible has %d", b.Size, want)
	}
	r.compareDraw(index, d, root)
}

// firstRoot is the size of the first tree, from the proposal's own entry on, under
// which a judge could be drawn; 0 if there is none before the draw. Only an admission
// makes a judge eligible.
func (r *replay) firstRoot(p *proposal, before int64) int64 {
	sizes := []int64{p.index + 1}
	for _, a := range r.judges {
		if a.index > p.index && a.index < before {
			sizes = append(sizes, a.index+1)
		}
	}
	for _, size := range sizes {
		if len(r.eligible(size, p)) > 0 {
			return size
		}
	}
	return 0
}

func (r *replay) compareDraw(index int64, d *draw, root tlog.Hash) {
	b := d.body
	eligible := r.eligible(b.Size, d.first)
	if b.Of != len(eligible) {
		r.find(DrawDiffers, index, b.Proposal, "it says that %d could have been drawn; there were %d: %q", b.Of, len(eligible), eligible)
	}
	if want := recompute.Draw(root, b.Content, eligible, d.first.settings.Judges); !slices.Equal(want, b.Judges) {
		r.find(DrawDiffers, index, b.Proposal, "it names the judges %q; the rule draws %q", b.Judges, want)
	}
	if len(d.first.settings.Witnesses) > 0 && !b.Witnessed {
		r.find(DrawDiffers, index, b.Proposal, "it did not wait for the witnesses that the settings name")
	}
}

// eligible lists the persons who could be drawn at a size: admitted then, and not
// holding the key of who proposed or ran it.
func (r *replay) eligible(size int64, p *proposal) []string {
	admitted := map[string]*evidence.RegistryJudge{}
	for _, a := range r.judges {
		if a.index >= size {
			break
		}
		delete(admitted, a.body.Person)
		if a.body.Admitted {
			admitted[a.body.Person] = a.body
		}
	}
	var persons []string
	for person, j := range admitted {
		own := slices.ContainsFunc(j.Agents, func(agent string) bool {
			return agent == p.body.Agent || p.body.Runner != "" && (agent == p.body.Runner || r.agents[agent] == p.body.Runner)
		})
		if !own {
			persons = append(persons, person)
		}
	}
	slices.Sort(persons)
	return persons
}

// checkVote verifies the judge's own signature, and that this judge could vote.
func (r *replay) checkVote(index int64, at evidence.Time, b *evidence.RegistryJudged) {
	r.votes++
	wrong := func(format string, args ...any) { r.find(VoteNotValid, index, b.Proposal, format, args...) }
	p, d := r.byID[b.Proposal], r.draws[b.Content]
	switch {
	case p == nil || p.body.Content != b.Content:
		wrong("a vote for a proposal of that content that is not there")
		return
	case d == nil:
		wrong("%s votes before judges were drawn", b.Person)
		return
	case !slices.Contains(d.body.Judges, b.Person):
		wrong("%s votes and was not drawn", b.Person)
		return
	case p.votes[b.Person] != "":
		wrong("%s votes a second time", b.Person)
		return
	case p.decision != nil:
		wrong("%s votes after the decision, entry %d", b.Person, p.decisionIndex)
		return
	}
	if !r.holds(b.Person, b.Agent) {
		wrong("agent %s votes for %s, who at this entry is not admitted or does not hold it", b.Agent, b.Person)
	}
	p.votes[b.Person] = b.Verdict
	message, err := recompute.Judgement{Content: b.Content, Proposal: b.Proposal, Reason: b.Reason, Registry: r.log.origin, Verdict: b.Verdict}.Message()
	if err != nil {
		wrong("%v", err)
		return
	}
	if err := verifyVote(r.agents[b.Agent], message, b.Signature); err != nil {
		wrong("the signature of %s: %v", b.Person, err)
	}
}

// holds reports whether a person is admitted now, with that agent.
func (r *replay) holds(person, agent string) bool {
	for _, a := range slices.Backward(r.judges) {
		if a.body.Person == person {
			return a.body.Admitted && slices.Contains(a.body.Agents, agent)
		}
	}
	return false
}

// checkDecision counts the votes again.
func (r *replay) checkDecision(index int64, at evidence.Time, b *evidence.RegistryDecided) {
	r.decided++
	wrong := func(format string, args ...any) { r.find(DecisionDiffers, index, b.Proposal, format, args...) }
	p := r.byID[b.Proposal]
	switch {
	case p == nil:
		wrong("a decision about a proposal that is not there")
		return
	case p.decision != nil:
		wrong("it is decided a second time; the first is entry %d", p.decisionIndex)
		return
	}
	p.decision, p.decisionIndex, p.decisionAt = b, index, at
	d := r.draws[p.body.Content]
	if counted := count(p, d); b.Votes != counted {
		wrong("it says %+v; the votes are %+v", b.Votes, counted)
		return
	}
	if b.Outcome == "withdrawn" {
		return
	}
	if err := outcomeFollows(p, d, b, at); err != nil {
		wrong("%v", err)
	}
}

// count counts the votes of those who were drawn.
func count(p *proposal, d *draw) evidence.RegistryVotes {
	var v evidence.RegistryVotes
	if d == nil {
		return v
	}
	for _, person := range d.body.Judges {
		switch p.votes[person] {
		case "accept":
			v.For++
		case "reject":
			v.Against++
		case "abstain":
			v.Abstained++
		default:
			v.Missing++
		}
	}
	return v
}
