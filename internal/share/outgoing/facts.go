package outgoing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tallystick/internal/read/conversation"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/export"
)

// FactsOf gathers what leaves the building about an attempt: its numbers from the
// verified ledger, its texts from whole evidence, and a receipt. Only cases whose
// id matches glob are in it, all if that is "". It needs [dossier.Ask].Prove and the
// records of the attempt. A case whose evidence is not whole ends it.
func FactsOf(a *dossier.Public, glob string) (*export.Facts, error) {
	out := &export.Facts{
		ID: a.ID, Class: a.Class, Target: a.Target, Origin: a.History().Origin, Level: a.Level.String(), Mode: a.Mode,
		Number: a.Ordinal, Of: a.Siblings, Repeat: a.Plan.Repeat, Cases: a.Plan.CaseCount,
		Started: a.Time.Go(), Finished: a.Finished != nil, Version: a.Harness(), Bench: a.Plan.BenchDigest.String(),
		Registration: a.History().HeadAfter(a.Index + 1).String(),
	}
	if a.Plan.JudgeDigest != nil {
		out.JudgeSettings = a.Plan.JudgeDigest.String()
	}
	if a.Finished != nil {
		out.Ended = a.Finished.Time.Go()
	}
	for _, q := range history.Qualify(a.Attempt) {
		out.Qualifications = append(out.Qualifications, q.Text)
	}
	if glob != "" {
		out.Qualifications = append(out.Qualifications, fmt.Sprintf("only the cases that match %q are told of", glob))
	}
	records, err := a.Records(matching(a, glob))
	if err != nil {
		return nil, err
	}
	g := &gatherer{out: out, models: map[string]bool{}, images: map[string]bool{}, isolation: map[export.Isolation]int{}, root: rootOf(a.Plan.AgentRoot)}
	for record := range matching(a, glob) {
		c, err := a.Case(record)
		if err != nil {
			return nil, err
		}
		if err := g.add(c, records[c.Index]); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
	}
	g.finish()
	return out, factsReceipt(a, out)
}

// factsReceipt proves the entry that finished the attempt, or the one that
// announced it.
func factsReceipt(a *dossier.Public, out *export.Facts) error {
	index, kind := a.Index, evidence.AttemptRegisteredKind
	if a.Finished != nil {
		index, kind = a.Finished.Index, evidence.AttemptFinishedKind
	}
	proofs, key, err := a.Prove(index)
	if err != nil {
		return err
	}
	receipt := proofs[index].Receipt()
	text, err := receipt.Marshal()
	if err != nil {
		return err
	}
	out.Receipt, out.ReceiptOf, out.Key = string(text), string(kind), key
	if receipt.Entry == nil {
		out.Record = proofs[index].Raw
	}
	return nil
}

// A gatherer gathers samples.
type gatherer struct {
	out       *export.Facts
	models    map[string]bool
	images    map[string]bool
	isolation map[export.Isolation]int
	root      string // of the agent
}

// rootOf names a root file system.
func rootOf(r *evidence.Root) string {
	switch {
	case r == nil:
		return ""
	case r.Kind == evidence.ImageRoot:
		return r.Text()
	}
	return string(r.Kind)
}

func (g *gatherer) add(c *dossier.PublicCase, record *evidence.CaseScored) error {
	m := c.On(history.AsRecorded)
	s := export.Sample{ID: c.ID, Digest: c.Digest.String(), Repeat: int(c.Repeat), Outcome: string(m.Outcome), Score: m.Value(), Corrections: corrections(g.out.ID, c), Modes: c.FailureModes(),
		Tokens: c.Tokens, Cost: c.Cost, Evidence: digests(c.Evidence)}
	if c.IsCorrected() {
		now := c.On(history.AsCorrected)
		s.Now = &now
	}
	if c.Index < 0 {
		g.out.Samples = append(g.out.Samples, s)
		return nil
	}
	s.Started, s.Took = time.UnixMilli(c.StartedMS).UTC(), c.Latency()
	if record != nil {
		s.Reason, s.Judged = record.Reason, record.JudgedByModel
	}
	if x := c.Context; x != nil {
		g.isolation[export.Isolation{Class: x.Isolation, AgentIsolation: x.AgentIsolation, AgentRoot: g.root, AgentScope: x.AgentScope, Scope: x.Scope, Vantage: x.Vantage}]++
		if !x.Image.IsZero() {
			g.images[x.Image.String()] = true
		}
	}
	said, err := c.Said()
	if err != nil {
		return err
	}
	for _, m := range said.Models {
		g.models[m] = true
	}
	s.HeldOut, s.Input, s.Answer, s.Expected = c.IsHidden(), said.Input, said.Answer, said.Expected
	if !s.HeldOut {
		s.Transcript = func() (*export.Told, error) { return toldOf(c) }
	}
	g.out.Samples = append(g.out.Samples, s)
	return nil
}

// toldOf reads the transcript of a case that may leave.
func toldOf(c *dossier.PublicCase) (*export.Told, error) {
	v, err := c.Trajectory()
	if err != nil {
		return nil, err
	}
	t := &export.Told{Events: map[int]*trajectory.Event{}}
	for e := range v.Events() {
		t.Events[e.Seq] = &e
	}
	t.Conversation = conversation.Of(v.Events(), conversation.Options{Whole: c.Content})
	t.Checks, err = c.Checks()
	return t, err
}

// corrections are what stands beside the record of a case. Of a held-out one the reasons
// stay here: they may tell what it asks.
func corrections(attempt string, c *dossier.PublicCase) []history.CorrectedRow {
	rows := c.Corrections(attempt)
	if c.IsHidden() {
		for i := range rows {
			rows[i].Reason = "withheld: the case is held out"
		}
	}
	return rows
}

func digests(list []digest.Content) []string {
	var out []string
	for _, d := range list {
		out = append(out, d.String())
	}
	return out
}

func (g *gatherer) finish() {
	g.out.Models, g.out.Images = slices.Sorted(maps.Keys(g.models)), slices.Sorted(maps.Keys(g.images))
	for i, n := range g.isolation {
		i.Cases = n
		g.out.Isolation = append(g.out.Isolation, i)
	}
	slices.SortFunc(g.out.Isolation, func(a, b export.Isolation) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}
