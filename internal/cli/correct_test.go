package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
)

// A failure that blocks is not corrected away: the command refuses to raise such
// a record, and a gate is not met by one that was raised by other means.
func TestABlockCodeIsNotCorrectedAway(t *testing.T) {
	l := newTrial(t)
	n := 0
	id := l.attempt(true, func(s *evidence.CaseScored) bool {
		switch n++; n {
		case 1: // a code that the registration does not know blocks
			s.Outcome = evidence.Failed
			s.Score.Passed, s.Score.Score, s.Score.FailureModes = false, 0, []string{"leaked_secret"}
		case 2:
			s.Outcome, s.Score, s.Reason = evidence.Errored, nil, "the agent crashed"
		}
		return true
	})
	var cases []string
	var entry ledger.Record
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	_, _, err := verifiedLedger(env, func(r ledger.Record) error {
		if r.Envelope.Kind == evidence.CaseScoredKind {
			var s evidence.CaseScored
			l.must(canon.UnmarshalCanonical(slices.Clone(r.Envelope.Body), &s))
			if cases = append(cases, s.CaseID); len(cases) == 1 {
				entry = r
			}
		}
		return nil
	})
	l.must(err)
	alice, bob := l.path(".tally/keys/example-alice"), l.path(".tally/keys/example-bob")
	message, _ := l.refuses(refusal.BlockCodeStands, "review", "correct", id+":"+cases[0], "--score", "1", "--reason", "r", "--key", alice, "--second-key", bob)
	if !strings.Contains(message, "block-severity failure leaked_secret") {
		t.Error(message)
	}
	l.refuses(refusal.BlockCodeStands, "review", "correct", id+":"+cases[0], "--score", "0.5", "--reason", "r", "--key", alice)
	if message, _ = l.refuses(refusal.Usage, "review", "correct", id+":"+cases[1], "--score", "1", "--reason", "r", "--key", alice); !strings.Contains(message, "has no score to correct") {
		t.Error(message)
	}

	// The same, signed by both and appended by a program of the operator.
	m := &evidence.ScoreCorrected{Attempt: id, CaseID: cases[0], Repeat: 1, Entry: entry.Index, Head: entry.Head, Number: 1, Now: evidence.Grade{Passed: true, Score: 1}, Reason: "r"}
	p, err := openPlace(env)
	l.must(err)
	m.Origin = p.Settings.Origin
	signed, err := m.Message()
	l.must(err)
	for _, file := range []string{alice, bob} {
		signer, err := seal.LoadSigner(file)
		l.must(err)
		sig, err := seal.SignWith(signer, seal.NamespaceCorrection, signed)
		l.must(err)
		m.Signatures = append(m.Signatures, string(sig))
	}
	cfg, err := p.Config()
	l.must(err)
	led, err := sequencer.Open(l.Context(), cfg)
	l.must(err)
	_, err = led.AppendRecord(evidence.ScoreCorrectedKind, m)
	l.must(err)
	l.must(led.Close())
	code, stdout, _ := l.run("gate", id, "--json")
	var answer struct {
		Met   bool
		Gates []struct{ Reason string }
	}
	l.must(json.Unmarshal([]byte(stdout), &answer))
	if code != refusal.ExitGate || answer.Met || !strings.Contains(answer.Gates[0].Reason, "and a correction") {
		t.Errorf("exit %d: %s", code, stdout)
	}
}
