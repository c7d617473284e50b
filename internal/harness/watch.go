package harness

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
)

// A watcher notes of each text of a case, while it passes whole, what cannot be
// had later: its SHA-256 with the secrets that are taken out, and where in it the
// expected answer stands. The session that shows it the texts never learns the
// answer.
//
// A watcher that fails must not fail the case: what it noted is dropped, an event
// says so, and the attempt cannot be submitted.
type watcher struct {
	gold   []pattern
	notes  map[digest.Content]evidence.WatchedText
	failed error
}

// newWatcher looks for the texts of gold, those that are not empty.
func newWatcher(gold []string) *watcher {
	w := &watcher{notes: map[digest.Content]evidence.WatchedText{}}
	for _, text := range gold {
		if p := newPattern(text); p.runes != nil {
			w.gold = append(w.gold, p)
		}
	}
	return w
}

// see is for session.Config.Watch, which calls it with one text after the other.
func (w *watcher) see(text string, known digest.Content, redacted bool) {
	if w.failed != nil {
		return
	}
	if _, had := w.notes[known]; had {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.failed = fmt.Errorf("the recorder broke: %v", p)
		}
	}()
	note := evidence.WatchedText{Bytes: int64(len(text)), Digest: known, Salted: redacted}
	h := sha256.New()
	if redacted {
		var salt [32]byte
		rand.Read(salt[:])
		h.Write(salt[:])
	}
	h.Write([]byte(text))
	h.Sum(note.SHA256[:0])
	for _, p := range w.gold {
		p.find(text, &note)
	}
	w.notes[known] = note
}

// document is what was noted, for the evidence: an [evidence.Watched] in canonical
// JSON. It is written by hand, because a case has dozens of texts and writing them
// by reflection took longer than noting them; a test compares the two.
func (w *watcher) document() ([]byte, error) {
	if w.failed != nil {
		return nil, w.failed
	}
	notes := make([]evidence.WatchedText, 0, len(w.notes))
	for _, note := range w.notes {
		notes = append(notes, note)
	}
	slices.SortFunc(notes, func(a, b evidence.WatchedText) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	out := make([]byte, 0, 64+256*len(notes))
	out = strconv.AppendBool(append(out, `{"gold":`...), len(w.gold) > 0)
	out = append(out, `,"texts":[`...)
	for i := range notes {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNote(out, &notes[i])
	}
	return append(strconv.AppendInt(append(out, `],"v":`...), evidence.WatchedVersion, 10), '}'), nil
}

func appendNote(out []byte, t *evidence.WatchedText) []byte {
	out = strconv.AppendInt(append(out, `{"bytes":`...), t.Bytes, 10)
	out = append(append(append(out, `,"digest":"`...), t.Digest.String()...), '"')
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
	}
	if t.Salted {
		out = append(out, `,"salted":true`...)
	}
	return append(append(append(out, `,"sha256":"`...), t.SHA256.String()...), `"}`...)
}

// A pattern finds an expected answer in a text: without regard to case, and any
// white space for any other. One of fewer than three characters must stand alone,
// as the audit wants it.
type pattern struct {
	runes []rune
	back  []int // of Knuth, Morris and Pratt: how much of a match is left after a mismatch
	alone bool
	rare  [][2]byte // its rarest characters, in both cases: a text without one of them has no match
}

// byRarity has ASCII characters, those that texts seldom have first. White space
// may be any other, and letters that are not ASCII may become i and k.
const byRarity = "qzjx987654vbwyg3fpmucdlhr201sn-oat.,e"

// rarest are at most four: each is looked for in the whole text.
func rarest(runes []rune) (out [][2]byte) {
	for _, c := range byRarity {
		if len(out) < 4 && slices.Contains(runes, c) {
			out = append(out, [2]byte{byte(c), byte(unicode.ToUpper(c))})
		}
	}
	return out
}

// cannotBeIn reports whether a text lacks a character of the pattern. Most texts
// do, and this is much faster than looking at every character.
func (p *pattern) cannotBeIn(text string) bool {
	for _, c := range p.rare {
		if strings.IndexByte(text, c[0]) < 0 && (c[0] == c[1] || strings.IndexByte(text, c[1]) < 0) {
			return true
		}
	}
	return false
}

func newPattern(gold string) pattern {
	gold = strings.ToLower(strings.TrimSpace(gold))
	for _, quote := range []string{`"`, `'`} {
		if len(gold) > 1 && strings.HasPrefix(gold, quote) && strings.HasSuffix(gold, quote) {
			gold = gold[1 : len(gold)-1]
			break
		}
	}
	p := pattern{runes: []rune(strings.Join(strings.Fields(gold), " "))}
	if len(p.runes) == 0 {
		return pattern{}
	}
	p.alone, p.rare = len(p.runes) < 3, rarest(p.runes)
	p.back = make([]int, len(p.runes)+1)
	for i, k := 1, 0; i < len(p.runes); i++ {
		for k > 0 && p.runes[i] != p.runes[k] {
			k = p.back[k]
		}
		if p.runes[i] == p.runes[k] {
			k++
		}
		p.back[i+1] = k
	}
	return p
}

// find notes where the pattern begins in a text, in one pass over it.
func (p *pattern) find(text string, note *evidence.WatchedText) {
	if p.cannotBeIn(text) {
		return
	}
	starts := make([]int, len(p.runes)) // of the last runes, by their number
	before := make([]rune, len(p.runes)+1)
	n, k, last := 0, 0, ' '
	for at := 0; at < len(text); {
		if k == 0 && !p.alone {
			skip := p.skip(text[at:])
			if skip < 0 {
				return
			}
			if skip > 0 {
				at, last = at+skip, 'x' // whatever it was, it is no white space that counts
				if r, _ := utf8.DecodeLastRuneInString(text[:at]); unicode.IsSpace(r) {
					last = ' '
				}
			}
		}
		r, size := utf8.DecodeRuneInString(text[at:])
		r = unicode.ToLower(r)
		if unicode.IsSpace(r) {
			r = ' '
			if last == ' ' {
				at += size
				continue
			}
		}
		starts[n%len(starts)] = at
		before[n%len(before)] = last
		for k > 0 && r != p.runes[k] {
			k = p.back[k]
		}
		if r == p.runes[k] {
			k++
		}
		n, at, last = n+1, at+size, r
		if k < len(p.runes) {
			continue
		}
		k = p.back[k]
		first := n - len(p.runes)
		if p.alone && !(standsApart(before[first%len(before)]) && standsApart(nextRune(text[at:]))) {
			continue
		}
		addHit(note, int64(starts[first%len(starts)]))
	}
}

// skip is how many bytes come before the first that the pattern may begin with,
// -1 if there is none. Most texts have few of them, and this is much faster than
// looking at every character.
func (p *pattern) skip(text string) int {
	first := p.runes[0]
	if first >= utf8.RuneSelf || strings.ContainsRune("ik", first) {
		return 0 // letters that are not ASCII may become these
	}
	lower := strings.IndexByte(text, byte(first))
	upper := -1
	if big := unicode.ToUpper(first); big != first {
		if lower >= 0 {
			text = text[:lower]
		}
		upper = strings.IndexByte(text, byte(big))
	}
	if upper >= 0 {
		return upper
	}
	return lower
}

// addHit keeps the offsets in order, of several answers too, and counts all.
func addHit(note *evidence.WatchedText, at int64) {
	i, had := slices.BinarySearch(note.Hits, at)
	if had {
		return
	}
	note.HitCount++
	if i < evidence.MaxGoldHits {
		note.Hits = slices.Insert(note.Hits, i, at)[:min(len(note.Hits)+1, evidence.MaxGoldHits)]
	}
}

func nextRune(text string) rune {
	if text == "" {
		return ' '
	}
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.ToLower(r)
}

func standsApart(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }

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
