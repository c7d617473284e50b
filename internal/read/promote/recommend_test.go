package promote

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// at is the registration with another present tier.
func at(tier bench.Tier) string {
	return edited(registration, "current_tier: bronze", "current_tier: "+string(tier))
}

// lenient asks little of silver and gold, so that one failed case of twelve
// is no reason to stay.
func lenient(tier bench.Tier) string {
	return edited(at(tier), "silver: {lower_bound_95: 0.75, calibrated: true}", "silver: {lower_bound_95: 0.5, calibrated: true}\n  gold: {lower_bound_95: 0.5, calibrated: true}",
		"silver: 12", "silver: 5, gold: 5")
}

// judging lets the scores of one judge count.
var (
	pinnedJudge = digest.ContentOf([]byte("judge.yaml"))
	judging     = edited(registration, "judged_scores_count: false", "judged_scores_count: true\njudge_digest: "+pinnedJudge.String())
)

func judgedByModel(_ int, s *evidence.CaseScored) { s.JudgedByModel = true }

func failFirst(i int, s *evidence.CaseScored) {
	if i == 0 {
		fails(s)
	}
}

func TestWhatIsRecommended(t *testing.T) {
	incident := func(k *book, id string) {
		k.add(evidence.CasePendingKind, &evidence.CasePending{Class: class, CaseID: id, Source: "incident 7", Digest: digest.ContentOf([]byte(id))})
	}
	const missed = "regression: production incidents that the bench missed: outage"
	for _, tt := range []struct {
		name         string
		registration string
		write        func(k *book)
		want         bench.Tier
		regressions  []string
	}{
		{"the highest tier that is met", lenient(bench.Bronze), honest, bench.Gold, nil},
		{"the same from another tier", lenient(bench.Silver), honest, bench.Gold, nil},
		{"an agent that was mended: its failed attempts were of another version", registration, func(k *book) {
			k.runs(run{score: failFirst})
			k.reproduce(k.runs(run{version: "mended"}), "oscar", nil)
		}, bench.Silver, nil},
		{"an attempt that was interrupted and finished", registration, func(k *book) {
			id := k.runs(run{open: true})
			k.finish(id)
			k.reproduce(id, "oscar", nil)
		}, bench.Silver, nil},
		{"a runner who checks his own work does no harm", registration, func(k *book) {
			id := k.runs(run{})
			k.reproduce(id, "olga", nil)
			k.reproduce(id, "oscar", nil)
		}, bench.Silver, nil},
		{"a second runner's disagreement stands", registration, func(k *book) {
			id := k.runs(run{})
			k.reproduce(id, "oscar", func(r *evidence.AttemptReproduced) { r.Agrees, r.Divergence = false, "his disk was full" })
			k.reproduce(id, "oscar", nil)
		}, bench.Bronze, nil},
		{"the built-in agent needs no sandbox", registration, func(k *book) {
			k.reproduce(k.runs(run{register: rooted(nil), score: func(_ int, s *evidence.CaseScored) { s.AgentIsolation, s.Vantage = "", "inside" }}), "oscar", nil)
		}, bench.Silver, nil},
		{"a command on a machine's own programs is worth bronze", registration, func(k *book) {
			k.reproduce(k.runs(run{register: rooted(&evidence.Root{Kind: evidence.HostRoot, Digest: &agentImage})}), "oscar", nil)
		}, bench.Bronze, nil},
		{"one of which nothing is recorded too", registration, func(k *book) {
			k.reproduce(k.runs(run{register: rooted(nil)}), "oscar", nil)
		}, bench.Bronze, nil},
		{"and one whose record does not tell its isolation", registration, func(k *book) {
			k.reproduce(k.runs(run{register: rooted(nil), score: func(i int, s *evidence.CaseScored) {
				if i > 0 {
					s.AgentIsolation, s.Vantage = "", "inside"
				}
			}}), "oscar", nil)
		}, bench.Bronze, nil},
		{"an image without a digest is not one", registration, func(k *book) {
			k.reproduce(k.runs(run{register: rooted(&evidence.Root{Kind: evidence.HostRoot})}), "oscar", nil)
		}, bench.Bronze, nil},
		{"tests on a machine's own programs are worth bronze", registration, func(k *book) {
			k.reproduce(k.runs(run{register: func(r *evidence.AttemptRegistered) { r.Plan.TestRoot = &evidence.Root{Kind: evidence.HostRoot} }}), "oscar", nil)
		}, bench.Bronze, nil},
		{"worlds on a machine's own programs are worth bronze", registration, func(k *book) {
			k.reproduce(k.runs(run{register: func(r *evidence.AttemptRegistered) {
				r.Plan.WorldRoots = []evidence.Root{{Kind: evidence.ImageRoot, Digest: &agentImage}, {Kind: evidence.HostRoot}}
			}}), "oscar", nil)
		}, bench.Bronze, nil},
		{"worlds in images", registration, func(k *book) {
			k.reproduce(k.runs(run{register: func(r *evidence.AttemptRegistered) {
				r.Plan.WorldRoots = []evidence.Root{{Kind: evidence.ImageRoot, Digest: &agentImage}}
			}}), "oscar", nil)
		}, bench.Silver, nil},
		{"tests in an image", registration, func(k *book) {
			k.reproduce(k.runs(run{register: func(r *evidence.AttemptRegistered) {
				r.Plan.TestRoot = &evidence.Root{Kind: evidence.ImageRoot, Digest: &agentImage}
			}}), "oscar", nil)
		}, bench.Silver, nil},
		{"judged by the model that the registration pins", judging, func(k *book) {
			k.reproduce(k.runs(run{score: judgedByModel, register: func(r *evidence.AttemptRegistered) { r.Plan.JudgeDigest = &pinnedJudge }}), "oscar", nil)
		}, bench.Silver, nil},
		{"a weak attempt beside a good one is as if it were not there", registration, func(k *book) {
			k.runs(run{score: func(i int, s *evidence.CaseScored) { s.IsolationClass = "namespace"; failFirst(i, s) }})
			honest(k)
			k.runs(run{register: func(r *evidence.AttemptRegistered) { r.Plan.Filtered = true }, open: true, skip: only(3)})
		}, bench.Silver, nil},
		{"no evidence carries no tier", at(bench.Silver), func(*book) {}, None, nil},
		{"a regression takes one tier off what would be recommended", lenient(bench.Silver), func(k *book) {
			k.runs(run{})
			k.reproduce(k.runs(run{version: "2", score: failFirst}), "oscar", nil)
		}, bench.Silver, []string{"regression: 1 case was solved before and is not now: case-01"}},
		{"a regression without enough evidence for silver", at(bench.Silver), func(k *book) {
			k.runs(run{})
			k.reproduce(k.runs(run{version: "2", score: failFirst}), "oscar", nil)
		}, None, []string{"regression: 1 case was solved before and is not now: case-01"}},
		{"a regression takes one tier off from whichever tier", lenient(bench.Bronze), func(k *book) {
			k.runs(run{})
			k.reproduce(k.runs(run{version: "2", score: failFirst}), "oscar", nil)
		}, bench.Silver, []string{"regression: 1 case was solved before and is not now: case-01"}},
		{"what was solved before the window counts as solved before", lenient(bench.Silver), func(k *book) {
			k.clock = now.Add(-39 * day)
			k.runs(run{})
			k.clock = now.Add(-5 * day)
			k.reproduce(k.runs(run{version: "2", score: failFirst}), "oscar", nil)
		}, bench.Silver, []string{"regression: 1 case was solved before and is not now: case-01"}},
		{"what another agent solved is not a regression", lenient(bench.Silver), func(k *book) {
			k.runs(run{target: "rival"})
			k.reproduce(k.runs(run{score: failFirst}), "oscar", nil)
		}, bench.Gold, nil},
		{"an incident takes one tier off", lenient(bench.Silver), func(k *book) { honest(k); incident(k, "outage") }, bench.Silver, []string{missed}},
		{"an incident that became a case which is solved", lenient(bench.Silver), func(k *book) { incident(k, caseID(2)); honest(k) }, bench.Gold, nil},
		{"an incident that became a case which is not solved", lenient(bench.Silver), func(k *book) {
			incident(k, caseID(0))
			k.reproduce(k.runs(run{score: failFirst}), "oscar", nil)
		}, bench.Silver, []string{"regression: production incidents that the bench missed: case-01"}},
		{"an incident of another class", lenient(bench.Silver), func(k *book) {
			honest(k)
			k.add(evidence.CasePendingKind, &evidence.CasePending{Class: "other", CaseID: "outage", Source: "s", Digest: digest.Content{}})
		}, bench.Gold, nil},
		{"an incident before the window", lenient(bench.Silver), func(k *book) {
			k.clock = now.Add(-39 * day)
			incident(k, "outage")
			k.clock = now.Add(-5 * day)
			honest(k)
		}, bench.Gold, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := standard()
			c.registration = tt.registration
			k := newBook(t, c.verified(t))
			tt.write(k)
			if strings.Contains(tt.registration, "gold: {") {
				k.relive("oscar", nil)
			}
			rec := k.recommend()
			if rec.RecommendedTier != string(tt.want) {
				t.Errorf("recommended %s, want %s: %q", rec.RecommendedTier, tt.want, rec.Rationale)
			}
			if !slices.Equal(rec.regressionLines(), tt.regressions) {
				t.Errorf("regressions %q, want %q", rec.regressionLines(), tt.regressions)
			}
			if len(rec.Unmet) == 0 && rec.Rationale[0] != "all conditions met" {
				t.Errorf("rationale %q", rec.Rationale)
			}
		})
	}
}

// What tier a class was given says nothing about what its agent can do: the
// evidence alone decides, from none to the highest, and the tier is only shown.
func TestThePresentTierIsNotAnArgument(t *testing.T) {
	all := func(_ int, s *evidence.CaseScored) { fails(s) }
	easy := edited(registration, "silver: {lower_bound_95: 0.75, calibrated: true}",
		"silver: {lower_bound_95: 0.5, calibrated: true}\n  gold: {lower_bound_95: 0.5, calibrated: true}\n  platinum: {lower_bound_95: 0.5, calibrated: true}",
		"silver: 12", "silver: 5, gold: 5, platinum: 5")
	for _, tt := range []struct {
		name, registration string
		write              func(k *book)
		want               bench.Tier
	}{
		{"every case failed", registration, func(k *book) { k.reproduce(k.runs(run{score: all}), "oscar", nil) }, None},
		{"nothing was run", registration, func(*book) {}, None},
		{"everything passed and no operator ran it again", registration, func(k *book) { k.runs(run{}) }, bench.Bronze},
		{"everything passed and was run again", registration, honest, bench.Silver},
		{"what carries every tier", easy, honest, bench.Platinum},
		{"only a filter passed", easy, func(k *book) {
			k.reproduce(k.runs(run{register: func(r *evidence.AttemptRegistered) { r.Plan.Filtered = true }}), "oscar", nil)
		}, None},
		{"a second attempt was never finished", easy, func(k *book) { honest(k); k.runs(run{open: true}) }, None},
		{"a block code", easy, func(k *book) {
			k.reproduce(k.runs(run{score: func(i int, s *evidence.CaseScored) {
				if failFirst(i, s); i == 0 {
					s.Score.FailureModes = []string{"leaked_secret"}
				}
			}}), "oscar", nil)
		}, None},
	} {
		for _, tier := range bench.Tiers() {
			t.Run(tt.name+", at "+string(tier), func(t *testing.T) {
				t.Parallel()
				c := standard()
				c.registration = edited(tt.registration, "current_tier: bronze", "current_tier: "+string(tier))
				k := newBook(t, c.verified(t))
				tt.write(k)
				if tt.want == bench.Platinum {
					k.relive("oscar", nil)
				}
				rec := k.recommend()
				if rec.RecommendedTier != string(tt.want) || rec.CurrentTier != string(tier) || len(rec.Tiers) != 4 || rec.Met != (tt.want == bench.Platinum) {
					t.Errorf("recommended %s, want %s: %q", rec.RecommendedTier, tt.want, rec.Rationale)
				}
				above := slices.Contains(rec.Notes, fmt.Sprintf("the present tier, %s, is above what the evidence carries", tier))
				if above != (rank(tt.want) < rank(tier)) {
					t.Errorf("notes %q", rec.Notes)
				}
			})
		}
	}
}

// The limits of time are part of the promise: exactly 30 days and exactly 90
// days are within them.
func TestTheLastMomentOfTheWindowCounts(t *testing.T) {
	c := standard()
	c.validated = now.Add(-MaxCaseAge)
	k := newBook(t, c.verified(t))
	k.clock = now.Add(-Window(DefaultWindowDays))
	honest(k)
	if rec := k.recommend(); rec.RecommendedTier != "silver" {
		t.Errorf("unmet %q", rec.Unmet)
	}
}

// A reader of the recommendation can look up every entry that decided it.
func TestEvidenceNamesTheEntriesThatDecided(t *testing.T) {
	k := newBook(t, standard().verified(t))
	k.runs(run{version: "old"}) // entries 1 to 26
	honest(k)                   // 27, cases 28 to 51, end 52, second run 53
	rec := k.recommend()
	var want []int64
	want = append(want, 27)
	for i := range int64(12) {
		want = append(want, 29+2*i)
	}
	want = append(want, 52, 53)
	if !slices.Equal(rec.Evidence, want) {
		t.Errorf("evidence %v, want %v", rec.Evidence, want)
	}
	if !slices.Equal(rec.Attempts, []string{"fix.agent.2"}) || rec.PassedCount != 12 || rec.Cases != 12 {
		t.Errorf("%+v", rec)
	}
}

func TestTheSameHistoryGivesTheSameBytes(t *testing.T) {
	var first []byte
	for range 2 {
		k := newBook(t, standard().verified(t))
		k.runs(run{version: "x", open: true})
		k.runs(run{score: failFirst})
		data, err := canon.Marshal(k.recommend().Recommendation)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		} else if string(first) != string(data) {
			t.Errorf("%s\n%s", first, data)
		}
	}
}

func TestRecommendNeedsEverything(t *testing.T) {
	v := standard().verified(t)
	for name, in := range map[string]Input{
		"nothing":    {},
		"no history": {Bench: v, Now: now, Evidence: evidenceThat(func(*history.Case) error { return nil })},
	} {
		if rec, err := Recommend(in); err == nil {
			t.Errorf("%s: recommended %v", name, rec)
		}
	}
}

func TestApplyRefusesWhateverItIsAsked(t *testing.T) {
	for _, tier := range append(bench.Tiers(), "", "diamond") {
		err := Apply("fix", tier, []string{"alice", "bob"})
		if !refusal.Is(err, refusal.PromotionMustBeHumanAuthorized) || refusal.ExitCode(err) != refusal.ExitFailed {
			t.Fatalf("%s: %v", tier, err)
		}
		hint := refusal.Of(err).Hint
		for _, word := range []string{"bench/fix/registration.yaml", "human", "pull request", "CODEOWNERS", "alice, bob", "security"} {
			if !strings.Contains(hint, word) {
				t.Errorf("the hint does not say %q: %s", word, hint)
			}
		}
	}
}

// Promote has nothing to write or run with: it imports no package that opens a
// file, a socket or a process. Package dossier does; of it promote names two values
// that were verified, and never asks one for the workspace that it is from.
func TestPromoteCannotWriteOrRun(t *testing.T) {
	allowed := []string{"cmp", "errors", "fmt", "maps", "path", "slices", "strings", "time", "tallystick/internal/record/format",
		"tallystick/internal/run/bench", "tallystick/internal/record/digest", "tallystick/internal/record/evidence", "tallystick/internal/run/grade",
		"tallystick/internal/record/refusal", "tallystick/internal/read/dossier", "tallystick/internal/read/history", "tallystick/internal/read/scorecard", "tallystick/internal/record/seal", "tallystick/internal/run/vantage"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), source, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			seen++
			if p, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, p) {
				t.Errorf("%s imports %s: a recommendation reads verified values and nothing else", f.Name(), p)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := sel.X.(*ast.Ident)
			name := sel.Sel.Name
			if of != nil && of.Name == "dossier" && name != "Whole" && name != "CosignedAnchor" || name == "Reading" || name == "Dossier" {
				t.Errorf("%s names %s of a dossier: a recommendation reads verified values and nothing else", f.Name(), name)
			}
			return true
		})
	}
	if seen < 10 {
		t.Errorf("looked at %d imports only", seen)
	}
}

// TestTheRationaleSaysWhatARootLacks, and what to do.
func TestTheRationaleSaysWhatARootLacks(t *testing.T) {
	k := newBook(t, standard().verified(t))
	host := &evidence.Root{Kind: evidence.HostRoot}
	id := k.runs(run{register: func(r *evidence.AttemptRegistered) { r.Plan.AgentRoot, r.Plan.TestRoot = host, host }})
	k.reproduce(id, "oscar", nil)
	rec := k.recommend()
	said := strings.Join(rec.Unmet, "\n")
	for _, want := range []string{"agent_root is host", "image by its digest in the target", "test_root is host", "test_image in tally.yaml", id} {
		if !strings.Contains(said, want) {
			t.Errorf("the rationale does not say %q: %s", want, said)
		}
	}
	if rec.RecommendedTier != string(bench.Bronze) || rec.NextTier != bench.Silver {
		t.Errorf("recommended %s, next %s", rec.RecommendedTier, rec.NextTier)
	}
}

// rooted registers an attempt with another root file system of the agent.
func rooted(root *evidence.Root) func(*evidence.AttemptRegistered) {
	return func(r *evidence.AttemptRegistered) { r.Plan.AgentRoot = root }
}
