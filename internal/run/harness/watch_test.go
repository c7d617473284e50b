package harness

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/faultfs"
)

// TestWatcherFindsTheAnswerWhereverItStands: in the spellings of package sight, far
// behind any head, and bounded in what it notes.
func TestWatcherFindsTheAnswerWhereverItStands(t *testing.T) {
	far := strings.Repeat("nothing here. ", 10_000)
	for i, tt := range []struct {
		gold, text string
		want       []int64
	}{
		{"Paris", "It is paris, PARIS and Paris", []int64{6, 13, 23}},
		{"Paris", far + "PARIS", []int64{int64(len(far))}},
		{"Paris", far + "p a r i s", []int64{int64(len(far))}},
		{"Paris", far + "UGFyaXM=", []int64{int64(len(far))}},
		{"Paris", far + "P\u0430ris", []int64{int64(len(far))}},
		{"17", "17 171 x17 (17) 17", []int64{0, 12, 16}},
		{"7", "17 7. a7", []int64{3}},
		{"Paris", "Parisian", nil},
		{"", "", nil},
	} {
		w := newWatcher("Which town lies on the river that the old map calls the long one?", []string{tt.gold})
		w.see(tt.text, digest.ContentOf([]byte{byte(i)}), false)
		if note := w.notes[0]; !slices.Equal(note.Hits, tt.want) || note.HitCount != int64(len(tt.want)) {
			t.Errorf("%q in %.40q: %v of %d, want %v", tt.gold, tt.text, note.Hits, note.HitCount, tt.want)
		}
	}
	w := newWatcher("Which town lies on the river that the old map calls the long one?", []string{"Paris"})
	w.see(strings.Repeat("Paris ", 1000), digest.ContentOf([]byte("many")), false)
	if many := w.notes[0]; many.HitCount != 1000 || len(many.Hits) != evidence.MaxGoldHits || many.Hits[63] != 378 {
		t.Errorf("%d hits, %d kept, the last at %d", many.HitCount, len(many.Hits), many.Hits[63])
	}
}

func TestWatcherNotesTheDigestOfTheWholeText(t *testing.T) {
	w := newWatcher("Which town lies on the river that the old map calls the long one?", nil)
	for i, n := range []int{0, 1, 1023, 1024, 1025, 100_000} {
		text := strings.Repeat("x", n)
		w.see(text, digest.ContentOf([]byte(text)), false)
		if got, want := w.notes[i].SHA256, digest.IDOf([]byte(text)); got != want || w.notes[i].Bytes != int64(n) {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

func TestWatcherThatBreaksLeavesTheCaseAlone(t *testing.T) {
	w := newWatcher("Which town lies on the river that the old map calls the long one?", []string{"answer"})
	w.see("the answer", digest.ContentOf([]byte("1")), false)
	w.gold = nil
	w.see("the answer", digest.ContentOf([]byte("2")), false) // looks where nothing is
	w.see("the answer", digest.ContentOf([]byte("3")), false)
	if _, err := w.document(); err == nil || !strings.Contains(err.Error(), "the recorder broke") {
		t.Errorf("%v, with %d notes", err, len(w.notes))
	}
}

// TestDigestOfASecretCannotBeGuessed: the same text gives another digest each
// time, and says so.
func TestDigestOfASecretCannotBeGuessed(t *testing.T) {
	text, known := "key sk-secret", digest.ContentOf([]byte("key [REDACTED]"))
	var seen []digest.ID
	for range 2 {
		w := newWatcher("Which town lies on the river that the old map calls the long one?", nil)
		w.see(text, known, true)
		seen = append(seen, w.notes[0].SHA256)
		if !w.notes[0].Salted {
			t.Error("it does not say that it is salted")
		}
	}
	if plain := digest.ID(sha256.Sum256([]byte(text))); seen[0] == seen[1] || seen[0] == plain {
		t.Errorf("%v of %s", seen, plain)
	}
}

// TestTheQuestionBesideTheAnswerIsNoted: the audit sees a beginning of a text, and
// what lies beyond it only through this.
func TestTheQuestionBesideTheAnswerIsNoted(t *testing.T) {
	const asked = "Which town lies on the river that the old map calls the long one?"
	far := strings.Repeat("fog and gulls ", 900)
	for text, want := range map[string]bool{
		far + asked + " Answer: Paris": true,
		asked + far + "Paris":          true,
		base64.StdEncoding.EncodeToString([]byte(far + strings.ToUpper(asked) + " Paris, they say, so it was.")): true,
		far + "The town is Paris": false,
	} {
		w := newWatcher(asked, []string{"Paris"})
		w.see(text, digest.ContentOf([]byte(text)), false)
		if n := w.notes[0]; n.HitCount == 0 || n.Question == nil || *n.Question != want {
			t.Errorf("%.40q…: %+v, want %v", text, n, want)
		}
	}
	w := newWatcher(asked, []string{"Paris"})
	if w.see(asked, digest.ContentOf(nil), false); w.notes[0].Question != nil {
		t.Errorf("a text without the answer: %+v", w.notes[0])
	}
}

func TestNotesAreWrittenCanonically(t *testing.T) {
	w := newWatcher("Which town lies on the river that the old map calls the long one?", []string{"answer"})
	for i, text := range []string{"the answer, an answer", "nothing", "", strings.Repeat("answer", 100), "secret answer"} {
		w.see(text, digest.ContentOf([]byte{byte(i)}), i == 4)
	}
	got, err := w.document()
	if err != nil {
		t.Fatal(err)
	}
	var read evidence.Watched
	if err := canon.UnmarshalCanonical(got, &read); err != nil || read.Validate() != nil || len(read.Texts) != 5 {
		t.Errorf("%v, %v: %s", err, read.Validate(), got)
	}
	if none, _ := newWatcher("Which town lies on the river that the old map calls the long one?", nil).document(); string(none) != `{"gold":false,"texts":[],"v":"1-draft"}` {
		t.Errorf("%s", none)
	}
}

// watched reads what was noted of each case.
func (p *place) watched(disk store.FS) (notes map[string]*evidence.Watched, missing []string) {
	p.t.Helper()
	vault := store.OpenVault(disk, filepath.Join(p.dir, "evidence"))
	notes = map[string]*evidence.Watched{}
	for _, r := range p.records(evidence.CaseScoredKind) {
		record := r.Body.(*evidence.CaseScored)
		var files evidence.CaseFiles
		read := func(d digest.Content, v any) {
			data, err := vault.Get(d, 1<<20)
			if err == nil {
				err = canon.UnmarshalCanonical(data, v)
			}
			if err != nil {
				p.t.Fatal(err)
			}
		}
		read(record.EvidenceDigests[0], &files)
		if files.Watch == nil {
			missing = append(missing, record.CaseID)
			continue
		}
		w := &evidence.Watched{}
		read(*files.Watch, w)
		if err := w.Validate(); err != nil {
			p.t.Fatal(err)
		}
		notes[record.CaseID] = w
	}
	return notes, missing
}

func recording(s *setup) { s.Spec.SubmitIntent, s.Spec.Recording = true, evidence.RecordHeads }

func TestAttemptIsRecordedAsPlanned(t *testing.T) {
	p := newPlace(t, sums(3)...)
	if _, err := p.run(context.Background(), recording); err != nil {
		t.Fatal(err)
	}
	plan := p.records(evidence.AttemptRegisteredKind)[0].Body.(*evidence.AttemptRegistered).Plan
	notes, missing := p.watched(store.OS{})
	if len(notes) != 3 || len(missing) > 0 || !plan.SubmitIntent || plan.Recording != evidence.RecordHeads {
		t.Fatalf("%d noted, missing %v, plan %+v", len(notes), missing, plan)
	}
	answer := sha256.Sum256([]byte("4"))
	i := slices.IndexFunc(notes["case-000002"].Texts, func(w evidence.WatchedText) bool { return w.SHA256 == answer })
	if i < 0 || !notes["case-000002"].Gold || !slices.Equal(notes["case-000002"].Texts[i].Hits, []int64{0}) {
		t.Errorf("the answer was not noted: %+v", notes["case-000002"])
	}
}

// TestDiskThatFailsCostsTheRecordingOnly: a write of evidence that fails leaves an
// event, and the attempt has every case; without a recording it stops, as before.
func TestDiskThatFailsCostsTheRecordingOnly(t *testing.T) {
	probe := newPlace(t, sums(4)...)
	clean := faultfs.New(probe.dir)
	if _, err := probe.run(context.Background(), func(s *setup) { recording(s); s.Disk, s.Spec.Jobs = clean, 1 }); err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(clean.Log(), func(op string) bool { return strings.HasPrefix(op, "writeat") }) // the pack's header
	for _, kind := range []faultfs.Kind{faultfs.FailBefore, faultfs.FailAfter, faultfs.Short} {
		t.Run(kind.String(), func(t *testing.T) {
			p := newPlace(t, sums(4)...)
			disk := faultfs.New(p.dir)
			disk.Inject(faultfs.Fault{At: first + 5, Kind: kind}) // a write of the second case
			s, err := p.run(context.Background(), func(s *setup) { recording(s); s.Disk, s.Spec.Jobs = disk, 1 })
			if err != nil || !disk.Hit() || s.Outcomes[evidence.Passed] != 4 || !s.Finished {
				t.Fatalf("%+v, %v, hit %v\n%s", s, err, disk.Hit(), strings.Join(disk.Log(), "\n"))
			}
			var events []string
			for _, r := range p.records(evidence.IntegrityEventKind) {
				e := r.Body.(*evidence.IntegrityEvent)
				events = append(events, fmt.Sprint(e.Name, " ", e.Severity))
			}
			if !slices.Equal(events, []string{RecordingFailed + " block"}) {
				t.Errorf("events %v", events)
			}
		})
	}
}

// TestEveryWriteOfEvidenceMayFail: wherever it does, either the attempt has every
// case, and an event for each that has no notes, or it has stopped, and goes on
// with nothing lost.
func TestEveryWriteOfEvidenceMayFail(t *testing.T) {
	const n = 2
	probe := newPlace(t, sums(n)...)
	clean := faultfs.New(probe.dir)
	if _, err := probe.run(context.Background(), func(s *setup) { recording(s); s.Disk, s.Spec.Jobs = clean, 1 }); err != nil {
		t.Fatal(err)
	}
	stopped, without := 0, 0
	for at, op := range clean.Log() {
		if !strings.HasPrefix(op, "writeat") && !strings.HasPrefix(op, "sync ") {
			continue
		}
		for _, kind := range []faultfs.Kind{faultfs.FailBefore, faultfs.NoSpace} {
			p := newPlace(t, sums(n)...)
			disk := faultfs.New(p.dir)
			disk.Inject(faultfs.Fault{At: at, Kind: kind})
			s, err := p.run(context.Background(), func(s *setup) { recording(s); s.Disk, s.Spec.Jobs = disk, 1 })
			disk = disk.Crash() // without its fault, and with space
			if err != nil {
				stopped++
				begun := len(p.records(evidence.AttemptRegisteredKind)) > 0
				s, err = p.run(context.Background(), func(s *setup) { recording(s); s.Disk, s.Spec.Jobs, s.Spec.Resume = disk, 1, begun })
			}
			if err != nil || !s.Finished || s.Outcomes[evidence.Passed] != n {
				t.Fatalf("%s at %d (%s): %+v, %v", kind, at, op, s, err)
			}
			notes, missing := p.watched(disk)
			without += len(missing)
			if events := p.records(evidence.IntegrityEventKind); len(events) != len(missing) || len(notes)+len(missing) != n {
				t.Errorf("%s at %d (%s): %d events, %d cases without notes: %v", kind, at, op, len(events), len(missing), missing)
			}
		}
	}
	if stopped == 0 || without == 0 {
		t.Errorf("%d attempts stopped, %d cases went without notes: nothing was tried", stopped, without)
	}
}

// TestFullLedgerStopsARecordedAttempt: what blocks must be in the ledger, so an
// attempt whose ledger is full does not go on without it.
func TestFullLedgerStopsARecordedAttempt(t *testing.T) {
	p := newPlace(t, sums(3)...)
	n := &notebook{full: 4}
	run := func(resume bool) (*Summary, error) {
		return p.run(context.Background(), func(s *setup) { recording(s); inNotebook(t, n)(s); s.Spec.Resume = resume })
	}
	if s, err := run(false); !refusal.Is(err, refusal.DiskFull) || s.Finished {
		t.Fatalf("a full ledger: %+v, %v", s, err)
	}
	n.full = 0
	if s, err := run(true); err != nil || !s.Finished || s.Outcomes[evidence.Passed] != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
}
