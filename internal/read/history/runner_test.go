package history

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/historytest"
)

// Whoever ran an attempt is neither signature of its correction, however the person is
// spelled. Bob, who has the security role, signs too: without the runner's signature he
// is one person, and a raise by one does not count for promotion.
func TestTheRunnerSignsNoCorrection(t *testing.T) {
	const (
		olga, rita, alice, bob = historytest.Olga, historytest.Rita, historytest.Alice, 4
		second                 = 5 // another key of olga's
	)
	both := []seal.Role{seal.Operator, seal.Curator}
	curator, security, operator := []seal.Role{seal.Curator}, []seal.Role{seal.Curator, seal.Security}, []seal.Role{seal.Operator}
	line := func(name string, n byte, roles []seal.Role) seal.Entry { return historytest.Line(t, name, n, roles...) }
	people := []seal.Entry{line("olga", olga, both), line("rita", rita, both), line("alice", alice, curator), line("bob", bob, security)}
	for _, tt := range []struct {
		name   string
		people []seal.Entry
		next   []seal.Entry // version 2 of the signers, after the attempt
		edit   func(r *evidence.AttemptRegistered)
		record func(s *evidence.CaseScored)
		signer byte
		ran    string // why the signer's signature does not count, "" if it does
	}{
		{name: "another person", people: people, signer: alice},
		{name: "another operator", people: people, signer: rita},
		{name: "the key of the runner", people: people, signer: olga, ran: "olga, who ran the attempt"},
		{name: "another key under the runner's name", people: append(people, line("olga", second, curator)), signer: second, ran: "olga, who ran the attempt"},
		{name: "the runner's key under another name since", people: people, signer: olga, ran: "olivia, who ran the attempt",
			next: []seal.Entry{line("olivia", olga, both), line("rita", rita, operator), line("alice", alice, curator), line("bob", bob, security)}},
		{name: "another key of the name that the runner's key has since", people: people, signer: second, ran: "olivia, who ran the attempt",
			next: []seal.Entry{line("olivia", olga, operator), line("olivia", second, curator), line("alice", alice, curator), line("bob", bob, security)}},
		{name: "the runner's new key, when the old one is gone", people: people, signer: second, ran: "rita, who ran the attempt",
			edit: func(r *evidence.AttemptRegistered) { historytest.Sign(t, r, rita) },
			next: []seal.Entry{line("olga", olga, operator), line("rita", second, both), line("alice", alice, curator), line("bob", bob, security)}},
		{name: "an operator who drove a case", people: people, signer: rita, ran: "rita, who drove cases of the attempt",
			record: func(s *evidence.CaseScored) {
				s.Worker = &evidence.Worker{Key: historytest.Key(t, rita).Public().Fingerprint(), HarnessVersion: "v1"}
			}},
		{name: "an operator who may have resumed it", people: people, signer: rita, ran: "rita, who is or was an operator, and the ledger does not tell",
			record: func(s *evidence.CaseScored) { s.Operator = digest.IDOf([]byte("somebody")) }},
		{name: "a person who is not an operator, of an attempt that another resumed", people: people, signer: alice,
			record: func(s *evidence.CaseScored) { s.Operator = digest.IDOf([]byte("somebody")) }},
		{name: "an operator, of an attempt that is not signed", people: people, signer: olga, ran: "olga, who is or was an operator",
			edit: func(r *evidence.AttemptRegistered) { r.Scratch, r.Signature = true, "none" }},
		{name: "who was an operator, of an attempt that is not signed", people: people, signer: rita, ran: "rita, who is or was an operator",
			edit: func(r *evidence.AttemptRegistered) { r.Scratch, r.Signature = true, "none" },
			next: []seal.Entry{line("olga", olga, operator), line("rita", rita, curator), line("alice", alice, curator), line("bob", bob, security)}},
		{name: "another name and key of who was an operator, of an attempt that is not signed", people: people, signer: second, ran: "rosa, who is or was an operator",
			edit: func(r *evidence.AttemptRegistered) { r.Scratch, r.Signature = true, "none" },
			next: []seal.Entry{line("olga", olga, operator), line("rosa", rita, curator), line("rosa", second, curator), line("alice", alice, curator), line("bob", bob, security)}},
		{name: "who never was an operator, of an attempt that is not signed", people: people, signer: alice,
			edit: func(r *evidence.AttemptRegistered) { r.Scratch, r.Signature = true, "none" },
			next: []seal.Entry{line("olga", olga, operator), line("rita", rita, curator), line("alice", alice, curator), line("bob", bob, security)}},
	} {
		for _, alone := range []bool{true, false} {
			name := tt.name + " and bob"
			if alone {
				name = tt.name + " alone"
			}
			t.Run(name, func(t *testing.T) {
				b := historytest.SignedBy(t, tt.people...)
				r := historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1)
				if tt.edit != nil {
					tt.edit(r)
				}
				b.Register(r)
				s := historytest.Score(r, 0, 1, 0.4)
				if tt.record != nil {
					tt.record(s)
				}
				at := b.Case(r, s)
				b.Finish(r)
				if tt.next != nil {
					b.Appoint(tt.next, alice, bob)
				}
				m := &evidence.ScoreCorrected{Origin: historytest.Origin, Attempt: r.Attempt, CaseID: "case-01", Repeat: 1, Entry: at, Head: headOf(t, b, at), Number: 1,
					Was: evidence.Grade{Score: 0.4}, Now: evidence.Grade{Passed: true, Score: 1}, Reason: "it is right"}
				// One after the other, so that each entry is judged by itself.
				b.Add(evidence.ScoreCorrectedKind, signCorrection(t, m, tt.signer))
				if !alone {
					b.Add(evidence.ScoreCorrectedKind, signCorrection(t, m, bob))
				}
				a := read(b, Options{}).Attempt(r.Attempt)
				var k *Correction
				for c := range a.Cases() {
					k = c.Correction
				}
				problems := strings.Join(a.Problems, "; ")
				switch {
				case tt.ran == "" && (k == nil || k.ByTwo() == alone || strings.Contains(problems, "correction")):
					t.Errorf("%+v, problems %q", k, problems)
				case tt.ran != "" && !strings.Contains(problems, tt.ran):
					t.Errorf("problems %q, want %q", problems, tt.ran)
				case tt.ran != "" && alone && k != nil:
					t.Errorf("it counts: %+v", k)
				case tt.ran != "" && !alone && (k == nil || k.ByTwo() || len(k.By) != 1 || k.By[0] != "bob"):
					t.Errorf("%+v", k)
				}
			})
		}
	}
}

// One person under two names, as two versions of the signers say, is not two people.
func TestOnePersonUnderTwoNamesIsNotTwo(t *testing.T) {
	const olga, alice, bob, second = historytest.Olga, historytest.Alice, 4, 5
	security := []seal.Role{seal.Curator, seal.Security}
	b := historytest.SignedBy(t, historytest.Line(t, "olga", olga, seal.Operator), historytest.Line(t, "alice", alice, security...), historytest.Line(t, "bob", bob, security...))
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1)
	at := b.Run(r, 0.4)[0]
	b.Appoint([]seal.Entry{historytest.Line(t, "olga", olga, seal.Operator), historytest.Line(t, "alina", alice, security...), historytest.Line(t, "alice", second, security...),
		historytest.Line(t, "bob", bob, security...)}, alice, bob)
	m := &evidence.ScoreCorrected{Origin: historytest.Origin, Attempt: r.Attempt, CaseID: "case-01", Repeat: 1, Entry: at, Head: headOf(t, b, at), Number: 1,
		Was: evidence.Grade{Score: 0.4}, Now: evidence.Grade{Passed: true, Score: 1}, Reason: "it is right"}
	b.Add(evidence.ScoreCorrectedKind, signCorrection(t, m, alice, second))
	for c := range read(b, Options{}).Attempt(r.Attempt).Cases() {
		if k := c.Correction; k == nil || k.ByTwo() || len(k.By) != 1 {
			t.Errorf("%+v", k)
		}
	}
}
