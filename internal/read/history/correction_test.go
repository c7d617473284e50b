package history

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/historytest"
)

// correctedBook has an attempt whose first case failed with 0.4 and whose second
// has no score.
func correctedBook(t *testing.T) (*historytest.Book, *evidence.AttemptRegistered, *evidence.ScoreCorrected) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1)
	b.Register(r)
	at := b.Case(r, historytest.Score(r, 0, 1, 0.4))
	b.Case(r, historytest.UnscoredCase(r, 1, 1, evidence.Errored))
	b.Case(r, historytest.Score(r, 2, 1, 1))
	b.Finish(r)
	return b, r, &evidence.ScoreCorrected{Origin: historytest.Origin, Attempt: r.Attempt, CaseID: "case-01", Repeat: 1, Entry: at, Head: headOf(t, b, at), Number: 1,
		Was: evidence.Grade{Score: 0.4}, Now: evidence.Grade{Passed: true, Score: 1}, Reason: "the rubric wanted a comma"}
}

func headOf(t *testing.T, b *historytest.Book, index int64) digest.ID {
	t.Helper()
	return read(b, Options{Marks: true}).HeadAfter(index + 1)
}

func signCorrection(t *testing.T, m *evidence.ScoreCorrected, keys ...byte) *evidence.ScoreCorrected {
	t.Helper()
	signed := *m
	message, err := m.Message()
	if err != nil {
		t.Fatal(err)
	}
	signed.Signatures = nil
	for _, n := range keys {
		sig, err := seal.SignWith(historytest.Key(t, n).Signer(), seal.NamespaceCorrection, message)
		if err != nil {
			t.Fatal(err)
		}
		signed.Signatures = append(signed.Signatures, string(sig))
	}
	return &signed
}

func TestACorrectionStandsBesideItsRecord(t *testing.T) {
	b, r, m := correctedBook(t)
	at := b.Add(evidence.ScoreCorrectedKind, signCorrection(t, m, historytest.Alice))
	h := read(b, Options{Marks: true})
	a := h.Attempt(r.Attempt)
	var c *Case
	for x := range a.Cases() {
		if x.ID == "case-01" {
			c = x
		}
	}
	if c.Outcome() != evidence.Failed || c.Score != 0.4 || c.Uncorrected() != evidence.Failed || c.UncorrectedScore() != 0.4 {
		t.Errorf("the record changed: %+v", c)
	}
	if c.Effective() != evidence.Passed || c.EffectiveScore() != 1 || c.Correction.Index != at || !c.Correction.Raises() || c.Correction.ByTwo() ||
		c.Correction.Text() != "0.40 failed → 1.00 passed corrected by alice@example.com at 2026-05-11T09:00:00.000Z: the rubric wanted a comma" || len(a.Problems) > 0 {
		t.Errorf("%+v, problems %q", c.Correction, a.Problems)
	}
	// Before the correction it was not there.
	then, ok := h.At(at)
	if !ok {
		t.Fatal("the history as it was before the correction cannot be told")
	}
	for x := range then.Attempt(r.Attempt).Cases() {
		if x.Correction != nil || x.ID == "case-01" && x.Effective() != evidence.Failed {
			t.Errorf("corrected before it was: %+v", x)
		}
	}
}

// Each row is a correction that does not count, although the operator appended it.
func TestForgedCorrectionsDoNotCount(t *testing.T) {
	const alice, olga, rita, stranger = historytest.Alice, historytest.Olga, historytest.Rita, 99
	for _, tt := range []struct {
		name  string
		edit  func(m *evidence.ScoreCorrected)
		keys  []byte
		after func(m *evidence.ScoreCorrected)
		want  string
	}{
		{name: "signed by the operator alone", keys: []byte{olga}, want: "needs 1 of alice@example.com"},
		{name: "signed by another operator", keys: []byte{rita}, want: "needs 1 of alice@example.com"},
		{name: "signed by a stranger", keys: []byte{stranger}, want: "signature 1 of 1"},
		{name: "a stranger beside a curator", keys: []byte{alice, stranger}, want: "signature 2 of 2"},
		{name: "the reason changed after signing", keys: []byte{alice}, after: func(m *evidence.ScoreCorrected) { m.Reason = "no reason" }, want: "signature 1 of 1"},
		{name: "the score changed after signing", keys: []byte{alice}, after: func(m *evidence.ScoreCorrected) { m.Now.Score = 0.9 }, want: "signature 1 of 1"},
		{name: "another entry after signing", keys: []byte{alice}, after: func(m *evidence.ScoreCorrected) { m.Entry += 2 }, want: "signature 1 of 1"},
		{name: "of another case's record", edit: func(m *evidence.ScoreCorrected) { m.CaseID = "case-03" }, keys: []byte{alice}, want: "is of case case-01"},
		{name: "of an entry that is not a record", edit: func(m *evidence.ScoreCorrected) { m.Entry-- }, keys: []byte{alice}, want: "is not a record that counts"},
		{name: "of a record to come", edit: func(m *evidence.ScoreCorrected) { m.Entry = 1000 }, keys: []byte{alice}, want: "is not a record that counts"},
		{name: "of the same index in another ledger's history", edit: func(m *evidence.ScoreCorrected) { m.Head = digest.IDOf([]byte("another")) }, keys: []byte{alice}, want: "it was signed for the head"},
		{name: "for another ledger", edit: func(m *evidence.ScoreCorrected) { m.Origin = "example.com/other" }, keys: []byte{alice}, want: "it was signed for the ledger example.com/other"},
		{name: "of another repetition", edit: func(m *evidence.ScoreCorrected) { m.Repeat = 2 }, keys: []byte{alice}, want: "is of case case-01"},
		{name: "saying another score was recorded", edit: func(m *evidence.ScoreCorrected) { m.Was.Score = 0.3 }, keys: []byte{alice}, want: "another score"},
		{name: "correcting nothing", edit: func(m *evidence.ScoreCorrected) { m.Now = m.Was }, keys: []byte{alice}, want: "there is nothing to correct"},
		{name: "passed with score zero", edit: func(m *evidence.ScoreCorrected) { m.Now.Score = 0 }, keys: []byte{alice}, want: "contradict each other"},
		{name: "the second before the first", edit: func(m *evidence.ScoreCorrected) { m.Number = 2 }, keys: []byte{alice}, want: "would be number 1"},
		{name: "of a case without a score", edit: func(m *evidence.ScoreCorrected) { m.CaseID, m.Was = "case-02", evidence.Grade{} }, keys: []byte{alice}, want: "has no score to correct"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, r, m := correctedBook(t)
			if strings.Contains(tt.name, "without a score") {
				m.Entry += 2
				m.Head = headOf(t, b, m.Entry)
			}
			if tt.edit != nil {
				tt.edit(m)
			}
			signed := signCorrection(t, m, tt.keys...)
			if tt.after != nil {
				tt.after(signed)
			}
			b.Add(evidence.ScoreCorrectedKind, signed)
			a := read(b, Options{}).Attempt(r.Attempt)
			for c := range a.Cases() {
				if c.Correction != nil {
					t.Errorf("corrected: %+v", c.Correction)
				}
			}
			wantOutcome(t, a, "case-01/1", evidence.Failed)
			if len(a.Problems) != 1 || !strings.Contains(a.Problems[0], tt.want) || !strings.HasPrefix(a.Problems[0], "correction: ") {
				t.Errorf("problems %q, want one with %q", a.Problems, tt.want)
			}
		})
	}
}

// A correction that was taken back does not come back because the operator appends
// its signed bytes again.
func TestACorrectionIsNotReplayed(t *testing.T) {
	b, r, m := correctedBook(t)
	raise := signCorrection(t, m, historytest.Alice)
	b.Add(evidence.ScoreCorrectedKind, raise)
	m.Number, m.Now, m.Reason = 2, evidence.Grade{}, "the answer was copied"
	b.Add(evidence.ScoreCorrectedKind, signCorrection(t, m, historytest.Alice))
	b.Add(evidence.ScoreCorrectedKind, raise)
	b.Add(evidence.ScoreCorrectedKind, signCorrection(t, m, historytest.Alice))
	a := read(b, Options{}).Attempt(r.Attempt)
	wantOutcome(t, a, "case-01/1", evidence.Failed)
	for c := range a.Cases() {
		if k := c.Correction; k != nil && (k.Number != 2 || k.Now.Score != 0 || len(k.By) != 1 || k.Lowest != evidence.Grade{}) {
			t.Errorf("%+v", k)
		}
	}
	if n := a.Faults()["correction"]; n != 2 {
		t.Errorf("%d corrections do not count, want 2: %q", n, a.Problems)
	}
}

// Corrections by hand, as with "tally ledger append", are not of the history.
func TestACorrectionByHandIsNotRead(t *testing.T) {
	b, r, m := correctedBook(t)
	b.ByHand(evidence.ScoreCorrectedKind, signCorrection(t, m, historytest.Alice))
	wantOutcome(t, read(b, Options{}).Attempt(r.Attempt), "case-01/1", evidence.Failed)
}

// An amendment after the correction may lower it, and one before may not.
func TestAmendmentsAndCorrectionsInTheirOrder(t *testing.T) {
	amend := func(b *historytest.Book, entry int64) {
		b.Add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: entry, Author: "olga", Reason: "again",
			Score: evidence.Score{Score: 0.2, Breakdown: map[string]float64{}, FailureModes: []string{}}})
	}
	for _, after := range []bool{false, true} {
		b, r, m := correctedBook(t)
		if !after {
			amend(b, m.Entry)
		}
		b.Add(evidence.ScoreCorrectedKind, signCorrection(t, m, historytest.Alice))
		if after {
			amend(b, m.Entry)
		}
		want, score := evidence.Passed, 1.0
		if after {
			want, score = evidence.Failed, 0.2
		}
		a := read(b, Options{}).Attempt(r.Attempt)
		wantOutcome(t, a, "case-01/1", want)
		for c := range a.Cases() {
			if c.ID == "case-01" && c.EffectiveScore() != score {
				t.Errorf("amended after %v: score %v, want %v", after, c.EffectiveScore(), score)
			}
		}
	}
}
