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
	"unicode"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
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
	notes  []evidence.WatchedText
	had    map[digest.Content]bool // those of the notes
	failed error

	// What the digest of every text is computed with.
	sha   hash.Hash
	sum   digest.ID
	chunk [1024]byte
}

// newWatcher looks for the texts of gold, those that are not empty.
func newWatcher(gold []string) *watcher {
	w := &watcher{notes: make([]evidence.WatchedText, 0, 16), had: make(map[digest.Content]bool, 16), sha: sha256.New()}
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
	if w.had[known] {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.failed = fmt.Errorf("the recorder broke: %v", p)
		}
	}()
	note := evidence.WatchedText{Bytes: int64(len(text)), Digest: known, Salted: redacted, SHA256: w.digest(text, redacted)}
	for i := range w.gold {
		w.gold[i].find(text, &note)
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
	out = strconv.AppendBool(append(out, `{"gold":`...), len(w.gold) > 0)
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
	}
	if t.Salted {
		out = append(out, `,"salted":true`...)
	}
	out, _ = t.SHA256.AppendText(append(out, `,"sha256":"`...))
	return append(out, `"}`...)
}

// A pattern finds an expected answer in a text: without regard to case, and any
// white space for any other. One of fewer than three characters must stand alone,
// as the audit wants it.
type pattern struct {
	runes []rune
	back  []int // of Knuth, Morris and Pratt: how much of a match is left after a mismatch
	alone bool

	// A part of it that a text must have byte for byte, but for the case of
	// letters, and where in it the byte is that texts seldom have. Empty if there
	// is none.
	part string
	rare int
}

// byRarity has ASCII characters, those that texts seldom have first.
const byRarity = "qzjx987654vbwyg3fpmucdlhr201sn-oat.,e"

// maxPart bounds what is compared at each place, on either side of the rare byte.
const maxPart = 16

// rarePart is the stretch of a pattern around its rarest character. White space
// may be any other and letters that are not ASCII may become i and k, so these
// end it.
func rarePart(runes []rune) (part string, rare int) {
	at := -1
	for _, c := range byRarity {
		if at = slices.Index(runes, c); at >= 0 {
			break
		}
	}
	if at < 0 {
		return "", 0
	}
	fixed := func(r rune) bool { return r > ' ' && r < utf8.RuneSelf && r != 'i' && r != 'k' }
	first, end := at, at+1
	for first > 0 && at-first < maxPart && fixed(runes[first-1]) {
		first--
	}
	for end < len(runes) && end-at <= maxPart && fixed(runes[end]) {
		end++
	}
	return string(runes[first:end]), at - first
}

// cannotBeIn reports whether a text lacks a part of the pattern. Most texts do,
// and this is much faster than looking at every character.
func (p *pattern) cannotBeIn(text string) bool {
	if p.part == "" {
		return false
	}
	for at := p.rare; at < len(text); at++ {
		next := indexFold(text[at:], p.part[p.rare])
		if next < 0 {
			return true
		}
		at += next
		if hasPrefixFold(text[at-p.rare:], p.part) {
			return false
		}
	}
	return true
}

// indexFold is where a byte, which is not an upper-case letter, stands first in
// either case; -1 if nowhere.
func indexFold(text string, lower byte) int {
	at := strings.IndexByte(text, lower)
	if lower < 'a' || lower > 'z' {
		return at
	}
	if at >= 0 {
		text = text[:at] // what is beyond would be looked through again for every match
	}
	if upper := strings.IndexByte(text, lower-'a'+'A'); upper >= 0 {
		return upper
	}
	return at
}

// hasPrefixFold compares ASCII; prefix has no upper-case letter.
func hasPrefixFold(text, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := text[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
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
	p.alone = len(p.runes) < 3
	p.part, p.rare = rarePart(p.runes)
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
				at, last = at+skip, 'x' // whatever it was, it is not white space that counts
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
	return indexFold(text, byte(first))
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
