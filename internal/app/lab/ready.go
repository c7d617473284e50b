package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
)

// A Readiness is what is known of a class and a target before they are run.
type Readiness struct {
	Setup *Setup
	Cases int
	// Missing are the cases that neither a recording nor a person's replies answer.
	Missing []string
	// Each is what a recorded case of the class cost on average; Recorded is how many
	// that is over, 0 if nothing is known.
	Each     cost.Cost
	Recorded int
}

// Ready looks at what a class has for a target. Nothing is sent.
func Ready(c *dossier.Corpus, class, target string) (*Readiness, error) {
	all, err := Each(c, harness.Spec{Class: class, Targets: []string{target}})
	if err != nil {
		return nil, err
	}
	s := all[0] // of variants the first: they differ in values, not in how they start
	r := &Readiness{Setup: s}
	cases := scenario.Of(s.Bench, s.Target.Name)
	var sum cost.Cost
	for i := range cases.Len() {
		x, err := cases.Case(i)
		if err != nil {
			return nil, err
		}
		r.Cases++
		switch {
		case x.Scenario.RepliesFor(cassette.ForAgent).Len() > 0:
		case x.Cassette == nil:
			r.Missing = append(r.Missing, x.ID)
		default:
			if data, err := x.Cassette.Data(); err == nil {
				if tape, err := cassette.Parse(data, cassette.Limits{}); err == nil {
					sum, r.Recorded = sum.Plus(tapeCost(tape)), r.Recorded+1
				}
			}
		}
	}
	if r.Recorded > 0 {
		r.Each = cost.Of(sum.MicroUSD/int64(r.Recorded), sum.Unpriced)
	}
	return r, nil
}

// tapeCost is what the calls of a recording cost.
func tapeCost(c *cassette.Cassette) cost.Cost {
	var sum cost.Cost
	for i := range c.Interactions {
		m := c.Interactions[i].Model
		switch {
		case m == nil:
		case m.CostMicrodollars == nil:
			sum = sum.Plus(cost.Of(0, 1))
		default:
			sum = sum.Plus(cost.Of(*m.CostMicrodollars, 0))
		}
	}
	return sum
}

// startWithin bounds how long a target may take to show that it starts.
const startWithin = 30 * time.Second

// Starts drives the target once, as a run would, on one case of the class, and records
// nothing. It prefers a case that is answered. That the case asks something which no
// recording has, or ends badly otherwise, is not about starting; an error says that the
// program, its environment or its sandbox does not start.
func (r *Readiness) Starts(ctx context.Context) error {
	if r.Cases == 0 {
		return nil
	}
	missing := map[string]bool{}
	for _, id := range r.Missing {
		missing[id] = true
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	chosen := ""
	choose := func(c *scenario.Task) bool {
		if chosen == "" && (!missing[c.ID] || len(missing) == r.Cases) {
			chosen = c.ID
		}
		return c.ID == chosen
	}
	var why error
	blocked := func(evidence.IntegrityEvent) error { return nil }
	err := r.Setup.rehearse(ctx, choose, blocked, func(g *harness.Graded) error {
		why = startFailure(g)
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return nil // it starts, and works for long
	}
	if err == nil {
		err = why
	}
	return err
}

// startFailure tells a program that did not start from one that did its work badly.
func startFailure(g *harness.Graded) error {
	rec := &g.Record
	name, text, ok := strings.Cut(rec.Reason, ": ")
	if rec.Outcome != evidence.Errored || !ok {
		return nil
	}
	if refusal.Name(name) == refusal.CassetteMiss {
		return nil // it started, and asked a model
	}
	return refusal.Newf(refusal.Name(name), "%s", text)
}

// Models says, without sending anything, whether what a live run of the class by the target
// asks can be asked: endpoints, keys and prices.
func (r *Readiness) Models() error {
	access, err := r.Setup.access()
	if err != nil {
		return err
	}
	defer access.Close()
	if b := r.Setup.Target.Builtin; b != nil {
		if err := access.CheckModel(b.API, b.Model, b.MaxOutputTokens); err != nil {
			return err
		}
	}
	cfg, err := r.Setup.config()
	if err != nil {
		return err
	}
	_, _, err = r.Setup.modelsNeeded(cfg, access)
	return err
}

// RecordCommand is what records the cases that are missing.
func (r *Readiness) RecordCommand() string {
	return fmt.Sprintf("tally record %s --target %s --only-missing --max-cost 1", r.Setup.Bench.Class(), r.Setup.Target.Name)
}

// TargetNames are the targets of a workspace.
func TargetNames(c *dossier.Corpus) []string { return agent.Names(c.Root) }

// UsedBy is the target of a run that names none.
func UsedBy(c *dossier.Corpus) string { return onlyTarget(c, agent.DefaultTarget) }
