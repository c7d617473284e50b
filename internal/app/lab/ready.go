package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/provider"
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

// Ready looks at what a class has for each variant of a target. Nothing is sent.
func Ready(c *dossier.Corpus, class, target string) ([]*Readiness, error) {
	all, err := Each(c, harness.Spec{Class: class, Targets: []string{target}})
	if err != nil {
		return nil, err
	}
	var list []*Readiness
	for _, s := range all {
		r, err := readyOf(s)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func readyOf(s *Setup) (*Readiness, error) {
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

// driveWithin bounds how long cases are driven to see whether they are answered.
const driveWithin = 30 * time.Second

// Drive drives the cases that have no recording, as a run would, and takes those that ask
// nothing new from the missing: the library of replies answers them, or their agent asks
// no model. What is not finished in time stays missing. Nothing is sent or recorded.
func (r *Readiness) Drive(ctx context.Context) error {
	missing := map[string]bool{}
	for _, id := range r.Missing {
		missing[id] = true
	}
	if len(missing) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, driveWithin)
	defer cancel()
	quiet := func(evidence.IntegrityEvent) error { return nil }
	err := r.Setup.rehearse(limited, func(c *scenario.Task) bool { return missing[c.ID] }, quiet, func(g *harness.Graded) error {
		if !g.Record.Unanswered && limited.Err() == nil {
			delete(missing, g.Case.ID)
		}
		return nil
	})
	r.Missing = slices.DeleteFunc(r.Missing, func(id string) bool { return !missing[id] })
	if ctx.Err() == nil && limited.Err() != nil {
		return nil
	}
	return err
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
	if r.Setup.Target.Command != nil { // which model it asks, only it knows
		if err := r.anyKey(access.Settings); err != nil {
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

// anyKey refuses settings by which a program can ask no model at all.
func (r *Readiness) anyKey(settings *provider.Settings) error {
	var unset []string
	for _, e := range settings.Endpoints {
		if e.HasKey(r.Setup.place.Getenv) {
			return nil
		}
		unset = append(unset, e.Provider+": "+e.KeyNames())
	}
	if len(unset) == 0 {
		return refusal.Newf(refusal.NotFound, "there is no provider in %s, so the program can ask no model", provider.SettingsFile).
			WithHint("say in %s which provider answers, and where its key is; docs/recording.md has the format", provider.SettingsFile)
	}
	return refusal.Newf(refusal.NotFound, "no provider of %s has its key: %s is not set", provider.SettingsFile, strings.Join(unset, "; ")).
		WithHint("set one of them: export NAME=KEY")
}

// RecordCommand is what records the cases that are missing.
func (r *Readiness) RecordCommand() string {
	return fmt.Sprintf("tally record %s --target %s --only-missing --max-cost 1", plain.ShellWord(r.Setup.Bench.Class()), plain.ShellWord(r.Setup.Target.Name))
}

// HasRecordings reports whether the class has cassettes of a target or of a variant of it.
func HasRecordings(c *dossier.Corpus, class, target string) bool {
	all, err := findVariants(c, class, target)
	return err == nil && slices.ContainsFunc(all, func(t *agent.Target) bool {
		return workspace.Exists(c.Path("cassettes", class, bench.TargetFolder(t.Name)))
	})
}

// TargetNames are the targets of a workspace.
func TargetNames(c *dossier.Corpus) []string { return agent.Names(c.Root) }

// UsedBy is the target of a run that names none.
func UsedBy(c *dossier.Corpus) string { return onlyTarget(c, agent.DefaultTarget) }
