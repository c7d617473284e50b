package registry

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/recompute"
)

func threeJudges(s *Settings) { s.Judges, s.Quorum = 3, 2 }

// A bench is a registry with judges: name to agents, the first of each votes.
type judged struct {
	*world
	author *member
	judges map[string][]*member
}

// newJudged publishes the three paths, which have no judges yet, and then asks for
// judges.
func newJudged(t *testing.T, persons int, change func(*Settings)) *judged {
	t.Helper()
	w := newWorld(t, nil)
	j := &judged{world: w, author: w.register(), judges: map[string][]*member{}}
	w.publishPaths(j.author)
	for i := range persons {
		name := fmt.Sprintf("person%d", i)
		j.judges[name] = []*member{w.register(), w.register()}
		if err := w.AdmitJudge(ctx, name, []string{j.judges[name][0].ID, j.judges[name][1].ID}); err != nil {
			t.Fatal(err)
		}
	}
	s := w.settings
	threeJudges(&s)
	if change != nil {
		change(&s)
	}
	writeFile(t, w.dir+"/registry.yaml", string(s.format()))
	w.reopen()
	return j
}

// proposeDrawn proposes a result and waits for its draw.
func (j *judged) proposeDrawn(accuracy float64) *Proposal {
	j.t.Helper()
	p := j.propose(j.author, Eval, evalBody(accuracy))
	if p.Status != Pending {
		j.t.Fatalf("%+v", p)
	}
	j.tick()
	// The settler may have drawn, and the index not have followed yet.
	for range 1000 {
		if p = must[*Proposal](j.t)(j.Proposal(ctx, p.ID)); p.Judges.Drawn > 0 {
			return p
		}
		time.Sleep(5 * time.Millisecond)
	}
	j.t.Fatal("no judge was drawn")
	return nil
}

func TestTwoOfThreePublish(t *testing.T) {
	j := newJudged(t, 5, nil)
	p := j.proposeDrawn(0.7)
	if p.Judges.Drawn != 3 || p.Judges.Of != 5 || len(p.Judges.Persons) != 3 || p.Deadline == nil {
		t.Fatalf("drawn: %+v", p.Judges)
	}
	drawn := p.Judges.Persons
	one := must[*Proposal](t)(j.vote(j.judges[drawn[0]][0], p.ID, "accept"))
	if one.Status != Pending || one.Judges.For != 1 || one.Judges.Missing != 2 {
		t.Errorf("after one vote: %+v", one.Judges)
	}
	reason := j.sign(j.judges[drawn[1]][0], Judgement{Proposal: p.ID, Verdict: "reject", Reason: "the seed is missing"})
	must[*Proposal](t)(j.Judge(ctx, j.judges[drawn[1]][0].Agent, reason))
	done := must[*Proposal](t)(j.vote(j.judges[drawn[2]][1], p.ID, "accept"))
	if done.Status != Published || done.Judges.For != 2 || done.Judges.Against != 1 || done.Chain == nil {
		t.Errorf("after three: %+v", done)
	}
	// The dissent stays readable, with its reason and its signature.
	read := must[*Proposal](t)(j.Proposal(ctx, p.ID))
	i := slices.IndexFunc(read.Judgements, func(r JudgementRow) bool { return r.Verdict == "reject" })
	if i < 0 || read.Judgements[i].Reason == "" {
		t.Fatalf("judgements: %+v", read.Judgements)
	}
	row := read.Judgements[i]
	if text := must[[]byte](t)(j.Blob(ctx, *row.Digest)); string(text) != "the seed is missing" {
		t.Errorf("reason %q", text)
	}
	message := must[[]byte](t)(recompute.Judgement{Content: read.Content, Proposal: p.ID, Reason: row.Digest, Registry: "registry.example/log", Verdict: "reject"}.Message())
	pub := must[ed25519.PublicKey](t)(seal.ParseDIDKey(row.PublicKey))
	sig := must[[]byte](t)(seal.DecodeMultibase(row.Signature))
	if !ed25519.Verify(pub, message, sig) {
		t.Error("the public judgement does not verify with what the registry shows")
	}
}

func TestOneRejectionIsNotEnoughAndTwoAre(t *testing.T) {
	j := newJudged(t, 3, nil)
	p := j.proposeDrawn(0.7)
	for i, want := range []string{Pending, Rejected} {
		if got := must[*Proposal](t)(j.vote(j.judges[p.Judges.Persons[i]][0], p.ID, "reject")); got.Status != want {
			t.Errorf("after %d rejections: %s, expected %s", i+1, got.Status, want)
		}
	}
	if page := must[*Page](t)(j.List(ctx, Query{})); len(page.Rows) != 0 {
		t.Errorf("a rejected result is listed: %s", page.JSON)
	}
	if page := must[*Page](t)(j.List(ctx, Query{Status: Rejected})); len(page.Rows) != 1 {
		t.Error("a rejected result is not readable")
	}
	// The same content again is the same, rejected, proposal.
	again := j.propose(j.judges["person0"][0], Eval, evalBody(0.7))
	if again.ID != p.ID || again.Status != Rejected {
		t.Errorf("proposed again: %+v", again)
	}
}

func TestVotesThatDoNotCount(t *testing.T) {
	j := newJudged(t, 5, nil)
	p := j.proposeDrawn(0.7)
	other := j.proposeDrawn(0.8)
	drawn := p.Judges.Persons
	first := j.judges[drawn[0]]
	must[*Proposal](t)(j.vote(first[0], p.ID, "accept"))

	// Twice, with the other agent of the same person.
	_, err := j.vote(first[1], p.ID, "accept")
	wantRefusal(t, err, refusal.AlreadyExists, drawn[0])
	// Changing one's mind.
	_, err = j.vote(first[0], p.ID, "reject")
	wantRefusal(t, err, refusal.AlreadyExists)
	// The same vote sent again is the same vote.
	if same := must[*Proposal](t)(j.vote(first[0], p.ID, "accept")); same.Judges.For != 1 {
		t.Errorf("sent again: %+v", same.Judges)
	}
	// Not drawn.
	for name, agents := range j.judges {
		if !slices.Contains(drawn, name) {
			_, err = j.vote(agents[0], p.ID, "accept")
			wantRefusal(t, err, refusal.NotAllowed, "not drawn")
		}
	}
	// Not a judge, and the proposer.
	_, err = j.vote(j.register(), p.ID, "accept")
	wantRefusal(t, err, refusal.NotAllowed)
	_, err = j.vote(j.author, p.ID, "accept")
	wantRefusal(t, err, refusal.NotAllowed)

	second := j.judges[drawn[1]]
	good := j.sign(second[0], Judgement{Proposal: p.ID, Verdict: "accept", Reason: "fine"})
	for name, change := range map[string]func(*Judgement){
		"signed with another key": func(v *Judgement) { *v = j.sign(second[1], *v) },
		"signed for another proposal": func(v *Judgement) {
			v.Signature = j.sign(second[0], Judgement{Proposal: other.ID, Verdict: "accept", Reason: "fine"}).Signature
		},
		"signed for another verdict": func(v *Judgement) { v.Verdict = "reject" },
		"signed for another reason":  func(v *Judgement) { v.Reason = "bad" },
		"not signed":                 func(v *Judgement) { v.Signature = "" },
		"half a signature":           func(v *Judgement) { v.Signature = v.Signature[:40] },
	} {
		v := good
		change(&v)
		if _, err := j.Judge(ctx, second[0].Agent, v); !refusal.Is(err, refusal.SignatureInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := good
	bad.Verdict = "perhaps"
	_, err = j.Judge(ctx, second[0].Agent, bad)
	wantRefusal(t, err, refusal.Malformed)

	// After the deadline.
	j.pass(8 * 24 * time.Hour)
	_, err = j.Judge(ctx, second[0].Agent, good)
	wantRefusal(t, err, refusal.TooLate, "deadline")
	j.tick()
	if late := must[*Proposal](t)(j.Proposal(ctx, p.ID)); late.Status != Lapsed || late.Judges.Missing != 2 || late.Judges.For != 1 {
		t.Errorf("after the deadline: %s %+v", late.Status, late.Judges)
	}
	_, err = j.Judge(ctx, second[0].Agent, good)
	wantRefusal(t, err, refusal.TooLate)
}

func TestAJudgeWhoWasRemovedIsOneNoMore(t *testing.T) {
	j := newJudged(t, 4, nil)
	p := j.proposeDrawn(0.7)
	gone, stays := p.Judges.Persons[0], p.Judges.Persons[1]
	must[*Proposal](t)(j.vote(j.judges[gone][0], p.ID, "accept"))
	other := j.proposeDrawn(0.8)
	for !slices.Contains(other.Judges.Persons, gone) {
		other = j.proposeDrawn(0.8 + float64(j.state.size)/1e4)
	}
	if err := j.RemoveJudge(ctx, gone, "moved on"); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		if again {
			j.reopen()
		}
		// At the door, in the list of what is to be judged, and in public.
		a := must[*Agent](t)(j.Authenticate(ctx, j.judges[gone][0].apiKey))
		if seen := must[*Agent](t)(j.Agent(ctx, a.ID)); a.Person != "" || seen.Person != "" {
			t.Errorf("the agent is still that of judge %q, %q", a.Person, seen.Person)
		}
		if open := must[[]*Proposal](t)(j.Assigned(ctx, a)); len(open) != 0 {
			t.Errorf("%d proposals to judge", len(open))
		}
		if n := must[*Public](t)(j.Config(ctx)).EligibleJudges; n != 3 {
			t.Errorf("%d judges", n)
		}
		_, err := j.vote(j.judges[gone][0], other.ID, "accept")
		wantRefusal(t, err, refusal.NotAllowed, "does not belong to an admitted judge")
	}
	// The earlier vote stays, and counts.
	if got := must[*Proposal](t)(j.vote(j.judges[stays][0], p.ID, "accept")); got.Status != Published || got.Judges.For != 2 {
		t.Errorf("%s %+v", got.Status, got.Judges)
	}
	// They are not drawn until they are admitted again.
	for i := range 5 {
		if p := j.proposeDrawn(0.1 + float64(i)/100); p.Judges.Of != 3 || slices.Contains(p.Judges.Persons, gone) {
			t.Errorf("drawn: %+v", p.Judges)
		}
	}
	if err := j.AdmitJudge(ctx, gone, []string{j.judges[gone][0].ID}); err != nil {
		t.Fatal(err)
	}
	must[*Proposal](t)(j.vote(j.judges[gone][0], other.ID, "accept"))
}

// No vote comes after the entry that removes its judge, however close the two are.
func TestAVoteNeverComesAfterTheRemoval(t *testing.T) {
	j := newJudged(t, 3, nil)
	for i := range 5 {
		p := j.proposeDrawn(0.1 + float64(i)/100)
		who := p.Judges.Persons[0]
		member := j.judges[who][0]
		vote := j.sign(member, Judgement{Proposal: p.ID, Verdict: "accept"})
		voted := make(chan error, 1)
		go func() {
			_, err := j.Judge(ctx, member.Agent, vote)
			voted <- err
		}()
		if err := j.RemoveJudge(ctx, who, ""); err != nil {
			t.Fatal(err)
		}
		err := <-voted
		j.mu.Lock()
		removed := j.state.persons[who].changes
		for _, v := range j.state.proposals[p.ID].votes {
			if v.Person == who && v.index > removed[len(removed)-1].index {
				t.Errorf("the vote is entry %d, the removal %d", v.index, removed[len(removed)-1].index)
			}
		}
		j.mu.Unlock()
		if err != nil {
			wantRefusal(t, err, refusal.NotAllowed)
		}
		if err := j.AdmitJudge(ctx, who, []string{member.ID}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheRootOfADrawIsThatOfItsProposal(t *testing.T) {
	j := newJudged(t, 5, nil)
	p := j.proposeDrawn(0.7)
	if d := j.state.draws[p.Content]; d.Size != p.Entry+1 {
		t.Errorf("drawn from %d entries, the proposal is entry %d", d.Size, p.Entry)
	}
}

func TestAJudgeMayNotJudgeTheirOwnProposal(t *testing.T) {
	j := newJudged(t, 4, nil)
	// person0 proposes with one agent: they are never drawn, whichever agent votes.
	for i := range 6 {
		p := j.propose(j.judges["person0"][1], Eval, evalBody(0.1+float64(i)/10))
		j.tick()
		got := must[*Proposal](t)(j.Proposal(ctx, p.ID))
		if got.Judges.Of != 3 || slices.Contains(got.Judges.Persons, "person0") {
			t.Fatalf("drawn for their own: %+v", got.Judges)
		}
		_, err := j.vote(j.judges["person0"][0], p.ID, "accept")
		wantRefusal(t, err, refusal.NotAllowed, "their own")
	}
	// An agent that a second person brings, or the same key under a second name,
	// would be a second vote.
	wantRefusal(t, j.AdmitJudge(ctx, "person9", []string{j.judges["person0"][0].ID}), refusal.NotAllowed, "person0")
	twin := must[*Registered](t)(j.Register(ctx, SignUp{PublicKey: j.judges["person0"][0].PublicKey}))
	wantRefusal(t, j.AdmitJudge(ctx, "person9", []string{twin.Agent.ID}), refusal.NotAllowed, "same public key")
}

func TestProposingAgainDrawsTheSameJudges(t *testing.T) {
	j := newJudged(t, 8, nil)
	p := j.proposeDrawn(0.7)
	must[*Proposal](t)(j.Withdraw(ctx, j.author.Agent, p.ID, Once{}))
	_, err := j.Withdraw(ctx, j.judges["person0"][0].Agent, p.ID, Once{})
	wantRefusal(t, err, refusal.NotAllowed)
	again := j.propose(j.author, Eval, strings.Replace(evalBody(0.7), `"seed":42`, `"date":"today","seed":42`, 1))
	j.tick()
	again = must[*Proposal](t)(j.Proposal(ctx, again.ID))
	if again.ID == p.ID || again.Status != Pending || again.Earlier != 1 {
		t.Fatalf("proposed again: %+v", again)
	}
	if !slices.Equal(again.Judges.Persons, p.Judges.Persons) {
		t.Errorf("drawn again: %v, and first %v", again.Judges.Persons, p.Judges.Persons)
	}
	if first := must[*Proposal](t)(j.Proposal(ctx, p.ID)); first.Status != Withdrawn {
		t.Errorf("the withdrawn one: %+v", first)
	}
}

func TestDrawWaitsForAnEligibleJudgeAndCanBeRecomputed(t *testing.T) {
	j := newJudged(t, 0, nil)
	p := j.propose(j.author, Eval, evalBody(0.4))
	j.tick()
	if got := must[*Proposal](t)(j.Proposal(ctx, p.ID)); got.Judges.Drawn != 0 || !strings.Contains(got.Note, "waiting") {
		t.Fatalf("without judges: %+v", got)
	}
	a := j.register()
	if err := j.AdmitJudge(ctx, "late", []string{a.ID}); err != nil {
		t.Fatal(err)
	}
	j.tick()
	got := must[*Proposal](t)(j.Proposal(ctx, p.ID))
	if got.Judges.Drawn != 1 || !strings.Contains(got.Note, "1 of 3") {
		t.Fatalf("with one: %+v %q", got.Judges, got.Note)
	}
	// A stranger recomputes the draw from the public entries and tiles.
	for i := got.Entry; ; i++ {
		raw := must[[][]byte](t)(j.Entries(ctx, i, 1))
		if len(raw) == 0 {
			t.Fatal("no draw among the entries")
		}
		_, body, err := evidence.DecodeEntry(raw[0])
		if err != nil {
			t.Fatal(err)
		}
		d, ok := body.(*evidence.RegistryDrawn)
		if !ok {
			continue
		}
		root := must[tlog.Hash](t)(j.log.root(d.Size))
		if d.Size <= got.Entry || d.Size > i || root.String() != d.Root || d.Content != got.Content {
			t.Errorf("the draw at entry %d: %+v", i, d)
		}
		if again := recompute.Draw(root, d.Content, []string{"late"}, 3); !slices.Equal(again, d.Judges) {
			t.Errorf("recomputed %v, recorded %v", again, d.Judges)
		}
		return
	}
}

// TestDrawIsAPromise has fixed values: a change would let old draws be disputed.
func TestDrawIsAPromise(t *testing.T) {
	root, content := tlog.Hash{1, 2, 3}, digest.IDOf([]byte("content"))
	people := []string{"alice", "bob", "carol", "dave", "erin"}
	got := recompute.Draw(root, content, people, 3)
	slices.Reverse(people)
	if again := recompute.Draw(root, content, people, 3); !slices.Equal(got, again) {
		t.Errorf("the order of the eligible matters: %v, %v", got, again)
	}
	if want := []string{"carol", "dave", "bob"}; !slices.Equal(got, want) {
		t.Errorf("drawn %v, expected %v", got, want)
	}
}

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		f, against, abstained, drawn, quorum int
		over                                 bool
		want                                 string
	}{
		{2, 0, 0, 3, 2, false, Published}, {1, 1, 0, 3, 2, false, ""}, {1, 2, 0, 3, 2, false, Rejected}, {0, 2, 0, 3, 2, false, Rejected},
		{1, 0, 0, 3, 2, true, Lapsed}, {1, 1, 1, 3, 2, false, Lapsed}, {0, 0, 3, 3, 2, false, Lapsed}, {1, 0, 0, 1, 2, false, Published},
		{0, 1, 0, 1, 2, false, Rejected}, {1, 0, 0, 2, 2, false, ""}, {1, 1, 0, 2, 2, false, Rejected}, {0, 0, 0, 3, 2, true, Lapsed},
	} {
		v := evidence.RegistryVotes{For: tt.f, Against: tt.against, Abstained: tt.abstained, Missing: tt.drawn - tt.f - tt.against - tt.abstained}
		if got := outcome(v, tt.drawn, tt.quorum, tt.over); got != tt.want {
			t.Errorf("%+v of %d, quorum %d, over %v: %q, expected %q", v, tt.drawn, tt.quorum, tt.over, got, tt.want)
		}
	}
}

func calibrated(questions int) string {
	var b strings.Builder
	b.WriteString("version: 1\nquestions:\n")
	for i := range questions {
		fmt.Fprintf(&b, "  - id: q%d\n    answer: %s\n    proposal: {text: \"claim %d\"}\n", i, []string{"accept", "reject"}[i%2], i)
	}
	return b.String()
}

func TestCalibration(t *testing.T) {
	w := newWorld(t, nil)
	writeFile(t, w.dir+"/calibration.yaml", calibrated(20))
	s := w.settings
	s.Calibration = "calibration.yaml"
	writeFile(t, w.dir+"/registry.yaml", string(s.format()))
	w.reopen()

	right := func(m *member) map[string]string {
		t.Helper()
		out := map[string]string{}
		for _, q := range must[[]Question](t)(w.Questions(ctx, m.Agent)) {
			var p struct{ Text string }
			if err := json.Unmarshal(q.Proposal, &p); err != nil {
				t.Fatal(err)
			}
			var n int
			fmt.Sscanf(p.Text, "claim %d", &n)
			out[q.ID] = []string{"accept", "reject"}[n%2]
		}
		return out
	}
	good, copier := w.register(), w.register()
	answers := right(good)
	if len(answers) < minQuestions-2 {
		t.Fatalf("%d questions", len(answers))
	}
	wantRefusal(t, w.AdmitJudge(ctx, "alice", []string{good.ID}), refusal.CalibrationFailed)
	once := Once{"calibrate-1", []byte("right")}
	got := must[*Calibrated](t)(w.Calibrate(ctx, good.Agent, answers, once))
	if !got.Passed || got.Score != 1 {
		t.Errorf("all right: %+v", got)
	}
	// Sent again it is the same attempt; sent otherwise it is refused.
	w.reopen()
	if again := must[*Calibrated](t)(w.Calibrate(ctx, good.Agent, answers, once)); *again != *got {
		t.Errorf("again: %+v, want %+v", again, got)
	}
	_, conflict := w.Calibrate(ctx, good.Agent, answers, Once{"calibrate-1", []byte("wrong")})
	wantRefusal(t, conflict, refusal.IdempotencyConflict)
	if err := w.AdmitJudge(ctx, "alice", []string{good.ID}); err != nil {
		t.Error(err)
	}

	// Copied by name, and copied in order.
	for _, q := range must[[]Question](t)(w.Questions(ctx, copier.Agent)) {
		if answers[q.ID] != "" {
			t.Errorf("two agents know a question as %s: one can tell the other its answer", q.ID)
		}
	}
	_, err := w.Calibrate(ctx, copier.Agent, answers, Once{})
	wantRefusal(t, err, refusal.CalibrationFailed, "not one of this agent's questions")
	passed := 0
	for range 20 {
		m := w.register()
		theirs, mine := must[[]Question](t)(w.Questions(ctx, m.Agent)), map[string]string{}
		i := 0
		for _, v := range inOrder(t, w, good, answers) {
			mine[theirs[i].ID] = v
			i++
		}
		if must[*Calibrated](t)(w.Calibrate(ctx, m.Agent, mine, Once{})).Passed {
			passed++
		}
	}
	if passed > 2 {
		t.Errorf("answers copied in order passed %d times of 20", passed)
	}

	// Constant answers, three times, and then never again.
	lazy := w.register()
	for i := range 3 {
		all := map[string]string{}
		for _, q := range must[[]Question](t)(w.Questions(ctx, lazy.Agent)) {
			all[q.ID] = []string{"accept", "reject", "accept"}[i]
		}
		if got := must[*Calibrated](t)(w.Calibrate(ctx, lazy.Agent, all, Once{})); got.Passed || got.Score > 0 || got.Attempt != i+1 {
			t.Errorf("constant answers: %+v", got)
		}
	}
	_, err = w.Questions(ctx, lazy.Agent)
	wantRefusal(t, err, refusal.CalibrationFailed)
	_, err = w.Calibrate(ctx, lazy.Agent, map[string]string{}, Once{})
	wantRefusal(t, err, refusal.CalibrationFailed, "all 3 attempts")
	w.reopen()
	_, err = w.Calibrate(ctx, lazy.Agent, map[string]string{}, Once{})
	wantRefusal(t, err, refusal.CalibrationFailed)
}

// inOrder lists one agent's answers in the order of its first sheet.
func inOrder(t *testing.T, w *world, m *member, answers map[string]string) []string {
	t.Helper()
	var out []string
	for _, q := range w.answers.sheet(w.ring, m.ID, 1).questions {
		out = append(out, answers[q.ID])
	}
	return out
}

func TestCalibrationSetsThatLuckWouldPass(t *testing.T) {
	for name, text := range map[string]string{
		"too few":    calibrated(8),
		"one answer": strings.ReplaceAll(calibrated(20), "reject", "accept"),
		"no answer":  strings.Replace(calibrated(20), "answer: accept", "answer: maybe", 1),
		"twice":      strings.Replace(calibrated(20), "id: q1\n", "id: q0\n", 1),
	} {
		dir := t.TempDir()
		writeFile(t, dir+"/c.yaml", text)
		if _, err := loadCalibration(dir, Settings{Calibration: "c.yaml"}); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
