package harness

import (
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// TestResumeComparesTheWholePlan: whatever the plan fixed has to be the same,
// above all what was mounted and which cases were selected.
func TestResumeComparesTheWholePlan(t *testing.T) {
	of := func(text string) digest.Content { return digest.ContentOf([]byte(text)) }
	plan := func() evidence.Plan {
		agent := of("agent")
		return evidence.Plan{CaseCount: 1, Repeat: 1, TargetDigest: of("target"), Cases: []evidence.PlannedCase{{ID: "one", Digest: of("one")}},
			Mounts: []evidence.PlannedMount{{Inside: "/opt/agent", Digest: &agent}}}
	}
	other := of("other")
	for name, change := range map[string]func(*evidence.Plan){
		"another case":              func(p *evidence.Plan) { p.Cases[0].ID = "two" },
		"the case is another one":   func(p *evidence.Plan) { p.Cases[0].Digest = other },
		"another cassette":          func(p *evidence.Plan) { p.Cases[0].Cassette = &other },
		"a filter":                  func(p *evidence.Plan) { p.Filtered = true },
		"another reducer":           func(p *evidence.Plan) { p.Reduce = evidence.ReduceMax },
		"another target":            func(p *evidence.Plan) { p.TargetDigest = other },
		"another rubric":            func(p *evidence.Plan) { p.RubricDigest = &other },
		"another image":             func(p *evidence.Plan) { p.ImageDigest = &other },
		"the agent in the mount":    func(p *evidence.Plan) { p.Mounts[0].Digest = &other },
		"the mount is not digested": func(p *evidence.Plan) { p.Mounts[0].Digest = nil },
		"the mount is elsewhere":    func(p *evidence.Plan) { p.Mounts[0].Inside = "/opt/other" },
		"a mount more": func(p *evidence.Plan) {
			p.Mounts = append(p.Mounts, evidence.PlannedMount{Inside: "/x", Digest: &other})
		},
		"no mount": func(p *evidence.Plan) { p.Mounts = nil },
	} {
		u := &unfinished{registered: evidence.AttemptRegistered{Attempt: "a.b.1", Mode: "replay", Plan: plan()}}
		now := plan()
		if err := samePlan(&u.registered, &now, "replay"); err != nil {
			t.Fatalf("the same plan: %v", err)
		}
		change(&now)
		if err := samePlan(&u.registered, &now, "replay"); !refusal.Is(err, refusal.PlanChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A long list is known by its digest, whichever way it is told.
	long, short := plan(), plan()
	list, err := listDigest(&long)
	if err != nil {
		t.Fatal(err)
	}
	long.Cases, long.CasesDigest = nil, &list
	u := &unfinished{registered: evidence.AttemptRegistered{Mode: "replay", Plan: long}}
	if err := samePlan(&u.registered, &short, "replay"); err != nil {
		t.Errorf("a list in the evidence: %v", err)
	}
}

// TestPastCountsAnEntryOnce: a process that reads the ledger before a run and
// after it shows entries twice, and no attempt gets a number that is too high
// because of that.
func TestPastCountsAnEntryOnce(t *testing.T) {
	var p Past
	entry := func(index int64, attempt string) ledger.Record {
		body := &evidence.AttemptRegistered{Attempt: attempt, Class: "c", Target: "t"}
		return ledger.Record{Position: ledger.Position{Index: index}, Envelope: evidence.Envelope{Kind: evidence.AttemptRegisteredKind}, Body: body}
	}
	for _, r := range []ledger.Record{entry(1, "c.t.1"), entry(2, "c.t.2"), entry(1, "c.t.1"), entry(2, "c.t.2"), entry(3, "c.t.3")} {
		if err := p.Visit(r); err != nil {
			t.Fatal(err)
		}
	}
	if p.count("c") != 3 || len(p.Attempts()) != 3 {
		t.Errorf("%d attempts: %v", p.count("c"), p.Attempts())
	}
}
