package history

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/testing/historytest"
)

// TestEveryKindOfAHistoryIsRead: a kind that evidence says is part of a history
// has a place in the reader.
func TestEveryKindOfAHistoryIsRead(t *testing.T) {
	for _, k := range evidence.Kinds() {
		if !k.InHistory() || k == evidence.CaseStartedKind || k == evidence.CaseScoredKind {
			continue // the scanner reads these two
		}
		r := NewReader(Options{Want: func(*Attempt) bool { return false }}) // an empty record has no plan to keep
		err := r.other(ledger.Record{Envelope: evidence.Envelope{Kind: k}, Body: evidence.NewBody(k)})
		if err != nil && strings.Contains(err.Error(), "nothing here reads them") {
			t.Errorf("%s: %v", k, err)
		}
	}
}

// notKept are the members of case.scored that a history leaves out, and why.
var notKept = map[string]string{
	"schema_version": "there is one",
	"paid":           "for people; \"tally show\" reads it from the record, and the end of the attempt has the sum",
	"resumed":        "for people; \"tally show\" reads it from the record",
	"preload":        "for people, as the preloader said it",
	"reason":         "for people; \"tally why\" reads it from the record",
}

// TestScanKnowsEveryMemberOfARecord: a new member of case.scored is read by
// both walks over records, or is among those that are not kept. A member that
// the fast walk does not know makes every record slow.
func TestScanKnowsEveryMemberOfARecord(t *testing.T) {
	full := sampleRecords()[1]
	full.IsolationScope = "attempt"
	full.Tags = []string{"a", "b"}
	for f, v := range reflect.ValueOf(full).Elem().Fields() {
		if v.IsZero() && f.Name != "Unanswered" { // which a case with a score never is: another sample has it
			t.Errorf("the sample has no %s: give it a value in sampleRecords", f.Name)
		}
	}
	s := newScanner()
	fields := func(c *evidence.CaseScored) any {
		t.Helper()
		if err := s.slow(c); err != nil {
			t.Fatal(err)
		}
		return comparableFields(&s.out)
	}
	before := fields(full)
	for f := range reflect.TypeFor[evidence.CaseScored]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		changed := *full
		change(t, reflect.ValueOf(&changed).Elem().FieldByIndex(f.Index))
		read := !cmp.Equal(before, fields(&changed), cmp.AllowUnexported(Context{}))
		if _, skip := notKept[name]; read == skip {
			t.Errorf("%s: the history keeps it: %v; it is listed as not kept: %v", name, read, skip)
		}
		body, err := canon.Marshal(&changed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := evidence.DecodeBody(evidence.CaseScoredKind, body); err == nil && !agree(t, s, body) {
			t.Errorf("%s: the fast walk does not know it", name)
		}
	}
	for name := range notKept {
		if !strings.Contains(string(historytest.Marshal(t, full)), `"`+name+`":`) {
			t.Errorf("%s is listed as not kept and is not a member", name)
		}
	}
}

// change gives a member another value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch p := v.Addr().Interface().(type) {
	case *evidence.Outcome:
		*p = evidence.Passed
	case *evidence.Time:
		*p = evidence.At(p.Go().Add(time.Millisecond))
	case *evidence.PolicyCount:
		p.Violations++
	case **evidence.Preload:
		n := **p
		n.Modules++
		*p = &n
	case **evidence.ToolCallCount:
		n := **p
		n.Reported++
		*p = &n
	case **evidence.NormalisedCount:
		n := **p
		n.Target++
		*p = &n
	case **evidence.User:
		n := **p
		n.Tokens++
		*p = &n
	case **evidence.Reused:
		n := **p
		n.Replies++
		*p = &n
	case **evidence.Cached:
		n := **p
		n.Calls++
		*p = &n
	case **evidence.Worker:
		n := **p
		n.Key += "x"
		*p = &n
	case **int64:
		n := **p + 1
		*p = &n
	case **evidence.Paid:
		n := **p
		n.Calls++
		*p = &n
	case *digest.ID:
		p[0]++
	case *digest.Content:
		p[0]++
	case **digest.Content:
		d := **p
		d[0]++
		*p = &d
	case *[]digest.Content:
		*p = (*p)[:1]
	case **evidence.Score:
		score := **p
		score.Score = 0.5
		*p = &score
	case *[]string:
		*p = (*p)[:1]
	case *string:
		*p += "x"
	case *bool:
		*p = !*p
	default:
		if !v.CanInt() {
			t.Fatalf("say here how a %s is changed", v.Type())
		}
		v.SetInt(v.Int() + 1)
	}
}
