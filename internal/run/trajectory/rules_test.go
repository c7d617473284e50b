package trajectory

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/rules"
)

var formats = filepath.Join("..", "..", "..", "docs", "formats")

// eventRules are the rules in the tree.
func eventRules(t testing.TB) *rules.File {
	t.Helper()
	f, err := rules.Load(filepath.Join(formats, "rules", "events.json"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// written compares a generated file with the one in the tree, or writes it.
func written(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join(formats, filepath.FromSlash(name))
	if *updateSchema {
		if err := writeFile(path, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the rules give; run \"go test ./internal/run/trajectory -run Events -update\" and read the diff", path)
	}
}

func writeFile(path string, data []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644))
}

// TestEventsVectors writes docs/formats/vectors/events and compares: payloads of
// every type, and lines.
func TestEventsVectors(t *testing.T) {
	f := eventRules(t)
	var vectors []rules.Vector
	seen := map[Type]int{}
	for i, line := range validEvents(t) {
		e, err := decode(line)
		if err != nil {
			t.Fatal(err)
		}
		hard := i >= len(sample(plainRun))
		if seen[e.Type]++; len(line) > 4<<10 || seen[e.Type] > 1 && !hard || hard && seen[RunStartedType] == 2 && e.Type == RunStartedType {
			continue
		}
		name := string(e.Type)
		if seen[e.Type] > 1 {
			name = fmt.Sprintf("%s-%d", e.Type, seen[e.Type])
		} else {
			vectors = append(vectors, f.Refused(string(e.Type), name, e.payload, 6)...)
		}
		vectors = append(vectors, rules.Accepted(string(e.Type), name, e.payload))
		if e.Type == RunFailedType {
			vectors = append(append(vectors, rules.Accepted("line", "line", line)), f.Refused("line", "line", line, 12)...)
		}
	}
	for _, v := range vectors {
		data := bytes.TrimSuffix(v.Data, []byte("\n"))
		if v.As != "line" {
			e := Event{Seq: 2, Type: Type(v.As)}
			data = e.appendRest(append([]byte(lineStart), data...))
		}
		if err := readAlone(data); (err == nil) != (v.Reason == "") {
			t.Errorf("%s: the program says %v, the vector says %q", v.Name, err, v.Reason)
		}
	}
	compareVectors(t, "events", "Payloads of events, by type, and lines.", vectors)
}

// TestTrajectoryVectors writes docs/formats/vectors/trajectories and compares:
// what no line shows alone.
func TestTrajectoryVectors(t *testing.T) {
	good := string(example(t).Bytes())
	lines := strings.SplitAfter(good, "\n")
	join := func(order ...int) string {
		var b strings.Builder
		for _, i := range order {
			b.WriteString(lines[i])
		}
		return b.String()
	}
	edit := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	vectors := []rules.Vector{
		{Name: "completed.jsonl", As: "trajectory", Data: []byte(good)},
		{Name: "incomplete.jsonl", As: "trajectory", Data: []byte(join(0, 1, 2))},
		{Name: "full-head.jsonl", As: "trajectory", Data: longHead(t, PromptHead)},
		{Name: "long-head.jsonl", As: "trajectory", Reason: "a prompt's head has more than 2048 bytes", Data: longHead(t, PromptHead+1)},
		{Name: "newer.jsonl", As: "trajectory", Reason: "it is in a newer format", Data: newerTrajectory(t)},
	}
	for _, r := range []struct{ name, reason, data string }{
		{"empty", "there is no event", ""},
		{"torn", "the last line has no newline", strings.TrimSuffix(good, "\n")},
		{"dropped", "the chain is broken: a line was dropped", join(0, 1, 3, 4, 5)},
		{"swapped", "the chain is broken: two lines changed places", join(0, 2, 1, 3, 4, 5)},
		{"changed", "the chain is broken: a line was changed", edit(`"amount":100`, `"amount":200`)},
		{"not-first", "it does not begin with run_started", join(1, 2)},
		{"after-the-end", "an event follows run_completed", good + afterTheEnd(t)},
		{"another-turn", "turn is not the number of turns that started", edit(`"seq":2,"t":2,"turn":1`, `"seq":2,"t":2,"turn":2`)},
		{"another-seq", "seq does not count from 1", edit(`"seq":1,`, `"seq":2,`)},
		{"blank", "a line is not canonical JSON", edit(`,"prev"`, `, "prev"`)},
	} {
		vectors = append(vectors, rules.Vector{Name: r.name + ".jsonl", As: "trajectory", Reason: r.reason, Data: []byte(r.data)})
	}
	for _, v := range vectors {
		if _, err := Verify(v.Data, UnsafeAnyHead()); (err == nil) != (v.Reason == "") {
			t.Errorf("%s: the program says %v, the vector says %q", v.Name, err, v.Reason)
		}
	}
	compareVectors(t, "trajectories", "Whole trajectories. No head is asked for.", vectors)
}

// newerTrajectory is a run in a format of a later program, with a member that this
// one does not know.
func newerTrajectory(t *testing.T) []byte {
	line := write(t, []step{{0, started(plainRun)}}, time.Millisecond).Bytes()
	line = bytes.Replace(line, []byte(Format), []byte("tallystick-trajectory/2"), 1)
	return bytes.Replace(line, []byte(`"execution":`), []byte(`"entirely":"new","execution":`), 1)
}

// TestANewerTrajectoryIsCalledNewer: and not invalid, whatever is in it.
func TestANewerTrajectoryIsCalledNewer(t *testing.T) {
	for name, data := range map[string][]byte{
		"with another member": newerTrajectory(t),
		"the same members":    bytes.Replace(write(t, []step{{0, started(plainRun)}}, time.Millisecond).Bytes(), []byte(Format), []byte("tallystick-trajectory/1"), 1),
	} {
		if _, err := Verify(data, UnsafeAnyHead()); !refusal.Is(err, refusal.NewerFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := bytes.Replace(newerTrajectory(t), []byte("tallystick-trajectory"), []byte("another-trajectory"), 1)
	if _, err := Verify(other, UnsafeAnyHead()); !refusal.Is(err, refusal.EntryInvalid) {
		t.Errorf("a stranger's: %v", err)
	}
}

// longHead is a run that begins with a text of so many bytes, all in its head.
func longHead(t *testing.T, size int) []byte {
	t.Helper()
	input := NewContent(bytes.Repeat([]byte("x"), size), ArgumentHead)
	start := started(plainRun)
	start.Input = &input
	e := Event{Seq: 1, Type: RunStartedType, Payload: start}
	line, err := e.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// TestHeadsAreBoundedByTheirKind: prompts have 2 KiB and results 4 KiB, when they
// are written and when they are read.
func TestHeadsAreBoundedByTheirKind(t *testing.T) {
	text := func(n int) Content { return NewContent(bytes.Repeat([]byte("x"), n), ArgumentHead) }
	pointer := func(n int) *Content { c := text(n); return &c }
	for _, c := range []struct {
		limit int
		make  func(n int) Payload
	}{
		{PromptHead, func(n int) Payload { return &TurnStarted{Input: pointer(n)} }},
		{PromptHead, func(n int) Payload {
			return &ModelCallStarted{Call: "c", Model: "m", Provider: "openai", Prompt: text(n)}
		}},
		{PromptHead, func(n int) Payload { return &MemoryRetrieved{Entries: []string{}, Query: pointer(n)} }},
		{ResultHead, func(n int) Payload {
			return &ModelCallCompleted{Call: "c", Output: text(n), Source: "live"}
		}},
		{ResultHead, func(n int) Payload {
			return &ToolExecuted{Args: NewArgs(nil), Call: "c", Name: "n", Result: text(n), Source: "live"}
		}},
		{ResultHead, func(n int) Payload {
			return &ToolObserved{Args: NewArgs(nil), Call: "c", Name: "n", Result: pointer(n), Vantage: Reported}
		}},
		{ResultHead, func(n int) Payload { return &TestRun{Command: []string{"x"}, Output: text(n), Passed: true} }},
		{ArgumentHead, func(n int) Payload { return &Plan{Text: text(n)} }},
	} {
		l := NewLog()
		if _, err := l.Append(0, started(plainRun), 0); err != nil {
			t.Fatal(err)
		}
		turn := 0
		if c.make(1).Type() == TurnStartedType {
			turn = 1
		}
		if _, err := l.Append(turn, c.make(c.limit), 0); err != nil {
			t.Errorf("%s with a head of %d bytes: %v", c.make(1).Type(), c.limit, err)
		}
		if c.limit < ArgumentHead {
			if _, err := l.Append(2*turn, c.make(c.limit+1), 0); err == nil {
				t.Errorf("%s with a head of %d bytes is accepted", c.make(1).Type(), c.limit+1)
			}
		}
	}
	if _, err := Verify(longHead(t, PromptHead+1), UnsafeAnyHead()); err == nil {
		t.Error("a head of more is read")
	}
}

// afterTheEnd is a line that fits the chain of the example and comes too late.
func afterTheEnd(t *testing.T) string {
	e := Event{Seq: 7, Turn: 1, Type: ErrorType, At: time.Second, Payload: &Failure{Name: "n", Detail: "d"}, Prev: example(t).Head()}
	line, err := e.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func compareVectors(t *testing.T, folder, what string, vectors []rules.Vector) {
	t.Helper()
	files, err := rules.Files(rules.Index{What: what}, vectors)
	if err != nil {
		t.Fatal(err)
	}
	write := writeFile
	if !*updateSchema {
		write = nil
	}
	for _, wrong := range rules.Compare(filepath.Join(formats, "vectors", folder), files, write) {
		t.Error(wrong)
	}
}

// TestEventsPage writes the page from the rules, and compares.
func TestEventsPage(t *testing.T) {
	f := eventRules(t)
	data, err := f.Format()
	if err != nil {
		t.Fatal(err)
	}
	written(t, "rules/events.json", data) // in its one layout

	var b strings.Builder
	b.WriteString(`# Events

The payloads of the events of a [trajectory](trajectory.md), which says what each type means. This page is written by a test from [rules/events.json](rules/events.json), which has every rule by which an event is accepted or refused; [rules/README.md](rules/README.md) says how to read it, and the program's checks are written from it too. [vectors/events](vectors/README.md) has events that are accepted and events that are refused.

An event is one line of [canonical JSON](canonical-json.md). Every required member is there, and no member that is not listed. An optional one is left out where there is nothing to say: where it is there, it is neither false nor an empty text, list or object. *count* is a whole number that a double holds exactly; *bytes* are those of UTF-8. The order of events, the chain and the digest of the whole are in trajectory.md.
`)
	for _, typ := range Types() {
		fmt.Fprintf(&b, "\n## %s\n\n%s", typ, f.Table(f.Documents[string(typ)]))
	}
	for _, name := range []string{"content", "args", "reported_score", "sent_file", "line"} {
		fmt.Fprintf(&b, "\n## %s\n\n%s", name, f.Table(f.Shapes[name]))
	}
	written(t, "events.md", []byte(b.String()))
}

// validEvents are lines of every type and of every form of a text.
func validEvents(t testing.TB) [][]byte {
	var out [][]byte
	unseen := started(plainRun)
	unseen.Vantage = ""
	for _, steps := range [][]step{sample(plainRun), hardTexts(), {{0, unseen}, {0, &RunFailed{Name: "n", Detail: "d"}}}, fullEvents()} {
		for line := range bytes.Lines(write(t, steps, time.Millisecond).Bytes()) {
			out = append(out, bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	return out
}

// fullEvents have the members that the others do not.
func fullEvents() []step {
	return []step{
		{0, started(plainRun)},
		{1, &TurnStarted{}},
		{1, &ApprovalResolved{By: "person", Call: "c", Note: "n"}},
		{1, &Failure{Call: "c", Detail: "d", Name: "n", Unpriced: true}},
		{1, &ModelCallCompleted{Call: "c", Error: "e", Output: text("o"), Source: "live", Unpriced: true}},
		{1, &Rollback{Call: "c", Checkpoint: "k", Restored: digest.ContentOf(nil), Standing: []string{"s"}}},
		{1, &TestRun{Command: []string{"c"}, Exit: 1, Ignored: []string{"i"}, Output: text("o")}},
		{1, &ToolProposed{Args: NewArgs(nil), Call: "c", ID: "i", Name: "n"}},
		{1, &ToolExecuted{Args: NewArgs(nil), Call: "c", Error: "e", Name: "n", Result: text("r"), Source: "live"}},
		{1, &TransportRequest{Error: "e", Host: "h", Method: "GET", Protocol: "http"}},
		{1, &TurnCompleted{Answer: textPointer("a"), Scores: []ReportedScore{{Name: "s", Reason: "r", Score: new(0.5)}, {Name: "t", Skipped: true}}}},
		{2, &TurnStarted{By: ByScript, Input: textPointer("i")}},
		{2, &UserMoved{By: ByScript, End: true, Reached: new(true), Say: textPointer("thanks"), Source: "script"}},
		{2, &UserEnded{By: ByScript, Turns: 2, Why: "reached"}},
	}
}

// readAlone is what the program thinks of a line whatever stands before it:
// where the counters of an order cannot be in any trajectory, follow refuses it.
func readAlone(line []byte) error {
	e, err := decode(line)
	if err == nil && (e.Seq < 1 || e.Turn < 0) {
		err = fmt.Errorf("seq %d, turn %d", e.Seq, e.Turn)
	}
	if err == nil { // as the line after the one before it; its place is not its own affair
		if start := e.Type == RunStartedType; start && e.Seq <= MaxEvents {
			e.Seq = 1
		} else if e.Seq == 1 {
			e.Seq = 2
		}
		o := order{seq: e.Seq - 1, turn: e.Turn}
		if e.Type == TurnStartedType {
			o.turn--
		}
		err = o.follow(&e)
	}
	return err
}

// TestEventsKeepTheirRules changes events of every type in thousands of ways:
// the file of rules and the program must think the same of each.
func TestEventsKeepTheirRules(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of documents in one goroutine: nothing for the race detector")
	}
	f := eventRules(t)
	payloads := map[string][][]byte{}
	lines := validEvents(t)
	for _, line := range lines {
		e, err := decode(line)
		if err != nil {
			t.Fatal(err)
		}
		payloads[string(e.Type)] = append(payloads[string(e.Type)], e.payload)
	}
	if unseen := f.Unseen(payloads); len(unseen) > 0 || len(payloads) != len(Types()) {
		t.Errorf("no event here has %s, so nothing is changed in them", unseen)
	}
	tried, accepted := 0, 0
	for _, line := range lines {
		if err := f.Check("line", line); err != nil {
			t.Fatalf("the rules refuse a valid event: %v\n%s", err, line)
		}
		for _, m := range rules.Mutations(line, 60) {
			data, err := canon.Canonicalize(m.Data)
			if err != nil {
				continue
			}
			ours, theirs := readAlone(data), f.Check("line", data)
			tried++
			if ours == nil {
				accepted++
			}
			if (ours == nil) != (theirs == nil) {
				t.Errorf("%s: the program says %v, the rules say %v\n%.400s", m.What, ours, theirs, data)
			}
		}
	}
	t.Logf("%d events tried, %d accepted", tried, accepted)
	if tried < 10_000 || accepted < 1_000 {
		t.Errorf("%d events tried, %d accepted: too few to show anything", tried, accepted)
	}
}
