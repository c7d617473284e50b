package monitor

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/client"
)

// look looks at a registry once, from nothing.
func look(t testing.TB, f *fakeRegistry) (*Report, error) {
	var h http.Handler = f
	return watch(t, &h).Once(context.Background())
}

// begunAgain is what another process has of a monitor: its folder.
func begunAgain(m *Monitor) *Monitor {
	return &Monitor{Client: m.Client, Keys: m.Keys, Witnesses: m.Witnesses, Dir: m.Dir, AllReceipts: m.AllReceipts, Now: m.Now, rowsOnly: m.rowsOnly}
}

func TestAnHonestRegistryHasNoFindings(t *testing.T) {
	f := story(newFake(t, 3, 2))
	var h http.Handler = f
	m := watch(t, &h)
	report, err := m.Once(context.Background())
	if err != nil {
		t.Fatal(err, report)
	}
	if report.Size != f.tree.Size() || report.Rows != 2 || report.Receipts != 4 || report.Draws != 4 || report.Votes != 8 || report.Decisions != 5 || report.FirstUse {
		t.Errorf("%+v", report)
	}

	// It grows, and another process resumes from what is remembered.
	p := f.propose(6)
	f.draw(p, 3)
	for _, person := range f.drawn[p.Content].Judges {
		f.vote(p, person, "accept")
	}
	f.decide(p, "published", evidence.RegistryVotes{For: 3})
	again := begunAgain(m)
	before := report.Size
	if report, err = again.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	if report.Before != before || report.Size != f.tree.Size() || report.Rows != 3 || report.Receipts != 2 {
		t.Errorf("%+v", report)
	}
	// And once more in the same process.
	if report, err = again.Once(context.Background()); err != nil || report.Receipts != 0 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestWithoutJudgesItIsPublishedAtOnce(t *testing.T) {
	f := newFake(t, 0, 0)
	f.decide(f.propose(0), "published", evidence.RegistryVotes{})
	if report, err := look(t, f); err != nil || report.Rows != 1 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestAKeyThatWasNotNamedIsRememberedAndSaid(t *testing.T) {
	f := story(newFake(t, 3, 2))
	var h http.Handler = f
	m := watch(t, &h)
	m.Keys = nil
	if report, err := m.Once(context.Background()); err != nil || !report.FirstUse || len(report.Keys) != 1 {
		t.Fatalf("%+v %v", report, err)
	}
	f.checkpointLie = func() []byte { return signWith(t, testKey(t, 99), f.head(f.tree.Size())) }
	_, err := m.Once(context.Background())
	wantRefusal(t, err, refusal.CheckpointInvalid, "")
}

func wantRefusal(t testing.TB, err error, name refusal.Name, words string) {
	t.Helper()
	if !refusal.Is(err, name) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %s with %q", err, name, words)
	}
}

// edit changes a copy of a row.
func edit(rows []map[string]any, n int, member string, value any) []map[string]any {
	out := slices.Clone(rows)
	out[n] = maps.Clone(out[n])
	out[n][member] = value
	return out
}

func TestEveryLieAboutARowIsFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		lie  func(f *fakeRegistry)
		want string
	}{
		{"a metric is changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any {
				return edit(r, 1, "metrics", json.RawMessage(`{"accuracy":0.99}`))
			}
		}, RowDiffers + ": the row says {"},
		{"a path is changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any {
				return edit(r, 0, "artifactPath", "/artifacts/models/a/other")
			}
		}, RowDiffers},
		{"how it was run is changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "runDetails", json.RawMessage(`{}`)) }
		}, RowDiffers},
		{"the date is changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "publishedAt", "2020-01-01T00:00:00Z") }
		}, RowDiffers + ": publishedAt"},
		{"the address is changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "ipPath", "/artifacts/evals/p9") }
		}, RowDiffers + ": ipPath"},
		{"dissent is hidden", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any {
				return edit(r, 0, "judges", map[string]any{"drawn": 3, "for": 3, "against": 0, "abstained": 0, "missing": 0})
			}
		}, RowDiffers + ": judges.against"},
		{"earlier proposals are invented", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "earlier", 7) }
		}, RowDiffers + ": earlier"},
		{"a runner is put in", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "runner", "did:web:famous.example") }
		}, RowDiffers + ": runner"},
		{"a credential is put in", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "credential", "/credentials/x") }
		}, RowDiffers + ": a credential"},
		{"the row names another entry", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "entry", 3) }
		}, RowDiffers + ": entry: the row says 3"},
		{"the votes for it are changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any {
				return edit(r, 0, "judges", map[string]any{"drawn": 3, "for": 3, "against": 1})
			}
		}, RowDiffers + ": judges.for"},
		{"how many were drawn is changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any {
				return edit(r, 0, "judges", map[string]any{"drawn": 5, "for": 2, "against": 1})
			}
		}, RowDiffers + ": judges.drawn"},
		{"abstentions are put in", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any {
				return edit(r, 0, "judges", map[string]any{"drawn": 3, "for": 2, "against": 1, "abstained": 1})
			}
		}, RowDiffers + ": judges.abstained"},
		{"votes are said to be missing", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any {
				return edit(r, 0, "judges", map[string]any{"drawn": 3, "for": 2, "against": 1, "missing": 1})
			}
		}, RowDiffers + ": judges.missing"},
		{"the status is changed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "status", "rejected") }
		}, RowDiffers + ": status"},
		{"the row names another decision", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "decision", 3) }
		}, RowDiffers + ": decision: the row says 3"},
		{"a row is hidden", func(f *fakeRegistry) { f.rowsLie = func(r []map[string]any) []map[string]any { return r[:1] } }, EntryWithoutRow},
		{"all rows are hidden", func(f *fakeRegistry) { f.rowsLie = func([]map[string]any) []map[string]any { return nil } }, EntryWithoutRow},
		{"a row is invented", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return append(edit(r, 0, "proposalId", "p77"), r[0]) }
		}, RowWithoutEntry + ": no entry of the"},
		{"a rejected proposal is listed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return append(edit(r, 0, "proposalId", "p1"), r[0]) }
		}, RowWithoutEntry + ": no entry publishes it"},
		{"an open proposal is listed", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return append(edit(r, 0, "proposalId", "p5"), r[0]) }
		}, RowWithoutEntry},
		{"a row is there twice", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return append(r, r[0]) }
		}, RowTwice},
		{"the receipt is another's", func(f *fakeRegistry) {
			f.rowsLie = func(r []map[string]any) []map[string]any { return edit(r, 0, "receipt", "/receipt/4") }
		}, ReceiptDoesNotProve + ": the row leads to"},
		{"the receipt is of another tree", func(f *fakeRegistry) {
			other := story(newFake(t, 3, 1))
			other.decide(other.propose(9), "withdrawn", evidence.RegistryVotes{})
			f.receiptLie = other.receipt
		}, ReceiptDoesNotProve},
		{"the receipt is of another tree of the same length", func(f *fakeRegistry) { f.receiptLie = story(newFake(t, 3, 1)).receipt }, ReceiptDoesNotProve},
		{"there is no receipt", func(f *fakeRegistry) { f.receiptLie = func(int64) []byte { return nil } }, ReceiptDoesNotProve},
		{"the receipt of another entry is served", func(f *fakeRegistry) {
			honest := story(newFake(t, 3, 2))
			f.receiptLie = func(int64) []byte { return honest.receipt(4) }
		}, ReceiptDoesNotProve},
		{"an old checkpoint hides what the rows show", func(f *fakeRegistry) {
			f.checkpointLie = func() []byte { return f.sign(f.head(20)) }
		}, RowWithoutEntry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := story(newFake(t, 3, 2))
			tt.lie(f)
			requireFinding(t, f, tt.want)
		})
	}
}

func requireFinding(t *testing.T, f *fakeRegistry, want string) {
	t.Helper()
	report, err := look(t, f)
	wantRefusal(t, err, refusal.RegistryMismatch, "")
	if refusal.ExitCode(err) != 3 {
		t.Errorf("exit %d, want 3", refusal.ExitCode(err))
	}
	if report == nil {
		t.Fatal("no report")
	}
	name, words, _ := strings.Cut(want, ": ")
	for _, found := range report.Findings {
		if found.Name == name && strings.Contains(found.Detail, words) {
			return
		}
	}
	t.Errorf("findings %+v, want %s", report.Findings, want)
}

func TestARowThatChangesLaterIsFound(t *testing.T) {
	f := story(newFake(t, 3, 2))
	var h http.Handler = f
	m := watch(t, &h)
	if _, err := m.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.rowsLie = func(r []map[string]any) []map[string]any {
		return edit(r, 1, "metrics", json.RawMessage(`{"accuracy":1}`))
	}
	report, err := m.Once(context.Background())
	wantRefusal(t, err, refusal.RegistryMismatch, "accuracy")
	if report == nil || report.Findings[0].Name != RowDiffers {
		t.Errorf("%+v", report)
	}
}

func TestABlobThatIsNotTheOneIsRefused(t *testing.T) {
	f := story(newFake(t, 3, 2))
	f.blobLie = func(b []byte) []byte { return append(slices.Clone(b), ' ') }
	_, err := look(t, f)
	wantRefusal(t, err, refusal.DigestMismatch, "blob")
}

// What the operator signs is signed, and must still follow the rules.
func TestEveryLieThatIsSignedIsFound(t *testing.T) {
	once := func(done *bool) bool { was := *done; *done = true; return !was }
	for _, tt := range []struct {
		name string
		lie  func(f *fakeRegistry)
		want string
	}{
		{"a judge is swapped", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) {
				for _, other := range []string{"ada@example.com", "bo@example.com", "cy@example.com", "di@example.com", "ed@example.com"} {
					if !slices.Contains(d.Judges, other) {
						d.Judges[2] = other
						return
					}
				}
			}
		}, DrawDiffers + ": the rule draws"},
		{"the root is chosen", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) { d.Root = f.head(3).Root.String() }
		}, DrawDiffers + ": it says that the root of"},
		{"the root is older than the proposal", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) { d.Size, d.Root = 13, f.head(13).Root.String() }
		}, DrawDiffers + ": it is drawn from the root of 13"},
		{"fewer could be drawn", func(f *fakeRegistry) { f.drawLie = func(d *evidence.RegistryDrawn) { d.Of = 3 } }, DrawDiffers + ": could have been drawn"},
		{"judges are drawn again", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) { f.drawLie = nil; f.add(d); d.Judges = slices.Clone(d.Judges) }
		}, DrawDiffers + ": a second time"},
		{"judges are drawn for other content", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) { d.Content = digest.IDOf([]byte("x")) }
		}, DrawDiffers + ": the proposal has"},
		{"a vote is made up", func(f *fakeRegistry) {
			f.voteLie = func(j *evidence.RegistryJudged) {
				j.Signature = seal.EncodeMultibase(ed25519.Sign(f.agentKeys["proposer"].Ed25519(), []byte("x")))
			}
		}, VoteNotValid + ": does not verify"},
		{"a vote is turned round", func(f *fakeRegistry) {
			f.voteLie = func(j *evidence.RegistryJudged) { j.Verdict = "accept" }
		}, VoteNotValid + ": does not verify"},
		{"a person votes who was not drawn", func(f *fakeRegistry) {
			f.voteLie = func(j *evidence.RegistryJudged) { j.Person = "zoe@example.com" }
		}, VoteNotValid + ": was not drawn"},
		{"a vote comes from another person's agent", func(f *fakeRegistry) {
			f.voteLie = func(j *evidence.RegistryJudged) { j.Agent = "proposer" }
		}, VoteNotValid + ": does not hold it"},
		{"a judge votes twice", func(f *fakeRegistry) {
			done := false
			f.voteLie = func(j *evidence.RegistryJudged) {
				if once(&done) {
					f.add(j)
				}
			}
		}, VoteNotValid + ": a second time"},
		{"votes are counted wrongly", func(f *fakeRegistry) {
			f.decisionLie = func(d *evidence.RegistryDecided) { d.Votes.For++ }
		}, DecisionDiffers + ": the votes are"},
		{"a rejected proposal is published", func(f *fakeRegistry) {
			f.decisionLie = func(d *evidence.RegistryDecided) {
				if d.Outcome == "rejected" {
					d.Outcome, d.Chain = "published", &evidence.RegistryChain{HMAC: "00", KeyID: "k", Signature: "z"}
				}
			}
		}, DecisionDiffers + ": so it is rejected"},
		{"a published proposal is rejected", func(f *fakeRegistry) {
			f.decisionLie = func(d *evidence.RegistryDecided) {
				if d.Outcome == "published" {
					d.Outcome, d.Chain = "rejected", nil
				}
			}
		}, DecisionDiffers + ": so it is published"},
		{"it lapses too early", func(f *fakeRegistry) {
			p := f.propose(50)
			f.decide(p, "lapsed", evidence.RegistryVotes{})
		}, DecisionDiffers + ": no judge was drawn"},
		{"it is published without judges", func(f *fakeRegistry) { f.decide(f.propose(50), "published", evidence.RegistryVotes{}) }, DecisionDiffers + ": no judge was drawn"},
		{"it is rejected without judges", func(f *fakeRegistry) { f.decide(f.propose(50), "rejected", evidence.RegistryVotes{}) }, DecisionDiffers + ": no judge was drawn"},
		{"something is proposed before there are settings", func(f *fakeRegistry) {
			*f = *emptyFake(f.TB)
			f.propose(50)
			f.people(3, 2)
		}, EntryOutOfPlace + ": before the registry has settings"},
		{"an unknown agent proposes", func(f *fakeRegistry) { f.proposer = "unknown" }, EntryOutOfPlace + ": is not registered"},
		{"the draw is a later proposal's", func(f *fakeRegistry) {
			p := f.propose(50)
			again := *p
			again.Proposal, again.Path = "p51", "/artifacts/evals/p51"
			f.add(&again)
			f.draw(&again, 3)
		}, DrawDiffers + ": was proposed before"},
		{"the root is of the future", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) { d.Size++ }
		}, DrawDiffers + ": it is drawn from the root of"},
		{"a later root is taken", func(f *fakeRegistry) {
			p := f.propose(50)
			f.add(&evidence.Note{})
			f.draw(p, 3)
		}, DrawDiffers + ": the first under which a judge is eligible has"},
		{"the rule of the draw is taken back", func(f *fakeRegistry) {
			f.add(&evidence.RegistryConfigured{DeadlineHours: 72, DID: "did:web:registry.example", Judges: 3, Quorum: 2})
		}, EntryOutOfPlace + ": go back from draw rule 2 to 0"},
		{"a judge who was removed votes", func(f *fakeRegistry) {
			p := f.propose(50)
			f.draw(p, 3)
			who := f.drawn[p.Content].Judges[0]
			agent, _, _ := strings.Cut(who, "@")
			f.add(&evidence.RegistryJudge{Admitted: false, Agents: []string{agent}, Person: who})
			f.vote(p, who, "accept")
			f.add(&evidence.RegistryJudge{Admitted: true, Agents: []string{agent}, Person: who})
		}, VoteNotValid + ": at this entry is not admitted"},
		{"witnesses are not waited for", func(f *fakeRegistry) {
			f.add(&evidence.RegistryConfigured{DeadlineHours: 72, DID: "did:web:registry.example", DrawRule: 2, Judges: 3, Quorum: 2, Witnesses: []string{"w+1+k"}})
		}, DrawDiffers + ": did not wait"},
		{"a judge is admitted for the draw", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) {
				f.drawLie = nil
				f.add(&evidence.RegistryJudge{Admitted: true, Agents: []string{"ed"}, Person: "friend@example.com"})
				d.Of, d.Judges[0] = 6, "friend@example.com"
			}
		}, DrawDiffers + ": could have been drawn; there were 5"},
		{"the proposer judges", func(f *fakeRegistry) {
			f.add(&evidence.RegistryJudge{Admitted: true, Agents: []string{"proposer"}, Person: "friend@example.com"})
			f.drawLie = func(d *evidence.RegistryDrawn) { f.drawLie = nil; d.Of, d.Judges[0] = 6, "friend@example.com" }
		}, DrawDiffers + ": could have been drawn; there were 5"},
		{"a judge who left is drawn", func(f *fakeRegistry) {
			f.add(&evidence.RegistryJudge{Admitted: false, Agents: []string{"ada"}, Person: "ada@example.com"})
		}, DrawDiffers + ": could have been drawn; there were 4"},
		{"a vote is for other content", func(f *fakeRegistry) {
			f.voteLie = func(j *evidence.RegistryJudged) { j.Content = digest.IDOf([]byte("x")) }
		}, VoteNotValid + ": of that content"},
		{"a vote comes before the draw", func(f *fakeRegistry) { f.vote(f.propose(50), "ada@example.com", "accept") }, VoteNotValid + ": before judges were drawn"},
		{"a vote comes after the decision", func(f *fakeRegistry) {
			p := f.propose(50)
			f.draw(p, 3)
			f.decide(p, "withdrawn", evidence.RegistryVotes{Missing: 3})
			f.vote(p, f.drawn[p.Content].Judges[0], "accept")
		}, VoteNotValid + ": after the decision"},
		{"it is rejected while it could be published", func(f *fakeRegistry) {
			p := f.propose(50)
			f.draw(p, 3)
			f.vote(p, f.drawn[p.Content].Judges[0], "reject")
			f.decide(p, "rejected", evidence.RegistryVotes{Against: 1, Missing: 2})
		}, DecisionDiffers + ": so it is open"},
		{"it lapses with enough votes", func(f *fakeRegistry) {
			p := f.propose(50)
			f.draw(p, 3)
			f.vote(p, f.drawn[p.Content].Judges[0], "accept")
			f.vote(p, f.drawn[p.Content].Judges[1], "accept")
			f.now = f.now.AddDate(0, 1, 0)
			f.decide(p, "lapsed", evidence.RegistryVotes{For: 2, Missing: 1})
		}, DecisionDiffers + ": so it is published"},
		{"it lapses before the deadline", func(f *fakeRegistry) {
			p := f.propose(50)
			f.draw(p, 3)
			f.decide(p, "lapsed", evidence.RegistryVotes{Missing: 3})
		}, DecisionDiffers + ": so it is open"},
		{"an earlier proposal is hidden", func(f *fakeRegistry) {
			again := *f.propose(50)
			again.Proposal, again.Content = "p51", digest.IDOf([]byte("other"))
			f.add(&again)
		}, EarlierDiffers + ": there were 1"},
		{"an earlier proposal of the same runner is hidden", func(f *fakeRegistry) {
			p := *f.propose(50)
			p.Proposal, p.Runner, p.Earlier, p.Agent = "p51", "did:web:runner.example", 0, "ada"
			f.add(&p)
			p.Proposal, p.Agent = "p52", "bo"
			f.add(&p)
		}, EarlierDiffers + ": there were 1"},
		{"witnesses are said to have been waited for", func(f *fakeRegistry) {
			f.drawLie = func(d *evidence.RegistryDrawn) { d.Witnessed = true }
		}, DrawDiffers + ": names no checkpoint"},
		{"the checkpoint of a draw is not cosigned", func(f *fakeRegistry) {
			f.add(&evidence.RegistryConfigured{DeadlineHours: 72, DID: "did:web:registry.example", DrawRule: 2, Judges: 3, Quorum: 2,
				Witnesses: []string{seal.CosignatureVKey(publicOf(testKey(t, 88)), "witness.example/w1")}})
			f.drawLie = func(d *evidence.RegistryDrawn) { f.cosign(d, testKey(t, 89), d.Size) }
		}, DrawDiffers + ": its cosigned checkpoint"},
		{"the checkpoint of a draw is another", func(f *fakeRegistry) {
			f.add(&evidence.RegistryConfigured{DeadlineHours: 72, DID: "did:web:registry.example", DrawRule: 2, Judges: 3, Quorum: 2,
				Witnesses: []string{seal.CosignatureVKey(publicOf(testKey(t, 88)), "witness.example/w1")}})
			f.drawLie = func(d *evidence.RegistryDrawn) { f.cosign(d, testKey(t, 88), d.Size-1) }
		}, DrawDiffers + ": the draw is of"},
		{"it is decided twice", func(f *fakeRegistry) {
			p := f.propose(50)
			f.decide(p, "withdrawn", evidence.RegistryVotes{})
			f.decide(p, "withdrawn", evidence.RegistryVotes{})
		}, DecisionDiffers + ": a second time"},
		{"something is decided that was never proposed", func(f *fakeRegistry) {
			f.add(&evidence.RegistryDecided{Outcome: "withdrawn", Proposal: "p99"})
		}, DecisionDiffers + ": not there"},
		{"an agent is registered twice", func(f *fakeRegistry) {
			f.add(&evidence.RegistryAgent{Agent: "ada", KeyHash: digest.IDOf(nil), PublicKey: seal.DIDKey(publicOf(testKey(t, 77)))})
		}, EntryOutOfPlace + ": a second time"},
		{"a proposal id is used twice", func(f *fakeRegistry) { f.propose(50); f.propose(50) }, EntryOutOfPlace + ": a second time"},
		{"an entry is written by hand", func(f *fakeRegistry) {
			text, err := canon.Marshal(&evidence.RegistryTakenDown{Blob: digest.ContentOf(nil), ReasonCode: "x"})
			if err != nil {
				t.Fatal(err)
			}
			f.addRaw(evidence.AppendEntry(nil, text, evidence.RegistryTakenDownKind, true, evidence.At(f.now)))
		}, EntryOutOfPlace + ": by hand"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, 3, 2)
			tt.lie(f)
			requireFinding(t, story(f), tt.want)
		})
	}
}

func TestHistoryThatIsRewrittenIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		lie  func(f *fakeRegistry) *fakeRegistry
		want refusal.Name
	}{
		{"a fork of the same length", func(f *fakeRegistry) *fakeRegistry {
			other := newFake(t, 3, 1)
			return story(other)
		}, refusal.HistoryForked},
		{"a longer fork", func(f *fakeRegistry) *fakeRegistry {
			other := story(newFake(t, 3, 1))
			other.propose(60)
			return other
		}, refusal.HistoryForked},
		{"a shorter fork", func(f *fakeRegistry) *fakeRegistry { return newFake(t, 3, 1) }, refusal.HistoryForked},
		{"an old checkpoint", func(f *fakeRegistry) *fakeRegistry {
			f.checkpointLie = func() []byte { return f.sign(f.head(20)) }
			return f
		}, refusal.HistoryRolledBack},
		{"everything since is gone", func(f *fakeRegistry) *fakeRegistry { return newFake(t, 3, 2) }, refusal.HistoryRolledBack},
		{"another key signs", func(f *fakeRegistry) *fakeRegistry {
			f.propose(60)
			f.checkpointLie = func() []byte { return signWith(t, testKey(t, 99), f.head(f.tree.Size())) }
			return f
		}, refusal.CheckpointInvalid},
		{"another key signs the same", func(f *fakeRegistry) *fakeRegistry {
			f.checkpointLie = func() []byte { return signWith(t, testKey(t, 99), f.head(f.tree.Size())) }
			return f
		}, refusal.CheckpointInvalid},
		{"new entries are not those that were signed", func(f *fakeRegistry) *fakeRegistry {
			f.propose(60)
			f.entryLie = func(i int64, e []byte) []byte { return []byte(strings.ReplaceAll(string(e), `"p60"`, `"p61"`)) }
			return f
		}, refusal.ChainTamperDetected},
		{"new entries are not entries", func(f *fakeRegistry) *fakeRegistry {
			f.propose(60)
			f.entryLie = func(i int64, e []byte) []byte { return []byte(`{"kind":"hello"}`) }
			return f
		}, refusal.EntryInvalid},
		{"new entries are not served", func(f *fakeRegistry) *fakeRegistry {
			f.propose(60)
			f.entryLie = func(int64, []byte) []byte { return nil }
			return f
		}, refusal.EntryInvalid},
		{"time goes back", func(f *fakeRegistry) *fakeRegistry {
			f.now = f.now.AddDate(-1, 0, 0)
			f.propose(60)
			return f
		}, refusal.EntryInvalid},
		{"the checkpoint is of another ledger", func(f *fakeRegistry) *fakeRegistry {
			f.checkpointLie = func() []byte {
				head := f.head(f.tree.Size())
				head.Origin = "other.example/log"
				return signWith(t, f.key, head)
			}
			return f
		}, refusal.CheckpointInvalid},
		{"the checkpoint is not one", func(f *fakeRegistry) *fakeRegistry {
			f.checkpointLie = func() []byte { return []byte("hello") }
			return f
		}, refusal.CheckpointInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := story(newFake(t, 3, 2))
			var h http.Handler = f
			m := watch(t, &h)
			if _, err := m.Once(context.Background()); err != nil {
				t.Fatal(err)
			}
			h = tt.lie(f)
			_, err := m.Once(context.Background())
			wantRefusal(t, err, tt.want, "")
			if tt.want == refusal.HistoryForked || tt.want == refusal.HistoryRolledBack {
				requireProof(t, m)
			}
			// It keeps saying so.
			_, err = m.Once(context.Background())
			wantRefusal(t, err, tt.want, "")
		})
	}
}

// requireProof wants both signed checkpoints in a file.
func requireProof(t *testing.T, m *Monitor) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.Dir, "alarms", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("alarms %q %v, want one", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var a alarmFile
	if err := canon.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	policy := ledger.Policy{Logs: m.Keys}
	for _, note := range []string{a.Known, a.Offered} {
		if _, err := ledger.VerifyCheckpoint([]byte(note), policy); err != nil {
			t.Errorf("a saved checkpoint does not verify: %v", err)
		}
	}
}

func TestAWrongKeyAtTheFirstLookIsRefused(t *testing.T) {
	var h http.Handler = story(newFake(t, 3, 2))
	m := watch(t, &h)
	m.Keys = []ledger.LogKey{{Origin: fakeOrigin, Key: publicOf(testKey(t, 99))}}
	_, err := m.Once(context.Background())
	wantRefusal(t, err, refusal.CheckpointInvalid, "")
	// And nothing was remembered of it.
	m.Keys = []ledger.LogKey{{Origin: fakeOrigin, Key: publicOf(testKey(t, 1))}}
	if _, err := m.Once(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestAChangedMemoryIsRefused(t *testing.T) {
	var h http.Handler = story(newFake(t, 3, 2))
	m := watch(t, &h)
	if _, err := m.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.Dir, "entries", "0000000000000000.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), `"p1"`, `"p2"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	m.memory = nil
	_, err = m.Once(context.Background())
	wantRefusal(t, err, refusal.MemoryDamaged, "")
}

func TestAListThatDoesNotEndIsRefused(t *testing.T) {
	f := story(newFake(t, 3, 2))
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == client.ListPath {
			w.Header().Set("Link", `<https://registry.example/other?after=x>; rel="next", </first>; rel="first"`)
			w.Write([]byte("[]"))
			return
		}
		f.ServeHTTP(w, r)
	})
	_, err := watch(t, &h).Once(context.Background())
	wantRefusal(t, err, refusal.Malformed, "does not end")
}

func TestAManifestThatWasTakenDownIsNotAskedFor(t *testing.T) {
	f := story(newFake(t, 3, 2))
	for name := range f.blobs {
		blob, err := digest.ParseContent(name)
		if err != nil {
			t.Fatal(err)
		}
		f.add(&evidence.RegistryTakenDown{Blob: blob, ReasonCode: "privacy"})
	}
	f.blobs = nil
	if _, err := look(t, f); err != nil {
		t.Error(err)
	}
}

func TestAnEntryThatIsTooLongForItsReceiptIsReadBesideIt(t *testing.T) {
	f := newFake(t, 3, 2)
	f.decisionLie = func(d *evidence.RegistryDecided) {
		if d.Chain != nil {
			d.Chain.HMAC = strings.Repeat("0", 2*ledger.MaxReceiptBytes)
		}
	}
	if report, err := look(t, story(f)); err != nil || report.Receipts != 4 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestDrawsThatWaitedForWitnessesAreVerified(t *testing.T) {
	f := newFake(t, 3, 2)
	f.add(&evidence.RegistryConfigured{DeadlineHours: 72, DID: "did:web:registry.example", DrawRule: 2, Judges: 3, Quorum: 2,
		Witnesses: []string{seal.CosignatureVKey(publicOf(testKey(t, 88)), "witness.example/w1")}})
	f.drawLie = func(d *evidence.RegistryDrawn) { f.cosign(d, testKey(t, 88), d.Size) }
	if report, err := look(t, story(f)); err != nil || report.Draws != 4 {
		t.Errorf("%+v %v", report, err)
	}
}

// A draw under the first rule took whichever root the operator sealed next.
func TestDrawsUnderTheFirstRuleMayTakeALaterRoot(t *testing.T) {
	f := emptyFake(t)
	f.people(3, 2)
	f.entries, f.positions, f.chain, f.tree = f.entries[:1], f.positions[:1], ledger.NewChain(fakeOrigin), &ledger.Tree{}
	opened := f.entries[0]
	f.entries, f.positions = nil, nil
	f.addRaw(opened)
	f.add(&evidence.RegistryConfigured{DeadlineHours: 72, DID: "did:web:registry.example", Judges: 3, Quorum: 2})
	for _, agent := range []string{"proposer", "ada", "bo", "cy", "di", "ed"} {
		f.add(&evidence.RegistryAgent{Agent: agent, KeyHash: digest.IDOf([]byte(agent)), PublicKey: seal.DIDKey(publicOf(f.agentKeys[agent]))})
		if agent != "proposer" {
			f.add(&evidence.RegistryJudge{Admitted: true, Agents: []string{agent}, Person: agent + "@example.com"})
		}
	}
	p := f.propose(50)
	f.add(&evidence.Note{})
	f.draw(p, 3)
	if report, err := look(t, f); err != nil {
		t.Errorf("%+v %v", report, err)
	}
}

// No judge could be drawn at first: the root is that of the first admission after it.
func TestADrawThatWaitedForAJudgeTakesTheFirstAdmission(t *testing.T) {
	f := newFake(t, 3, 2)
	for _, agent := range []string{"ada", "bo", "cy", "di", "ed"} {
		f.add(&evidence.RegistryJudge{Admitted: false, Agents: []string{agent}, Person: agent + "@example.com"})
	}
	p := f.propose(50)
	f.add(&evidence.RegistryJudge{Admitted: true, Agents: []string{"ada"}, Person: "ada@example.com"})
	size, root := f.chain.Size(), f.chain.Root()
	f.add(&evidence.RegistryJudge{Admitted: true, Agents: []string{"bo"}, Person: "bo@example.com"})
	f.add(&evidence.RegistryDrawn{Content: p.Content, Judges: []string{"ada@example.com"}, Of: 1, Proposal: p.Proposal, Root: root.String(), Size: size})
	if report, err := look(t, f); err != nil {
		t.Errorf("%+v %v", report, err)
	}
}

func TestAMemoryOfAnotherRegistryIsRefused(t *testing.T) {
	f := story(newFake(t, 3, 2))
	var h http.Handler = f
	m := watch(t, &h)
	if _, err := m.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	other := begunAgain(m)
	other.Keys = []ledger.LogKey{{Origin: fakeOrigin, Key: publicOf(testKey(t, 99))}}
	_, err := other.Once(context.Background())
	wantRefusal(t, err, refusal.CheckpointInvalid, "is not one that may sign")
	moved := watch(t, &h)
	moved.Dir = m.Dir
	_, err = moved.Once(context.Background())
	wantRefusal(t, err, refusal.Usage, "remembers")
}

func TestALedgerIsOpenedOnceUnderItsOwnName(t *testing.T) {
	f := newFake(t, 3, 2)
	f.add(&evidence.Opened{Origin: fakeOrigin, Signers: "x"})
	_, err := look(t, f)
	wantRefusal(t, err, refusal.EntryInvalid, "opened once")
}
