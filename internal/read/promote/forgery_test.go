package promote

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// honest records what earns silver: a perfect attempt and another operator's
// second run of it.
func honest(k *book) {
	k.Helper()
	k.reproduce(k.runs(run{}), "oscar", nil)
}

func edited(from string, edits ...string) string {
	return strings.NewReplacer(edits...).Replace(from)
}

// pinned is a registration's line that names these runners.
func pinned(t *testing.T, names ...string) string {
	t.Helper()
	for i, name := range names {
		names[i] = `"` + keyOf(t, name).Public().String() + `"`
	}
	return "runner_keys: [" + strings.Join(names, ", ") + "]\n"
}

// TestWorkersCountByTheRegistration: if runner_keys names a machine, a case counts only
// if a machine that it names drove it.
func TestWorkersCountByTheRegistration(t *testing.T) {
	const stranger = "SHA256:stranger"
	machine, pins := keyOf(t, "machine").Fingerprint(), pinned(t, "olga", "oscar", "machine")
	record := func(key, version string) *evidence.Worker { return &evidence.Worker{Key: key, HarnessVersion: version} }
	for _, tt := range []struct {
		name, pins string
		started    string // the worker that case.started of the first case names
		scored     *evidence.Worker
		counts     bool
	}{
		{"a worker that is named", pins, machine, record(machine, "test"), true},
		{"no machine is named", "", stranger, record(stranger, "test"), true},
		{"a worker that is not named", pins, stranger, record(stranger, "test"), false},
		{"a worker that the record leaves out", pins, stranger, nil, false},
		{"a worker that the start leaves out", pins, "", record(stranger, "test"), false},
		{"another worker in the record", pins, stranger, record(machine, "test"), false},
		{"a worker's program that cannot be found", pins, machine, record(machine, "v1+modified"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := standard()
			c.registration += tt.pins
			k := newBook(t, c.verified(t))
			first := run{worker: func(i int) string {
				if i > 0 {
					return ""
				}
				return tt.started
			}, score: func(i int, s *evidence.CaseScored) {
				if i == 0 {
					s.Worker = tt.scored
				}
			}}
			k.reproduce(k.runs(first), "oscar", nil)
			unmet := k.recommend().KeepsFrom(bench.Silver)
			if want := []string{"lower_bound_95=0.583 < threshold[silver]=0.750", "passed_count=11 < minimum_cases[silver]=12"}; tt.counts != (len(unmet) == 0) || !tt.counts && !slices.Equal(unmet, want) {
				t.Errorf("unmet: %q", unmet)
			}
		})
	}
}

// Each row is a way to make a history look better than it is. None earns
// silver, and each is told for what it is.
func TestForgeriesDoNotRaiseTheRecommendation(t *testing.T) {
	const (
		oneFailed   = "lower_bound_95=0.583 < threshold[silver]=0.750"
		onePassLess = "passed_count=11 < minimum_cases[silver]=12"
		allFailed   = "lower_bound_95=0.000 < threshold[silver]=0.750"
		noPass      = "passed_count=0 < minimum_cases[silver]=12"
		nothing     = "no attempt in the window counts"
		notAgain    = "no attempt under review was reproduced by a different runner"
	)
	excluded := []string{nothing, allFailed, noPass, notAgain}
	oneLess := []string{oneFailed, onePassLess}
	failFirst := func(i int, s *evidence.CaseScored) {
		if i == 0 {
			fails(s)
		}
	}
	onFirst := func(edit func(*evidence.CaseScored)) func(int, *evidence.CaseScored) {
		return func(i int, s *evidence.CaseScored) {
			if i == 0 {
				edit(s)
			}
		}
	}
	// again runs an attempt and has it reproduced by another operator.
	again := func(k *book, r run) { k.reproduce(k.runs(r), "oscar", nil) }

	for _, tt := range []struct {
		name   string
		corpus func(*corpus)
		write  func(k *book)
		unmet  []string
		notes  []string // among the notes
	}{
		{
			name: "good attempts duplicated over a bad one",
			write: func(k *book) {
				again(k, run{score: failFirst})
				for range 5 {
					again(k, run{})
				}
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, failed: case-01"},
		},
		{
			name: "a right answer after what the sandbox refused",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.Policy.Violations = 4 })})
			},
			unmet: []string{oneFailed, onePassLess, "policy_violations=4, in case-01"},
			notes: []string{"1 case counts as failed, it violated its policy: case-01"},
		},
		{
			name: "a recording that only a normaliser of the target finds, in a plan that names none",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.Normalised = &evidence.NormalisedCount{Target: 1} })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, answered by a recording that only a normaliser of the target found: case-01"},
		},
		{
			name: "normalisers that only the target names",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) {
					r.Plan.Normalisers = []evidence.PlannedNormaliser{{From: evidence.FromClass, Name: "ids"}, {From: evidence.FromTarget, Name: "dates"}}
				}})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, with normalisers that only its target names: fix.agent.1"},
		},
		{
			name: "violations in an earlier attempt, and in a case that failed",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { fails(s); s.Policy.Violations = 1 })})
				again(k, run{})
			},
			unmet: []string{oneFailed, onePassLess, "policy_violations=1, in case-01"},
			notes: []string{"1 case counts as failed, failed: case-01"},
		},
		{
			name: "each case picked from another retry",
			write: func(k *book) {
				again(k, run{score: func(i int, s *evidence.CaseScored) {
					if i < 6 {
						fails(s)
					}
				}})
				again(k, run{score: func(i int, s *evidence.CaseScored) {
					if i >= 6 {
						fails(s)
					}
				}})
			},
			unmet: []string{allFailed, noPass, "regression: 6 cases were solved before and are not now: case-07, case-08, case-09, case-10, case-11 and 1 more"},
		},
		{
			name: "a case watched, killed and started again",
			write: func(k *book) {
				again(k, run{starts: func(i int) int {
					if i == 0 {
						return 3
					}
					return 1
				}})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, started more than once: case-01"},
		},
		{
			name: "an attempt abandoned half way, by another version of the agent",
			write: func(k *book) {
				k.runs(run{version: "2", open: true, skip: func(i int) bool { return i >= 11 }})
				honest(k)
			},
			unmet: []string{oneFailed, onePassLess, "attempt fix.agent.1 was registered at entry 1 and never finished"},
			notes: []string{"1 case counts as failed, not run: case-12"},
		},
		{
			name: "an attempt abandoned before its first case, by another target",
			write: func(k *book) {
				honest(k)
				k.runs(run{target: "other", open: true, skip: func(int) bool { return true }})
			},
			unmet: []string{allFailed, noPass, "attempt fix.other.2 was registered at entry 28 and never finished"},
		},
		{
			name: "an attempt abandoned half way, where nothing isolates",
			write: func(k *book) {
				honest(k)
				k.runs(run{version: "2", open: true, skip: only(0), score: func(_ int, s *evidence.CaseScored) { s.IsolationClass = "namespace" }})
			},
			unmet: []string{allFailed, noPass, "isolation_class mismatch in evidence window: gvisor=12, namespace=11", "attempt fix.agent.2 was registered at entry 28 and never finished"},
			notes: []string{"1 case counts as failed, not run: case-01", "11 cases count as failed, isolation_class is namespace: case-02, case-03, case-04, case-05, case-06 and 6 more"},
		},
		{
			name:  "a clock set ahead while the attempt ran",
			write: func(k *book) { k.clock = now.Add(time.Hour); honest(k) },
			unmet: []string{"the ledger's last entry is of 2026-06-01T13:00:00Z, after now (2026-06-01T12:00:00Z): a clock was set wrong"},
		},
		{
			name: "a clock set back so that a bad attempt looks old, with witnesses",
			write: func(k *book) {
				k.clock = now.Add(-36 * day)
				again(k, run{score: failFirst})
				k.clock = now.Add(-5 * day)
				again(k, run{})
				k.anchors = []dossier.CosignedAnchor{{Size: 1, Cosigned: now.Add(-39 * day)}, {Size: 1000, Cosigned: now.Add(-4 * day)}}
			},
			unmet: oneLess,
		},
		{
			name: "an old attempt under a clock set ahead, with witnesses",
			write: func(k *book) {
				honest(k)
				k.anchors = []dossier.CosignedAnchor{{Size: 1000, Cosigned: now.Add(-33 * day)}}
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, before the window: fix.agent.1"},
		},
		{
			name:  "an attempt before the window",
			write: func(k *book) { k.clock = now.Add(-31 * day); honest(k); k.clock = now },
			unmet: excluded,
			notes: []string{"1 attempt does not count, before the window: fix.agent.1"},
		},
		{
			name: "records of another bench digest",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Plan.BenchDigest = digest.IDOf([]byte("an easier bench")) }})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, of another bench digest: fix.agent.1"},
		},
		{
			name: "records under a softer registration",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Plan.RegistrationDigest = digest.ContentOf([]byte("soft")) }})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, of another registration: fix.agent.1"},
		},
		{
			name: "five perfect cases",
			corpus: func(c *corpus) {
				c.cases, c.registration = 5, edited(registration, "silver: 12", "silver: 5")
			},
			write: honest,
			unmet: []string{"lower_bound_95=0.566 < threshold[silver]=0.750"},
		},
		{
			name: "four perfect cases show nothing",
			corpus: func(c *corpus) {
				c.cases, c.registration = 4, edited(registration, "bronze: 5, silver: 12", "bronze: 4, silver: 4")
			},
			write: honest,
			unmet: []string{allFailed},
		},
		{
			name: "mixed isolation, some of it weak",
			write: func(k *book) {
				again(k, run{score: func(i int, s *evidence.CaseScored) {
					if i < 3 {
						s.IsolationClass = "namespace"
					}
				}})
			},
			unmet: []string{"lower_bound_95=0.417 < threshold[silver]=0.750", "passed_count=9 < minimum_cases[silver]=12", "isolation_class mismatch in evidence window: gvisor=9, namespace=3"},
			notes: []string{"3 cases count as failed, isolation_class is namespace: case-01, case-02, case-03"},
		},
		{
			name: "mixed isolation, all of it strong",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.IsolationClass = "microvm" })})
			},
			unmet: []string{"isolation_class mismatch in evidence window: gvisor=11, microvm=1"},
		},
		{
			name: "weak isolation throughout",
			write: func(k *book) {
				again(k, run{score: func(_ int, s *evidence.CaseScored) { s.IsolationClass = "namespace" }})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, run without an accepted isolation: fix.agent.1"},
		},
		{
			name:   "a strong class that the registration does not name",
			corpus: func(c *corpus) { c.registration = edited(registration, "[gvisor, microvm]", "[microvm]") },
			write:  honest,
			unmet:  excluded,
			notes:  []string{"1 attempt does not count, run without an accepted isolation: fix.agent.1"},
		},
		{
			name:   "a weak class that the registration names",
			corpus: func(c *corpus) { c.registration = edited(registration, "[gvisor, microvm]", "[namespace, gvisor]") },
			write: func(k *book) {
				again(k, run{score: func(_ int, s *evidence.CaseScored) { s.IsolationClass = "namespace" }})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, run without an accepted isolation: fix.agent.1"},
		},
		{
			name: "an easier case under the same name, as planned",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Plan.Cases[0].Digest = digest.ContentOf([]byte("easier")) }})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, of another case digest: case-01"},
		},
		{
			name: "a good attempt that may be older than the window, with witnesses",
			write: func(k *book) {
				k.clock = now.Add(-36 * day)
				honest(k)
				k.clock = now
				k.anchors = []dossier.CosignedAnchor{{Size: 1, Cosigned: now.Add(-39 * day)}, {Size: 1000, Cosigned: now.Add(-4 * day)}}
			},
			unmet: []string{allFailed, noPass, notAgain},
			notes: []string{"12 cases count as failed, not run: case-01, case-02, case-03, case-04, case-05 and 7 more"},
		},
		{
			name: "one sandbox for all cases",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.IsolationScope = "attempt" })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, isolation_scope is attempt: case-01"},
		},
		{
			name: "an agent that was preloaded for all cases together",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.AgentScope = "attempt" })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, agent_scope is attempt: case-01"},
		},
		{
			name: "an agent that ran bare",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.AgentIsolation = "none" })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, agent_isolation is none: case-01"},
		},
		{
			name:  "a command whose record does not tell",
			write: func(k *book) { again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.AgentIsolation = "" })}) },
			unmet: oneLess,
			notes: []string{"1 case counts as failed, agent_isolation is not stated: case-01"},
		},
		{
			name: "an agent on another machine",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.AgentIsolation, s.Vantage = "remote", "answers" })})
			},
			unmet: slices.Concat(oneLess, []string{"policy_violations of 1 task cannot be seen: the agent runs elsewhere and shows its answers only"}),
			notes: []string{"1 case counts as failed, agent_isolation is remote: case-01"},
		},
		{
			name: "an amendment that raises a score",
			write: func(k *book) {
				again(k, run{score: failFirst})
				k.add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: 3, Author: "olga", Reason: "the rubric was too strict",
					Score: evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{}}})
			},
			unmet: oneLess,
			notes: []string{"1 amendment that raises a score is ignored"},
		},
		{
			name: "an amendment that lowers a score counts",
			write: func(k *book) {
				honest(k)
				k.add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: 3, Author: "olga", Reason: "the answer was copied",
					Score: evidence.Score{Breakdown: map[string]float64{}, FailureModes: []string{}}})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, failed: case-01"},
		},
		{
			name: "an amendment that lowers a score, taken back by another",
			write: func(k *book) {
				honest(k)
				for _, score := range []float64{0, 1} {
					k.add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: 3, Author: "olga", Reason: "on second thought",
						Score: evidence.Score{Passed: score == 1, Score: score, Breakdown: map[string]float64{}, FailureModes: []string{}}})
				}
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, amended more than once: case-01"},
		},
		{
			name: "an amendment that lowers what failed, taken back by another",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) {
					s.Outcome, s.Score.Passed, s.Score.Score = evidence.Failed, false, 0.9
				})})
				for _, score := range []float64{0, 0.9} {
					k.add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: 3, Author: "olga", Reason: "on second thought",
						Score: evidence.Score{Score: score, Breakdown: map[string]float64{}, FailureModes: []string{}}})
				}
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, amended more than once: case-01"},
		},
		{
			name:  "no operator ran it again",
			write: func(k *book) { k.runs(run{}) },
			unmet: []string{notAgain},
		},
		{
			name:  "run again with the same key",
			write: func(k *book) { k.reproduce(k.runs(run{}), "olga", nil) },
			unmet: []string{"attempt fix.agent.1 was run again by its own runner (entry 27)", notAgain},
		},
		{
			name:  "run again by the same person with another key",
			write: func(k *book) { k.reproduce(k.runs(run{}), "olga's laptop", nil) },
			unmet: []string{"attempt fix.agent.1 was run again by its own runner (entry 27)", notAgain},
		},
		{
			name: "run again with another result",
			write: func(k *book) {
				id := k.runs(run{})
				k.reproduce(id, "oscar", func(r *evidence.AttemptReproduced) { r.Agrees, r.Divergence = false, "case-04, turn 2" })
			},
			unmet: []string{"attempt fix.agent.1 was run again by oscar and diverged: case-04, turn 2", notAgain},
		},
		{
			name: "run again before it had finished",
			write: func(k *book) {
				id := k.runs(run{open: true})
				k.reproduce(id, "oscar", nil)
				k.finish(id)
			},
			unmet: []string{"attempt fix.agent.1: reproduction: entry 26: the reproduction fix.agent.1.again.oscar-1 does not count: the attempt had not finished", notAgain},
		},
		{
			name: "a reproduction of another ledger's attempt",
			write: func(k *book) {
				id := k.runs(run{})
				k.reproduce(id, "oscar", func(r *evidence.AttemptReproduced) { r.Origin = "example.com/other" })
			},
			unmet: []string{notAgain},
		},
		{
			name: "entries made by hand: the reproduction",
			write: func(k *book) {
				id := k.runs(run{})
				r := &evidence.AttemptReproduced{Attempt: "x", Original: id, Origin: origin, Agrees: true}
				ends, results := k.ends[id], digest.ContentOf([]byte("results"))
				r.Registered, r.Finished, r.Results = &ends[0], &ends[1], &results
				r.Signature = k.sign("oscar", r)
				k.byHand(evidence.AttemptReproducedKind, r)
			},
			unmet: []string{notAgain},
		},
		{
			name: "entries made by hand: a score",
			write: func(k *book) {
				id := k.runs(run{open: true, skip: only(0)})
				first := k.bench.Cases()[0]
				k.add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: id, CaseID: caseID(0), Repeat: 1, Execution: 1})
				k.byHand(evidence.CaseScoredKind, k.perfect(&evidence.AttemptRegistered{Attempt: id, Plan: evidence.Plan{RubricDigest: k.bench.Manifest().Rubric}},
					evidence.PlannedCase{ID: caseID(0), Digest: first.Digest(), Cassette: first.Case().CassetteDigest}))
				k.finish(id)
				k.reproduce(id, "oscar", nil)
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, not run: case-01"},
		},
		{
			name: "entries made by hand: the end of an abandoned attempt",
			write: func(k *book) {
				id := k.runs(run{open: true})
				k.byHand(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: id, Outcomes: map[evidence.Outcome]int{},
					RubricDigests: []digest.Content{}, ImageDigests: []digest.Content{}, FailureModes: []string{}})
			},
			unmet: []string{"attempt fix.agent.1 was registered at entry 1 and never finished", notAgain},
		},
		{
			name:  "only the easy cases, by a filter",
			write: func(k *book) { again(k, run{register: func(r *evidence.AttemptRegistered) { r.Plan.Filtered = true }}) },
			unmet: excluded,
			notes: []string{"1 attempt does not count, run with a case or tag filter: fix.agent.1"},
		},
		{
			name: "the best of several repetitions",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Plan.Reduce = evidence.ReduceMax }})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, run with --reduce: fix.agent.1"},
		},
		{
			name: "only the easy cases, and no word of a filter",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) {
					r.Plan.Cases = r.Plan.Cases[1:]
					r.Plan.CaseCount--
				}})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, not run: case-01"},
		},
		{
			name:  "a live run, whose replies are unsigned",
			write: func(k *book) { again(k, run{register: func(r *evidence.AttemptRegistered) { r.Mode = "live" }}) },
			unmet: excluded,
			notes: []string{"1 attempt does not count, run live: its replies are in nothing that two people signed: fix.agent.1"},
		},
		{
			name:   "cassettes that a person edited, called recorded",
			corpus: func(c *corpus) { c.provenance = "edited" },
			write:  honest,
			unmet:  []string{allFailed, noPass},
			notes:  []string{"12 cases count as failed, cassette_provenance is edited: case-01, case-02, case-03, case-04, case-05 and 7 more"},
		},
		{
			name: "answers that a person wrote",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.Provenance = "authored" })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, cassette_provenance is authored: case-01"},
		},
		{
			name:   "answers that a person wrote, without a cassette",
			corpus: func(c *corpus) { c.provenance = "" },
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.Provenance = "authored" })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, cassette_provenance is authored: case-01"},
		},
		{
			name:  "a record that does not say what it replayed",
			write: func(k *book) { again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.CassetteDigest = nil })}) },
			unmet: append(slices.Clone(oneLess), "attempt fix.agent.1: not as planned: entry 3: case case-01: it replayed no cassette, planned was blake3:3e5e594c180bcb6d1a5680b1ea52c506572f274d8be0c2006a9b5ca6ce1200da"),
			notes: []string{"1 case counts as failed, not run: case-01"},
		},
		{
			name:  "judged by a model",
			write: func(k *book) { again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.JudgedByModel = true })}) },
			unmet: oneLess,
			notes: []string{"1 case counts as failed, judged by a model: case-01"},
		},
		{
			name:   "judged by a friendlier model than the one that people signed for",
			corpus: func(c *corpus) { c.registration = judging },
			write: func(k *book) {
				other := digest.ContentOf([]byte("another judge.yaml"))
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.JudgedByModel = true }), register: func(r *evidence.AttemptRegistered) { r.Plan.JudgeDigest = &other }})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, judged by another model than the registration pins: case-01"},
		},
		{
			name:   "judged by a model of which the plan says nothing",
			corpus: func(c *corpus) { c.registration = judging },
			write:  func(k *book) { again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.JudgedByModel = true })}) },
			unmet:  oneLess,
			notes:  []string{"1 case counts as failed, judged by another model than the registration pins: case-01"},
		},
		{
			name: "scored by another rubric",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { d := digest.ContentOf([]byte("kind rubric")); s.RubricDigest = &d })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, not scored by the signed rubric: case-01"},
		},
		{
			name: "scored without the rubric",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.RubricDigest, s.IsolationClass = nil, "builtin" })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, not scored by the signed rubric: case-01"},
		},
		{
			name: "scored in an image of the host",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { d := digest.ContentOf([]byte("snapshot")); s.ImageDigest = &d })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, scored in an image that is not pinned: case-01"},
		},
		{
			name: "no evidence named",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.EvidenceDigests = []digest.Content{} })})
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, names no evidence: case-01"},
		},
		{
			name: "evidence that is gone",
			write: func(k *book) {
				honest(k)
				k.missing[digest.ContentOf([]byte("fix.agent.1"+caseID(0)))] = true
			},
			unmet: oneLess,
			notes: []string{"1 case counts as failed, its evidence is missing or changed: case-01"},
		},
		{
			name: "what has no score does not leave the denominator",
			write: func(k *book) {
				again(k, run{score: func(i int, s *evidence.CaseScored) {
					if i < 4 {
						s.Score, s.Reason = nil, "r"
						s.Outcome = []evidence.Outcome{evidence.Unscored, evidence.Truncated, evidence.Errored, evidence.Skipped}[i]
					}
				}})
			},
			unmet: []string{"lower_bound_95=0.333 < threshold[silver]=0.750", "passed_count=8 < minimum_cases[silver]=12"},
			notes: []string{"1 case counts as failed, errored: case-03", "1 case counts as failed, skipped: case-04", "1 case counts as failed, truncated: case-02", "1 case counts as failed, unscored: case-01"},
		},
		{
			name:  "a repetition left out",
			write: func(k *book) { again(k, run{register: func(r *evidence.AttemptRegistered) { r.Plan.Repeat = 2 }}) },
			unmet: []string{allFailed, noPass},
			notes: []string{"12 cases count as failed, not run: case-01, case-02, case-03, case-04, case-05 and 7 more"},
		},
		{
			name: "a failure mode that blocks, on a case that passed",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.Score.FailureModes = []string{"leaked_secret"} })})
			},
			unmet: []string{"block-severity failure: leaked_secret"},
		},
		{
			name: "a failure mode that the registration does not know",
			write: func(k *book) {
				again(k, run{score: onFirst(func(s *evidence.CaseScored) { s.Score.FailureModes = []string{"rubric.timeout", "something_new"} })})
			},
			unmet: []string{"block-severity failure: rubric.timeout", "block-severity failure: something_new"},
		},
		{
			name: "an integrity event that blocks",
			write: func(k *book) {
				honest(k)
				k.add(evidence.IntegrityEventKind, &evidence.IntegrityEvent{Name: "MissingAnchor", Severity: evidence.Block, Boundary: "TB-5", Detail: "d"})
				k.add(evidence.IntegrityEventKind, &evidence.IntegrityEvent{Name: "ClockWentBack", Severity: evidence.Warn, Boundary: "TB-4", Detail: "d"})
				k.add(evidence.IntegrityEventKind, &evidence.IntegrityEvent{Name: "rubric.sandbox_escape", Severity: evidence.Block, Boundary: "TB-2", Detail: "of another class"})
			},
			unmet: []string{"block-severity integrity event: MissingAnchor (entry 28)"},
		},
		{
			name:   "cases that were not looked at for 91 days",
			corpus: func(c *corpus) { c.validated = now.Add(-91 * day) },
			write:  honest,
			unmet:  []string{"12 of 12 cases were last validated more than 90 days ago: case-01, case-02, case-03, case-04, case-05 and 7 more"},
		},
		{
			name:  "no anchor",
			write: func(k *book) { honest(k); k.noAnch = true },
			unmet: []string{"no anchor has been published"},
		},
		{
			name:  "an anchor from before",
			write: func(k *book) { honest(k); k.anchors = []dossier.CosignedAnchor{{Size: 20}} },
			unmet: []string{`not covered by an anchor: attempt fix.agent.1 (entry 26); the last covers 20 entries: anchor again with "tally ledger anchor publish"`},
		},
		{
			name:  "a scratch attempt",
			write: func(k *book) { again(k, run{register: func(r *evidence.AttemptRegistered) { r.Scratch = true }}) },
			unmet: excluded,
			notes: []string{"1 attempt does not count, scratch attempt: fix.agent.1"},
		},
		{
			name: "a registration that no signer in force signed",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Signature = k.sign("mallory", r) }})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, not signed by an operator in force: fix.agent.1"},
		},
		{
			name: "a plan changed after it was signed",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) {
					r.Plan.Filtered = true
					r.Signature = k.sign("olga", r)
					r.Plan.Filtered = false
				}})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, not signed by an operator in force: fix.agent.1"},
		},
		{
			name: "an attempt of another ledger",
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Origin = "example.com/fresh" }})
			},
			unmet: excluded,
			notes: []string{"1 attempt does not count, registered for another ledger: fix.agent.1"},
		},
		{
			name: "a ledger that the registration does not name",
			corpus: func(c *corpus) {
				c.registration = edited(registration, `["example.com/evals"]`, `["example.com/official"]`)
			},
			write: honest,
			unmet: excluded,
			notes: []string{"1 attempt does not count, in a ledger that the registration does not name: fix.agent.1"},
		},
		{
			name: "a runner that the registration does not name",
			corpus: func(c *corpus) {
				c.registration += "runner_keys: [\"" + keyOf(t, "oscar").Public().String() + "\"]\n"
			},
			write: honest,
			unmet: excluded,
			notes: []string{"1 attempt does not count, run with a key that the registration does not name: fix.agent.1"},
		},
		{
			name: "a second runner that the registration does not name",
			corpus: func(c *corpus) {
				c.registration += "runner_keys: [\"" + keyOf(t, "olga").Public().String() + "\"]\n"
			},
			write: honest,
			unmet: []string{"attempt fix.agent.1 was run again with a key that the registration does not name (entry 27)", notAgain},
		},
		{
			name: "attempts numbered from one again",
			write: func(k *book) {
				k.runs(run{register: func(r *evidence.AttemptRegistered) { r.Plan.Filtered = true }})
				k.number = 0
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Attempt = "fix.agent.first" }})
			},
			unmet: []string{"attempt fix.agent.first: numbered wrongly: entry 27: registered as number 1, it is number 2 of its class"},
		},
		{
			name: "one attempt registered twice",
			write: func(k *book) {
				again(k, run{})
				k.number = 0
				k.runs(run{skip: func(int) bool { return true }, open: true})
			},
			unmet: []string{"attempt fix.agent.1: registered twice: entry 28: another attempt is registered under the same id"},
		},
		{
			name:   "a line of the dataset in place of a case that a curator looks after",
			corpus: func(c *corpus) { c.cases, c.lines = 11, 1 },
			write:  honest,
			unmet:  []string{onePassLess},
			notes:  []string{"passed_count leaves out 1 line of the dataset that passed: nobody says when it was last validated"},
		},
		{
			name:   "a line of the dataset that fails",
			corpus: func(c *corpus) { c.lines = 1 },
			write: func(k *book) {
				again(k, run{score: func(i int, s *evidence.CaseScored) {
					if i == 12 {
						fails(s)
					}
				}})
			},
			unmet: []string{"lower_bound_95=0.579 < threshold[silver]=0.750"},
			notes: []string{"1 case counts as failed, failed: line-1"},
		},
		{
			name:   "an easier line under the same name, as planned",
			corpus: func(c *corpus) { c.lines = 1 },
			write: func(k *book) {
				again(k, run{register: func(r *evidence.AttemptRegistered) { r.Plan.Cases[12].Digest = digest.ContentOf([]byte("easier")) }})
			},
			unmet: []string{"lower_bound_95=0.579 < threshold[silver]=0.750"},
			notes: []string{"1 case counts as failed, of another case digest: line-1"},
		},
		{
			name:   "a line of the dataset that was solved and is not now",
			corpus: func(c *corpus) { c.lines = 1 },
			write: func(k *book) {
				k.runs(run{})
				again(k, run{version: "2", score: func(i int, s *evidence.CaseScored) {
					if i == 12 {
						fails(s)
					}
				}})
			},
			unmet: []string{"lower_bound_95=0.579 < threshold[silver]=0.750", "regression: 1 case was solved before and is not now: line-1"},
		},
		{
			name:   "a case copied under another name",
			corpus: func(c *corpus) { c.twin = true },
			write:  honest,
			unmet:  []string{"lower_bound_95=0.741 < threshold[silver]=0.750", onePassLess},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := standard()
			if tt.corpus != nil {
				tt.corpus(&c)
			}
			k := newBook(t, c.verified(t))
			tt.write(k)
			rec := k.recommend()
			if rec.RecommendedTier != string(bench.Bronze) && rec.RecommendedTier != string(None) || rec.CurrentTier != string(bench.Bronze) || rec.Met || rec.Rules != Rules {
				t.Errorf("recommended %s, met %v", rec.RecommendedTier, rec.Met)
			}
			if unmet := rec.KeepsFrom(bench.Silver); !slices.Equal(unmet, tt.unmet) {
				t.Errorf("unmet\n  %s\nwant\n  %s", strings.Join(unmet, "\n  "), strings.Join(tt.unmet, "\n  "))
			}
			for _, note := range tt.notes {
				if !slices.Contains(rec.Notes, note) {
					t.Errorf("no note %q in\n  %s", note, strings.Join(rec.Notes, "\n  "))
				}
			}
			if !slices.Equal(rec.Rationale, slices.Concat(rec.Unmet, rec.Notes)) || !rec.RequiresHumanApproval {
				t.Errorf("rationale %q, human approval %v", rec.Rationale, rec.RequiresHumanApproval)
			}
			if _, err := canon.Marshal(rec.Recommendation); err != nil {
				t.Error(err)
			}
		})
	}
}

// KeepsFrom lists what keeps a class from a tier: the conditions that are not
// met, and the regressions.
func (rec *Recommendation) KeepsFrom(tier bench.Tier) []string {
	var why []string
	for _, check := range rec.Tiers {
		if check.Tier == tier {
			why = append(why, check.Unmet...)
		}
	}
	return append(why, rec.regressionLines()...)
}

func (rec *Recommendation) regressionLines() []string {
	var lines []string
	for _, line := range rec.Unmet {
		if strings.HasPrefix(line, "regression: ") {
			lines = append(lines, line)
		}
	}
	return lines
}
