package promote

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox/image"
)

// now is when every recommendation is asked for, and day one day.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const (
	day    = 24 * time.Hour
	origin = "example.com/evals"
	class  = "fix"
)

func keyOf(t testing.TB, name string) *seal.Key {
	t.Helper()
	seed := digest.IDOf([]byte("promote test key of " + name))
	key, err := seal.NewKey(bytes.NewReader(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signersFile has three curators, one whose time has passed, and two operators,
// one of whom has two keys.
func signersFile(t testing.TB) []byte {
	t.Helper()
	entry := func(name, key string, roles ...seal.Role) seal.Entry {
		return seal.Entry{Principals: name, Key: keyOf(t, key).Public(), Roles: roles}
	}
	data, err := seal.Compose(1, digest.ID{}, []seal.Entry{
		entry("alice", "alice", seal.Curator), entry("bob", "bob", seal.Curator, seal.Security),
		entry("carla", "carla", seal.Curator), {Principals: "carl", Key: keyOf(t, "old carl").Public(), Roles: []seal.Role{seal.Curator, seal.Security}, ValidBefore: now.Add(-20 * day)},
		entry("olga", "olga", seal.Operator), entry("olga", "olga's laptop", seal.Operator), entry("oscar", "oscar", seal.Operator),
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// registration is of a class at bronze whose silver needs 12 perfect cases.
const registration = `version: 1
class: fix
trust: signed
current_tier: bronze
thresholds:
  bronze: {lower_bound_95: 0.5, calibrated: true}
  silver: {lower_bound_95: 0.75, calibrated: true}
minimum_cases: {bronze: 5, silver: 12}
failure_modes: {wrong_answer: warn, leaked_secret: block}
breakdown: [exact]
limits: {wall_clock_seconds: 300, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor, microvm], scope: case, allow_weaker: false}
origins: ["example.com/evals"]
model_endpoints: [{scheme: https, host: api.example.com, port: 443}]
judged_scores_count: false
`

// A corpus says what the bench of a test is like.
type corpus struct {
	cases        int
	registration string
	provenance   string // of the cassettes; "" for none
	validated    time.Time
	twin         bool           // the last case is a copy of the one before
	lines        int            // of a dataset
	python       bool           // the rubric is Python, in the pinned image
	kind         string         // how the pins say that the image was made
	image        digest.Content // zero is pythonImage
}

// pythonImage is the image of a Python rubric: what the recipe of this program gives.
var pythonImage = func() digest.Content {
	d, err := digest.ParseContent("blake3:58f274de7bccfd0fd435383bce2452c31a28368bfead58b46053796ed42773f7")
	if err != nil || !image.IsBuilt(d.String()) {
		panic("the recipe gives another image")
	}
	return d
}()

// agentImage is what agents run from.
var agentImage = digest.ContentOf([]byte("an agent's image"))

func standard() corpus {
	return corpus{cases: 12, registration: registration, provenance: "recorded", validated: now.Add(-10 * day)}
}

func caseID(i int) string { return fmt.Sprintf("case-%02d", i+1) }

// benches keeps what was verified: it owns its bytes and never changes.
var benches struct {
	sync.Mutex
	made map[corpus]*bench.Verified
}

// verified is the signed and verified bench of a corpus.
func (c corpus) verified(t testing.TB) *bench.Verified {
	t.Helper()
	benches.Lock()
	defer benches.Unlock()
	if benches.made == nil {
		benches.made = make(map[corpus]*bench.Verified)
	}
	if benches.made[c] == nil {
		benches.made[c] = c.make(t)
	}
	return benches.made[c]
}

// make writes the bench, has two people sign it, and verifies it.
func (c corpus) make(t testing.TB) *bench.Verified {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.WriteFile(path, data, 0o644))
	}
	root, err := os.OpenRoot(dir)
	must(err)
	defer root.Close()
	sign := func(name string, ns seal.Namespace, message []byte) []byte {
		sig, err := seal.SignWith(keyOf(t, name).Signer(), ns, message)
		must(err)
		return sig
	}
	signers, err := seal.ParseSigners("signers", signersFile(t))
	must(err)

	write("bench/fix/registration.yaml", []byte(c.registration))
	if c.python {
		write("bench/fix/rubric.py", []byte("print({})\n"))
	} else {
		write("bench/fix/rubric.star", []byte("def score(a, b, c): return {}\n"))
	}
	for i := range c.cases {
		id, prompt := caseID(i), fmt.Sprintf("fix number %d\n", i)
		if c.twin && i == c.cases-1 {
			prompt = fmt.Sprintf("fix number %d\n", i-1)
		}
		yaml := bench.NewCase(id, "Fix it", &bench.Person{Identity: "alice"}, &bench.Person{Identity: "bob"}, c.validated).YAML()
		if c.provenance != "" {
			yaml = fmt.Appendf(yaml, "cassette_digest: %q\ncassette_provenance: %s\n", digest.Content{}, c.provenance)
			write(bench.CassetteFile(class, "", id), []byte("tape "+id))
		}
		write("bench/fix/cases/"+id+"/case.yaml", yaml)
		write("bench/fix/cases/"+id+"/input/prompt.txt", []byte(prompt))
	}
	for i := range c.lines {
		write("bench/fix/dataset.jsonl", fmt.Appendf(nil, "{\"id\":\"line-%d\"}\n", i+1))
	}
	load := func() *bench.Draft {
		d, err := bench.Load(root, class)
		must(err)
		return d
	}
	for _, draft := range load().Cases {
		data, err := draft.WithDigests()
		must(err)
		write("bench/fix/cases/"+draft.CaseID+"/case.yaml", data)
	}
	for _, draft := range load().Cases {
		message, err := draft.Message()
		must(err)
		added, reviewed := *draft.Provenance.AddedBy, *draft.Provenance.ReviewedBy
		added.Signature, reviewed.Signature = string(sign("alice", seal.NamespaceCase, message)), string(sign("bob", seal.NamespaceCase, message))
		data, err := draft.WithPeople(&added, &reviewed)
		must(err)
		write("bench/fix/cases/"+draft.CaseID+"/case.yaml", data)
	}
	manifest, digests, err := load().Compute()
	must(err)
	write("bench/fix/cases/digests.yaml", digests.Format())
	write("bench/fix/manifest.yaml", manifest.Format())
	message, err := manifest.Message()
	must(err)
	write("bench/fix/manifest.yaml.sig", slices.Concat(sign("alice", seal.NamespaceBench, message), sign("bob", seal.NamespaceBench, message)))
	pins := &bench.Pins{Version: 1, Classes: []string{class}}
	if c.python {
		must(pins.Pin(root, "", cmp.Or(c.image, pythonImage).String(), c.kind))
	}
	message, err = pins.Message()
	must(err)
	write(bench.PinsFile, pins.Format())
	write(bench.PinsFile+".sig", slices.Concat(sign("alice", seal.NamespaceBench, message), sign("bob", seal.NamespaceBench, message)))

	v, err := bench.Verify(root, class, bench.Options{Signers: signers, Now: now})
	must(err)
	return v
}

// A book is a real ledger that a test writes history into.
type book struct {
	testing.TB
	bench  *bench.Verified
	cfg    sequencer.Config
	l      *sequencer.Ledger
	clock  time.Time
	number int // of the last attempt

	missing map[digest.Content]bool  // evidence that is gone
	anchors []dossier.CosignedAnchor // in place of those on disk, if set
	noAnch  bool
	outside []evidence.Outside // who has seen the history; nil means that a witness has seen what is anchored
	asked   time.Time

	ends    map[string][2]digest.ID // heads of registration and end, by attempt
	again   int                     // second runs so far
	last    run                     // that was run
	noTapes bool                    // the ledger has no entries of the recordings
}

func newBook(t testing.TB, b *bench.Verified) *book {
	t.Helper()
	dir := t.TempDir()
	k := &book{TB: t, bench: b, clock: now.Add(-40 * day), missing: map[digest.Content]bool{}, asked: now, ends: map[string][2]digest.ID{}}
	k.cfg = sequencer.Config{
		Place:  sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, "ledger"), StateDir: filepath.Join(dir, "state"), Anchors: filepath.Join(dir, "anchors")},
		Origin: origin, TrustRoot: digest.IDOf(signersFile(t)), Key: keyOf(t, "olga"), Now: func() time.Time { return k.clock },
	}
	k.must(os.MkdirAll(k.cfg.Dir, 0o700))
	l, err := sequencer.Create(context.Background(), k.cfg, signersFile(t))
	k.must(err)
	k.l = l
	k.clock = now.Add(-5 * day)
	return k
}

func (k *book) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *book) add(kind evidence.Kind, record evidence.Body) int64 {
	k.Helper()
	pos, err := k.l.AppendRecord(kind, record)
	k.must(err)
	return pos.Index
}

// byHand appends as "tally ledger append" does.
func (k *book) byHand(kind evidence.Kind, record evidence.Body) {
	k.Helper()
	body, err := canon.Marshal(record)
	k.must(err)
	p, err := k.l.SubmitManual(kind, body)
	k.must(err)
	_, err = p.Wait()
	k.must(err)
}

// A run says how an attempt goes; the zero value is a perfect one.
type run struct {
	target   string
	version  string // of the agent
	key      string // whose key signs
	register func(*evidence.AttemptRegistered)
	score    func(i int, s *evidence.CaseScored)
	skip     func(i int) bool
	starts   func(i int) int
	worker   func(i int) string  // whose machine case.started names
	open     bool                // never finished
	from     []evidence.Endpoint // of the replies of each case, if it is live
}

func fails(s *evidence.CaseScored) {
	s.Outcome = evidence.Failed
	s.Score.Passed, s.Score.Score, s.Score.FailureModes = false, 0, []string{"wrong_answer"}
}

func only(cases ...int) func(int) bool { return func(i int) bool { return slices.Contains(cases, i) } }

// runs records an attempt and returns its id.
func (k *book) runs(r run) string {
	k.Helper()
	if r.target == "" {
		r.target = "agent"
	}
	if r.key == "" {
		r.key = "olga"
	}
	k.last = r
	k.number++
	reg := &evidence.AttemptRegistered{
		SchemaVersion: 1, Attempt: fmt.Sprintf("%s.%s.%d", class, r.target, k.number), Origin: origin, Class: class, Target: r.target,
		Number: k.number, Mode: "replay", Operator: digest.IDOf([]byte(r.key)),
		Plan: evidence.Plan{BenchDigest: k.bench.Digest(), RegistrationDigest: k.bench.RegistrationDigest(), RubricDigest: k.bench.Manifest().Rubric,
			TargetDigest: digest.ContentOf([]byte(r.target + r.version)), Repeat: 1, AgentRoot: &evidence.Root{Kind: evidence.ImageRoot, Digest: &agentImage}},
	}
	for _, c := range k.bench.Cases() {
		p := evidence.PlannedCase{ID: c.Case().CaseID, Digest: c.Digest(), Cassette: c.Case().CassetteDigest}
		reg.Plan.Cases = append(reg.Plan.Cases, p)
	}
	if set := k.bench.Dataset(); set != nil {
		for _, line := range set.Lines {
			reg.Plan.Cases = append(reg.Plan.Cases, evidence.PlannedCase{ID: line.ID, Digest: digest.ContentOf(line.JSON)})
		}
	}
	reg.Plan.CaseCount = len(reg.Plan.Cases)
	if r.register != nil {
		r.register(reg)
	}
	if reg.Signature == "" {
		reg.Signature = k.sign(r.key, reg)
	}
	k.begin(reg)
	for i, c := range reg.Plan.Cases {
		if r.skip != nil && r.skip(i) {
			continue
		}
		starts := 1
		if r.starts != nil {
			starts = r.starts(i)
		}
		for n := 1; n <= starts; n++ {
			started := &evidence.CaseStarted{Attempt: reg.Attempt, CaseID: c.ID, Repeat: 1, Execution: n}
			if r.worker != nil {
				started.Worker = r.worker(i)
			}
			k.add(evidence.CaseStartedKind, started)
		}
		s := k.perfect(reg, c)
		s.Execution = starts
		if r.score != nil {
			r.score(i, s)
		}
		if r.from != nil {
			k.add(evidence.CassetteRecordedKind, tapeOf(class, c.ID, digest.ContentOf([]byte(reg.Attempt+"recording"+c.ID)), r.from...))
		}
		k.add(evidence.CaseScoredKind, s)
	}
	if !r.open {
		k.finish(reg.Attempt)
	}
	return reg.Attempt
}

func (k *book) perfect(reg *evidence.AttemptRegistered, c evidence.PlannedCase) *evidence.CaseScored {
	s := &evidence.CaseScored{
		SchemaVersion: 1, Attempt: reg.Attempt, Class: class, CaseID: c.ID, Repeat: 1, Execution: 1, CaseDigest: c.Digest, RubricDigest: reg.Plan.RubricDigest,
		CassetteDigest: c.Cassette, HarnessVersion: "test", IsolationClass: "gvisor", IsolationScope: "case", AgentIsolation: "gvisor", Outcome: evidence.Passed,
		Score:     &evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{"exact": 1}, FailureModes: []string{}},
		StartedAt: evidence.At(k.clock), FinishedAt: evidence.At(k.clock), Operator: reg.Operator, Vantage: "gateway",
		EvidenceDigests: []digest.Content{digest.ContentOf([]byte(reg.Attempt + c.ID))},
	}
	if c.Cassette != nil {
		s.Provenance = "recorded"
	}
	return s
}

// begin appends a registration and remembers its head.
func (k *book) begin(reg *evidence.AttemptRegistered) {
	k.Helper()
	pos, err := k.l.AppendRecord(evidence.AttemptRegisteredKind, reg)
	k.must(err)
	if _, known := k.ends[reg.Attempt]; !known {
		k.ends[reg.Attempt] = [2]digest.ID{pos.Head}
	}
}

func (k *book) finish(id string) {
	k.Helper()
	pos, err := k.l.AppendRecord(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: id, Outcomes: map[evidence.Outcome]int{},
		RubricDigests: []digest.Content{}, ImageDigests: []digest.Content{}, FailureModes: []string{}})
	k.must(err)
	k.ends[id] = [2]digest.ID{k.ends[id][0], pos.Head}
}

// reproduce records that an operator ran an attempt again.
func (k *book) reproduce(id, key string, edit func(*evidence.AttemptReproduced)) {
	k.Helper()
	k.again++
	r := &evidence.AttemptReproduced{Attempt: fmt.Sprintf("%s.again.%s-%d", id, strings.Fields(key)[0], k.again), Original: id, Origin: origin, Agrees: true, Operator: digest.IDOf([]byte(key))}
	ends, results := k.ends[id], digest.ContentOf([]byte("results"))
	r.Registered, r.Finished, r.Results = &ends[0], &ends[1], &results
	if edit != nil {
		edit(r)
	}
	r.Signature = k.sign(key, r)
	k.add(evidence.AttemptReproducedKind, r)
}

func (k *book) sign(key string, record evidence.Body) string {
	k.Helper()
	message, err := canon.Marshal(record) // the signature is still empty
	k.must(err)
	sig, err := seal.SignWith(keyOf(k, key).Signer(), seal.NamespaceAttempt, message)
	k.must(err)
	return string(sig)
}

// modelServer is the endpoint that the registration lists.
var modelServer = evidence.Endpoint{Scheme: "https", Host: "api.example.com", Port: 443, Path: "/v1", Roots: evidence.ShippedRoots,
	Leaf: digest.IDOf([]byte("leaf")).String(), Chain: digest.IDOf([]byte("chain")).String()}

// tapeOf is the entry of a recording with one reply from each of the endpoints.
func tapeOf(class, caseID string, d digest.Content, from ...evidence.Endpoint) *evidence.CassetteRecorded {
	n := len(from)
	r := &evidence.CassetteRecorded{Class: class, CaseID: caseID, Digest: d, Provenance: "recorded", Kept: true, Calls: n, ModelCalls: &n}
	for _, e := range from {
		r.Endpoints = evidence.AddEndpoints(r.Endpoints, []evidence.EndpointUse{{Endpoint: e, Models: []string{"gpt-4o"}, Replies: 1}})
	}
	return r
}

// relive is a live attempt by another runner at what was run last.
func (k *book) relive(key string, edit func(*run), from ...evidence.Endpoint) string {
	k.Helper()
	r := run{target: k.last.target, version: k.last.version, key: key, from: from}
	r.register = func(a *evidence.AttemptRegistered) {
		a.Mode = "live"
		for i := range a.Plan.Cases {
			a.Plan.Cases[i].Cassette = nil
		}
	}
	if len(from) == 0 {
		r.from = []evidence.Endpoint{modelServer}
	}
	if edit != nil {
		edit(&r)
	}
	return k.runs(r)
}

// TapesOf are the recordings of a bench as if they had been made before the
// ledger's first attempt. TestOnlyWhatTheLedgerSawRecordedCounts has real ones.
func TapesOf(b *bench.Verified) []history.Tape {
	var tapes []history.Tape
	for _, c := range b.Cases() {
		if d := c.Case().CassetteDigest; d != nil {
			tapes = append(tapes, history.Tape{CassetteRecorded: *tapeOf(b.Class(), c.Case().CaseID, *d, modelServer)})
		}
	}
	return tapes
}

// recommend publishes an anchor, verifies the ledger against it and asks.
func (k *book) recommend() *Recommendation {
	k.Helper()
	if !k.noAnch {
		_, err := k.l.PublishAnchor(context.Background(), nil)
		k.must(err)
	}
	return k.recommendAsIs()
}

// evidenceThat is evidence of which the test says what is missing.
func evidenceThat(missing func(*history.Case) error) func(*history.Attempt) (*dossier.Whole, error) {
	return func(a *history.Attempt) (*dossier.Whole, error) {
		return dossier.WholeForTest((&dossier.Reading{}).Dossier(a), missing), nil
	}
}

func (k *book) recommendAsIs() *Recommendation {
	k.Helper()
	rec, err := Recommend(k.input())
	k.must(err)
	k.must(rec.Recommendation.Validate())
	return rec
}

// input closes the ledger and reads it as a caller does.
func (k *book) input() Input {
	k.Helper()
	k.must(k.l.Close())
	files, err := sequencer.LoadAnchors(store.OS{}, k.cfg.Anchors)
	k.must(err)
	in := Input{Bench: k.bench, Now: k.asked, Evidence: evidenceThat(func(c *history.Case) error {
		for _, d := range c.Evidence {
			if k.missing[d] {
				return refusal.Newf(refusal.NotFound, "%s is gone", d)
			}
		}
		return nil
	})}
	for _, f := range files {
		in.Anchors = append(in.Anchors, dossier.CosignedAnchor{Size: f.Size})
	}
	if k.anchors != nil {
		in.Anchors = k.anchors
	}
	in.History, err = history.NewReader(history.Options{}).Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		return k.cfg.Verify(ledger.Options{Origin: origin, TrustRoot: k.cfg.TrustRoot, Expect: sequencer.AnchorExpectations(files), Decode: true, Visit: visit})
	})
	k.must(err)
	if !k.noTapes {
		in.History.Tapes = append(in.History.Tapes, TapesOf(k.bench)...)
	}
	if in.Outside = k.outside; in.Outside == nil && len(in.Anchors) > 0 {
		for _, a := range in.Anchors {
			in.Outside = append(in.Outside, evidence.Outside{Kind: evidence.OutsideWitness, By: "witness.example", Size: a.Size})
		}
	}
	return in
}
