package history

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/historytest"
)

// reviewedBook has an attempt with three records, and a label for the first that
// is not signed yet.
func reviewedBook(t *testing.T) (*historytest.Book, *evidence.AttemptRegistered, *evidence.ReviewLabelled) {
	b, r, m := correctedBook(t)
	var c *Case
	for x := range read(b, Options{}).Attempt(r.Attempt).Cases() {
		if x.Index == m.Entry {
			c = x
		}
	}
	return b, r, &evidence.ReviewLabelled{Origin: m.Origin, Attempt: m.Attempt, CaseID: m.CaseID, Repeat: 1, Entry: m.Entry, Head: m.Head, Seen: c.Evidence[0],
		Question: "Is the fix right?", Label: "fail", Number: 1}
}

func signReview(t *testing.T, m *evidence.ReviewLabelled, key byte, ns seal.Namespace) *evidence.ReviewLabelled {
	t.Helper()
	signed := *m
	message, err := m.Message()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := seal.SignWith(historytest.Key(t, key).Signer(), ns, message)
	if err != nil {
		t.Fatal(err)
	}
	signed.Signature = string(sig)
	return &signed
}

func TestALabelStandsBesideItsRecordAndChangesNoScore(t *testing.T) {
	b, r, m := reviewedBook(t)
	first := b.Add(evidence.ReviewLabelledKind, signReview(t, m, historytest.Alice, seal.NamespaceReview))
	m.Number, m.Label = 2, "pass"
	second := b.Add(evidence.ReviewLabelledKind, signReview(t, m, historytest.Alice, seal.NamespaceReview))
	h := read(b, Options{Marks: true})
	a := h.Attempt(r.Attempt)
	got := h.Reviews(a)
	if len(got) != 2 || got[0].Index != first || !got[0].Superseded || got[0].Counts() || got[1].Index != second || !got[1].Counts() ||
		got[1].By != "alice@example.com" || got[1].Key != historytest.Key(t, historytest.Alice).Public().Fingerprint() || got[1].OwnRunner {
		t.Errorf("%+v", got)
	}
	wantOutcome(t, a, "case-01/1", evidence.Failed)
	then, ok := h.At(second)
	if !ok {
		t.Fatal("the history before the second label cannot be told")
	}
	if got := then.Reviews(then.Attempt(r.Attempt)); len(got) != 1 || !got[0].Counts() {
		t.Errorf("before the second label: %+v", got)
	}
}

// Each row is a label that does not count, although the operator appended it.
func TestForgedLabelsDoNotCount(t *testing.T) {
	const alice, olga, stranger = historytest.Alice, historytest.Olga, 99
	for _, tt := range []struct {
		name  string
		edit  func(m *evidence.ReviewLabelled)
		key   byte
		ns    seal.Namespace
		after func(m *evidence.ReviewLabelled)
		want  string
	}{
		{name: "signed by the operator", key: olga, want: "needs 1 of alice@example.com"},
		{name: "signed by a stranger", key: stranger, want: "signature 1 of 1"},
		{name: "signed as a correction", key: alice, ns: seal.NamespaceCorrection, want: "tallystick-correction"},
		{name: "another label after signing", key: alice, after: func(m *evidence.ReviewLabelled) { m.Label = "pass" }, want: "signature 1 of 1"},
		{name: "blind after signing", key: alice, after: func(m *evidence.ReviewLabelled) { m.Blind = true }, want: "signature 1 of 1"},
		{name: "another question after signing", key: alice, after: func(m *evidence.ReviewLabelled) { m.Question = "Is it wrong?" }, want: "signature 1 of 1"},
		{name: "a note added after signing", key: alice, after: func(m *evidence.ReviewLabelled) { m.Note = "very good" }, want: "signature 1 of 1"},
		{name: "for another ledger", edit: func(m *evidence.ReviewLabelled) { m.Origin = "example.com/other" }, key: alice, want: "signed for the ledger example.com/other"},
		{name: "of another history", edit: func(m *evidence.ReviewLabelled) { m.Head = digest.IDOf([]byte("another")) }, key: alice, want: "signed for the head"},
		{name: "of another case", edit: func(m *evidence.ReviewLabelled) { m.CaseID = "case-03" }, key: alice, want: "is of case case-01"},
		{name: "of another repetition", edit: func(m *evidence.ReviewLabelled) { m.Repeat = 2 }, key: alice, want: "is of case case-01"},
		{name: "of a record to come", edit: func(m *evidence.ReviewLabelled) { m.Entry = 1000 }, key: alice, want: "is not a record"},
		{name: "of other evidence", edit: func(m *evidence.ReviewLabelled) { m.Seen = digest.ContentOf([]byte("another")) }, key: alice, want: "not that of the record"},
		{name: "the second before the first", edit: func(m *evidence.ReviewLabelled) { m.Number = 2 }, key: alice, want: "would be number 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, r, m := reviewedBook(t)
			if tt.edit != nil {
				tt.edit(m)
			}
			if tt.ns == "" {
				tt.ns = seal.NamespaceReview
			}
			signed := signReview(t, m, tt.key, tt.ns)
			if tt.after != nil {
				tt.after(signed)
			}
			b.Add(evidence.ReviewLabelledKind, signed)
			h := read(b, Options{})
			got := h.Reviews(h.Attempt(r.Attempt))
			if len(got) != 1 || got[0].Counts() || !strings.Contains(got[0].Problem, tt.want) {
				t.Errorf("%+v, want one that does not count: %s", got, tt.want)
			}
		})
	}
}

// A label that its person took back does not come back because the operator appends
// its signed bytes again.
func TestALabelIsNotReplayed(t *testing.T) {
	b, r, m := reviewedBook(t)
	old := signReview(t, m, historytest.Alice, seal.NamespaceReview)
	b.Add(evidence.ReviewLabelledKind, old)
	m.Number, m.Label = 2, "pass"
	b.Add(evidence.ReviewLabelledKind, signReview(t, m, historytest.Alice, seal.NamespaceReview))
	b.Add(evidence.ReviewLabelledKind, old)
	h := read(b, Options{})
	got := h.Reviews(h.Attempt(r.Attempt))
	if len(got) != 3 || got[0].Counts() || !got[1].Counts() || got[1].Label != "pass" || !strings.Contains(got[2].Problem, "do not come twice") {
		t.Errorf("%+v", got)
	}
}
