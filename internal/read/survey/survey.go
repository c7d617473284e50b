package survey

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/trajectory"
)

const (
	// MaxBytes bounds the texts of an attempt that are kept.
	MaxBytes = 256 << 20
	// MaxCaseBytes bounds those of a case.
	MaxCaseBytes = 256 << 10
	// MaxLeft bounds the cases that are compared with an earlier run: each takes two
	// trajectories.
	MaxLeft = 2000

	maxTrajectory = 64 << 20
	maxContent    = 1 << 20 // of a whole text of which an event has the beginning
	maxTools      = 50      // of a case
	maxTool       = 100     // bytes of a tool's name
)

// A Survey is what reading the transcripts of an attempt once found. Cases are named by
// their place among [history.Attempt.Cases].
type Survey struct {
	Cases  int   // that have been looked at
	Bytes  int64 // of transcripts that were read
	Cut    int   // cases of which not all texts are kept
	Unread int   // cases whose evidence could not be read

	texts texts
	tools labels
	left  labels
}

// Size is about how much memory it takes.
func (s *Survey) Size() int64 { return s.texts.size + int64(8*s.Cases) }

// Find marks, by their places, the cases whose transcripts hold a text, however it is
// spelled in capitals and spaces.
func (s *Survey) Find(text string) []bool {
	found := make([]bool, s.Cases)
	s.texts.find([]byte(Fold(text)), found)
	return found
}

// Tools are what the case at a place called, or was seen to call.
func (s *Survey) Tools(place int) []string { return s.tools.at(place) }

// Left says in a few words where the case at a place first left the run in which it last
// passed; "" if it did not, or none is known.
func (s *Survey) Left(place int) string {
	if l := s.left.at(place); len(l) > 0 {
		return l[0]
	}
	return ""
}

// labels are lists of words by place; most cases share theirs with others.
type labels struct {
	of    []uint32 // in lists
	lists [][]string
	known map[string]uint32
}

func (l *labels) add(list []string) {
	if l.known == nil {
		l.known, l.lists = map[string]uint32{"": 0}, [][]string{nil}
	}
	key := strings.Join(list, "\x00")
	at, known := l.known[key]
	if !known {
		at = uint32(len(l.lists))
		l.known[key], l.lists = at, append(l.lists, list)
	}
	l.of = append(l.of, at)
}

func (l *labels) at(place int) []string {
	if place < 0 || place >= len(l.of) {
		return nil
	}
	return l.lists[l.of[place]]
}

// A Builder makes a Survey, a few cases at a time: who shares the reading with others
// gives way between them.
type Builder struct {
	survey  *Survey
	of      *dossier.Dossier
	next    func() (*dossier.Case, bool)
	stop    func()
	tasks   int
	passed  map[string]*dossier.Case // by the case, the newest earlier run that passed
	looked  int                      // cases compared with one
	seed    maphash.Seed
	seen    map[uint64]bool // texts of the case
	folded  []byte
	limit   int64
	perCase int
}

// Begin begins a survey of an attempt.
func Begin(d *dossier.Dossier) *Builder { return begin(d, MaxBytes, MaxCaseBytes) }

func begin(d *dossier.Dossier, limit int64, perCase int) *Builder {
	next, stop := iter.Pull(d.Cases())
	return &Builder{survey: &Survey{}, of: d, next: next, stop: stop, tasks: d.Tasks(), passed: passedBefore(d), seed: maphash.MakeSeed(), seen: map[uint64]bool{}, limit: limit, perCase: perCase}
}

// Stop lets go of what the builder holds, if it does not come to its end.
func (b *Builder) Stop() { b.stop() }

// passedBefore are the newest earlier runs of the same target in which cases passed.
func passedBefore(d *dossier.Dossier) map[string]*dossier.Case {
	wanted := map[string]digest.Content{}
	for c := range d.Attempt.Cases() {
		if c.Index >= 0 && !c.Passed() {
			wanted[c.ID] = c.Digest
		}
	}
	out := map[string]*dossier.Case{}
	for _, earlier := range slices.Backward(d.Reading().History.Attempts) {
		if len(wanted) == 0 {
			break
		}
		if earlier.Class != d.Class || earlier.Target != d.Target || earlier.Index >= d.Index {
			continue
		}
		for c := range earlier.Cases() {
			if is, ok := wanted[c.ID]; ok && c.Digest == is && c.Passed() {
				out[c.ID] = d.Reading().Dossier(earlier).Case(c)
				delete(wanted, c.ID)
			}
		}
	}
	return out
}

// Read looks at more cases until enough says so. It returns the survey when it has looked
// at all of them, and until then how many it has looked at.
func (b *Builder) Read(enough func() bool) (done *Survey, cases int) {
	for {
		c, more := b.next()
		if !more {
			return b.survey, b.survey.Cases
		}
		b.add(c)
		if enough() {
			return nil, b.survey.Cases
		}
	}
}

// add looks at the next case. What cannot be read is left out and counted: whether
// evidence is whole is for others to say.
func (b *Builder) add(c *dossier.Case) {
	s, place := b.survey, b.survey.Cases
	s.Cases++
	var tools []string
	left := ""
	if hidden, err := c.IsHidden(); c.Index >= 0 && err == nil && !hidden {
		t := &taker{b: b, room: b.room(place)}
		b.folded = b.folded[:0]
		clear(b.seen)
		if err := t.take(c); err != nil {
			s.Unread++
		}
		if t.cut {
			s.Cut++
		}
		s.texts.add(place, b.folded)
		slices.Sort(t.tools)
		tools = t.tools
		left = b.leaves(c)
	}
	s.tools.add(tools)
	if left == "" {
		s.left.add(nil)
	} else {
		s.left.add([]string{left})
	}
}

// room is how many bytes of texts the case at a place may take: four times its share of
// what is left, since most cases need less than theirs.
func (b *Builder) room(place int) int {
	left := b.limit - b.survey.texts.size
	return int(min(left, int64(b.perCase), max(4*left/int64(max(b.tasks-place, 1)), 0)))
}

// A taker takes the texts of one case.
type taker struct {
	b     *Builder
	room  int
	cut   bool
	tools []string
	kept  []digest.Content // whole texts, of which nothing was taken out
}

func (t *taker) take(c *dossier.Case) error {
	files, err := c.Files()
	if err != nil {
		return err
	}
	data, err := c.Dossier().Reading().PieceUpTo(files.Trajectory.Digest, maxTrajectory)
	if err != nil {
		return err
	}
	t.b.survey.Bytes += int64(len(data))
	t.events(data)
	for _, d := range files.Contents {
		if len(t.kept) == 0 || t.cut {
			break
		}
		if !slices.Contains(t.kept, d) {
			continue
		}
		whole, err := c.Dossier().Reading().Piece(d)
		if err != nil {
			return err
		}
		t.b.survey.Bytes += int64(len(whole))
		t.text(whole[:min(len(whole), maxContent)])
		t.cut = t.cut || len(whole) > maxContent
	}
	return nil
}

// events takes the texts of all events. A digest is not a text.
func (t *taker) events(data []byte) {
	for len(data) > 0 {
		line := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		t.event(line)
	}
}

var (
	typeName  = []byte(`"type":"`)
	redacted  = []byte(`"redacted":true`)
	truncated = []byte(`"truncated":true`)
)

// typeOf is the type of an event: the last member of its frame.
func typeOf(line []byte) trajectory.Type {
	i := bytes.LastIndex(line, typeName)
	if i < 0 {
		return ""
	}
	name, _, _ := bytes.Cut(line[i+len(typeName):], []byte(`"`))
	return trajectory.Type(name)
}

func (t *taker) event(line []byte) {
	typ := typeOf(line)
	called := typ == trajectory.ToolExecutedType || typ == trajectory.ToolObservedType || typ == trajectory.ToolProposedType
	whole := bytes.Contains(line, truncated) && !bytes.Contains(line, redacted)
	s := scanner{data: line}
	for {
		name, text, ok := s.next()
		if !ok {
			return
		}
		switch {
		case typ == trajectory.RunStartedType && string(name) != "head": // names that all cases share
		case string(name) == "digest":
			if d, err := digest.ParseContent(string(text)); whole && err == nil {
				t.kept = append(t.kept, d)
			}
		case bytes.HasPrefix(text, []byte("blake3:")) || bytes.HasPrefix(text, []byte("sha256:")):
		default:
			if called && string(name) == "name" {
				t.tool(string(text[:min(len(text), maxTool)]))
			}
			t.text(text)
		}
	}
}

func (t *taker) tool(name string) {
	if len(t.tools) < maxTools && !slices.Contains(t.tools, name) {
		t.tools = append(t.tools, strings.ToValidUTF8(name, "\uFFFD"))
	}
}

// text takes a text, unless the case has said the same before.
func (t *taker) text(text []byte) {
	if len(text) == 0 {
		return
	}
	b := t.b
	sum := maphash.Bytes(b.seed, text)
	if b.seen[sum] {
		return
	}
	b.seen[sum] = true
	if len(b.folded) > 0 {
		b.folded = append(b.folded, between)
	}
	room := t.room - len(b.folded)
	if room <= 0 {
		b.folded, t.cut = b.folded[:min(len(b.folded), max(t.room, 0))], true
		return
	}
	before := len(b.folded)
	b.folded = fold(b.folded, text, room)
	if len(b.folded) > t.room { // it ended within a letter
		b.folded = b.folded[:t.room]
	}
	t.cut = t.cut || len(b.folded)-before >= room && len(text) >= room
}

// leaves says where a case that did not pass left the run in which it last passed.
func (b *Builder) leaves(c *dossier.Case) string {
	was := b.passed[c.ID]
	if c.Passed() || was == nil || b.looked >= MaxLeft {
		return ""
	}
	if hidden, err := was.IsHidden(); err != nil || hidden {
		return ""
	}
	b.looked++
	before, err := was.Trajectory()
	if err != nil {
		return ""
	}
	now, err := c.Trajectory()
	if err != nil {
		return ""
	}
	return Parting(before, now)
}

// Parting is the first step in which a run departs from another, in a few words that many
// cases may share: "changed arguments: call find_order".
func Parting(before, now *trajectory.Verified) string {
	check := outline.Between(before, now)
	if len(check.Differences) == 0 {
		if len(check.Prompts) > 0 {
			return "other prompt"
		}
		return ""
	}
	d := check.Differences[0]
	move := d.Got
	if move == nil {
		move = d.Golden
	}
	words := strings.ReplaceAll(string(d.Change), "_", " ") + ": " + move.Kind
	if what := strings.Trim(move.What, `"`); what != "" {
		words += " " + what[:min(len(what), maxTool)]
	}
	return strings.ToValidUTF8(words, "\uFFFD")
}
