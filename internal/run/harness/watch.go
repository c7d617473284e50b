package harness

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/run/sight"
)

// A watcher notes of each text of a case, while it passes whole, what cannot be
// had later: its SHA-256 with the secrets that are taken out, and where in it the
// expected answer stands. The session that shows it the texts never learns the
// answer.
//
// A watcher that fails must not fail the case: what it noted is dropped, an event
// says so, and the attempt cannot be submitted.
type watcher struct {
	gold   *sight.Search
	asked  sight.Question
	notes  []evidence.WatchedText
	had    map[digest.Content]bool // those of the notes
	failed error

	// What the digest of every text is computed with.
	sha   hash.Hash
	sum   digest.ID
	chunk [1024]byte
	text  []byte // a copy of the one that is looked through
}

// newWatcher looks for the texts of gold, those that are not empty, and beside them for
// the question.
func newWatcher(question string, gold []string) *watcher {
	return &watcher{gold: sight.NewSearch(gold...), asked: sight.NewQuestion(question), notes: make([]evidence.WatchedText, 0, 16), had: make(map[digest.Content]bool, 16), sha: sha256.New()}
}

// see is for session.Config.Watch, which calls it with one text after the other.
func (w *watcher) see(text string, known digest.Content, redacted bool) {
	if w.failed != nil {
		return
	}
	if w.had[known] {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.failed = fmt.Errorf("the recorder broke: %v", p)
		}
	}()
	note := evidence.WatchedText{Bytes: int64(len(text)), Digest: known, Salted: redacted, SHA256: w.digest(text, redacted)}
	if w.gold.Any() {
		w.text = append(w.text[:0], text...)
		hits := w.gold.Find(w.text)
		note.HitCount, note.Hits = int64(len(hits)), hits[:min(len(hits), evidence.MaxGoldHits)]
		if len(hits) > 0 {
			beside := w.asked.IsIn(w.text)
			note.Question = &beside
		}
	}
	w.notes = append(w.notes, note)
	w.had[known] = true
}

// digest is the SHA-256 of a text, with random bytes before it if it is salted.
// The text goes through a small buffer: a copy of each would be half of what
// recording allocates.
func (w *watcher) digest(text string, salted bool) digest.ID {
	w.sha.Reset()
	if salted {
		salt := w.chunk[:32]
		rand.Read(salt)
		w.sha.Write(salt)
	}
	for len(text) > 0 {
		n := copy(w.chunk[:], text)
		w.sha.Write(w.chunk[:n])
		text = text[n:]
	}
	w.sha.Sum(w.sum[:0])
	return w.sum
}

// document is what was noted, for the evidence: an [evidence.Watched] in canonical
// JSON. It is written by hand, because a case has dozens of texts and writing them
// by reflection took longer than noting them; a test compares the two.
func (w *watcher) document() ([]byte, error) {
	if w.failed != nil {
		return nil, w.failed
	}
	slices.SortFunc(w.notes, func(a, b evidence.WatchedText) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	out := make([]byte, 0, 64+256*len(w.notes))
	out = strconv.AppendBool(append(out, `{"gold":`...), w.gold.Any())
	out = append(out, `,"texts":[`...)
	for i := range w.notes {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNote(out, &w.notes[i])
	}
	return append(out, `],"v":"`+format.Version+`"}`...), nil
}

func appendNote(out []byte, t *evidence.WatchedText) []byte {
	out = strconv.AppendInt(append(out, `{"bytes":`...), t.Bytes, 10)
	out, _ = t.Digest.AppendText(append(out, `,"digest":"`...))
	out = append(out, '"')
	if t.HitCount > 0 {
		out = strconv.AppendInt(append(out, `,"hit_count":`...), t.HitCount, 10)
		for i, at := range t.Hits {
			sep := ","
			if i == 0 {
				sep = `,"hits":[`
			}
			out = strconv.AppendInt(append(out, sep...), at, 10)
		}
		out = append(out, ']')
		if t.Question != nil {
			out = strconv.AppendBool(append(out, `,"question":`...), *t.Question)
		}
	}
	if t.Salted {
		out = append(out, `,"salted":true`...)
	}
	out, _ = t.SHA256.AppendText(append(out, `,"sha256":"`...))
	return append(out, `"}`...)
}

// keepWatch puts what was noted into the evidence, or says that it could not be.
func (r *run) keepWatch(g *Graded) error {
	if r.watch == nil {
		return nil
	}
	data, err := r.watch.document()
	if err == nil {
		g.Files.Watch = g.put(data)
		return nil
	}
	return r.lostWatch(g, err)
}

// RecordingFailed is the name of the event that says so: what was noted of a case
// is not whole, and the attempt cannot be submitted.
const RecordingFailed = "evidence.recording_failed"

func (r *run) lostWatch(g *Graded, why error) error {
	e, err := recordingFailed(r.job.Attempt, r.c.ID, r.job.Repeat, why)
	if err == nil {
		r.cross(g, e)
	}
	return err
}

func recordingFailed(attempt, id string, repeat int, why error) (evidence.IntegrityEvent, error) {
	return boundary(RecordingFailed, evidence.Block, fmt.Sprintf("case %s: %s; without its notes the attempt cannot be submitted", id, head(strings.ToValidUTF8(why.Error(), "\uFFFD"), 500)),
		map[string]any{"attempt": attempt, "case": id, "repeat": repeat})
}

// leaveOut takes what was noted out of the evidence of a case, whose index is made
// anew.
func (g *Graded) leaveOut() error {
	watch, index := *g.Files.Watch, g.Record.EvidenceDigests[0]
	g.Pieces = slices.DeleteFunc(g.Pieces, func(p []byte) bool { d := digest.ContentOf(p); return d == watch || d == index })
	g.Files.Watch = nil
	return g.close()
}
