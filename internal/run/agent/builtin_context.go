package agent

import (
	"fmt"
	"strconv"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// What is left of a text that does not fit, in bytes.
const (
	maxValueShown = 1 << 10 // of a memory entry in a prompt
	cutResult     = 400     // of a tool result, in a turn that is too long
	cutSpeech     = 200     // of what user and agent said in a turn long past
)

// memoryShare is the part of the budget that memory may take: a quarter.
const memoryShare = 4

// tokens estimates how many tokens so many bytes of a request are: one for
// every four, and one for what is left. Counted is the request as it is sent,
// JSON and all, so a text with many escapes is dearer than it looks.
func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// shorten keeps the beginning of a long text and says that it did.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head := clip(s, limit)
	return head + " [cut: " + strconv.Itoa(len(s)-len(head)) + " of " + strconv.Itoa(len(s)) + " bytes left out]"
}

// An exchange is a reply with calls, and their results.
type exchange struct {
	say     []byte
	results []wire.Result
	whole   []byte // say and results, encoded
	cut     []byte // the same with long results cut; made when it is needed
}

func (f *frame) newExchange(r reply, results []wire.Result) *exchange {
	say := f.run.target.API.Say(r.text, r.calls)
	whole := append(append(append([]byte{}, say...), ','), f.run.target.API.Results(results)...)
	return &exchange{say: say, results: results, whole: whole}
}

// shortened is the exchange with long results cut.
func (x *exchange) shortened(f *frame) []byte {
	if x.cut == nil {
		results := make([]wire.Result, len(x.results))
		for i, r := range x.results {
			r.Text = shorten(r.Text, cutResult)
			results[i] = r
		}
		x.cut = append(append(append([]byte{}, x.say...), ','), f.run.target.API.Results(results)...)
	}
	return x.cut
}

// A pastTurn is a turn that is over, as later requests show it.
type pastTurn struct {
	number        int
	input, answer string
	whole         []byte
	short         []byte // what was said, cut, without calls; made when it is needed
}

func (t *pastTurn) shortened(f *frame) []byte {
	if t.short == nil {
		t.short = f.run.target.API.User(shorten(t.input, cutSpeech))
		if say := f.run.target.API.Say(shorten(t.answer, cutSpeech), nil); say != nil {
			t.short = append(append(t.short, ','), say...)
		}
	}
	return t.short
}

// A prompt is a compiled context.
type prompt struct {
	body  []byte
	event trajectory.ContextCompiled
}

// compile makes the request of the next model call within the budget V_e.
//
// In the order of admission: system text, tools and the turn at hand, which
// must be there; memory, at most a quarter of the budget (procedural, working,
// then what was recalled, in its rank); history, the newest turn first. What
// does not fit is made shorter or left out in the same order every time, and
// the event says what was done. Without room for what must be there, the run
// fails: a model that is not told its task would answer another one.
func (f *frame) compile() (*prompt, error) {
	budget := f.run.budget
	p := &prompt{event: trajectory.ContextCompiled{Admitted: []string{}, Compression: []string{}, Budget: budget, Window: f.run.window}}

	system := tokens(f.systemBytes)
	toolTokens := tokens(len(f.tools))
	now, nowBytes := f.now(4*(budget-system-toolTokens), p)
	if used := system + toolTokens + tokens(nowBytes); used > budget {
		return nil, refusal.Newf(refusal.AgentFailed,
			"compiling the context of agent %s: system text, tools and this turn take %d tokens, the budget is %d (system %d, tools %d, turn %d)",
			f.name, used, budget, system, toolTokens, tokens(nowBytes)).
			WithHint("raise context.budget in the target, or give the agent fewer tools and a shorter system text")
	}

	room := 4 * (min(budget/memoryShare, budget-system-toolTokens-tokens(nowBytes)))
	memoryText := f.admitMemory(room, p)
	encodedSystem := f.encodedSystem
	if memoryText != "" {
		encodedSystem = f.envelope.System(f.system + memoryText)
	}
	memoryTokens := tokens(len(encodedSystem) - len(f.encodedSystem))

	history, historyBytes := f.admitHistory(int(4*(budget-system-toolTokens-memoryTokens))-nowBytes, p)
	p.body = f.envelope.Request(encodedSystem, append(history, now...), f.tools)

	p.event.Sections = map[string]int{"system": int(system), "memory": int(memoryTokens), "tools": int(toolTokens), "history": int(tokens(historyBytes + nowBytes))}
	for _, n := range p.event.Sections {
		p.event.Used += int64(n)
	}
	return p, nil
}

// now gives the messages of the turn at hand. If they take more than room,
// results are cut, the oldest first.
func (f *frame) now(room int64, p *prompt) (messages [][]byte, bytes int) {
	messages = append(messages, f.input)
	bytes = len(f.input) + 1
	for _, x := range f.exchanges {
		messages = append(messages, x.whole)
		bytes += len(x.whole) + 1
	}
	cut := 0
	for i, x := range f.exchanges {
		if int64(bytes) <= room {
			break
		}
		short := x.shortened(f)
		if len(short) >= len(x.whole) {
			continue
		}
		bytes += len(short) - len(x.whole)
		messages[i+1] = short
		cut++
	}
	if cut > 0 {
		p.event.Compression = append(p.event.Compression, fmt.Sprintf("cut the tool results of %d steps of this turn", cut))
	}
	return messages, bytes
}

// memoryIntro begins the part of the system text that is memory. systemFrame
// bounds what a system text of nothing but memory takes besides, in bytes.
const (
	memoryIntro = "[memory]\n"
	systemFrame = 48
)

// admitMemory gives the text of the memory that fits into room, in bytes of
// JSON. The order of the text is that of the tiers; the order of admission is
// procedural, working, recalled.
func (f *frame) admitMemory(room int64, p *prompt) string {
	m := f.run.memory
	if len(m.entries) == 0 {
		return ""
	}
	left := room - int64(len(memoryIntro)) - systemFrame
	sections := []struct {
		tier trajectory.Tier
		list []*entry
		text []byte
	}{{tier: trajectory.Procedural, list: m.of(trajectory.Procedural, 0)}, {tier: trajectory.Semantic}, {tier: trajectory.Episodic}, {tier: trajectory.Working, list: m.of(trajectory.Working, f.task)}}
	leftOut := 0
	admit := func(i int, e *entry) {
		cost := int64(e.bytes)
		if sections[i].text == nil {
			cost += int64(len(e.tier)) + int64(len(`:\n`))
		}
		if cost > left {
			leftOut++
			return
		}
		left -= cost
		if sections[i].text == nil {
			sections[i].text = append([]byte(e.tier), ":\n"...)
		}
		sections[i].text = append(sections[i].text, e.line...)
		p.event.Admitted = append(p.event.Admitted, e.id)
		if e.untrusted {
			f.saw(e.source)
		}
	}
	for _, i := range []int{0, 3} {
		for _, e := range sections[i].list {
			admit(i, e)
		}
	}
	for _, e := range f.recalled {
		if e.gone { // superseded in this turn
			continue
		}
		i := 1
		if e.tier == trajectory.Episodic {
			i = 2
		}
		admit(i, e)
	}
	if leftOut > 0 {
		p.event.Compression = append(p.event.Compression, fmt.Sprintf("left out %d memory entries", leftOut))
	}
	if len(p.event.Admitted) == 0 {
		return ""
	}
	var text []byte
	if f.system != "" {
		text = append(text, "\n\n"...)
	}
	text = append(text, memoryIntro...)
	for _, s := range sections {
		text = append(text, s.text...)
	}
	return string(text)
}

// admitHistory gives the messages of the turns before this one that fit into
// room, in bytes. If not all fit, the newest are whole in half the room, those
// before them shortened in the rest, and the oldest not there at all.
func (f *frame) admitHistory(room int, p *prompt) (messages [][]byte, bytes int) {
	whole := room
	if f.pastBytes > room {
		whole = room / 2
	}
	first := len(f.past)
	for first > 0 && bytes+len(f.past[first-1].whole)+1 <= whole {
		first--
		bytes += len(f.past[first].whole) + 1
	}
	firstWhole := first
	for first > 0 {
		size := len(f.past[first-1].shortened(f)) + 1
		if bytes+size > room {
			break
		}
		first--
		bytes += size
	}
	for i := first; i < len(f.past); i++ {
		t := f.past[i]
		if i < firstWhole {
			messages = append(messages, t.short)
		} else {
			messages = append(messages, t.whole)
		}
	}
	if first > 0 {
		p.event.Compression = append(p.event.Compression, "dropped turns "+span(f.past[0].number, f.past[first-1].number))
	}
	if first < firstWhole {
		p.event.Compression = append(p.event.Compression, "shortened turns "+span(f.past[first].number, f.past[firstWhole-1].number))
	}
	return messages, bytes
}

func span(from, to int) string {
	if from == to {
		return strconv.Itoa(from)
	}
	return strconv.Itoa(from) + " to " + strconv.Itoa(to)
}
