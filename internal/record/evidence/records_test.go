package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
)

var testTime = At(time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC))

func ptr[T any](v T) *T { return &v }

func goodScore() Score {
	return Score{Passed: true, Score: 0.75, Breakdown: map[string]float64{"enrollment": 1, "patch applies": 0.5},
		FailureModes: []string{"slow"}, CostUSD: 0.000001, DurationSeconds: 1.5}
}

// examples is one valid record of every kind, with every optional member set.
func examples() map[Kind]Body {
	content, id := digest.ContentOf([]byte("x")), digest.IDOf([]byte("x"))
	raw := canon.RawMessage(`{"a":1}`)
	plan := Plan{BenchDigest: id, RegistrationDigest: content, RubricDigest: &content, TargetDigest: content, ImageDigest: &content,
		Cases: []PlannedCase{{ID: "a", Digest: content, Cassette: &content}}, CaseCount: 1, Repeat: 1, Filtered: true}
	score := goodScore()
	return map[Kind]Body{
		LedgerOpened:       &Opened{Origin: "example.com/evals", Signers: "x"},
		SignersChangedKind: &SignersChanged{Version: 2, Signers: "x", Signatures: []string{"a", "b"}},
		KeyPublishedKind:   &KeyPublished{Purpose: "credentials", Key: "k", Document: raw, Retired: true},
		AttemptRegisteredKind: &AttemptRegistered{SchemaVersion: 1, Attempt: "a", Origin: "example.com/evals", Class: "c", Target: "t", Number: 1,
			Mode: "replay", Scratch: true, Plan: plan, Operator: id, Signature: "s"},
		CaseStartedKind: &CaseStarted{Attempt: "a", CaseID: "c", Repeat: 1, Execution: 1, Events: &EventList{Count: 1, Digest: content}},
		CaseScoredKind: &CaseScored{SchemaVersion: 1, Attempt: "a", Class: "c", CaseID: "x", Repeat: 1, Execution: 1, CaseDigest: content,
			RubricDigest: &content, CassetteDigest: &content, ImageDigest: &content, HarnessVersion: "1", IsolationClass: "gvisor",
			IsolationScope: "case", AgentIsolation: "gvisor", Outcome: Passed, Reason: "r", Score: &score, StartedAt: testTime, FinishedAt: testTime,
			Operator: id, Policy: PolicyCount{1, 1, 1}, Turns: 1, Tokens: 1, CostMicroUSD: 1, Unpriced: ptr(int64(1)), Retries: 1, Vantage: "gateway",
			Provenance: "recorded", JudgedByModel: true, EvidenceDigests: []digest.Content{content}},
		AttemptFinishedKind: &AttemptFinished{SchemaVersion: 1, Attempt: "a", EventCount: 1, Outcomes: map[Outcome]int{Passed: 1}, CaseDigests: content,
			RubricDigests: []digest.Content{content}, CassetteDigests: content, ImageDigests: []digest.Content{content}, MeanScore: ptr(0.5),
			FailureModes: []string{"slow"}, RuntimeMS: 1, CostMicroUSD: 1, Unpriced: ptr(int64(1)), CostUntold: 1},
		AttemptNamedKind: &AttemptNamed{Attempt: "a", Name: "prompt v9", Note: "n"},
		AttemptReproducedKind: &AttemptReproduced{Attempt: "a", Original: "b", Origin: "example.com/evals", Divergence: "case x", Operator: id, Signature: "s",
			Registered: &id, Finished: &id, Results: &content},
		ScoreAmendedKind: &ScoreAmended{Entry: 1, Score: score, Author: "alice", Reason: "r"},
		ScoreCorrectedKind: &ScoreCorrected{Origin: "example.com/evals", Attempt: "a", CaseID: "c", Repeat: 1, Entry: 1, Head: id, Number: 1,
			Was: Grade{false, 0.5}, Now: Grade{true, 1}, Reason: "r", Signatures: []string{"s"}},
		ReviewLabelledKind: &ReviewLabelled{Origin: "example.com/evals", Attempt: "a", CaseID: "c", Repeat: 1, Entry: 1, Head: id, Seen: content, Blind: true,
			Question: "q", Label: "pass", Score: ptr(1.0), Note: "n", Number: 1, Signature: "s"},
		JudgeCalibratedKind: &JudgeCalibrated{Class: "c", Check: "k", Judge: content, Judges: &content, Question: &content, Pairs: content, Source: FromFile, Ordered: true,
			Categories: []string{"failed", "passed"}, Cells: []CalibrationCell{{Judge: "passed", N: 3, People: "passed"}}, Unscored: 1},
		JudgeDrawnKind: &JudgeDrawn{Attempt: "a", CaseID: "c", Draw: 1, Key: "k", Verdict: content},
		CassetteRecordedKind: &CassetteRecorded{Class: "c", CaseID: "x", Digest: content, Provenance: "edited", Kept: true, Calls: 1, CostMicro: 1, Unpriced: ptr(int64(1)), ModelCalls: ptr(1),
			Endpoints: []EndpointUse{{Endpoint: Endpoint{Scheme: "https", Host: "api.example.com", Port: 443, Path: "/v1", Local: true, Address: "10.0.0.1", Proxy: "proxy:3128",
				Leaf: id.String(), Chain: id.String(), Roots: ShippedRoots}, Addresses: []string{"10.0.0.1"}, Models: []string{"m"}, Replies: 1}}},
		ReplyDrawnKind: &ReplyDrawn{API: "openai.chat", CaseID: "x", Class: "c", CostMicro: ptr(int64(1)), Digest: content, Draw: 1, Endpoint: "https://api.example.com:443/v1",
			Kept: true, Key: id, Model: "m", Party: "agent", Reply: content, Target: "t"},
		CasePendingKind:     &CasePending{Class: "c", CaseID: "x", Source: "s", Digest: content},
		CaseAcceptedKind:    &CaseAccepted{Class: "c", CaseID: "x", Digest: content, Signed: id, Signatures: []string{"a", "b"}},
		AnchorPublishedKind: &AnchorPublished{Date: "2026-05-12", Size: 1, Root: "r", Head: id, Witnesses: []string{"w"}, Alone: true, Git: true},
		IntegrityEventKind:  &IntegrityEvent{Name: "n", Severity: Warn, Boundary: "TB-4", Detail: "d", Data: raw},
		RecommendationKind:  &Recommendation{Class: "c", CurrentTier: "bronze", RecommendedTier: "silver", Evidence: []int64{1}, Rationale: []string{"r"}, RequiresHumanApproval: true, Rules: 1, WindowDays: 30, Outside: []Outside{{OutsideWitness, "w", 1}}},
		ApplyBlockedKind:    &ApplyBlocked{Class: "c", Tier: "gold"},
		CredentialIssuedKind: &CredentialIssued{Agent: "a", Attempt: "a", Blob: &content, Content: &id, Credential: digest.IDOf(nil), ID: "urn:uuid:1", Issuer: "did:key:z", Method: "did:key:z#z", Run: "r", Status: &StatusPlace{Index: 1, List: "l"},
			Request: &RegistryRequest{Body: id, Key: id}},
		CredentialRevokedKind:  &CredentialRevoked{Credential: digest.IDOf(nil), Reason: "r", Request: &RegistryRequest{Body: id, Key: id}},
		RegistryConfiguredKind: &RegistryConfigured{DeadlineHours: 72, DID: "did:web:a.example", DrawRule: 2, Judges: 3, PublicURL: "https://a.example", Quorum: 2, Witnesses: []string{"w"}},
		RegistryAgentKind:      &RegistryAgent{Agent: "a", KeyHash: id, Profile: &content, PublicKey: "did:key:z", Request: &RegistryRequest{Body: id, Key: id}},
		RegistryAPIKeyKind:     &RegistryAPIKey{Agent: "a", KeyHash: id, Replaces: &id, Request: &RegistryRequest{Body: id, Key: id}},
		RegistryJudgeKind:      &RegistryJudge{Admitted: true, Agents: []string{"a"}, Person: "p", Reason: &content, Set: &id},
		RegistryCalibratedKind: &RegistryCalibrated{Agent: "a", Answers: id, Attempt: 1, Passed: true, ScorePPM: 1, Set: id, Request: &RegistryRequest{Body: id, Key: id}},
		RegistryProposedKind: &RegistryProposed{Agent: "a", Artifact: "/artifacts/models/x", Content: id, Credential: &RegistryCredential{Blob: content, Digest: id, Run: &RegistryRun{Content: id, ID: "r"}, Status: "checked"}, Earlier: 1, Manifest: content,
			Path: "/artifacts/evals/x", Proposal: "p", Request: &RegistryRequest{Body: id, Key: id}, Runner: "did:key:z", Thing: "eval"},
		RegistryDrawnKind:  &RegistryDrawn{Checkpoint: &content, Content: id, Judges: []string{"p"}, Of: 1, Proposal: "p", Root: "r", Size: 1, Witnessed: true},
		RegistryJudgedKind: &RegistryJudged{Agent: "a", Content: id, Person: "p", Proposal: "p", Reason: &content, Signature: "s", Verdict: "accept", Request: &RegistryRequest{Body: id, Key: id}},
		RegistryDecidedKind: &RegistryDecided{Chain: &RegistryChain{HMAC: "h", KeyID: "k", Previous: "h", Signature: "s"}, Outcome: "published", Proposal: "p",
			Votes: RegistryVotes{1, 1, 1, 1}, Request: &RegistryRequest{Body: id, Key: id}},
		RegistryTakenDownKind: &RegistryTakenDown{Blob: content, ReasonCode: "privacy"},
		AuditDisposedKind:     &AuditDisposed{Attempt: "c.t.1", Check: "split-integrity", Finding: digest.IDOf(nil), Key: "ssh-ed25519 AAAA", Reason: "r", Report: digest.IDOf(nil), Signature: "s"},
		NoteKind:              &Note{"n": raw},
	}
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// optional lists the members of a record, and of the structs inside it, that
// may be missing.
func optional(typ reflect.Type) map[string]bool {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	out := map[string]bool{}
	if typ.Kind() == reflect.Struct {
		for i := range typ.NumField() {
			name, rest, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			out[name] = strings.Contains(rest, "omitempty")
		}
	}
	return out
}

// TestEveryKindIsStrict takes a valid record of each kind and changes one
// member at a time, at the top and one level down.
func TestEveryKindIsStrict(t *testing.T) {
	all := examples()
	if len(all) != len(Kinds()) {
		t.Fatalf("%d examples of %d kinds", len(all), len(Kinds()))
	}
	cases := 0
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			data := mustMarshal(t, all[kind])
			body, err := DecodeBody(kind, data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(body, all[kind]) {
				t.Errorf("decoded as %+v", body)
			}
			if kind == NoteKind { // any object is a note, and nothing else
				for _, bad := range []string{"", "null", "[]", `"x"`, "1"} {
					if _, _, err := ParseBody(kind, []byte(bad)); err == nil {
						t.Errorf("%q is accepted", bad)
					}
				}
				return
			}
			refusedAs := func(what string, members any) {
				t.Helper()
				cases++
				bad, err := json.Marshal(members)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := ParseBody(kind, bad); err == nil {
					t.Errorf("%s is accepted: %s", what, bad)
				}
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(data, &members); err != nil {
				t.Fatal(err)
			}
			may := optional(reflect.TypeOf(all[kind]))
			for name, value := range members {
				with := func(v string) map[string]json.RawMessage {
					m := maps.Clone(members)
					m[name] = json.RawMessage(v)
					return m
				}
				if !may[name] {
					m := maps.Clone(members)
					delete(m, name)
					refusedAs("without "+name, m)
				}
				if name != "document" && name != "data" {
					wrong := `{"wrong":1}`
					if value[0] == '{' {
						wrong = `"wrong"`
					}
					refusedAs("a wrong type of "+name, with(wrong))
					refusedAs("null as "+name, with("null"))
				}
				m := maps.Clone(members)
				delete(m, name)
				m[strings.ToUpper(name[:1])+name[1:]] = value
				refusedAs("another case of "+name, m)
			}
			m := maps.Clone(members)
			m["confidence"] = json.RawMessage("1")
			refusedAs("an unknown member", m)
			for _, bad := range []string{"", "null", "[]", "{}", `"x"`, string(data) + " x", string(data[:len(data)-1])} {
				if _, _, err := ParseBody(kind, []byte(bad)); err == nil {
					t.Errorf("%q is accepted", bad)
				}
				cases++
			}
		})
	}
	t.Logf("%d cases", cases)
	if _, err := DecodeBody("novelty", []byte("{}")); !refusal.Is(err, refusal.UnknownKind) {
		t.Errorf("unknown kind: %v", err)
	}
}

// TestRecordsThatContradictThemselvesAreRefused goes through what the types
// cannot say.
func TestRecordsThatContradictThemselvesAreRefused(t *testing.T) {
	content := digest.ContentOf(nil)
	change := func(kind Kind, edit func(Body)) Body {
		b := examples()[kind]
		edit(b)
		return b
	}
	scored := func(edit func(*CaseScored)) Body {
		return change(CaseScoredKind, func(b Body) { edit(b.(*CaseScored)) })
	}
	registered := func(edit func(*AttemptRegistered)) Body {
		return change(AttemptRegisteredKind, func(b Body) { edit(b.(*AttemptRegistered)) })
	}
	finished := func(edit func(*AttemptFinished)) Body {
		return change(AttemptFinishedKind, func(b Body) { edit(b.(*AttemptFinished)) })
	}
	for name, b := range map[string]Body{
		"passed without a score":        scored(func(c *CaseScored) { c.Score = nil }),
		"unscored with a score":         scored(func(c *CaseScored) { c.Outcome = Unscored }),
		"unscored without a reason":     scored(func(c *CaseScored) { c.Outcome, c.Score, c.Reason = Unscored, nil, "" }),
		"failed with a passing score":   scored(func(c *CaseScored) { c.Outcome = Failed }),
		"unknown outcome":               scored(func(c *CaseScored) { c.Outcome, c.Score = "great", nil }),
		"finished before it started":    scored(func(c *CaseScored) { c.FinishedAt = At(testTime.Go().Add(-1 * time.Second)) }),
		"schema of the future":          scored(func(c *CaseScored) { c.SchemaVersion = 2 }),
		"repeat 0":                      scored(func(c *CaseScored) { c.Repeat = 0 }),
		"negative cost":                 scored(func(c *CaseScored) { c.CostMicroUSD = -1 }),
		"negative turns":                scored(func(c *CaseScored) { c.Turns = -1 }),
		"negative retries":              scored(func(c *CaseScored) { c.Retries = -1 }),
		"negative tokens":               scored(func(c *CaseScored) { c.Tokens = -1 }),
		"negative violations":           scored(func(c *CaseScored) { c.Policy.Violations = -1 }),
		"more rollbacks verified":       scored(func(c *CaseScored) { c.Policy.RollbacksVerified = 2 }),
		"score beyond 1":                scored(func(c *CaseScored) { c.Score.Score = 1.1 }),
		"attempt number 0":              registered(func(a *AttemptRegistered) { a.Number = 0 }),
		"mode of its own":               registered(func(a *AttemptRegistered) { a.Mode = "dry" }),
		"origin with a space":           registered(func(a *AttemptRegistered) { a.Origin = "a b" }),
		"no case":                       registered(func(a *AttemptRegistered) { a.Plan.CaseCount = 0 }),
		"other number of cases":         registered(func(a *AttemptRegistered) { a.Plan.CaseCount = 2 }),
		"cases twice over":              registered(func(a *AttemptRegistered) { a.Plan.CasesDigest = &content }),
		"neither cases nor digest":      registered(func(a *AttemptRegistered) { a.Plan.Cases = nil }),
		"one case twice":                registered(func(a *AttemptRegistered) { a.Plan.Cases = append(a.Plan.Cases, a.Plan.Cases[0]); a.Plan.CaseCount = 2 }),
		"unknown outcome counted":       finished(func(a *AttemptFinished) { a.Outcomes["great"] = 1 }),
		"negative count":                finished(func(a *AttemptFinished) { a.Outcomes[Passed] = -1 }),
		"mean beyond 1":                 finished(func(a *AttemptFinished) { a.MeanScore = ptr(1.5) }),
		"failure mode that is claimed":  finished(func(a *AttemptFinished) { a.FailureModes = []string{"low confidence"} }),
		"agrees and diverges":           change(AttemptReproducedKind, func(b Body) { b.(*AttemptReproduced).Agrees = true }),
		"amended before the beginning":  change(ScoreAmendedKind, func(b Body) { b.(*ScoreAmended).Entry = -1 }),
		"a calibration from nowhere":    change(JudgeCalibratedKind, func(b Body) { b.(*JudgeCalibrated).Source = "a friend" }),
		"a calibration of one word":     change(JudgeCalibratedKind, func(b Body) { b.(*JudgeCalibrated).Categories = []string{"passed"} }),
		"a calibration without a label": change(JudgeCalibratedKind, func(b Body) { b.(*JudgeCalibrated).Cells = nil }),
		"a cell that counts nothing":    change(JudgeCalibratedKind, func(b Body) { b.(*JudgeCalibrated).Cells = []CalibrationCell{{Judge: "a", People: "a"}} }),
		"a cell that is there twice":    change(JudgeCalibratedKind, func(b Body) { b.(*JudgeCalibrated).Cells = []CalibrationCell{{"a", 1, "a"}, {"a", 2, "a"}} }),
		"draw 0":                        change(JudgeDrawnKind, func(b Body) { b.(*JudgeDrawn).Draw = 0 }),
		"provenance of its own":         change(CassetteRecordedKind, func(b Body) { b.(*CassetteRecorded).Provenance = "dreamt" }),
		"negative calls":                change(CassetteRecordedKind, func(b Body) { b.(*CassetteRecorded).Calls = -1 }),
		"accepted by one":               change(CaseAcceptedKind, func(b Body) { b.(*CaseAccepted).Signatures = []string{"a"} }),
		"signers version 1 again":       change(SignersChangedKind, func(b Body) { b.(*SignersChanged).Version = 1 }),
		"signers changed by one":        change(SignersChangedKind, func(b Body) { b.(*SignersChanged).Signatures = []string{"a"} }),
		"anchor of nothing":             change(AnchorPublishedKind, func(b Body) { b.(*AnchorPublished).Size = 0 }),
		"severity of its own":           change(IntegrityEventKind, func(b Body) { b.(*IntegrityEvent).Severity = "bad" }),
		"boundary 9":                    change(IntegrityEventKind, func(b Body) { b.(*IntegrityEvent).Boundary = "TB-9" }),
		"a correction above one":        change(ScoreCorrectedKind, func(b Body) { b.(*ScoreCorrected).Now = Grade{true, 1.5} }),
		"a correction without a signer": change(ScoreCorrectedKind, func(b Body) { b.(*ScoreCorrected).Signatures = []string{} }),
		"a correction by three":         change(ScoreCorrectedKind, func(b Body) { b.(*ScoreCorrected).Signatures = []string{"a", "b", "c"} }),
		"a correction numbered zero":    change(ScoreCorrectedKind, func(b Body) { b.(*ScoreCorrected).Number = 0 }),
		"a correction for no reason":    change(ScoreCorrectedKind, func(b Body) { b.(*ScoreCorrected).Reason = "" }),
		"a label above one":             change(ReviewLabelledKind, func(b Body) { b.(*ReviewLabelled).Score = ptr(1.5) }),
		"a label without a signer":      change(ReviewLabelledKind, func(b Body) { b.(*ReviewLabelled).Signature = "" }),
		"a label numbered zero":         change(ReviewLabelledKind, func(b Body) { b.(*ReviewLabelled).Number = 0 }),
		"a label without a word":        change(ReviewLabelledKind, func(b Body) { b.(*ReviewLabelled).Label = "" }),
		"a label for no question":       change(ReviewLabelledKind, func(b Body) { b.(*ReviewLabelled).Question = "" }),
		"a note without end":            change(ReviewLabelledKind, func(b Body) { b.(*ReviewLabelled).Note = strings.Repeat("x", MaxReviewNote+1) }),
		"promotion by no rules":         change(RecommendationKind, func(b Body) { b.(*Recommendation).Rules = 0 }),
		"promotion without a human":     change(RecommendationKind, func(b Body) { b.(*Recommendation).RequiresHumanApproval = false }),
	} {
		i := slices.IndexFunc(Kinds(), func(k Kind) bool { return reflect.TypeOf(NewBody(k)) == reflect.TypeOf(b) })
		if _, err := DecodeBody(Kinds()[i], mustMarshal(t, b)); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: got %v, want a Malformed refusal", name, err)
		}
	}
}

// TestGoodRecordsAreCheckedWithoutMemory: every entry of a ledger is checked.
func TestGoodRecordsAreCheckedWithoutMemory(t *testing.T) {
	for kind, body := range examples() {
		// A set of what is there once, and patterns, whose machines the garbage
		// collector and the race detector take away.
		if kind == JudgeCalibratedKind || kind == AttemptRegisteredKind || kind == CassetteRecordedKind {
			continue
		}
		// It has the letters of a banned word, so it is split into words.
		switch b := body.(type) {
		case *CaseScored:
			delete(b.Score.Breakdown, "enrollment")
		case *ScoreAmended:
			delete(b.Score.Breakdown, "enrollment")
		}
		if n := testing.AllocsPerRun(10, func() {
			if err := body.Validate(); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}

func TestQuestionsThatMeanNothing(t *testing.T) {
	good := StopEarly{Rule: StopSPRT, P0: 0.6, P1: 0.8, Alpha: 0.05, Beta: 0.1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, q := range []StopEarly{{}, {P0: 0.6, P1: 0.8, Alpha: 0.05, Beta: 0.1}, {StopSPRT, 0.8, 0.6, 0.05, 0.1, 1}, {StopSPRT, 0.6, 0.6, 0.05, 0.1, 1}, {StopSPRT, 0, 0.6, 0.05, 0.1, 1},
		{StopSPRT, 0.6, 1, 0.05, 0.1, 1}, {StopSPRT, 0.6, 0.8, 0, 0.1, 1}, {StopSPRT, 0.6, 0.8, 0.05, 0.5, 1}, {StopSPRT, math.NaN(), 0.8, 0.05, 0.1, 1}} {
		if q.Validate() == nil {
			t.Errorf("accepted: %+v", q)
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, ok := range []string{"example.com/evals", "a", "x.y-z_1/2"} {
		if err := CheckOrigin(ok); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "/a", "a/", "A", "a b", "a\n", "a+b", "a\"", "ä", strings.Repeat("a", 201)} {
		if CheckOrigin(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestTimesHaveOneSpelling(t *testing.T) {
	if got := testTime.String(); got != "2026-05-12T14:00:00.000Z" {
		t.Error(got)
	}
	for _, bad := range []string{"", "2026-05-12T14:00:00Z", "2026-05-12T14:00:00.0000Z", "2026-05-12T14:00:00.000+00:00",
		"2026-05-12t14:00:00.000z", "2026-05-12 14:00:00.000Z", "2026-02-30T14:00:00.000Z", "2026-05-12T24:00:00.000Z", "2026-05-12T14:00:60.000Z",
		"2026-05-12T14:00:00,000Z", "0000-05-12T14:00:00.000Z", "2026-00-12T14:00:00.000Z", "2026-13-12T14:00:00.000Z", "2025-02-29T14:00:00.000Z", " 2026-05-12T14:00:00.000Z", "12026-05-12T14:00:00.000Z"} {
		if _, err := ParseTime(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, err := At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)).MarshalText(); err == nil {
		t.Error("the year 10000 has a spelling")
	}
}

// TestTimesAreReadAsTheLibraryReadsThem compares with the standard library on
// spellings near good ones.
func TestTimesAreReadAsTheLibraryReadsThem(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 200_000 {
		good := At(time.UnixMilli(random.Int64N(253402300800000))).String()
		text := []byte(good)
		for range random.IntN(3) {
			text[random.IntN(len(text))] = "0123456789-:.TZ+ "[random.IntN(17)]
		}
		s := string(text)
		want, err := time.Parse(timeLayout, s)
		fine := err == nil && want.Format(timeLayout) == s && want.Year() > 0
		got, err := ParseTime(s)
		if fine != (err == nil) || fine && !got.Go().Equal(want) {
			t.Fatalf("%q: %v, %v; the library says %v", s, got, err, want)
		}
		if fine {
			accepted++
		}
	}
	if accepted < 50_000 || accepted > 190_000 {
		t.Errorf("%d of 200000 accepted: the test has lost its sense", accepted)
	}
}

func TestBannedWords(t *testing.T) {
	for name, want := range map[string]string{
		"enrollment": "", "fillmore": "", "overconfidence": "", "confident": "", "self reporting": "", "model": "", "modelsays": "", "says model": "",
		"confidence": "confidence", "low-confidence": "confidence", "CONFIDENCE": "confidence", "confidence95": "confidence", "score.confidence.mean": "confidence",
		"llm": "llm", "LLM": "llm", "llm_grade": "llm", "LLM-grade": "llm", "LLMGrade": "llm", "gradeLLM": "llm", "by llm": "llm", "llm2": "llm", "an…llm…": "llm",
		"self_reported": "self_reported", "selfReported": "self_reported", "self-reported": "self_reported", "Self Reported": "self_reported", "is.self.reported": "self_reported",
		"model_says": "model_says", "model says": "model_says", "modelSays": "model_says", "the Model Says so": "model_says",
	} {
		if got := BannedWord(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// TestScoreHasNoRoomForOpinions walks every field that can be reached from a
// score, by its Go name and its JSON name.
func TestScoreHasNoRoomForOpinions(t *testing.T) {
	fields := 0
	var walk func(typ reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(typ.Elem(), path)
		case reflect.Map:
			walk(typ.Key(), path)
			walk(typ.Elem(), path)
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				for _, n := range []string{f.Name, name} {
					if word := BannedWord(n); word != "" || name == "" {
						t.Errorf("%s.%s (%q) says %q", path, f.Name, name, word)
					}
				}
				fields++
				walk(f.Type, path+"."+f.Name)
			}
		}
	}
	walk(reflect.TypeFor[Score](), "Score")
	if fields != 6 {
		t.Errorf("a score has %d fields, six are agreed", fields)
	}
}

func TestScoreRules(t *testing.T) {
	good := `{"passed":true,"score":0.5,"breakdown":{"a":1},"failure_modes":["x"],"cost_usd":0.123456,"duration_seconds":2}`
	if _, err := ParseScore([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new string }{
		{"everything right and not passed", `"passed":true,"score":0.5`, `"passed":false,"score":1.0`},
		{"nothing right and passed", `"score":0.5`, `"score":0`},
		{"above one", `"score":0.5`, `"score":1.0000001`},
		{"below zero", `"score":0.5`, `"score":-0.0000001`},
		{"a string", `"score":0.5`, `"score":"0.5"`},
		{"null", `"score":0.5`, `"score":null`},
		{"missing", `"score":0.5,`, ``},
		{"not a number", `"score":0.5`, `"score":NaN`},
		{"infinite", `"score":0.5`, `"score":1e999`},
		{"duplicate", `"score":0.5`, `"score":0.5,"score":1`},
		{"unknown field", `"score":0.5`, `"score":0.5,"confidence":1`},
		{"passed missing", `"passed":true,`, ``},
		{"passed as number", `"passed":true`, `"passed":1`},
		{"seven decimals", `0.123456`, `0.1234567`},
		{"negative cost", `0.123456`, `-1`},
		{"negative duration", `"duration_seconds":2`, `"duration_seconds":-2`},
		{"breakdown null", `{"a":1}`, `null`},
		{"breakdown of strings", `{"a":1}`, `{"a":"1"}`},
		{"empty breakdown key", `{"a":1}`, `{"":1}`},
		{"banned breakdown key", `{"a":1}`, `{"llm_grade":1}`},
		{"banned failure mode", `["x"]`, `["modelSays"]`},
		{"empty failure mode", `["x"]`, `[""]`},
		{"long failure mode", `["x"]`, `["` + strings.Repeat("x", 129) + `"]`},
		{"failure modes missing", `"failure_modes":["x"],`, ``},
		{"trailing bytes", `"duration_seconds":2}`, `"duration_seconds":2}{}`},
	} {
		text := strings.Replace(good, tt.old, tt.new, 1)
		if text == good {
			t.Fatalf("%s changes nothing", tt.name)
		}
		if s, err := ParseScore([]byte(text)); err == nil {
			t.Errorf("%s is accepted as %+v", tt.name, s)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for i, s := range []Score{{Score: v}, {CostUSD: v}, {DurationSeconds: v}, {Breakdown: map[string]float64{"a": v}}} {
			if s.Validate() == nil {
				t.Errorf("%v is accepted in place %d", v, i)
			}
		}
	}
	many := Score{FailureModes: slices.Repeat([]string{"x"}, 257)}
	if many.Validate() == nil {
		t.Error("257 failure modes are accepted")
	}
	many = Score{Breakdown: map[string]float64{}}
	for i := range 257 {
		if err := many.Validate(); err != nil {
			t.Fatal(err)
		}
		many.Breakdown[fmt.Sprint("key ", i)] = 1
	}
	if many.Validate() == nil {
		t.Error("257 breakdown keys are accepted")
	}
}

// seeds are the entries of every kind, for the fuzz targets.
func seeds(f *testing.F) {
	for kind, body := range examples() {
		data := mustMarshal(f, body)
		f.Add(AppendEntry(nil, data, kind, false, testTime))
		f.Add(AppendEntry(nil, data, kind, true, testTime))
	}
	f.Add([]byte(`{"body":{"k":",\"kind\":\"note"},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`))
	for _, n := range []int{canon.MaxDepth - 2, canon.MaxDepth - 1, canon.MaxDepth} {
		f.Add(AppendEntry(nil, []byte(`{"a":`+strings.Repeat("[", n-1)+strings.Repeat("]", n-1)+`}`), NoteKind, false, testTime))
	}
	f.Add([]byte(`{"body":{"a":"\\\"[[["},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`))
	f.Add([]byte(`{"body":{},"kind":"note","manual":false,"time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`))
}

// FuzzDecodeEntry: what decodes strictly splits into the same parts, and both
// write the same bytes again.
func FuzzDecodeEntry(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		e, body, err := DecodeEntry(line)
		// The envelope is read by hand; the decoder of all other documents
		// must think the same of it.
		var plain Entry
		if canonErr := canon.UnmarshalCanonical(line, &plain); canonErr == nil && plain.Version == format.Version {
			if _, bodyErr := DecodeBody(plain.Kind, plain.Body); (bodyErr == nil) != (err == nil) {
				t.Fatalf("by hand %v, by decoder %v", err, bodyErr)
			}
			if err == nil && !reflect.DeepEqual(plain, e) {
				t.Fatalf("by hand %+v, by decoder %+v", e, plain)
			}
		} else if err == nil {
			t.Fatalf("accepted by hand, by decoder %v", canonErr)
		}
		if err != nil {
			return
		}
		env, err := SplitEntry(line)
		if err != nil {
			t.Fatalf("decodes and does not split: %v", err)
		}
		if !bytes.Equal(env.Body, e.Body) || env.Kind != e.Kind || env.Manual != e.Manual || env.Time != e.Time {
			t.Fatalf("decodes as %+v and splits as %+v", e, env)
		}
		if again := AppendEntry(nil, e.Body, e.Kind, e.Manual, e.Time); !bytes.Equal(again, line) {
			t.Fatalf("%q is written again as %q", line, again)
		}
		if again := mustMarshal(t, body); !bytes.Equal(again, e.Body) {
			t.Fatalf("the body %q is written again as %q", e.Body, again)
		}
	})
}

// The hash walk reads envelopes and no bodies, so an envelope must be refused by
// itself.
func TestEnvelopesHaveOneSpelling(t *testing.T) {
	const good = `{"body":{},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`
	const manual = `{"body":{},"kind":"note","manual":true,"time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`
	for _, line := range []string{good, manual} {
		if env, err := SplitEntry([]byte(line)); err != nil || env.Kind != NoteKind || string(env.Body) != "{}" || env.Manual != (line == manual) {
			t.Fatalf("SplitEntry(%s) = %+v, %v", line, env, err)
		}
	}
	for _, edit := range []struct{ name, old, new string }{
		{"no kind", `"note"`, `""`},
		{"a kind in capitals", `"note"`, `"Note"`},
		{"a kind that ends the member", `"note"`, `"note","x":"y"`},
		{"a kind with an escape", `"note"`, `"not\u0065"`},
		{"a kind that begins with a dot", `"note"`, `".note"`},
		{"a kind that ends in a dot", `"note"`, `"note."`},
		{"a long kind", `"note"`, `"` + strings.Repeat("n", 65) + `"`},
		{"manual and false", `,"time"`, `,"manual":false,"time"`},
		{"another version", `"v":"1-draft"`, `"v":"2"`},
		{"a member after the version", `"v":"1-draft"`, `"v":"1-draft","x":1`},
		{"a member before the body", `{"body"`, `{"a":1,"body"`},
		{"no body", `"body":{},`, ``},
		{"no time", `,"time":"2026-05-12T14:00:00.000Z"`, ``},
		{"a time without milliseconds", `00.000Z`, `00Z`},
		{"white space", `,"kind"`, `, "kind"`},
		{"a line break", `"v":"1-draft"}`, "\"v\":1}\n"},
		{"nothing", good, ``},
	} {
		if env, err := SplitEntry([]byte(strings.Replace(good, edit.old, edit.new, 1))); err == nil {
			t.Errorf("%s: %+v was accepted", edit.name, env)
		}
	}
	// A newer program's entry is called newer, whatever else is in it.
	for line, newer := range map[string]bool{
		`{"body":{},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":"2"}`:       true,
		`{"body":{},"by":"x","kind":"note","time":"later","v":"1"}`:                 true,
		`{"body":{},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":"!"}`:       false,
		`{"body":{},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":2}`:         false,
		`{"new":{},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":"2"}`:        false,
		`{"body":{},"kind":"Note","time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`: false,
	} {
		if _, _, err := DecodeEntry([]byte(line)); refusal.Is(err, refusal.NewerFormat) != newer || !newer && !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// FuzzSplitEntry: what splits is written again as the same bytes, whatever the
// body is.
func FuzzSplitEntry(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		env, err := SplitEntry(line)
		if err != nil {
			return
		}
		if again := AppendEntry(nil, env.Body, env.Kind, env.Manual, env.Time); !bytes.Equal(again, line) {
			t.Fatalf("%q is written again as %q", line, again)
		}
	})
}

// FuzzParseScore: what parses is a valid score that survives its encoding.
func FuzzParseScore(f *testing.F) {
	f.Add([]byte(`{"passed":true,"score":0.5,"breakdown":{"a":1},"failure_modes":["x"],"cost_usd":0.1,"duration_seconds":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseScore(data)
		if err != nil {
			return
		}
		again, err := ParseScore(mustMarshal(t, s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%+v becomes %+v: %v", s, again, err)
		}
	})
}
