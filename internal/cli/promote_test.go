package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
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

// A trial is a workspace made by "tally init", with a bench of seven cases that
// two people signed.
type trial struct {
	*testing.T
	dir, state string
	attempts   int
	registered func(*sequencer.Ledger) // called when an attempt is registered; may be nil
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	l := &trial{T: t, dir: filepath.Join(t.TempDir(), "ws"), state: t.TempDir()}
	initWithPeople(t, l.dir, func(args ...string) { l.ok(args...) })
	l.ok("bench", "new", "example", "--added-by", "alice", "--reviewed-by", "bob")
	for i := range 6 {
		id := fmt.Sprintf("case-%d", i+1)
		yaml := bench.NewCase(id, "Answer", &bench.Person{Identity: "alice"}, &bench.Person{Identity: "bob"}, time.Now()).YAML()
		l.write("bench/example/cases/"+id+"/case.yaml", append(yaml, fmt.Sprintf("tags: [tag-%d]\n", i%2)...))
		l.write("bench/example/cases/"+id+"/input/prompt.txt", fmt.Appendf(nil, "question %d\n", i))
	}
	l.edit("bench/example/registration.yaml", "silver: {lower_bound_95: 0.75", "silver: {lower_bound_95: 0.6")
	l.edit("bench/example/registration.yaml", "bronze: 10, silver: 30", "bronze: 5, silver: 7")
	l.sign()
	return l
}

// sign has both people sign what is there.
func (l *trial) sign() {
	l.Helper()
	l.ok("bench", "digest", "example")
	for _, who := range []string{"example-alice", "example-bob"} {
		l.ok("bench", "sign", "example", "--key", filepath.Join(l.dir, ".tally/keys", who))
	}
}

func (l *trial) getenv(name string) string {
	switch name {
	case "XDG_STATE_HOME":
		return l.state
	case "HOME":
		return l.state
	}
	return ""
}

func (l *trial) run(args ...string) (code int, stdout, stderr string) {
	l.Helper()
	var out, errs bytes.Buffer
	if args[0] != "init" {
		args = append([]string{"--workspace", l.dir}, args...)
	}
	code = Main(args, strings.NewReader(""), &out, &errs, l.getenv, nil)
	return code, out.String(), errs.String()
}

func (l *trial) ok(args ...string) string {
	l.Helper()
	code, stdout, stderr := l.run(args...)
	if code != 0 {
		l.Fatalf("tally %s: exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// refuses runs a command that must end with this refusal, and returns its
// message and hint.
func (l *trial) refuses(want refusal.Name, args ...string) (message, hint string) {
	l.Helper()
	code, _, stderr := l.run(append(args, "--json")...)
	var e struct {
		Error, Name, Hint string
		Code              int
	}
	if err := json.Unmarshal([]byte(stderr), &e); err != nil {
		l.Fatalf("tally %s: exit %d, stderr %q: %v", strings.Join(args, " "), code, stderr, err)
	}
	if e.Name != string(want) || code != refusal.ExitCode(refusal.Newf(want, "x")) || code != e.Code {
		l.Fatalf("tally %s: exit %d, %s, want %s: %s", strings.Join(args, " "), code, e.Name, want, e.Error)
	}
	return e.Error, e.Hint
}

func (l *trial) path(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

func (l *trial) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *trial) write(name string, data []byte) {
	l.Helper()
	l.must(os.MkdirAll(filepath.Dir(l.path(name)), 0o755))
	l.must(os.WriteFile(l.path(name), data, 0o644))
}

func (l *trial) read(name string) string {
	l.Helper()
	data, err := os.ReadFile(l.path(name))
	l.must(err)
	return string(data)
}

func (l *trial) edit(name, old, new string) {
	l.Helper()
	text := l.read(name)
	if strings.Count(text, old) != 1 {
		l.Fatalf("%q occurs %d times in %s", old, strings.Count(text, old), name)
	}
	l.write(name, []byte(strings.Replace(text, old, new, 1)))
}

// attempt records an attempt as the harness would: a passed record for each
// case, unless edit changes it or drops it by returning false.
func (l *trial) attempt(finish bool, edit func(s *evidence.CaseScored) bool) string {
	l.Helper()
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	p, err := openCorpus(env)
	l.must(err)
	defer p.Root.Close()
	v, err := bench.Verify(p.Root, "example", p.Options)
	l.must(err)
	cfg, err := p.Config()
	l.must(err)
	led, err := sequencer.Open(l.Context(), cfg)
	l.must(err)
	defer func() { l.must(led.Close()) }()
	add := func(kind evidence.Kind, record evidence.Body) {
		l.Helper()
		_, err := led.AppendRecord(kind, record)
		l.must(err)
	}

	l.attempts++
	reg := &evidence.AttemptRegistered{SchemaVersion: 1, Attempt: fmt.Sprintf("example.default.%d", l.attempts), Origin: cfg.Origin, Class: "example", Target: "default",
		Number: l.attempts, Mode: "replay", Plan: evidence.Plan{BenchDigest: v.Digest(), RegistrationDigest: v.RegistrationDigest(), RubricDigest: v.Manifest().Rubric,
			TargetDigest: digest.ContentOf([]byte("target")), Repeat: 1}}
	for _, c := range v.Cases() {
		reg.Plan.Cases = append(reg.Plan.Cases, evidence.PlannedCase{ID: c.Case().CaseID, Digest: c.Digest(), Cassette: c.Case().CassetteDigest})
	}
	reg.Plan.CaseCount = len(reg.Plan.Cases)
	message, err := reg.Message()
	l.must(err)
	sig, err := seal.SignWith(cfg.Key.Signer(), seal.NamespaceAttempt, message)
	l.must(err)
	reg.Signature = string(sig)
	add(evidence.AttemptRegisteredKind, reg)
	if l.registered != nil {
		l.registered(led)
	}
	for _, c := range v.Cases() {
		id := c.Case().CaseID
		s := &evidence.CaseScored{SchemaVersion: 1, Attempt: reg.Attempt, Class: "example", CaseID: id, Repeat: 1, Execution: 1, CaseDigest: c.Digest(), Tags: c.Case().Tags,
			RubricDigest: v.Manifest().Rubric, CassetteDigest: c.Case().CassetteDigest, HarnessVersion: "1", IsolationClass: "gvisor", IsolationScope: "case", Vantage: "inside", Outcome: evidence.Passed,
			Score:     &evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{}},
			StartedAt: evidence.At(time.Now()), FinishedAt: evidence.At(time.Now())}
		if edit != nil && !edit(s) {
			continue
		}
		if s.EvidenceDigests == nil {
			s.EvidenceDigests = []digest.Content{l.evidence(p.Place, s)}
		}
		add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: reg.Attempt, CaseID: id, Repeat: 1, Execution: 1})
		add(evidence.CaseScoredKind, s)
	}
	if finish {
		add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: reg.Attempt, Outcomes: map[evidence.Outcome]int{},
			RubricDigests: []digest.Content{}, ImageDigests: []digest.Content{}, FailureModes: []string{}})
	}
	return reg.Attempt
}

// evidence puts the evidence of a case into the vault: its index, a trajectory
// and a grading document.
func (l *trial) evidence(w *dossier.Place, s *evidence.CaseScored) digest.Content {
	l.Helper()
	vault := store.OpenVault(store.OS{}, w.EvidenceDir())
	store := func(data []byte) digest.Content {
		d, err := vault.Put(data)
		l.must(err)
		return d
	}
	put := func(v any) digest.Content {
		data, err := canon.Marshal(v)
		l.must(err)
		return store(data)
	}
	log := trajectory.NewLog()
	answer := trajectory.NewContent([]byte("hi"), trajectory.ArgumentHead)
	for turn, p := range []trajectory.Payload{
		&trajectory.RunStarted{Attempt: s.Attempt, Case: s.CaseID, Class: "example", Target: "default", Repeat: 1, Execution: 1, Format: trajectory.Format, Governance: 1},
		&trajectory.TurnStarted{Agent: "main"}, &trajectory.TurnCompleted{Answer: &answer}, &trajectory.RunCompleted{Status: "completed", Answer: &answer},
	} {
		_, err := log.Append(min(turn, 1), p, 0)
		l.must(err)
	}
	want := trajectory.NewContent([]byte("hello"), trajectory.ArgumentHead)
	got := trajectory.NewContent([]byte("hi\x1b[2J"), trajectory.ArgumentHead)
	check := grade.Detail{Grader: grade.Exact, Extracted: &got, Expected: &want, Outcome: grade.Mismatch, Weight: 1, Why: "another word"}
	if s.Outcome == evidence.Passed {
		check = grade.Detail{Grader: grade.Exact, Extracted: &want, Expected: &want, Outcome: grade.Passed, Weight: 1, Why: "the same"}
	}
	result := &grade.Result{Breakdown: map[string]float64{}, FailureModes: []string{}, Details: []grade.Detail{check}, Unscored: s.Reason}
	if s.Score != nil {
		result.Passed, result.Score = s.Score.Passed, s.Score.Score
	}
	document, err := grade.Document(result)
	l.must(err)
	grading := store(document)
	return put(evidence.CaseFiles{Version: format.Version, Trajectory: evidence.TrajectoryFile{Digest: store(log.Bytes()), Head: log.Head()}, Grading: &grading})
}

// kinds lists the kinds of the ledger's entries.
func (l *trial) kinds() []string {
	l.Helper()
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	var kinds []string
	_, _, err := verifiedLedger(env, func(r ledger.Record) error {
		kinds = append(kinds, string(r.Envelope.Kind))
		return nil
	})
	l.must(err)
	return kinds
}

func (l *trial) lastKind() string { k := l.kinds(); return k[len(k)-1] }

func TestPromoteRecommendIsRecordedWithReceipts(t *testing.T) {
	l := newTrial(t)
	l.attempt(true, nil)
	l.ok("ledger", "anchor", "publish")
	var got struct {
		Class                 string   `json:"class"`
		CurrentTier           string   `json:"current_tier"`
		RecommendedTier       string   `json:"recommended_tier"`
		Evidence              []int64  `json:"evidence"`
		Rationale             []string `json:"rationale"`
		RequiresHumanApproval bool     `json:"requires_human_approval"`
		Unmet                 []string `json:"unmet"`
		Index                 int64    `json:"index"`
		File                  string   `json:"file"`
		PassedCount           int      `json:"passed_count"`
		LowerBound95          float64  `json:"lower_bound_95"`
	}
	l.must(json.Unmarshal([]byte(l.ok("promote", "recommend", "example", "--require", "bronze", "--json")), &got))
	if got.Class != "example" || got.CurrentTier != "bronze" || got.RecommendedTier != "bronze" || !got.RequiresHumanApproval || len(got.Evidence) != 9 || got.PassedCount != 7 || got.LowerBound95 < 0.6 ||
		len(got.Unmet) != 1 || got.Unmet[0] != "no attempt under review was reproduced by a different runner" || got.Rationale[0] != got.Unmet[0] {
		t.Errorf("%+v", got)
	}
	if kinds := l.kinds(); kinds[got.Index] != "promotion.recommendation.emitted" || int64(len(kinds)) != got.Index+1 {
		t.Errorf("entry %d of %v", got.Index, kinds)
	}
	var file struct {
		Schema   string            `json:"schema"`
		Index    int64             `json:"index"`
		Receipts map[string]string `json:"receipts"`
	}
	data, err := os.ReadFile(got.File)
	l.must(err)
	l.must(json.Unmarshal(data, &file))
	if file.Schema != "tallystick-recommendation/1-draft" || file.Index != got.Index || len(file.Receipts) != len(got.Evidence) {
		t.Errorf("%+v", file)
	}
	for i, receipt := range file.Receipts {
		proved, err := ledger.VerifyReceipt([]byte(receipt), nil, l.policy())
		if err != nil || fmt.Sprint(proved.Index) != i {
			t.Errorf("receipt of %s: %v", i, err)
		}
	}
	if mode, err := os.Stat(got.File); err != nil || mode.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", mode, err)
	}

	message, hint := l.refuses(refusal.TierNotRecommended, "promote", "recommend", "example", "--require", "silver")
	if message != "class example: bronze is recommended, silver is required" || !strings.Contains(hint, "recommendations") {
		t.Errorf("%q %q", message, hint)
	}
	l.refuses(refusal.Usage, "promote", "recommend", "example", "--require", "diamond")
	l.refuses(refusal.UnknownName, "promote", "recommend", "nothing")
}

func (l *trial) policy() ledger.Policy {
	l.Helper()
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	_, v, err := verifiedLedger(env, nil)
	l.must(err)
	return ledger.Policy{Logs: v.EveryKey()}
}

func (l *trial) recommendations() int {
	entries, _ := os.ReadDir(l.path(".tally/recommendations"))
	return len(entries)
}

// An operator who removes an anchor does not get a recommendation, and leaves a trace
// that blocks the next one even when the anchor is back.
func TestPromoteRefusesToReadPastAMissingAnchor(t *testing.T) {
	l := newTrial(t)
	l.attempt(true, nil)
	l.ok("ledger", "anchor", "publish")
	files, err := filepath.Glob(l.path("audit/anchors/*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	l.must(os.Rename(files[0], files[0]+".gone"))
	message, hint := l.refuses(refusal.MissingAnchor, "promote", "recommend", "example")
	if !strings.Contains(message, "is missing") || !strings.Contains(hint, "from git") {
		t.Errorf("%q %q", message, hint)
	}
	if l.lastKind() != "integrity.event" || l.recommendations() != 0 || !strings.Contains(l.read(".tally/alarms.jsonl"), `"name":"MissingAnchor","severity":"block"`) {
		t.Errorf("kinds %v, alarms %s", l.kinds(), l.read(".tally/alarms.jsonl"))
	}
	l.must(os.Rename(files[0]+".gone", files[0]))
	if out := l.ok("promote", "recommend", "example"); !strings.Contains(out, "block-severity integrity event: MissingAnchor (entry ") {
		t.Error(out)
	}
}

func TestPromoteRefusesToReadPastATamperedLedger(t *testing.T) {
	l := newTrial(t)
	l.attempt(true, nil)
	l.ok("ledger", "anchor", "publish")
	segment := ".tally/ledger/segments/0000000000000000.log"
	text := l.read(segment)
	l.write(segment, []byte(strings.Replace(text, `"score":1`, `"score":0`, 1)))
	l.refuses(refusal.ChainTamperDetected, "promote", "recommend", "example")
	if l.recommendations() != 0 || !strings.Contains(l.read(".tally/alarms.jsonl"), `"name":"ChainTamperDetected","severity":"block"`) {
		t.Error(l.read(".tally/alarms.jsonl"))
	}

	// Apply refuses as ever, and the attempt is not lost.
	message, _ := l.refuses(refusal.PromotionMustBeHumanAuthorized, "promote", "apply", "example", "gold")
	if !strings.Contains(message, "could not be recorded in the ledger") || !strings.Contains(l.read(".tally/alarms.jsonl"), `"name":"promotion.apply.blocked","severity":"block"`) {
		t.Errorf("%q; %s", message, l.read(".tally/alarms.jsonl"))
	}
}

// Evidence that is gone counts as failed; a disk that cannot be read is another
// matter.
func TestPromoteTellsMissingEvidenceFromAnUnreadableDisk(t *testing.T) {
	l := newTrial(t)
	l.attempt(true, nil)
	l.ok("ledger", "anchor", "publish")
	var blobs []string
	l.must(filepath.WalkDir(l.path(".tally/evidence"), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if data, _ := os.ReadFile(path); strings.Contains(string(data), `"case":"case-4"`) {
				blobs = append(blobs, path)
			}
		}
		return err
	}))
	if len(blobs) != 1 {
		t.Fatalf("the trajectory is in %v", blobs)
	}
	l.must(os.Remove(blobs[0]))
	if out := l.ok("promote", "recommend", "example"); !strings.Contains(out, "1 case counts as failed, its evidence is missing or changed: case-4") {
		t.Error(out)
	}
	n := l.recommendations()
	l.must(os.Mkdir(blobs[0], 0o755))
	l.refuses(refusal.Unreadable, "promote", "recommend", "example")
	if l.recommendations() != n {
		t.Error("a recommendation was made all the same")
	}
}

// What one of two witnesses cosigned is not published where two are asked for,
// neither in the day's anchor nor in a checkpoint that was kept.
func TestPromoteAsksForTheWholeQuorum(t *testing.T) {
	l := newTrial(t)
	l.attempt(true, nil)
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	w, err := openPlace(env)
	l.must(err)
	cfg, err := w.Config()
	l.must(err)
	led, err := sequencer.Open(l.Context(), cfg)
	l.must(err)
	settings := l.read("tally.yaml")
	witnesses := "witnesses:\n"
	var cosigners []sequencer.Cosigner
	for i := range byte(2) {
		key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{50 + i}, 32)))
		l.must(err)
		pub, _ := key.Public().Ed25519()
		cosigners = append(cosigners, testCosigner{key})
		witnesses += fmt.Sprintf("  - {url: \"http://127.0.0.1:%d\", key: %q}\n", i+1, seal.CosignatureVKey(pub, "witness.example"))
	}
	pub, err := led.PublishAnchor(l.Context(), cosigners[:1])
	l.must(err)
	l.must(w.KeepCheckpoint(pub))
	l.must(led.Close())
	for quorum, published := range map[int]bool{1: true, 2: false} {
		l.write("tally.yaml", fmt.Appendf([]byte(settings), "%squorum: %d\n", witnesses, quorum))
		if out := l.ok("promote", "recommend", "example"); strings.Contains(out, "no anchor has been published") == published {
			t.Errorf("quorum %d: %s", quorum, out)
		}
	}
}

// Evidence that is whole and of another run does not carry a record.
func TestPromoteDoesNotTakeTheEvidenceOfAnotherRun(t *testing.T) {
	l := newTrial(t)
	var first []digest.Content
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	l.attempt(true, nil)
	_, _, err := verifiedLedger(env, func(r ledger.Record) error {
		if s, ok := r.Body.(*evidence.CaseScored); ok && s.CaseID == "case-4" {
			first = s.EvidenceDigests
		}
		return nil
	})
	l.must(err)
	l.attempt(true, func(s *evidence.CaseScored) bool {
		if s.CaseID == "case-4" {
			s.EvidenceDigests = first
		}
		return true
	})
	l.ok("ledger", "anchor", "publish")
	if out := l.ok("promote", "recommend", "example"); !strings.Contains(out, "1 case counts as failed, its evidence is missing or changed: case-4") {
		t.Error(out)
	}
}

func TestPromoteRefusesAnUnsignedThreshold(t *testing.T) {
	l := newTrial(t)
	l.attempt(true, nil)
	l.edit("bench/example/registration.yaml", "silver: {lower_bound_95: 0.6,", "silver: {lower_bound_95: 0.61,")
	l.refuses(refusal.RegistrationDigestMismatch, "promote", "recommend", "example")
}

func TestPromoteApplyAlwaysRefusesAndIsRecorded(t *testing.T) {
	l := newTrial(t)
	before := l.read("bench/example/registration.yaml")
	for _, ask := range [][]string{{"example", "silver"}, {"example", "bronze"}, {"nothing", "gold"}, {"example", "diamond"}, {"", "\x1b[2J" + strings.Repeat("x", 1000)}, {"x" + strings.Repeat("é", 150), "gold"}} {
		entries := len(l.kinds())
		_, hint := l.refuses(refusal.PromotionMustBeHumanAuthorized, append([]string{"promote", "apply"}, ask...)...)
		for _, word := range []string{"registration.yaml", "human", "pull request", "CODEOWNERS", "alice, bob"} {
			if !strings.Contains(hint, word) {
				t.Errorf("the hint does not say %q: %s", word, hint)
			}
		}
		if l.lastKind() != "promotion.apply.blocked" || len(l.kinds()) != entries+2 {
			t.Errorf("%v: last entry is %s, %d are new", ask, l.lastKind(), len(l.kinds())-entries)
		}
	}
	if l.read("bench/example/registration.yaml") != before {
		t.Error("the registration changed")
	}
}
