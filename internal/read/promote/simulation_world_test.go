package promote_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/read/bundle/derive"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/promote"
	"tallystick/internal/read/recount"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/cosign"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

const (
	simOrigin  = "example.com/evals"
	simWitness = "witness.example.com/w1"
	day        = 24 * time.Hour
)

// firstDay is the first of the thirty simulated days.
var firstDay = time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)

// A world is a simulated workspace: people, signed benches, a real ledger with
// its memory, anchors and evidence, a witness, and a clock that only the
// simulation moves.
type world struct {
	testing.TB
	dir     string
	cfg     sequencer.Config
	ledger  *sequencer.Ledger
	signers []byte // the version in force
	benches map[string]*bench.Verified
	numbers map[string]int          // of the last attempt of each class
	ends    map[string][2]digest.ID // heads of registration and end, by attempt

	witness   *cosign.Client
	witnesses []note.Verifier
	cosigned  []string // the checkpoints that the witness cosigned, as notes

	mu         sync.Mutex
	now        time.Time // of the machine that writes the ledger
	witnessNow time.Time // of the witness; zero means the same

	// What runs recorded last.
	last        *evidence.AttemptRegistered
	lastRecords []*evidence.CaseScored
	lastEntries []int64 // where

	pieces map[digest.Content][]byte // evidence that was read and is what its name says
}

// unsynced is the real file system without its syncs. What power cuts do is
// tested elsewhere; here they would be most of the time.
type unsynced struct{ store.OS }

type unsyncedFile struct{ store.File }

func (unsyncedFile) Sync() error { return nil }

func (unsynced) SyncDir(string) error { return nil }

func (u unsynced) OpenFile(name string, flag int, perm fs.FileMode) (store.File, error) {
	f, err := u.OS.OpenFile(name, flag, perm)
	return unsyncedFile{f}, err
}

func keyOf(t testing.TB, name string) *seal.Key {
	t.Helper()
	seed := digest.IDOf([]byte("simulated key of " + name))
	key, err := seal.NewKey(bytes.NewReader(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// simSigners is version 1 or 2 of the signers file: in the second petra is an
// operator too.
func simSigners(t testing.TB, version int) []byte {
	t.Helper()
	entry := func(name, key string, roles ...seal.Role) seal.Entry {
		return seal.Entry{Principals: name, Key: keyOf(t, key).Public(), Roles: roles}
	}
	entries := []seal.Entry{
		entry("alice", "alice", seal.Curator), entry("bob", "bob", seal.Curator, seal.Security),
		entry("olga", "olga", seal.Operator), entry("olga", "olga's laptop", seal.Operator), entry("oscar", "oscar", seal.Operator),
	}
	previous := digest.ID{}
	if version == 2 {
		entries = append(entries, entry("petra", "petra", seal.Operator))
		previous = digest.IDOf(simSigners(t, 1))
	}
	data, err := seal.Compose(version, previous, entries)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A simClass says what a task class of the simulation is like.
type simClass struct {
	name  string
	tier  bench.Tier
	cases int
}

const simRegistration = `version: 1
class: %s
trust: signed
current_tier: %s
thresholds:
  bronze: {lower_bound_95: 0.5, calibrated: true}
  silver: {lower_bound_95: 0.6, calibrated: true}
minimum_cases: {bronze: 5, silver: 6}
failure_modes: {wrong_answer: warn}
breakdown: [exact]
limits: {wall_clock_seconds: 300, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
origins: ["example.com/evals"]
model_endpoints: [{scheme: https, host: api.example.com, port: 443}]
judged_scores_count: false
`

// newWorld makes benches that two people signed, a witness and a ledger.
func newWorld(t testing.TB, start time.Time, classes []simClass) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{TB: t, dir: dir, now: start, signers: simSigners(t, 1), benches: map[string]*bench.Verified{}, numbers: map[string]int{}, pieces: map[digest.Content][]byte{}}
	w.sign(filepath.Join(dir, "workspace"), classes)
	w.startWitness()
	w.cfg = sequencer.Config{
		Place: sequencer.Place{FS: unsynced{}, Dir: filepath.Join(dir, "ledger"), StateDir: filepath.Join(dir, "state"), Anchors: filepath.Join(dir, "anchors")},
		// The first version is trusted; all others follow from it.
		Origin: simOrigin, TrustRoot: digest.IDOf(simSigners(t, 1)), Key: keyOf(t, "olga"), Now: w.clock,
	}
	w.must(os.MkdirAll(w.cfg.Dir, 0o700))
	l, err := sequencer.Create(context.Background(), w.cfg, w.signers)
	w.must(err)
	w.ledger = l
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) setClock(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = at
}

// sign writes the benches and has alice and bob sign them.
func (w *world) sign(dir string, classes []simClass) {
	w.Helper()
	write := func(name string, data []byte) {
		w.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		w.must(os.MkdirAll(filepath.Dir(path), 0o755))
		w.must(os.WriteFile(path, data, 0o644))
	}
	signed := func(ns seal.Namespace, message []byte) (alice, bob []byte) {
		var sigs [2][]byte
		for i, who := range []string{"alice", "bob"} {
			var err error
			sigs[i], err = seal.SignWith(keyOf(w, who).Signer(), ns, message)
			w.must(err)
		}
		return sigs[0], sigs[1]
	}
	both := func(message []byte, err error) []byte {
		w.must(err)
		return slices.Concat(signed(seal.NamespaceBench, message))
	}
	pins := &bench.Pins{Version: 1}
	for _, c := range classes {
		pins.Classes = append(pins.Classes, c.name)
	}
	slices.Sort(pins.Classes)
	write(bench.PinsFile, pins.Format())
	write(bench.PinsFile+".sig", both(pins.Message()))
	root, err := os.OpenRoot(dir)
	w.must(err)
	defer root.Close()
	signers, err := seal.ParseSigners("signers", w.signers)
	w.must(err)
	for _, c := range classes {
		at := "bench/" + c.name + "/"
		write(at+"registration.yaml", fmt.Appendf(nil, simRegistration, c.name, c.tier))
		write(at+"rubric.star", []byte("def score(a, b, c): return {}\n"))
		for i := range c.cases {
			id := simCase(i)
			yaml := bench.NewCase(id, "Fix it", &bench.Person{Identity: "alice"}, &bench.Person{Identity: "bob"}, firstDay.Add(-10*day)).YAML()
			yaml = fmt.Appendf(yaml, "cassette_digest: %q\ncassette_provenance: recorded\n", digest.Content{})
			write(bench.CassetteFile(c.name, "", id), []byte("tape "+id))
			write(at+"cases/"+id+"/case.yaml", yaml)
			write(at+"cases/"+id+"/input/prompt.txt", fmt.Appendf(nil, "%s number %d\n", c.name, i))
		}
		load := func() *bench.Draft {
			d, err := bench.Load(root, c.name)
			w.must(err)
			return d
		}
		for _, draft := range load().Cases {
			data, err := draft.WithDigests()
			w.must(err)
			write(at+"cases/"+draft.CaseID+"/case.yaml", data)
		}
		for _, draft := range load().Cases {
			message, err := draft.Message()
			w.must(err)
			added, reviewed := *draft.Provenance.AddedBy, *draft.Provenance.ReviewedBy
			alice, bob := signed(seal.NamespaceCase, message)
			added.Signature, reviewed.Signature = string(alice), string(bob)
			data, err := draft.WithPeople(&added, &reviewed)
			w.must(err)
			write(at+"cases/"+draft.CaseID+"/case.yaml", data)
		}
		manifest, digests, err := load().Compute()
		w.must(err)
		write(at+"cases/digests.yaml", digests.Format())
		write(at+"manifest.yaml", manifest.Format())
		write(at+"manifest.yaml.sig", both(manifest.Message()))
		w.benches[c.name], err = bench.Verify(root, c.name, bench.Options{Signers: signers, Now: firstDay})
		w.must(err)
	}
}

func simCase(i int) string { return fmt.Sprintf("case-%d", i+1) }

// startWitness starts a witness of the ledger on this machine.
func (w *world) startWitness() {
	w.Helper()
	var logs []ledger.LogKey
	for _, who := range []string{"olga", "olga's laptop", "oscar", "petra"} {
		pub, _ := keyOf(w, who).Public().Ed25519()
		logs = append(logs, ledger.LogKey{Origin: simOrigin, Key: pub})
	}
	server, err := cosign.OpenServer(context.Background(), cosign.ServerConfig{
		FS: unsynced{}, Dir: filepath.Join(w.dir, "witness"), Key: keyOf(w, "witness"), Name: simWitness, Logs: logs,
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.witnessNow.IsZero() {
				return w.now
			}
			return w.witnessNow
		},
		Conflicts: func(cosign.Conflict) {}, Errors: func(err error) { w.Error(err) },
	})
	w.must(err)
	web := httptest.NewServer(server)
	w.Cleanup(func() { web.Close(); server.Close() })
	w.witness, err = cosign.NewClient(web.URL, server.VKey(), cosign.ClientOptions{})
	w.must(err)
	verifier, err := seal.CosignatureVerifier(server.VKey())
	w.must(err)
	w.witnesses = []note.Verifier{verifier}
}

// reopen lets another operator continue.
func (w *world) reopen(operator string) {
	w.Helper()
	w.must(w.ledger.Close())
	w.open(operator)
}

func (w *world) open(operator string) {
	w.Helper()
	w.cfg.Key = keyOf(w, operator)
	var err error
	w.ledger, err = sequencer.Open(context.Background(), w.cfg)
	w.must(err)
}

// publish publishes an anchor with the witness's cosignature, and keeps the
// checkpoint as the workspace does.
func (w *world) publish() {
	w.Helper()
	pub, err := w.ledger.PublishAnchor(context.Background(), []sequencer.Cosigner{w.witness})
	w.must(err)
	if len(pub.Failed) > 0 {
		w.Fatal(pub.Failed)
	}
	w.cosigned = append(w.cosigned, pub.Anchor.Checkpoint)
}

func (w *world) add(kind evidence.Kind, record evidence.Body) int64 {
	w.Helper()
	pos, err := w.ledger.AppendRecord(kind, record)
	w.must(err)
	if w.ends == nil {
		w.ends = make(map[string][2]digest.ID)
	}
	switch b := record.(type) {
	case *evidence.AttemptRegistered:
		if _, known := w.ends[b.Attempt]; !known {
			w.ends[b.Attempt] = [2]digest.ID{pos.Head}
		}
	case *evidence.AttemptFinished:
		if ends := w.ends[b.Attempt]; ends[1] == (digest.ID{}) {
			w.ends[b.Attempt] = [2]digest.ID{ends[0], pos.Head}
		}
	}
	return pos.Index
}

// byHand appends as "tally ledger append" does.
func (w *world) byHand(kind evidence.Kind, record evidence.Body) {
	w.Helper()
	body, err := canon.Marshal(record)
	w.must(err)
	p, err := w.ledger.SubmitManual(kind, body)
	w.must(err)
	_, err = p.Wait()
	w.must(err)
}

// changeSigners puts version 2 of the signers into force.
func (w *world) changeSigners() {
	w.Helper()
	next := simSigners(w, 2)
	change := &evidence.SignersChanged{Version: 2, Signers: string(next)}
	for _, who := range []string{"alice", "bob"} {
		sig, err := seal.SignWith(keyOf(w, who).Signer(), seal.NamespaceSigners, next)
		w.must(err)
		change.Signatures = append(change.Signatures, string(sig))
	}
	w.add(evidence.SignersChangedKind, change)
	w.signers = next
}

// A run says how an attempt goes. The zero value of everything but class and
// target is a perfect one; what begins with "lie" is for those who cheat.
type run struct {
	class, target, version string
	operator               string // who signs the registration; olga if empty
	fails                  []int  // the cases that fail
	registered             func() // after the registration is durable

	lieRegister func(*evidence.AttemptRegistered) // before it is signed
	lieSigned   func(*evidence.AttemptRegistered) // after
	lieScore    func(i int, s *evidence.CaseScored)
	lieEvidence func(i int, f *evidence.CaseFiles)
	lieFinish   func(*evidence.AttemptFinished)
	skip        []int // cases without a record
	noStart     []int // cases whose start is not recorded
	starts      map[int]int
	open        bool
}

// runs records an attempt as the harness does, evidence before records, and
// returns its id.
func (w *world) runs(r run) string {
	w.Helper()
	if r.operator == "" {
		r.operator = "olga"
	}
	v := w.benches[r.class]
	w.numbers[r.class]++
	reg := &evidence.AttemptRegistered{
		SchemaVersion: 1, Attempt: fmt.Sprintf("%s.%s.%d", r.class, r.target, w.numbers[r.class]), Origin: simOrigin, Class: r.class, Target: r.target,
		Number: w.numbers[r.class], Mode: "replay", Operator: digest.IDOf([]byte(r.operator)),
		Plan: evidence.Plan{BenchDigest: v.Digest(), RegistrationDigest: v.RegistrationDigest(), RubricDigest: v.Manifest().Rubric,
			TargetDigest: digest.ContentOf([]byte(r.target + r.version)), Repeat: 1, AgentRoot: &evidence.Root{Kind: evidence.ImageRoot, Digest: &simImage}},
	}
	for _, c := range v.Cases() {
		reg.Plan.Cases = append(reg.Plan.Cases, evidence.PlannedCase{ID: c.Case().CaseID, Digest: c.Digest(), Cassette: c.Case().CassetteDigest})
	}
	reg.Plan.CaseCount = len(reg.Plan.Cases)
	if r.lieRegister != nil {
		r.lieRegister(reg)
	}
	reg.Signature = w.signed(r.operator, reg)
	if r.lieSigned != nil {
		r.lieSigned(reg)
	}
	w.last = reg

	pack, err := store.CreatePack(unsynced{}, filepath.Join(w.packs(), strings.ReplaceAll(reg.Attempt, "/", "_")+".pack"))
	w.must(err)
	w.add(evidence.AttemptRegisteredKind, reg)
	if r.registered != nil {
		r.registered()
	}
	var records []*evidence.CaseScored
	var pending []*sequencer.Pending
	submit := func(kind evidence.Kind, record evidence.Body) {
		w.Helper()
		body, err := canon.Marshal(record)
		w.must(err)
		pending = append(pending, w.ledger.Submit(kind, body))
	}
	for i, c := range reg.Plan.Cases {
		starts := max(1, r.starts[i])
		if slices.Contains(r.noStart, i) {
			starts = 0
		}
		for n := 1; n <= starts; n++ {
			submit(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: reg.Attempt, CaseID: c.ID, Repeat: 1, Execution: n})
		}
		if slices.Contains(r.skip, i) {
			continue
		}
		s := w.scores(pack, reg, c, max(1, starts), slices.Contains(r.fails, i), func(f *evidence.CaseFiles) {
			if r.lieEvidence != nil {
				r.lieEvidence(i, f)
			}
		})
		if r.lieScore != nil {
			r.lieScore(i, s)
		}
		records = append(records, s)
	}
	// The evidence is there before the records that name it.
	w.must(pack.Close())
	for _, s := range records {
		submit(evidence.CaseScoredKind, s)
	}
	w.lastRecords, w.lastEntries = records, nil
	for i, p := range pending {
		pos, err := p.Wait()
		w.must(err)
		if i >= len(pending)-len(records) {
			w.lastEntries = append(w.lastEntries, pos.Index)
		}
	}
	if !r.open {
		f := w.finished(reg, records)
		if r.lieFinish != nil {
			r.lieFinish(f)
		}
		w.add(evidence.AttemptFinishedKind, f)
	}
	return reg.Attempt
}

// signed signs a record whose signature is still empty.
func (w *world) signed(who string, record evidence.Body) string {
	w.Helper()
	message, err := canon.Marshal(record)
	w.must(err)
	sig, err := seal.SignWith(keyOf(w, who).Signer(), seal.NamespaceAttempt, message)
	w.must(err)
	return string(sig)
}

// scores puts the evidence of a case into the pack and returns its record.
func (w *world) scores(pack *store.Pack, reg *evidence.AttemptRegistered, c evidence.PlannedCase, execution int, fails bool, lie func(*evidence.CaseFiles)) *evidence.CaseScored {
	w.Helper()
	answer, want := trajectory.NewContent([]byte("it is mended"), trajectory.ArgumentHead), trajectory.NewContent([]byte("it is mended"), trajectory.ArgumentHead)
	outcome := evidence.Passed
	score := &evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{"exact": 1}, FailureModes: []string{}}
	check := grade.Detail{Grader: grade.Exact, Extracted: &answer, Expected: &want, Outcome: grade.Passed, Weight: 1, Why: "the same"}
	if fails {
		answer = trajectory.NewContent([]byte("I gave up"), trajectory.ArgumentHead)
		outcome, check.Outcome, check.Why = evidence.Failed, grade.Mismatch, "another text"
		score = &evidence.Score{Breakdown: map[string]float64{"exact": 0}, FailureModes: []string{"wrong_answer"}}
	}
	log := trajectory.NewLog()
	for i, p := range []trajectory.Payload{
		&trajectory.RunStarted{Attempt: reg.Attempt, Case: c.ID, Class: reg.Class, Target: reg.Target, Repeat: 1, Execution: execution, Format: trajectory.Format, Governance: 1},
		&trajectory.TurnStarted{Agent: "main"},
		&trajectory.ModelCallStarted{Call: "m1", Messages: 1, Model: "m", Provider: "openai", Prompt: want},
		&trajectory.ModelCallCompleted{Call: "m1", FinishReason: "stop", Source: "cassette", TokensIn: 90, TokensOut: 10, CostMicroUSD: 250, LatencyMS: 40, Output: answer},
		&trajectory.TurnCompleted{Answer: &answer},
		&trajectory.RunCompleted{Status: "completed", Answer: &answer},
	} {
		_, err := log.Append(min(i, 1), p, 0)
		w.must(err)
	}
	document, err := grade.Document(&grade.Result{Passed: score.Passed, Score: score.Score, Breakdown: score.Breakdown, FailureModes: score.FailureModes, Details: []grade.Detail{check}})
	w.must(err)
	grading := pack.Put(document)
	files := evidence.CaseFiles{Version: format.Version, Trajectory: evidence.TrajectoryFile{Digest: pack.Put(log.Bytes()), Head: log.Head()}, Grading: &grading}
	lie(&files)
	index, err := canon.Marshal(&files)
	w.must(err)
	now := w.clock()
	return &evidence.CaseScored{
		SchemaVersion: 1, Attempt: reg.Attempt, Class: reg.Class, CaseID: c.ID, Repeat: 1, Execution: execution, CaseDigest: c.Digest, RubricDigest: reg.Plan.RubricDigest,
		CassetteDigest: c.Cassette, Provenance: "recorded", HarnessVersion: "sim", IsolationClass: "gvisor", IsolationScope: "case", AgentIsolation: "gvisor", Vantage: "gateway",
		Outcome: outcome, Score: score, StartedAt: evidence.At(now), FinishedAt: evidence.At(now.Add(40 * time.Millisecond)), Operator: reg.Operator,
		Turns: 1, Tokens: 100, CostMicroUSD: 250, EvidenceDigests: []digest.Content{pack.Put(index)},
	}
}

// finished adds an attempt up as the harness does.
func (w *world) finished(reg *evidence.AttemptRegistered, records []*evidence.CaseScored) *evidence.AttemptFinished {
	w.Helper()
	f := &evidence.AttemptFinished{SchemaVersion: 1, Attempt: reg.Attempt, Outcomes: map[evidence.Outcome]int{}, ImageDigests: []digest.Content{}, FailureModes: []string{}}
	sum, scored := 0.0, 0
	var rubrics []digest.Content
	for _, s := range records {
		f.Outcomes[s.Outcome]++
		f.CostMicroUSD += s.CostMicroUSD
		if s.Score != nil {
			sum += s.Score.Score
			scored++
			f.FailureModes = append(f.FailureModes, s.Score.FailureModes...)
		}
		if s.RubricDigest != nil {
			rubrics = append(rubrics, *s.RubricDigest)
		}
	}
	slices.Sort(f.FailureModes)
	f.FailureModes = slices.Compact(f.FailureModes)
	if scored > 0 {
		mean := sum / float64(scored)
		f.MeanScore = &mean
	}
	var cases, cassettes []digest.Content
	for _, c := range reg.Plan.Cases {
		cases = append(cases, c.Digest)
		if c.Cassette != nil {
			cassettes = append(cassettes, *c.Cassette)
		}
	}
	f.RubricDigests = set(rubrics)
	for to, list := range map[*digest.Content][]digest.Content{&f.CaseDigests: cases, &f.CassetteDigests: cassettes} {
		data, err := canon.Marshal(set(list))
		w.must(err)
		*to = digest.ContentOf(data)
	}
	return f
}

// set sorts digests and drops repetitions; it is never nil.
func set(list []digest.Content) []digest.Content {
	list = append([]digest.Content{}, list...)
	slices.SortFunc(list, func(a, b digest.Content) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(list)
}

// reproduce records that an operator ran an attempt again.
func (w *world) reproduce(id, who string, lie func(*evidence.AttemptReproduced)) {
	w.Helper()
	r := &evidence.AttemptReproduced{Attempt: id + ".again", Original: id, Origin: simOrigin, Agrees: true, Operator: digest.IDOf([]byte(who))}
	ends, results := w.ends[id], digest.ContentOf([]byte("results"))
	r.Registered, r.Finished, r.Results = &ends[0], &ends[1], &results
	if lie != nil {
		lie(r)
	}
	if r.Signature == "" {
		r.Signature = w.signed(who, r)
	}
	w.add(evidence.AttemptReproducedKind, r)
}

func (w *world) packs() string { return filepath.Join(w.dir, "evidence", "packs") }

// A reader gives out evidence that is what its name says.
type reader func(digest.Content) ([]byte, error)

// vaultIn reads the evidence below a folder.
func vaultIn(dir string) reader {
	vault := store.OpenVault(unsynced{}, filepath.Join(dir, "evidence"))
	return func(d digest.Content) ([]byte, error) { return vault.Get(d, 1<<20) }
}

// remembering reads each piece only once: nothing changes the evidence of an
// honest month behind our back.
func (w *world) remembering() reader {
	var vault reader
	var mu sync.Mutex // strict verification asks from several goroutines
	return func(d digest.Content) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if data, ok := w.pieces[d]; ok {
			return data, nil
		}
		if vault == nil {
			vault = vaultIn(w.dir)
		}
		data, err := vault(d)
		if err == nil {
			w.pieces[d] = data
		}
		return data, err
	}
}

// expected gathers what the ledger must contain, as every reader of a workspace
// does: the anchors, the memory, and the checkpoints that were kept.
func (w *world) expected(cfg sequencer.Config) []ledger.Expectation {
	w.Helper()
	anchors, err := sequencer.LoadAnchors(unsynced{}, cfg.Anchors)
	w.must(err)
	expect := sequencer.AnchorExpectations(anchors)
	remembered, err := sequencer.Remembered(unsynced{}, cfg.StateDir, simOrigin)
	w.must(err)
	if remembered != nil {
		expect = append(expect, sequencer.MemoryExpectation(*remembered))
	}
	for _, signed := range w.cosigned {
		text, _, _ := strings.Cut(signed, "\n\n")
		head, err := ledger.ParseTreeHead(text + "\n")
		w.must(err)
		expect = append(expect, ledger.Expectation{TreeHead: head, Source: "a cosigned checkpoint"})
	}
	return expect
}

// history verifies the ledger against everything that is known and reads it.
func (w *world) history() *history.History {
	w.Helper()
	reader := history.NewReader(history.Options{Cosigned: func(v *ledger.Verified) ([]history.Cosigned, error) {
		var all []history.Cosigned
		for _, signed := range w.cosigned {
			c, err := ledger.VerifyCheckpoint([]byte(signed), ledger.Policy{Logs: v.EveryKey(), Witnesses: w.witnesses, Quorum: 1})
			if err != nil {
				return nil, err
			}
			all = append(all, history.Cosigned{Size: c.Size, Witnesses: c.Cosignatures})
		}
		return all, nil
	}})
	h, err := reader.Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		return w.cfg.Verify(ledger.Options{Origin: simOrigin, TrustRoot: w.cfg.TrustRoot, Expect: w.expected(w.cfg), Visit: visit})
	})
	w.must(err)
	return h
}

// publishedAnchors are the anchors as promote wants them, with the time of
// their cosignatures.
func (w *world) publishedAnchors() []dossier.CosignedAnchor {
	w.Helper()
	var anchors []dossier.CosignedAnchor
	for _, signed := range w.cosigned {
		n, err := note.Open([]byte(signed), note.VerifierList(w.witnesses...))
		w.must(err)
		at, err := seal.CosignatureTime(n.Sigs[0])
		w.must(err)
		text, _, _ := strings.Cut(signed, "\n\n")
		head, err := ledger.ParseTreeHead(text + "\n")
		w.must(err)
		anchors = append(anchors, dossier.CosignedAnchor{Size: head.Size, Cosigned: at})
	}
	return anchors
}

// recommend asks about one class.
func (w *world) recommend(h *history.History, read reader, class string) *promote.Recommendation {
	w.Helper()
	// The bench was recorded before the month began.
	past := *h
	past.Tapes = promote.TapesOf(w.benches[class])
	h = &past
	rec, err := promote.Recommend(promote.Input{Bench: w.benches[class], History: h, Anchors: w.publishedAnchors(), Now: w.clock(), Evidence: evidenceIn(read)})
	w.must(err)
	w.must(rec.Recommendation.Validate())
	return rec
}

// evidenceIn looks for the evidence of a record as the commands do: everything
// that it names is there, and a bundle can be made of it.
func evidenceIn(read reader) func(*history.Attempt) (*dossier.Whole, error) {
	look := func(a *history.Attempt, c *history.Case) error {
		files, err := history.FilesOf(c, read)
		if err != nil {
			return err
		}
		v, err := history.TrajectoryOf(c, read)
		if err != nil {
			return err
		}
		_, err = derive.Bundle(derive.Source{Files: files, Trajectory: v, Read: read, Record: &evidence.CaseScored{
			Attempt: a.ID, Class: a.Class, CaseID: c.ID, Repeat: int(c.Repeat), Execution: int(c.Execution), CaseDigest: c.Digest, Outcome: c.Outcome(),
			Score: &evidence.Score{Passed: c.Outcome() == evidence.Passed, Score: c.Score},
		}})
		if refusal.Is(err, refusal.RecomputeMismatch) {
			err = refusal.Newf(refusal.NotFound, "%w", err)
		}
		return err
	}
	return func(a *history.Attempt) (*dossier.Whole, error) {
		return dossier.WholeForTest((&dossier.Reading{}).Dossier(a), func(c *history.Case) error { return look(a, c) }), nil
	}
}

// gaps is what "tally ledger verify --strict" finds missing in thirty days of a
// ledger.
func (w *world) gaps(cfg sequencer.Config, read reader, everySeal bool) []string {
	w.Helper()
	anchors, err := sequencer.LoadAnchors(unsynced{}, cfg.Anchors)
	w.must(err)
	begin := w.clock().Add(-30 * day)
	complete := &ledger.Completeness{
		Covers:   func(_ int64, at evidence.Time) bool { return !at.Go().Before(begin) },
		Anchored: map[string]int64{},
		Evidence: func(d digest.Content) error {
			data, err := read(d)
			if err != nil {
				return err
			}
			var files evidence.CaseFiles
			if canon.UnmarshalCanonical(data, &files) == nil {
				for _, piece := range files.All() {
					if _, err := read(piece); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	for _, a := range anchors {
		complete.Anchored[a.Date] = a.Size
	}
	_, err = cfg.Verify(ledger.Options{Origin: simOrigin, TrustRoot: cfg.TrustRoot, Expect: w.expected(cfg), Decode: true, EverySeal: everySeal, Visit: complete.Visit})
	w.must(err)
	found, err := complete.Gaps()
	w.must(err)
	var gaps []string
	for _, g := range found {
		if g.Name != refusal.StrictGap {
			w.Errorf("%v is named %s", g, g.Name)
		}
		gaps = append(gaps, g.Detail)
	}
	return gaps
}

// recompute counts an attempt again, as "tally verify --recompute" does.
func (w *world) recompute(read reader, a *history.Attempt) []recount.Difference {
	w.Helper()
	r, err := recount.Attempt(a, read)
	w.must(err)
	return r.Differences
}

// simImage is what the agents of the simulation run from.
var simImage = digest.ContentOf([]byte("an agent's image"))
